"""The rules by which things leave a context, without a model. The same state gives the same result.

1. Old results of tools are masked.
2. Words like "ok" and "thanks" of earlier turns are dropped.
3. Subscriptions that no agent spoke of for some turns are put to sleep.
4. A zone above its budget gives up what is worth least to it: the oldest of the chronicle, the
   least relevant of the memory, what is completed before what is active in the workspace.

What is pinned stays. A zone that has to give way goes down to nine tenths of its budget, so that
the next turns only add to its end: as long as the beginning stays as it is, providers do not have
to read it again.
"""

from collections.abc import Iterable, Iterator

from silas.context.blocks import Block, masked_item
from silas.context.budget import ZoneBudgets
from silas.context.models import ContextItem, ContextKind, ContextZone, TokenBudget
from silas.context.scope import ScopeContext

_ROOM_FOR_MORE = 0.9
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
            gone += _take_until(scope, name, _least_first(scope, name), int(most * _ROOM_FOR_MORE))
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
