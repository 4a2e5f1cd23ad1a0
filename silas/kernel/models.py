"""The base of every record: frozen, strict about unknown fields, UTC moments only."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, PlainSerializer

from silas.kernel.clock import format_timestamp


class Data(BaseModel):
    """Frozen data without I/O. A change makes a new value."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


def _in_utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)


UtcDatetime = Annotated[
    AwareDatetime,
    AfterValidator(_in_utc),
    PlainSerializer(format_timestamp, return_type=str, when_used="json"),
]
"""An aware moment, kept in UTC and written to JSON in the one canonical spelling."""
