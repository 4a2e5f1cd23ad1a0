"""What happened in a world, in order: the same seed must give the same, to the letter."""

import hashlib


class Trace:
    """A list of events, and their fingerprint."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self._hash = hashlib.sha256()

    def note(self, *words: object) -> None:
        """Something happened."""
        line = " ".join(str(word) for word in words)
        self.events.append(line)
        self._hash.update(line.encode() + b"\n")

    @property
    def digest(self) -> str:
        """Two runs with the same digest were the same."""
        return self._hash.hexdigest()[:16]
