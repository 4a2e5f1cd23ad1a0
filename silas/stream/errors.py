"""What can go wrong in the conversation, in words."""

from silas.kernel import ChannelError


class ConversationMoved(ChannelError):
    """Somebody else has gone on with this in the meantime. It is looked at again by itself."""

    code = "E_CHANNEL_MOVED"
    exit_code = 121


class NotFromHere(ChannelError):
    """The message names a conversation that nobody has begun. Send the request again."""

    code = "E_CHANNEL_ORIGIN"
    exit_code = 122


class DecisionUnknown(ChannelError):
    """There is no decision of the owner's on this card. Open the card and decide there."""

    code = "E_CHANNEL_DECISION"
    exit_code = 123


class NotTaken(ChannelError):
    """Silas is stopping and takes no more messages. Send it again when it is back."""

    code = "E_CHANNEL_CLOSED"
    exit_code = 124


class BusyRetry(ChannelError):
    """Silas has more to do than it can take at once. Wait a moment, then send it again."""

    code = "E_CHANNEL_BUSY_RETRY"
    exit_code = 198


class CardUnknown(ChannelError):
    """There is no such card. `silas review list` shows what waits for a decision."""

    code = "E_CHANNEL_CARD_UNKNOWN"
    exit_code = 125


class CardNotOpen(ChannelError):
    """The card was decided already. `silas review show` says how."""

    code = "E_CHANNEL_CARD_DECIDED"
    exit_code = 197


class DecisionNotSigned(ChannelError):
    """None of your devices has signed this decision. Nothing was decided: open the card again."""

    code = "E_CHANNEL_UNSIGNED"
    exit_code = 193


class StrongerProofNeeded(ChannelError):
    """What cannot be undone takes a passkey here, or `silas review approve` on Silas's machine."""

    code = "E_CHANNEL_STRONGER_PROOF"
    exit_code = 194
