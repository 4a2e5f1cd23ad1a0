"""Parts of the kernel with a long history of flaws."""

import ctypes
import os
import platform

_X86 = platform.machine() == "x86_64"


def _call(name, x86_64, aarch64, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(x86_64 if _X86 else aarch64, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return f"{name}: {result}"


def io_uring(world):
    """io_uring"""
    return _call("io_uring_setup", 425, 425, 1, ctypes.create_string_buffer(256))


def bpf(world):
    """bpf"""
    return _call(
        "bpf", 321, 280, 0, ctypes.create_string_buffer(b"\1\0\0\0\4\0\0\0\4\0\0\0\1", 128), 128
    )


def userfaultfd(world):
    """userfaultfd"""
    return _call("userfaultfd", 323, 282, 1)


def perf_event_open(world):
    """perf_event_open"""
    attributes = ctypes.create_string_buffer(b"\1\0\0\0\x80\0\0\0", 128)
    return _call("perf_event_open", 298, 241, attributes, 0, -1, -1, 0)


def keyctl(world):
    """keyctl"""
    return _call("keyctl", 250, 219, 0, -3, 1)


def x32_calls(world):
    """x32 ABI"""
    if not _X86:
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(0x40000000 | 39) < 0:
        raise OSError(ctypes.get_errno(), "x32 getpid")
    return "answered"


def kernel_log(world):
    """kernel log"""
    buffer = ctypes.create_string_buffer(1000)
    return _call("syslog", 103, 116, 3, buffer, 1000)


def kernel_log_device(world):
    """kernel log in /dev/kmsg"""
    descriptor = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    return os.read(descriptor, 100).decode(errors="replace")
