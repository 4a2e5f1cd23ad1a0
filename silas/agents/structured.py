"""One way of asking for a structured answer. Its rules:

1. Exactly one repair: an answer in the wrong form is asked for once more, with what is wrong
   appended to the prompt, within the same limits.
2. If that fails too, or the model cannot be reached, or the budget or the time is used up, the
   answer is the deterministic one of the call (`turn_calls.py`), with a sentence that says why.
   Only a cancellation and failures that are not the model's get out.
3. Every request is counted, also those whose answers were of no use.

A request is made directly, since that costs a fraction of what running an `Agent` does. Only when
the model asks for a tool does an `Agent` take over the conversation: tools are always called
through the whole chain of toolsets.

`GrowingAnswer` is the text of an answer while it is still being written. The answer is JSON that
grows. Its text is `response.message`, and it is shown only once everything
before it says that it will be one: the route is `direct`, and the fields that can be refused are
valid. The schema puts them first, and `response` last.

What was shown is a preview until the call returns: the answer that is returned replaces it. If an
answer is refused after its text was shown, or a call of a tool follows it, the text is taken back.
What comes then is not shown while it grows, so that the two never run together.
"""

import asyncio
import json
from collections.abc import AsyncIterable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from pydantic_ai import Agent, capture_run_messages
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import (
    AgentStreamEvent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset
from pydantic_ai.usage import UsageLimits
from pydantic_core import from_json, to_json

from silas.agents.metering import CallLimits, Meter
from silas.agents.models.errors import ModelAnswerUnreadable, ModelRequestRefused
from silas.agents.models.factory import RoleModel
from silas.agents.models.metered import estimated_tokens
from silas.agents.outputs import (
    MAX_ANSWER_CHARS,
    OUTPUT_TOOL,
    OutputForm,
    OutputInvalid,
    wants_tools,
)
from silas.agents.prompting import disarm
from silas.kernel import LlmError, SilasError, TaintLevel, visible
from silas.stream.models import Answered
from silas.stream.ports import TextListener

Finder = Callable[[dict[str, Any]], str | None]
"""Finds the text in an answer that is not complete yet; None as long as there is none."""

_LEAST_GROWTH = 12
_GROWTH_SHARE = 64


@dataclass
class GrowingAnswer:
    """Hears the events of one response, and tells the listener its text whenever that grows."""

    find: Finder
    listener: TextListener
    _written: list[str] = field(default_factory=list)
    _size: int = 0
    _read: int = 0
    _told: str = ""
    _answering: set[int] = field(default_factory=set)

    def hear(self, event: ModelResponseStreamEvent) -> None:
        """Take one event in; raises `OutputInvalid` when the answer does not end."""
        piece = self._piece(event)
        if not piece:
            return
        self._written.append(piece)
        self._size += len(piece)
        if self._size > MAX_ANSWER_CHARS:
            raise OutputInvalid(f"- the answer is longer than {MAX_ANSWER_CHARS} characters")
        # To read it anew for every piece would take quadratic time.
        if self._size - self._read >= max(_LEAST_GROWTH, self._size // _GROWTH_SHARE):
            self.flush()

    def flush(self) -> None:
        """Tell what has not been told yet."""
        self._read = self._size
        whole = "".join(self._written)
        self._written = [whole]
        try:
            value = from_json(whole[whole.find("{") :], allow_partial="trailing-strings")
        except ValueError:
            return
        text = self.find(value) if isinstance(value, dict) else None
        # A text that does not go on from what was told is another one; that is not told.
        if text and text.startswith(self._told) and len(text) > len(self._told):
            self._told = text
            self.listener(text)

    def _piece(self, event: ModelResponseStreamEvent) -> str:
        if isinstance(event, PartStartEvent):
            return self._start(event)
        if isinstance(event, PartDeltaEvent) and event.index in self._answering:
            match event.delta:
                case TextPartDelta(content_delta=text):
                    return text
                case ToolCallPartDelta(args_delta=str(args)):
                    return args
        return ""

    def _start(self, event: PartStartEvent) -> str:
        match event.part:
            case TextPart(content=text):
                self._answering.add(event.index)
                return text
            case ToolCallPart(tool_name=name, args=args) if name == OUTPUT_TOOL:
                self._answering.add(event.index)
                return args if isinstance(args, str) else ""
        return ""


T = TypeVar("T")

_INVALID = (
    "The model's answer was not in the form that is needed, twice. "
    "Try again, or run `silas models test` to see what the model can do."
)
_LONGEST_REASON = 300
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


def fixed_text(agent: StructuredAgent[T]) -> str:
    """What a model is told in every question to this agent: its instructions, and the form."""
    return f"{agent.instructions}\n{json.dumps(agent.form.schema)}"


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
    prompt: str | Sequence[UserContent],
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
    except OutputInvalid as error:
        sentence = f"{_INVALID} What was wrong: {_in_short(error)}"
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


def _in_short(error: OutputInvalid) -> str:
    """The first problems of an answer, on one line."""
    text = "; ".join(
        line.removeprefix("- ").rstrip(":") for line in str(error).splitlines() if line
    )
    return visible(text[:_LONGEST_REASON], keep_newlines=False)


@dataclass
class _Call(Generic[T]):
    """One call on its way: at most two attempts."""

    agent: StructuredAgent[T]
    meter: Meter
    toolset: AbstractToolset[None] | None
    on_text: TextListener | None
    _has_told: bool = False

    async def answer(self, prompt: str | Sequence[UserContent]) -> T:
        messages: list[ModelMessage] = [
            ModelRequest(parts=[UserPromptPart(prompt)], instructions=self.agent.instructions)
        ]
        try:
            return await self._attempt(messages)
        except OutputInvalid as refused:
            self._take_back()
            return await self._attempt(_with_repair(messages, refused))

    async def _attempt(self, messages: list[ModelMessage]) -> T:
        """One attempt. `messages` grows by what tools said, so that a repair need not ask again."""
        self.meter.check(estimated_tokens(*messages))
        response = await self._request(messages)
        if self.toolset is None or not wants_tools(response):
            return self.agent.form.read_response(response)
        if self._has_told:
            self._take_back()
        return await self._with_tools(messages, response)

    def _take_back(self) -> None:
        """What was shown of one answer must not run together with the next."""
        if self.on_text is not None and self._has_told:
            self.on_text("")
        self.on_text = None

    async def _request(self, messages: list[ModelMessage]) -> ModelResponse:
        parameters, heard = self.agent.form.parameters(await self._tools()), self._growing()
        if heard is not None:
            try:
                return await self._streamed(messages, parameters, heard)
            except (ModelRequestRefused, ModelAnswerUnreadable):
                if self._has_told:
                    raise
                self.on_text = None  # it may be the stream that this server cannot do
        response = await model_request(
            self.agent.player.model,
            messages,
            model_settings=self._settings,
            model_request_parameters=parameters,
        )
        self.meter.add(response, messages)
        return response

    async def _streamed(
        self,
        messages: list[ModelMessage],
        parameters: ModelRequestParameters,
        heard: GrowingAnswer,
    ) -> ModelResponse:
        async with model_request_stream(
            self.agent.player.model,
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
        # The schema that a guided model is held to forbids every call: tools would only be read.
        if self.toolset is None or self.agent.player.guided:
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
        return GrowingAnswer(find, self._tell)

    def _tell(self, text: str) -> None:
        if self.on_text is not None:
            self._has_told = True
            self.on_text(text)

    def _handler(self) -> Callable[..., Any] | None:
        if self._growing() is None:
            return None

        async def hear(_context: RunContext[None], events: AsyncIterable[AgentStreamEvent]) -> None:
            heard = self._growing()
            if heard is None:
                return
            told_before = self._has_told
            async for event in events:
                if isinstance(event, PartStartEvent | PartDeltaEvent):
                    if told_before:
                        self._take_back()
                        return
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
