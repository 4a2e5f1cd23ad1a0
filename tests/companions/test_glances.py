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


async def test_a_long_list_comes_in_pieces_and_by_name(tmp_path: Path) -> None:
    async with opened_room(tmp_path, database=Counting) as room:
        gym = [room.categories["gym"]]
        names = ["Ada", "Bruno", "Çağla", "ada the second", "Emil"]
        made = [
            (await room.desk.new("planner", category_ids=gym, display_name=name)).id
            for name in names
        ]
        await room.desk.destroy(made[4])
        whole = await room.desk.list()
        assert [each.display_name for each in whole] == names[:4]
        pieces = [await room.desk.list(skip=skip, limit=2) for skip in (0, 2, 4)]
        assert sum(pieces, ()) == whole
        assert len(await room.desk.list(with_destroyed=True, skip=3, limit=9)) == 2

        found = await room.desk.listed(words=" ADA ", limit=1)
        assert (found.total, found.companions) == (2, whole[:1])
        assert (await room.desk.listed(words="ÇAĞ")).companions == whole[2:3]
        nobody = await room.desk.listed(words="%")
        assert (nobody.total, nobody.companions) == (0, ())
        Counting.asked = 0
        await room.desk.listed(limit=4)
        many = Counting.asked
        Counting.asked = 0
        await room.desk.listed(limit=1)
        assert Counting.asked == many


async def test_who_is_meant(tmp_path: Path) -> None:
    async with opened_room(tmp_path) as room:
        gym = [room.categories["gym"]]
        ada, second, coach, gone = [
            (await room.desk.new(kind, category_ids=gym, display_name=name)).id
            for kind, name in (
                ("planner", "Ada"),
                ("planner", "Ada the second"),
                ("gym_coach", "Coach"),
                ("planner", "Gone"),
            )
        ]
        await room.desk.destroy(gone)

        async def meant(text: str, *, with_destroyed: bool = False) -> list[str]:
            found = await room.desk.meant(text, with_destroyed=with_destroyed)
            return [each.id for each in found]

        assert await meant("ada") == [ada]
        assert await meant("ADA THE") == [second]
        assert await meant("gym_coach") == [coach]
        assert await meant(coach) == await meant(coach[-6:]) == [coach]
        assert await meant("planner") == [ada, second]
        assert await meant("nobody") == await meant("gone") == []
        assert await meant("gone", with_destroyed=True) == [gone]


async def test_a_switch_says_whom_it_stops(tmp_path: Path) -> None:
    async with opened_room(tmp_path) as room:
        made = await room.desk.new("planner", category_ids=[room.categories["gym"]])
        await room.desk.stop(StopScope.COMPANION, made.id)
        switches = await room.desk.stop(StopScope.TOOL_CLASS, "write")
        assert {each.target: each.target_name for each in switches} == {
            made.id: made.display_name,
            "write": None,
        }
