"""What came of a change, and how it is kept for whoever asks for the same operation again."""

from typing import Any, Literal

from pydantic import Field, TypeAdapter

from silas.journal.models import AnyRecord, Record
from silas.kernel import canonical_bytes
from silas.kernel.models import Data


class Outcome(Data):
    """What an operation did."""

    operation_id: str | None = None
    records: tuple[AnyRecord, ...] = ()
    """What was changed, as it is now."""
    changed_entity_ids: tuple[str, ...] = ()
    changed_tokens: tuple[str, ...] = ()
    """The keys of the typed tokens that were told."""
    logical_change_key: str | None = None
    payload: dict[str, Any] = Field(default_factory=dict)
    preview: bool = False
    """Nothing was changed: this is what would be."""


class _Kept(Data):
    form: Literal["outcome", "record", "records", "plain"]
    outcome: Outcome | None = None
    records: tuple[AnyRecord, ...] = ()
    plain: Any = None


_KEPT = TypeAdapter(_Kept)


def keep(result: Any) -> str:
    """The result as text. Records, lists of them, outcomes and plain JSON can be kept."""
    if isinstance(result, Outcome):
        kept: dict[str, Any] = {"form": "outcome", "outcome": result.model_dump(mode="json")}
    elif isinstance(result, Record):
        kept = {"form": "record", "records": [result.model_dump(mode="json")]}
    elif isinstance(result, tuple) and result and all(isinstance(x, Record) for x in result):
        kept = {"form": "records", "records": [each.model_dump(mode="json") for each in result]}
    else:
        kept = {"form": "plain", "plain": result}
    return canonical_bytes(kept).decode()


def kept_result(text: str) -> Any:
    """What `keep` was given."""
    kept = _KEPT.validate_json(text)
    if kept.form == "outcome":
        return kept.outcome
    if kept.form == "record":
        return kept.records[0]
    return kept.records if kept.form == "records" else kept.plain
