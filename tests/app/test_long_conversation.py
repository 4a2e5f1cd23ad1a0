"""A conversation of ten thousand turns is answered like a new one, with a model's agent."""

import json
from pathlib import Path

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.settings import ModelSettings

from silas.agents.models.choices import OutputMode, Role
from silas.agents.models.factory import RoleModel
from silas.agents.proxy import ProxyAgent
from silas.app.agents import Agents
from silas.context.models import ContextItem, ContextKind, ContextZone
from silas.context.service import ContextService
from silas.kernel import Clock, TaintLevel
from tests.app.test_runtime import Newcomer, moved_in

TURNS = 10_000
SHORT = "Is there anything that I should know before the meeting on day {}?"


def proxy(model: FunctionModel) -> ProxyAgent:
    player = RoleModel(
        role=Role.PROXY,
        model=model,
        settings=ModelSettings(),
        output_mode=OutputMode.NATIVE,
        name="function",
    )
    return ProxyAgent(player, profiles=("conversation",), default_profile="conversation")


def decision(message: str) -> str:
    return json.dumps(
        {
            "reason": "a greeting",
            "route": "direct",
            "interaction_register": "status",
            "interaction_mode": "default_and_offer",
            "context_profile": "conversation",
            "continuation_of": None,
            "response": {"message": message},
        }
    )


def fill(context: ContextService, clock: Clock) -> None:
    """As much as such a conversation has in its context: all that its budget lets stay."""
    manager, most = context.manager, context.manager.budgets("owner").chronicle
    for number in range(1, TURNS):
        for source in ("channel:terminal", "agent:proxy"):
            item = ContextItem(
                ctx_id=f"said_{number}.{source}",
                zone=ContextZone.CHRONICLE,
                content=SHORT.format(number),
                created_at=clock.now(),
                turn_number=number,
                source=source,
                taint=TaintLevel.OWNER,
                kind=ContextKind.MESSAGE,
            )
            manager.add("owner", item)
        if manager.token_usage("owner")["chronicle"] >= most:
            return
    raise AssertionError("the budget holds ten thousand turns")


async def make_old(newcomer: Newcomer) -> None:
    core, context = newcomer.runtime.core, newcomer.runtime.stream.turns.context
    assert context is not None
    fill(context, core.clock)
    await core.database.execute(
        "UPDATE conversation_scopes SET turns = ? WHERE scope_id = 'owner'", (TURNS,)
    )


async def test_the_ten_thousandth_turn_is_answered(tmp_path: Path) -> None:
    shown: list[int] = []

    async def answer(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        shown.append(sum(len(str(part.content)) for each in messages for part in each.parts))  # type: ignore[union-attr]
        return ModelResponse(parts=[TextPart(decision(f"answer {len(shown)}"))])

    async with moved_in(tmp_path, Agents(proxy=proxy(FunctionModel(answer)))) as newcomer:
        assert "answer 1" in await newcomer.say("Good morning!")
        await make_old(newcomer)
        assert "answer 2" in await newcomer.say(SHORT.format(TURNS))
        assert "answer 3" in await newcomer.say(SHORT.format(TURNS + 1))
    assert shown[1] > 200_000, "the model is still shown what was said before"


async def test_an_answer_in_the_wrong_form_is_repaired_there_too(tmp_path: Path) -> None:
    asked = 0

    async def answer(_messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        nonlocal asked
        asked += 1
        return ModelResponse(parts=[TextPart("{}" if asked == 2 else decision("here it is"))])

    async with moved_in(tmp_path, Agents(proxy=proxy(FunctionModel(answer)))) as newcomer:
        await newcomer.say("Good morning!")
        await make_old(newcomer)
        assert "here it is" in await newcomer.say(SHORT.format(TURNS))
    assert asked == 3
