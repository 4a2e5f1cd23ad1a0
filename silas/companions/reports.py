"""Reports: every claim names its sources, what was concluded is marked, and age is told.

1. A fact is what a run has read, with the source that a claim about it can name.
2. A claim without a source that this run has read is no claim: the report is refused.
3. A claim is `observed` or `inferred`; the headline is a conclusion from everything below it.
4. A report is stale when it is older than its kind allows, or when the journal has changed since in
   one of the companion's categories. Either is enough, and both are told.
5. A kind has a scope of its own, which every run writes and which a model's report is filed under,
   whatever the model calls it. Longer scopes are made from the facts in the first run of their day,
   week or month, and speak of the numbers that were read for them.
6. Numbers are drawn from the facts (`charts_of`), never from what a model says about them.
7. Without a model, or in the place of a report that was refused, the facts alone are told, in the
   sections of the kind's template.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from pydantic import Field

from silas.companions.errors import ReportInvalid
from silas.companions.ids import digest, source_ref_id
from silas.companions.kinds.library import CompanionDefinition
from silas.companions.messages import AgentReport, ReportSourceRef
from silas.companions.models import InferenceFlag, ReportScope, SourceType
from silas.companions.ports import ClaimDraft, ReportDraft, SectionDraft
from silas.kernel import parse_timestamp
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


def _tasks_read(payload: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    return (("task", each) for each in payload["tasks"])


def _candidates_read(payload: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    for each in payload["candidates"]:
        yield "candidate", {**each, "certain": not payload["ambiguous"]}


def _categories_read(payload: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    return (("category", {**each, "category_id": each["id"]}) for each in payload["categories"])


def _ratings_read(payload: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    for each in payload["dimensions"]:
        yield (
            "ratings",
            {**each, "days": payload["days"], "locator": f"{each['dimension']}/{payload['days']}"},
        )


def _time_read(payload: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    for each in payload["categories"]:
        yield (
            "time",
            {
                **each,
                "days": payload["days"],
                "locator": f"{each['category_id']}/{payload['days']}",
            },
        )


def _stretches_read(payload: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    yield from _time_read(payload)
    for each in payload["entries"]:
        yield "time_entry", each
    for each in payload["per_day"]:
        days, day = payload["days"], each["date"]
        yield "day_time", {**each, "days": days, "locator": f"{day}/{days}"}


def _rating_read(payload: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    return (("rating", each) for each in payload["ratings"])


def _day_read(payload: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    if payload.get("id") is None:
        return
    yield (
        "day_plan",
        {key: payload[key] for key in ("id", "date", "pinned_task_ids", "updated_at")},
    )
    for block in payload["blocks"]:
        yield "day_block", block


_READERS = {
    "list_tasks_in_scope": _tasks_read,
    "resolve_task_reference": _candidates_read,
    "list_allowed_categories": _categories_read,
    "get_ratings_summary": _ratings_read,
    "get_rating_for_target": _rating_read,
    "get_time_summary": _stretches_read,
    "get_day_plan": _day_read,
}


HEADLINE = "headline"
MAX_AGE: Mapping[ReportScope, timedelta] = {
    ReportScope.CURRENT: timedelta(hours=24),
    ReportScope.DAILY: timedelta(hours=36),
    ReportScope.WEEKLY: timedelta(days=8),
    ReportScope.MONTHLY: timedelta(days=32),
}


class Freshness(Data):
    """Whether a report can still be relied on, and why not."""

    fresh: bool
    too_old: bool
    newer_changes: bool
    age_seconds: int
    sentence: str


def build_report(
    draft: ReportDraft,
    facts: Iterable[Fact],
    *,
    agent_id: str,
    run_key: str,
    now: datetime,
    provenance: Mapping[str, Any],
    charts: Sequence[Mapping[str, Any]] = (),
) -> tuple[AgentReport, tuple[ReportSourceRef, ...]]:
    """The report with the sources of its claims; raises `ReportInvalid` (rule 2)."""
    known = {fact.source_id: fact for fact in facts}
    report_id = digest("report", run_key, draft.scope)
    sections: list[dict[str, Any]] = []
    refs: list[ReportSourceRef] = []
    used: dict[str, Fact] = {}
    for section in draft.sections:
        claims = []
        for number, claim in enumerate(section.claims):
            claim_id = f"{section.section_id}.{number}"
            sources = _sources(claim, claim_id, known)
            used |= {fact.source_id: fact for fact in sources}
            claims.append(_shown(claim, claim_id))
            place = (agent_id, report_id, section.section_id, claim_id)
            refs += [_ref(place, fact, claim.inferred, claim.confidence) for fact in sources]
        sections.append({"id": section.section_id, "title": section.title, "claims": claims})
    place = (agent_id, report_id, HEADLINE, HEADLINE)
    refs += [_ref(place, fact, True, draft.confidence) for fact in used.values()]
    report = AgentReport(
        id=report_id,
        agent_id=agent_id,
        scope=draft.scope,
        created_at=now,
        content={
            "schema_version": 2,
            "headline": draft.headline,
            "sections": sections,
            "charts": list(charts),
        },
        confidence=draft.confidence,
        provenance={**provenance, "run_key": run_key},
    )
    return report, tuple(refs)


def freshness_of(
    report: AgentReport, *, now: datetime, max_age: timedelta | None, latest_cursor: int
) -> Freshness:
    """Rule 4. `latest_cursor` is the place of the newest change in the companion's categories."""
    age = now - report.created_at
    seen = int(report.provenance.get("source_cursor", 0))
    too_old, newer = staleness(
        report.scope, age, seen=seen, max_age=max_age, latest_cursor=latest_cursor
    )
    reasons = [
        *(["it is older than it should be"] if too_old else []),
        *(["the journal has changed since"] if newer else []),
    ]
    return Freshness(
        fresh=not reasons,
        too_old=too_old,
        newer_changes=newer,
        age_seconds=max(0, int(age.total_seconds())),
        sentence=f"Stale: {' and '.join(reasons)}." if reasons else "Up to date.",
    )


def staleness(
    scope: ReportScope,
    age: timedelta,
    *,
    seen: int,
    max_age: timedelta | None,
    latest_cursor: int,
) -> tuple[bool, bool]:
    """Whether a report is too old, and whether something has changed since (rule 4)."""
    return age >= (max_age or MAX_AGE[scope]), latest_cursor > seen


def _sources(claim: ClaimDraft, claim_id: str, known: Mapping[str, Fact]) -> list[Fact]:
    found = [known[each] for each in dict.fromkeys(claim.sources) if each in known]
    unknown = sorted(set(claim.sources) - set(known))
    if unknown or not found:
        what = f"names sources that were not read: {unknown[:3]}" if unknown else "has no source"
        raise ReportInvalid(f"The claim {claim_id} {what}.", claim_id=claim_id)
    return found


def _shown(claim: ClaimDraft, claim_id: str) -> dict[str, Any]:
    flag = InferenceFlag.INFERRED if claim.inferred else InferenceFlag.OBSERVED
    return {
        "id": claim_id,
        "text": claim.text,
        "inference_flag": flag.value,
        "confidence": claim.confidence,
        "sources": list(dict.fromkeys(claim.sources)),
    }


def _ref(
    place: tuple[str, str, str, str], fact: Fact, inferred: bool, confidence: float | None
) -> ReportSourceRef:
    agent_id, report_id, section_id, claim_id = place
    return ReportSourceRef(
        id=source_ref_id(report_id, claim_id, fact.source_type, fact.source_id),
        agent_id=agent_id,
        report_id=report_id,
        section_id=section_id,
        claim_id=claim_id,
        source_type=fact.source_type,
        source_locator=fact.source_id,
        captured_at=fact.captured_at,
        freshness_at=fact.freshness_at,
        confidence=confidence,
        inference_flag=InferenceFlag.INFERRED if inferred else InferenceFlag.OBSERVED,
    )


_SOON = timedelta(days=2)
_MOST = 12
_A_STREAK = 2
_CLOSED = frozenset({"done", "rejected"})
Claims = Callable[[Sequence[Fact], datetime], list[ClaimDraft]]


def template_report(
    definition: CompanionDefinition,
    facts: Sequence[Fact],
    *,
    now: datetime,
    scope: ReportScope | None = None,
) -> ReportDraft:
    """The report that the facts alone allow; every claim is one of them, or a sum over them.

    Times are told in the time zone of `now`. Without a scope it is that of the kind.
    """
    wanted = scope or definition.report.scope
    facts = facts_of(definition, facts, wanted)
    sections = tuple(
        SectionDraft(
            section_id=each.id,
            title=each.title,
            claims=tuple(_SHOWS[each.shows](facts, now)[:_MOST]) if each.shows in _SHOWS else (),
        )
        for each in definition.report.sections
    )
    return ReportDraft(
        scope=wanted,
        headline=f"{definition.report.headline_of(wanted)}: {_count(facts, now)}",
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


def _sessions(count: int) -> str:
    return "1 session" if count == 1 else f"{count} sessions"


def _time(facts: Sequence[Fact], now: datetime) -> list[ClaimDraft]:
    del now
    return [
        _claim(
            f"{each.fields['minutes']} minutes in “{each.fields.get('name') or 'a category'}”, "
            f"{_sessions(each.fields['count'])}, over the last {each.fields['days']} days.",
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
    titles = {each.fields["id"]: each.fields["title"] for each in facts if _is_task(each)}
    return [
        _claim(
            f"{_local(str(each.fields['starts_at']), now):%H:%M} to "
            f"{_local(str(each.fields['ends_at']), now):%H:%M}: "
            f"{titles.get(each.fields.get('task_id')) or each.fields['note'] or 'planned'}.",
            each,
        )
        for each in facts
        if each.fields.get("kind") == "day_block"
    ]


def _streak(facts: Sequence[Fact], now: datetime) -> list[ClaimDraft]:
    """How many days in a row there was time, until today or yesterday."""
    found = {each.fields["date"]: each for each in facts if each.fields.get("kind") == "day_time"}
    day = now.date() if now.date().isoformat() in found else now.date() - timedelta(days=1)
    row: list[Fact] = []
    while (fact := found.get(day.isoformat())) is not None and fact.fields["minutes"]:
        row.append(fact)
        day -= timedelta(days=1)
    if len(row) < _A_STREAK:
        return []
    text = f"Time was spent on {len(row)} days in a row, the last of them {row[0].fields['date']}."
    return [ClaimDraft(text=text, sources=tuple(each.source_id for each in row))]


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
    "streak": _streak,
}


def due_scopes(
    definition: CompanionDefinition, written: Mapping[ReportScope, datetime], *, now: datetime
) -> tuple[ReportScope, ...]:
    """The longer scopes that a run writes as well (rule 5), by the owner's clock in `now`."""
    return tuple(
        each.scope
        for each in definition.report.also
        if (at := written.get(each.scope)) is None
        or _period(each.scope, at.astimezone(now.tzinfo)) != _period(each.scope, now)
    )


def _period(scope: ReportScope, at: datetime) -> tuple[int, ...]:
    if scope is ReportScope.MONTHLY:
        return at.year, at.month
    if scope is ReportScope.WEEKLY:
        return tuple(at.isocalendar())[:2]
    return at.year, at.month, at.day


_COUNTED = ("time", "ratings", "day_time")
_USUAL_DAYS = 7


def facts_of(
    definition: CompanionDefinition, facts: Sequence[Fact], scope: ReportScope
) -> list[Fact]:
    """The facts that a report of this scope speaks of: of the numbers, those of its own time."""
    own = None if scope is definition.report.scope else scope
    mine = _days_read(definition, own)
    others = {
        days
        for each in (None, *definition.report.scopes)
        if each is not own
        for days in _days_read(definition, each)
    }
    return [
        each
        for each in facts
        if each.fields.get("kind") not in _COUNTED
        or each.fields.get("days") in mine
        or each.fields.get("days") not in others
    ]


def _days_read(definition: CompanionDefinition, scope: ReportScope | None) -> set[int]:
    return {
        int(each.arguments.get("days", _USUAL_DAYS))
        for each in definition.reads
        if each.scope is scope
    }


def charts_of(
    definition: CompanionDefinition, facts: Sequence[Fact], scope: ReportScope, *, now: datetime
) -> list[dict[str, Any]]:
    """What can be drawn in the sections of a report (rule 6); nothing where there is no number."""
    mine = facts_of(definition, facts, scope)
    drawn = []
    for section in definition.report.sections:
        chart = _CHARTS.get(section.shows)
        points = chart(mine, now) if chart is not None else []
        if any(each["value"] for each in points):
            drawn.append({"section": section.id, "shows": section.shows, "points": points})
    return drawn


class ChartPoint(Data):
    """One bar: what it is of, how high, and the same in words."""

    label: str
    value: float
    words: str


class ChartView(Data):
    """Numbers of a report that can be drawn."""

    section: str
    """The part of the report that it belongs to."""
    title: str
    of: str
    """What a bar stands for."""
    days: bool = False
    points: tuple[ChartPoint, ...]


_TITLES: Mapping[str, tuple[str, str]] = {
    "time": ("Minutes in each category", "Category"),
    "ratings": ("Ratings on average", "What was rated"),
    "streak": ("Minutes on each day", "Day"),
}


def charts_shown(content: Mapping[str, Any], category_ids: Sequence[str]) -> tuple[ChartView, ...]:
    """What is drawn of a report: nothing of a category that is out of reach by now."""
    shown = []
    for chart in content.get("charts", ()):
        title, of = _TITLES[chart["shows"]]
        points = tuple(
            ChartPoint(label=each["label"], value=each["value"], words=each["words"])
            for each in chart["points"]
            if each.get("category_id") in (None, *category_ids)
        )
        if points:
            days = chart["shows"] == "streak"
            shown.append(
                ChartView(section=chart["section"], title=title, of=of, days=days, points=points)
            )
    return tuple(shown)


def _time_points(facts: Sequence[Fact], now: datetime) -> list[dict[str, Any]]:
    del now
    return [
        {
            "label": each.fields.get("name") or each.locator,
            "category_id": each.category_id,
            "value": each.fields["minutes"],
            "words": f"{each.fields['minutes']} minutes",
            "source": each.source_id,
        }
        for each in facts
        if each.fields.get("kind") == "time"
    ]


def _rating_points(facts: Sequence[Fact], now: datetime) -> list[dict[str, Any]]:
    del now
    return [
        {
            "label": each.fields["dimension"],
            "value": each.fields["average"],
            "words": f"{each.fields['average']} on average of {each.fields['count']}",
            "source": each.source_id,
        }
        for each in facts
        if each.fields.get("kind") == "ratings"
    ]


def _day_points(facts: Sequence[Fact], now: datetime) -> list[dict[str, Any]]:
    """Every day of the time that was read, also those on which there was nothing."""
    found = {each.fields["date"]: each for each in facts if each.fields.get("kind") == "day_time"}
    if not found:
        return []
    length = max(int(each.fields["days"]) for each in found.values())
    days = [(now - timedelta(days=back)).date().isoformat() for back in reversed(range(length))]
    minutes = {day: found[day].fields["minutes"] if day in found else 0 for day in days}
    return [
        {
            "label": day,
            "value": value,
            "words": f"{value} minutes",
            "source": found[day].source_id if day in found else None,
        }
        for day, value in minutes.items()
    ]


_CHARTS: dict[str, Callable[[Sequence[Fact], datetime], list[dict[str, Any]]]] = {
    "time": _time_points,
    "ratings": _rating_points,
    "streak": _day_points,
}
