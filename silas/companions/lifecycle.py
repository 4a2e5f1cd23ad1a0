"""The life of a companion: made, awake, paused, asleep, destroyed; each step is one transaction.

Whoever is paused, destroyed or given other borders writes nothing more from then on, not even what
was just allowed: the journal's fence moves before it is reported as done.

Destroying is final and complete: nothing wakes it from that moment on, its subscriptions and timers
are tombstones, its conversations are over, what waits is at its end, and what still runs cannot
write any more. What it has said stays readable.

Whoever shows companions hears of each step (`CompanionNotifications`): typed tokens, like the
journal's. Nobody is woken by them.
"""

import itertools
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from pydantic import ValidationError

from silas.companions.erasure import ErasedElsewhere, forget_said_in
from silas.companions.errors import CompanionInvalid
from silas.companions.gateway import Fence
from silas.companions.ids import catch_up_run_key, manual_run_key, run_thread, state_id
from silas.companions.log import CompanionSessions, draw_link_in
from silas.companions.messages import WakeJob, WakeRun
from silas.companions.models import (
    AgentConfig,
    AgentInteractionMode,
    AgentLifecycle,
    AgentLinkRelation,
    AgentState,
    AgentSubscription,
    AgentTimer,
    Companion,
    InteractiveSession,
    SubscriptionPredicate,
    WakeReason,
    WakeStatus,
)
from silas.companions.resumption import PromptItems
from silas.companions.run_record import without_wish
from silas.companions.store import CompanionStore
from silas.companions.timers import TimerBook, TimerDraft
from silas.companions.wake.dispatch import WakeDispatch
from silas.companions.wake.orchestrator import TokenIndex
from silas.journal.notifications import (
    ChangeUnit,
    NotificationBatch,
    TypedToken,
    entity,
    make_batch,
    semantic,
)
from silas.kernel import IdFactory
from silas.kernel.models import Data, dotted, problems_in
from silas.storage import Transaction

D = TypeVar("D", bound=Data)
AGENT_CHANGED = "AGENT_CHANGED"
AGENT_STATE_CHANGED = "AGENT_STATE_CHANGED"
AGENT_MESSAGE_APPENDED = "AGENT_MESSAGE_APPENDED"
Listener = Callable[[NotificationBatch], None]
Forgotten = Callable[[ErasedElsewhere], Awaitable[None]]
"""Told of what a companion that has lost a category has left elsewhere."""
_log = logging.getLogger(__name__)


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
    mode: AgentInteractionMode = AgentInteractionMode.HYBRID
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
        sessions: CompanionSessions,
        time_zone: Callable[[], str],
        poke_alarms: Callable[[], None],
        call_off: Callable[[str], object],
        fence: Fence,
        changed: Callable[[Companion], object] = lambda _companion: None,
        forgotten: Forgotten | None = None,
    ) -> None:
        """`changed` is called with a companion after it was made or changed.

        `forgotten` is awaited when one has lost a category: its cards go as well.
        """
        self._store = store
        self._dispatch = dispatch
        self._index = index
        self._sessions = sessions
        self.timers = TimerBook(store, time_zone=time_zone, poke_alarms=poke_alarms)
        self._poke = poke_alarms
        self._call_off = call_off
        self._fence = fence
        self._changed = changed
        self._forgotten = forgotten
        self._prompts = PromptItems(store)

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
        self._changed(companion)
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
        a category any more forgets all that it has said and read: it may hold something of it.
        """

        def write(tx: Transaction) -> tuple[Companion, Companion, ErasedElsewhere | None]:
            before = self._store.require_in(tx, Companion, agent_id)
            after = self._store.put_in(tx, change(before))
            forgotten = None
            if set(before.allowed_category_ids) - set(after.allowed_category_ids):
                forgotten = forget_said_in(tx, self._store, agent_id)
            if also is not None:
                also(tx)
            return before, after, forgotten

        before, after, forgotten = await self._store.transaction(write)
        if _given(before) != _given(after):
            self._call_off(agent_id)
            await self._fence()
        if forgotten is not None and self._forgotten is not None:
            await self._forgotten(forgotten)
        self._changed(after)
        return after

    async def pause(self, agent_id: str) -> Companion:
        """Let a companion rest until it is resumed; what runs is asked to stop."""
        paused = await self._change(agent_id, paused_at=self._store.clock.now())
        self._call_off(agent_id)
        await self._fence()
        return paused

    async def resume(self, agent_id: str) -> Companion:
        """Let a paused companion go on, or a sleeping one be awake.

        What it has missed meanwhile is one wake.
        """

        def write(tx: Transaction) -> tuple[Companion, list[WakeRun]]:
            missed = self._missed_in(tx, agent_id)
            self._awaken_in(tx, agent_id)
            companion = self._store.require_in(tx, Companion, agent_id)
            now = self._store.clock.now()
            changes = {"paused_at": None, "updated_at": now}
            return self._store.put_in(tx, companion.model_copy(update=changes)), missed

        companion, missed = await self._store.transaction(write)
        self._changed(companion)
        if missed:
            key = catch_up_run_key(agent_id, missed[0].run_key)
            await self._dispatch.enqueue([_wake_for(missed, key, WakeReason.RECOVERY_CATCHUP)])
        return companion

    async def sleep(self, agent_id: str, until: datetime) -> AgentState:
        """Let nobody but the owner wake a companion before this moment."""

        def write(tx: Transaction) -> AgentState:
            self._store.require_alive_in(tx, agent_id)
            companion = self._store.require_in(tx, Companion, agent_id)
            state = self._store.require_in(tx, AgentState, companion.current_state_id)
            return self._store.put_in(tx, state.model_copy(update={"sleep_until": until}))

        state = await self._store.transaction(write)
        self._changed(await self._store.require(Companion, agent_id))
        return state

    async def let_go(self, agent_id: str, words: str) -> bool:
        """Keep the goal or the wish no longer that these words mean; False if they mean none."""

        def write(tx: Transaction) -> bool:
            self._store.require_alive_in(tx, agent_id)
            companion = self._store.require_in(tx, Companion, agent_id)
            state = self._store.require_in(tx, AgentState, companion.current_state_id)
            slots = without_wish(state.slots, words, host_id=self._store.host_id)
            if slots != state.slots:
                self._store.put_in(tx, state.model_copy(update={"slots": slots}))
            return slots != state.slots

        return await self._store.transaction(write)

    async def wake(self, agent_id: str, *, request_id: str | None = None) -> WakeJob:
        """Wake a companion because the owner wants it: its sleep is over, too.

        It is told what it has missed while it slept, rested or was stopped.
        """

        def write(tx: Transaction) -> list[WakeRun]:
            self._store.require_alive_in(tx, agent_id)
            self._awaken_in(tx, agent_id)
            return self._missed_in(tx, agent_id)

        missed = await self._store.transaction(write)
        run_key = manual_run_key(agent_id, request_id or self._store.ids.new("request"))
        bare = WakeJob(
            run_key=run_key,
            thread_id=run_thread(agent_id, run_key),
            agent_id=agent_id,
            reason=WakeReason.MANUAL,
        )
        job = _wake_for(missed, run_key, WakeReason.MANUAL) if missed else bare
        job = job.model_copy(update={"reason_id": request_id})
        await self._dispatch.enqueue([job])
        return job

    async def again(self, run: WakeRun, *, by_rules: bool = False) -> WakeJob:
        """Carry a run out once more for the same cause, because the owner wants it.

        It is a run of its own: what the first one did is not undone, and what it does is asked
        about as ever. `by_rules`: no model is asked.
        """

        def write(tx: Transaction) -> None:
            self._store.require_alive_in(tx, run.agent_id)
            self._awaken_in(tx, run.agent_id)

        await self._store.transaction(write)
        run_key = manual_run_key(run.agent_id, self._store.ids.new("request"))
        changes: dict[str, Any] = {
            "run_key": run_key,
            "thread_id": run_thread(run.agent_id, run_key),
            "reason": WakeReason.MANUAL,
            "reason_id": run.run_key,
            "session_id": None,
            "reply_to": None,
            "by_rules": by_rules,
        }
        job = run.job.model_copy(update=changes)
        await self._dispatch.enqueue([job])
        return job

    def _awaken_in(self, tx: Transaction, agent_id: str) -> None:
        companion = self._store.require_in(tx, Companion, agent_id)
        state = self._store.get_in(tx, AgentState, companion.current_state_id)
        if state is not None and state.sleep_until is not None:
            self._store.put_in(tx, state.model_copy(update={"sleep_until": None}))
        if companion.lifecycle is AgentLifecycle.DORMANT:
            awake = companion.model_copy(update={"lifecycle": AgentLifecycle.ACTIVE})
            self._store.put_in(tx, awake)

    def _missed_in(self, tx: Transaction, agent_id: str) -> list[WakeRun]:
        """The wakes by changes and times that were skipped since it last worked, newest first."""
        newest = self._store.find_in(
            tx, WakeRun, {"agent_id": agent_id}, newest_first=True, limit=_MOST_MISSED
        )
        # Whoever only answers has not looked at what was missed.
        since = itertools.takewhile(
            lambda run: (
                run.status is not WakeStatus.COMPLETED
                or run.job.reason is WakeReason.USER_INITIATED
            ),
            newest,
        )
        return [
            run
            for run in since
            if run.status in _MISSED and run.job.reason in _ALONE and run.absorbed_into is None
        ]

    async def say(
        self,
        agent_id: str,
        text: str,
        *,
        turn_id: str | None = None,
        reply_to: Mapping[str, str] | None = None,
    ) -> WakeJob:
        """Speak to a companion, in the open conversation or a new one."""
        session = await self._sessions.open(agent_id)
        turn = turn_id or self._store.ids.new("turn")
        job = await self._sessions.say(session.id, text, turn_id=turn, reply_to=reply_to)
        await self._dispatch.enqueue([job])
        self._poke()
        return job

    async def end_session(self, agent_id: str) -> InteractiveSession | None:
        """End the conversation that is open with a companion, if one is."""

        def end(tx: Transaction) -> InteractiveSession | None:
            session = self._sessions.open_session_in(tx, agent_id)
            return self._sessions.close_in(tx, session, reason="owner") if session else None

        return await self._store.transaction(end)

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
        self._changed(destroyed)
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
        self._changed(changed)
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
        draw_link_in(
            tx,
            self._store,
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


class CompanionNotifications:
    """Whoever listens hears what has changed, in the order in which it was committed."""

    def __init__(self, ids: IdFactory, *, host_id: str) -> None:
        self._ids = ids
        self._host_id = host_id
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Hear everything from now on; the result ends it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def agent_changed(self, companion: Companion) -> NotificationBatch:
        """A companion was made, changed or destroyed."""
        tokens = [semantic(AGENT_CHANGED), entity(companion.id)]
        return self._tell("agent", companion.id, companion.vector_clock, tokens)

    def state_changed(self, state: AgentState) -> NotificationBatch:
        """A run has ended: its companion's state is another, and its log has grown."""
        tokens = [semantic(AGENT_STATE_CHANGED), entity(state.agent_id), entity(state.id)]
        if state.recent_head is not None:
            tokens += [semantic(AGENT_MESSAGE_APPENDED), entity(state.recent_head.message_id)]
        return self._tell("agent_state", state.id, state.vector_clock, tokens)

    def _tell(
        self,
        payload_type: str,
        payload_id: str,
        clock: dict[str, int],
        tokens: Iterable[TypedToken],
    ) -> NotificationBatch:
        unit = ChangeUnit(
            origin="local",
            host_id=self._host_id,
            counter=clock.get(self._host_id, 1),
            payload_type=payload_type,
            payload_id=payload_id,
        )
        batch = make_batch(self._ids.new("batch"), [unit], tokens=tokens)
        for listener in tuple(self._listeners):
            try:
                listener(batch)
            except Exception:  # noqa: BLE001 - what one does is no reason for another to miss it
                _log.exception("a listener of companions failed")
        return batch


_MOST_MISSED = 100
_MOST_CHANGES = 100
_MISSED = (WakeStatus.SKIPPED_SLEEPING, WakeStatus.SKIPPED_PAUSED, WakeStatus.SKIPPED_STOPPED)
_ALONE = (WakeReason.SUBSCRIPTION, WakeReason.TIMER, WakeReason.RECOVERY_CATCHUP)


def _wake_for(missed: Sequence[WakeRun], run_key: str, reason: WakeReason) -> WakeJob:
    """One wake for all that was missed, with what has changed; the newest changes first."""
    jobs = [run.job for run in missed]
    changed = dict.fromkeys(each for job in jobs for each in job.changed_entity_ids)
    keys = dict.fromkeys(each for job in jobs for each in job.logical_change_keys)
    cursors = [job.source_cursor for job in jobs if job.source_cursor is not None]
    return WakeJob(
        run_key=run_key,
        thread_id=run_thread(jobs[0].agent_id, run_key),
        agent_id=jobs[0].agent_id,
        reason=reason,
        logical_change_keys=tuple(keys)[:_MOST_CHANGES],
        changed_entity_ids=tuple(changed)[:_MOST_CHANGES],
        source_cursor=max(cursors, default=None),
        cause="rest",
    )


def _given(companion: Companion) -> tuple[object, ...]:
    """What a run works within."""
    return companion.allowed_category_ids, companion.config.model_id


def checked(kind: type[D], fields: Mapping[str, Any]) -> D:
    """The record with these fields; raises `CompanionInvalid` with what is wrong with them."""
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        problems = "; ".join(f"{dotted(path)} {text}" for path, text in problems_in(error))
        raise CompanionInvalid(f"This cannot be set: {problems}.") from error
