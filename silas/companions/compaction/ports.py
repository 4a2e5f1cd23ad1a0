"""What compaction needs from others: somebody who can put a span into words."""

from dataclasses import dataclass
from typing import Protocol

from silas.companions.memory import Remembered
from silas.companions.models import JsonMap


@dataclass(frozen=True)
class SummaryRequest:
    """A span of the log, oldest first."""

    agent_id: str
    thread_id: str
    depth: int
    entries: tuple[Remembered, ...]


class Summariser(Protocol):
    """Puts a span into fewer words."""

    @property
    def contract_version(self) -> str:
        """Names the prompt: another prompt makes other summaries."""
        ...

    async def summarise(self, request: SummaryRequest) -> JsonMap:
        """The content of the summary; raises `SilasError` if it cannot be had now."""
        ...
