"""Runs commands contained: one interface, three backends, one file each.

Whatever a command needs is in its request; what is not listed there is not there. A backend that
cannot enforce what is asked refuses to run. Nothing here knows plans, models or approvals.
"""

from silas.sandbox.choose import AUTO, BackendChoice, all_backends, describe_backends
from silas.sandbox.errors import (
    BackendUnavailable,
    CannotContain,
    CommandRefused,
    ContainerEngineFailed,
    PathRefused,
    SandboxNotStarted,
    UnknownSandbox,
)
from silas.sandbox.manager import Sandbox, SandboxManager
from silas.sandbox.models import (
    BackendReport,
    Boundary,
    Limit,
    SandboxConfig,
    SandboxLimits,
    SandboxRequest,
    SandboxResult,
)
from silas.sandbox.ports import OutputListener, SandboxBackend
from silas.sandbox.runtime import python_executable
from silas.sandbox.verification import HARDENED_ENVIRONMENT, verification_request

__all__ = [
    "AUTO",
    "HARDENED_ENVIRONMENT",
    "BackendChoice",
    "BackendReport",
    "BackendUnavailable",
    "Boundary",
    "CannotContain",
    "CommandRefused",
    "ContainerEngineFailed",
    "Limit",
    "OutputListener",
    "PathRefused",
    "Sandbox",
    "SandboxBackend",
    "SandboxConfig",
    "SandboxLimits",
    "SandboxManager",
    "SandboxNotStarted",
    "SandboxRequest",
    "SandboxResult",
    "UnknownSandbox",
    "all_backends",
    "describe_backends",
    "python_executable",
    "verification_request",
]
