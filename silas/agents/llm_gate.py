"""The model behind `llm` gates: one question, one short answer, nothing else."""

import re
from collections.abc import Mapping
from typing import Any

from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelRequest
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings

from silas.agents.models.factory import RoleModel
from silas.agents.models.roles import OutputMode
from silas.agents.outputs import MAX_ANSWER_CHARS
from silas.agents.prompting import prompt_file
from silas.kernel import LlmError

_ANSWER_TOKENS = 300
# The whole answer, or nothing: a block that is quoted inside an answer is not the answer.
_FENCED = re.compile(r"\s*```(?:json)?\s*(?P<inside>\{[^`]*\})\s*```\s*")


class LlmGate:
    """`silas.gates.ports.GateModel`: asked directly, since it has no tools and no repair."""

    def __init__(self, player: RoleModel) -> None:
        self._player = player
        self._settings = ModelSettings(
            **{**player.settings, "temperature": 0.0, "max_tokens": _ANSWER_TOKENS}
        )

    async def ask(self, prompt: str, *, schema: Mapping[str, Any]) -> str:
        """The model's answer as text; raises `LlmError` if there is none."""
        request = ModelRequest.user_text_prompt(prompt, instructions=prompt_file("gate"))
        response = await model_request(
            self._player.model,
            [request],
            model_settings=self._settings,
            model_request_parameters=self._parameters(schema),
        )
        text = response.text or ""
        if not text.strip() or len(text) > MAX_ANSWER_CHARS:
            raise LlmError
        fenced = _FENCED.fullmatch(text)
        return fenced["inside"] if fenced else text

    def _parameters(self, schema: Mapping[str, Any]) -> ModelRequestParameters:
        if self._player.output_mode is not OutputMode.NATIVE:
            return ModelRequestParameters()  # the prompt says what the answer looks like
        return ModelRequestParameters(
            output_mode="native",
            output_object=OutputObjectDefinition(json_schema=dict(schema), name="answer"),
        )
