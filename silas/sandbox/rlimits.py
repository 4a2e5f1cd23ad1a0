"""Resource limits, set from outside on a process that waits; what it starts inherits them."""

import resource

from silas.sandbox.models import SandboxLimits

# Address space is not memory: runtimes reserve far more than they use.
_ADDRESS_SPACE_FACTOR = 8


def limit_process(pid: int, limits: SandboxLimits, *, memory: bool) -> None:
    """Limit CPU time, files and, if it is not counted in a control group, memory."""
    _lower(pid, resource.RLIMIT_CORE, 0)
    # The soft limit ends the command with a signal that says why; the hard one cannot be caught.
    _lower(pid, resource.RLIMIT_CPU, limits.cpu_seconds, grace=1)
    _lower(pid, resource.RLIMIT_FSIZE, limits.file_bytes)
    _lower(pid, resource.RLIMIT_NOFILE, limits.open_files)
    if memory:
        _lower(pid, resource.RLIMIT_DATA, limits.memory_bytes)
        _lower(pid, resource.RLIMIT_AS, limits.memory_bytes * _ADDRESS_SPACE_FACTOR)


def limit_processes(pid: int, limits: SandboxLimits) -> None:
    """Limit the number of processes in the user namespace of the sandbox's first process.

    Set on the launcher, outside that namespace, it would count all processes of the user.
    """
    _lower(pid, resource.RLIMIT_NPROC, limits.processes + 1)


def _lower(pid: int, kind: int, value: int, *, grace: int = 0) -> None:
    _, most = resource.prlimit(pid, kind)
    hard = value + grace if most == resource.RLIM_INFINITY else min(value + grace, most)
    resource.prlimit(pid, kind, (min(value, hard), hard))
