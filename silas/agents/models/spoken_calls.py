"""Calls that a small model says instead of making them.

Many local models write `{"name": "write_file", "arguments": {…}}` as their text, perhaps in tags or
a fence, and their server does not notice. If that is all they said, and the tool exists, it is the
call that they meant. It then takes the way of every call: the chain of toolsets, with its gates.
"""

import re
from dataclasses import replace
from typing import Any

from pydantic import ValidationError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from silas.kernel.models import Data

_WRAPPING = re.compile(r"\A\s*(?:<\w+>|```\w*)\s*(?P<inside>.*?)\s*(?:</\w+>|```)\s*\Z", re.DOTALL)
_LONGEST = 200_000


class _Spoken(Data):
    """A call in words."""

    name: str
    arguments: dict[str, Any]


class SpokenCallsModel(WrapperModel):
    """A model whose words are taken for the calls that they are."""

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        response = await self.wrapped.request(messages, model_settings, model_request_parameters)
        names = frozenset(tool.name for tool in model_request_parameters.function_tools)
        return with_spoken_calls(response, names)


def with_spoken_calls(response: ModelResponse, tools: frozenset[str]) -> ModelResponse:
    """The response with a call in the place of words that are nothing but one."""
    if response.tool_calls or not (said := response.text):
        return response
    spoken = _read(said)
    if spoken is None or spoken.name not in tools:
        return response
    others = [part for part in response.parts if not isinstance(part, TextPart)]
    return replace(response, parts=[*others, ToolCallPart(spoken.name, spoken.arguments)])


def _read(text: str) -> _Spoken | None:
    if len(text) > _LONGEST:
        return None
    wrapped = _WRAPPING.match(text)
    try:
        return _Spoken.model_validate_json(wrapped["inside"] if wrapped else text.strip())
    except ValidationError:
        return None
