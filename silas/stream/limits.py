"""How much may happen in a minute, by name: a conversation, a sender, an address."""

from collections import defaultdict, deque
from dataclasses import dataclass, field

from silas.kernel import Clock

_MINUTE = 60.0
_MOST_NAMES = 10_000


@dataclass
class RateLimit:
    """A window of a minute that slides."""

    clock: Clock
    per_minute: int
    _seen: defaultdict[str, deque[float]] = field(default_factory=lambda: defaultdict(deque))

    def take(self, name: str) -> bool:
        """Whether one more is allowed now; what is refused does not count."""
        if self.wait(name) > 0:
            return False
        self._seen[name].append(self.clock.monotonic())
        return True

    def wait(self, name: str) -> float:
        """In how many seconds one more is allowed; 0 means now."""
        now = self.clock.monotonic()
        if len(self._seen) > _MOST_NAMES:
            self._forget(now)
        seen = self._seen[name]
        while seen and now - seen[0] >= _MINUTE:
            seen.popleft()
        if len(seen) < self.per_minute:
            return 0.0
        return seen[0] + _MINUTE - now if seen else _MINUTE

    def _forget(self, now: float) -> None:
        """Whoever is quiet is forgotten; nobody becomes free by sending under many names."""
        for name in [name for name, seen in self._seen.items() if _is_over(seen, now)]:
            del self._seen[name]


def _is_over(seen: deque[float], now: float) -> bool:
    return not seen or now - seen[-1] >= _MINUTE
