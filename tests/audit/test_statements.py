"""Signed statements: whose signature counts, and in which spelling."""

import base64
from datetime import datetime
from pathlib import Path

import pytest

from silas.audit.models import SignedStatement
from silas.kernel import canonical_bytes
from tests.audit.ledger import Ledger

BODY = canonical_bytes({"at": "2026-01-01T00:00:00.000000Z"}).decode()
SIGNATURE = base64.b64encode(b"signed").decode()


class Gullible:
    """Believes every signature that it is shown."""

    def verify(self, key_id: str, payload: bytes, signature: bytes, *, at: datetime) -> bool:
        return (key_id, payload, signature) == ("key", BODY.encode(), b"signed")


@pytest.mark.parametrize(
    ("body", "signature"),
    [
        (BODY, "no base64!"),
        (BODY, SIGNATURE[:-1]),
        (BODY, f"{SIGNATURE[:2]}\n{SIGNATURE[2:]}"),
        (BODY, f" {SIGNATURE}"),
        (BODY, "é"),
        ("{}", SIGNATURE),
        ("[]", SIGNATURE),
        ('{"at":"yesterday"}', SIGNATURE),
    ],
)
def test_what_is_not_written_as_we_write_it_is_not_signed(body: str, signature: str) -> None:
    assert SignedStatement(BODY, "key", SIGNATURE).signed_by(Gullible())
    assert not SignedStatement(body, "key", signature).signed_by(Gullible())


def test_a_second_spelling_of_the_same_bytes_is_not_signed() -> None:
    class Believes:
        def verify(self, key_id: str, payload: bytes, signature: bytes, *, at: datetime) -> bool:
            return signature == b"sign"

    assert base64.b64decode("c2lnbg==") == base64.b64decode("c2lnbh==") == b"sign"
    assert SignedStatement(BODY, "key", "c2lnbg==").signed_by(Believes())
    assert not SignedStatement(BODY, "key", "c2lnbh==").signed_by(Believes())


async def test_a_checkpoint_that_is_there_already_is_not_noted_again(ledger: Ledger) -> None:
    await ledger.write(3)
    first = await ledger.log.write_checkpoint()
    noted = _identity(ledger.witness)
    assert await ledger.log.write_checkpoint() == first
    assert _identity(ledger.witness) == noted


def _identity(path: Path) -> tuple[int, int]:
    return path.stat().st_ino, path.stat().st_mtime_ns
