"""What the context needs from others. A port that is absent means no: see each one."""

from collections.abc import Sequence
from typing import Protocol

from silas.kernel import TaintLevel
from silas.kernel.models import Data


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
