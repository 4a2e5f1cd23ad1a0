"""The offline brain as a model of the library, so that it drives everything a model would."""

import json
from collections.abc import AsyncIterator, Callable
from functools import partial

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

from silas.agents.brain import planner, proxy
from silas.agents.brain.hearing import Heard, hear
from silas.agents.brain.plans import Places
from silas.agents.brain.steps import Answer, Call, Move
from silas.agents.models.errors import ModelNotUsable
from silas.agents.models.roles import Role

Mind = Callable[[Heard], Move]


def brain_model(role: Role, *, places: Places, profile: str) -> FunctionModel:
    """The brain in one role; `profile` is the context profile that it always chooses."""
    mind = _mind(role, places, profile)
    return FunctionModel(
        partial(_answer, mind), stream_function=partial(_stream, mind), model_name="offline-brain"
    )


def _mind(role: Role, places: Places, profile: str) -> Mind:
    match role:
        case Role.PROXY:
            return lambda heard: _with_profile(proxy.route(heard), profile)
        case Role.PLANNER:
            return lambda heard: planner.plan(heard, places)
        case Role.EXECUTOR | Role.SCORER | Role.GATE:
            # Plans of the brain need no model to be executed. To judge text is what it cannot do.
            raise ModelNotUsable(f"The offline brain cannot be the {role}. Set models.{role}.")


def _with_profile(move: Move, profile: str) -> Move:
    if isinstance(move, Call):
        return move
    return Answer({**move.fields, "context_profile": profile})


async def _answer(mind: Mind, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    heard = hear(messages, info)
    name, args, call_id = _call(mind(heard), heard)
    if name is None:
        return ModelResponse(parts=[TextPart(args)])
    return ModelResponse(parts=[ToolCallPart(name, args, tool_call_id=call_id)])


async def _stream(
    mind: Mind, messages: list[ModelMessage], info: AgentInfo
) -> AsyncIterator[str | DeltaToolCalls]:
    heard = hear(messages, info)
    name, args, call_id = _call(mind(heard), heard)
    if name is None:
        yield args
        return
    yield {0: DeltaToolCall(name, args, tool_call_id=call_id)}


def _call(move: Move, heard: Heard) -> tuple[str | None, str, str]:
    """The tool to call (None: to speak), what with, and the number of the call."""
    number = f"call-{len(heard.answers) + 1}"
    match move:
        case Call(tool, args):
            return tool, json.dumps(dict(args)), number
        case Answer(fields):
            return heard.output_tool, json.dumps(dict(fields)), number
