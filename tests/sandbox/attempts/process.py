"""Reaching other processes, and outliving the sandbox."""

import ctypes
import fcntl
import os
import signal
import subprocess


def _is_victim(pid, world):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return world["victim_marker"].encode() in file.read().split(b"\0")
    except OSError:
        return False


def host_processes_visible(world):
    """host processes visible"""
    numbers = [name for name in os.listdir("/proc") if name.isdigit()]
    return "the victim" if any(_is_victim(number, world) for number in numbers) else None


def host_process_signalled(world):
    """host processes signalled"""
    os.kill(world["victim_pid"], 0)
    return "the victim" if _is_victim(world["victim_pid"], world) else None


def host_process_environment(world):
    """host processes' environ read"""
    with open(f"/proc/{world['victim_pid']}/environ", "rb") as file:
        return "the secret" if world["secret"].encode() in file.read() else None


def _ptrace(request, pid):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(request, pid, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")
    return "traced"


def host_process_traced(world):
    """host processes ptraced"""
    if not _is_victim(world["victim_pid"], world):
        return None
    traced = _ptrace(16, world["victim_pid"])
    os.waitpid(world["victim_pid"], 0x40000000)
    _ptrace(17, world["victim_pid"])
    return traced


def trace_me(world):
    """ptrace(TRACEME)"""
    return _ptrace(0, 0)


def read_memory(world):
    """process_vm_readv"""
    libc = ctypes.CDLL(None, use_errno=True)

    class Piece(ctypes.Structure):
        _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))

    secret, copy = ctypes.create_string_buffer(b"secret"), ctypes.create_string_buffer(6)
    here = Piece(ctypes.cast(copy, ctypes.c_void_p), 6)
    there = Piece(ctypes.cast(secret, ctypes.c_void_p), 6)
    pieces = ctypes.byref(here), ctypes.c_ulong(1), ctypes.byref(there), ctypes.c_ulong(1)
    if libc.process_vm_readv(os.getpid(), *pieces, ctypes.c_ulong(0)) < 0:
        raise OSError(ctypes.get_errno(), "process_vm_readv")
    return "read"


def orphan(world):
    """a setsid orphan after the sandbox ends"""
    quiet = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
    }
    script = "trap '' TERM HUP; sleep 600; :"
    subprocess.Popen(["sh", "-c", script, world["orphan_marker"]], start_new_session=True, **quiet)


def _terminal(request):
    for path in ("/dev/tty", "/dev/pts/0", "/dev/console"):
        try:
            terminal = os.open(path, os.O_RDWR | os.O_NOCTTY)
        except OSError:
            continue
        fcntl.ioctl(terminal, request, b"\n")
        return f"typed into {path}"
    _main, side = os.openpty()
    os.setsid()
    fcntl.ioctl(side, 0x540E, 0)
    fcntl.ioctl(side, request, b"\n")
    return "typed into a new terminal"


def type_into_the_terminal(world):
    """TIOCSTI"""
    return _terminal(0x5412)


def paste_into_the_terminal(world):
    """TIOCLINUX"""
    return _terminal(0x541C)


def shared_memory_segment(world):
    """SysV shared memory of the host"""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.shmget(world["shared_memory_key"], 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "shmget")
    return "found"


def report_another_exit_code(world):
    """the exit code forged through the first process's descriptors"""
    for name in os.listdir("/proc/1/fd"):
        if int(name) > 2:
            target = os.readlink(f"/proc/1/fd/{name}")
            descriptor = os.open(f"/proc/1/fd/{name}", os.O_RDWR)
            os.write(descriptor, b"\1\0\0\0\0\0\0\0")
            return target
    return None


def first_process_killed(world):
    """the sandbox's first process killed from inside"""
    os.kill(1, signal.SIGSTOP)
    os.kill(1, signal.SIGKILL)
    return None if os.path.exists("/proc/1/stat") else "killed"
