"""Gaining rights."""

import ctypes
import os
import platform
import subprocess

_X86 = platform.machine() == "x86_64"


def _status(name):
    with open("/proc/self/status") as file:
        return next(line.split()[1] for line in file if line.startswith(name + ":"))


def new_privileges(world):
    """NoNewPrivs"""
    return None if _status("NoNewPrivs") == "1" else "0"


def capabilities(world):
    """effective capabilities"""
    return None if int(_status("CapEff"), 16) == 0 else _status("CapEff")


def set_user_id_programs(world):
    """setuid binaries"""
    for path in ("/usr/bin/su", "/usr/bin/passwd", "/usr/bin/mount", "/usr/bin/chsh"):
        if os.path.exists(path) and os.stat(path).st_mode & 0o4000:
            flags = os.statvfs(path).f_flag
            no_new = _status("NoNewPrivs") == "1"
            return None if flags & os.ST_NOSUID or no_new else path
    return None


def _checked(name, result):
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return "done"


def nested_user_namespace(world):
    """nested user namespace by unshare"""
    libc = ctypes.CDLL(None, use_errno=True)
    return _checked("unshare", libc.unshare(0x10000000))


def nested_user_namespace_by_clone(world):
    """nested user namespace by clone"""
    libc = ctypes.CDLL(None, use_errno=True)
    pid = libc.syscall(56 if _X86 else 220, 0x10000000 | 17, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    return _checked("clone", pid)


def nested_user_namespace_by_clone3(world):
    """nested user namespace by clone3"""
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = (ctypes.c_uint64 * 11)(0x10000000, 0, 0, 0, 17)
    pid = libc.syscall(435, arguments, 88)
    if pid == 0:
        os._exit(0)
    return _checked("clone3", pid)


def mount_a_file_system(world):
    """mount"""
    libc = ctypes.CDLL(None, use_errno=True)
    return _checked("mount", libc.mount(b"none", b"/tmp", b"tmpfs", 0, None))


def pivot_the_root(world):
    """pivot_root"""
    libc = ctypes.CDLL(None, use_errno=True)
    return _checked("pivot_root", libc.syscall(155 if _X86 else 41, b"/tmp", b"/tmp"))


def virtual_machines(world):
    """/dev/kvm"""
    return os.close(os.open("/dev/kvm", os.O_RDWR)) or "opened"


def user_file_systems(world):
    """/dev/fuse"""
    return os.close(os.open("/dev/fuse", os.O_RDWR)) or "opened"


def physical_memory(world):
    """/dev/mem"""
    return os.close(os.open("/dev/mem", os.O_RDONLY)) or "opened"


def kernel_settings(world):
    """writing /proc/sys"""
    path = "/proc/sys/vm/swappiness"
    with open(path) as file:
        value = file.read()
    with open(path, "w") as file:
        file.write(value)
    return "written"


def control_groups(world):
    """writing cgroups"""
    for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/pids"):
        try:
            os.mkdir(f"{root}/escape-{os.getpid()}")
        except OSError:
            continue
        os.rmdir(f"{root}/escape-{os.getpid()}")
        return root
    return None


def fileless_execution(world):
    """a program executed from memory alone"""
    descriptor = os.memfd_create("program", 0)
    with open("/bin/true", "rb") as file:
        os.write(descriptor, file.read())
    code = subprocess.run(
        [f"/proc/self/fd/{descriptor}"], pass_fds=[descriptor], check=False
    ).returncode
    return "executed" if code == 0 else None
