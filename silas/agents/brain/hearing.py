"""What the offline brain hears: the request in a prompt, and what its tools have answered."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    SystemPromptPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo

from silas.agents.framing import disarm

_REQUEST = re.compile(r"<request>\n(?P<text>.*?)\n</request>", re.DOTALL)

_FRAMED = re.compile(r"<external\b[^<>]*>(?P<text>.*)</external>", re.DOTALL)
_FAILED = re.compile(r"(?:<external[^>]*>)?\s*(?:Did not work: |Refused: |There is no tool )")
"""How the toolset chain begins the answer of a call that did not work."""


@dataclass(frozen=True)
class ToolAnswer:
    """What a tool answered."""

    tool: str
    text: str
    success: bool

    @property
    def plain(self) -> str:
        """The text without the frame that says to a model where it came from."""
        framed = _FRAMED.fullmatch(self.text)
        return framed["text"] if framed else self.text


@dataclass(frozen=True)
class Heard:
    """One request to the brain, in its own words."""

    prompt: str
    """Everything that it was told."""
    request: str
    """What a person asked for."""
    answers: tuple[ToolAnswer, ...]
    tools: frozenset[str]
    wanted: frozenset[str]
    """The fields of the answer that is wanted."""
    output_tool: str | None


def hear(messages: Sequence[ModelMessage], info: AgentInfo) -> Heard:
    """Read a prompt of ours."""
    parts = [part for each in messages if isinstance(each, ModelRequest) for part in each.parts]
    told = [str(part.content) for part in parts if isinstance(part, SystemPromptPart)]
    asked = [_as_text(part.content) for part in parts if isinstance(part, UserPromptPart)]
    prompt = "\n\n".join([info.instructions or "", *told, *asked])
    requests = _REQUEST.findall("\n\n".join(asked))
    output = info.output_tools[0] if info.output_tools else None
    schema = output.parameters_json_schema if output else _native_schema(info)
    return Heard(
        prompt=prompt,
        request=_restored(requests[-1]) if requests else "\n\n".join(asked),
        answers=tuple(_answer(part) for part in parts if isinstance(part, ToolReturnPart)),
        tools=frozenset(tool.name for tool in info.function_tools),
        wanted=frozenset(schema.get("properties", {})),
        output_tool=output.name if output else None,
    )


def _native_schema(info: AgentInfo) -> dict[str, Any]:
    wanted = info.model_request_parameters.output_object
    return wanted.json_schema if wanted else {}


def _restored(text: str) -> str:
    """The text before it was made harmless for models, if there is one; its letters count here."""
    candidate = text.replace("&lt;", "<").replace("&#91;", "[")
    return candidate if disarm(candidate) == text else text


def _as_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n\n".join(part for part in content if isinstance(part, str))


def _answer(part: ToolReturnPart) -> ToolAnswer:
    content = part.content
    text = content if isinstance(content, str) else json.dumps(content, default=str)
    return ToolAnswer(part.tool_name, text, _FAILED.match(text) is None)
