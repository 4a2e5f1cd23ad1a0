"""Ed25519 signatures at the edges, where libraries disagree."""

from collections.abc import Callable
from functools import partial
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
    return [
        *_plain(),
        *_of_the_rfc(),
        *_malleable(),
        *_odd_commitments(),
        *_small_commitments(),
        *_small_keys(),
        *_mixed_keys(),
        *_damaged(),
    ]


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


def _of_the_rfc() -> list[dict[str, Any]]:
    """RFC 8032, 7.1."""
    told = [
        (
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
            "",
            (
                "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
                "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
            ),
        ),
        (
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
            "72",
            (
                "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
                "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
            ),
        ),
        (
            "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
            "af82",
            (
                "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
                "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"
            ),
        ),
    ]
    return [
        _case(
            f"RFC 8032, 7.1, test {number}",
            bytes.fromhex(signature),
            True,
            key=bytes.fromhex(key),
            message=bytes.fromhex(message),
        )
        for number, (key, message, signature) in enumerate(told, 1)
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


def _small_spellings() -> list[bytes]:
    """Every way to write a point of small order, the ones that RFC 8032 forbids as well."""
    points = [times(count, of_order_eight()) for count in range(8)]
    spellings = {encode(point) for point in points}
    for _, y in points:
        for spelled in (y, y + P):
            if spelled < 2**255:
                spellings |= {(spelled | sign << 255).to_bytes(32, "little") for sign in (0, 1)}
    return sorted(spellings)


def _small_commitments() -> list[dict[str, Any]]:
    """The owner's key, and R of small order: it holds only if one multiplies by eight."""
    return [
        _case(f"R of small order, {r.hex()}", SIGNER.finish(MESSAGE, 0, r, SIGNER.public), False)
        for r in _small_spellings()
        if r != encode(NEUTRAL)
    ]


def _small_keys() -> list[dict[str, Any]]:
    """Nobody has a secret for these keys, and everybody can sign with them if they are let in."""
    r, found = encode(NEUTRAL), []
    for key in _small_spellings():
        message = _message_with(partial(hashed, r, key), 0)
        name = f"a key of small order, {key.hex()}"
        found.append(_case(name, r + bytes(32), False, key=key, message=message))
    return found


def _mixed_keys() -> list[dict[str, Any]]:
    """The owner's key shifted by a point of small order."""
    small, found = of_order_eight(), []
    for count in range(1, 8):
        key = encode(add(SIGNER.point, times(count, small)))
        for name, shift, valid in (
            ("valid only after multiplying by eight", 1, False),
            # The equation holds without the cofactor; libraries that want it so agree on these.
            ("with a hash that is a multiple of eight", 0, True),
        ):
            message = _message_with(partial(_hash_of, key), shift)
            signature = SIGNER.sign(message, named_key=key)
            shown = f"a key shifted by {count} eighths, {name}"
            found.append(_case(shown, signature, valid, key=key, message=message))
    return [*found, *_cancelling()]


def _cancelling() -> list[dict[str, Any]]:
    """Key and R are shifted, and the shifts cancel each other, or not."""
    small = of_order_eight()
    key, found = encode(add(SIGNER.point, small)), []
    for wanted, valid in ((7, True), (5, False)):
        for nonce in range(1, 1000):
            r_bytes = encode(add(times(nonce, BASE), small))
            if hashed(r_bytes, key, MESSAGE) % 8 == wanted:
                break
        signature = SIGNER.finish(MESSAGE, nonce, r_bytes, key)
        name = "cancel each other" if valid else "do not cancel each other"
        found.append(_case(f"key and R shifted, the shifts {name}", signature, valid, key=key))
    return found


def _hash_of(key: bytes, message: bytes) -> int:
    return hashed(encode(times(SIGNER.nonce(message), BASE)), key, message)


def _message_with(hash_of: Callable[[bytes], int], remainder: int) -> bytes:
    """A message whose hash leaves this remainder when it is divided by eight."""
    numbered = (MESSAGE + str(number).encode() for number in range(1000))
    return next(message for message in numbered if hash_of(message) % 8 == remainder)


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
