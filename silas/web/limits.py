"""How much one conversation or one address may send in a minute."""

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
        now = self.clock.monotonic()
        if len(self._seen) > _MOST_NAMES:
            self._seen.clear()
        seen = self._seen[name]
        while seen and now - seen[0] >= _MINUTE:
            seen.popleft()
        if len(seen) >= self.per_minute:
            return False
        seen.append(now)
        return True
