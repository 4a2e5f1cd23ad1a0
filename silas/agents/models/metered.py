"""A model that tells what each of its answers used, whoever asked and whatever becomes of it.

It stands below retries and fallback, so each answer is told once, with the model that gave it and
at that model's price. What was cut off, and a server that does not say what it used, is measured by
the text; its price is then not known.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pydantic_ai.messages import BinaryContent, ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext

from silas.agents.models.choices import ModelChoice, Role
from silas.agents.models.modes import UNKNOWN, cost_of, use_reported_cost
from silas.agents.models.providers import is_local
from silas.stream.usage import ModelUse, UseListener

CHARS_PER_TOKEN = 3.5
_TOKENS_PER_IMAGE = 1_600
"""About what providers charge for one of common size."""


class MeteredModel(WrapperModel):
    """Tells `told` about every answer of the wrapped model."""

    def __init__(
        self, wrapped: Model, choice: ModelChoice, *, role: Role, told: UseListener
    ) -> None:
        super().__init__(wrapped)
        self._choice = choice
        self._role = role
        self._told = told

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        response = await self.wrapped.request(messages, model_settings, model_request_parameters)
        self._tell(messages, response)
        return response

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        async with self.wrapped.request_stream(
            messages, model_settings, model_request_parameters, run_context
        ) as stream:
            try:
                yield stream
            finally:
                # Also if the owner has stopped it: what has come so far was used.
                self._tell(messages, stream.get())

    def _tell(self, messages: Sequence[ModelMessage], response: ModelResponse) -> None:
        usage = use_reported_cost(response).usage
        measured = usage.has_values() and response.state == "complete"
        if not measured and not usage.has_values() and not response.parts:
            return  # it failed before anything came
        read, written = usage.input_tokens, usage.output_tokens
        cost = cost_of(self._choice, usage)
        if not measured:
            read = max(read, estimated_tokens(*messages))
            written = max(written, estimated_tokens(response))
            cost = cost if usage.cost is not None or is_local(self._choice) else UNKNOWN
        self._told(
            ModelUse(
                role=self._role.value,
                model=self._choice.name,
                input_tokens=read,
                output_tokens=written,
                cost_usd=cost.usd if cost.known else None,
            )
        )


def estimated_tokens(*messages: ModelMessage) -> int:
    """Roughly how many tokens these messages are."""
    parts = [part for each in messages for part in each.parts]
    said = [getattr(part, "content", None) or getattr(part, "args", None) or "" for part in parts]
    pieces = [piece for each in said for piece in (each if isinstance(each, list) else [each])]
    images = sum(isinstance(piece, BinaryContent) for piece in pieces)
    texts = sum(len(str(piece)) for piece in pieces if not isinstance(piece, BinaryContent))
    return int(texts / CHARS_PER_TOKEN) + images * _TOKENS_PER_IMAGE
