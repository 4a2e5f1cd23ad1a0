"""What can go wrong when the owner decides, in words."""

from silas.kernel import ChannelError


class CardUnknown(ChannelError):
    """There is no such card. `silas review list` shows what waits for a decision."""

    code = "E_CHANNEL_CARD_UNKNOWN"


class CardNotOpen(ChannelError):
    """The card waits for no decision any more. `silas review show` says how it ended."""

    code = "E_CHANNEL_CARD_DECIDED"


class DecisionNotSigned(ChannelError):
    """None of your devices has signed this decision. Nothing was decided: open the card again."""

    code = "E_CHANNEL_UNSIGNED"


class StrongerProofNeeded(ChannelError):
    """What cannot be undone takes a passkey here, or `silas review approve` on Silas's machine."""

    code = "E_CHANNEL_STRONGER_PROOF"
