"""The offline brain plays its roles through the same agents as any other model."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.settings import ModelSettings

from silas.agents.brain.grammar import understand
from silas.agents.brain.intents import NotUnderstood
from silas.agents.brain.model import brain_model
from silas.agents.brain.plans import NOT_CHECKED, Places
from silas.agents.models.choices import OutputMode, Role
from silas.agents.models.errors import ModelNotUsable
from silas.agents.models.factory import RoleModel
from silas.agents.planner import PlannerAgent
from silas.agents.proxy import ProxyAgent
from silas.kernel import IdFactory, TaintLevel
from silas.stream.models import WHAT_CAN_BE_SAID, AgentResponse, AgentTurn, RouteDecision
from silas.testing import FakeClock
from silas.tools.declaration import ToolOffer
from silas.tools.execution import ModelView
from silas.work.plan import parse
from silas.work.ports import ToolCaller

PLACES = Places(home=Path("/home/me"), workspace=Path("/home/me/silas"))
MEMORIES = "mem_01 (fact): The spare key is at the neighbour's."
TWO = "mem_01 (fact): The spare key.\nmem_02 (fact): The car key."


@dataclass
class Tools:
    """Two looking tools with fixed answers."""

    says: Mapping[str, str] = field(default_factory=dict)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.says)

    reviewer = None

    @property
    def offers(self) -> tuple[ToolOffer, ...]:
        schema = {"type": "object", "additionalProperties": True, "properties": {}}
        return tuple(
            ToolOffer(
                name=name, description=name, parameters=schema, contained=True, changes_state=False
            )
            for name in self.says
        )

    async def call(self, tool: str, args: Mapping[str, Any]) -> ModelView:
        self.calls.append((tool, dict(args)))
        return ModelView(
            success=True,
            return_value=self.says[tool],
            content=[],
            error=None,
            taint=TaintLevel.OWNER,
        )


def player(role: Role, mode: OutputMode = OutputMode.TOOL) -> RoleModel:
    model = brain_model(role, places=PLACES, profile="conversation")
    return RoleModel(
        role=role, model=model, settings=ModelSettings(), output_mode=mode, name="offline brain"
    )


def turn(request: str) -> AgentTurn:
    return AgentTurn(
        scope_id="owner",
        trace_id="t",
        request=request,
        taint=TaintLevel.OWNER,
        max_tokens=100_000,
        max_cost_usd=1.0,
    )


async def route(
    request: str, tools: ToolCaller | None = None, mode: OutputMode = OutputMode.TOOL
) -> RouteDecision:
    agent = ProxyAgent(
        player(Role.PROXY, mode),
        profiles=["conversation", "coding"],
        default_profile="conversation",
    )
    answered = await agent.route(turn(request), tools or Tools())
    assert answered.fallback is None
    return answered.output


async def plan(request: str) -> AgentResponse:
    clock = FakeClock()
    agent = PlannerAgent(player(Role.PLANNER), ids=IdFactory(clock))
    answered = await agent.plan(turn(request), Tools(), final=True)
    assert answered.fallback is None
    return answered.output


def said(decision: RouteDecision) -> str:
    assert decision.response is not None
    return decision.response.message


class TestProxy:
    async def test_what_is_to_be_done_goes_to_the_planner(self) -> None:
        decision = await route("run `ls`")
        assert (decision.route, decision.interaction_mode) == ("planner", "act_and_report")

    @pytest.mark.parametrize("mode", OutputMode)
    async def test_in_every_mode(self, mode: OutputMode) -> None:
        assert "I am the offline brain" in said(await route("what can you do?", mode=mode))

    async def test_it_says_when_it_does_not_understand(self) -> None:
        assert said(await route("compose a symphony")).startswith("I need a model for that")
        assert "Watch https://example.org every" in said(await route("watch my cat closely"))

    @pytest.mark.parametrize(
        "asked", ["compose a symphony", "read my mail", "hello", "remind me", ""]
    )
    async def test_only_who_asks_for_help_gets_the_list(self, asked: str) -> None:
        decision = await route(asked)
        assert "\n" not in said(decision)
        assert decision.reason != WHAT_CAN_BE_SAID

    async def test_the_list_is_marked_so_that_no_model_is_told_of_it(self) -> None:
        assert (await route("help")).reason == WHAT_CAN_BE_SAID

    @pytest.mark.parametrize(
        "asked", ["book a flight to Oslo", "watch my cat closely", "hello", "what can you do?"]
    )
    async def test_the_nearest_things_that_work_are_offered_to_tap(self, asked: str) -> None:
        response = (await route(asked)).response
        assert response is not None
        assert 0 < len(response.chips) <= 4
        assert not any(isinstance(understand(chip), NotUnderstood) for chip in response.chips)

    async def test_what_is_not_understood_is_answered_in_a_few_lines(self) -> None:
        assert len(said(await route("book a flight to Oslo"))) < 300

    async def test_remember(self) -> None:
        decision = await route("Remember that the spare key is at the neighbour's")
        assert decision.response is not None
        [op] = decision.response.memory_ops
        assert (op.op, op.content) == ("store", "the spare key is at the neighbour's")

    async def test_recall(self) -> None:
        tools = Tools({"memory_search": MEMORIES})
        decision = await route("where is the spare key?", tools)
        assert "neighbour's" in said(decision)
        assert tools.calls == [("memory_search", {"query": "the spare key", "max_results": 10})]

    async def test_the_name_that_was_told_last_counts(self) -> None:
        # The best match comes first, whenever it was told; ids are in the order of time.
        found = "mem_01 (fact): My name is Ada\nmem_02 (fact): My name is Ada Lovelace"
        turned = "\n".join(reversed(found.split("\n")))
        for memories in (found, turned):
            decision = await route("What is my name?", Tools({"memory_search": memories}))
            assert said(decision) == "Your name is Ada Lovelace."

    async def test_forget_the_one_that_is_meant(self) -> None:
        decision = await route("forget the spare key", Tools({"memory_search": MEMORIES}))
        assert decision.response is not None
        [op] = decision.response.memory_ops
        assert (op.op, op.memory_id) == ("delete", "mem_01")

    async def test_forget_asks_which_one(self) -> None:
        decision = await route("forget the key", Tools({"memory_search": TWO}))
        assert decision.response is not None
        assert decision.response.memory_ops == []
        assert "mem_02" in decision.response.message
        chosen = await route("forget mem_02")
        assert chosen.response is not None
        assert chosen.response.memory_ops[0].memory_id == "mem_02"

    async def test_a_wish_about_the_journal_is_handed_on(self) -> None:
        decision = await route("Add task Squats in gym due tomorrow 9am")
        assert decision.response is not None
        [op] = decision.response.journal_ops
        assert (op.op, op.title, op.due) == ("add_task", "Squats", "tomorrow 9am")
        assert decision.response.message == "", "what was done is not the brain's to say"

    async def test_a_look_at_the_journal(self) -> None:
        tools = Tools({"journal_read": "Open:\n  Squats"})
        assert said(await route("what is open in gym?", tools)) == "Open:\n  Squats"
        assert tools.calls == [
            ("journal_read", {"show": "tasks", "day": "today", "category": "gym"})
        ]
        assert "no journal" in said(await route("what is on today?"))

    async def test_what_it_did(self) -> None:
        tools = Tools({"recent_activity": "It ran one command."})
        assert said(await route("what did you do?", tools)) == "It ran one command."

    async def test_markup_in_a_request_arrives_as_it_was_written(self) -> None:
        decision = await route("remember <system>this</system> [INST]")
        assert decision.response is not None
        assert decision.response.memory_ops[0].content == "<system>this</system> [INST]"


class TestPlanner:
    async def test_a_plan_that_can_be_read(self) -> None:
        response = await plan("create a file a.txt with hello")
        assert response.plan_action is not None
        item = parse(response.plan_action.plan_markdown or "")
        assert item.verify[0].expect.equals == "hello\n"
        assert NOT_CHECKED not in response.message

    async def test_it_says_when_nothing_can_be_checked_afterwards(self) -> None:
        response = await plan("run echo hello and check that it prints hello")
        assert response.plan_action is not None
        assert parse(response.plan_action.plan_markdown or "").verify == []
        assert NOT_CHECKED in response.message

    async def test_it_asks_for_what_is_missing(self) -> None:
        response = await plan("compose a symphony")
        assert response.plan_action is None

    async def test_advice(self) -> None:
        agent = PlannerAgent(player(Role.PLANNER), ids=IdFactory(FakeClock()))
        answered = await agent.advise(turn("the worker is stuck"))
        assert "once more" in answered.output


@pytest.mark.parametrize("role", [Role.EXECUTOR, Role.SCORER, Role.GATE])
def test_it_does_not_judge(role: Role) -> None:
    with pytest.raises(ModelNotUsable, match=f"models.{role}"):
        brain_model(role, places=PLACES, profile="conversation")
