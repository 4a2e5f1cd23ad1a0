"""What the people of a simulated world remember: what they said, were promised, and decided."""

from dataclasses import dataclass, field
from enum import Enum, auto

from silas.approval import ApprovalVerdict


class Speaker(Enum):
    """Who says something, and how."""

    OWNER = auto()
    GUEST = auto()
    """Somebody else, on a connection of his own, who signs with a key of his own."""
    STRANGER = auto()
    """Nobody knows him. He signs nothing."""
    PRETENDER = auto()
    """A stranger on the owner's connection."""
    REPLAYER = auto()
    """Somebody who sends what the owner has signed a second time."""


@dataclass
class Said:
    """A message that was accepted."""

    message_id: str
    scope: str
    speaker: Speaker
    text: str
    mark: str
    syncs: int
    """How often the log was synced until the answer came that it was accepted."""
    unsynced: bool = False
    """The power went before it was synced."""
    lost: bool = False
    """The same, and it is gone without a trace."""


@dataclass
class Records:
    """Everything that can be compared with what Silas says."""

    said: list[Said] = field(default_factory=list)
    decided: dict[str, ApprovalVerdict] = field(default_factory=dict)
    """By card; also if the answer to it did not come back."""
    approved_items: set[str] = field(default_factory=set)
    undone: set[str] = field(default_factory=set)
    """Work items whose undoing was approved."""
    secrets: dict[str, str] = field(default_factory=dict)
    """What only this scope may hear, by the secret."""
    refusals: int = 0
    numbers: int = 0

    def next_mark(self) -> str:
        """A word that occurs nowhere else."""
        self.numbers += 1
        return f"m{self.numbers}x"
