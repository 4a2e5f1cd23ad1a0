"""What the journal tells others about a commit, and how a change is recognised again.

1. A commit is told as one `NotificationBatch`. Its tokens are typed; nothing is guessed from text.
2. A `ChangeUnit` is one record's write: whose it was, which number it had there, what it was about.
3. `logical_change_key` is made from the sorted keys of the units alone, so that it is the same on
   every device and in whatever order the units come. `local_batch_id` only helps to find an error.
4. Batches are joined only if they have the same `logical_change_key`.
5. A batch whose provenance is missing or does not fit together cannot be made: nobody is woken by a
   change that could not be recognised again.
6. Listeners are told in the order of the commits, each once, outside of the commit itself.
"""

import asyncio
import hashlib
import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Literal, Self

from pydantic import Field, model_validator

from silas.journal.errors import MissingChangeProvenance
from silas.journal.models import (
    Checklist,
    ChecklistItem,
    DayBlock,
    DayPlan,
    Link,
    Rating,
    Record,
    Task,
    TimeEntry,
)
from silas.journal.records import category_of, kind_of, load
from silas.kernel import SilasError
from silas.kernel.models import Data
from silas.kernel.tasks import end_task
from silas.storage import DatabaseNotOpened, Reader

_KEY = re.compile("[0-9a-f]{64}")
_NO_NAMESPACE = "-"
SEMANTIC_KEYS = {
    "category": "CATEGORY",
    "task": "TASK",
    "checklist": "CHECKLIST",
    "checklist_item": "CHECKLIST_ITEM",
    "time_entry": "TIME_ENTRY",
    "day_plan": "DAY_PLAN",
    "day_block": "DAY_BLOCK",
    "rating": "RATING",
    "note": "NOTE",
    "link": "LINK",
}
_CALM_DOWN = 1.0
_log = logging.getLogger(__name__)


class TokenClass(StrEnum):
    """What a token names."""

    SEMANTIC_KEY = "semantic_key"
    SUBTYPE_TOKEN = "subtype_token"  # noqa: S105 - the name of a class of tokens
    ENTITY_ID = "entity_id"


class TypedToken(Data):
    """One thing that a change is about; only a subtype has a namespace, and it must have one."""

    token_class: TokenClass
    token_value: str = Field(min_length=1, max_length=200)
    token_namespace: str | None = Field(default=None, min_length=1, max_length=60)

    @model_validator(mode="after")
    def _has_its_namespace(self) -> Self:
        if (self.token_namespace is not None) != (self.token_class is TokenClass.SUBTYPE_TOKEN):
            raise ValueError("a subtype token has a namespace, and no other token has one")
        return self

    @property
    def token_key(self) -> str:
        """What tokens are compared by."""
        return token_key(self.token_class, self.token_value, self.token_namespace)


def token_key(token_class: TokenClass, token_value: str, token_namespace: str | None = None) -> str:
    """The one spelling of a token."""
    return f"{token_class}|{token_namespace or _NO_NAMESPACE}|{token_value}"


def semantic(value: str) -> TypedToken:
    """A kind of record: `TASK`, `DAY_PLAN`, …"""
    return TypedToken(token_class=TokenClass.SEMANTIC_KEY, token_value=value)


def subtype(namespace: str, value: str) -> TypedToken:
    """A finer kind: `task.status` `done`."""
    return TypedToken(
        token_class=TokenClass.SUBTYPE_TOKEN, token_value=value, token_namespace=namespace
    )


def entity(record_id: str) -> TypedToken:
    """One record."""
    return TypedToken(token_class=TokenClass.ENTITY_ID, token_value=record_id)


class ChangeUnit(Data):
    """One write of one record."""

    origin: Literal["local", "sync"]
    host_id: str = Field(min_length=1, max_length=100, pattern=r"^[^|]+$")
    counter: int = Field(ge=1, le=2**53 - 1)
    payload_type: str = Field(min_length=1, max_length=60, pattern=r"^[^|]+$")
    payload_id: str = Field(min_length=1, max_length=100)

    @property
    def change_unit_key(self) -> str:
        """The digest that identifies it everywhere."""
        return change_unit_key(self)


def change_unit_key(unit: ChangeUnit) -> str:
    """SHA-256 of the unit's canonical string, version 2.

    How it came here (`origin`) is not part of it: the device where it was made and those that
    receive it must find the same key, or the same change would wake somebody on each of them.
    """
    text = "|".join(["v2", unit.host_id, str(unit.counter), unit.payload_type, unit.payload_id])
    return hashlib.sha256(text.encode()).hexdigest()


def logical_change_key(change_unit_keys: Iterable[str]) -> str:
    """SHA-256 over the sorted keys, each once; raises if there are none or one is no key."""
    keys = sorted(set(change_unit_keys))
    if not keys or not all(_KEY.fullmatch(key) for key in keys):
        raise MissingChangeProvenance
    return hashlib.sha256(f"v1|{','.join(keys)}".encode()).hexdigest()


class NotificationBatch(Data):
    """What one commit was about."""

    local_batch_id: str
    logical_change_key: str
    change_unit_keys: tuple[str, ...]
    typed_tokens: tuple[TypedToken, ...]
    source_cursor: int | None = None
    """Its place in the journal's own order, for catching up."""
    actor: str | None = None
    """Who made the change on this device: nobody needs to be woken by what they did themselves."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if (
            not self.typed_tokens
            or list(self.change_unit_keys) != sorted(set(self.change_unit_keys))
            or logical_change_key(self.change_unit_keys) != self.logical_change_key
        ):
            raise MissingChangeProvenance
        return self


def make_batch(
    local_batch_id: str,
    units: Sequence[ChangeUnit],
    *,
    tokens: Iterable[TypedToken],
    source_cursor: int | None = None,
    actor: str | None = None,
) -> NotificationBatch:
    """The batch of these writes; raises `MissingChangeProvenance` if there are none."""
    keys = tuple(sorted({unit.change_unit_key for unit in units}))
    return NotificationBatch(
        local_batch_id=local_batch_id,
        logical_change_key=logical_change_key(keys),
        change_unit_keys=keys,
        typed_tokens=_each_once(tokens),
        source_cursor=source_cursor,
        actor=actor,
    )


def coalesce(batches: Iterable[NotificationBatch]) -> list[NotificationBatch]:
    """Join the tokens of batches with the same `logical_change_key`; all others stay apart."""
    joined: dict[str, NotificationBatch] = {}
    for batch in batches:
        known = joined.get(batch.logical_change_key)
        joined[batch.logical_change_key] = batch if known is None else _joined(known, batch)
    return list(joined.values())


def _joined(known: NotificationBatch, batch: NotificationBatch) -> NotificationBatch:
    tokens = _each_once([*known.typed_tokens, *batch.typed_tokens])
    cursor = max(known.source_cursor or 0, batch.source_cursor or 0) or None
    return known.model_copy(update={"typed_tokens": tokens, "source_cursor": cursor})


def _each_once(tokens: Iterable[TypedToken]) -> tuple[TypedToken, ...]:
    return tuple(sorted({token.token_key: token for token in tokens}.values(), key=_by_key))


def _by_key(token: TypedToken) -> str:
    return token.token_key


def tokens_of(reader: Reader, before: Record | None, after: Record) -> Iterator[TypedToken]:
    """The kind, the record and what it belongs to, its category, and what happened to it.

    Subtypes: `category` (before and after), `change` (`task.created`, `.updated`, `.deleted`,
    `.restored`), `task.status`, `task.status_changed` (only if it did), `task.priority`,
    `rating.dimension`, `time_entry.source`, `link.relation`.
    """
    kind = kind_of(after)
    yield semantic(SEMANTIC_KEYS[kind])
    yield subtype("change", f"{kind}.{_what_happened(before, after)}")
    yield from map(entity, _concerned(reader, after))
    categories = {category_of(reader, each) for each in (before, after) if each is not None}
    yield from (subtype("category", name) for name in categories if name is not None)
    yield from _details(before, after)


def _what_happened(before: Record | None, after: Record) -> str:
    if before is None:
        return "created"
    if before.deleted == after.deleted:
        return "updated"
    return "deleted" if after.deleted else "restored"


def _details(before: Record | None, after: Record) -> Iterator[TypedToken]:
    match after:
        case Task():
            yield subtype("task.status", after.status)
            yield subtype("task.priority", after.priority)
            if not isinstance(before, Task) or before.status != after.status:
                yield subtype("task.status_changed", after.status)
        case Rating():
            yield subtype("rating.dimension", after.dimension)
        case TimeEntry() if after.source:
            yield subtype("time_entry.source", after.source)
        case Link():
            yield subtype("link.relation", after.relation)
        case _:
            return


def _concerned(reader: Reader, record: Record) -> Iterator[str]:
    yield record.id
    match record:
        case Checklist():
            yield record.task_id
        case ChecklistItem():
            parent = load(reader, record.checklist_id)
            yield record.checklist_id
            if isinstance(parent, Checklist):
                yield parent.task_id
        case TimeEntry() if record.task_id:
            yield record.task_id
        case DayBlock():
            yield record.day_plan_id
            if record.task_id:
                yield record.task_id
        case DayPlan():
            yield from record.pinned_task_ids
        case Rating():
            yield record.target_id
        case Link():
            yield from (record.from_id, record.to_id)
        case _:
            return


Listener = Callable[[NotificationBatch], Awaitable[None] | None]
Unsubscribe = Callable[[], None]
Missed = Callable[[int], Awaitable[list[NotificationBatch]]]


class Notifier:
    """Reads what was committed after the last that it told, and tells it.

    So a commit whose caller was cancelled, or that another process made, is told with the next.
    """

    def __init__(self, missed: Missed, *, cursor: int) -> None:
        self._missed = missed
        self._cursor = cursor
        self._listeners: dict[int, Listener] = {}
        self._number = 0
        self._wanted = False
        self._task: asyncio.Task[None] | None = None
        self._later: asyncio.TimerHandle | None = None

    def subscribe(self, listener: Listener) -> Unsubscribe:
        """Tell this listener about every commit from now on."""
        self._number += 1
        number = self._number
        self._listeners[number] = listener

        def unsubscribe() -> None:
            self._listeners.pop(number, None)

        return unsubscribe

    def wake(self) -> None:
        """Something was committed."""
        self._wanted = True
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._tell_all())

    async def settled(self) -> None:
        """Wait until everything that was committed has been told."""
        while self._task is not None and not self._task.done():
            await asyncio.shield(self._task)

    async def stop(self) -> None:
        """Tell nobody anything more; whoever listens catches up later."""
        if self._later is not None:
            self._later.cancel()
        if self._task is not None:
            await end_task(self._task)

    async def _tell_all(self) -> None:
        while self._wanted:
            self._wanted = False
            try:
                batches = await self._missed(self._cursor)
            except SilasError as error:
                # Nothing is lost: it is told a moment later, or caught up at the next start.
                _log.warning("listeners of the journal wait: %s", error.message)
                if not isinstance(error, DatabaseNotOpened):  # it was closed meanwhile
                    loop = asyncio.get_running_loop()
                    self._later = loop.call_later(_CALM_DOWN, self.wake)
                return
            for batch in coalesce(batches):
                for listener in list(self._listeners.values()):
                    await _tell(listener, batch)
            if batches:
                self._cursor = max(batch.source_cursor or 0 for batch in batches)


async def _tell(listener: Listener, batch: NotificationBatch) -> None:
    try:
        answer = listener(batch)
        if inspect.isawaitable(answer):
            await answer
    except Exception:  # noqa: BLE001 - what one does is no reason for another not to hear of it
        _log.exception("a listener of the journal failed at %s", batch.local_batch_id)
