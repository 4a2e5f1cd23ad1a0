"""Reports of work: done and checked, done but not checked, and which files it changed."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from silas.gates.risk import RiskLevel
from silas.kernel import TaintLevel
from silas.queue.models import ExecutionStatus
from silas.review.cards import Card
from silas.stream.healing import _STATUS, Next, report_of, what_next
from silas.stream.interaction import Surface, surface_of_status
from silas.stream.offers import anomaly_of
from silas.work.effects import FileChange
from silas.work.models import VerificationResult, WorkItem, WorkItemResult, WorkItemStatus
from silas.work.plan import parse

PLAN = """---
id: notes
type: task
title: Write the notes
workspace: {{path: /shop, changes: {{{changes}}}}}
verify:
  - name: they are there
    run: cat notes.txt
    expect: {{contains: milk}}
---
Do it.
"""


def item(changes: str = "add: [notes.txt]", **fields: Any) -> WorkItem:
    return parse(PLAN.format(changes=changes)).model_copy(update=fields)


def result(status: WorkItemStatus, **fields: Any) -> WorkItemResult:
    return WorkItemResult(work_item_id="notes", status=status, summary="Said so.", **fields)


def check(**fields: Any) -> VerificationResult:
    given = {"name": "they are there", "passed": True, "reason": "As expected.", **fields}
    return VerificationResult.model_validate(given)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (check(passed_before=False), "check failed before, passes now: they are there"),
        (check(passed_before=True), "check still passes: they are there"),
        (
            check(passed_before=False, influenced_by=["notes.txt"]),
            "check passes; the worker could influence it: they are there",
        ),
        (check(passed=False), "check failed: they are there (As expected.)"),
    ],
)
def test_a_report_says_what_each_check_means(found: VerificationResult, words: str) -> None:
    ended = result(WorkItemStatus.UNCHECKED, verification_results=[found])
    assert f"\n- {words}" in report_of(item(), ended, Next.NOTHING)


def test_a_report_lists_the_files_that_were_taken_over_and_those_that_were_left() -> None:
    ended = result(
        WorkItemStatus.DONE,
        changes=[
            FileChange(path="notes.txt", before=None, after="1"),
            FileChange(path="old.txt", before="1", after=None),
        ],
        left=[FileChange(path="Makefile", before="1", after="2")],
        artifacts={"notes.txt": "1", "log.txt": "2"},
    )
    assert report_of(item(), ended, Next.NOTHING).splitlines()[1:] == [
        "- added notes.txt",
        "- removed old.txt",
        "- not taken over: changed Makefile",
        "- kept by Silas, not among your files: log.txt",
    ]


def test_work_that_was_not_checked_is_at_its_end_and_reported_like_any_other() -> None:
    ended = result(WorkItemStatus.UNCHECKED)
    assert what_next(item(), ended, depth=0, most=3) is Next.NOTHING
    status = _STATUS[WorkItemStatus.UNCHECKED]
    assert status is ExecutionStatus.UNCHECKED
    for asked_for, surface in ((True, Surface.STREAM), (False, Surface.ACTIVITY)):
        assert surface_of_status(status, asked_for=asked_for, is_last=True) is surface


def test_every_status_with_which_work_stops_can_be_reported() -> None:
    going_on = {WorkItemStatus.PENDING, WorkItemStatus.RUNNING}
    assert set(_STATUS) == set(WorkItemStatus) - going_on


NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("plan", "anomaly"),
    [
        (item(), ""),
        (item("remove: [old.txt]"), "It removes files."),
        (item("change: [Makefile]"), "It writes files that other programs execute."),
        (
            item("add: [tool], executable: [tool]"),
            "It writes files that other programs execute.",
        ),
        (item(without_proof=True), "Nothing will show that this is done."),
    ],
    ids=["ordinary", "removal", "executed", "executable", "no proof"],
)
def test_what_a_batch_must_not_hide_is_flagged(plan: WorkItem, anomaly: str) -> None:
    card = Card(
        card_id="card_1",
        scope_id="owner",
        connection_id="owner",
        channel="web",
        trace_id="t",
        title=plan.title,
        message="",
        risk=RiskLevel.MEDIUM,
        taint=TaintLevel.OWNER,
        plan_hashes={plan.id: plan.plan_hash},
        requested_by="planner",
        replaces=None,
        created_at=NOW,
        expires_at=NOW + timedelta(hours=1),
        state="open",
    )
    assert anomaly_of(card, plan, usual_place="/shop") == anomaly
