"""Models and tools under the control of a test: no test needs a network to have a conversation."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.settings import ModelSettings

from silas.agents.models.choices import OutputMode, Role
from silas.agents.models.factory import RoleModel
from silas.agents.outputs import OUTPUT_TOOL
from silas.kernel import TaintLevel
from silas.tools.declaration import ToolOffer
from silas.tools.execution import ModelView

Says = str | Mapping[str, Any] | ModelResponse | BaseException
"""A text, an answer as data, a whole response, or something to raise."""


def plays(
    model: Model, *, role: Role = Role.PROXY, mode: OutputMode = OutputMode.NATIVE
) -> RoleModel:
    """A model in a role, for nothing."""
    return RoleModel(
        role=role, model=model, settings=ModelSettings(), output_mode=mode, name="scripted"
    )


@dataclass
class Script:
    """A model that says what it was given, in order; the last one again and again.

    Remembers every request: `asked` holds the messages, `told` what else the model was told.
    """

    says: Sequence[Says]
    piece: int = 7
    """How many characters a stream brings at once."""
    asked: list[list[ModelMessage]] = field(default_factory=list)
    told: list[AgentInfo] = field(default_factory=list)

    def model(self, *, streams: bool = True) -> FunctionModel:
        """The model; without `streams` it answers at once or not at all."""
        if streams:
            return FunctionModel(self._answer, stream_function=self._stream)
        return FunctionModel(self._answer)

    def player(
        self,
        *,
        role: Role = Role.PROXY,
        mode: OutputMode = OutputMode.NATIVE,
        streams: bool = True,
    ) -> RoleModel:
        """The model in a role."""
        return plays(self.model(streams=streams), role=role, mode=mode)

    async def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        says = self._next(messages, info)
        if isinstance(says, ModelResponse):
            return says
        if info.output_tools:
            return ModelResponse(parts=[ToolCallPart(OUTPUT_TOOL, says)])
        return ModelResponse(parts=[TextPart(says)])

    async def _stream(
        self, messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | DeltaToolCalls]:
        says = self._next(messages, info)
        if isinstance(says, ModelResponse):
            for at, call in enumerate(says.tool_calls):
                yield {at: DeltaToolCall(call.tool_name, call.args_as_json_str())}
            return
        for start in range(0, len(says), self.piece):
            text = says[start : start + self.piece]
            if info.output_tools:
                yield {0: DeltaToolCall(OUTPUT_TOOL if start == 0 else None, text)}
            else:
                yield text

    def _next(self, messages: list[ModelMessage], info: AgentInfo) -> str | ModelResponse:
        says = self.says[min(len(self.asked), len(self.says) - 1)]
        self.asked.append(list(messages))
        self.told.append(info)
        if isinstance(says, BaseException):
            raise says
        if isinstance(says, str | ModelResponse):
            return says
        return json.dumps(says)


def calls(tool: str, **args: Any) -> ModelResponse:
    """A response that calls a tool."""
    return ModelResponse(parts=[ToolCallPart(tool, args)])


@dataclass
class FakeTools:
    """`ToolCaller` with tools that answer as they are told."""

    answers: Mapping[str, ModelView] = field(default_factory=dict)
    before: Callable[[str], Awaitable[None]] | None = None
    called: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    reviewer = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.answers)

    @property
    def offers(self) -> tuple[ToolOffer, ...]:
        return tuple(
            ToolOffer(
                name=name,
                description=f"The tool {name}.",
                parameters={"type": "object", "properties": {}},
                contained=True,
                changes_state=False,
            )
            for name in self.answers
        )

    async def call(self, tool: str, args: Mapping[str, Any]) -> ModelView:
        self.called.append((tool, dict(args)))
        if self.before is not None:
            await self.before(tool)
        return self.answers[tool]


def result(text: str, taint: TaintLevel = TaintLevel.EXTERNAL) -> ModelView:
    """What a tool gave."""
    return ModelView(success=True, return_value=text, content=[], error=None, taint=taint)
