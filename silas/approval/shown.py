"""What can be shown to a person whole, in exactly one way: only that can be approved."""

from silas.approval.errors import DecisionRefused
from silas.kernel import CanonicalError, canonical_bytes, strict_loads

MAX_SHOWN_BYTES = 1_000_000


def shown_whole(payload: bytes) -> bytes:
    """The payload, if a person can be shown all of it in exactly one way."""
    if len(payload) > MAX_SHOWN_BYTES:
        raise DecisionRefused(
            f"This is too large to be shown whole ({len(payload)} bytes), so it cannot be approved."
            " Split it into smaller plans."
        )
    try:
        if canonical_bytes(strict_loads(payload)) == payload:
            return payload
    except CanonicalError as error:
        raise DecisionRefused(f"What was to be approved has no canonical form: {error}.") from error
    raise DecisionRefused("What was to be approved is not in its canonical form.")
