"""Facts: what a run has read, each with the source that a claim about it can name."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import Field

from silas.companions.models import SourceType
from silas.kernel.models import Data, UtcDatetime


class Fact(Data):
    """Something that was read, and where."""

    source_id: str
    """`task:ID`; what a claim names as its source."""
    source_type: SourceType = SourceType.JOURNAL
    locator: str
    captured_at: UtcDatetime
    freshness_at: UtcDatetime
    """When what was read was last changed."""
    category_id: str | None = None
    fields: dict[str, Any] = Field(default_factory=dict)

    def shown(self) -> dict[str, Any]:
        """The fact as a model may be told it, before it is projected."""
        return {"source_id": self.source_id, **self.fields}


def facts_from(
    tool_name: str,
    payload: Mapping[str, Any],
    *,
    captured_at: UtcDatetime,
    changed: frozenset[str] = frozenset(),
) -> list[Fact]:
    """The facts in the result of a reading tool; of a tool that is not known, none."""
    read = _READERS.get(tool_name)
    if read is None:
        return []
    return [
        _fact(kind, each, captured_at=captured_at, changed=changed) for kind, each in read(payload)
    ]


def merged(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    """Each source once, in the order in which they were first read; what was read last counts."""
    found: dict[str, Fact] = {}
    for fact in facts:
        known = found.get(fact.source_id)
        marked = known is not None and known.fields.get("changed", False)
        fields = {**fact.fields, "changed": True} if marked else fact.fields
        found[fact.source_id] = fact.model_copy(update={"fields": fields})
    return tuple(found.values())


def _fact(
    kind: str, fields: Mapping[str, Any], *, captured_at: UtcDatetime, changed: frozenset[str]
) -> Fact:
    locator = str(fields["locator"] if "locator" in fields else fields["id"])
    shown = {key: each for key, each in fields.items() if key not in ("locator", "updated_at")}
    if locator in changed:
        shown["changed"] = True
    return Fact(
        source_id=f"{kind}:{locator}",
        source_type=SourceType.JOURNAL if "id" in fields else SourceType.TOOL_OUTPUT,
        locator=locator,
        captured_at=captured_at,
        freshness_at=fields.get("updated_at") or captured_at,
        category_id=fields.get("category_id"),
        fields={"kind": kind, **shown},
    )


def _tasks(payload: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    return (("task", each) for each in payload["tasks"])


def _candidates(payload: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    for each in payload["candidates"]:
        yield "candidate", {**each, "certain": not payload["ambiguous"]}


def _categories(payload: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    return (("category", {**each, "category_id": each["id"]}) for each in payload["categories"])


def _ratings(payload: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    for each in payload["dimensions"]:
        yield (
            "ratings",
            {**each, "days": payload["days"], "locator": f"{each['dimension']}/{payload['days']}"},
        )


def _time(payload: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    for each in payload["categories"]:
        yield (
            "time",
            {
                **each,
                "days": payload["days"],
                "locator": f"{each['category_id']}/{payload['days']}",
            },
        )


def _day(payload: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    if payload.get("id") is None:
        return
    yield (
        "day_plan",
        {key: payload[key] for key in ("id", "date", "pinned_task_ids", "updated_at")},
    )
    for block in payload["blocks"]:
        yield "day_block", block


_READERS = {
    "list_tasks_in_scope": _tasks,
    "resolve_task_reference": _candidates,
    "list_allowed_categories": _categories,
    "get_ratings_summary": _ratings,
    "get_time_summary": _time,
    "get_day_plan": _day,
}
