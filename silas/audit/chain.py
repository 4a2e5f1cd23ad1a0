"""The hash chain: every hash covers an entry's bytes and, through the hash before it, all the past.

1. The body of an entry is the canonical JSON of `at`, `data`, `entry_id`, `event` and `seq`. Keys
   are sorted, so `seq` comes last and can be filled in when the entry gets its place.
2. hash(n) = sha256(hash(n - 1) as 32 bytes || body(n) as UTF-8), kept as 64 small hex digits.
3. hash(0), where nothing has been written yet, is the hash of a fixed text that names this format.
4. To verify, the stored bytes are hashed. Nothing is ever parsed and written again for it.
"""

import hashlib
import re
from dataclasses import dataclass

GENESIS = hashlib.sha256(b"silas-audit-chain-v1").hexdigest()

_SEQ_AT_THE_END = re.compile(rb',"seq":([1-9][0-9]{0,18})}\Z')


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the chain: the number of an entry, and the hash there."""

    seq: int
    hash: str


START = Position(0, GENESIS)


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry as it lies in the table or in a file."""

    seq: int
    body: str
    hash: str


def link(previous: str, body: str) -> str:
    """The hash of an entry that follows an entry with the hash `previous`."""
    return hashlib.sha256(bytes.fromhex(previous) + body.encode()).hexdigest()


def number_in(body: bytes) -> int | None:
    """The number that an entry gives itself, or None if it has lost its end."""
    match = _SEQ_AT_THE_END.search(body)
    return int(match[1]) if match else None
