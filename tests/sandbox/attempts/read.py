"""Reading what was not listed."""

import ctypes
import os


def _read(path):
    with open(path, "rb") as file:
        return file.read(200).decode(errors="replace")


def ssh_keys(world):
    """~/.ssh"""
    return _read(world["home"] + "/.ssh/id_ed25519")


def data_directory(world):
    """Silas's keys and data_dir"""
    return _read(world["data_dir"] + "/vault.json")


def passwords_of_the_host(world):
    """/etc/passwd of the host"""
    return "root" if "root:" in _read("/etc/passwd") else None


def other_files_in_tmp(world):
    """other files in /tmp"""
    return _read(world["other_file"])


def through_a_symlink(world):
    """the same through a symlink"""
    return _read(world["workspace"] + "/link-to-secret")


def through_a_hard_link(world):
    """the same through a hard link"""
    link = world["workspace"] + "/hard-link"
    os.link(world["home"] + "/.ssh/id_ed25519", link)
    return _read(link)


def through_dot_dot(world):
    """the same through `..`"""
    up = "/".join([".."] * 30)
    return _read(f"{world['workspace']}/{up}{world['home']}/.ssh/id_ed25519")


def through_proc_root(world):
    """the same through /proc/1/root"""
    return _read("/proc/1/root" + world["home"] + "/.ssh/id_ed25519")


def through_mountinfo(world):
    """directories of the host named in /proc/self/mountinfo"""
    with open("/proc/self/mountinfo") as file:
        sources = {line.split()[3] for line in file}
    listed = [world["workspace"], world["bare_workspace"]]
    for source in sorted(sources - {"/"}):
        above = os.path.dirname(source)
        if any(source.startswith(path) for path in listed) and os.path.exists(world["home"]):
            return f"{above} leads to {world['home']}"
    return None


def by_file_handle(world):
    """open_by_handle_at"""
    libc = ctypes.CDLL(None, use_errno=True)

    class Handle(ctypes.Structure):
        _fields_ = (("size", ctypes.c_uint), ("kind", ctypes.c_int), ("data", ctypes.c_char * 128))

    handle, mount = Handle(size=128), ctypes.c_int()
    path = world["workspace"].encode()
    if libc.name_to_handle_at(-100, path, ctypes.byref(handle), ctypes.byref(mount), 0) != 0:
        raise OSError(ctypes.get_errno(), "name_to_handle_at")
    directory = os.open(world["workspace"], os.O_RDONLY)
    opened = libc.open_by_handle_at(directory, ctypes.byref(handle), 0)
    if opened < 0:
        raise OSError(ctypes.get_errno(), "open_by_handle_at")
    return "opened"
