"""From a change in the journal to wakes.

For every batch, in the order of the journal, once:

1. the index says which subscriptions wait for one of its tokens;
2. its records are looked up, all on one view, real ids only;
3. a companion is woken if one of them is in its sight and meets the predicate, unless it has made
   the change itself; several subscriptions of one companion are one wake;
4. the wakes, what their keys were derived from, and the place in the journal are written down in
   one transaction, and only then put on the bus.

So a crash anywhere loses nothing: at the start the batches after the last place are read from the
journal, and their run keys are what they would have been. A database that fails for a moment loses
nothing either: the same is done a moment later, without waiting for the next change.

Who waits for which change: an index of tokens in memory, and predicates on the changed records.

5. The index is made from the database and kept up with it. The three classes of tokens are apart,
   so that a record's id can never be taken for a kind of record, and a value is looked up as it is.
6. Only real ids are looked up, all of them on one view of the journal.
7. Whatever a companion may not see does not wake it: its categories are part of every predicate.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from silas.companions.ids import run_thread, subscription_run_key
from silas.companions.messages import Diagnostic, NotificationProvenance, WakeJob
from silas.companions.models import AgentSubscription, Companion, SubscriptionPredicate, WakeReason
from silas.companions.store import CompanionStore
from silas.companions.wake.dispatch import WakeDispatch
from silas.journal.models import OWNER, AccessScope, Record
from silas.journal.notifications import NotificationBatch, TokenClass, TypedToken
from silas.journal.queries import links_of
from silas.journal.records import category_of, kind_of, load, may_see
from silas.journal.store import Journal
from silas.kernel import DatabaseError
from silas.storage import Database, Reader, Transaction

_ACTIVE = """
SELECT t.subscription_id, s.agent_id, json_extract(s.body, '$.predicate'),
    t.token_class, t.token_namespace, t.token_value
FROM agent_subscription_tokens AS t JOIN agent_subscriptions AS s ON s.id = t.subscription_id
WHERE t.active = 1
"""

_SEMANTIC, _SUBTYPE = TokenClass.SEMANTIC_KEY, TokenClass.SUBTYPE_TOKEN


class IndexedSubscription(NamedTuple):
    """A subscription as the index knows it."""

    subscription_id: str
    agent_id: str
    predicate: SubscriptionPredicate


class TokenIndex:
    """Finds the subscriptions of a set of tokens."""

    def __init__(self) -> None:
        self._clear()

    async def load(self, database: Database) -> None:
        """Make the index anew from the database."""
        loaded = await database.snapshot(_loaded)
        self._clear()
        for waiting, tokens in loaded:
            self._insert(waiting, tokens)

    def add(self, subscription: AgentSubscription) -> None:
        """Take up a subscription, in the place of what it was before."""
        self.remove(subscription.id)
        if subscription.active and subscription.deleted_at is None:
            waiting = IndexedSubscription(
                subscription.id, subscription.agent_id, subscription.predicate
            )
            self._insert(waiting, [_key(token) for token in subscription.tokens])

    def remove(self, subscription_id: str) -> None:
        """Forget a subscription; nothing happens if it is not known."""
        self._waiting.pop(subscription_id, None)
        for token_class, key in self._keys.pop(subscription_id, ()):
            waiting = self._of_class[token_class]
            waiting[key].discard(subscription_id)
            if not waiting[key]:
                del waiting[key]

    def remove_agent(self, agent_id: str) -> None:
        """Forget all subscriptions of a companion."""
        mine = [
            each.subscription_id for each in self._waiting.values() if each.agent_id == agent_id
        ]
        for subscription_id in mine:
            self.remove(subscription_id)

    def match(self, tokens: Iterable[TypedToken]) -> set[str]:
        """The ids of the subscriptions that wait for any of these tokens."""
        semantic, subtype, entity = self._semantic, self._subtype, self._entity
        found = []
        for token in tokens:
            token_class = token.token_class
            if token_class is _SEMANTIC:
                hit = semantic.get(token.token_value)
            elif token_class is _SUBTYPE:
                hit = subtype.get((token.token_namespace, token.token_value))
            else:
                hit = entity.get(token.token_value)
            if hit:
                found.append(hit)
        return set().union(*found)

    def waiting(self, subscription_id: str) -> IndexedSubscription:
        """What is known of a subscription that `match` has found."""
        return self._waiting[subscription_id]

    def __len__(self) -> int:
        return len(self._waiting)

    def _clear(self) -> None:
        self._semantic: dict[object, set[str]] = {}
        self._subtype: dict[object, set[str]] = {}
        self._entity: dict[object, set[str]] = {}
        self._of_class: Mapping[TokenClass, dict[object, set[str]]] = {
            TokenClass.SEMANTIC_KEY: self._semantic,
            TokenClass.SUBTYPE_TOKEN: self._subtype,
            TokenClass.ENTITY_ID: self._entity,
        }
        self._waiting: dict[str, IndexedSubscription] = {}
        self._keys: dict[str, list[tuple[TokenClass, object]]] = {}

    def _insert(self, waiting: IndexedSubscription, keys: list[tuple[TokenClass, object]]) -> None:
        self._waiting[waiting.subscription_id] = waiting
        self._keys[waiting.subscription_id] = keys
        for token_class, key in keys:
            self._of_class[token_class].setdefault(key, set()).add(waiting.subscription_id)


def _key(token: TypedToken) -> tuple[TokenClass, object]:
    return _key_of(token.token_class, token.token_namespace, token.token_value)


def _key_of(
    token_class: TokenClass, namespace: str | None, value: str
) -> tuple[TokenClass, object]:
    key = (namespace, value) if token_class is TokenClass.SUBTYPE_TOKEN else value
    return token_class, key


def _loaded(reader: Reader) -> list[tuple[IndexedSubscription, list[tuple[TokenClass, object]]]]:
    # Most subscriptions ask for the same few things: each predicate is read once.
    predicates: dict[str, SubscriptionPredicate] = {}
    found: dict[str, tuple[IndexedSubscription, list[tuple[TokenClass, object]]]] = {}
    for subscription_id, agent_id, asked, token_class, namespace, value in reader.rows(_ACTIVE):
        if asked not in predicates:
            predicates[asked] = SubscriptionPredicate.model_validate_json(asked)
        known = found.get(subscription_id)
        if known is None:
            known = found[subscription_id] = (
                IndexedSubscription(subscription_id, agent_id, predicates[asked]),
                [],
            )
        known[1].append(_key_of(TokenClass(token_class), namespace, value))
    return list(found.values())


@dataclass(frozen=True)
class Changed:
    """A record that a change is about, with what a predicate can ask of it."""

    record: Record
    kind: str
    category_id: str | None
    linked: frozenset[str]


def entity_ids(tokens: Iterable[TypedToken]) -> list[str]:
    """The ids of records among the tokens; no other class is ever looked up."""
    return [each.token_value for each in tokens if each.token_class is TokenClass.ENTITY_ID]


def look_up(reader: Reader, ids: Collection[str]) -> list[Changed]:
    """The records with these ids, as far as there are any."""
    records = [record for each in ids if (record := load(reader, each)) is not None]
    return [
        Changed(record, kind_of(record), category_of(reader, record), _linked(reader, record))
        for record in records
    ]


def in_sight(
    reader: Reader, changed: Iterable[Changed], scopes: Mapping[str, AccessScope]
) -> dict[str, list[Changed]]:
    """For each companion, what it may see of a change."""
    found = list(changed)
    return {
        agent_id: [each for each in found if may_see(reader, each.record, scope)]
        for agent_id, scope in scopes.items()
    }


def meets(predicate: SubscriptionPredicate, changed: Changed) -> bool:
    """Whether this record is what the predicate asks for."""
    return (
        (not predicate.entity_types or changed.kind in predicate.entity_types)
        and (not predicate.category_ids or changed.category_id in predicate.category_ids)
        and (predicate.linked_to is None or predicate.linked_to in changed.linked)
        and all(_equals(changed.record, field, value) for field, value in predicate.equals.items())
    )


def _equals(record: Record, field: str, value: str | int | bool | None) -> bool:
    missing = object()
    held = getattr(record, field, missing)
    return held is not missing and held == value


def _linked(reader: Reader, record: Record) -> frozenset[str]:
    links = links_of(reader, record.id, OWNER)
    parts = {
        value
        for name in ("task_id", "checklist_id", "target_id", "day_plan_id")
        if isinstance(value := getattr(record, name, None), str)
    }
    return frozenset(parts | {end for link in links for end in (link.from_id, link.to_id)})


_CURSOR = "SELECT position FROM wake_cursor WHERE one = 1"
_MOVE = """
INSERT INTO wake_cursor (one, position) VALUES (1, ?)
ON CONFLICT (one) DO UPDATE SET position = excluded.position
"""
_AT_ONCE = 200
_MAX_ENTITIES = 50
_CALM_DOWN = 1.0
_LONGEST_PAUSE = 60.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Candidate:
    """A companion whose subscriptions know one of the tokens."""

    companion: Companion
    waiting: list[IndexedSubscription]


class WakeOrchestrator:
    """Listens to the journal and wakes whom a change concerns."""

    def __init__(
        self,
        store: CompanionStore,
        journal: Journal,
        *,
        dispatch: WakeDispatch,
        index: TokenIndex,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._sleep = sleep
        self._journal = journal
        self._dispatch = dispatch
        self._index = index
        self._turn = asyncio.Lock()
        self._position = 0
        self._stop: Callable[[], None] = _nothing

    async def start(self) -> int:
        """Catch up with the journal and listen from now on; returns how much was missed."""
        await self._index.load(self._store.database)
        self._position = await self._first_position()
        self._stop = self._journal.subscribe(self.on_batch)
        return await self.catch_up()

    def stop(self) -> None:
        """Listen no longer. What comes meanwhile is caught up at the next start."""
        self._stop()

    async def on_batch(self, batch: NotificationBatch) -> None:
        """Handle what was committed. If something before it was missed, that comes first."""
        del batch
        await self._caught_up()

    async def run(self) -> None:
        """Until cancelled, do again what a bad moment of a database has kept from being done."""
        pause = _CALM_DOWN
        while True:
            await self._dispatch.behind.wait()
            await self._sleep(pause)
            pause = _CALM_DOWN if await self._caught_up() else min(2 * pause, _LONGEST_PAUSE)

    async def _caught_up(self) -> bool:
        try:
            await self.catch_up()
        except DatabaseError as error:
            _log.warning("companions hear of it later: %s [%s]", error.message, error.code)
            return False
        return True

    async def catch_up(self) -> int:
        """Handle every batch after the last one that was; returns how many there were."""
        self._dispatch.behind.clear()
        try:
            await self._dispatch.send_rest()
            return await self._handle_all()
        except DatabaseError:
            self._dispatch.behind.set()
            raise

    async def _handle_all(self) -> int:
        handled = 0
        async with self._turn:
            while batches := await self._journal.batches_after(self._position, limit=_AT_ONCE):
                for batch in batches:
                    await self._handle(batch)
                handled += len(batches)
        return handled

    async def _first_position(self) -> int:
        newest = await self._journal.last_cursor()
        row = await self._store.database.fetch_one(_CURSOR)
        if row is None:
            # What happened before there were companions concerns none of them.
            await self._store.database.execute(_MOVE, (newest,))
            return newest
        # A journal that was restored from a backup may be behind.
        return min(int(row[0]), newest)

    async def _handle(self, batch: NotificationBatch) -> None:
        jobs = await self._jobs_or_none(batch)
        position = batch.source_cursor or self._position + 1

        def write_down(tx: Transaction) -> None:
            if jobs:
                self._store.put_in(tx, self._provenance(batch, position))
            tx.execute(_MOVE, (position,))

        await self._dispatch.enqueue(jobs, also=write_down)
        self._position = position

    async def _jobs_or_none(self, batch: NotificationBatch) -> list[WakeJob]:
        """The wakes of a batch. One that cannot be understood is told, and the next one comes."""
        try:
            return await self._jobs(batch)
        except DatabaseError:
            # It may be better in a moment, and then nothing is missed.
            raise
        except Exception as error:  # noqa: BLE001 - else nobody would ever be woken again
            _log.exception("nobody was woken by %s", batch.local_batch_id)
            await self._store.put(
                Diagnostic(
                    id=self._store.ids.new("diagnostic"),
                    kind="batch_not_understood",
                    subject_id=batch.local_batch_id,
                    detail={"error": f"{type(error).__name__}: {error}"},
                    created_at=self._store.clock.now(),
                )
            )
            return []

    async def _jobs(self, batch: NotificationBatch) -> list[WakeJob]:
        candidates = await self._candidates(batch)
        if not candidates:
            return []
        ids = entity_ids(batch.typed_tokens)
        scopes = {
            each.companion.id: AccessScope(
                allowed_category_ids=frozenset(each.companion.allowed_category_ids)
            )
            for each in candidates
        }

        def look(reader: Reader) -> dict[str, list[Changed]]:
            return in_sight(reader, look_up(reader, ids), scopes)

        seen = await self._journal.read(look)
        jobs = (self._job(batch, each, seen[each.companion.id]) for each in candidates)
        return [job for job in jobs if job is not None]

    async def _candidates(self, batch: NotificationBatch) -> list[_Candidate]:
        by_agent: dict[str, list[IndexedSubscription]] = {}
        for subscription_id in sorted(self._index.match(batch.typed_tokens)):
            waiting = self._index.waiting(subscription_id)
            if batch.actor != f"companion:{waiting.agent_id}":
                by_agent.setdefault(waiting.agent_id, []).append(waiting)
        if not by_agent:
            return []
        alive = await self._store.database.snapshot(lambda reader: self._alive(reader, by_agent))
        return [_Candidate(each, by_agent[each.id]) for each in alive]

    def _alive(self, reader: Reader, agent_ids: Iterable[str]) -> list[Companion]:
        found = (self._store.get_in(reader, Companion, each) for each in agent_ids)
        return [each for each in found if each is not None and not each.is_destroyed]

    def _job(
        self, batch: NotificationBatch, candidate: _Candidate, seen: list[Changed]
    ) -> WakeJob | None:
        for waiting in candidate.waiting:
            met = [each.record.id for each in seen if meets(waiting.predicate, each)]
            if met:
                return _wake(batch, waiting, met)
        return None

    def _provenance(self, batch: NotificationBatch, position: int) -> NotificationProvenance:
        return NotificationProvenance(
            logical_change_key=batch.logical_change_key,
            local_batch_id=batch.local_batch_id,
            change_unit_keys=batch.change_unit_keys,
            position=position,
            received_at=self._store.clock.now(),
        )


def _nothing() -> None:
    """Nobody listens yet."""


def _wake(batch: NotificationBatch, waiting: IndexedSubscription, entities: list[str]) -> WakeJob:
    run_key = subscription_run_key(
        waiting.agent_id, waiting.subscription_id, batch.logical_change_key
    )
    return WakeJob(
        run_key=run_key,
        thread_id=run_thread(waiting.agent_id, run_key),
        agent_id=waiting.agent_id,
        reason=WakeReason.SUBSCRIPTION,
        reason_id=waiting.subscription_id,
        logical_change_keys=(batch.logical_change_key,),
        changed_entity_ids=tuple(entities[:_MAX_ENTITIES]),
        source_cursor=batch.source_cursor,
    )
