"""What can go wrong with a companion, in words.

The last part of a code is the name that the result of a tool has for it (`out_of_scope`). What the
policy refuses shares one exit code.
"""

from silas.kernel import CompanionError, SilasError


def tool_code(error: SilasError) -> str:
    """What the result of a tool, a trace and the log of wakes call this error."""
    own = getattr(error, "tool_code", None)
    return str(own or error.code.removeprefix("E_").removeprefix("COMPANION_").lower())


class CompanionUnknown(CompanionError):
    """There is no such companion. Run `silas companions list` to see those that there are."""

    code = "E_COMPANION_UNKNOWN"


class AgentDestroyed(CompanionError):
    """This companion was destroyed. Nothing that it still wanted to do was written."""

    code = "E_COMPANION_AGENT_DESTROYED"


class StaleRevision(CompanionError):
    """This was changed by somebody else in the meantime. Look at it again before you change it."""

    code = "E_COMPANION_STALE_REVISION"


class CompanionInvalid(CompanionError):
    """A companion cannot be like this. Correct what the message names."""

    code = "E_COMPANION_INVALID"


class SessionClosed(CompanionError):
    """This conversation with the companion has ended. Begin a new one."""

    code = "E_COMPANION_SESSION_CLOSED"


class OutOfScope(CompanionError):
    """This lies outside of the categories that the companion may see. Add the category to it."""

    code = "E_COMPANION_OUT_OF_SCOPE"


class ConfirmationRequired(CompanionError):
    """This needs your approval first. Decide about the card in Review."""

    code = "E_COMPANION_CONFIRMATION_REQUIRED"


class BudgetExceeded(CompanionError):
    """The companion has used up its budget for today. Raise it, or wait until tomorrow."""

    code = "E_COMPANION_BUDGET_EXCEEDED"


class UnsafeTarget(CompanionError):
    """It is not certain what this would change, so nothing was. Name the target by its id."""

    code = "E_COMPANION_UNSAFE_TARGET"


class ModelNotAllowed(CompanionError):
    """You have not agreed to this model in this category: silas companions consent NAME."""

    code = "E_COMPANION_MODEL_NOT_ALLOWED"


class ProviderNotAllowed(CompanionError):
    """You have not agreed to this provider in this category: silas companions consent NAME."""

    code = "E_COMPANION_PROVIDER_NOT_ALLOWED"


class NetworkDenied(CompanionError):
    """Companions reach no hosts but those of configured model providers. Nothing was sent."""

    code = "E_COMPANION_NETWORK_DENIED"


class PrivacyConfirmationRequired(CompanionError):
    """Read what this provider does with your data and confirm it first. Nothing was sent."""

    code = "E_COMPANION_PRIVACY_CONFIRMATION_REQUIRED"


class SecretUnavailable(CompanionError):
    """The key of this provider cannot be read. Unlock the vault, or store the key in it."""

    code = "E_COMPANION_SECRET_UNAVAILABLE"


class ModelUnavailable(CompanionError):
    """The model of this companion gave no answer. Look whether it runs, then wake the companion."""

    code = "E_COMPANION_MODEL_UNAVAILABLE"


class AlreadyAsked(CompanionError):
    """You were asked this before, and have not answered yet or said no. It is not asked again."""

    code = "E_COMPANION_ALREADY_ASKED"


class OversharedPayloadBlocked(CompanionError):
    """More would have been sent than this request needs. Nothing was sent: report this defect."""

    code = "E_COMPANION_OVERSHARED_PAYLOAD_BLOCKED"


class Stopped(CompanionError):
    """A stop switch is on. Release it to let companions go on."""

    code = "E_COMPANION_STOPPED"


CALLED_OFF = "This run was called off. Wake the companion again to let it begin anew."
"""What `Stopped` says if it is one run that was stopped."""


class InvalidArguments(CompanionError):
    """These arguments do not fit the tool. Nothing was done: correct what the message names."""

    code = "E_COMPANION_INVALID_ARGUMENTS"


class UnknownTool(CompanionError):
    """There is no such tool for companions. Nothing was done."""

    code = "E_COMPANION_UNKNOWN_TOOL"


class CapabilityDenied(CompanionError):
    """This kind of companion may not use this tool. Allow it in the companion's definition."""

    code = "E_COMPANION_CAPABILITY_DENIED"


class WakeReasonDenied(CompanionError):
    """The tool may not be used for what the companion was woken by. Ask the companion yourself."""

    code = "E_COMPANION_WAKE_REASON_DENIED"


class AnswerRequired(CompanionError):
    """The companion has asked you something that must be answered first. Answer its question."""

    code = "E_COMPANION_ANSWER_REQUIRED"


class ApprovalRefused(CompanionError):
    """What was approved is not what is to be done now. Nothing was changed: decide again."""

    code = "E_COMPANION_APPROVAL_REFUSED"


class ReportInvalid(CompanionError):
    """A claim of the report names no source that was read. The report was not taken."""

    code = "E_COMPANION_REPORT_INVALID"


class AgentPaused(CompanionError):
    """The companion is paused. Resume it to let it go on."""

    code = "E_COMPANION_AGENT_PAUSED"
