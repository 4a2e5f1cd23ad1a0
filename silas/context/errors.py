"""What can go wrong with a context, in words."""

from silas.kernel import ContextError


class ProfileUnknown(ContextError):
    """There is no context profile of this name. Choose one of `context.profiles`."""

    code = "E_CONTEXT_PROFILE"
    exit_code = 251


class ZoneFull(ContextError):
    """What stays in the context for good would take too much of it. Make it shorter."""

    code = "E_CONTEXT_FULL"
    exit_code = 252


class SubscriptionRefused(ContextError):
    """This cannot be watched. Name a file below a directory that is allowed, or a query."""

    code = "E_CONTEXT_SUBSCRIPTION"
    exit_code = 253


class SessionUnknown(ContextError):
    """There is no such session in this conversation. List its sessions to see what there is."""

    code = "E_CONTEXT_SESSION"
    exit_code = 254
