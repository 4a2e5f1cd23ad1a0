"""What a guard is asked, and what it answers."""

from enum import StrEnum
from functools import cache
from typing import Self

from pydantic import model_validator

from silas.kernel.models import Data


class Decision(StrEnum):
    """What a guard decides. The order is that of strictness: pass, then fix, then block."""

    PASS = "pass"  # noqa: S105  (no password)
    FIX = "fix"
    BLOCK = "block"

    @property
    def strictness(self) -> int:
        """The higher, the stricter."""
        return list(Decision).index(self)


class Mode(StrEnum):
    """What happens to a text with findings: it is mended, or it is stopped."""

    FIX = "fix"
    BLOCK = "block"


class GuardFinding(Data):
    """One place that a rule objects to. It never repeats the text, which may be a secret."""

    rule: str
    start: int
    end: int
    why: str


class GuardOptions(Data):
    """The options that every guard understands."""

    mode: Mode = Mode.BLOCK


class GuardVerdict(Data):
    """What a guard decided about one text, and why."""

    guard: str
    decision: Decision
    findings: tuple[GuardFinding, ...] = ()
    fixed_text: str | None = None
    """The text to use instead, if and only if the decision is `fix`."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if (self.fixed_text is not None) != (self.decision is Decision.FIX):
            raise ValueError("a mended text comes with the decision `fix`, and only with it")
        if (self.decision is Decision.PASS) != (not self.findings):
            raise ValueError("a text passes if and only if nothing was found")
        return self

    @property
    def reason(self) -> str:
        """One sentence for people: what was found, each reason once."""
        return " ".join(dict.fromkeys(finding.why for finding in self.findings))


def strictest(decisions: tuple[Decision, ...]) -> Decision:
    """The strictest of several decisions; nobody deciding is no permission, so none means block."""
    return max(decisions, key=lambda decision: decision.strictness, default=Decision.BLOCK)


def verdict(
    guard: str, findings: list[GuardFinding], *, mode: Mode, fixed_text: str | None = None
) -> GuardVerdict:
    """The verdict that follows from the findings and the mode."""
    if not findings:
        return _passed(guard)
    if mode is Mode.BLOCK or fixed_text is None:
        return GuardVerdict(guard=guard, decision=Decision.BLOCK, findings=tuple(findings))
    return GuardVerdict(
        guard=guard, decision=Decision.FIX, findings=tuple(findings), fixed_text=fixed_text
    )


@cache
def _passed(guard: str) -> GuardVerdict:
    """Nothing was found: always the same, and by far the most frequent."""
    return GuardVerdict(guard=guard, decision=Decision.PASS)
