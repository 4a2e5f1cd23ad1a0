"""The form in which an answer is wanted, and how an answer is read.

A form knows the JSON schema that a model is held to, in each of the three modes, and turns what
came back into data, or into a list of problems that the model can do something about.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_ai import NativeOutput, PromptedOutput, StructuredDict, ToolOutput
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.tools import ToolDefinition
from pydantic_core import from_json

from silas.agents.models.choices import OutputMode
from silas.kernel.models import dotted, problems_in

T = TypeVar("T")

OUTPUT_TOOL = "final_result"
"""The tool whose arguments are the answer, for models that answer by calling one."""

MAX_ANSWER_CHARS = 200_000
"""A longer answer is cut off, unread: no plan and no message is of that size."""

_MOST_PROBLEMS = 8
_LONGEST_PROBLEM = 300
_FENCED = re.compile(r"```(?:json)?\s*\n(?P<inside>\{.*\})\s*\n?```", re.DOTALL)


class OutputInvalid(Exception):
    """The answer is not in the form that was asked for; the text says what is wrong with it."""


class OutputForm(Generic[T]):
    """What an answer must look like: a type, its JSON schema, and rules that a schema cannot say.

    `mend` may put right what has only one meaning, before the answer is validated. `check` may give
    it its last touch afterwards, or refuse it with a `ValueError` for the model to read.
    """

    def __init__(
        self,
        output: type[T],
        mode: OutputMode,
        *,
        schema: dict[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
        mend: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        check: Callable[[T], T] | None = None,
    ) -> None:
        self._adapter = TypeAdapter(output)
        self._context = dict(context or {})
        self._mend = mend
        self._check = check
        self._mode = mode
        self._name = output.__name__
        # Only a shape to the library: the answer is validated here, once, for all ways of asking.
        self._shape = StructuredDict(schema or self._adapter.json_schema(), name=self._name)
        self._schema = TypeAdapter(self._shape).json_schema()
        self._described = self._schema.pop("description", None)

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of an answer, as a model is told it."""
        return self._schema

    @property
    def spec(self) -> Any:
        """The output type for an `Agent`."""
        match self._mode:
            case OutputMode.NATIVE:
                return NativeOutput(self._shape, name=self._name)
            case OutputMode.TOOL:
                return ToolOutput(self._shape, name=OUTPUT_TOOL)
            case OutputMode.PROMPTED:
                return PromptedOutput(self._shape, name=self._name)

    def parameters(self, tools: list[ToolDefinition]) -> ModelRequestParameters:
        """The same form for one request without an `Agent`."""
        if self._mode is OutputMode.TOOL:
            tool = ToolDefinition(
                name=OUTPUT_TOOL,
                description=self._described,
                parameters_json_schema=self._schema,
                kind="output",
            )
            return ModelRequestParameters(
                function_tools=tools,
                output_mode="tool",
                output_tools=[tool],
                allow_text_output=False,
            )
        return ModelRequestParameters(
            function_tools=tools,
            output_mode="native" if self._mode is OutputMode.NATIVE else "prompted",
            output_object=OutputObjectDefinition(
                json_schema=self._schema, name=self._name, description=self._described
            ),
            allow_text_output=True,
        )

    def read_response(self, response: ModelResponse) -> T:
        """The answer in a response; raises `OutputInvalid`."""
        if wants_tools(response):
            raise OutputInvalid("- there are no tools here: answer with what you know")
        return self.read(answer_text(response))

    def read(self, text: str) -> T:
        """The answer in a text; raises `OutputInvalid`."""
        if len(text) > MAX_ANSWER_CHARS:
            raise OutputInvalid(f"- the answer is longer than {MAX_ANSWER_CHARS} characters")
        if not text.strip():
            raise OutputInvalid("- the answer is empty")
        try:
            value = self._validated(json_in(text))
            return value if self._check is None else self._check(value)
        except ValidationError as error:
            raise OutputInvalid(_summary(error)) from error
        except ValueError as error:
            raise OutputInvalid(f"- {error}") from error

    def _validated(self, text: str) -> T:
        if self._mend is None:
            return self._adapter.validate_json(text, context=self._context)
        value = from_json(text, allow_inf_nan=False)
        mended = self._mend(value) if isinstance(value, dict) else value
        return self._adapter.validate_python(mended, context=self._context)


def answer_text(response: ModelResponse) -> str:
    """What a response says: the arguments of the output tool, or else its text."""
    for part in response.parts:
        if isinstance(part, ToolCallPart) and part.tool_name == OUTPUT_TOOL:
            return part.args_as_json_str()
    return response.text or ""


def wants_tools(response: ModelResponse) -> bool:
    """Whether a response asks for tools instead of answering."""
    calls = [call.tool_name for call in response.tool_calls]
    return bool(calls) and OUTPUT_TOOL not in calls


def json_in(text: str) -> str:
    """The JSON of an answer that may stand in a fence or between sentences."""
    if fenced := _FENCED.search(text):
        return fenced["inside"]
    start, end = text.find("{"), text.rfind("}")
    return text[start : end + 1] if 0 <= start < end else text


def _summary(error: ValidationError) -> str:
    problems = problems_in(error)
    lines = [f"- {dotted(path)}: {message}"[:_LONGEST_PROBLEM] for path, message in problems]
    return "\n".join(lines[:_MOST_PROBLEMS])
