"""The base of every record: frozen, strict about unknown fields, aware datetimes only."""

from pydantic import BaseModel, ConfigDict


class Data(BaseModel):
    """Frozen data without I/O. A change makes a new value."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_bytes="base64")
