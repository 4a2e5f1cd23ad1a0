"""The rules by which things leave a context, without a model. The same state gives the same result.

1. Old results of tools are masked.
2. Words like "ok" and "thanks" of earlier turns are dropped.
3. Subscriptions that no agent spoke of for some turns are put to sleep.
4. A zone above its budget gives up what is worth least to it: the oldest of the chronicle, the
   least relevant of the memory, what is completed before what is active in the workspace.

What is pinned stays. A zone that has to give way goes down to nine tenths of its budget, so that
the next turns only add to its end: as long as the beginning stays as it is, providers do not have
to read it again.

The budget (`zone_budgets`) says what each zone may take, and what stays free:

1. `system_actual = min(system_zone_tokens, system_max)`
2. `allocable = max(total - system_actual, 0)`
3. `zone = floor(allocable * share)`, with the shares of the profile
4. `headroom = allocable - (chronicle + memory + workspace)`

Shares add up to 0.80 at most, so at least a fifth of what is allocable is headroom. What is pinned
outside the system zone has to fit into the least headroom there can be. So even if a profile leaves
a zone less than what is pinned there, all zones together stay within the total.

The second tier: a model says what the conversation can do without; it has two seconds.

1. After two seconds the rules decide, whatever the model is doing.
2. After three failures in a row it is not asked for five minutes.
3. Its answer only orders what may leave anyway. Ids that it makes up, names twice, or that are
   pinned, mean nothing. It keeps nothing in, and it evicts no more than has to leave.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from silas.context.models import (
    ContextGroup,
    ContextItem,
    ContextKind,
    ContextProfile,
    ContextZone,
    Scorer,
    TokenBudget,
)
from silas.context.scope import Block, ScopeContext, masked_item
from silas.kernel import Clock, join_taint

_LEAST_HEADROOM = 0.20
_EXACT = 1e-9  # 0.45 * 100 is a little less than 45


@dataclass(frozen=True)
class ZoneBudgets:
    """Tokens for each zone."""

    chronicle: int
    memory: int
    workspace: int
    headroom: int

    def of(self, zone: ContextZone) -> int:
        """What this zone may take; the system zone has a limit of its own."""
        match zone:
            case ContextZone.CHRONICLE:
                return self.chronicle
            case ContextZone.MEMORY:
                return self.memory
            case ContextZone.WORKSPACE:
                return self.workspace
            case ContextZone.SYSTEM:
                raise ValueError("the system zone is limited by system_max")


def zone_budgets(
    budget: TokenBudget, profile: ContextProfile, *, system_tokens: int
) -> ZoneBudgets:
    """What each zone may take while the system zone takes this much."""
    allocable = max(budget.usable - min(system_tokens, budget.system_max), 0)
    chronicle, memory, workspace = (
        math.floor(allocable * share + _EXACT)
        for share in (profile.chronicle_pct, profile.memory_pct, profile.workspace_pct)
    )
    return ZoneBudgets(
        chronicle, memory, workspace, headroom=allocable - chronicle - memory - workspace
    )


def most_pinned(budget: TokenBudget) -> int:
    """How much may be pinned outside the system zone, all zones together."""
    return math.floor(max(budget.usable - budget.system_max, 0) * _LEAST_HEADROOM)


_SHARE_AFTER_EVICTION = 0.9
_RESULT = ContextKind.EXECUTION_RESULT
EVICTABLE = (ContextZone.CHRONICLE, ContextZone.MEMORY, ContextZone.WORKSPACE)


def mask_old_results(
    scope: ScopeContext, budget: TokenBudget, turn_number: int
) -> list[ContextItem]:
    """Put notes in place of old results of tools; returns what they were."""
    oldest = turn_number - budget.observation_mask_after_turns
    masked = []
    for ctx_id in [ctx_id for ctx_id, turn in scope.maskable.items() if turn < oldest]:
        block = scope.get(ctx_id)
        if block is not None:
            masked.append(block.item)
            scope.put(scope.made(masked_item(block)))
    return masked


def drop_trivial(scope: ScopeContext, turn_number: int) -> list[str]:
    """Drop words of earlier turns that say nothing by themselves; returns their ids."""
    gone = [ctx_id for ctx_id, turn in scope.trivial.items() if turn < turn_number]
    for ctx_id in gone:
        scope.take(ctx_id)
    return gone


def rest_subscriptions(scope: ScopeContext, budget: TokenBudget, turn_number: int) -> list[str]:
    """Put subscriptions to sleep that nobody speaks of; returns the ids of their blocks."""
    idle = [
        sub_id
        for sub_id, watched in scope.watched.items()
        if watched.sub.active and turn_number - watched.referenced > budget.subscription_ttl_turns
    ]
    return [sub_id for sub_id in idle if put_to_sleep(scope, sub_id)]


def put_to_sleep(scope: ScopeContext, sub_id: str) -> bool:
    """Let a subscription cost nothing; says whether a block of it was shown."""
    watched = scope.watched[sub_id]
    watched.sub = watched.sub.model_copy(update={"active": False, "token_count": 0})
    watched.read_in = None
    return scope.take(sub_id) is not None


def evict_by_zone(scope: ScopeContext, budgets: ZoneBudgets) -> list[ContextItem]:
    """Bring every zone within its budget; returns what left, in the order in which it did."""
    gone: list[ContextItem] = []
    for name in EVICTABLE:
        zone, most = scope.zones[name], budgets.of(name)
        if zone.tokens > most:
            gone += _take_until(
                scope, name, _least_first(scope, name), int(most * _SHARE_AFTER_EVICTION)
            )
    return gone


def evict_down_to(scope: ScopeContext, budgets: ZoneBudgets, tokens: int) -> list[ContextItem]:
    """Evict until the whole is this small: always from the zone that is fullest for its budget."""
    waiting = {name: _least_first(scope, name) for name in EVICTABLE}
    gone: list[ContextItem] = []
    total = scope.tokens
    while waiting and total > tokens:
        fullest = max(waiting, key=lambda name: scope.zones[name].tokens / max(budgets.of(name), 1))
        block = next(waiting[fullest], None)
        if block is None:
            del waiting[fullest]
            continue
        evict(scope, block.item.ctx_id)
        gone.append(block.item)
        total -= block.tokens
    return gone


def evict(scope: ScopeContext, ctx_id: str) -> None:
    """Take one item out; if it is a subscription's, that one sleeps."""
    if ctx_id in scope.watched:
        put_to_sleep(scope, ctx_id)
    else:
        scope.take(ctx_id)


def candidates(scope: ScopeContext) -> Iterator[Block]:
    """All that may leave, zone by zone, what is worth least first."""
    for name in EVICTABLE:
        yield from _least_first(scope, name)


def _take_until(
    scope: ScopeContext, name: ContextZone, blocks: Iterable[Block], most: int
) -> list[ContextItem]:
    excess = scope.zones[name].tokens - most
    going: list[Block] = []
    for block in blocks:
        if excess <= 0:
            break
        going.append(block)
        excess -= block.tokens
    if scope.watched:
        for block in going:
            evict(scope, block.item.ctx_id)
    else:
        scope.take_all(name, going)
    return [block.item for block in going]


def _least_first(scope: ScopeContext, name: ContextZone) -> Iterator[Block]:
    """A zone's blocks that may leave, in the order of its policy; ties leave the oldest first."""
    zone = scope.zones[name]
    blocks = [block for block in zone if not block.item.pinned] if zone.pinned else list(zone)
    if name is ContextZone.MEMORY:
        blocks.sort(key=_relevance)
    elif name is ContextZone.WORKSPACE:
        blocks.sort(key=lambda block: _activity(scope, block.item))
    return iter(blocks)


def _relevance(block: Block) -> float:
    return block.item.relevance


def _activity(scope: ScopeContext, item: ContextItem) -> int:
    if item.ctx_id in scope.completed:
        return 0
    return 1 if item.kind is _RESULT else 2


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
