"""The text under examination, with what several guards need to know of it, made once."""

from dataclasses import dataclass
from functools import cached_property

from silas.gates.guards.normalise import FoldedText


@dataclass(frozen=True)
class Subject:
    """One text, shared by all the guards that look at it."""

    text: str

    @cached_property
    def folded(self) -> FoldedText:
        """The text without its disguises."""
        return FoldedText(self.text)

    @cached_property
    def small(self) -> str:
        """The text in small letters, each in the place of the original."""
        # The only letter whose small form has two characters.
        return self.text.replace("\u0130", "i").lower()
