"""How often a message is tried, and when again."""

from dataclasses import dataclass


@dataclass(frozen=True)
class RetryPolicy:
    """Every limit here ends in a dead letter, never in a message that is forgotten."""

    max_failures: int = 5
    """A handler that failed, or a lease that ran out."""
    max_attempts: int = 25
    """Also counts processes that ended: a message that kills its reader must not do so for ever."""
    first_delay: float = 1.0
    max_delay: float = 60.0

    def delay_after(self, failures: int) -> float:
        """Seconds until the next try: doubled each time."""
        return min(self.first_delay * 2.0 ** max(failures - 1, 0), self.max_delay)
