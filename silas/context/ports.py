"""What the context needs from others. A port that is absent means no: see each one."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from silas.kernel import TaintLevel
from silas.kernel.models import Data
from silas.memory.models import MemoryItem, MemoryQuery


class ContextGroup(Data):
    """Blocks that make sense only together, as the scorer is shown them."""

    group_id: str
    kind: str
    """Such as `message`, `tool_result` or `memory`."""
    turn_number: int
    token_count: int
    text: str
    taint: TaintLevel


class Scorer(Protocol):
    """A model that says which groups are worth least. Absent: the rules alone decide."""

    async def score(self, groups: Sequence[ContextGroup], goal: str | None) -> list[str]:
        """The ids of the groups to drop, the least valuable first.

        Raises `LlmError` if there is no usable answer in time; then the rules alone decide.
        """
        ...


class TokenCounter(Protocol):
    """Says how much of a model's window a text takes."""

    def count(self, text: str) -> int:
        """How many tokens the text has; never less than nought."""
        ...


class ExactTokens(Protocol):
    """A server that counts tokens as its model does. Absent: they are estimated."""

    async def count(self, text: str) -> int:
        """How many tokens the text has; raises a `SilasError` if nobody can tell now."""
        ...


class Recall(Protocol):
    """The memory, as the context uses it. Absent: nothing is kept, and no query is watched."""

    async def keep(self, scope_id: str, items: Sequence[MemoryItem]) -> None:
        """Keep what left the context; an item with an id that is known is kept already.

        Raises a `SilasError` if it is not possible now: then they are handed over once more.
        """
        ...

    async def retrieve(self, query: MemoryQuery, scope_id: str) -> list[MemoryItem]:
        """What is remembered in this scope, best first."""
        ...

    async def defaults(self, scope_id: str) -> list[MemoryItem]:
        """The preferences that the owner has confirmed."""
        ...


class WorkFile(NamedTuple):
    """A file that a piece of work is about."""

    work_item_id: str
    target: str
    """A path, or `path:start-end`."""
    is_range: bool = False


class OngoingWork(Protocol):
    """The work of a conversation. Absent: no file of it is watched."""

    async def files(self, scope_id: str) -> list[WorkFile]:
        """The files that the unfinished work of this scope is about."""
        ...

    async def ended(self, work_item_ids: Sequence[str]) -> list[str]:
        """Those of these pieces of work that have ended, or are not known any more."""
        ...


class AuditTrail(Protocol):
    """Where it is written down that a conversation got another profile."""

    async def log(self, event: str, /, **data: Any) -> str:
        """Write an entry; returns its id."""
        ...
