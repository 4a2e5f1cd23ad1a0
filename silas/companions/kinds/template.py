"""Reports without a model: what the facts say, in the sections of the kind's template."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from silas.companions.facts import Fact
from silas.companions.kinds.definition import CompanionDefinition
from silas.companions.proposals import ClaimDraft, ReportDraft, SectionDraft
from silas.kernel import parse_timestamp

_SOON = timedelta(days=2)
_MOST = 12
_CLOSED = frozenset({"done", "rejected"})
Claims = Callable[[Sequence[Fact], datetime], list[ClaimDraft]]


def template_report(
    definition: CompanionDefinition, facts: Sequence[Fact], *, now: datetime
) -> ReportDraft:
    """The report that the facts alone allow; every claim is one of them, or a sum over them.

    Times are told in the time zone of `now`.
    """
    sections = tuple(
        SectionDraft(
            section_id=each.id,
            title=each.title,
            claims=tuple(_SHOWS[each.shows](facts, now)[:_MOST]) if each.shows in _SHOWS else (),
        )
        for each in definition.report.sections
    )
    return ReportDraft(
        scope=definition.report.scope,
        headline=f"{definition.report.headline}: {_count(facts, now)}",
        sections=sections,
    )


def is_open(fact: Fact) -> bool:
    """Whether the fact is a task that is not closed."""
    return fact.fields.get("kind") == "task" and fact.fields.get("status") not in _CLOSED


def due(fact: Fact) -> datetime | None:
    """When the task is due."""
    at = fact.fields.get("due_at")
    return parse_timestamp(at) if isinstance(at, str) else None


def _count(facts: Sequence[Fact], now: datetime) -> str:
    still_open = [each for each in facts if is_open(each)]
    overdue = [each for each in still_open if (at := due(each)) is not None and at < now]
    return f"{len(still_open)} open, {len(overdue)} overdue"


def _tasks(facts: Sequence[Fact], now: datetime, fits: Callable[[Fact], bool]) -> list[ClaimDraft]:
    return [_claim(_task_line(each.fields, now), each) for each in facts if fits(each)]


def _local(at: str, now: datetime) -> datetime:
    return parse_timestamp(at).astimezone(now.tzinfo)


def _task_line(task: dict[str, Any], now: datetime) -> str:
    steps = task.get("open_item_count") or 0
    parts = [f"“{task['title']}” is {str(task['status']).replace('_', ' ')}"]
    if isinstance(at := task.get("due_at"), str):
        parts.append(f"due {_local(at, now):%Y-%m-%d %H:%M}")
    if steps:
        parts.append(f"{steps} open step{'s' if steps > 1 else ''}")
    return ", ".join(parts) + "."


def _open(facts: Sequence[Fact], now: datetime) -> list[ClaimDraft]:
    return _tasks(facts, now, is_open)


def _changed(facts: Sequence[Fact], now: datetime) -> list[ClaimDraft]:
    return _tasks(facts, now, lambda each: _is_task(each) and bool(each.fields.get("changed")))


def _done(facts: Sequence[Fact], now: datetime) -> list[ClaimDraft]:
    return _tasks(facts, now, lambda each: _is_task(each) and each.fields.get("status") == "done")


def _overdue(facts: Sequence[Fact], now: datetime) -> list[ClaimDraft]:
    return _tasks(
        facts, now, lambda each: is_open(each) and (at := due(each)) is not None and at < now
    )


def _due_soon(facts: Sequence[Fact], now: datetime) -> list[ClaimDraft]:
    return _tasks(
        facts,
        now,
        lambda each: is_open(each) and (at := due(each)) is not None and now <= at <= now + _SOON,
    )


def _checklists(facts: Sequence[Fact], now: datetime) -> list[ClaimDraft]:
    del now
    return [
        _claim(
            f"“{each.fields['title']}” still needs: {', '.join(each.fields['open_items'])}.", each
        )
        for each in facts
        if _is_task(each) and each.fields.get("open_items")
    ]


def _time(facts: Sequence[Fact], now: datetime) -> list[ClaimDraft]:
    del now
    return [
        _claim(
            f"{each.fields['minutes']} minutes in {each.fields['count']} session(s) "
            f"over the last {each.fields['days']} days.",
            each,
        )
        for each in facts
        if each.fields.get("kind") == "time"
    ]


def _ratings(facts: Sequence[Fact], now: datetime) -> list[ClaimDraft]:
    del now
    return [
        _claim(
            f"{each.fields['dimension']}: {each.fields['average']} on average of "
            f"{each.fields['count']}, {each.fields['latest']} at last.",
            each,
        )
        for each in facts
        if each.fields.get("kind") == "ratings"
    ]


def _day(facts: Sequence[Fact], now: datetime) -> list[ClaimDraft]:
    return [
        _claim(
            f"{_local(str(each.fields['starts_at']), now):%H:%M} to "
            f"{_local(str(each.fields['ends_at']), now):%H:%M}: "
            f"{each.fields['note'] or 'planned'}.",
            each,
        )
        for each in facts
        if each.fields.get("kind") == "day_block"
    ]


def _is_task(fact: Fact) -> bool:
    return fact.fields.get("kind") == "task"


def _claim(text: str, fact: Fact) -> ClaimDraft:
    return ClaimDraft(text=text[:1000], sources=(fact.source_id,))


_SHOWS: dict[str, Claims] = {
    "changed": _changed,
    "open_tasks": _open,
    "overdue": _overdue,
    "due_soon": _due_soon,
    "done": _done,
    "checklists": _checklists,
    "time": _time,
    "ratings": _ratings,
    "day_plan": _day,
}
