"""Who runs an attempt, in a form that another process can ask after: is it still alive?

The name holds the host, its boot, the process and the moment when that process started, so that a
process that later got the same number is not mistaken for it.
"""

import os
import socket
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_STARTED_FIELD = 19  # of /proc/PID/stat, counted after the process's name


def this_runner() -> str:
    """The name of this process."""
    return f"{_host()}/{os.getpid()}/{_started(os.getpid())}"


def may_be_alive(runner: str) -> bool:
    """Whether the runner could still be at work; of another machine nobody here can say."""
    host, boot, pid, started = (*runner.split("/"), "", "", "")[:4]
    if host != socket.gethostname() or not pid.isdigit():
        return True
    if f"{host}/{boot}" != _host():
        return False
    return _started(int(pid)) == started


def _host() -> str:
    try:
        boot = _BOOT.read_text().strip()[:8]
    except OSError:
        boot = "unknown"
    return f"{socket.gethostname()}/{boot}"


def _started(pid: int) -> str:
    """When the process started, in the kernel's count; empty if there is none or it is dead."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in ("Z", "X") else fields[_STARTED_FIELD]
