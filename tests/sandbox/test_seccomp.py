"""The filter, interpreted step by step: what it says to every call on both architectures."""

import errno
import re
import stat
from pathlib import Path

import pytest

from silas.sandbox import seccomp

ALLOW, ERRNO = 0x7FFF0000, 0x00050000
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
MACHINES = pytest.mark.parametrize("machine", ARCHITECTURES)
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}


def judge(machine: str, number: int, *arguments: int, architecture: int | None = None) -> int:
    """What the kernel would answer: 0 for allowed, else an errno."""
    data = {0: number, 4: ARCHITECTURES[machine] if architecture is None else architecture}
    for index, argument in enumerate(arguments):
        data[16 + 8 * index] = argument & 0xFFFFFFFF
    program = seccomp.assemble(machine)
    accumulator, step = 0, 0
    while True:
        instruction = program[step]
        step += 1
        match instruction.code:
            case 0x20:
                accumulator = data.get(instruction.value, 0)
            case 0x54:
                accumulator &= instruction.value
            case 0x15:
                equal = accumulator == instruction.value
                step += instruction.if_true if equal else instruction.if_false
            case 0x35:
                at_least = accumulator >= instruction.value
                step += instruction.if_true if at_least else instruction.if_false
            case 0x06:
                assert instruction.value == ALLOW or instruction.value & ~0xFFFF == ERRNO
                return 0 if instruction.value == ALLOW else instruction.value & 0xFFFF
            case code:
                raise AssertionError(code)


def number(name: str, machine: str) -> int | None:
    return getattr(seccomp.ALL[name], machine)


@MACHINES
def test_what_is_not_named_is_allowed(machine):
    named = {number(name, machine) for name in seccomp.ALL}
    for call in set(range(600)) - named:
        assert judge(machine, call) == 0


@MACHINES
@pytest.mark.parametrize("name", seccomp.REFUSED)
def test_what_nothing_needs_is_not_permitted(machine, name):
    if number(name, machine) is not None:
        assert judge(machine, number(name, machine)) == errno.EPERM


@MACHINES
@pytest.mark.parametrize("name", seccomp.ABSENT)
def test_what_cannot_be_judged_does_not_exist(machine, name):
    assert judge(machine, number(name, machine)) == errno.ENOSYS


@MACHINES
def test_another_architecture_has_no_calls(machine):
    for call in (0, 1, 39, 231):
        assert judge(machine, call, architecture=0x40000003) == errno.ENOSYS


def test_the_x32_calls_do_not_exist():
    for call in (0x40000000, 0x40000027, 0x7FFFFFFF):
        assert judge("x86_64", call) == errno.ENOSYS


@MACHINES
@pytest.mark.parametrize(
    ("call", "arguments", "allowed"),
    [
        ("clone", (0x00010F00,), True),
        ("clone", (0x01200011,), True),
        ("clone", (0x10000011,), False),
        ("clone", (0x40000011,), False),
        ("clone", (0x20000000,), False),
        ("clone", (0x00020000,), False),
        ("socket", (2, 1), True),
        ("socket", (10, 2), True),
        ("socket", (1, 1), False),
        ("socket", (16, 3), False),
        ("socket", (17, 3), False),
        ("socket", (38, 5), False),
        ("socket", (40, 1), False),
        ("ioctl", (0, 0x5401), True),
        ("ioctl", (0, 0x5412), False),
        ("ioctl", (0, 0x541C), False),
        ("ioctl", (0, 0xDEAD00000000_5412 & 0xFFFFFFFFFFFFFFFF), False),
        ("mknodat", (0, 0, stat.S_IFREG | 0o644), True),
        ("mknodat", (0, 0, 0o644), True),
        ("mknodat", (0, 0, stat.S_IFIFO | 0o644), False),
        ("mknodat", (0, 0, stat.S_IFCHR | 0o644), False),
        ("mknodat", (0, 0, stat.S_IFSOCK | 0o644), False),
        ("mknod", (0, stat.S_IFBLK), False),
        ("mknod", (0, stat.S_IFREG), True),
        ("chmod", (0, 0o755), True),
        ("chmod", (0, 0o4755), False),
        ("fchmod", (0, 0o4000), False),
        ("fchmodat", (0, 0, 0o6755), False),
        ("fchmodat2", (0, 0, 0o4755), False),
        ("fchmodat", (0, 0, 0o2755), True),
        ("openat", (0, 0, 0, 0o4755), True),
        ("openat", (0, 0, 0o101, 0o644), True),
        ("openat", (0, 0, 0o101, 0o4755), False),
        ("openat", (0, 0, 0o20200002, 0o4755), False),
        ("open", (0, 0o100, 0o4755), False),
        ("open", (0, 0o100, 0o755), True),
        ("creat", (0, 0o4755), False),
    ],
)
def test_judged_by_their_arguments(machine, call, arguments, allowed):
    if number(call, machine) is not None:
        verdict = judge(machine, number(call, machine), *arguments)
        assert verdict == (0 if allowed else errno.EPERM)


def test_every_judged_call_has_a_rule():
    assert {rule.call for rule in seccomp.RULES} == set(seccomp.JUDGED)


@MACHINES
def test_every_jump_stays_inside(machine):
    program = seccomp.assemble(machine)
    for index, instruction in enumerate(program):
        assert 0 <= instruction.if_true <= 255
        assert 0 <= instruction.if_false <= 255
        if instruction.code in {0x15, 0x35}:
            assert index + 1 + max(instruction.if_true, instruction.if_false) < len(program)
    assert len(program) < 4096
    assert len(seccomp.filter_program(machine)) == 8 * len(program)


def test_other_machines_are_not_supported():
    assert not seccomp.supported("riscv64")


@MACHINES
def test_the_numbers_are_those_of_the_kernel_headers(machine):
    """Where the kernel's headers are not installed, there is nothing to compare with."""
    path = HEADERS[machine]
    text = path.read_text() if path.exists() else ""
    found = re.findall(r"^#define __NR(?:3264)?_(\w+)\s+(\d+)", text, re.MULTILINE)
    theirs = {name: int(value) for name, value in found}
    for name in set(theirs) & set(seccomp.ALL):
        assert theirs[name] == number(name, machine), name
