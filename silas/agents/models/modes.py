"""Which structured-output mode a model is used with, and what was found out about it.

1. What the owner set counts.
2. Else what `silas models test` found out, which is remembered in a file of the data directory.
3. Else what is known of the kind: servers on one's own machine are held to a native schema, since
   small models follow nothing else; of all others, the library's profile says what is best.
"""

from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field, ValidationError
from pydantic_ai.models import Model
from pydantic_ai.output import NativeOutput, PromptedOutput, ToolOutput

from silas.agents.models.choices import ModelChoice
from silas.agents.models.providers import facts_of
from silas.agents.models.roles import OutputMode
from silas.kernel.loopback import is_loopback_url
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


def is_local(choice: ModelChoice) -> bool:
    """Whether the model runs on this machine."""
    facts = facts_of(choice.provider)
    address = choice.base_url or (facts.default_url if facts else None)
    return address is not None and is_loopback_url(address)


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
