"""Companions in the whole house: bus, cards and tokens are real; only the person is not."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from silas.app.companion_line import CompanionLine, ask_companions, call_desk, open_desk
from silas.app.ground import OnDemandVault, make_ground
from silas.app.house import House, open_house
from silas.app.settings import load_settings
from silas.journal import operations
from silas.journal.models import OWNER
from silas.kernel import CompanionError
from silas.stream.review.models import Kind, Question
from silas.testing import MemoryVault
from tests.stream.database_writer import OldRows, audited

BY_OWNER: Any = {"scope": OWNER, "actor": "owner"}


@pytest.fixture
async def ground(tmp_path: Path) -> AsyncIterator[Any]:
    settings = load_settings(
        data_dir=str(tmp_path / "data"), config_file=None, environ={}, cwd=tmp_path
    )
    (tmp_path / "data").mkdir()
    (tmp_path / "home").mkdir()
    vault = MemoryVault()
    async with make_ground(settings, OnDemandVault(lambda: vault)) as ground:
        ground.keys.generate_keypair()
        yield ground


async def eventually(look: Callable[[], Awaitable[Any]]) -> Any:
    """What `look` finds, once it finds something."""
    async with asyncio.timeout(120):
        while not (found := await look()):  # noqa: ASYNC110 - looks from outside
            await asyncio.sleep(0.01)
    return found


async def companion_cards(house: House) -> list[Question]:
    return [
        each for each in await house.desk.questions.open() if each.content.kind is Kind.COMPANION
    ]


async def follow_ups(house: House) -> list[str]:
    found = await house.journal.list_tasks()
    return [each.title for each in found if "follow-up" in each.title]


async def finished(house: House) -> str:
    category = (await operations.create_category(house.journal, name="gym", **BY_OWNER)).payload[
        "category_id"
    ]
    agent = await house.companions.desk.new("planner", category_ids=[category])
    task = await operations.create_task(
        house.journal,
        title="Squats",
        category_id=category,
        checklist_items=("Stretch",),
        **BY_OWNER,
    )
    await operations.update_task_fields(
        house.journal, task_id=task.payload["task_id"], fields={"status": "done"}, **BY_OWNER
    )
    return agent.id


async def test_task_card_yes_follow_up_once_also_after_a_restart(
    ground: Any, tmp_path: Path
) -> None:
    async with open_house(ground, environ={}, home=tmp_path / "home") as house:
        agent = await finished(house)
        (card,) = await eventually(lambda: companion_cards(house))
        assert card.content.intent == "Planner wants to add a follow-up task"
        assert card.content.body["action"]["agent_id"] == agent
    # The process ends while the card waits, and another one begins.
    async with open_house(ground, environ={}, home=tmp_path / "home") as house:
        (again,) = await companion_cards(house)
        assert again.question_id == card.question_id
        assert await follow_ups(house) == []
        await house.desk.questions.answer(card.question_id, {"verdict": "approve"})
        assert await eventually(lambda: follow_ups(house)) == ["Squats (follow-up)"]
        used = await ground.database.fetch_all("SELECT executions_used FROM approval_tokens")
        assert used == [(1,)]
    async with open_house(ground, environ={}, home=tmp_path / "home") as house:
        await house.companions.desk.recover()
        assert await follow_ups(house) == ["Squats (follow-up)"]
        assert await companion_cards(house) == []


@pytest.mark.parametrize("with_token", [False, True])
async def test_old_rows_of_all_databases_do_not_repeat_a_deed(
    ground: Any, tmp_path: Path, with_token: bool
) -> None:
    """Whoever can write all three databases has kept the answer, and the token if he wants."""
    places = [tmp_path / "data" / name for name in ("agent.db", "journal.db")]
    async with open_house(ground, environ={}, home=tmp_path / "home") as house:
        await finished(house)
        (card,) = await eventually(lambda: companion_cards(house))
    rows = await OldRows.of(ground.database)
    files = {place: place.read_bytes() for place in places}
    async with open_house(ground, environ={}, home=tmp_path / "home") as house:
        await house.desk.questions.answer(card.question_id, {"verdict": "approve"})
        assert await eventually(lambda: follow_ups(house)) == ["Squats (follow-up)"]
        assert await eventually(lambda: said(ground, "approval_done"))
    kept = ("questions", "decision_receipts", *(("approval_tokens",) if with_token else ()))
    later = (await OldRows.of(ground.database)).tables
    await OldRows({**rows.tables, **{name: later[name] for name in kept}}).put_back(ground.database)
    await ground.database.execute("UPDATE approval_tokens SET executions_used = 0")
    for place, content in files.items():
        place.with_name(f"{place.name}-wal").unlink(missing_ok=True)
        place.write_bytes(content)
    async with open_house(ground, environ={}, home=tmp_path / "home") as house:
        await house.companions.desk.recover()
        refused = "approval_refused" if with_token else "decision_refused"
        assert await eventually(lambda: said(ground, refused))
        assert await follow_ups(house) == []


async def said(ground: Any, event: str) -> int:
    return await audited(ground.database, event)


async def test_a_no_on_the_card_is_the_end_of_it(ground: Any, tmp_path: Path) -> None:
    async with open_house(ground, environ={}, home=tmp_path / "home") as house:
        agent = await finished(house)
        (card,) = await eventually(lambda: companion_cards(house))
        await house.desk.questions.answer(card.question_id, {"verdict": "decline"})

        async def nothing_waits() -> bool:
            return await house.companions.desk.waiting(agent) == ()

        await eventually(nothing_waits)
        assert await follow_ups(house) == []


async def test_an_answer_that_nobody_signed_leads_to_nothing(ground: Any, tmp_path: Path) -> None:
    async with open_house(ground, environ={}, home=tmp_path / "home") as house:
        await finished(house)
        (card,) = await eventually(lambda: companion_cards(house))
        await ground.database.execute(
            "UPDATE questions SET state = 'approve', answer = ?, key_id = 'x', signature = 'eA=='"
            " WHERE id = ?",
            ('{"verdict": "approve"}', card.question_id),
        )
        (waiting,) = await house.companions.desk.waiting()
        await house.companions.desk.decided(waiting.operation_id)
        assert await follow_ups(house) == []


async def test_destroying_a_companion_takes_its_cards_away(ground: Any, tmp_path: Path) -> None:
    async with open_house(ground, environ={}, home=tmp_path / "home") as house:
        agent = await finished(house)
        await eventually(lambda: companion_cards(house))
        await house.companions.desk.destroy(agent)
        assert await companion_cards(house) == []


async def test_the_line_answers_with_json_and_knows_its_calls(ground: Any, tmp_path: Path) -> None:
    async with open_house(ground, environ={}, home=tmp_path / "home") as house:
        agent, line = await finished(house), CompanionLine()
        with line.connected(house.companions.desk):
            (listed,) = await line.answer({"call": "list", "arguments": {}})
            assert (listed["id"], listed["health"]) == (agent, "idle")
            await line.answer({"call": "stop", "arguments": {"scope": "global"}})
            (listed,) = await line.answer({"call": "list", "arguments": {}})
            assert listed["health"] == "stopped"
            assert await line.answer({"call": "resume_all", "arguments": {}}) == []
            for wrong in ("decided", "recover", "__init__", "nothing"):
                with pytest.raises(CompanionError):
                    await line.answer({"call": wrong, "arguments": {}})
            with pytest.raises(CompanionError):
                await line.answer({"call": "show", "arguments": {"more": 1}})


async def test_without_a_server_the_desk_works_on_the_files(ground: Any) -> None:
    async with open_desk(ground) as desk:
        kinds = await call_desk(desk, "kinds", {})
    assert [each["kind"] for each in kinds] == ["planner", "gym_coach", "strategist"]
    assert await ask_companions(ground, "list", {}) == []
