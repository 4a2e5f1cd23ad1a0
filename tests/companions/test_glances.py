"""The list of companions: the same as one by one, and as cheap for many as for one."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from silas.companions.errors import CompanionInvalid, CompanionUnknown
from silas.companions.models import BudgetLimits, Companion, StopScope
from silas.companions.views import CompanionHealth
from silas.storage import SqliteDatabase
from silas.testing.companions import CompanionDevice, opened_device


class Counting(SqliteDatabase):
    """Counts what it is asked."""

    asked = 0

    async def fetch_all(self, sql: str, params: Sequence[Any] = ()) -> Any:
        type(self).asked += 1
        return await super().fetch_all(sql, params)

    async def fetch_one(self, sql: str, params: Sequence[Any] = ()) -> Any:
        type(self).asked += 1
        return await super().fetch_one(sql, params)


async def queries_of_a_list(device: CompanionDevice) -> int:
    Counting.asked = 0
    await device.service.list()
    return Counting.asked


async def test_a_long_list_asks_no_more_than_a_short_one(tmp_path: Path) -> None:
    async with opened_device(tmp_path, database=Counting) as device:
        gym = [device.categories["gym"]]
        for _ in range(2):
            await device.service.new("planner", category_ids=gym)
        few = await queries_of_a_list(device)
        for kind in ("planner", "gym_coach", "strategist") * 3:
            await device.service.new(kind, category_ids=gym)
        assert await queries_of_a_list(device) == few


async def test_a_line_of_the_list_is_what_is_shown_of_one(tmp_path: Path) -> None:
    async with opened_device(tmp_path) as device:
        gym, work = device.categories["gym"], device.categories["work"]
        planner = await device.service.new("planner", category_ids=[gym])
        coach = await device.service.new("gym_coach", category_ids=[gym])
        strategist = await device.service.new("strategist", category_ids=[work])
        gone = await device.service.new("planner", category_ids=[work])
        await device.finish(await device.task("Squats", checklist_items=("Warm up",)))
        await device.work()
        await device.service.stop(StopScope.COMPANION, strategist.id)
        await device.service.pause(coach.id)
        await device.service.destroy(gone.id)
        lines = {each.id: each for each in await device.service.list(with_destroyed=True)}
        for each in lines.values():
            assert each == (await device.service.show(each.id)).companion
        health = [lines[each.id].health for each in (planner, coach, strategist, gone)]
        assert health == [
            CompanionHealth.IDLE,
            CompanionHealth.PAUSED,
            CompanionHealth.STOPPED,
            CompanionHealth.DESTROYED,
        ]
        assert (lines[planner.id].waiting_actions, lines[coach.id].open_questions) == (1, 1)
        assert [lines[planner.id].report_fresh, lines[strategist.id].report_fresh] == [True, None]
        # A change in its category makes a report stale, one elsewhere does not.
        await device.task("Mail", category="work")
        assert {each.id: each.report_fresh for each in await device.service.list()}[planner.id]
        await device.task("Lunges")
        assert not {each.id: each.report_fresh for each in await device.service.list()}[planner.id]


async def test_a_limit_that_is_changed_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    async with opened_device(tmp_path) as device:
        made = await device.service.new("planner", category_ids=[device.categories["gym"]])
        warned = BudgetLimits(soft_share=0.5, tokens=100)
        await device.service.configure(made.id, budget=warned)
        after = await device.service.configure(
            made.id, budget=BudgetLimits(tool_calls=7, tokens=None)
        )
        assert after.budget.limits == {**made.budget.limits, "tool_calls": 7, "tokens": None}
        companion = await device.store.require(Companion, made.id)
        assert companion.config.budget.soft_share == 0.5


async def test_a_run_is_found_by_the_beginning_of_its_key(tmp_path: Path) -> None:
    async with opened_device(tmp_path) as device:
        agent = await device.service.new("planner", category_ids=[device.categories["gym"]])
        woken = [await device.service.wake(agent.id, request_id=f"r{each}") for each in range(20)]
        await device.work()
        keys = [each.run_key for each in woken]
        assert (await device.service.trace(keys[0][:16])).run_key == keys[0]
        assert (await device.service.replay(keys[1])).matches
        with pytest.raises(CompanionInvalid, match="begins with"):
            await device.service.trace("")
        with pytest.raises(CompanionUnknown, match="There is no run"):
            await device.service.replay("nothing")


async def test_a_long_list_comes_in_pieces_and_by_name(tmp_path: Path) -> None:
    async with opened_device(tmp_path, database=Counting) as device:
        gym = [device.categories["gym"]]
        names = ["Ada", "Bruno", "Çağla", "ada the second", "Emil"]
        made = [
            (await device.service.new("planner", category_ids=gym, display_name=name)).id
            for name in names
        ]
        await device.service.destroy(made[4])
        whole = await device.service.list()
        assert [each.display_name for each in whole] == names[:4]
        pieces = [await device.service.list(skip=skip, limit=2) for skip in (0, 2, 4)]
        assert sum(pieces, ()) == whole
        assert len(await device.service.list(with_destroyed=True, skip=3, limit=9)) == 2

        found = await device.service.listed(words=" ADA ", limit=1)
        assert (found.total, found.companions) == (2, whole[:1])
        assert (await device.service.listed(words="ÇAĞ")).companions == whole[2:3]
        nobody = await device.service.listed(words="%")
        assert (nobody.total, nobody.companions) == (0, ())
        Counting.asked = 0
        await device.service.listed(limit=4)
        many = Counting.asked
        Counting.asked = 0
        await device.service.listed(limit=1)
        assert Counting.asked == many


async def test_who_is_meant(tmp_path: Path) -> None:
    async with opened_device(tmp_path) as device:
        gym = [device.categories["gym"]]
        ada, second, coach, gone = [
            (await device.service.new(kind, category_ids=gym, display_name=name)).id
            for kind, name in (
                ("planner", "Ada"),
                ("planner", "Ada the second"),
                ("gym_coach", "Coach"),
                ("planner", "Gone"),
            )
        ]
        await device.service.destroy(gone)

        async def meant(text: str, *, with_destroyed: bool = False) -> list[str]:
            found = await device.service.meant(text, with_destroyed=with_destroyed)
            return [each.id for each in found]

        assert await meant("ada") == [ada]
        assert await meant("ADA THE") == [second]
        assert await meant("gym_coach") == [coach]
        assert await meant(coach) == await meant(coach[-6:]) == [coach]
        assert await meant("planner") == [ada, second]
        assert await meant("nobody") == await meant("gone") == []
        assert await meant("gone", with_destroyed=True) == [gone]


async def test_a_switch_says_whom_it_stops(tmp_path: Path) -> None:
    async with opened_device(tmp_path) as device:
        made = await device.service.new("planner", category_ids=[device.categories["gym"]])
        await device.service.stop(StopScope.COMPANION, made.id)
        switches = await device.service.stop(StopScope.TOOL_CLASS, "write")
        assert {each.target: each.target_name for each in switches} == {
            made.id: made.display_name,
            "write": None,
        }
