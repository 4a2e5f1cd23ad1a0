"""Reports of several times: each filed where it belongs, with its numbers drawn."""

from datetime import timedelta
from pathlib import Path

from silas.companions.models import ReportScope
from silas.companions.ports import (
    ClaimDraft,
    CompanionProposal,
    CompanionRequest,
    ReportDraft,
    SectionDraft,
)
from silas.companions.views import ReportView
from silas.testing.companions import CompanionDevice, FakeGateway, ScriptedModel, opened_device


async def run(device: CompanionDevice, agent: str) -> None:
    await device.service.wake(agent)
    await device.work()


async def spent(device: CompanionDevice, task: str, minutes: int, days_ago: int) -> None:
    end = device.clock.now() - timedelta(days=days_ago)
    start = end - timedelta(minutes=minutes)
    await device.do("create_retrospective_time_entry", task_id=task, started_at=start, ended_at=end)


def scopes(found: tuple[ReportView, ...]) -> list[str]:
    return [each.report.scope.value for each in found]


async def test_what_a_model_writes_is_filed_under_the_scope_of_its_kind(tmp_path: Path) -> None:
    """The Strategist writes about the week, also if its model says `current` or nothing."""

    def write(request: CompanionRequest) -> CompanionProposal:
        task = next(each for each in request.payload["facts"] if each["kind"] == "task")
        claim = ClaimDraft(text="One thing is open.", sources=(task["source_id"],))
        section = SectionDraft(section_id="ahead", title="Open", claims=(claim,))
        return CompanionProposal(report=ReportDraft(headline="By the model", sections=(section,)))

    async with opened_device(tmp_path, gateway=FakeGateway(ScriptedModel(write))) as device:
        gym = device.categories["gym"]
        agent = (await device.service.new("strategist", category_ids=[gym])).id
        await device.task("Squats")
        await run(device, agent)
        shown = await device.service.report(agent)
        assert shown is not None
        assert shown.report.scope is ReportScope.WEEKLY
        assert shown.report.content["headline"] == "By the model"
        assert await device.service.report(agent, scope=ReportScope.CURRENT) is None


async def test_each_kind_writes_every_scope_that_it_should_when_it_is_due(
    device: CompanionDevice,
) -> None:
    gym = device.categories["gym"]
    wanted = {
        "planner": ["current", "daily"],
        "gym_coach": ["current", "weekly", "monthly"],
        "strategist": ["weekly", "monthly"],
        "pomodoro": ["daily", "weekly"],
        "task_keeper": ["current"],
    }
    for kind, expected in wanted.items():
        agent = (await device.service.new(kind, category_ids=[gym])).id
        await run(device, agent)
        assert scopes(await device.service.reports(agent)) == expected, kind
    coach = (await device.service.new("gym_coach", category_ids=[gym])).id
    await run(device, coach)
    first = {each.report.scope: each.report.id for each in await device.service.reports(coach)}
    device.clock.advance(hours=1)
    await run(device, coach)
    again = {each.report.scope: each.report.id for each in await device.service.reports(coach)}
    assert {scope for scope in first if first[scope] != again[scope]} == {ReportScope.CURRENT}
    device.clock.advance(days=7)
    await run(device, coach)
    later = {each.report.scope: each.report.id for each in await device.service.reports(coach)}
    assert later[ReportScope.WEEKLY] != first[ReportScope.WEEKLY]
    assert later[ReportScope.MONTHLY] == first[ReportScope.MONTHLY]
    assert (await device.service.replay((await device.service.runs(coach))[0].run_key)).matches


async def test_numbers_are_of_the_time_of_the_report_and_are_drawn(
    device: CompanionDevice,
) -> None:
    gym = device.categories["gym"]
    coach = (await device.service.new("gym_coach", category_ids=[gym])).id
    squats = await device.task("Squats")
    for minutes, days_ago in ((30, 0), (40, 1), (50, 20)):
        await spent(device, squats, minutes, days_ago)
    await run(device, coach)
    found = {each.report.scope: each for each in await device.service.reports(coach)}
    week, month = found[ReportScope.WEEKLY], found[ReportScope.MONTHLY]
    (time,) = [each for each in week.charts if each.section == "sessions"]
    assert [(each.label, each.value, each.words) for each in time.points] == [
        ("gym", 70, "70 minutes")
    ]
    (time,) = [each for each in month.charts if each.section == "sessions"]
    assert [each.value for each in time.points] == [120]
    (days,) = [each for each in month.charts if each.section == "streak"]
    assert (days.days, len(days.points), sum(each.value for each in days.points)) == (True, 31, 120)
    assert "70 minutes in “gym”" in str(week.report.content)
    assert "120 minutes in “gym”" in str(month.report.content)
    assert "on 2 days in a row" in str(week.report.content)
    claims = [each for part in week.report.content["sections"] for each in part["claims"]]
    streak = next(each for each in claims if "in a row" in each["text"])
    assert len(await device.service.why(week.report.id, streak["id"])) == 2


async def test_a_category_that_was_taken_away_is_gone_from_what_is_shown(
    device: CompanionDevice,
) -> None:
    gym, work = device.categories["gym"], device.categories["work"]
    agent = (await device.service.new("gym_coach", category_ids=[gym, work])).id
    taxes = await device.task("Taxes", "work")
    await spent(device, taxes, 55, 0)
    await run(device, agent)
    assert "Taxes" in str(await device.service.reports(agent))
    await device.service.configure(agent, category_ids=[gym])
    assert await device.service.reports(agent) == ()
    await run(device, agent)
    shown = str(await device.service.reports(agent))
    assert "Taxes" not in shown
    assert "work" not in shown
