"""What every record has that other devices will see one day."""

from typing import Any

from pydantic import Field

from silas.kernel.models import Data, UtcDatetime

JsonMap = dict[str, Any]
VectorClock = dict[str, int]
"""How many writes of each host this record knows of."""

REGISTERED_EXTENSIONS: frozenset[str] = frozenset()
"""The namespaced keys that an `extension` may have. A key that is not here is refused."""


def check_extension(extension: JsonMap) -> JsonMap:
    """Refuse whatever was not registered: an untyped field must not become a schema."""
    if extension and (unknown := sorted(extension.keys() - REGISTERED_EXTENSIONS)):
        raise ValueError(f"not a registered extension: {', '.join(unknown)}")
    return extension


class Synced(Data):
    """A record that converges across devices: it has a vector clock, and it dies as a tombstone.

    The store sets both: a writer hands in the record that it has read, changed.
    """

    vector_clock: VectorClock = Field(default_factory=dict)
    deleted_at: UtcDatetime | None = None
