"""Goals in the running conversation: the clock, the cards, and the owner's word."""

from datetime import timedelta
from pathlib import Path
from typing import Any

from silas.app.agents import Agents
from silas.approval import ApprovalVerdict
from silas.stream.activity import sentence_of
from silas.stream.scheduling import Clockwork
from silas.testing.stream import FakeProxy
from silas.work.models import WorkItemStatus
from tests.stream.house import House, open_house, plan
from tests.stream.test_flows import always_plan, planning

REPAIRS = (
    "on_failure: spawn_task\n"
    "failure_context: |\n  ```run\n  /bin/sh -c 'echo hello > page.html'\n  ```\n"
)


def goal(site: Path, more: str = REPAIRS) -> str:
    return plan(
        "Keep the page there.",
        id="keep-page",
        title="Keep the page",
        more=(
            f"schedule: '* * * * *'\nworkspace: {{path: {site}, changes: {{add: [page.html]}}}}\n"
            f"{more}"
            "verify:\n  - name: page\n    run: cat page.html\n    expect: {contains: hello}"
        ),
    ).replace("type: task", "type: goal")


async def approved(house: House) -> Clockwork:
    await house.say("Keep my page there")
    await house.reviews.decide(await house.card())
    await house.until(lambda: house.containing("approved, every minute"))
    await house.idle()
    return house.stream.clockwork


async def tick(house: House, minutes: int) -> int:
    """So many minutes go by for the goal; returns how often it was started."""
    clockwork, now, started = house.stream.clockwork, house.core.clock.now(), 0
    for _ in range(minutes):
        earlier = now - timedelta(minutes=2)
        await house.database.transaction(
            lambda tx, at=earlier: clockwork.services.store.looked(tx, "keep-page", at)
        )
        await house.database.execute("DELETE FROM processed_messages WHERE message_id LIKE 'goal%'")
        started += await clockwork.start_due_goals()
        await house.idle()
    return started


async def found(house: House, name: str = "keep-page") -> Any:
    item = await house.stream.turns.items.get(name)
    assert item is not None
    return item


async def test_a_cancelled_goal_is_never_started_again(tmp_path: Path) -> None:
    """Also if its last cycle had failed, and after a restart."""
    site = tmp_path / "site"
    site.mkdir()
    useless = REPAIRS.replace("page.html'", "other.html'")
    agents = Agents(proxy=FakeProxy(always_plan), planner=planning(goal(site, useless)))
    async with open_house(tmp_path, agents) as house:
        await approved(house)
        assert await tick(house, 1) == 1
        assert (await found(house)).status is WorkItemStatus.FAILED
        await house.stream.work.context.control.cancel("keep-page")
        heard = len(house.said)
        tasks = len(await house.stream.turns.items.list_by_parent("keep-page"))
        assert await tick(house, 3) == 0
        assert len(house.said) == heard, "nobody is told anything more about it"
        vault = house.core.keys._vault
    async with open_house(tmp_path, agents, vault=vault) as house:
        assert await tick(house, 3) == 0
        assert len(await house.stream.turns.items.list_by_parent("keep-page")) == tasks
        assert (await found(house)).is_cancelled


async def used_up(tmp_path: Path, house: House) -> None:
    """Its standing approval was for one repair, and that is made."""
    await approved(house)
    await tick(house, 1)
    assert (await found(house)).status is WorkItemStatus.HEALTHY
    (tmp_path / "site" / "page.html").unlink()


ONCE = {"SILAS_AUTONOMY__MAX_STANDING_EXECUTIONS": "1"}


async def test_a_used_up_approval_asks_once_and_rests(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    agents = Agents(proxy=FakeProxy(always_plan), planner=planning(goal(tmp_path / "site")))
    async with open_house(tmp_path, agents, environ=ONCE) as house:
        await used_up(tmp_path, house)
        assert await tick(house, 5) == 1, "it rests until the answer"
        (card,) = await house.reviews.waiting()
        assert "does not cover the repair" in card.message
        assert len(await house.stream.turns.items.list_by_parent("keep-page")) == 2
        (told,) = house.containing("waits for your decision")
        assert "I cannot go on by myself" not in told.content
        assert not await house.audited("plan_declined")
        await house.reviews.decide(card)
        await house.until((tmp_path / "site" / "page.html").exists)
        await house.idle()
        assert (await found(house)).status is WorkItemStatus.HEALTHY
        assert len(house.containing("Repaired by")) == 2


async def test_a_no_to_the_repair_pauses_the_goal(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    agents = Agents(proxy=FakeProxy(always_plan), planner=planning(goal(tmp_path / "site")))
    async with open_house(tmp_path, agents, environ=ONCE) as house:
        await used_up(tmp_path, house)
        await tick(house, 1)
        await house.reviews.decide(await house.card(), ApprovalVerdict.DECLINED)
        await house.until(lambda: house.containing("The goal is paused"))
        await house.idle()
        assert await tick(house, 3) == 0
        assert await house.reviews.waiting() == []
        assert (await found(house)).status is WorkItemStatus.PAUSED


async def test_a_goal_that_reports_does_so_once_and_plans_nothing(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    planner = planning(goal(tmp_path / "site", "on_failure: report\n"))
    async with open_house(tmp_path, Agents(proxy=FakeProxy(always_plan), planner=planner)) as house:
        await approved(house)
        thought = len(planner.turns)
        assert await tick(house, 4) == 4, "it goes on looking"
        [told] = house.containing("Keep the page: does not work.")
        assert "check failed: page" in told.content
        assert "I look again every minute, and tell you when it works again." in told.content
        assert "I cannot go on by myself" not in told.content
        assert len(planner.turns) == thought
        (tmp_path / "site" / "page.html").write_text("hello")
        assert await tick(house, 3) == 3
        [told] = house.containing("Keep the page: works again.")
        (tmp_path / "site" / "page.html").unlink()
        assert await tick(house, 2) == 2
        assert len(house.containing("does not work.")) == 2, "a new alarm, once"


class TestAlwaysOn:
    """An approved goal that is always on: its gates look at every turn, while it is approved."""

    GATE = (
        "schedule: always_on\n"
        "gates:\n  - name: no-secrets\n    on: every_user_message\n    type: regex\n"
        "    config: {pattern: topsecret}\n    extract: message\n    on_block: redirect\n"
        "escalation:\n  redirect: {action: respond, message: Not that.}"
    )

    def plan(self) -> str:
        text = plan("Be careful.", id="careful", title="Be careful", more=self.GATE)
        return text.replace("type: task", "type: goal")

    async def answer(self, house: House, text: str) -> str:
        return (await house.answer_to(await house.say(text))).content

    async def test_its_gates_are_in_force_until_it_is_cancelled(self, tmp_path: Path) -> None:
        agents = Agents(proxy=FakeProxy(always_plan), planner=planning(self.plan()))
        async with open_house(tmp_path, agents) as house:
            assert "Not that" not in await self.answer(house, "be careful with topsecret things")
            await house.reviews.decide(await house.card())
            (told,) = await house.until(lambda: house.containing("Its 1 gate looks at every turn"))
            assert "until you cancel it" in told.content
            assert await self.answer(house, "say topsecret") == "Not that."
            vault = house.core.keys._vault
        async with open_house(tmp_path, agents, vault=vault) as house:
            assert await self.answer(house, "say topsecret") == "Not that.", "after a restart too"
            await house.stream.work.context.control.cancel("careful")
            assert await self.answer(house, "say topsecret once more") != "Not that."

    async def test_a_row_without_the_owners_yes_is_not_in_force(self, tmp_path: Path) -> None:
        agents = Agents(proxy=FakeProxy(always_plan), planner=planning(self.plan()))
        async with open_house(tmp_path, agents) as house:
            await self.answer(house, "be careful")
            await house.reviews.decide(await house.card(), ApprovalVerdict.DECLINED)
            await house.until(lambda: house.containing("not approved"))
            assert await self.answer(house, "say topsecret") != "Not that."


class TestActiveGoal:
    """`active_goal` in the settings names a goal with times."""

    def house(self, tmp_path: Path, text: str, **more: Any) -> Any:
        path = tmp_path / "goal.md"
        path.write_text(text)
        return open_house(
            tmp_path,
            Agents(proxy=FakeProxy(always_plan)),
            environ={"SILAS_ACTIVE_GOAL": str(path)},
            **more,
        )

    async def test_it_is_asked_for_once_and_started_at_its_times(self, tmp_path: Path) -> None:
        site = tmp_path / "site"
        site.mkdir()
        async with self.house(tmp_path, goal(site)) as house:
            card = await house.card()
            assert "`active_goal` in your settings" in card.message
            vault = house.core.keys._vault
        async with self.house(tmp_path, goal(site), vault=vault) as house:
            (card,) = await house.reviews.waiting()
            await house.reviews.decide(card)
            await house.until(lambda: house.containing("approved, every minute"))
            await house.idle()
            name = card.items[0].id
            clockwork, now = house.stream.clockwork, house.core.clock.now()
            await house.database.transaction(
                lambda tx: clockwork.services.store.looked(tx, name, now - timedelta(minutes=2))
            )
            assert await clockwork.start_due_goals() == 1
            await house.until(lambda: house.containing("Repaired by"))
            assert (site / "page.html").exists()

    async def test_a_changed_file_ends_the_version_before_it(self, tmp_path: Path) -> None:
        site = tmp_path / "site"
        site.mkdir()
        async with self.house(tmp_path, goal(site)) as house:
            first = (await house.card()).items[0].id
            vault = house.core.keys._vault
        changed = goal(site).replace("* * * * *", "0 12 * * *")
        async with self.house(tmp_path, changed, vault=vault) as house:
            assert (await found(house, first)).is_cancelled
            assert len(await house.reviews.waiting()) == 2


async def test_what_is_approved_while_schedules_are_off_says_so(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    agents = Agents(proxy=FakeProxy(always_plan), planner=planning(goal(tmp_path / "site")))
    off = {"SILAS_SCHEDULER__ENABLED": "false", "SILAS_SUGGESTIONS__ENABLED": "false"}
    async with open_house(tmp_path, agents, environ=off) as house:
        await house.say("Keep my page there")
        await house.reviews.decide(await house.card())
        (told,) = await house.until(lambda: house.containing("approved, every minute"))
        assert "It is not started: `scheduler.enabled` is off." in told.content
        assert "start due goals" not in {job.name for job in house.stream.jobs()}


async def test_a_repair_that_nobody_decided_was_not_declined(tmp_path: Path) -> None:
    """The goal rests and says why; neither the log nor the words speak of a no that was said."""
    (tmp_path / "site").mkdir()
    agents = Agents(proxy=FakeProxy(always_plan), planner=planning(goal(tmp_path / "site")))
    async with open_house(tmp_path, agents, environ=ONCE) as house:
        await used_up(tmp_path, house)
        await tick(house, 1)
        card = await house.card()
        await house.reviews.decide(card, ApprovalVerdict.DECLINED, expired=True)
        await house.until(lambda: house.containing("The goal is paused"))
        await house.idle()
        (told,) = house.containing("not approved")
        assert "(nobody decided in time)" in told.content
        assert not await house.audited("plan_declined")
        assert not await house.audited("work_cancelled")
        (line,) = await house.audited("work_expired")
        assert card.items[0].id in line
        said = "\n".join(filter(None, map(sentence_of, await house.core.audit.tail(100))))
        assert "was not begun: nobody decided in time" in said
        assert "was not approved" not in said
