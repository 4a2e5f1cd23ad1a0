"""`ContextManager`: what a model is shown of each conversation, and what gives way.

Everything is of one scope, and no method reads another. Agents do not call any of this: they see
the rendered text, and all decisions about what stays are made here.
What leaves becomes a memory: an episode that is trusted no further than before.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from silas.context.eviction import (
    EVICTABLE,
    GuardedScorer,
    ScorerLimits,
    Sleep,
    ZoneBudgets,
    as_shown,
    candidates,
    drop_trivial,
    evict,
    evict_by_zone,
    evict_down_to,
    groups_of,
    mask_old_results,
    most_pinned,
    put_to_sleep,
    rest_subscriptions,
    zone_budgets,
)
from silas.context.models import (
    ContextItem,
    ContextKind,
    ContextSubscription,
    ContextZone,
    ExactTokens,
    ProfileUnknown,
    Scorer,
    TokenBudget,
    TokenCounter,
    ZoneFull,
)
from silas.context.scope import (
    Block,
    CountingServer,
    HeuristicTokenCounter,
    ScopeContext,
    SettlingCounter,
)
from silas.context.subscriptions import Materialiser, WatchedFiles, note_reference, watch
from silas.kernel import Clock, Provenance, SilasError, TaintLevel, join_taint
from silas.kernel.ids import person_of
from silas.memory.intake import scrub
from silas.memory.models import MemoryItem, MemoryType, TrustLevel
from silas.memory.service import MemoryService

_KEPT_ELSEWHERE = frozenset({ContextKind.MEMORY, ContextKind.SUBSCRIPTION, ContextKind.SYSTEM})


def episodes(scope_id: str, items: Iterable[ContextItem], *, now: datetime) -> list[MemoryItem]:
    """Memories of what would be lost. What came from memory, or is read anew, would not be."""
    return [
        _episode(scope_id, item, now)
        for item in items
        if item.kind not in _KEPT_ELSEWHERE and not item.masked and item.content.strip()
    ]


def _episode(scope_id: str, item: ContextItem, now: datetime) -> MemoryItem:
    content = item.content
    removed: tuple[str, ...] = ()
    # What an agent has said was never the owner's words, whatever it was made from.
    taint = join_taint(item.taint, TaintLevel.AUTH) if _is_agents(item) else item.taint
    if taint is not TaintLevel.OWNER:
        cleaned = scrub(content)
        content, removed = cleaned.text, cleaned.removed
    return MemoryItem(
        # The same item, evicted again after a restart, is the same memory.
        memory_id=f"ctx_{item.ctx_id}",
        scope_id=scope_id,
        content=content,
        memory_type=MemoryType.EPISODE,
        trust_level=TrustLevel.WORKING,
        taint=taint,
        created_at=item.created_at,
        updated_at=now,
        source_kind="context",
        scrubbed=list(removed),
    )


def _is_agents(item: ContextItem) -> bool:
    return item.source.startswith("agent:")


_log = logging.getLogger(__name__)
_MOST_SCOPES = 1_000
_MOST_BLOCKS = 5_000
"""In memory, of all scopes together: many short messages take far more room than their tokens."""
_MOST_LEAVING = 2_000


class ContextManager:
    """The contexts of all conversations, each for itself.

    Without `recall` nothing that leaves is kept in the memory, and no query is watched.
    """

    def __init__(
        self,
        budget: TokenBudget,
        *,
        clock: Clock,
        counter: TokenCounter | None = None,
        exact: ExactTokens | None = None,
        recall: MemoryService | None = None,
        scorer: Scorer | None = None,
        limits: ScorerLimits | None = None,
        files: WatchedFiles | None = None,
        redact: Callable[[str], str] = str,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """`exact` settles what `counter` estimates. `redact` takes out secrets."""
        self._budget = budget
        self._clock = clock
        self._counter = counter or HeuristicTokenCounter()
        self._server = CountingServer(exact, clock=clock) if exact is not None else None
        self._recall = recall
        self._scorer = GuardedScorer(scorer, clock=clock, limits=limits, sleep=sleep)
        self._files = files or WatchedFiles()
        self._materialiser = Materialiser(
            self._files, recall, budget=budget, clock=clock, redact=redact
        )
        self._scopes: OrderedDict[str, ScopeContext] = OrderedDict()
        self._fitting: tuple[tuple[tuple[str, str], ...], dict[str, str]] = ((), {})
        """The descriptions of skills that came last, and those of them that fit."""
        self._sizes: dict[str, int] = {}
        self._touched: set[str] = set()
        """Scopes that may have other sizes by now."""

    def reserve(self, given: Sequence[str]) -> None:
        """Leave room for what agents are given beside the context; `given` has each agent's whole.

        At most half of what the system zone leaves: a window that is too small for its agents must
        not lose the conversation as well.
        """
        most = (self._budget.total - self._budget.system_max) // 2
        beside = max(map(self._counter.count, given), default=0)
        if beside > most:
            _log.warning("agents are given %d tokens beside a context of %d", beside, most)
        self._budget = self._budget.model_copy(update={"beside": min(beside, most)})

    def add(self, scope_id: str, item: ContextItem) -> str:
        """Add an item to a zone; one with an id that is known takes the place of the old one.

        Raises `ZoneFull` if it would stay for good and there is no room for that.
        """
        scope = self._scope(scope_id)
        if item.zone is ContextZone.SYSTEM and not item.pinned:
            item = item.model_copy(update={"pinned": True})
        old = scope.get(item.ctx_id)
        block = scope.made(item)
        if old is None or old != block:
            if item.pinned:
                self._require_space(scope, block, old)
            scope.put(block)
        if item.source.startswith("agent:") and scope.watched:
            note_reference(scope, item.content, item.turn_number)
        return item.ctx_id

    def drop(self, scope_id: str, ctx_id: str) -> None:
        """Remove an item; nothing happens if it is not there."""
        scope = self._scope(scope_id)
        if ctx_id in scope.watched:
            put_to_sleep(scope, ctx_id)
        scope.take(ctx_id)

    def get_zone(self, scope_id: str, zone: ContextZone) -> list[ContextItem]:
        """All items of a zone, the oldest first."""
        return [block.counted for block in self._scope(scope_id).zones[zone]]

    def complete(self, scope_id: str, ctx_id: str) -> None:
        """Note that a plan is done: it need not stay, and leaves before what is active."""
        scope = self._scope(scope_id)
        block = scope.get(ctx_id)
        if block is not None and block.item.zone is ContextZone.WORKSPACE:
            done = block.item.model_copy(update={"pinned": False})
            scope.put(scope.made(done, status="completed"))
            scope.completed.add(ctx_id)

    def is_complete(self, scope_id: str, ctx_id: str) -> bool:
        """Whether this is a plan that is done."""
        return ctx_id in self._scope(scope_id).completed

    def unpin(self, scope_id: str, ctx_id: str) -> None:
        """Let an item outside the system zone leave when it has to."""
        scope = self._scope(scope_id)
        block = scope.get(ctx_id)
        if block is not None and block.item.zone is not ContextZone.SYSTEM:
            item = block.item.model_copy(update={"pinned": False})
            scope.put(block._replace(item=item))

    def subscribe(self, scope_id: str, sub: ContextSubscription) -> str:
        """Watch something; returns the id of the subscription that stands for it from now on."""
        return watch(self._scope(scope_id), sub, self._files)

    def unsubscribe(self, scope_id: str, sub_id: str) -> None:
        """Put a subscription to sleep; nothing happens if there is none of this id."""
        scope = self._scope(scope_id)
        if sub_id in scope.watched:
            put_to_sleep(scope, sub_id)

    def subscriptions(self, scope_id: str) -> list[ContextSubscription]:
        """All subscriptions of a scope, those that sleep as well."""
        return [watched.sub for watched in self._scope(scope_id).watched.values()]

    def set_profile(self, scope_id: str, profile_name: str) -> bool:
        """Divide the budget differently from now on; says whether that is a change."""
        if profile_name not in self._budget.profiles:
            known = ", ".join(self._budget.profiles)
            raise ProfileUnknown(f"There is no context profile {profile_name!r}. Choose: {known}.")
        scope = self._scope(scope_id)
        changed = scope.profile != profile_name
        scope.profile = profile_name
        return changed

    async def render(self, scope_id: str, turn_number: int) -> str:
        """All zones as one text, each block with a tag: system, chronicle, memory, workspace."""
        scope = self._scope(scope_id)
        if scope.watched:
            await self._materialiser.refresh(scope, turn_number)
        left = mask_old_results(scope, self._budget, turn_number) if scope.maskable else []
        if scope.tokens > self._budget.usable:
            left += evict_by_zone(scope, self._budgets(scope))
        if left:
            await self._keep(scope, left)
        return "".join(scope.texts())

    async def enforce_budget(
        self, scope_id: str, turn_number: int, current_goal: str | None = None
    ) -> list[str]:
        """Let leave what does not fit; returns the ids of what left, in the order of leaving."""
        scope, budget = self._scope(scope_id), self._budget
        await scope.settle_counts()
        is_crowded = self._is_crowded(scope)
        masked = mask_old_results(scope, budget, turn_number)
        dropped = drop_trivial(scope, turn_number) + rest_subscriptions(scope, budget, turn_number)
        left = await self._evict_as_scored(scope, current_goal) if is_crowded else []
        left += evict_by_zone(scope, self._budgets(scope))
        most = self._most
        if scope.tokens > most:
            left += evict_down_to(scope, self._budgets(scope), most)
        await self._keep(scope, masked + left)
        self._forget_silent(scope_id)
        return dropped + [item.ctx_id for item in left]

    @property
    def _most(self) -> int:
        return int(self._budget.usable * self._budget.eviction_threshold_pct)

    def _is_crowded(self, scope: ScopeContext) -> bool:
        """Whether so much is there that it is worth asking what can leave.

        The zones share what `scorer_threshold_pct` refers to: together they never reach the total.
        """
        budgets = self._budgets(scope)
        allotted = sum(budgets.of(zone) for zone in EVICTABLE)
        used = sum(scope.zones[zone].tokens for zone in EVICTABLE)
        return used > self._budget.scorer_threshold_pct * allotted

    def _is_too_much(self, scope: ScopeContext) -> bool:
        budgets = self._budgets(scope)
        over = any(scope.zones[zone].tokens > budgets.of(zone) for zone in EVICTABLE)
        return over or scope.tokens > self._most

    def token_usage(self, scope_id: str) -> dict[str, int]:
        """How many tokens each zone takes."""
        zones = self._scope(scope_id).zones
        return {name.value: zones[name].tokens for name in ContextZone}

    def budgets(self, scope_id: str) -> ZoneBudgets:
        """How many tokens each zone may take."""
        return self._budgets(self._scope(scope_id))

    def provenance(self, scope_id: str) -> Provenance:
        """What the context is derived from, joined."""
        return self._scope(scope_id).provenance()

    def knows(self, scope_id: str) -> bool:
        """Whether this scope has a context in memory."""
        return scope_id in self._scopes

    def discard(self, scope_id: str) -> None:
        """Drop the whole context of a scope, with what it would still hand to the memory."""
        self._scopes.pop(scope_id, None)
        self._sizes.pop(scope_id, None)
        self._touched.discard(scope_id)

    def scopes_of(self, person: str) -> list[str]:
        """The scopes in memory that are conversations of this person."""
        return [each for each in self._scopes if person_of(each) == person]

    def has(self, scope_id: str, ctx_id: str) -> bool:
        """Whether this item is in the context."""
        return self._scope(scope_id).has(ctx_id)

    def content_of(self, scope_id: str, ctx_id: str) -> str | None:
        """What an item of the context says; None if it is not there."""
        block = self._scope(scope_id).get(ctx_id)
        return block.item.content if block else None

    def fit_skills(self, descriptions: Mapping[str, str]) -> dict[str, str]:
        """The descriptions of skills, the most important first, that fit into their share."""
        asked = tuple(descriptions.items())
        if self._fitting[0] != asked:
            self._fitting = asked, self._first_that_fit(descriptions)
        return dict(self._fitting[1])

    def _first_that_fit(self, descriptions: Mapping[str, str]) -> dict[str, str]:
        left = int(self._budget.total * self._budget.skill_metadata_budget_pct)
        fitting: dict[str, str] = {}
        for name, text in descriptions.items():
            tokens = self._counter.count(f"{name}: {text}\n")
            if tokens > left:
                break
            left -= tokens
            fitting[name] = text
        return fitting

    def _scope(self, scope_id: str) -> ScopeContext:
        scope = self._scopes.get(scope_id)
        if scope is None:
            if not scope_id:
                raise ValueError("a context belongs to a scope: name it")
            scope = ScopeContext(scope_id, self._scope_counter(), self._budget.default_profile)
            self._scopes[scope_id] = scope
        self._scopes.move_to_end(scope_id)
        self._touched.add(scope_id)
        return scope

    def _forget_silent(self, speaking: str) -> None:
        """Whoever was silent longest is read from the chronicle when heard again."""
        for name in self._touched:
            self._sizes[name] = self._scopes[name].size
        self._touched.clear()
        total = sum(self._sizes.values())
        if len(self._scopes) <= _MOST_SCOPES and total <= _MOST_BLOCKS:
            return
        for name in [each for each, scope in self._scopes.items() if not scope.leaving]:
            if len(self._scopes) <= _MOST_SCOPES and total <= _MOST_BLOCKS:
                return
            if name != speaking:
                del self._scopes[name]
                total -= self._sizes.pop(name)

    def _scope_counter(self) -> TokenCounter:
        if self._server is None:
            return self._counter
        return SettlingCounter(self._server, estimate=self._counter)

    def _budgets(self, scope: ScopeContext) -> ZoneBudgets:
        system = scope.zones[ContextZone.SYSTEM].tokens
        return zone_budgets(
            self._budget, self._budget.profiles[scope.profile], system_tokens=system
        )

    def _require_space(self, scope: ScopeContext, new: Block, old: Block | None) -> None:
        in_system = new.item.zone is ContextZone.SYSTEM
        most = self._budget.system_max if in_system else most_pinned(self._budget)
        taken = scope.zones[ContextZone.SYSTEM].tokens if in_system else scope.pinned_tokens
        if old and old.item.pinned and (old.item.zone is ContextZone.SYSTEM) is in_system:
            taken -= old.tokens
        if taken + new.tokens > most:
            raise ZoneFull(
                f"{new.tokens} tokens would stay for good, with {taken} of {most} taken.",
                ctx_id=new.item.ctx_id,
            )

    async def _evict_as_scored(self, scope: ScopeContext, goal: str | None) -> list[ContextItem]:
        if not self._scorer.available or not self._is_too_much(scope):
            return []
        may_leave = (
            block for block in candidates(scope) if block.item.kind is not ContextKind.SUBSCRIPTION
        )
        groups = groups_of(may_leave)
        shown = [as_shown(name, blocks) for name, blocks in groups.items()]
        left: list[ContextItem] = []
        for name in await self._scorer.ask(shown, goal) or ():
            if not self._is_too_much(scope):
                break
            left += _still_there(scope, groups[name])
        return left

    async def _keep(self, scope: ScopeContext, items: Sequence[ContextItem]) -> None:
        """Hand what left to the memory; what it does not take now is offered again."""
        if self._recall is None:
            return
        # What is remembered is the person's, in whichever conversation it was said.
        person = person_of(scope.scope_id)
        new = episodes(person, items, now=self._clock.now())
        waiting, scope.leaving = scope.leaving + new, []
        if not waiting:
            return
        try:
            await self._recall.keep(person, waiting)
        except SilasError as error:
            _log.warning("what left the context is not kept yet: %s", error.message)
            scope.leaving = (waiting + scope.leaving)[-_MOST_LEAVING:]


def _still_there(scope: ScopeContext, group: Sequence[Block]) -> list[ContextItem]:
    """Evict a group; while the scorer thought, some of it may have changed, left or been pinned."""
    left = []
    for known in group:
        block = scope.get(known.item.ctx_id)
        if block is not None and not block.item.pinned:
            evict(scope, block.item.ctx_id)
            left.append(block.item)
    return left
