"""The base of every record: frozen, strict about unknown fields, UTC moments only."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Self

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, PlainSerializer

from silas.kernel.clock import format_timestamp


class Data(BaseModel):
    """Frozen data without I/O. A change makes a new value."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """The same with some fields changed; as everywhere in pydantic, these are not checked."""
        if deep or self.__pydantic_private__ is not None:
            return super().model_copy(update=update, deep=deep)
        # What pydantic does for records without extra fields, at a third of its cost.
        changes = update or {}
        copied = self.__class__.__new__(self.__class__)
        object.__setattr__(copied, "__dict__", {**self.__dict__, **changes})
        object.__setattr__(copied, "__pydantic_extra__", None)
        fields_set = self.__pydantic_fields_set__ | changes.keys()
        object.__setattr__(copied, "__pydantic_fields_set__", fields_set)
        object.__setattr__(copied, "__pydantic_private__", None)
        return copied


def _in_utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)


UtcDatetime = Annotated[
    AwareDatetime,
    AfterValidator(_in_utc),
    PlainSerializer(format_timestamp, return_type=str, when_used="json"),
]
"""An aware moment, kept in UTC and written to JSON in the one canonical spelling."""
