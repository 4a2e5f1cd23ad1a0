"""A worker for models that cannot call tools: every answer is one step, held to a schema.

A server that holds its model to a schema lets it call no tool, and a small model without a schema
seldom calls one in the right form. So a guided model (`silas.agents.models.modes.is_guided`) is
asked for one step at a time: `{"tool": NAME, "arguments": {…}}`, where the schema knows the names
and the arguments of the tools that there are, and `done` is the last step.

1. A step is the call that it names. It takes the way of every call: the chain of toolsets, with its
   gates. Nothing here decides what is allowed.
2. What the model has said and what came of it is told back in words, as a conversation.
3. The same step twice in a row is taken for the end: a small model that has nothing more to do says
   its last step again. Checks from outside decide what that was worth.
4. A step that was made before, with nothing changed since, would give what it gave then. The model
   is asked for another one, and that tool is not among those that it can choose. Nor is a tool that
   has failed twice in a row: who cannot edit a passage writes the file.
5. What has only one meaning is put right before the call is looked at (`mended`): a whole command
   line in the place of a program, and a program's text in the place of its path.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

from pydantic import ValidationError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_core import to_json

from silas.agents.outputs import json_in
from silas.kernel.models import Data
from silas.tools.declaration import ToolOffer

DONE = "done"
_LONGEST_STEP_TOKENS = 4_000
_FAILED = ("Did not work:", "Refused:")
_OBSERVING = frozenset({"read_file", "grep", "glob"})
_TWICE = 2
_NOTHING_MORE = "There was nothing more to do."


class WorkerStep(Data):
    """One step in words."""

    tool: str
    arguments: dict[str, Any]


class StepModel(WrapperModel):
    """A model that is asked for steps, and whose steps are calls."""

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        given, made = model_request_parameters, MadeSteps.of(messages)
        tools = [each for each in given.function_tools if each.name not in made.failing]
        response = await self._ask(messages, model_settings, given, tools)
        idle = made.gave_already(response)
        if idle is not None:
            used, rest = response.usage, [each for each in tools if each.name != idle]
            response = await self._ask(messages, model_settings, given, rest)
            response = replace(response, usage=response.usage + used)
        return with_step(response, messages, frozenset(tool.name for tool in tools))

    async def _ask(
        self,
        messages: Sequence[ModelMessage],
        model_settings: ModelSettings | None,
        given: ModelRequestParameters,
        tools: Sequence[ToolDefinition],
    ) -> ModelResponse:
        asked = replace(
            given,
            function_tools=[],
            output_mode="native",
            output_object=OutputObjectDefinition(json_schema=step_schema(tools), name="Step"),
        )
        settings: ModelSettings = {"max_tokens": _LONGEST_STEP_TOKENS, **(model_settings or {})}
        return await self.wrapped.request(in_words(messages), settings, asked)


class _Made(NamedTuple):
    step: WorkerStep
    worked: bool


@dataclass(frozen=True)
class MadeSteps:
    """The steps of a run so far, in order."""

    steps: Sequence[_Made]

    @classmethod
    def of(cls, messages: Sequence[ModelMessage]) -> Self:
        """Read from the conversation, where each call has its result."""
        results = {
            part.tool_call_id: not part.model_response_str().startswith(_FAILED)
            for each in messages
            for part in each.parts
            if isinstance(part, ToolReturnPart)
        }
        calls = [
            call for each in messages if isinstance(each, ModelResponse) for call in each.tool_calls
        ]
        return cls(
            [
                _Made(
                    WorkerStep(tool=each.tool_name, arguments=each.args_as_dict()),
                    results[each.tool_call_id],
                )
                for each in calls
                if each.tool_call_id in results
            ]
        )

    @property
    def failing(self) -> frozenset[str]:
        """The tools that have failed at least twice since they worked for the last time."""
        failures: dict[str, int] = {}
        for step, worked in self.steps:
            failures[step.tool] = 0 if worked else failures.get(step.tool, 0) + 1
        return frozenset(name for name, times in failures.items() if times >= _TWICE)

    def gave_already(self, response: ModelResponse) -> str | None:
        """The tool of a step whose result is known; None if it is the last step or a new one."""
        step = None if response.tool_calls else _read(response.text or "")
        if step is None or (self.steps and self.steps[-1] == _Made(step, True)):
            return None
        for made, worked in reversed(self.steps):
            if made == step:
                return step.tool
            if worked and made.tool not in _OBSERVING:
                return None
        return None


def step_schema(tools: Sequence[ToolDefinition]) -> dict[str, Any]:
    """Any of these tools with its arguments, or the end."""
    last = {"type": "object", "properties": {"summary": {"type": "string"}}}
    steps = [(tool.name, tool.parameters_json_schema) for tool in tools]
    steps.append((DONE, {**last, "required": ["summary"], "additionalProperties": False}))
    return {
        "type": "object",
        "anyOf": [
            {
                "type": "object",
                "properties": {"tool": {"const": name}, "arguments": arguments},
                "required": ["tool", "arguments"],
                "additionalProperties": False,
            }
            for name, arguments in steps
        ],
    }


def tool_lines(offers: Sequence[ToolOffer]) -> str:
    """The tools as a worker reads them."""
    return "\n".join(f"- {each.name}: {each.description}" for each in offers)


def with_step(
    response: ModelResponse, before: Sequence[ModelMessage], tools: frozenset[str]
) -> ModelResponse:
    """The response with a call in the place of its step; words that are none stay words."""
    if response.tool_calls or (step := _read(response.text or "")) is None:
        return response
    if step.tool == DONE:
        return _saying(response, step.arguments.get("summary") or _NOTHING_MORE)
    if step.tool not in tools:
        return response
    if _was_just_made(before, step):
        return _saying(response, _NOTHING_MORE)
    return replace(response, parts=[ToolCallPart(step.tool, step.arguments)])


def mended(tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as they can only have been meant (rule 5)."""
    given = dict(arguments)
    argv, script = given.get("argv"), given.get("script")
    if tool == "shell_exec" and isinstance(argv, list) and len(argv) == 1:
        given["argv"] = _words(str(argv[0])) or argv
    if tool == "python_exec" and isinstance(script, str) and not given.get("code"):
        is_text = "\n" in script or "(" in script or " = " in script
        given = {**given, "script": None, "code": script} if is_text else given
    return given


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:
        return []


def _saying(response: ModelResponse, summary: Any) -> ModelResponse:
    said = to_json({"summary": str(summary)}).decode()
    return replace(response, parts=[TextPart(said)])


def _read(text: str) -> WorkerStep | None:
    try:
        step = WorkerStep.model_validate_json(json_in(text))
    except ValidationError:
        return None
    return WorkerStep(tool=step.tool, arguments=mended(step.tool, step.arguments))


def _was_just_made(before: Sequence[ModelMessage], step: WorkerStep) -> bool:
    last = next((each for each in reversed(before) if isinstance(each, ModelResponse)), None)
    calls = last.tool_calls if last else []
    return any(
        (each.tool_name, each.args_as_dict()) == (step.tool, step.arguments) for each in calls
    )


def in_words(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """The conversation without calls: each is the step that it was, and its result is told."""
    return [
        replace(each, parts=list(_told(each.parts)))
        if isinstance(each, ModelRequest)
        else replace(each, parts=_said(each))
        for each in messages
    ]


def _told(parts: Sequence[ModelRequestPart]) -> Iterator[ModelRequestPart]:
    for part in parts:
        if isinstance(part, ToolReturnPart):
            yield UserPromptPart(f"{part.tool_name}: {part.model_response_str()}")
        elif isinstance(part, RetryPromptPart):
            yield UserPromptPart(part.model_response())
        else:
            yield part


def _said(response: ModelResponse) -> list[TextPart]:
    steps = [
        to_json({"tool": each.tool_name, "arguments": each.args_as_dict()}).decode()
        for each in response.tool_calls
    ]
    return [TextPart("\n".join(steps) or response.text or "")]
