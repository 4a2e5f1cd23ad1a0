"""What every package uses: ids, time, canonical bytes, taint, errors, text made safe to show.

Everything here is pure, apart from reading the clock and the operating system's randomness.
No package above may be imported, and nothing here knows what Silas does. What few commands need and
takes long to load (redaction, YAML, record models) is imported from its own module.
"""

from silas.kernel.canonical import CanonicalError, canonical_bytes, strict_loads
from silas.kernel.clock import Clock, SystemClock, format_timestamp, parse_timestamp
from silas.kernel.errors import (
    AccountError,
    ApprovalError,
    AuditError,
    BackupError,
    ChannelError,
    CompanionError,
    ConfigError,
    ContextError,
    DatabaseError,
    EgressError,
    GateError,
    JournalError,
    LlmError,
    QueueError,
    RecallError,
    SandboxError,
    SecretsError,
    ServerError,
    SilasError,
    SkillError,
    WorkError,
)
from silas.kernel.ids import IdFactory
from silas.kernel.taint import OWNERS, Provenance, TaintLevel, external, join_taint, read_at
from silas.kernel.visible import prefixed, quoted, visible, visible_json

__all__ = [
    "OWNERS",
    "AccountError",
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
    "EgressError",
    "GateError",
    "IdFactory",
    "JournalError",
    "LlmError",
    "Provenance",
    "QueueError",
    "RecallError",
    "SandboxError",
    "SecretsError",
    "ServerError",
    "SilasError",
    "SkillError",
    "SystemClock",
    "TaintLevel",
    "WorkError",
    "canonical_bytes",
    "external",
    "format_timestamp",
    "join_taint",
    "parse_timestamp",
    "prefixed",
    "quoted",
    "read_at",
    "strict_loads",
    "visible",
    "visible_json",
]
