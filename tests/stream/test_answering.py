"""Answers that are being made: what is shown of them, at which stage they are, and their stop."""

import asyncio
import json
import signal
import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from silas.app.agents import Agents
from silas.gates import GateAction, GateResult
from silas.kernel import DatabaseError
from silas.stream.answering import NOTHING_BEGUN, STOPPED, AnswersInProgress, AnswerStops, Stage
from silas.stream.models import AgentResponse, AgentTurn, Answered, RouteDecision
from silas.stream.ports import AnswerProgress, Finding, Research, TextListener
from silas.testing.stream import (
    FakePlannerAgent,
    FakeProxy,
    FakeResearcher,
    direct,
    proposing,
    to_planner,
)
from silas.work.ports import ToolCaller
from tests.stream import house as houses
from tests.stream.house import House, writing
from tests.work.chaos_runner import FolderVault

FIRST = "The first sentence is long enough to be shown before the rest. "
SECOND = "And this is the second, which comes later."
KEY = "sk-" + "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789"
HOLDING = [
    {"name": "tone", "on": "every_agent_response", "type": "regex", "config": {"pattern": ".*"}}
]


@dataclass
class Watching:
    """`Live` that keeps what it is told, as a page would show it."""

    texts: dict[str, str] = field(default_factory=dict)
    shown: list[str] = field(default_factory=list)
    stages: list[AnswerProgress] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def text(self, connection_id: str, trace_id: str, piece: str, *, start: int) -> None:
        before = self.texts.get(trace_id, "")
        assert start <= len(before)
        self.texts[trace_id] = before[:start] + piece
        self.shown.append(self.texts[trace_id])
        self.news.set()

    def answering(self, progress: AnswerProgress) -> None:
        self.stages.append(progress)
        self.news.set()

    def progress(self, trace_id: str, what: str, detail: str = "") -> None:
        del trace_id, what, detail

    async def until(self, stage: str) -> AnswerProgress:
        async with asyncio.timeout(60):
            while not (found := [each for each in self.stages if each.stage == stage]):
                self.news.clear()
                await self.news.wait()
        return found[-1]

    @property
    def words(self) -> list[str]:
        return [each.words for each in self.stages if not each.over]


class SlowProxy:
    """`RoutingAgent` that writes its answer in pieces, and waits before the last one."""

    def __init__(self, *texts: str) -> None:
        self.texts = texts
        self.wrote = asyncio.Event()
        self.may_end = asyncio.Event()
        self.was_cancelled = False
        self.asked = 0

    async def route(
        self, turn: AgentTurn, tools: ToolCaller, *, on_text: TextListener | None = None
    ) -> Answered[RouteDecision]:
        self.asked += 1
        if on_text is not None:
            for number in range(1, len(self.texts)):
                on_text("".join(self.texts[:number]))
        self.wrote.set()
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        return Answered[RouteDecision](output=direct("".join(self.texts)), taint=turn.taint)


class Never:
    """Something that goes on until it is cancelled."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.was_cancelled = False

    async def __call__(self) -> None:
        self.began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise


def open_house(
    root: Path, agents: Agents, *, environ: dict[str, str] | None = None, **more: Any
) -> AbstractAsyncContextManager[House]:
    """A house whose proxy has a model: only what is written slowly is shown while it is."""
    known = {"SILAS_MODELS__PROXY": "openai:served-model", **(environ or {})}
    return houses.open_house(root, agents, environ=known, **more)


async def ask_planner(_turn: AgentTurn, _tools: ToolCaller) -> RouteDecision:
    return to_planner()


def answers_of(house: House) -> AnswersInProgress:
    return house.stream.turns.answers


async def restarted_says_nothing(root: Path, agents: Agents) -> None:
    """After a restart, nothing is left of what was stopped."""
    async with open_house(root, agents) as house:
        await house.idle()
        assert house.said == []


class TestShowing:
    async def test_sentences_are_shown_while_the_answer_is_written(self, tmp_path: Path) -> None:
        proxy, live = SlowProxy(FIRST, SECOND), Watching()
        async with open_house(tmp_path, Agents(proxy=proxy), live=live) as house:
            said = await house.say("Tell me.")
            await proxy.wrote.wait()
            assert live.texts[said.trace_id] == FIRST
            proxy.may_end.set()
            assert (await house.answer_to(said)).content == FIRST + SECOND
            await house.idle()
        assert live.stages[-1].over
        assert answers_of(house).current() == []

    async def test_a_secret_is_never_shown(self, tmp_path: Path) -> None:
        live = Watching()
        proxy = SlowProxy(FIRST, "The key is ", KEY[:20], KEY[20:], ", he said. ", SECOND)
        async with open_house(tmp_path, Agents(proxy=proxy), live=live) as house:
            proxy.may_end.set()
            said = await house.say("Tell me.")
            final = (await house.answer_to(said)).content
        assert KEY not in final
        assert live.shown
        assert all(final.startswith(text) for text in live.shown)

    async def test_a_check_of_the_whole_answer_holds_it_and_says_so(self, tmp_path: Path) -> None:
        proxy, live = SlowProxy(FIRST, SECOND), Watching()
        environ = {
            "SILAS_GATES__SYSTEM": json.dumps(HOLDING),
            "SILAS_MODELS__PROXY": "openai:served-model",
        }
        async with open_house(tmp_path, Agents(proxy=proxy), live=live, environ=environ) as house:
            said = await house.say("Tell me.")
            asking = await live.until(Stage.ASKING)
            await proxy.wrote.wait()
            assert live.shown == []
            proxy.may_end.set()
            assert (await house.answer_to(said)).content == FIRST + SECOND
        assert asking.words == "Asking openai:served-model"
        assert asking.note == "You see the answer when the check “tone” has read all of it."

    async def test_what_a_gate_blocks_does_not_stand(self, tmp_path: Path) -> None:
        blocking = [
            {
                "name": "no_keys",
                "on": "every_agent_response",
                "provider": "guardrails_ai",
                "check": "secrets",
                "config": {"mode": "block"},
            }
        ]
        proxy, live = SlowProxy(FIRST, f"The key is {KEY}.\n", SECOND), Watching()
        environ = {"SILAS_GATES__SYSTEM": json.dumps(blocking)}
        async with open_house(tmp_path, Agents(proxy=proxy), live=live, environ=environ) as house:
            proxy.may_end.set()
            said = await house.say("Tell me.")
            final = (await house.answer_to(said)).content
        assert FIRST not in final
        assert live.shown[0] == FIRST
        assert live.shown[-1] == ""

    async def test_a_visitors_answer_is_nobodys_to_watch(self, tmp_path: Path) -> None:
        proxy, live = SlowProxy(FIRST, SECOND), Watching()
        proxy.may_end.set()
        async with open_house(tmp_path, Agents(proxy=proxy), live=live) as house:
            said = await house.say("Tell me.", connection="guest", signed=False)
            await house.answer_to(said)
        assert (live.shown, live.stages) == ([], [])

    async def test_frames_are_bounded(self, tmp_path: Path) -> None:
        live = Watching()
        words = [f"This is sentence number {'x' * (n % 7)}abc. " for n in range(200)]
        proxy = SlowProxy(*words, "End.")
        async with open_house(tmp_path, Agents(proxy=proxy), live=live) as house:
            proxy.may_end.set()
            await house.answer_to(await house.say("Tell me."))
        assert len(live.shown) < 40


class TestStages:
    async def test_those_of_a_plan(self, tmp_path: Path) -> None:
        live = Watching()

        async def think(
            turn: AgentTurn, tools: ToolCaller, findings: Sequence[Finding], final: bool
        ) -> AgentResponse:
            if not findings:
                await tools.call("request_research", {"question": "Where?"})
                return AgentResponse(message="Looking.")
            return proposing(writing("a.txt"))

        async def look(turn: AgentTurn, tools: ToolCaller) -> Research:
            return Research(text="There.", ok=True, sources=[])

        agents = Agents(
            proxy=FakeProxy(ask_planner),
            planner=FakePlannerAgent(think),
            research=FakeResearcher(look),
        )
        async with open_house(tmp_path, agents, live=live) as house:
            await house.answer_to(await house.say("Make it."))
            await house.idle()
        assert live.words == [
            "Reading your message",
            "Asking openai:served-model",
            "Making a plan",
            "Looking things up",
            "Making a plan",
            "Checking the answer",
        ]
        assert live.stages[-1].over

    async def test_a_look_is_a_stage_of_its_own(self, tmp_path: Path) -> None:
        live = Watching()

        async def route(turn: AgentTurn, tools: ToolCaller) -> RouteDecision:
            await tools.call("memory_search", {"query": "bread"})
            return direct("Bread.")

        environ = {"SILAS_MODELS__PROXY": "openai:served-model"}
        async with open_house(
            tmp_path, Agents(proxy=FakeProxy(route)), live=live, environ=environ
        ) as house:
            await house.answer_to(await house.say("What did I want?"))
        assert live.words == [
            "Reading your message",
            "Asking openai:served-model",
            "Looking things up",
            "Asking openai:served-model",
            "Checking the answer",
        ]

    async def test_a_turn_that_fails_leaves_no_stage_behind(self, tmp_path: Path) -> None:
        live, tries = Watching(), []

        async def route(turn: AgentTurn, tools: ToolCaller) -> RouteDecision:
            tries.append(turn)
            if len(tries) == 1:
                raise RuntimeError("It broke.")
            return direct("It works.")

        async with open_house(tmp_path, Agents(proxy=FakeProxy(route)), live=live) as house:
            assert (await house.answer_to(await house.say("Go."))).content == "It works."
            await house.idle()
        assert [each.over for each in live.stages].count(True) == 2
        assert answers_of(house).current() == []


class TestStopping:
    async def test_while_a_model_answers(self, tmp_path: Path) -> None:
        proxy, live = SlowProxy(FIRST, SECOND), Watching()
        async with open_house(tmp_path, Agents(proxy=proxy), live=live) as house:
            said = await house.say("Tell me.")
            await proxy.wrote.wait()
            assert await answers_of(house).stop(said.trace_id)
            answer = await house.answer_to(said)
            await house.idle()
            assert answer.content == f"{FIRST.rstrip()}\n\n{STOPPED}"
            assert proxy.was_cancelled
            assert len(house.answers(said)) == 1
            assert await house.dead() == []
            assert len(await house.audited("answer_stopped")) == 1
            assert not await answers_of(house).stop(said.trace_id)
        await restarted_says_nothing(tmp_path, Agents(proxy=proxy))
        assert proxy.asked == 1

    async def test_before_anything_is_shown(self, tmp_path: Path) -> None:
        proxy = SlowProxy(SECOND)
        async with open_house(tmp_path, Agents(proxy=proxy)) as house:
            said = await house.say("Tell me.")
            await proxy.wrote.wait()
            await answers_of(house).stop(said.trace_id)
            assert (await house.answer_to(said)).content == NOTHING_BEGUN

    async def test_what_was_read_taints_what_was_shown(self, tmp_path: Path) -> None:
        class Reading(SlowProxy):
            async def route(self, turn: AgentTurn, tools: Any, **more: Any) -> Any:
                tools.taint = turn.taint.EXTERNAL
                return await super().route(turn, tools, **more)

        proxy = Reading(FIRST, SECOND)
        async with open_house(tmp_path, Agents(proxy=proxy)) as house:
            said = await house.say("Tell me.")
            await proxy.wrote.wait()
            await answers_of(house).stop(said.trace_id)
            assert (await house.answer_to(said)).taint.value == "external"

    async def test_the_next_message_is_answered(self, tmp_path: Path) -> None:
        proxy = SlowProxy(FIRST, SECOND)
        async with open_house(tmp_path, Agents(proxy=proxy)) as house:
            first, second = await house.say("One."), await house.say("Two.")
            await proxy.wrote.wait()
            await answers_of(house).stop(first.trace_id)
            await house.answer_to(first)
            proxy.may_end.set()
            assert (await house.answer_to(second)).content == FIRST + SECOND

    async def test_while_the_planner_is_at_work(self, tmp_path: Path) -> None:
        never = Never()

        async def think(*_: Any) -> AgentResponse:
            await never()
            return proposing(writing("a.txt"))

        agents = Agents(proxy=FakeProxy(ask_planner), planner=FakePlannerAgent(think))
        async with open_house(tmp_path, agents) as house:
            said = await house.say("Make it.")
            await never.began.wait()
            assert await answers_of(house).stop(said.trace_id)
            assert (await house.answer_to(said)).content == NOTHING_BEGUN
            await house.idle()
            assert never.was_cancelled
            assert await house.reviews.waiting() == []
            assert len(house.answers(said)) == 1
        await restarted_says_nothing(tmp_path, agents)

    async def test_while_something_is_looked_up(self, tmp_path: Path) -> None:
        never, thought = Never(), []

        async def think(
            turn: AgentTurn, tools: ToolCaller, findings: Sequence[Finding], final: bool
        ) -> AgentResponse:
            thought.append(final)
            for each in ("Where?", "How?"):
                await tools.call("request_research", {"question": each})
            return AgentResponse(message="Looking.")

        async def look(turn: AgentTurn, tools: ToolCaller) -> Research:
            await never()
            return Research(text="", ok=True, sources=[])

        agents = Agents(
            proxy=FakeProxy(ask_planner),
            planner=FakePlannerAgent(think),
            research=FakeResearcher(look),
        )
        async with open_house(tmp_path, agents) as house:
            said = await house.say("Make it.")
            await never.began.wait()
            assert await answers_of(house).stop(said.trace_id)
            assert (await house.answer_to(said)).content == NOTHING_BEGUN
            await house.idle()
            assert never.was_cancelled
            assert len(thought) == 1
            assert len(house.answers(said)) == 1
            assert answers_of(house).current() == []

    async def test_while_a_gate_looks(self, tmp_path: Path) -> None:
        never = Never()

        class Slow:
            async def ask(self, prompt: str, *, schema: Any) -> str:
                await never()
                return ""

        gates = [
            {
                "name": "tone",
                "on": "every_agent_response",
                "provider": "llm",
                "check": "Is it kind?",
                "promote_to_policy": True,
            }
        ]
        proxy, live = FakeProxy(lambda *_: _said(direct(FIRST))), Watching()
        async with open_house(
            tmp_path,
            Agents(proxy=proxy, gate=Slow()),
            live=live,
            environ={"SILAS_GATES__SYSTEM": json.dumps(gates)},
        ) as house:
            said = await house.say("Tell me.")
            await never.began.wait()
            assert live.words[-1] == "Waiting for the check “tone”"
            assert await answers_of(house).stop(said.trace_id)
            assert (await house.answer_to(said)).content == NOTHING_BEGUN
        assert never.was_cancelled

    async def test_while_the_owner_is_asked(self, tmp_path: Path) -> None:
        never, live = Never(), Watching()

        class Desk:
            async def approve_gate(self, result: GateResult, **_: Any) -> bool:
                assert result.action is GateAction.REQUIRE_APPROVAL
                await never()
                return True

        gates = [{"name": "ask_me", "on": "every_user_message", "type": "approval_always"}]
        proxy = FakeProxy(lambda *_: _said(direct(FIRST)))
        async with open_house(
            tmp_path,
            Agents(proxy=proxy),
            live=live,
            gate_approver=Desk(),
            environ={"SILAS_GATES__SYSTEM": json.dumps(gates)},
        ) as house:
            said = await house.say("Tell me.")
            await never.began.wait()
            assert live.words[-1] == "Waiting for your decision"
            await answers_of(house).stop(said.trace_id)
            assert (await house.answer_to(said)).content == NOTHING_BEGUN
        assert proxy.turns == []

    async def test_one_that_is_not_being_made(self, tmp_path: Path) -> None:
        proxy = FakeProxy(lambda *_: _said(direct("Hello.")))
        async with open_house(tmp_path, Agents(proxy=proxy)) as house:
            said = await house.say("Hi.")
            await house.answer_to(said)
            await house.idle()
            assert not await answers_of(house).stop(said.trace_id)
            assert not await answers_of(house).stop("trace_of_nobody")
            assert len(house.said) == 1

    async def test_a_process_that_ends_is_no_stop(self, tmp_path: Path) -> None:
        proxy = SlowProxy(FIRST, SECOND)
        async with open_house(tmp_path, Agents(proxy=proxy)) as house:
            said = await house.say("Tell me.")
            await proxy.wrote.wait()
        assert house.said == []
        proxy.may_end.set()
        async with open_house(tmp_path, Agents(proxy=proxy)) as again:
            assert (await again.answer_to(said)).content == FIRST + SECOND

    @pytest.mark.slow
    @pytest.mark.parametrize("text", ["Tell me.", "Make a plan."])
    async def test_a_stop_outlives_the_process(self, tmp_path: Path, text: str) -> None:
        """Killed between the tap and the answer: it is stopped, and no agent is asked again."""
        killed = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.stream.stopping_process", str(tmp_path), text),
            stdout=asyncio.subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        printed, _ = await killed.communicate()
        assert killed.returncode == -signal.SIGKILL
        proxy, planner = FakeProxy(_never), FakePlannerAgent(_never)
        vault = FolderVault(tmp_path / "vault")
        agents = Agents(proxy=proxy, planner=planner)
        async with open_house(tmp_path, agents, vault=vault) as house:
            await house.until(lambda: house.containing(NOTHING_BEGUN))
            await house.idle()
            [answer] = house.said
            assert answer.trace_id == f"trace_{printed.decode().strip()}"
            left = await house.database.fetch_all("SELECT * FROM stopped_answers")
            assert left == []
        assert proxy.turns == []
        assert planner.turns == []

    async def test_a_full_disk_keeps_nobody_from_stopping(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def full(*_given: Any, **_more: Any) -> None:
            raise DatabaseError("The disk is full.")

        proxy = SlowProxy(FIRST, SECOND)
        async with open_house(tmp_path, Agents(proxy=proxy)) as house:
            said = await house.say("Tell me.")
            await proxy.wrote.wait()
            monkeypatch.setattr(AnswerStops, "keep", full)
            with pytest.raises(DatabaseError):
                await answers_of(house).stop(said.trace_id)
            assert STOPPED in (await house.answer_to(said)).content
            assert proxy.was_cancelled


async def _never(*_given: Any) -> Any:
    raise AssertionError("nobody is to be asked")


async def _said(decision: RouteDecision) -> RouteDecision:
    return decision
