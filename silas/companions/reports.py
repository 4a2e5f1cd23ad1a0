"""Reports: every claim names its sources, what was concluded is marked, and age is told.

1. A claim without a source that this run has read is no claim: the report is refused.
2. A claim is `observed` or `inferred`; the headline is a conclusion from everything below it.
3. A report is stale when it is older than its kind allows, or when the journal has changed since in
   one of the companion's categories. Either is enough, and both are told.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from silas.companions.errors import ReportInvalid
from silas.companions.facts import Fact
from silas.companions.ids import digest, source_ref_id
from silas.companions.models import AgentReport, InferenceFlag, ReportScope, ReportSourceRef
from silas.companions.proposals import ClaimDraft, ReportDraft
from silas.kernel.models import Data

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
) -> tuple[AgentReport, tuple[ReportSourceRef, ...]]:
    """The report with the sources of its claims; raises `ReportInvalid` (rule 1)."""
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
        content={"schema_version": 1, "headline": draft.headline, "sections": sections},
        confidence=draft.confidence,
        provenance={**provenance, "run_key": run_key},
    )
    return report, tuple(refs)


def freshness_of(
    report: AgentReport, *, now: datetime, max_age: timedelta | None, latest_cursor: int
) -> Freshness:
    """Rule 3. `latest_cursor` is the place of the newest change in the companion's categories."""
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
    """Whether a report is too old, and whether something has changed since (rule 3)."""
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
