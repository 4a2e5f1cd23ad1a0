"""The world of a verification check: what the worker left is there to be read, and nothing else.

Rules, each of which a worker could otherwise use to influence the check:

1. The check runs in a sandbox of its own; nothing of the worker's sandbox is alive any more.
2. Artifacts are read-only. The check writes to a scratch directory that the worker never saw.
3. PATH is fixed and holds system directories alone; a file named like a tool is not found.
4. Python takes no user site packages, no start-up file and no path from the environment.
5. git obeys no configuration of the user or the system, no hook and no file system monitor.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from silas.sandbox import runtime
from silas.sandbox.models import SandboxLimits, SandboxRequest
from silas.sandbox.requests import checked_request

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
        "PATH": runtime.SYSTEM_PATH,
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
    network: bool = False,
    limits: SandboxLimits | None = None,
) -> SandboxRequest:
    """One check as a request: artifacts to read, a scratch directory to write and work in."""
    return checked_request(
        argv=tuple(argv),
        env={**HARDENED_ENVIRONMENT, "HOME": scratch, "TMPDIR": scratch},
        cwd=scratch,
        read=tuple(artifacts),
        write=(scratch,),
        network=network,
        limits=limits or SandboxLimits(wall_seconds=60),
    )
