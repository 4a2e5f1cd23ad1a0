"""The options that build one bubblewrap sandbox, in the order in which bubblewrap follows them."""

import os
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from silas.sandbox import runtime
from silas.sandbox.models import TEMPORARY, SandboxRequest
from silas.sandbox.pins import Pin

# The rest of what is in memory is for /tmp; semaphores and small buffers need little.
_SHARED_MEMORY_PART = 4
# The names of the keys that the owner's session holds.
_HIDDEN = ("keys",)
# The kernel opens these to the host's root by its user id alone, without any privilege.
_HIDDEN_FROM_ROOT = ("kcore", "sysrq-trigger", "timer_list")


def isolation(request: SandboxRequest, *, disable_userns: bool) -> Iterator[str]:
    """Namespaces, identity and lifetime.

    No `--new-session`: the launcher itself leads a new one, without a terminal, and its process
    group is what the undertaker kills.
    """
    yield from ("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts")
    yield from ("--unshare-cgroup-try", "--die-with-parent", "--cap-drop", "ALL")
    yield from ("--uid", str(runtime.USER_ID), "--gid", str(runtime.USER_ID))
    yield from ("--hostname", runtime.HOSTNAME)
    if not request.network:
        yield "--unshare-net"
    if disable_userns:
        yield "--disable-userns"
    for name, value in runtime.environment(request).items():
        yield from ("--setenv", name, value)


def file_system(
    request: SandboxRequest, pins: Sequence[Pin], etc: Sequence[tuple[int, str]]
) -> Iterator[str]:
    """What can be seen: the system read-only, small private file systems, the listed paths."""
    yield from _system(request)
    yield from _kernel(request)
    for descriptor, path in etc:
        yield from ("--file", str(descriptor), path)
    yield from _private("1777", request.limits.temporary_bytes, TEMPORARY)
    for entry in pins:
        option = "--bind-fd" if entry.writable else "--ro-bind-fd"
        yield from (option, str(entry.descriptor), entry.path)
    yield from ("--remount-ro", "/", "--chdir", request.cwd)


def _system(request: SandboxRequest) -> Iterator[str]:
    directories = runtime.system_directories()
    for path in (*directories, *runtime.configuration_files(network=request.network)):
        yield from ("--ro-bind", path, path)
    for path, target in runtime.system_links().items():
        yield from ("--symlink", target, path)


def _kernel(request: SandboxRequest) -> Iterator[str]:
    yield from ("--proc", "/proc")
    # Writable by the host's root in the same way: a sandbox of a Silas that runs as root could
    # change which program the host starts after a crash.
    yield from ("--ro-bind", "/proc/sys", "/proc/sys")
    for path in _hidden_files(root=os.geteuid() == 0):
        yield from ("--ro-bind", "/dev/null", path)
    yield from ("--dev", "/dev")
    shared = request.limits.temporary_bytes // _SHARED_MEMORY_PART
    yield from _private("1777", shared, "/dev/shm")  # noqa: S108 - the sandbox's own
    yield from ("--remount-ro", "/dev")


@cache
def _hidden_files(*, root: bool) -> tuple[str, ...]:
    names = (*_HIDDEN, *_HIDDEN_FROM_ROOT) if root else _HIDDEN
    return tuple(str(path) for name in names if (path := Path("/proc", name)).exists())


def _private(mode: str, size: int, path: str) -> Iterator[str]:
    yield from ("--perms", mode, "--size", str(size), "--tmpfs", path)
