"""A system call filter: a small BPF assembler, and the rules for sandboxed commands.

1. Calls of another architecture and of the x32 ABI do not exist (ENOSYS): their numbers mean
   something else, so no rule below would fit them.
2. What nothing needs (`REFUSED`) is not permitted (EPERM).
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

System calls that nothing in a sandbox needs, with their numbers on each architecture.

The numbers come from the kernel's headers (`asm/unistd_64.h` for x86_64, `asm-generic/unistd.h`
for aarch64) and never change. `None` means that the architecture does not have the call.
"""

import errno
import platform
import stat
import struct
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple


class Numbers(NamedTuple):
    """One system call's number per architecture."""

    x86_64: int | None
    aarch64: int | None


def _table(**calls: tuple[int | None, int | None]) -> dict[str, Numbers]:
    return {name: Numbers(*numbers) for name, numbers in calls.items()}


LOOKING_INTO_PROCESSES = _table(
    ptrace=(101, 117),
    process_vm_readv=(310, 270),
    process_vm_writev=(311, 271),
    kcmp=(312, 272),
    # With it, a command could take the file descriptor through which bubblewrap's first process
    # reports the exit code.
    pidfd_getfd=(438, 438),
)
MOUNTS = _table(
    mount=(165, 40),
    umount2=(166, 39),
    pivot_root=(155, 41),
    chroot=(161, 51),
    move_mount=(429, 429),
    open_tree=(428, 428),
    open_tree_attr=(467, 467),
    fsopen=(430, 430),
    fsconfig=(431, 431),
    fsmount=(432, 432),
    fspick=(433, 433),
    mount_setattr=(442, 442),
)
NAMESPACES = _table(unshare=(272, 97), setns=(308, 268))
KEYS = _table(add_key=(248, 217), request_key=(249, 218), keyctl=(250, 219))
KERNEL_INTERFACES = _table(
    bpf=(321, 280),
    io_uring_setup=(425, 425),
    io_uring_enter=(426, 426),
    io_uring_register=(427, 427),
    userfaultfd=(323, 282),
    perf_event_open=(298, 241),
    fanotify_init=(300, 262),
    kexec_load=(246, 104),
    kexec_file_load=(320, 294),
    init_module=(175, 105),
    finit_module=(313, 273),
    delete_module=(176, 106),
    create_module=(174, None),
    query_module=(178, None),
    get_kernel_syms=(177, None),
    syslog=(103, 116),
    lookup_dcookie=(212, 18),
    nfsservctl=(180, 42),
    sysfs=(139, None),
    _sysctl=(156, None),
    uselib=(134, None),
    ustat=(136, None),
    modify_ldt=(154, None),
    move_pages=(279, 239),
    migrate_pages=(256, 238),
)
FILE_HANDLES = _table(name_to_handle_at=(303, 264), open_by_handle_at=(304, 265))
THE_MACHINE = _table(
    reboot=(169, 142),
    swapon=(167, 224),
    swapoff=(168, 225),
    quotactl=(179, 60),
    quotactl_fd=(443, 443),
    acct=(163, 89),
    settimeofday=(164, 170),
    clock_settime=(227, 112),
    clock_adjtime=(305, 266),
    adjtimex=(159, 171),
    sethostname=(170, 161),
    setdomainname=(171, 162),
    iopl=(172, None),
    ioperm=(173, None),
    vhangup=(153, 58),
)

# Refused with "no such system call", so that a C library falls back to a call that can be judged.
ABSENT = _table(
    clone3=(435, 435),
    openat2=(437, 437),
    memfd_create=(319, 279),
    memfd_secret=(447, 447),
)

# Allowed or refused by their arguments: see the rules in `seccomp`.
JUDGED = _table(
    clone=(56, 220),
    socket=(41, 198),
    ioctl=(16, 29),
    mknod=(133, None),
    mknodat=(259, 33),
    chmod=(90, None),
    fchmod=(91, 52),
    fchmodat=(268, 53),
    fchmodat2=(452, 452),
    open=(2, None),
    openat=(257, 56),
    creat=(85, None),
)

REFUSED = (
    LOOKING_INTO_PROCESSES
    | MOUNTS
    | NAMESPACES
    | KEYS
    | KERNEL_INTERFACES
    | FILE_HANDLES
    | THE_MACHINE
)
ALL = REFUSED | ABSENT | JUDGED


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
    answers = {name: [_refuse(errno.ENOSYS)] for name in ABSENT}
    answers |= {name: [_refuse(errno.EPERM)] for name in REFUSED}
    answers |= {rule.call: _judged(rule.conditions) for rule in RULES}
    numbers = {name: getattr(ALL[name], machine) for name in answers}
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
