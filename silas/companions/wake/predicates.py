"""Whether a changed record is what a subscription waits for.

Only real ids are looked up, all of them on one view of the journal. Whatever a companion may not
see does not wake it: its categories are part of every predicate.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from silas.companions.models import SubscriptionPredicate
from silas.journal.belonging import category_of, may_see
from silas.journal.models import OWNER, AccessScope, Record
from silas.journal.notifications import TokenClass, TypedToken
from silas.journal.reading import links_of
from silas.journal.rows import kind_of, load
from silas.storage import Reader


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
