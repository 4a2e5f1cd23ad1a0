"""Writing where somebody else will read, or execute."""

import ctypes
import os
import stat

# What is written to a path of the host is looked for on the host: the sandbox may have a private
# directory of the same name, and writing there is no escape.


def _write(path, text="planted"):
    with open(path, "w") as file:
        file.write(text)
    return f"wrote {path}"


def shell_start_files(world):
    """shell rc files"""
    _write(world["home"] + "/.bashrc")


def python_start_files(world):
    """python user-site .pth"""
    directory = world["home"] + "/.local/lib/python3/site-packages"
    os.makedirs(directory, exist_ok=True)
    _write(directory + "/evil.pth")


def temporary_files_of_the_host(world):
    """host /tmp"""
    _write(f"/tmp/planted-{world['secret']}")


def shared_memory_of_the_host(world):
    """host /dev/shm"""
    _write(f"/dev/shm/planted-{world['secret']}")


def through_a_symlink(world):
    """the same through a symlink"""
    link = world["workspace"] + "/link-to-home"
    _write(link + "/planted-through-link")


def _protected(world, name):
    got = []
    for workspace in (world["workspace"], world["bare_workspace"]):
        try:
            os.makedirs(os.path.dirname(f"{workspace}/{name}"), exist_ok=True)
            got.append(_write(f"{workspace}/{name}"))
        except OSError:
            continue
    return " ".join(got)


def git_hooks(world):
    """.git/hooks inside the workspace, existing or not"""
    return _protected(world, ".git/hooks/pre-commit")


def git_configuration(world):
    """.git/config inside the workspace, existing or not"""
    return _protected(world, ".git/config")


def git_moved_aside(world):
    """.git moved aside and made anew"""
    os.rename(world["workspace"] + "/.git", world["workspace"] + "/.git-old")
    return "moved"


def silas_settings(world):
    """.silas/ inside the workspace, existing or not"""
    return _protected(world, ".silas/silas.yaml")


def mcp_settings(world):
    """.mcp.json inside the workspace, existing or not"""
    return _protected(world, ".mcp.json")


def editor_settings(world):
    """.vscode/ inside the workspace, existing or not"""
    return _protected(world, ".vscode/tasks.json")


def fifo_in_the_output(world):
    """FIFO in the output directory"""
    os.mkfifo(world["workspace"] + "/fifo")
    return "made"


def device_in_the_output(world):
    """device node in the output directory"""
    path = world["workspace"] + "/device"
    os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    return "made"


def set_user_id_in_the_output(world):
    """set-user-id program in the output directory"""
    path = world["workspace"] + "/set-user-id"
    _write(path)
    os.chmod(path, 0o4755)
    return "made"


def remount_read_write(world):
    """remount read-write"""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(None, b"/usr", None, 32 | 4096, None) != 0:
        raise OSError(ctypes.get_errno(), "mount")
    return "remounted"
