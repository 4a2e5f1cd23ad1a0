"""A system call filter: a small BPF assembler, and the rules for sandboxed commands.

1. Calls of another architecture and of the x32 ABI do not exist (ENOSYS): their numbers mean
   something else, so no rule below would fit them.
2. What nothing needs (`syscalls.REFUSED`) is not permitted (EPERM).
3. `clone3`, `openat2` and `memfd_create` do not exist (ENOSYS). The first two hide their arguments
   behind a pointer; C libraries fall back to calls that can be judged. The third makes programs
   that no file system rule sees.
4. A new namespace is not permitted, in whatever way it is asked for.
5. Sockets are IPv4 or IPv6. Unix sockets reach services of the host (a pathname in a visible
   directory, or an abstract name when the network is shared); `socketpair` stays.
6. Device nodes, FIFOs and sockets cannot be made: whoever reads the output could be made to hang.
7. No file gets the set-user-id bit: it would outlive the sandbox.
8. Nothing is typed into a terminal (TIOCSTI, TIOCLINUX).

A list of what is allowed would be stronger on paper; it breaks with every new C library, and is
then switched off. Namespaces and dropped privileges are the wall; this filter makes it smooth.
"""

import errno
import platform
import stat
import struct
from dataclasses import dataclass
from functools import cache

from silas.sandbox import syscalls

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_JUMP_EQUAL, _JUMP_AT_LEAST = 0x15, 0x35
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_X32_BIT = 0x40000000
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000

_NEW_NAMESPACE = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000
_NEW_NAMESPACE |= 0x40000000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_AF_INET, _AF_INET6 = 2, 10
_MAKES_A_FILE = 0o100 | 0o20000000  # O_CREAT, and the bit of O_TMPFILE that is its own
_WORD = 0xFFFFFFFF


@dataclass(frozen=True)
class Condition:
    """Whether an argument, masked, is (or is not) one of some values."""

    argument: int
    values: tuple[int, ...]
    mask: int = _WORD
    inside: bool = True


@dataclass(frozen=True)
class Rule:
    """A call that is refused when every condition holds."""

    call: str
    conditions: tuple[Condition, ...]


_NODE_KINDS = (0, stat.S_IFREG)

RULES: tuple[Rule, ...] = (
    Rule("clone", (Condition(0, (0,), _NEW_NAMESPACE, inside=False),)),
    Rule("socket", (Condition(0, (_AF_INET, _AF_INET6), inside=False),)),
    Rule("ioctl", (Condition(1, (_TIOCSTI, _TIOCLINUX)),)),
    Rule("mknod", (Condition(1, _NODE_KINDS, stat.S_IFMT(_WORD), inside=False),)),
    Rule("mknodat", (Condition(2, _NODE_KINDS, stat.S_IFMT(_WORD), inside=False),)),
    Rule("chmod", (Condition(1, (stat.S_ISUID,), stat.S_ISUID),)),
    Rule("fchmod", (Condition(1, (stat.S_ISUID,), stat.S_ISUID),)),
    Rule("fchmodat", (Condition(2, (stat.S_ISUID,), stat.S_ISUID),)),
    Rule("fchmodat2", (Condition(2, (stat.S_ISUID,), stat.S_ISUID),)),
    Rule("creat", (Condition(1, (stat.S_ISUID,), stat.S_ISUID),)),
    Rule(
        "open",
        (
            Condition(1, (0,), _MAKES_A_FILE, inside=False),
            Condition(2, (stat.S_ISUID,), stat.S_ISUID),
        ),
    ),
    Rule(
        "openat",
        (
            Condition(2, (0,), _MAKES_A_FILE, inside=False),
            Condition(3, (stat.S_ISUID,), stat.S_ISUID),
        ),
    ),
)


@dataclass(frozen=True)
class Instruction:
    """One step of classic BPF: jumps count the instructions that are skipped."""

    code: int
    value: int
    if_true: int = 0
    if_false: int = 0

    def packed(self) -> bytes:
        return struct.pack("=HBBI", self.code, self.if_true, self.if_false, self.value)


def supported(machine: str | None = None) -> bool:
    """Whether this filter knows the machine's system call numbers."""
    return (machine or platform.machine()) in _ARCHITECTURES


@cache
def filter_program(machine: str | None = None) -> bytes:
    """The filter as the kernel (and `bwrap --seccomp`) reads it."""
    return b"".join(step.packed() for step in assemble(machine or platform.machine()))


def assemble(machine: str) -> list[Instruction]:
    """The filter's instructions: rule 1, then a search for the call's number."""
    program = [
        Instruction(_LOAD, _ARCHITECTURE),
        Instruction(_JUMP_EQUAL, _ARCHITECTURES[machine], if_true=1),
        _refuse(errno.ENOSYS),
        Instruction(_LOAD, _NUMBER),
    ]
    if machine == "x86_64":
        program += [Instruction(_JUMP_AT_LEAST, _X32_BIT, if_false=1), _refuse(errno.ENOSYS)]
    return program + _search(sorted(_answers(machine).items()))


def _answers(machine: str) -> dict[int, list[Instruction]]:
    """What to do for each number that is not simply allowed."""
    answers = {name: [_refuse(errno.ENOSYS)] for name in syscalls.ABSENT}
    answers |= {name: [_refuse(errno.EPERM)] for name in syscalls.REFUSED}
    answers |= {rule.call: _judged(rule.conditions) for rule in RULES}
    numbers = {name: getattr(syscalls.ALL[name], machine) for name in answers}
    return {numbers[name]: steps for name, steps in answers.items() if numbers[name] is not None}


def _search(answers: list[tuple[int, list[Instruction]]]) -> list[Instruction]:
    """Halve the numbers until one is left.

    The kernel walks through the filter once for every system call there is, each time a sandbox
    starts; one long list would cost a noticeable part of a millisecond.
    """
    if len(answers) == 1:
        number, steps = answers[0]
        return [Instruction(_JUMP_EQUAL, number, if_false=len(steps)), *steps, _PERMIT]
    middle = len(answers) // 2
    lower, upper = _search(answers[:middle]), _search(answers[middle:])
    return [Instruction(_JUMP_AT_LEAST, answers[middle][0], if_true=len(lower)), *lower, *upper]


def _judged(conditions: tuple[Condition, ...]) -> list[Instruction]:
    """Refuse if every condition holds, else permit."""
    # Built from the end: a condition that does not hold jumps over what follows.
    body = [_refuse(errno.EPERM)]
    for condition in reversed(conditions):
        body = _condition(condition, over=len(body)) + body
    return body


def _condition(condition: Condition, *, over: int) -> list[Instruction]:
    """Falls through when the condition holds, else skips `over` instructions."""
    # Arguments are 64 bits wide; the kernel reads these as 32, so only the low word counts.
    steps = [
        Instruction(_LOAD, _FIRST_ARGUMENT + 8 * condition.argument),
        Instruction(_AND, condition.mask),
    ]
    for index, value in enumerate(condition.values):
        left = len(condition.values) - index - 1
        hit = left if condition.inside else left + over
        miss = over if condition.inside and not left else 0
        steps.append(Instruction(_JUMP_EQUAL, value, if_true=hit, if_false=miss))
    return steps


def _refuse(error: int) -> Instruction:
    return Instruction(_RETURN, _ERRNO | error)


_PERMIT = Instruction(_RETURN, _ALLOW)
