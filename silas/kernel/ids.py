"""Sortable ids: `prefix_` and 26 characters whose text order is the order of creation.

The layout is ULID's: 48 bits of milliseconds, 80 random bits, Crockford base 32. Ids made by one
factory are strictly increasing, also within one millisecond and when the clock is set back.
"""

import os
import threading
from collections.abc import Callable
from functools import lru_cache

from silas.kernel.clock import Clock

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_RANDOM_BITS = 80


class IdFactory:
    """Makes ids from a clock and a source of randomness; safe to share between threads."""

    def __init__(self, clock: Clock, *, entropy: Callable[[int], bytes] = os.urandom) -> None:
        self._clock = clock
        self._entropy = entropy
        self._lock = threading.Lock()
        self._last = -1

    def new(self, prefix: str) -> str:
        """A fresh id such as `tok_01jc…`; the prefix says what it names."""
        milliseconds = int(self._clock.now().timestamp() * 1000)
        with self._lock:
            # In the same millisecond, or after the clock was set back, count up from the last id.
            if milliseconds <= self._last >> _RANDOM_BITS:
                self._last += 1
            else:
                chance = int.from_bytes(self._entropy(_RANDOM_BITS // 8))
                self._last = (milliseconds << _RANDOM_BITS) | chance
            return f"{prefix}_{_encode(self._last)}"


def _encode(number: int) -> str:
    # Ids are made for every entry of the audit log. Within a millisecond they begin alike, so only
    # the last letters are worked out anew.
    low = number & 0xFF_FFFF_FFFF
    return (
        f"{_stem(number >> 40)}{_PAIRS[low >> 30]}{_PAIRS[low >> 20 & 1023]}"
        f"{_PAIRS[low >> 10 & 1023]}{_PAIRS[low & 1023]}"
    )


@lru_cache(maxsize=16)
def _stem(high: int) -> str:
    return "".join([_PAIRS[high >> shift & 1023] for shift in range(80, -1, -10)])
