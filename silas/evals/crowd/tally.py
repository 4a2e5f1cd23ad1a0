"""What was done, how long it took, and what went wrong."""

import time
from collections import Counter
from collections.abc import Awaitable
from dataclasses import dataclass, field

import httpx

from silas.evals.crowd.page import Frame
from silas.kernel import SilasError

DECIDED_ELSEWHERE = "E_CHANNEL_CARD_DECIDED"


@dataclass
class Tally:
    """Counts of one run."""

    acts: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    """Errors that pages were told of, by their codes."""
    seconds: list[float] = field(default_factory=list)

    async def count(self, name: str, act: Awaitable[object]) -> None:
        """Let it happen; what goes wrong is counted, except a connection that was lost."""
        begun = time.monotonic()
        try:
            await act
        except (TimeoutError, httpx.HTTPError, SilasError) as error:
            self.failures[f"{name}: {type(error).__name__} {error}"[:120]] += 1
        else:
            self.acts[name] += 1
            self.seconds.append(time.monotonic() - begun)

    def watch(self, frame: Frame) -> None:
        """For `Page.watch`."""
        if frame["type"] == "error":
            self.refusals[frame["code"]] += 1

    @property
    def wrong(self) -> int:
        """Acts that did not come to their end, and refusals that nobody expects."""
        unexpected = self.refusals.total() - self.refusals[DECIDED_ELSEWHERE]
        return self.failures.total() + unexpected

    def lines(self) -> list[str]:
        """The counts for people."""
        shares = (0.5, 0.95, 0.99)
        taken = sorted(self.seconds) or [0.0]
        p50, p95, p99 = (taken[int(len(taken) * share)] for share in shares)
        done = ", ".join(f"{name} {count}" for name, count in sorted(self.acts.items()))
        told = [f"refused: {code} {count}" for code, count in sorted(self.refusals.items())]
        wrong = [f"failed: {what} ({count})" for what, count in sorted(self.failures.items())]
        return [
            f"{self.acts.total()} acts: {done}",
            f"an act took: 50 % {p50:.2f} s, 95 % {p95:.2f} s, 99 % {p99:.2f} s",
            *told,
            *wrong,
        ]
