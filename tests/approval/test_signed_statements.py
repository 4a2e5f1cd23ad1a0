"""What the owner's key signs besides tokens, byte for byte: a change would untrust what is kept."""

import base64
import hashlib
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from silas.approval import DeviceStore, PasskeyStore, PublicKey, make_code
from silas.approval.passkeys import enrolment_challenge
from silas.kernel import canonical_bytes
from silas.testing import MemoryVault
from tests.approval.authenticator import ORIGIN, Authenticator
from tests.approval.desk import Desk

ENROL = b"e" * 32


def is_signed(desk: Desk, content: dict[str, str], *, by: str, signature: str) -> bool:
    signed = base64.b64decode(signature)
    return desk.keys.verify(by, canonical_bytes(content), signed, at=desk.clock.now())


async def only_row(desk: Desk, sql: str) -> Any:
    [row] = await desk.database.fetch_all(sql)
    return row


async def test_a_device(desk: Desk) -> None:
    store = DeviceStore(
        desk.database, desk.keys, vault=MemoryVault(), audit=desk.audit, clock=desk.clock
    )
    key = PublicKey(Ed25519PrivateKey.generate().public_key().public_bytes_raw())
    await store.enrol(key, name="A phone")
    at, by, signature = await only_row(
        desk, "SELECT enrolled_at, owner_key_id, endorsement FROM devices"
    )
    content = {
        "format": "silas-device-v1",
        "device_id": key.key_id,
        "public_key": key.hex,
        "name": "A phone",
        "enrolled_at": at,
    }
    assert is_signed(desk, content, by=by, signature=signature)


async def test_a_passkey(desk: Desk) -> None:
    store = PasskeyStore(
        desk.database, desk.keys, vault=MemoryVault(), audit=desk.audit, clock=desk.clock
    )
    key = Authenticator(ec.generate_private_key(ec.SECP256R1()))
    made = await store.enrol(
        key.registration(ENROL), challenge=ENROL, origin=ORIGIN, name="A finger"
    )
    at, by, signature = await only_row(
        desk, "SELECT enrolled_at, owner_key_id, endorsement FROM passkeys"
    )
    content = {
        "format": "silas-passkey-v1",
        "credential_id": made.credential_id,
        "public_key": key.cose.hex(),
        "rp_id": "localhost",
        "name": "A finger",
        "enrolled_at": at,
    }
    assert is_signed(desk, content, by=by, signature=signature)


def test_a_code(desk: Desk) -> None:
    given = make_code(desk.keys, desk.clock)
    said = given.statement
    content = {"type": "passkey_code", "digest": said["digest"], "until": said["until"]}
    assert said["digest"] == hashlib.sha256(given.code.encode()).hexdigest()
    assert is_signed(desk, content, by=said["key_id"], signature=said["signed"])


def test_what_a_further_passkey_is_asked() -> None:
    made = Authenticator(ec.generate_private_key(ec.SECP256R1())).registration(ENROL)
    content = {
        "type": "passkey_enrolment",
        "credential_id": made.credential_id,
        "authenticator_data": base64.b64encode(made.authenticator_data).decode(),
        "name": "A face",
    }
    asked = hashlib.sha256(canonical_bytes(content)).digest()
    assert enrolment_challenge(made, name="A face") == asked
