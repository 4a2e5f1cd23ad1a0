"""What the journal tells others about a commit, and how a change is recognised again.

1. A commit is told as one `NotificationBatch`. Its tokens are typed; nothing is guessed from text.
2. A `ChangeUnit` is one record's write: whose it was, which number it had there, what it was about.
3. `logical_change_key` is made from the sorted keys of the units alone, so that it is the same on
   every device and in whatever order the units come. `local_batch_id` only helps to find an error.
4. Batches are joined only if they have the same `logical_change_key`.
5. A batch whose provenance is missing or does not fit together cannot be made: nobody is woken by a
   change that could not be recognised again.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Literal, Self

from pydantic import Field, model_validator

from silas.journal.errors import MissingChangeProvenance
from silas.kernel.models import Data

_KEY = re.compile("[0-9a-f]{64}")
_NO_NAMESPACE = "-"


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
    """SHA-256 of the unit's canonical string, version 1."""
    text = "|".join(
        ["v1", unit.origin, unit.host_id, str(unit.counter), unit.payload_type, unit.payload_id]
    )
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
