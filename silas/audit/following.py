"""The chain followed at full speed, as long as nothing is odd."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from silas.audit.chain import Position
from silas.storage import Row


@dataclass(frozen=True, slots=True)
class Stretch:
    """How far the chain could be followed, and the row that ended it, if one did."""

    position: Position
    before: Position
    last: Row | None
    odd: Row | None


def follow(rows: Iterator[Row], start: Stretch, offset: int, stop: int) -> Stretch:
    """Rule 2 at full speed: follow the chain to `stop`, to its end, or to the first odd row."""
    sha256 = hashlib.sha256
    number, digest = start.position.seq, _raw(start.position.hash)
    earlier, last, odd = _raw(start.before.hash), start.last, None
    for row in rows:
        place, body, stored = row
        following = sha256(digest + body.encode()).digest()
        if (
            following.hex() != stored
            or place != number + 1 - offset
            or not body.endswith(f',"seq":{number + 1}}}')
        ):
            odd = row
            break
        number += 1
        earlier, digest, last = digest, following, row
        if number == stop:
            break
    return Stretch(Position(number, digest.hex()), Position(number - 1, earlier.hex()), last, odd)


def _raw(digest: str) -> bytes:
    try:
        return bytes.fromhex(digest)
    except ValueError:
        return b""  # a destroyed hash was reported already; nothing can follow from it
