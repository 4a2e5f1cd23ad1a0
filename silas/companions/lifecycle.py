"""The life of a companion: made, awake, paused, asleep, destroyed; each step is one transaction.

Whoever is paused, destroyed or given other borders writes nothing more from then on, not even what
was just allowed: the journal's fence moves before it is reported as done.

Destroying is final and complete: nothing wakes it from that moment on, its subscriptions and timers
are tombstones, its conversations are over, what waits is at its end, and what still runs cannot
write any more. What it has said stays readable.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from pydantic import ValidationError

from silas.companions.errors import CompanionInvalid
from silas.companions.ids import manual_run_key, run_thread, state_id
from silas.companions.links import LinkBook
from silas.companions.log import forget_log_in
from silas.companions.models import (
    AgentConfig,
    AgentLifecycle,
    AgentLinkRelation,
    AgentState,
    AgentSubscription,
    AgentTimer,
    Companion,
    InteractionMode,
    InteractiveSession,
    SubscriptionPredicate,
    WakeJob,
    WakeReason,
    WakeStatus,
)
from silas.companions.policy.switches import Fence
from silas.companions.prompt_items import PromptItems
from silas.companions.sessions import Sessions
from silas.companions.store import CompanionStore
from silas.companions.timer_book import TimerBook, TimerDraft
from silas.companions.wake.dispatch import WakeDispatch
from silas.companions.wake.index import TokenIndex
from silas.companions.wake.ports import OwnersZone
from silas.journal.notifications import TypedToken
from silas.kernel.field_problems import dotted, problems_in
from silas.kernel.models import Data
from silas.storage import Transaction

D = TypeVar("D", bound=Data)


@dataclass(frozen=True)
class SubscriptionDraft:
    """What a new companion is to be woken by."""

    tokens: tuple[TypedToken, ...]
    predicate: SubscriptionPredicate = field(default_factory=SubscriptionPredicate)


@dataclass(frozen=True)
class NewCompanion:
    """Everything that is needed to make a companion."""

    kind: str
    display_name: str
    allowed_category_ids: tuple[str, ...]
    mode: InteractionMode = InteractionMode.HYBRID
    config: AgentConfig = field(default_factory=AgentConfig)
    subscriptions: tuple[SubscriptionDraft, ...] = ()
    timers: tuple[TimerDraft, ...] = ()
    companion_id: str | None = None


class Lifecycle:
    """Makes companions, changes their state of life, and ends them."""

    def __init__(
        self,
        store: CompanionStore,
        *,
        dispatch: WakeDispatch,
        index: TokenIndex,
        sessions: Sessions,
        zone: OwnersZone,
        poke_alarms: Callable[[], None],
        call_off: Callable[[str], object],
        fence: Fence,
        told: Callable[[Companion], object] = lambda _companion: None,
    ) -> None:
        """`told` is called with a companion after it was made or changed."""
        self._store = store
        self._dispatch = dispatch
        self._index = index
        self._sessions = sessions
        self.timers = TimerBook(store, zone=zone, poke_alarms=poke_alarms)
        self._poke = poke_alarms
        self._call_off = call_off
        self._fence = fence
        self._told = told
        self._prompts = PromptItems(store)
        self._links = LinkBook(store)

    async def create(
        self,
        new: NewCompanion,
        *,
        also: Callable[[Transaction, Companion], None] | None = None,
    ) -> Companion:
        """Make a companion, awake, with its state, subscriptions and timers, in one transaction."""
        agent_id = new.companion_id or self._store.ids.new("companion")
        subscriptions = [self._subscription(agent_id, each) for each in new.subscriptions]
        timers = [self.timers.draft(agent_id, each) for each in new.timers]

        def make(tx: Transaction) -> Companion:
            if self._store.get_in(tx, Companion, agent_id) is not None:
                raise CompanionInvalid(f"There is a companion {agent_id} already.")
            companion = self._make_in(tx, agent_id, new)
            for record in (*subscriptions, *timers):
                self._store.put_in(tx, record)
            if also is not None:
                also(tx, companion)
            return companion

        companion = await self._store.transaction(make)
        for subscription in subscriptions:
            self._index.add(subscription)
        self._poke()
        self._told(companion)
        return companion

    async def subscribe(self, agent_id: str, draft: SubscriptionDraft) -> AgentSubscription:
        """Wake a companion by one thing more."""
        subscription = await self._store.put(self._subscription(agent_id, draft))
        self._index.add(subscription)
        return subscription

    async def unsubscribe(self, subscription_id: str) -> None:
        """Wake a companion by one thing less."""
        await self._store.delete(AgentSubscription, subscription_id)
        self._index.remove(subscription_id)

    async def configure(
        self,
        agent_id: str,
        change: Callable[[Companion], Companion],
        *,
        also: Callable[[Transaction], None] | None = None,
    ) -> Companion:
        """Change what was given to a companion, as it is now: a pause meanwhile stays one.

        What runs began with other borders, or another model: it is asked to stop. Who may not see
        a category any more forgets its log and its questions: they may hold something of it.
        """

        def write(tx: Transaction) -> tuple[Companion, Companion]:
            before = self._store.require_in(tx, Companion, agent_id)
            after = self._store.put_in(tx, change(before))
            if set(before.allowed_category_ids) - set(after.allowed_category_ids):
                forget_log_in(tx, self._store, agent_id)
                self._prompts.forget_all_in(tx, agent_id)
            if also is not None:
                also(tx)
            return before, after

        before, after = await self._store.transaction(write)
        if _given(before) != _given(after):
            self._call_off(agent_id)
            await self._fence()
        self._told(after)
        return after

    async def pause(self, agent_id: str) -> Companion:
        """Let a companion rest until it is resumed; what runs is asked to stop."""
        paused = await self._change(agent_id, paused_at=self._store.clock.now())
        self._call_off(agent_id)
        await self._fence()
        return paused

    async def resume(self, agent_id: str) -> Companion:
        """Let a paused companion go on."""
        return await self._change(agent_id, paused_at=None)

    async def set_dormant(self, agent_id: str, *, dormant: bool) -> Companion:
        """Let it sleep so that only the owner wakes it, or wake it up again."""
        lifecycle = AgentLifecycle.DORMANT if dormant else AgentLifecycle.ACTIVE
        return await self._change(agent_id, lifecycle=lifecycle)

    async def sleep_until(self, agent_id: str, moment: datetime | None) -> AgentState:
        """Let nothing but the owner wake it before this moment."""

        def write(tx: Transaction) -> AgentState:
            companion = self._store.require_in(tx, Companion, agent_id)
            state = self._store.require_in(tx, AgentState, companion.current_state_id)
            return self._store.put_in(tx, state.model_copy(update={"sleep_until": moment}))

        return await self._store.transaction(write)

    async def wake(self, agent_id: str, *, request_id: str | None = None) -> WakeJob:
        """Wake a companion because the owner wants it."""
        await self._store.transaction(lambda tx: self._store.require_alive_in(tx, agent_id))
        run_key = manual_run_key(agent_id, request_id or self._store.ids.new("request"))
        job = WakeJob(
            run_key=run_key,
            thread_id=run_thread(agent_id, run_key),
            agent_id=agent_id,
            reason=WakeReason.MANUAL,
            reason_id=request_id,
        )
        await self._dispatch.enqueue([job])
        return job

    async def say(self, agent_id: str, text: str, *, turn_id: str | None = None) -> WakeJob:
        """Speak to a companion, in the open conversation or a new one."""
        session = await self._sessions.open(agent_id)
        turn = turn_id or self._store.ids.new("turn")
        job = await self._sessions.say(session.id, text, turn_id=turn)
        await self._dispatch.enqueue([job])
        self._poke()
        return job

    async def destroy(self, agent_id: str) -> Companion:
        """End a companion for good; doing it again changes nothing."""
        companion = await self._store.require(Companion, agent_id)
        if companion.is_destroyed:
            return companion
        destroyed = await self._store.transaction(lambda tx: self._destroy_in(tx, agent_id))
        self._index.remove_agent(agent_id)
        self._call_off(agent_id)
        await self._fence()
        self._poke()
        self._told(destroyed)
        return destroyed

    def _destroy_in(self, tx: Transaction, agent_id: str) -> Companion:
        store, mine = self._store, {"agent_id": agent_id}
        companion = store.require_in(tx, Companion, agent_id)
        if companion.is_destroyed:
            return companion
        for subscription in store.find_in(tx, AgentSubscription, mine):
            store.delete_in(tx, AgentSubscription, subscription.id)
        for timer in store.find_in(tx, AgentTimer, mine):
            store.delete_in(tx, AgentTimer, timer.id)
        for session in store.find_in(tx, InteractiveSession, {**mine, "closed_at": None}):
            self._sessions.close_in(tx, session, reason="agent_destroyed")
        self._prompts.end_all_in(tx, agent_id)
        self._dispatch.log.end_waiting_in(tx, agent_id, WakeStatus.SKIPPED_DESTROYED)
        now = store.clock.now()
        companion = store.require_in(tx, Companion, agent_id)
        changes = {
            "lifecycle": AgentLifecycle.DESTROYED,
            "destroyed_at": now,
            "updated_at": now,
        }
        return store.put_in(tx, companion.model_copy(update=changes))

    async def _change(self, agent_id: str, **changes: object) -> Companion:
        def write(tx: Transaction) -> Companion:
            companion = self._store.require_in(tx, Companion, agent_id)
            now = self._store.clock.now()
            changed = companion.model_copy(update={**changes, "updated_at": now})
            return self._store.put_in(tx, changed)

        changed = await self._store.transaction(write)
        self._told(changed)
        return changed

    def _make_in(self, tx: Transaction, agent_id: str, new: NewCompanion) -> Companion:
        now = self._store.clock.now()
        companion = self._store.put_in(
            tx,
            checked(
                Companion,
                {
                    "id": agent_id,
                    "kind": new.kind,
                    "display_name": new.display_name,
                    "lifecycle": AgentLifecycle.ACTIVE,
                    "mode": new.mode,
                    "allowed_category_ids": new.allowed_category_ids,
                    "current_state_id": state_id(agent_id),
                    "created_at": now,
                    "updated_at": now,
                    "config": new.config,
                },
            ),
        )
        state = self._store.put_in(
            tx, AgentState(id=state_id(agent_id), agent_id=agent_id, updated_at=now)
        )
        self._links.draw_in(
            tx,
            AgentLinkRelation.AGENT_STATE,
            agent_id=agent_id,
            from_id=agent_id,
            to_id=state.id,
            now=now,
        )
        return companion

    def _subscription(self, agent_id: str, draft: SubscriptionDraft) -> AgentSubscription:
        now = self._store.clock.now()
        return AgentSubscription(
            id=self._store.ids.new("subscription"),
            agent_id=agent_id,
            tokens=draft.tokens,
            predicate=draft.predicate,
            created_at=now,
            updated_at=now,
        )


def _given(companion: Companion) -> tuple[object, ...]:
    """What a run works within."""
    return companion.allowed_category_ids, companion.config.model_id


def checked(kind: type[D], fields: Mapping[str, Any]) -> D:
    """The record with these fields; raises `CompanionInvalid` with what is wrong with them."""
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        told = "; ".join(f"{dotted(path)} {text}" for path, text in problems_in(error))
        raise CompanionInvalid(f"This cannot be set: {told}.") from error
