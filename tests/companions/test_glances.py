"""The list of companions: the same as one by one, and as cheap for many as for one."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from silas.companions.errors import CompanionInvalid, CompanionUnknown
from silas.companions.models import BudgetLimits, Companion, StopScope
from silas.companions.views import Health
from silas.storage import SqliteDatabase
from silas.testing.companion_room import Room, opened_room


class Counting(SqliteDatabase):
    """Counts what it is asked."""

    asked = 0

    async def fetch_all(self, sql: str, params: Sequence[Any] = ()) -> Any:
        type(self).asked += 1
        return await super().fetch_all(sql, params)

    async def fetch_one(self, sql: str, params: Sequence[Any] = ()) -> Any:
        type(self).asked += 1
        return await super().fetch_one(sql, params)


async def queries_of_a_list(room: Room) -> int:
    Counting.asked = 0
    await room.desk.list()
    return Counting.asked


async def test_a_long_list_asks_no_more_than_a_short_one(tmp_path: Path) -> None:
    async with opened_room(tmp_path, database=Counting) as room:
        gym = [room.categories["gym"]]
        for _ in range(2):
            await room.desk.new("planner", category_ids=gym)
        few = await queries_of_a_list(room)
        for kind in ("planner", "gym_coach", "strategist") * 3:
            await room.desk.new(kind, category_ids=gym)
        assert await queries_of_a_list(room) == few


async def test_a_line_of_the_list_is_what_is_shown_of_one(tmp_path: Path) -> None:
    async with opened_room(tmp_path) as room:
        gym, work = room.categories["gym"], room.categories["work"]
        planner = await room.desk.new("planner", category_ids=[gym])
        coach = await room.desk.new("gym_coach", category_ids=[gym])
        strategist = await room.desk.new("strategist", category_ids=[work])
        gone = await room.desk.new("planner", category_ids=[work])
        await room.finish(await room.task("Squats", checklist_items=("Warm up",)))
        await room.work()
        await room.desk.stop(StopScope.COMPANION, strategist.id)
        await room.desk.pause(coach.id)
        await room.desk.destroy(gone.id)
        lines = {each.id: each for each in await room.desk.list(with_destroyed=True)}
        for each in lines.values():
            assert each == (await room.desk.show(each.id)).companion
        health = [lines[each.id].health for each in (planner, coach, strategist, gone)]
        assert health == [Health.IDLE, Health.PAUSED, Health.STOPPED, Health.DESTROYED]
        assert (lines[planner.id].waiting_actions, lines[coach.id].open_questions) == (1, 1)
        assert [lines[planner.id].report_fresh, lines[strategist.id].report_fresh] == [True, None]
        # A change in its category makes a report stale, one elsewhere does not.
        await room.task("Mail", category="work")
        assert {each.id: each.report_fresh for each in await room.desk.list()}[planner.id]
        await room.task("Lunges")
        assert not {each.id: each.report_fresh for each in await room.desk.list()}[planner.id]


async def test_a_limit_that_is_changed_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    async with opened_room(tmp_path) as room:
        made = await room.desk.new("planner", category_ids=[room.categories["gym"]])
        warned = BudgetLimits(soft_share=0.5, tokens=100)
        await room.desk.configure(made.id, budget=warned)
        after = await room.desk.configure(made.id, budget=BudgetLimits(tool_calls=7, tokens=None))
        assert after.budget.limits == {**made.budget.limits, "tool_calls": 7, "tokens": None}
        companion = await room.store.require(Companion, made.id)
        assert companion.config.budget.soft_share == 0.5


async def test_a_run_is_found_by_the_beginning_of_its_key(tmp_path: Path) -> None:
    async with opened_room(tmp_path) as room:
        agent = await room.desk.new("planner", category_ids=[room.categories["gym"]])
        woken = [await room.desk.wake(agent.id, request_id=f"r{each}") for each in range(20)]
        await room.work()
        keys = [each.run_key for each in woken]
        assert (await room.desk.trace(keys[0][:16])).run_key == keys[0]
        assert (await room.desk.replay(keys[1])).matches
        with pytest.raises(CompanionInvalid, match="begins with"):
            await room.desk.trace("")
        with pytest.raises(CompanionUnknown, match="There is no run"):
            await room.desk.replay("nothing")
