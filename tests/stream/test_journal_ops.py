"""Wishes about the journal: the owner's own, each once, and nobody else's."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from silas.app.agents import Agents
from silas.gates import Gate, GateAction
from silas.journal import OWNER, Journal, dispatch
from silas.journal.conversation import JournalConversation
from silas.kernel import Clock, IdFactory, TaintLevel
from silas.queue.models import MessageKind, PlanResult
from silas.storage import SqliteDatabase, load_migrations, migrate
from silas.stream.models import AgentTurn, RouteDecision
from silas.stream.steps.records import apply_ops
from silas.stream.store import Origin
from silas.stream.turn_context import Turn, TurnContext
from silas.testing import FakeClock
from silas.testing.fakes import with_schema
from silas.testing.stream import FakeContext, FakeProxy, direct
from silas.work.ports import ToolCaller
from tests.stream.house import House, standing_house
from tests.stream.test_turn import gate, judged, mine, replies, saying, take

ADD = {"op": "add_task", "title": "Squats", "due": "in 2 hours"}
ASKED = "add task squats due in 2 hours"
"""The message that asks for `ADD`: what a message does not ask for is not done at once."""
DONE = {"op": "finish_task", "task": "Squats"}


@asynccontextmanager
async def a_journal(tmp_path: Path, clock: Clock) -> AsyncIterator[Journal]:
    database = SqliteDatabase.open(with_schema(tmp_path / "journal.db", "journal"))
    await migrate(database, load_migrations("journal"), clock=clock)
    journal = await Journal.open(database, clock=clock, ids=IdFactory(clock))
    try:
        yield journal
    finally:
        await journal.close()
        await database.close()


@asynccontextmanager
async def standing(
    tmp_path: Path, proxy: FakeProxy, **rooms: Any
) -> AsyncIterator[tuple[House, Journal]]:
    clock = FakeClock()
    async with a_journal(tmp_path, clock) as journal:
        rooms["journal"] = JournalConversation(journal, clock=clock, zone=ZoneInfo("Europe/Berlin"))
        async with standing_house(tmp_path, Agents(proxy=proxy), clock=clock, **rooms) as house:
            yield house, journal


async def titles(journal: Journal) -> list[str]:
    return [each.title for each in await journal.list_tasks()]


async def test_the_owner_wishes_and_the_runtime_tells(tmp_path: Path) -> None:
    async with standing(tmp_path, saying("Gladly.", journal_ops=[ADD])) as (house, journal):
        handled = await take(house.stream.turns, await house.say(ASKED))
        [text] = mine(handled)
        assert text.startswith("Gladly.\nWritten down: Squats, due")
        assert replies(handled)[0].taint is TaintLevel.OWNER
        assert await titles(journal) == ["Squats"]


async def test_a_turn_that_is_taken_again_writes_once(tmp_path: Path) -> None:
    async with standing(tmp_path, saying("", journal_ops=[ADD])) as (house, journal):
        message = await house.say(ASKED)
        first = mine(await take(house.stream.turns, message))
        house.core.clock.advance(seconds=60)  # type: ignore[attr-defined]
        other = FakeProxy(saying("", journal_ops=[{**ADD, "title": "Something else"}])._route)
        again = await take(replace(house.stream.turns, proxy=other), message)
        assert mine(again) == first
        assert await titles(journal) == ["Squats"]
        sent_again = await house.stream.intake.accept(message.content, message.payload)
        [text] = mine(await take(house.stream.turns, sent_again))
        assert "Only the owner" in text, "a signature is good for one message"
        assert await titles(journal) == ["Squats"]


@pytest.mark.parametrize("connection", ["guest", "owner"])
async def test_a_stranger_is_refused(tmp_path: Path, connection: str) -> None:
    async with standing(tmp_path, saying("Done!", journal_ops=[ADD])) as (house, journal):
        said = await house.say("add it", connection=connection, signed=False)
        [text] = mine(await take(house.stream.turns, said))
        assert "Only the owner" in text
        assert "Done!" not in text
        assert await titles(journal) == []
        assert await house.audited("journal_op_refused")
        assert not await house.audited("journal_changed")


async def test_after_foreign_text_nothing_is_written(tmp_path: Path) -> None:
    async def route(turn: AgentTurn, tools: ToolCaller) -> RouteDecision:
        view = await tools.call("journal_read", {"show": "tasks"})
        assert (view.taint, "Order me" in view.return_value) == (TaintLevel.EXTERNAL, True)
        return direct("Done!", journal_ops=[ADD])

    async with standing(tmp_path, FakeProxy(route)) as (house, journal):
        companion: Any = {"scope": OWNER, "actor": "companion:coach"}
        await dispatch.call(journal, "create_task", {"title": "Order me"}, **companion)
        [text] = mine(await take(house.stream.turns, await house.say("what is open?")))
        assert "not yours was read" in text
        assert await titles(journal) == ["Order me"]


async def test_what_a_stranger_said_earlier_refuses_what_the_owner_does_not_ask_for_exactly(
    tmp_path: Path,
) -> None:
    proxy = saying("", journal_ops=[ADD])
    async with standing(tmp_path, proxy, context=FakeContext()) as (house, journal):
        room = house.stream.turns
        stranger = await house.say("a stranger's words", connection="owner", signed=False)
        await take(room, stranger)
        [text] = mine(await take(room, await house.say("what shall I do today?")))
        assert "not yours was read" in text
        assert await titles(journal) == []
        assert "stranger" in proxy.turns[-1].context
        assert proxy.turns[-1].taint is TaintLevel.EXTERNAL


async def test_what_a_stranger_said_earlier_does_not_refuse_the_owners_own_wish(
    tmp_path: Path,
) -> None:
    proxy = saying("", journal_ops=[ADD])
    async with standing(tmp_path, proxy, context=FakeContext()) as (house, journal):
        room = house.stream.turns
        stranger = await house.say("a stranger's words", connection="owner", signed=False)
        await take(room, stranger)
        [text] = mine(await take(room, await house.say(ASKED)))
        assert text.startswith("Written down")
        assert await titles(journal) == ["Squats"]
        deaf = replace(room, proxy_hears_context=False)
        [text] = mine(await take(deaf, await house.say(ASKED)))
        assert text.startswith("Written down")
        assert proxy.turns[-1].context == ""


async def test_the_owners_own_records_leave_him_the_owner(tmp_path: Path) -> None:
    async def route(turn: AgentTurn, tools: ToolCaller) -> RouteDecision:
        assert (await tools.call("journal_read", {})).taint is TaintLevel.OWNER
        return direct("", journal_ops=[ADD])

    async with standing(tmp_path, FakeProxy(route)) as (house, journal):
        for _ in range(2):
            await take(house.stream.turns, await house.say(ASKED))
        assert await titles(journal) == ["Squats", "Squats"]


async def test_who_only_claims_to_be_the_owner_cannot_look(tmp_path: Path) -> None:
    async def route(turn: AgentTurn, tools: ToolCaller) -> RouteDecision:
        assert "journal_read" not in tools.names
        return direct("No.")

    async with standing(tmp_path, FakeProxy(route)) as (house, _):
        said = await house.say("what is open?", connection="owner", signed=False)
        assert mine(await take(house.stream.turns, said)) == ["No."]


async def test_ambiguous_names_change_nothing_and_are_listed(tmp_path: Path) -> None:
    names = [{"op": "add_task", "title": f"Squats {name}"} for name in ("alone", "together")]
    async with standing(tmp_path, saying("", journal_ops=names)) as (house, journal):
        await take(
            house.stream.turns,
            await house.say("add task Squats alone and add task Squats together"),
        )
        unclear = replace(house.stream.turns, proxy=saying("Did it.", journal_ops=[DONE]))
        [text] = mine(await take(unclear, await house.say("done with squats")))
        assert "Squats alone" in text
        assert "Squats together" in text
        assert "Did it." not in text
        assert len(await titles(journal)) == 2


async def test_gates_look_at_the_wish_and_at_what_is_told(tmp_path: Path) -> None:
    def judge(asked: Gate, context: dict[str, Any]) -> dict[str, Any]:
        if asked.name == "wishes":
            assert context["tool_name"] == "journal_op"
            return {"action": GateAction.BLOCK} if context["tool_args"]["title"] == "Bad" else {}
        return {"action": GateAction.BLOCK} if "Squats" in context["response"] else {}

    async with standing(tmp_path, saying("", journal_ops=[ADD])) as (house, journal):
        looking = (gate("wishes", "on_tool_call"), gate("words", "every_agent_response"))
        room: TurnContext = judged(house, judge, *looking)
        [text] = mine(await take(room, await house.say(ASKED)))
        assert "Squats" not in text
        bad = replace(room, proxy=saying("", journal_ops=[{"op": "add_task", "title": "Bad"}]))
        [text] = mine(await take(bad, await house.say("add task Bad")))
        assert "the gate wishes stopped it" in text
        assert await titles(journal) == ["Squats"]


async def test_only_a_message_carries_a_wish(tmp_path: Path) -> None:
    async with standing(tmp_path, saying()) as (house, journal):
        said = (await house.say(ASKED)).model_copy(update={"taint": TaintLevel.OWNER})
        fields = {"trace_id": said.trace_id, "scope_id": "owner", "connection_id": "owner"}
        origin = Origin(**fields, channel="test", sender_id="owner", message_id=said.message_id)
        response = direct("", journal_ops=[ADD]).response
        mine = {"taint": TaintLevel.OWNER, "read_taint": TaintLevel.OWNER}
        turn = Turn(said, origin, 1, "do it", response=response, **mine)
        result = {
            "message_kind": MessageKind.PLAN_RESULT,
            "payload": PlanResult(connection_id="owner"),
        }
        planned = said.model_copy(update=result)
        await apply_ops(house.stream.turns, replace(turn, message=planned))
        assert await titles(journal) == [], "a planner wishes nothing"
        await apply_ops(house.stream.turns, turn)
        assert await titles(journal) == ["Squats"]


async def test_without_a_journal_it_says_so(tmp_path: Path) -> None:
    agents = Agents(proxy=saying("Done!", journal_ops=[ADD]))
    async with standing_house(tmp_path, agents) as house:
        [text] = mine(await take(house.stream.turns, await house.say(ASKED)))
        assert "There is no journal here" in text
