"""Sortable ids: `prefix_` and 26 characters whose text order is the order of creation.

The layout is ULID's: 48 bits of milliseconds, 80 random bits, Crockford base 32. Ids made by one
factory are strictly increasing, also within one millisecond and when the clock is set back.

And how the conversations of one person are named, and what belongs to the person instead. A scope
is the context of one conversation. The first conversation of a person has the person's own id as
its scope, as it was before there were others. Every other one adds its id: `owner#conv_…`. What is
shared by all of them (memory, manner, preferences) goes by `person_of` the scope. No id of a person
or a visitor holds a `#`.
"""

import os
import re
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


FIRST_CONVERSATION = "first"
"""The id of the conversation that was there before there were others."""
CONVERSATION_ID = r"^conv_[A-Za-z0-9_-]{8,60}$"
_MARK = "#"
_MADE = re.compile(CONVERSATION_ID)


def conversation_scope(person: str, conversation: str | None) -> str:
    """The scope of this conversation of a person; without an id, of the first one."""
    if conversation is None or conversation == FIRST_CONVERSATION:
        return person
    return f"{person}{_MARK}{conversation}"


def person_of(scope_id: str) -> str:
    """Whose conversation it is."""
    return scope_id.partition(_MARK)[0]


def conversation_of(scope_id: str) -> str:
    """The id of the conversation."""
    return scope_id.partition(_MARK)[2] or FIRST_CONVERSATION


def is_conversation_id(text: str) -> bool:
    """Whether a conversation can be called so."""
    return text == FIRST_CONVERSATION or _MADE.match(text) is not None
