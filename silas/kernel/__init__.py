"""The words every room speaks: ids, time, canonical bytes, taint, errors, text made safe to show.

Everything here is pure, apart from reading the clock and the operating system's randomness.
No room above may be imported, and nothing here knows what Silas does. What few commands need and
takes long to load (redaction, YAML, record models) is imported from its own module.
"""

from silas.kernel.canonical import CanonicalError, canonical_bytes, strict_loads
from silas.kernel.clock import Clock, SystemClock, format_timestamp, parse_timestamp
from silas.kernel.errors import (
    ApprovalError,
    AuditError,
    BackupError,
    ChannelError,
    CompanionError,
    ConfigError,
    ContextError,
    DatabaseError,
    GateError,
    JournalError,
    LlmError,
    QueueError,
    RecallError,
    SandboxError,
    SecretsError,
    ServerError,
    SilasError,
    WorkError,
)
from silas.kernel.ids import IdFactory
from silas.kernel.taint import TaintLevel, join_taint
from silas.kernel.visible import visible, visible_json

__all__ = [
    "ApprovalError",
    "AuditError",
    "BackupError",
    "CanonicalError",
    "ChannelError",
    "Clock",
    "CompanionError",
    "ConfigError",
    "ContextError",
    "DatabaseError",
    "GateError",
    "IdFactory",
    "JournalError",
    "LlmError",
    "QueueError",
    "RecallError",
    "SandboxError",
    "SecretsError",
    "ServerError",
    "SilasError",
    "SystemClock",
    "TaintLevel",
    "WorkError",
    "canonical_bytes",
    "format_timestamp",
    "join_taint",
    "parse_timestamp",
    "strict_loads",
    "visible",
    "visible_json",
]
