"""What a sandbox sees of the machine: programs and libraries, the paths it is given, nobody's data.

A verification check sees what the worker left, and nothing else. Rules, each of which a worker
could otherwise use to influence the check:

1. The check runs in a sandbox of its own; nothing of the worker's sandbox is alive any more.
2. Artifacts are read-only. The check writes to a scratch directory that the worker never saw.
3. PATH is fixed and holds system directories alone; a file named like a tool is not found.
4. Python takes no user site packages, no start-up file and no path from the environment.
5. git obeys no configuration of the user or the system, no hook and no file system monitor.

A path of the host is opened without following any link and must be its own real path; from then on
it does not matter what is put in its place. Only directories and regular files can be shown: a
socket or a device would be a door.

In a writable directory, names that other programs execute or obey (`.git`, `.vscode` and the like)
are read-only. One that exists is shown as it is, read-only. One that does not exist could be
created, and a mount needs something to stand on: an empty placeholder is made for the time of the
run and taken away afterwards. Several runs can share it: each holds a shared lock, and the last
one removes it. A placeholder that a killed Silas left behind is known by its mode and its
emptiness, and goes with the next run.

The whole of `.git` is covered, not only its hooks and configuration: `.git/commondir` and
`.git/modules` lead git to other configuration files, and `.git` itself could be moved aside.
"""

import errno
import fcntl
import os
import stat
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import MappingProxyType

from silas.egress import PORT
from silas.sandbox.errors import PathRefused
from silas.sandbox.models import (
    TEMPORARY,
    SandboxLimits,
    SandboxRequest,
    checked_request,
    is_within,
)

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
USER_ID = 1000
HOSTNAME = "sandbox"

_USER = "user"
ETC_FILES: dict[str, str] = {
    "/etc/passwd": f"{_USER}:x:{USER_ID}:{USER_ID}:{_USER}:{TEMPORARY}:/bin/sh\n",
    "/etc/group": f"{_USER}:x:{USER_ID}:\n",
    "/etc/hosts": f"127.0.0.1 localhost {HOSTNAME}\n::1 localhost {HOSTNAME}\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
_SYSTEM_ROOTS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/alternatives")
# Never the whole of /etc/ssl: it also holds private keys.
_NETWORK_FILES = (
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust",
)


def variables(request: SandboxRequest) -> dict[str, str]:
    """The command's whole environment: a small fixed one, and what the request says."""
    return {
        "PATH": SYSTEM_PATH,
        "HOME": TEMPORARY,
        "TMPDIR": TEMPORARY,
        "LANG": "C.UTF-8",
        "PYTHONNOUSERSITE": "1",
        # A worker that only runs tests leaves nothing that the owner would be asked about.
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_ADDOPTS": "-p no:cacheprovider",
        **request.env,
        **proxy_environment(request),
    }


def proxy_environment(request: SandboxRequest) -> dict[str, str]:
    """How programs find the way out. What a request says instead would lead nowhere."""
    if not request.reaches_out:
        return {}
    names = ("http_proxy", "https_proxy", "all_proxy")
    values = dict.fromkeys(names, f"http://127.0.0.1:{PORT}") | {"no_proxy": ""}
    return values | {name.upper(): value for name, value in values.items()}


@cache
def system_links() -> dict[str, str]:
    """Directories of the root that are links on this machine (`/bin` to `usr/bin`)."""
    links = [Path(root) for root in _SYSTEM_ROOTS if Path(root).is_symlink()]
    return {str(link): str(link.readlink()) for link in links}


@cache
def system_directories() -> tuple[str, ...]:
    """Directories with programs and libraries, shown read-only."""
    roots = [root for root in _SYSTEM_ROOTS if Path(root).is_dir() and not Path(root).is_symlink()]
    return ("/usr", *roots, *python_prefix())


@cache
def python_prefix() -> tuple[str, ...]:
    """The Python that runs Silas, if it lives outside the system's directories."""
    prefix = str(Path(sys.base_prefix).resolve())
    holds_home = is_within(str(Path.home().resolve()), prefix)
    if prefix == "/" or is_within(prefix, "/usr") or holds_home:
        return ()
    return (prefix,)


@cache
def always_hidden() -> tuple[str, ...]:
    """The home directory and Silas's own code, wherever they are installed."""
    package = Path(__file__).resolve().parent.parent
    return str(Path.home().resolve()), str(package)


def python_executable() -> str:
    """A Python that exists inside every sandbox."""
    if not python_prefix() and not is_within(str(Path(sys.base_prefix).resolve()), "/usr"):
        return "/usr/bin/python3"
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return str(Path(sys.base_prefix).resolve() / "bin" / name)


@cache
def configuration_files(*, network: bool) -> tuple[str, ...]:
    """Files below /etc that programs need; those for the network only with it."""
    names = (*_SYSTEM_FILES, *_NETWORK_FILES) if network else _SYSTEM_FILES
    return tuple(name for name in names if Path(name).exists())


_GIT_SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.sshCommand": "false",
    "protocol.allow": "never",
    # The artifacts belong to the worker's user, who is not the check's in every backend.
    "safe.directory": "*",
}


def _git_environment() -> dict[str, str]:
    numbered = {"GIT_CONFIG_COUNT": str(len(_GIT_SETTINGS))}
    for index, (name, value) in enumerate(_GIT_SETTINGS.items()):
        numbered |= {f"GIT_CONFIG_KEY_{index}": name, f"GIT_CONFIG_VALUE_{index}": value}
    return {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        **numbered,
    }


HARDENED_ENVIRONMENT: Mapping[str, str] = MappingProxyType(
    {
        "PATH": SYSTEM_PATH,
        "PYTHONNOUSERSITE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONSAFEPATH": "1",
        **_git_environment(),
    }
)


def verification_request(
    argv: Sequence[str],
    *,
    artifacts: Sequence[str],
    scratch: str,
    cwd: str | None = None,
    network: Sequence[str] = (),
    limits: SandboxLimits,
) -> SandboxRequest:
    """One check as a request: artifacts to read, a scratch directory to write and work in."""
    return checked_request(
        argv=tuple(argv),
        env={**HARDENED_ENVIRONMENT, "HOME": scratch, "TMPDIR": scratch},
        cwd=cwd or scratch,
        read=tuple(artifacts),
        write=(scratch,),
        network=tuple(network),
        limits=limits,
    )


class PlaceholderKind(StrEnum):
    """What a placeholder for a missing name looks like."""

    FILE = "file"
    DIRECTORY = "directory"


PROTECTED: dict[str, PlaceholderKind] = {
    ".git": PlaceholderKind.DIRECTORY,
    ".mcp.json": PlaceholderKind.FILE,
    ".silas": PlaceholderKind.DIRECTORY,
    ".vscode": PlaceholderKind.DIRECTORY,
}

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FORMATS = {PlaceholderKind.FILE: stat.S_IFREG, PlaceholderKind.DIRECTORY: stat.S_IFDIR}
_WRITE_BITS = 0o222
_CANNOT_BE_MADE = {errno.EROFS, errno.EACCES, errno.EPERM}
_MAX_TRIES = 100


@dataclass(frozen=True)
class Pin:
    """An open path, and whether the sandbox may write to it."""

    path: str
    descriptor: int
    writable: bool


def pin_all(request: SandboxRequest, stack: ExitStack) -> list[Pin]:
    """Every path of the request, outer ones before those inside them; the stack lets them go.

    A path that is listed for reading and for writing is read-only, and so are the files in a
    writable directory through which other programs can be made to run code.
    """
    read_only = set(request.read)
    pins = [
        Pin(path, pin(path, stack), writable=path not in read_only)
        for path in sorted({*request.read, *request.write})
    ]
    protected = [entry for shared in pins if shared.writable for entry in _protected(shared, stack)]
    for shared in pins:
        if shared.writable and any(is_within(shared.path, entry.path) for entry in protected):
            raise PathRefused(f"{shared.path} is protected and cannot be written to.")
    return sorted((*pins, *protected), key=lambda entry: entry.path.count("/"))


def pin(path: str, stack: ExitStack) -> int:
    """Open what is at this path now."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise PathRefused(f"{path}: {error.strerror}. {PathRefused().message}") from error
    stack.callback(os.close, descriptor)
    mode = os.fstat(descriptor).st_mode
    real = str(Path(f"/proc/self/fd/{descriptor}").readlink())
    if stat.S_ISLNK(mode) or real != path:
        raise PathRefused(f"{path} is, or leads through, a symbolic link. Give the real path.")
    if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
        raise PathRefused(f"{path} is neither a directory nor a regular file.")
    return descriptor


def _protected(shared: Pin, stack: ExitStack) -> list[Pin]:
    if not stat.S_ISDIR(os.fstat(shared.descriptor).st_mode):
        return []
    held = hold_protected(shared.path, shared.descriptor, stack)
    return [Pin(f"{shared.path}/{name}", fd, writable=False) for name, fd in held.items()]


def hold_protected(path: str, directory: int, stack: ExitStack) -> dict[str, int]:
    """Descriptors of the protected entries of a directory; the stack lets go of them."""
    held = {}
    # A path descriptor cannot be worked in; the same directory, opened once more, can.
    inside = os.open(f"/proc/self/fd/{directory}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    stack.callback(os.close, inside)
    for name, kind in PROTECTED.items():
        try:
            descriptor, ours = _hold(inside, name, kind)
        except OSError as error:
            # Where we may not create the entry, the command may not either.
            if error.errno in _CANNOT_BE_MADE and not _exists(inside, name):
                continue
            raise PathRefused(f"{path}/{name}: {_reason(error)}") from error
        if ours:
            stack.callback(_release, inside, name, descriptor, kind)
        else:
            stack.callback(os.close, descriptor)
        held[name] = descriptor
    return held


def _hold(directory: int, name: str, kind: PlaceholderKind) -> tuple[int, bool]:
    """The entry's descriptor, made if it is missing, and whether it is a placeholder."""
    for _ in range(_MAX_TRIES):
        try:
            descriptor = os.open(name, _OPEN, dir_fd=directory)
        except FileNotFoundError:
            _make(directory, name, kind)
            continue
        except PermissionError:
            return os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory), False
        if not _is_placeholder(descriptor, kind):
            return descriptor, False
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        if _still_there(directory, name, descriptor):
            return descriptor, True
        os.close(descriptor)  # Another run removed it while we waited for the lock.
    raise OSError(errno.EBUSY, "it appears and disappears all the time")


def _make(directory: int, name: str, kind: PlaceholderKind) -> None:
    try:
        if kind is PlaceholderKind.DIRECTORY:
            os.mkdir(name, 0o555, dir_fd=directory)
        else:
            flags = os.O_CREAT | os.O_EXCL | os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
            os.close(os.open(name, flags, 0o444, dir_fd=directory))
    except FileExistsError:
        return


def _release(directory: int, name: str, descriptor: int, kind: PlaceholderKind) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_placeholder(descriptor, kind) and _still_there(directory, name, descriptor):
            remove = os.rmdir if kind is PlaceholderKind.DIRECTORY else os.unlink
            remove(name, dir_fd=directory)
    except OSError:
        # Another run holds it, or its owner took the directory away: nothing is left to do.
        return
    finally:
        os.close(descriptor)


def _is_placeholder(descriptor: int, kind: PlaceholderKind) -> bool:
    status = os.fstat(descriptor)
    if stat.S_IFMT(status.st_mode) != _FORMATS[kind] or status.st_mode & _WRITE_BITS:
        return False
    return status.st_size == 0 if kind is PlaceholderKind.FILE else not os.listdir(descriptor)


def _still_there(directory: int, name: str, descriptor: int) -> bool:
    try:
        there = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(descriptor))


def _exists(directory: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return False
    return True


def _reason(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "it is a symbolic link, which a command could replace. Remove it or move it away."
    return f"it cannot be protected ({error.strerror})."
