"""The second tier: a model says what the conversation can do without; it has two seconds.

1. After two seconds the rules decide, whatever the model is doing.
2. After three failures in a row it is not asked for five minutes.
3. Its answer only orders what may leave anyway. Ids that it makes up, names twice, or that are
   pinned, mean nothing. It keeps nothing in, and it evicts no more than has to leave.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from silas.context.blocks import Block
from silas.context.models import ContextZone
from silas.context.ports import ContextGroup, Scorer
from silas.kernel import Clock, join_taint

_log = logging.getLogger(__name__)
_MOST_GROUPS = 200
_MOST_TEXT = 2_000

Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True)
class ScorerLimits:
    """How long a scorer is waited for, and when it is left alone."""

    seconds: float = 2.0
    failures: int = 3
    cool_down_seconds: float = 300.0


class GuardedScorer:
    """A scorer that can be late, wrong or broken without anybody waiting for it."""

    def __init__(
        self,
        scorer: Scorer | None,
        *,
        clock: Clock,
        limits: ScorerLimits | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._scorer = scorer
        self._clock = clock
        self._limits = limits or ScorerLimits()
        self._sleep = sleep
        self._failures = 0
        self._rests_until: float | None = None

    @property
    def available(self) -> bool:
        """Whether it would be asked now."""
        if self._scorer is None:
            return False
        rests = self._rests_until
        return rests is None or self._clock.monotonic() >= rests

    async def ask(self, groups: Sequence[ContextGroup], goal: str | None) -> list[str] | None:
        """The ids of groups to drop, each known and named once; None if there is no answer."""
        if self._scorer is None or not self.available or not groups:
            return None
        try:
            answer = await self._in_time(self._scorer, groups, goal)
            named = list(dict.fromkeys(answer))
        except Exception as error:  # noqa: BLE001 - whatever a model does, the rules go on
            self._failed(error)
            return None
        self._failures, self._rests_until = 0, None
        known = {group.group_id for group in groups}
        return [name for name in named if name in known]

    async def _in_time(
        self, scorer: Scorer, groups: Sequence[ContextGroup], goal: str | None
    ) -> list[str]:
        asked = asyncio.ensure_future(scorer.score(groups, goal))
        limit = asyncio.ensure_future(self._sleep(self._limits.seconds))
        try:
            await asyncio.wait({asked, limit}, return_when=asyncio.FIRST_COMPLETED)
            if asked.done():
                return asked.result()
        finally:
            limit.cancel()
            if not asked.done():
                # It may refuse to end: nobody waits for that, and what it says then is not heard.
                asked.cancel()
                asked.add_done_callback(_forget)
        raise TimeoutError(f"the scorer took more than {self._limits.seconds:g} s")

    def _failed(self, error: Exception) -> None:
        self._failures += 1
        _log.warning("the scorer gave no answer: %s", str(error) or type(error).__name__)
        if self._failures >= self._limits.failures:
            self._rests_until = self._clock.monotonic() + self._limits.cool_down_seconds


def _forget(task: asyncio.Future[list[str]]) -> None:
    if not task.cancelled():
        task.exception()


def groups_of(blocks: Iterable[Block]) -> dict[str, list[Block]]:
    """What belongs together: a turn of the chronicle, each memory, each thing in the workspace."""
    groups: dict[str, list[Block]] = {}
    for block in blocks:
        item = block.item
        name = f"t{item.turn_number}" if item.zone is ContextZone.CHRONICLE else item.ctx_id
        if name in groups or len(groups) < _MOST_GROUPS:
            groups.setdefault(name, []).append(block)
    # Short ids: a model copies them more reliably, and learns nothing from them.
    return {f"g{number}": group for number, group in enumerate(groups.values(), 1)}


def as_shown(group_id: str, blocks: Sequence[Block]) -> ContextGroup:
    """A group as the scorer sees it."""
    items = [block.item for block in blocks]
    text = "\n".join(item.content[:_MOST_TEXT] for item in items)
    return ContextGroup(
        group_id=group_id,
        kind=items[0].kind.value,
        turn_number=items[0].turn_number,
        token_count=sum(block.tokens for block in blocks),
        text=text[:_MOST_TEXT],
        taint=join_taint(*(item.taint for item in items)),
    )
