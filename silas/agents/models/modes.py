"""Which structured-output mode a model is used with, and what was found out about it.

1. What the owner set counts.
2. Else what `silas models test` found out, which is remembered in a file of the data directory.
3. Else what is known of the kind: servers on one's own machine are held to a native schema, since
   small models follow nothing else; of all others, the library's profile says what is best.

A model of the third kind that nobody has seen call a tool is guided (`is_guided`): it is asked for
less at a time, and never for a call that its server's schema would forbid.

`cost_of` says what a call cost, from the library's price data; what is not known is unknown.
"""

import re
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

from genai_prices import calc_price
from pydantic import Field, ValidationError
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model
from pydantic_ai.output import NativeOutput, PromptedOutput, ToolOutput
from pydantic_ai.usage import RequestUsage, RunUsage

from silas.agents.models.choices import ModelChoice, OutputMode
from silas.agents.models.providers import is_local
from silas.kernel.models import Data, UtcDatetime
from silas.storage.errors import translated
from silas.storage.files import write_private_file

T = TypeVar("T")
_LARGEST_FILE = 1_000_000


class KnownModes(Data):
    """What a test found out about one model at one address."""

    working: tuple[OutputMode, ...]
    tested_at: UtcDatetime


class ModeRecord(Data):
    """The file: model and address, and what works there."""

    models: dict[str, KnownModes] = Field(default_factory=dict)


class ModeMemory:
    """What tests found out, kept in a small file. A file that cannot be read is as good as none."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def recall(self, choice: ModelChoice) -> KnownModes | None:
        """What is known about this model at this address."""
        return self._read().models.get(_key(choice))

    def remember(self, choice: ModelChoice, known: KnownModes) -> None:
        """Keep what a test found out."""
        if self._path is None:
            return
        record = ModeRecord(models={**self._read().models, _key(choice): known})
        with translated(str(self._path)):
            write_private_file(self._path, record.model_dump_json(indent=1).encode())

    def _read(self) -> ModeRecord:
        if self._path is None:
            return ModeRecord()
        try:
            if self._path.stat().st_size > _LARGEST_FILE:
                return ModeRecord()
            return ModeRecord.model_validate_json(self._path.read_bytes())
        except (OSError, ValidationError):
            return ModeRecord()


def _key(choice: ModelChoice) -> str:
    return f"{choice.name} {choice.base_url or ''}".strip()


def mode_for(choice: ModelChoice, model: Model, memory: ModeMemory) -> OutputMode:
    """The mode in which this model is asked for structured answers."""
    if choice.output_mode is not None:
        return choice.output_mode
    known = memory.recall(choice)
    if known and known.working:
        return known.working[0]
    can_native = bool(model.profile.get("supports_json_schema_output", False))
    if can_native and is_local(choice):
        return OutputMode.NATIVE
    return OutputMode(model.profile.get("default_structured_output_mode", "tool"))


def is_guided(choice: ModelChoice, mode: OutputMode, memory: ModeMemory) -> bool:
    """Whether to ask for little at a time: a server here holds it to a schema, and that is all.

    `silas models test` may have seen it call a tool: then it is asked like any other model.
    """
    known = memory.recall(choice)
    calls = known is not None and OutputMode.TOOL in known.working
    return mode is OutputMode.NATIVE and is_local(choice) and not calls


_SEEING = re.compile(
    r"llava|bakllava|moondream|pixtral|minicpm-v|vision|internvl|gemma-?3|mistral-small3\.|"
    r"(?:^|[-_.:/\d])vl(?:$|[-_.:/\d])",
    re.IGNORECASE,
)


def sees_images(choice: ModelChoice, model: Model) -> bool:
    """Whether a model can be given images, as far as the library or its name tells.

    A server on this machine takes whatever model it is given, and most of those only read: there
    the name has to say it.
    """
    if not model.profile.get("supports_image_input", True):
        return False
    return not is_local(choice) or _SEEING.search(choice.model) is not None


def shared_mode(first: OutputMode, second: OutputMode) -> OutputMode:
    """The mode that suits a model and its fallback: any model can read a schema in its prompt."""
    return first if first is second else OutputMode.PROMPTED


def as_output(mode: OutputMode, output_type: type[T]) -> Any:
    """What an agent's `output_type` has to be, so that the model answers in this mode."""
    wrappers: dict[OutputMode, Any] = {
        OutputMode.NATIVE: NativeOutput,
        OutputMode.TOOL: ToolOutput,
        OutputMode.PROMPTED: PromptedOutput,
    }
    return wrappers[mode](output_type)


@dataclass(frozen=True)
class Cost:
    """Dollars, and whether they are known; an unknown cost is 0 and must be shown as unknown."""

    usd: float
    known: bool


UNKNOWN = Cost(usd=0.0, known=False)
FREE = Cost(usd=0.0, known=True)


def cost_of(choice: ModelChoice, usage: RequestUsage | RunUsage) -> Cost:
    """What the provider reported, else what the price list says; one's own machine is free."""
    if usage.cost is not None:
        return Cost(usd=float(usage.cost), known=True)
    if is_local(choice):
        return FREE
    if choice.base_url is not None or usage.unmeasured_requests:
        return UNKNOWN  # somebody else's server has its own prices
    try:
        price = calc_price(usage, choice.model, provider_id=_price_list_of(choice.provider))
    except (LookupError, ValueError):
        return UNKNOWN
    return Cost(usd=float(price.total_price), known=True)


def use_reported_cost(response: ModelResponse) -> ModelResponse:
    """Let what the provider itself says a call cost (as OpenRouter does) be what it cost."""
    reported = (response.provider_details or {}).get("cost")
    if isinstance(reported, int | float):
        response.usage.cost = Decimal(str(reported))
    return response


def _price_list_of(provider: str) -> str:
    """The price list names makers; several of the library's providers belong to one."""
    return "openai" if provider.startswith("openai") else provider
