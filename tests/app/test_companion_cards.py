"""Companions in the whole runtime: bus, cards and tokens are real; only the person is not."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from silas.app.companions import action_approvals
from silas.app.core import make_core
from silas.app.review import open_questions, open_unasked
from silas.app.runtime import Runtime, open_runtime
from silas.cli.companions import ask_companions
from silas.companions.models import WakeReason
from silas.companions.ports import ApprovableAction
from silas.companions.tools.registry import AgentAccessScope, AgentToolCall
from silas.gates.risk import RiskLevel
from silas.journal import operations
from silas.journal.models import OWNER
from silas.review.decisions import QuestionKind
from silas.review.questions import Question
from silas.secrets import OnDemandVault
from silas.settings.load import load_settings
from silas.testing import MemoryVault
from silas.web.errors import InvalidRequest
from tests.stream.database_writer import OldRows, audited

BY_OWNER: Any = {"scope": OWNER, "actor": "owner"}


@pytest.fixture
async def core(tmp_path: Path) -> AsyncIterator[Any]:
    settings = load_settings(
        data_dir=str(tmp_path / "data"), config_file=None, environ={}, cwd=tmp_path
    )
    (tmp_path / "data").mkdir()
    (tmp_path / "home").mkdir()
    vault = MemoryVault()
    async with make_core(settings, OnDemandVault(lambda: vault)) as core:
        core.keys.generate_keypair()
        yield core


async def eventually(look: Callable[[], Awaitable[Any]]) -> Any:
    """What `look` finds, once it finds something."""
    async with asyncio.timeout(120):
        while not (found := await look()):  # noqa: ASYNC110 - looks from outside
            await asyncio.sleep(0.01)
    return found


async def companion_cards(runtime: Runtime) -> list[Question]:
    return [
        each
        for each in await runtime.reviews.questions.open()
        if each.content.kind is QuestionKind.COMPANION
    ]


async def follow_ups(runtime: Runtime) -> list[str]:
    found = await runtime.journal.list_tasks()
    return [each.title for each in found if "follow-up" in each.title]


async def finished(runtime: Runtime) -> str:
    category = (await operations.create_category(runtime.journal, name="gym", **BY_OWNER)).payload[
        "category_id"
    ]
    agent = await runtime.companions.service.new("planner", category_ids=[category])
    task = await operations.create_task(
        runtime.journal,
        title="Squats",
        category_id=category,
        checklist_items=("Stretch",),
        **BY_OWNER,
    )
    await operations.update_task_fields(
        runtime.journal, task_id=task.payload["task_id"], fields={"status": "done"}, **BY_OWNER
    )
    return agent.id


async def test_task_card_yes_follow_up_once_also_after_a_restart(core: Any, tmp_path: Path) -> None:
    async with open_runtime(core, environ={}, home=tmp_path / "home") as runtime:
        agent = await finished(runtime)
        (card,) = await eventually(lambda: companion_cards(runtime))
        assert card.content.intent == "Planner wants to add a follow-up task"
        assert card.content.body["action"]["agent_id"] == agent
    # The process ends while the card waits, and another one begins.
    async with open_runtime(core, environ={}, home=tmp_path / "home") as runtime:
        (again,) = await companion_cards(runtime)
        assert again.question_id == card.question_id
        assert await follow_ups(runtime) == []
        await runtime.reviews.questions.answer_with_vault(card.question_id, {"verdict": "approve"})
        assert await eventually(lambda: follow_ups(runtime)) == ["Squats (follow-up)"]
        used = await core.database.fetch_all("SELECT executions_used FROM approval_tokens")
        assert used == [(1,)]
    async with open_runtime(core, environ={}, home=tmp_path / "home") as runtime:
        await runtime.companions.service.recover()
        assert await follow_ups(runtime) == ["Squats (follow-up)"]
        assert await companion_cards(runtime) == []


@pytest.mark.parametrize("reason", WakeReason)
async def test_what_the_owner_has_begun_is_asked_at_once_and_the_rest_within_the_budget(
    core: Any, reason: WakeReason
) -> None:
    questions = open_questions(core, core.queue)
    approvals = replace(
        action_approvals(core, questions),
        unasked=replace(open_unasked(core, questions), a_day=0),
    )
    action = ApprovableAction(
        operation_id="op_1",
        agent_id="agent_1",
        display_name="Coach",
        agent_kind="gym_coach",
        tool_name="create_task",
        tool_version=1,
        arguments={"title": "Squats"},
        allowed_category_ids=("gym",),
        risk=RiskLevel.MEDIUM,
    )
    call = AgentToolCall(
        agent_id=action.agent_id,
        agent_kind=action.agent_kind,
        thread_id="thread",
        run_key="run",
        tool_name=action.tool_name,
        operation_id=action.operation_id,
        wake_reason=reason,
        scope=AgentAccessScope(allowed_category_ids=frozenset({"gym"})),
    )
    await approvals.ask(action, call)
    shown = [each.content.kind for each in await questions.open()]
    begun = reason in (WakeReason.USER_INITIATED, WakeReason.MANUAL)
    # What is held is named by the digest, which is a suggestion.
    assert shown == [QuestionKind.COMPANION if begun else QuestionKind.SUGGESTION]


@pytest.mark.parametrize("with_token", [False, True])
async def test_old_rows_of_all_databases_do_not_repeat_a_deed(
    core: Any, tmp_path: Path, with_token: bool
) -> None:
    """Whoever can write all three databases has kept the answer, and the token if he wants."""
    places = [tmp_path / "data" / name for name in ("agent.db", "journal.db")]
    async with open_runtime(core, environ={}, home=tmp_path / "home") as runtime:
        await finished(runtime)
        (card,) = await eventually(lambda: companion_cards(runtime))
    rows = await OldRows.of(core.database)
    files = {place: place.read_bytes() for place in places}
    async with open_runtime(core, environ={}, home=tmp_path / "home") as runtime:
        await runtime.reviews.questions.answer_with_vault(card.question_id, {"verdict": "approve"})
        assert await eventually(lambda: follow_ups(runtime)) == ["Squats (follow-up)"]
        assert await eventually(lambda: said(core, "approval_done"))
    kept = ("questions", "decisions", *(("approval_tokens",) if with_token else ()))
    later = (await OldRows.of(core.database)).tables
    await OldRows({**rows.tables, **{name: later[name] for name in kept}}).put_back(core.database)
    await core.database.execute("UPDATE approval_tokens SET executions_used = 0")
    for place, content in files.items():
        place.with_name(f"{place.name}-wal").unlink(missing_ok=True)
        place.write_bytes(content)
    async with open_runtime(core, environ={}, home=tmp_path / "home") as runtime:
        await runtime.companions.service.recover()
        refused = "approval_refused" if with_token else "decision_refused"
        assert await eventually(lambda: said(core, refused))
        assert await follow_ups(runtime) == []


async def said(core: Any, event: str) -> int:
    return await audited(core.database, event)


async def test_a_no_on_the_card_is_the_end_of_it(core: Any, tmp_path: Path) -> None:
    async with open_runtime(core, environ={}, home=tmp_path / "home") as runtime:
        agent = await finished(runtime)
        (card,) = await eventually(lambda: companion_cards(runtime))
        await runtime.reviews.questions.answer_with_vault(card.question_id, {"verdict": "decline"})

        async def nothing_waits() -> bool:
            return await runtime.companions.service.waiting(agent) == ()

        await eventually(nothing_waits)
        assert await follow_ups(runtime) == []


async def test_an_answer_that_nobody_signed_leads_to_nothing(core: Any, tmp_path: Path) -> None:
    async with open_runtime(core, environ={}, home=tmp_path / "home") as runtime:
        await finished(runtime)
        (card,) = await eventually(lambda: companion_cards(runtime))
        await core.database.execute(
            "UPDATE questions SET state = 'approve', answer = ?, key_id = 'x', signature = 'eA=='"
            " WHERE id = ?",
            ('{"verdict": "approve"}', card.question_id),
        )
        (waiting,) = await runtime.companions.service.waiting()
        await runtime.companions.service.decided(waiting.operation_id)
        assert await follow_ups(runtime) == []


async def test_destroying_a_companion_takes_its_cards_away(core: Any, tmp_path: Path) -> None:
    async with open_runtime(core, environ={}, home=tmp_path / "home") as runtime:
        agent = await finished(runtime)
        await eventually(lambda: companion_cards(runtime))
        await runtime.companions.service.destroy(agent)
        assert await companion_cards(runtime) == []


async def test_without_a_server_commands_work_on_the_files(core: Any) -> None:
    kinds = await ask_companions(core, "kinds", {})
    assert [each["kind"] for each in kinds] == [
        "planner",
        "gym_coach",
        "strategist",
        "pomodoro",
        "task_keeper",
    ]
    with pytest.raises(InvalidRequest, match="agent_id is missing"):
        await ask_companions(core, "show", {})
    assert await ask_companions(core, "list", {}) == []
