"""What can go wrong in the conversation, in words."""

from silas.kernel import ChannelError


class ConversationMoved(ChannelError):
    """Somebody else has gone on with this in the meantime. It is looked at again by itself."""

    code = "E_CHANNEL_MOVED"


class NotFromHere(ChannelError):
    """The message names a conversation that nobody has begun. Send the request again."""

    code = "E_CHANNEL_ORIGIN"


class DecisionUnknown(ChannelError):
    """There is no decision of the owner's on this card. Open the card and decide there."""

    code = "E_CHANNEL_DECISION"


class NotTaken(ChannelError):
    """Silas is stopping and takes no more messages. Send it again when it is back."""

    code = "E_CHANNEL_CLOSED"


class BusyRetry(ChannelError):
    """Silas has more to do than it can take at once. Wait a moment, then send it again."""

    code = "E_CHANNEL_BUSY_RETRY"


class LinkUnknown(ChannelError):
    """This link opens nothing, or not any more. Ask whoever gave it to you for a new one."""

    code = "E_CHANNEL_LINK"


class VisitorsClosed(ChannelError):
    """Nobody can visit here just now. Come again later."""

    code = "E_CHANNEL_NO_VISITORS"


class VisitLimitReached(ChannelError):
    """The limit of this link is reached. Come again later."""

    code = "E_CHANNEL_VISIT_LIMIT"


class CaseUnknown(ChannelError):
    """There is no such conversation with a visitor. `silas visitors queue` shows what waits."""

    code = "E_CHANNEL_CASE"


class PlaceUnknown(ChannelError):
    """This folder or file is not open to Silas. `silas folders list` shows what is."""

    code = "E_CHANNEL_PLACE"


class PlaceRefused(ChannelError):
    """Silas does not read there. Copy what it should read to your workspace."""

    code = "E_CHANNEL_PLACE_REFUSED"
