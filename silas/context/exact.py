"""Exact figures from a server that counts tokens, without anybody waiting for each text.

1. A text is estimated when it comes, as always.
2. Once a turn, before the budget is enforced, everything that was estimated since is counted in one
   request. Its sum is exact from then on; the single texts share it by their estimates.
3. The server has two seconds. After three failures in a row it is not asked for five minutes, and
   the estimates stand.
"""

import asyncio
import logging
import math
from dataclasses import dataclass
from hashlib import blake2b

from silas.context.ports import ExactTokens, TokenCounter
from silas.kernel import Clock, SilasError

_log = logging.getLogger(__name__)
_MOST_KNOWN = 50_000
_LONGEST = 4_000_000


@dataclass(frozen=True)
class CountingLimits:
    """How long a server is waited for, and when it is left alone."""

    seconds: float = 2.0
    failures: int = 3
    cool_down_seconds: float = 300.0


class CountingServer:
    """The server that all scopes share, what it said before, and whether it is asked now."""

    def __init__(
        self, exact: ExactTokens, *, clock: Clock, limits: CountingLimits | None = None
    ) -> None:
        self._exact = exact
        self._clock = clock
        self._limits = limits or CountingLimits()
        self._failures = 0
        self._rests_until: float | None = None
        self._known: dict[bytes, int] = {}

    def known(self, text: str) -> int | None:
        """What was found out about this text."""
        return self._known.get(_digest(text))

    def remember(self, text: str, tokens: int) -> None:
        """Keep a figure; the text itself is not kept."""
        if len(self._known) >= _MOST_KNOWN:
            for old in list(self._known)[: _MOST_KNOWN // 2]:
                del self._known[old]
        self._known[_digest(text)] = tokens

    async def ask(self, text: str) -> int | None:
        """How many tokens this is; None if there is no answer."""
        rests = self._rests_until
        if rests is not None and self._clock.monotonic() < rests:
            return None
        try:
            async with asyncio.timeout(self._limits.seconds):
                tokens = await self._exact.count(text)
        except (SilasError, TimeoutError) as error:
            self._failed(error)
            return None
        self._failures, self._rests_until = 0, None
        return tokens

    def _failed(self, error: Exception) -> None:
        self._failures += 1
        _log.warning("tokens are estimated, not counted: %s", str(error) or type(error).__name__)
        if self._failures >= self._limits.failures:
            self._rests_until = self._clock.monotonic() + self._limits.cool_down_seconds


class SettlingCounter:
    """`TokenCounter` of one scope: estimates that are settled once a turn."""

    def __init__(self, server: CountingServer, *, estimate: TokenCounter) -> None:
        self._server = server
        self._estimate = estimate
        self._estimated: dict[str, int] = {}
        self._length = 0

    def count(self, text: str) -> int:
        """The figure that is known, or an estimate."""
        known = self._server.known(text)
        if known is not None:
            return known
        tokens = self._estimate.count(text)
        if text not in self._estimated and self._length + len(text) <= _LONGEST:
            self._estimated[text] = tokens
            self._length += len(text)
        return tokens

    async def settle(self) -> dict[str, int]:
        """The figures of what was estimated since the last time; empty if nobody could tell."""
        estimated, self._estimated, self._length = self._estimated, {}, 0
        total = sum(estimated.values())
        exact = await self._server.ask("".join(estimated)) if total else None
        if exact is None:
            return {}
        settled = {text: math.ceil(each * exact / total) for text, each in estimated.items()}
        for text, tokens in settled.items():
            self._server.remember(text, tokens)
        return settled


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
