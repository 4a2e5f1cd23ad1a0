"""Ed25519 by hand (RFC 8032), to make the signatures that no library would make.

Slow, and not safe for real keys: the keys in the vectors are published.
"""

import hashlib
from dataclasses import dataclass

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P

Point = tuple[int, int]
NEUTRAL: Point = (0, 1)


def add(one: Point, other: Point) -> Point:
    """The sum of two points."""
    (x1, y1), (x2, y2) = one, other
    product = D * x1 * x2 * y1 * y2 % P
    x = (x1 * y2 + x2 * y1) * pow(1 + product, -1, P) % P
    y = (y1 * y2 + x1 * x2) * pow(1 - product, -1, P) % P
    return x, y


def times(count: int, point: Point) -> Point:
    """The point, added to itself so many times."""
    total = NEUTRAL
    while count:
        if count & 1:
            total = add(total, point)
        point, count = add(point, point), count >> 1
    return total


def encode(point: Point) -> bytes:
    """The 32 bytes of a point."""
    x, y = point
    return (y | (x & 1) << 255).to_bytes(32, "little")


def x_of(y: int) -> int | None:
    """The even x that belongs to this y, or None if there is none."""
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * pow(2, (P - 1) // 4, P) % P
    if x * x % P != square:
        return None
    return P - x if x & 1 else x


def _base() -> Point:
    y = 4 * pow(5, -1, P) % P
    x = x_of(y)
    if x is None:
        raise ArithmeticError("the base point is on the curve")
    return x, y


BASE = _base()


def of_order_eight() -> Point:
    """A point whose multiples are all eight points of small order."""
    for y in range(2, 100):
        x = x_of(y)
        if x is not None:
            point = times(L, (x, y))
            if times(4, point) != NEUTRAL:
                return point
    raise ArithmeticError("one y in eight will do")


def hashed(*parts: bytes) -> int:
    """The number that binds a signature to its message."""
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little") % L


@dataclass(frozen=True)
class Signer:
    """A key made from a seed, with its insides open."""

    seed: bytes

    @property
    def secret(self) -> int:
        raw = bytearray(hashlib.sha512(self.seed).digest()[:32])
        raw[0] &= 248
        raw[31] = raw[31] & 127 | 64
        return int.from_bytes(raw, "little")

    @property
    def point(self) -> Point:
        return times(self.secret, BASE)

    @property
    def public(self) -> bytes:
        return encode(self.point)

    def nonce(self, message: bytes) -> int:
        """The number that RFC 8032 takes for this message."""
        return hashed(hashlib.sha512(self.seed).digest()[32:], message)

    def sign(
        self, message: bytes, *, named_key: bytes | None = None, r_bytes: bytes | None = None
    ) -> bytes:
        """Sign; with another name for the key, or other bytes for R, than are due."""
        r = self.nonce(message)
        return self.finish(message, r, r_bytes or encode(times(r, BASE)), named_key or self.public)

    def finish(self, message: bytes, r: int, r_bytes: bytes, key: bytes) -> bytes:
        """The signature with this commitment."""
        s = (r + hashed(r_bytes, key, message) * self.secret) % L
        return r_bytes + s.to_bytes(32, "little")
