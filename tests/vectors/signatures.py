"""Ed25519 signatures at the edges, where libraries disagree."""

from typing import Any

from tests.vectors.curve import (
    BASE,
    NEUTRAL,
    L,
    P,
    Signer,
    add,
    encode,
    hashed,
    of_order_eight,
    times,
)

SIGNER = Signer(b"silas test vectors, key number 1")
OTHER = Signer(b"silas test vectors, key number 2")
MESSAGE = b'{"plan_hash":"a test vector"}'


def cases() -> list[dict[str, Any]]:
    """Every case: key, message, signature, and whether the signature holds."""
    return [*_plain(), *_malleable(), *_odd_commitments(), *_odd_keys(), *_damaged()]


def _case(
    name: str, signature: bytes, valid: bool, *, key: bytes = b"", message: bytes = MESSAGE
) -> dict[str, Any]:
    return {
        "name": name,
        "public_key": (key or SIGNER.public).hex(),
        "message": message.hex(),
        "signature": signature.hex(),
        "valid": valid,
    }


def _plain() -> list[dict[str, Any]]:
    long = bytes(range(256)) * 40
    return [
        _case("an honest signature", SIGNER.sign(MESSAGE), True),
        _case("the empty message", SIGNER.sign(b""), True, message=b""),
        _case("a long message", SIGNER.sign(long), True, message=long),
        _case("another key's signature", OTHER.sign(MESSAGE), False),
        _case("another message", SIGNER.sign(MESSAGE), False, message=MESSAGE + b" "),
        _case("a message cut short", SIGNER.sign(MESSAGE), False, message=MESSAGE[:-1]),
        _case(
            "a signature that was made for another key's name",
            SIGNER.sign(MESSAGE, named_key=OTHER.public),
            False,
        ),
    ]


def _malleable() -> list[dict[str, Any]]:
    honest = SIGNER.sign(MESSAGE)
    r, s = honest[:32], int.from_bytes(honest[32:], "little")

    def with_s(value: int) -> bytes:
        return r + (value % 2**256).to_bytes(32, "little")

    return [
        *(
            _case(f"S + {count} L, the same signature spelled again", with_s(s + count * L), False)
            for count in (1, 2, 7, 14)
        ),
        _case("S with its highest bit set", with_s(s | 1 << 255), False),
        _case("S with the bit below it set", with_s(s | 1 << 254), False),
        _case("S of 0", with_s(0), False),
        _case("S of L", with_s(L), False),
        _case("S of L - 1", with_s(L - 1), False),
        _case("S of 2^256 - 1", with_s(-1), False),
        _case("-S", with_s(L - s), False),
    ]


def _odd_commitments() -> list[dict[str, Any]]:
    small = of_order_eight()
    found = []
    for count in range(1, 8):
        shifted = encode(add(times(SIGNER.nonce(MESSAGE), BASE), times(count, small)))
        found.append(
            _case(
                f"R shifted by {count} eighths, valid only after multiplying by eight",
                SIGNER.sign(MESSAGE, r_bytes=shifted),
                False,
            )
        )
    neutral = encode(NEUTRAL)
    spelled = (P + 1).to_bytes(32, "little")
    negative = encode(NEUTRAL)[:31] + b"\x80"
    key = SIGNER.public
    return [
        *found,
        # Only the owner can make it, and it binds the message: RFC 8032 lets it pass.
        _case("R is the neutral element", SIGNER.finish(MESSAGE, 0, neutral, key), True),
        _case("R is the neutral element, as p + 1", SIGNER.finish(MESSAGE, 0, spelled, key), False),
        _case("R is minus zero", SIGNER.finish(MESSAGE, 0, negative, key), False),
        _case("R is no point", SIGNER.sign(MESSAGE, r_bytes=b"\x02" + bytes(31)), False),
    ]


def _odd_keys() -> list[dict[str, Any]]:
    small = of_order_eight()
    points = [times(count, small) for count in range(8)]
    spellings = {encode(point) for point in points}
    for _, y in points:
        for spelled in (y, y + P):
            if spelled < 2**255:
                spellings |= {(spelled | sign << 255).to_bytes(32, "little") for sign in (0, 1)}
    # With S = 0 and R neutral these fit every message, or one in few, if the key is let in.
    anything = encode(NEUTRAL) + bytes(32)
    found = [
        _case(f"a key of small order, {key.hex()}", anything, False, key=key)
        for key in sorted(spellings)
    ]
    for count in range(1, 8):
        key = encode(add(SIGNER.point, times(count, small)))
        found.append(
            _case(
                f"a key shifted by {count} eighths, valid only after multiplying by eight",
                _sign_odd_hash(key),
                False,
                key=key,
            )
        )
    return found


def _sign_odd_hash(key: bytes) -> bytes:
    """A signature under a shifted key whose hash is odd, so that the shift does not vanish."""
    for nonce in range(1, 100):
        signature = SIGNER.finish(MESSAGE, nonce, encode(times(nonce, BASE)), key)
        if _hash_is_odd(signature[:32], key):
            return signature
    raise ArithmeticError("one nonce in two will do")


def _hash_is_odd(r_bytes: bytes, key: bytes) -> bool:
    return hashed(r_bytes, key, MESSAGE) % 2 == 1


def _damaged() -> list[dict[str, Any]]:
    honest = SIGNER.sign(MESSAGE)
    flipped = [
        _case(
            f"bit {bit} of the signature is flipped",
            bytes(byte ^ (1 << bit % 8 if at == bit // 8 else 0) for at, byte in enumerate(honest)),
            False,
        )
        for bit in range(0, 512, 31)
    ]
    return [
        *flipped,
        _case("no signature", b"", False),
        _case("a signature cut short", honest[:-1], False),
        _case("a signature with a byte more", honest + b"\x00", False),
        _case("zeros", bytes(64), False),
        _case("R and S exchanged", honest[32:] + honest[:32], False),
        _case("a key cut short", honest, False, key=SIGNER.public[:-1]),
        _case("a key with a byte more", honest, False, key=SIGNER.public + b"\x00"),
        _case("a key that is no point", honest, False, key=b"\x02" + bytes(31)),
    ]
