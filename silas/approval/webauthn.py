"""What a passkey says, verified: WebAuthn as far as Silas uses it.

It is done with `cryptography` alone. No attestation is asked for, so that there is no certificate
to parse: who may enrol a passkey is decided by the owner, not by the maker of a device.

1. The client data is of the right kind, for exactly this challenge, from exactly this page, and
   not from inside a frame of another one.
2. The authenticator speaks for this page's name, and says that a person was present (UP) and was
   recognised by finger, face or PIN (UV).
3. A new passkey's public key is in one of three exact encodings: ES256, EdDSA or RS256.
4. An assertion is signed by that key, over the authenticator's data and the client data.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlsplit

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from pydantic import Field

from silas.approval.errors import DecisionRefused
from silas.approval.models import Base64Bytes
from silas.kernel import CanonicalError, strict_loads
from silas.kernel.models import Data

CredentialId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,1366}$")]
Blob = Annotated[Base64Bytes, Field(max_length=4096)]
_PRESENT, _RECOGNISED, _HAS_KEY, _HAS_EXTENSIONS = 0x01, 0x04, 0x40, 0x80
_HEAD = 37  # hash of the name, flags, counter
_KEY_HEAD = 55  # and then the make and the length of the id
_ES256 = bytes.fromhex("a5010203262001215820"), bytes.fromhex("225820")
_EDDSA = bytes.fromhex("a4010103272006215820")
_RS256 = bytes.fromhex("a401030339010020590100"), bytes.fromhex("2143010001")
_EXPONENT = 65537


class Assertion(Data):
    """A passkey's answer to a challenge."""

    credential_id: CredentialId
    client_data: Blob
    authenticator_data: Blob
    signature: Blob


class Registration(Data):
    """A passkey that was just made."""

    credential_id: CredentialId
    client_data: Blob
    authenticator_data: Blob


@dataclass(frozen=True)
class NewKey:
    """What a registration brings."""

    public_key: bytes
    sign_count: int


@dataclass(frozen=True)
class Use:
    """One use of a passkey: its counter, and the page that it was used on."""

    count: int
    origin: str


def page_name(origin: str) -> str:
    """The name that passkeys of a page are bound to (`rp_id`)."""
    return urlsplit(origin).hostname or ""


def read_registration(
    registration: Registration, *, challenge: bytes, origins: Collection[str], rp_id: str
) -> NewKey:
    """The key of a new passkey (rules 1 to 3); raises `DecisionRefused`."""
    _require_client_data(
        registration.client_data, "webauthn.create", challenge=challenge, origins=origins
    )
    data = registration.authenticator_data
    flags, count = _read_head(data, rp_id)
    length = int.from_bytes(data[_KEY_HEAD - 2 : _KEY_HEAD], "big")
    credential = data[_KEY_HEAD : _KEY_HEAD + length]
    if not flags & _HAS_KEY or credential != _unpadded(registration.credential_id):
        raise DecisionRefused("The passkey is not the one that it says it is.")
    rest = data[_KEY_HEAD + length :]
    size = _key_size(rest)
    if size is None or (len(rest) > size and not flags & _HAS_EXTENSIONS):
        raise DecisionRefused("The passkey has a key of a kind that is not used here.")
    return NewKey(rest[:size], count)


def read_assertion(
    assertion: Assertion, public_key: bytes, *, challenge: bytes, origins: Collection[str]
) -> Use:
    """What a valid assertion says (rules 1, 2, 4); raises `DecisionRefused`."""
    origin = _require_client_data(
        assertion.client_data, "webauthn.get", challenge=challenge, origins=origins
    )
    _, count = _read_head(assertion.authenticator_data, page_name(origin))
    signed = assertion.authenticator_data + hashlib.sha256(assertion.client_data).digest()
    try:
        _verify(public_key, assertion.signature, signed)
    except (InvalidSignature, ValueError) as error:
        raise DecisionRefused("The passkey has not signed this.") from error
    return Use(count, origin)


def _require_client_data(
    raw: bytes, kind: str, *, challenge: bytes, origins: Collection[str]
) -> str:
    try:
        said: Any = strict_loads(raw)
    except CanonicalError as error:
        raise DecisionRefused("The browser's own statement cannot be read.") from error
    if not isinstance(said, dict) or said.get("type") != kind or said.get("crossOrigin"):
        raise DecisionRefused("The passkey was used for something else.")
    if "topOrigin" in said or said.get("origin") not in origins:
        raise DecisionRefused("The passkey was used on another page.")
    if not hmac.compare_digest(_unpadded(str(said.get("challenge", ""))), challenge):
        raise DecisionRefused("The passkey was used for another question.")
    return str(said["origin"])


def _read_head(data: bytes, rp_id: str) -> tuple[int, int]:
    wanted = hashlib.sha256(rp_id.encode()).digest()
    if len(data) < _HEAD or not rp_id or not hmac.compare_digest(data[:32], wanted):
        raise DecisionRefused("The passkey belongs to another page.")
    flags = data[32]
    if not flags & _PRESENT or not flags & _RECOGNISED:
        raise DecisionRefused("The passkey has not recognised you: use a finger, a face or a PIN.")
    return flags, int.from_bytes(data[33:37], "big")


def _key_size(data: bytes) -> int | None:
    """How long the key at the start is, if it is in one of the three encodings (rule 3)."""
    first, second = _ES256
    if data.startswith(first) and data[42:45] == second and len(data) >= 77:
        return 77
    if data.startswith(_EDDSA) and len(data) >= 42:
        return 42
    first, second = _RS256
    end = len(first) + 256
    if data.startswith(first) and data[end : end + 5] == second:
        return end + 5
    return None


def _verify(key: bytes, signature: bytes, signed: bytes) -> None:
    if _key_size(key) != len(key):
        raise ValueError("not a key")
    if key.startswith(_EDDSA):
        Ed25519PublicKey.from_public_bytes(key[10:]).verify(signature, signed)
    elif key.startswith(_ES256[0]):
        x, y = int.from_bytes(key[10:42], "big"), int.from_bytes(key[45:77], "big")
        numbers = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1())
        numbers.public_key().verify(signature, signed, ec.ECDSA(SHA256()))
    else:
        start = len(_RS256[0])
        modulus = int.from_bytes(key[start : start + 256], "big")
        public = rsa.RSAPublicNumbers(_EXPONENT, modulus).public_key()
        public.verify(signature, signed, padding.PKCS1v15(), SHA256())


def _unpadded(text: str) -> bytes:
    try:
        raw = base64.b64decode(f"{text}{'=' * (-len(text) % 4)}", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise DecisionRefused("The passkey's answer cannot be read.") from error
    if base64.urlsafe_b64encode(raw).rstrip(b"=").decode() != text:
        raise DecisionRefused("The passkey's answer cannot be read.")
    return raw
