"""The error taxonomy: one root, one stable code each, one sentence that says what to do.

Rules:

1. Every error that leaves a package is a `SilasError`. Callers never see a driver's own exception.
2. `code` is stable: scripts and translations rely on it. Its prefix names the family.
3. `exit_code` is what the command line ends with: one number for a family of errors, which says
   where to look. What exactly went wrong is said by `code` (`--json` has it).
4. The class docstring is the default message: a sentence for people that says what to do next.
5. `correlation_id` ties the sentence on the screen to the audit log and the trace.

The exit codes: 10 configuration, 20 storage, 30 secrets, 40 approval, 50 audit, 60 sandbox,
61 services outside, 70 internal, 71 journal, 80 work, 90 gates, 100 queue, 110 models,
120 channels, 200 backups, 210 the running server, 221 companions, 230 memory, 240 skills,
245 connections, 250 context. 126 to 192 belong to the shell and to signals.
"""

import inspect
import os
from typing import Any, ClassVar


class SilasError(Exception):
    """Something went wrong inside Silas. Run `silas doctor` to see what state the machine is in."""

    code: ClassVar[str] = "E_INTERNAL"
    exit_code: ClassVar[int] = 70

    def __init__(
        self, message: str | None = None, *, correlation_id: str | None = None, **details: Any
    ) -> None:
        self.message = message or self.sentence()
        self.correlation_id = correlation_id or os.urandom(6).hex()
        self.details = details
        super().__init__(self.message)

    @classmethod
    def sentence(cls) -> str:
        """The first paragraph of the docstring, on one line."""
        return " ".join(inspect.cleandoc(cls.__doc__ or "").split("\n\n")[0].split())

    def explain(self) -> dict[str, Any]:
        """The error as data, for `--json` and for the wire."""
        return {
            "code": self.code,
            "message": self.message,
            "correlation_id": self.correlation_id,
            **({"details": self.details} if self.details else {}),
        }


class ConfigError(SilasError):
    """The configuration cannot be used. Run `silas config check` to see every problem at once."""

    code = "E_CFG_INVALID"
    exit_code = 10


class DatabaseError(SilasError):
    """The database did not do what was asked. Run `silas doctor` to see why."""

    code = "E_DB_FAILED"
    exit_code = 20


class SecretsError(SilasError):
    """The vault did not do what was asked. Run `silas doctor` to see which vault is in use."""

    code = "E_SECRETS_FAILED"
    exit_code = 30


class ApprovalError(SilasError):
    """There is no valid approval for this. Ask for a new decision."""

    code = "E_APPROVAL_INVALID"
    exit_code = 40


class AuditError(SilasError):
    """The audit log cannot be trusted as it is. Run `silas audit verify` to see where it breaks."""

    code = "E_AUDIT_FAILED"
    exit_code = 50


class SandboxError(SilasError):
    """The sandbox cannot contain this as asked. Run `silas doctor` to see what it can do."""

    code = "E_SANDBOX_FAILED"
    exit_code = 60


class EgressError(SilasError):
    """The service outside cannot be used like this. Follow what the message says."""

    code = "E_EGRESS_FAILED"
    exit_code = 61


class WorkError(SilasError):
    """The work item cannot go on. Run `silas work show ID` to see its state."""

    code = "E_WORK_FAILED"
    exit_code = 80


class GateError(SilasError):
    """A gate stopped this. Run `silas gates list` to see the gates in force."""

    code = "E_GATE_BLOCKED"
    exit_code = 90


class QueueError(SilasError):
    """The queue did not take or give a message. Run `silas queue list` to see its state."""

    code = "E_QUEUE_FAILED"
    exit_code = 100


class LlmError(SilasError):
    """The model did not answer usefully. Run `silas models test` to see what it can do."""

    code = "E_LLM_FAILED"
    exit_code = 110


class ChannelError(SilasError):
    """The message could not be taken or delivered. Run `silas status` to see the channels."""

    code = "E_CHANNEL_FAILED"
    exit_code = 120


class BackupError(SilasError):
    """The backup did not work out. Nothing was changed: follow what the message says."""

    code = "E_BACKUP_FAILED"
    exit_code = 200


class ServerError(SilasError):
    """The running Silas did not do what was asked. Run `silas status` to see how it is."""

    code = "E_SERVER_FAILED"
    exit_code = 210


class RecallError(SilasError):
    """The memory did not do what was asked. Run `silas memory stats` to see its state."""

    code = "E_MEMORY_FAILED"
    exit_code = 230


class SkillError(SilasError):
    """The skill cannot be used like this. Run `silas skills check DIR` to see what is in it."""

    code = "E_SKILL_FAILED"
    exit_code = 240


class AccountError(SilasError):
    """The connection cannot be used as it is. `silas connections list` shows its state."""

    code = "E_CONNECTION_FAILED"
    exit_code = 245


class ContextError(SilasError):
    """The context of a conversation cannot be changed like this. Follow what the message says."""

    code = "E_CONTEXT_FAILED"
    exit_code = 250


class JournalError(SilasError):
    """The journal did not do what was asked. Run `silas journal search` to see what is in it."""

    code = "E_JOURNAL_FAILED"
    exit_code = 71
    tool_code: ClassVar[str] = "journal_failed"


class TimeNotUnderstood(JournalError):
    """This is not a time that Silas understands. Write `tomorrow 9am` or `2026-03-01 08:30`."""

    code = "E_JOURNAL_TIME"
    tool_code: ClassVar[str] = "invalid_time"


class CompanionError(SilasError):
    """The companion did not do what was asked. Run `silas companions list` to see how they are."""

    code = "E_COMPANION_FAILED"
    exit_code = 221
