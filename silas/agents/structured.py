"""One way of asking for a structured answer. Its rules:

1. Exactly one repair: an answer in the wrong form is asked for once more, with what is wrong
   appended to the prompt, within the same limits.
2. If that fails too, or the model cannot be reached, or the budget or the time is used up, the
   answer is the deterministic one of the call (`fallbacks.py`), with a sentence that says why.
   Only a cancellation and failures that are not the model's get out.
3. Every request is counted, also those whose answers were of no use.

A request is made directly, since that costs a fraction of what running an `Agent` does. Only when
the model asks for a tool does an `Agent` take over the conversation: tools are always called
through the whole chain of toolsets.
"""

import asyncio
from collections.abc import AsyncIterable, Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from pydantic_ai import Agent, capture_run_messages
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import (
    AgentStreamEvent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    UserPromptPart,
)
from pydantic_ai.models import Model
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset
from pydantic_ai.usage import UsageLimits
from pydantic_core import to_json

from silas.agents.framing import disarm
from silas.agents.metering import CallLimits, Meter, estimated_tokens
from silas.agents.models.factory import RoleModel
from silas.agents.outputs import MAX_ANSWER_CHARS, OutputForm, OutputInvalid, wants_tools
from silas.agents.streaming import Finder, GrowingAnswer
from silas.kernel import LlmError, SilasError, TaintLevel
from silas.stream.models import Answered
from silas.stream.ports import TextListener

T = TypeVar("T")

_INVALID = (
    "The model's answer was not in the form that is needed, twice. "
    "Try again, or run `silas models test` to see what the model can do."
)
_REPAIR = """\


[SCHEMA VALIDATION ERROR]
You have answered this before, and the answer could not be used:
{problems}
Answer the request above again, whole, in the required form and without these problems.
Do not write about the problems."""


@dataclass(frozen=True)
class StructuredAgent(Generic[T]):
    """One role's way of answering: made once, and asked as often as needed."""

    player: RoleModel
    form: OutputForm[T]
    instructions: str
    fallback: Callable[[str], T]
    agent: Agent[None, Any]
    find_text: Finder | None = None
    """Where in a growing answer the text for the user is."""


def structured_agent(
    player: RoleModel,
    form: OutputForm[T],
    *,
    instructions: str,
    fallback: Callable[[str], T],
    find_text: Finder | None = None,
) -> StructuredAgent[T]:
    """The agent of a role."""
    agent = Agent[None, Any](
        player.model,
        output_type=form.spec,
        instructions=instructions,
        name=player.role.value,
        retries={"output": 0, "tools": 1},
    )
    return StructuredAgent(player, form, instructions, fallback, agent, find_text)


async def run_structured_agent(
    agent: StructuredAgent[T],
    prompt: str,
    *,
    meter: Meter,
    taint: Callable[[], TaintLevel],
    toolset: AbstractToolset[None] | None = None,
    on_text: TextListener | None = None,
) -> Answered[T]:
    """The agent's answer, or its fallback. `taint` is asked at the end, for all that was seen."""
    try:
        async with asyncio.timeout(meter.limits.seconds):
            output = await _Call(agent, meter, toolset, on_text).answer(prompt)
            sentence = None
    except OutputInvalid:
        sentence = _INVALID
    except TimeoutError:
        sentence = f"The model did not answer within {meter.limits.seconds:g} seconds."
    except LlmError as error:
        sentence = error.message
    except SilasError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a model's client raises, the turn goes on
        sentence = f"The model failed ({type(error).__name__}). Run `silas models test` to see why."
    if sentence is not None:
        output = agent.fallback(sentence)
    return Answered(output=output, usage=meter.usage, taint=taint(), fallback=sentence)


@dataclass
class _Call(Generic[T]):
    """One call on its way: at most two attempts."""

    agent: StructuredAgent[T]
    meter: Meter
    toolset: AbstractToolset[None] | None
    on_text: TextListener | None

    async def answer(self, prompt: str) -> T:
        messages: list[ModelMessage] = [
            ModelRequest(parts=[UserPromptPart(prompt)], instructions=self.agent.instructions)
        ]
        try:
            return await self._attempt(messages)
        except OutputInvalid as refused:
            # What was shown of the first answer must not run together with the second.
            self.on_text = None
            return await self._attempt(_with_repair(messages, refused))

    async def _attempt(self, messages: list[ModelMessage]) -> T:
        """One attempt. `messages` grows by what tools said, so that a repair need not ask again."""
        self.meter.check(estimated_tokens(*messages))
        response = await self._request(messages)
        if self.toolset is None or not wants_tools(response):
            return self.agent.form.read_response(response)
        return await self._with_tools(messages, response)

    async def _request(self, messages: list[ModelMessage]) -> ModelResponse:
        player, parameters = self.agent.player, self.agent.form.parameters(await self._tools())
        heard = self._growing()
        if heard is None:
            response = await model_request(
                player.model,
                messages,
                model_settings=self._settings,
                model_request_parameters=parameters,
            )
            self.meter.add(response, messages)
        else:
            async with model_request_stream(
                player.model,
                messages,
                model_settings=self._settings,
                model_request_parameters=parameters,
            ) as stream:
                try:
                    async for event in stream:
                        if isinstance(event, PartStartEvent | PartDeltaEvent):
                            heard.hear(event)
                finally:
                    # Also if it was cut off: what has come so far was used.
                    response = stream.get()
                    self.meter.add(response, messages)
            heard.flush()
        return response

    async def _tools(self) -> list[ToolDefinition]:
        if self.toolset is None:
            return []
        context = RunContext[None](deps=None, model=self.agent.player.model, usage=self.meter.used)
        return [tool.tool_def for tool in (await self.toolset.get_tools(context)).values()]

    async def _with_tools(self, messages: list[ModelMessage], response: ModelResponse) -> T:
        """Let the `Agent` call the tools and go on from there."""
        with capture_run_messages() as said:
            try:
                ran = await self.agent.agent.run(
                    message_history=[*messages, response],
                    toolsets=[self.toolset] if self.toolset else [],
                    model_settings=self._settings,
                    usage=self.meter.used,
                    usage_limits=UsageLimits(request_limit=self.meter.limits.requests),
                    event_stream_handler=self._handler(),
                )
            except UnexpectedModelBehavior as error:
                raise OutputInvalid("- the answer is not a JSON object") from error
            except OutputInvalid:
                self.meter.add_cut_off(MAX_ANSWER_CHARS)
                raise
            finally:
                _keep_requests(messages, said)
        return self.agent.form.read(to_json(ran.output).decode())

    @property
    def _settings(self) -> ModelSettings:
        given = self.agent.player.settings
        longest = self.meter.limits.answer_tokens
        return {**given, "max_tokens": min(given.get("max_tokens", longest), longest)}

    def _growing(self) -> GrowingAnswer | None:
        find = self.agent.find_text
        if self.on_text is None or find is None or not _can_stream(self.agent.player.model):
            return None
        return GrowingAnswer(find, self.on_text)

    def _handler(self) -> Callable[..., Any] | None:
        if self._growing() is None:
            return None

        async def hear(_context: RunContext[None], events: AsyncIterable[AgentStreamEvent]) -> None:
            heard = self._growing()
            if heard is None:
                return
            async for event in events:
                if isinstance(event, PartStartEvent | PartDeltaEvent):
                    heard.hear(event)
            heard.flush()

        return hear


def _keep_requests(messages: list[ModelMessage], said: list[ModelMessage]) -> None:
    """Keep everything up to the last request: the answer that follows it is read, or repaired."""
    last = max((at for at, each in enumerate(said) if isinstance(each, ModelRequest)), default=-1)
    if last >= 0:
        messages[:] = said[: last + 1]


def _with_repair(messages: list[ModelMessage], refused: OutputInvalid) -> list[ModelMessage]:
    """The conversation with what is wrong appended to its last request."""
    # The refused answer is not shown: small models would write it once more.
    text = _REPAIR.format(problems=disarm(str(refused)))
    *before, last = messages
    if not isinstance(last, ModelRequest):
        return [*messages, ModelRequest(parts=[UserPromptPart(text)])]
    *parts, end = last.parts
    if isinstance(end, UserPromptPart) and isinstance(end.content, str):
        parts.append(replace(end, content=end.content + text))
    else:
        parts += [end, UserPromptPart(text.lstrip())]
    return [*before, replace(last, parts=parts)]


def _can_stream(model: Model) -> bool:
    """Whether a model can be heard while it answers; a function may be made to answer at once."""
    while isinstance(model, WrapperModel):
        model = model.wrapped
    return not isinstance(model, FunctionModel) or model.stream_function is not None


__all__ = ["CallLimits", "Meter", "StructuredAgent", "run_structured_agent", "structured_agent"]
