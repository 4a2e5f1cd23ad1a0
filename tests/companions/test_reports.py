"""Reports: claims with sources, conclusions marked, freshness by time and by what has changed."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from silas.companions.errors import ReportInvalid
from silas.companions.messages import ReportSourceRef
from silas.companions.models import InferenceFlag, ReportScope
from silas.companions.ports import ClaimDraft, CompanionProposal, ReportDraft, SectionDraft
from silas.companions.reports import (
    MAX_AGE,
    Fact,
    _day,
    build_report,
    facts_from,
    freshness_of,
    merged,
)
from silas.kernel import format_timestamp
from silas.testing import FakeClock
from silas.testing.companions import FakeGateway, ScriptedModel, opened_device

NOW = FakeClock().now()
FACT = Fact(source_id="task:t1", locator="t1", captured_at=NOW, freshness_at=NOW)


def draft(*claims: ClaimDraft, scope: ReportScope = ReportScope.CURRENT) -> ReportDraft:
    section = SectionDraft(section_id="open", title="Open", claims=claims)
    return ReportDraft(headline="Hello", sections=(section,), scope=scope)


def build(report: ReportDraft, *facts: Fact, cursor: int = 5):
    return build_report(
        report,
        facts or (FACT,),
        agent_id="a",
        run_key="run",
        now=NOW,
        provenance={"source_cursor": cursor},
    )


def test_every_claim_has_its_sources_and_says_whether_it_was_seen_or_concluded() -> None:
    report, refs = build(
        draft(
            ClaimDraft(text="Seen.", sources=("task:t1",)),
            ClaimDraft(text="Concluded.", sources=("task:t1",), inferred=True, confidence=0.4),
        )
    )
    flags = {ref.claim_id: ref.inference_flag for ref in refs}
    assert flags == {
        "open.0": InferenceFlag.OBSERVED,
        "open.1": InferenceFlag.INFERRED,
        "headline": InferenceFlag.INFERRED,
    }
    shown = report.content["sections"][0]["claims"]
    assert [each["inference_flag"] for each in shown] == ["observed", "inferred"]
    assert {ref.source_locator for ref in refs} == {"task:t1"}


@pytest.mark.parametrize("sources", [(), ("task:unknown",), ("task:t1", "task:unknown")])
def test_a_claim_without_a_source_that_was_read_is_refused(sources: tuple[str, ...]) -> None:
    with pytest.raises(ReportInvalid):
        build(draft(ClaimDraft(text="Made up.", sources=sources)))


def test_the_same_run_builds_the_same_report() -> None:
    claim = ClaimDraft(text="Seen.", sources=("task:t1",))
    assert build(draft(claim)) == build(draft(claim))


class TestFreshness:
    report, _ = build(draft())

    def fresh(self, *, age: timedelta = timedelta(0), cursor: int = 5):
        return freshness_of(self.report, now=NOW + age, max_age=None, latest_cursor=cursor)

    def test_it_is_fresh_at_first(self) -> None:
        assert self.fresh().fresh

    @pytest.mark.parametrize("scope", ReportScope)
    def test_report_freshness_covers_time_based_staleness_triggers(
        self, scope: ReportScope
    ) -> None:
        report, _ = build(draft(scope=scope))
        limit = MAX_AGE[scope]
        young = freshness_of(
            report, now=NOW + limit - timedelta(seconds=1), max_age=None, latest_cursor=5
        )
        old = freshness_of(report, now=NOW + limit, max_age=None, latest_cursor=5)
        assert (young.fresh, old.fresh, old.too_old) == (True, False, True)

    def test_report_freshness_covers_event_based_staleness_triggers(self) -> None:
        stale = self.fresh(cursor=6)
        assert (stale.fresh, stale.newer_changes, stale.too_old) == (False, True, False)

    def test_both_reasons_are_told(self) -> None:
        stale = self.fresh(age=timedelta(days=2), cursor=6)
        assert stale.sentence == (
            "Stale: it is older than it should be and the journal has changed since."
        )


async def test_a_change_elsewhere_leaves_a_report_fresh(tmp_path: Path) -> None:
    async with opened_device(tmp_path) as device:
        made = await device.service.new("planner", category_ids=[device.categories["gym"]])
        assert await device.service.report(made.id) is None
        await device.service.wake(made.id)
        await device.work()
        await device.task("Taxes", "work")
        shown = await device.service.report(made.id)
        assert shown is not None
        assert shown.freshness.fresh
        await device.task("Squats", "gym")
        shown = await device.service.report(made.id)
        assert shown is not None
        assert shown.freshness.newer_changes
        assert (await device.service.list())[0].report_fresh is False


async def test_times_are_told_in_the_owner_s_time_zone(tmp_path: Path) -> None:
    async with opened_device(tmp_path) as device:
        made = await device.service.new("planner", category_ids=[device.categories["gym"]])
        await device.task("Squats", due_at=datetime(2031, 1, 5, 17, tzinfo=UTC))
        await device.service.wake(made.id)
        await device.work()
        shown = await device.service.report(made.id)
        assert shown is not None
        assert "due 2031-01-05 18:00" in str(shown.report.content)


async def test_a_model_s_report_without_sources_is_replaced_by_what_the_facts_say(
    tmp_path: Path,
) -> None:
    lies = CompanionProposal(report=draft(ClaimDraft(text="You are great.", sources=("x:1",))))
    async with opened_device(tmp_path, gateway=FakeGateway(ScriptedModel(lies))) as device:
        made = await device.service.new("planner", category_ids=[device.categories["gym"]])
        await device.task("Squats")
        woken = await device.service.wake(made.id)
        await device.work()
        shown = await device.service.report(made.id)
        assert shown is not None
        assert "great" not in str(shown.report.content)
        assert "Squats" in str(shown.report.content)
        trace = await device.service.trace(woken.run_key)
        refusals = {each.error_code for each in trace.policy_decisions if not each.allowed}
        assert refusals == {"report_invalid"}


async def test_why_says_where_a_claim_is_from_also_after_the_record_is_gone(
    tmp_path: Path,
) -> None:
    async with opened_device(tmp_path) as device:
        made = await device.service.new("planner", category_ids=[device.categories["gym"]])
        task = await device.task("Squats")
        await device.service.wake(made.id)
        await device.work()
        shown = await device.service.report(made.id)
        assert shown is not None
        refs = await device.store.find(ReportSourceRef, {"report_id": shown.report.id})
        claim = next(each.claim_id for each in refs if each.claim_id != "headline")
        (before,) = await device.service.why(shown.report.id, claim)
        assert (before.label, before.exists) == ("Squats", True)
        await device.do("delete_record", record_id=task)
        (after,) = await device.service.why(shown.report.id, claim)
        assert (after.record_id, after.exists) == (task, False)
        with pytest.raises(Exception, match="no claim"):
            await device.service.why(shown.report.id, "nothing")


def test_a_block_of_the_day_is_called_by_its_task() -> None:
    block = {
        "kind": "day_block",
        "starts_at": format_timestamp(NOW),
        "ends_at": format_timestamp(NOW + timedelta(minutes=30)),
        "note": None,
        "task_id": "t1",
    }
    task = FACT.model_copy(update={"fields": {"kind": "task", "id": "t1", "title": "Squats"}})
    planned = FACT.model_copy(update={"source_id": "day_block:b1", "fields": block})
    (claim,) = _day([task, planned], NOW)
    assert claim.text.endswith(": Squats.")
    (alone,) = _day([planned], NOW)
    assert alone.text.endswith(": planned.")


def test_what_is_read_twice_is_one_fact_and_stays_marked() -> None:
    payload = {"tasks": [{"id": "t1", "title": "a", "status": "done", "category_id": "gym"}]}
    first = facts_from("list_tasks_in_scope", payload, captured_at=NOW, changed=frozenset({"t1"}))
    again = facts_from("list_tasks_in_scope", payload, captured_at=NOW)
    (fact,) = merged([*first, *again])
    assert fact.fields["changed"] is True
    assert facts_from("create_task", payload, captured_at=NOW) == []
