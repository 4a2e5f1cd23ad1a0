"""Runs commands contained: one interface, three backends, one file each.

Whatever a command needs is in its request; what is not listed there is not there. A backend that
cannot enforce what is asked refuses to run. Nothing here knows plans, models or approvals.
"""

from silas.sandbox.environment import python_executable, verification_request
from silas.sandbox.errors import (
    BackendUnavailable,
    CannotContain,
    CommandRefused,
    ContainerEngineFailed,
    PathRefused,
    SandboxNotStarted,
)
from silas.sandbox.models import (
    BackendReport,
    Boundary,
    Limit,
    SandboxBackend,
    SandboxConfig,
    SandboxLimits,
    SandboxRequest,
    SandboxResult,
    SandboxRunner,
)

__all__ = [
    "BackendReport",
    "BackendUnavailable",
    "Boundary",
    "CannotContain",
    "CommandRefused",
    "ContainerEngineFailed",
    "Limit",
    "PathRefused",
    "SandboxBackend",
    "SandboxConfig",
    "SandboxLimits",
    "SandboxNotStarted",
    "SandboxRequest",
    "SandboxResult",
    "SandboxRunner",
    "python_executable",
    "verification_request",
]
