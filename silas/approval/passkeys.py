"""The owner's passkeys: what a person proves with a finger, a face or a PIN.

1. A passkey is the owner's because the owner's active key has signed its id, public key and page.
   A row that somebody wrote into the database is nobody's passkey.
2. Enrolling the first one takes the owner, at Silas's own machine: `PasskeyCodes` gives out a code
   only for a statement that the owner's key has signed. Every further one takes an assertion of
   one that is there already. A paired browser alone enrols nothing.
3. Revoking is at once and for good, and rotating the owner's key ends them all, as with devices.
4. The counter of a passkey must grow with every use, if it has one: a copy would fall behind.

What a passkey says is read with `fido2` (authenticator data, COSE keys) and verified as far as
Silas uses WebAuthn. No attestation is asked for, so that there is no certificate to parse: who may
enrol a passkey is decided by the owner, not by the maker of a device.

5. The client data is of the right kind, for exactly this challenge, from exactly this page, and
   not from inside a frame of another one.
6. The authenticator speaks for this page's name, and says that a person was present (UP) and was
   recognised by finger, face or PIN (UV).
7. A passkey's public key is of one of three kinds, ES256, EdDSA or RS256, in its one encoding.
8. An assertion is signed by that key, over the authenticator's data and the client data.
"""

import base64
import hashlib
import hmac
import secrets
import struct
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlsplit

from cryptography.exceptions import InvalidSignature
from fido2 import cbor
from fido2.cose import CoseKey
from fido2.utils import websafe_encode
from fido2.webauthn import AuthenticatorData
from pydantic import Field

from silas.approval.errors import DecisionRefused, DeviceUnknown
from silas.approval.keys import RevokedList, Seal, Seals
from silas.approval.models import Base64Bytes
from silas.audit.models import AuditTrail, OwnerKey
from silas.kernel import (
    CanonicalError,
    Clock,
    canonical_bytes,
    format_timestamp,
    parse_timestamp,
    strict_loads,
)
from silas.kernel.models import Data, UtcDatetime
from silas.secrets.vault import Vault
from silas.storage import Database, Durability, Transaction

_CODE_SEALED = "passkey_code"
CODE_LIFETIME = timedelta(minutes=10)
_MAX_GUESSES = 5


@dataclass(frozen=True)
class PasskeyCode:
    """What lets the first passkey in: the code for a person, the statement for the server."""

    code: str
    statement: dict[str, str]


def make_code(keys: OwnerKey, clock: Clock) -> PasskeyCode:
    """A code that the owner's key vouches for, so that asking for it takes the open vault."""
    code = f"{secrets.randbelow(10**10):010d}"
    until = format_timestamp(clock.now() + CODE_LIFETIME)
    digest = hashlib.sha256(code.encode()).hexdigest()
    fields = {"digest": digest, "until": until}
    seal = Seals(keys).sign(_CODE_SEALED, fields)
    statement = {**fields, "key_id": str(seal.key_id), "signed": str(seal.signature)}
    return PasskeyCode(code, statement)


@dataclass
class PasskeyCodes:
    """The codes of this process; a restart ends them."""

    keys: OwnerKey
    clock: Clock
    _open: dict[str, datetime] = field(default_factory=dict)
    _taken: dict[str, datetime] = field(default_factory=dict)
    """Every statement that was taken, until it is too old anyway: none is taken twice."""
    _guesses: int = 0

    def allow(self, statement: dict[str, str]) -> None:
        """Take the owner's word for a code (rule 2); raises `DecisionRefused`."""
        try:
            digest, until = statement["digest"], parse_timestamp(statement["until"])
            seal = Seal(statement["key_id"], statement["signed"])
        except (KeyError, ValueError, TypeError) as error:
            raise DecisionRefused("This is not the owner's word.") from error
        now = self.clock.now()
        fields = {"digest": digest, "until": statement["until"]}
        genuine = Seals(self.keys).holds_now(seal, _CODE_SEALED, fields)
        if not genuine or not now < until <= now + CODE_LIFETIME:
            raise DecisionRefused("This is not the owner's word, or it is too old.")
        self._taken = {name: end for name, end in self._taken.items() if now < end}
        if digest in self._taken:
            raise DecisionRefused("This code was given out already. Ask for a new one.")
        self._taken[digest] = until
        self._open, self._guesses = {digest: until}, 0

    def redeem(self, code: str) -> None:
        """Use a code up; raises `DecisionRefused`. A few wrong ones void every code."""
        now, digest = self.clock.now(), hashlib.sha256(code.encode()).hexdigest()
        for known, until in tuple(self._open.items()):
            if hmac.compare_digest(known, digest) and now < until:
                del self._open[known]
                return
        self._guesses += 1
        if self._guesses >= _MAX_GUESSES:
            self._open = {}
        raise DecisionRefused(
            "The code is wrong, used or too old. Run `silas devices passkey` for a new one."
        )


CredentialId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,1366}$")]
Blob = Annotated[Base64Bytes, Field(max_length=4096)]


_HEAD_BYTES = 37
"""The hash of the page's name, the flags and the counter, before what describes a new key."""
_UNREADABLE = (
    ValueError,
    KeyError,
    TypeError,
    IndexError,
    AttributeError,
    RecursionError,
    struct.error,
)
"""What the library raises for bytes that are none of its structures."""


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
    """The key of a new passkey (rules 5 to 7); raises `DecisionRefused`."""
    _require_client_data(
        registration.client_data, "webauthn.create", challenge=challenge, origins=origins
    )
    data = _read_authenticator(registration.authenticator_data, rp_id)
    made = data.credential_data
    if made is None or websafe_encode(made.credential_id) != registration.credential_id:
        raise DecisionRefused("The passkey is not the one that it says it is.")
    # Written once more, it must be what was sent: a key has one encoding.
    as_sent = registration.authenticator_data[_HEAD_BYTES:].startswith(bytes(made))
    if not as_sent or not _is_allowed(made.public_key):
        raise DecisionRefused("The passkey has a key of a kind that is not used here.")
    return NewKey(cbor.encode(made.public_key), data.counter)


def read_assertion(
    assertion: Assertion, public_key: bytes, *, challenge: bytes, origins: Collection[str]
) -> Use:
    """What a valid assertion says (rules 5, 6, 8); raises `DecisionRefused`."""
    origin = _require_client_data(
        assertion.client_data, "webauthn.get", challenge=challenge, origins=origins
    )
    data = _read_authenticator(assertion.authenticator_data, page_name(origin))
    signed = assertion.authenticator_data + hashlib.sha256(assertion.client_data).digest()
    try:
        key = CoseKey.parse(_map(cbor.decode(public_key)))
        if not _is_allowed(key):
            raise DecisionRefused("The passkey has a key of a kind that is not used here.")
        key.verify(signed, assertion.signature)
    except (InvalidSignature, *_UNREADABLE) as error:
        raise DecisionRefused("The passkey has not signed this.") from error
    return Use(data.counter, origin)


def _require_client_data(
    raw: bytes, kind: str, *, challenge: bytes, origins: Collection[str]
) -> str:
    """Rule 5. Read with our own parser: the library's takes a document with two meanings."""
    try:
        client: Any = strict_loads(raw)
    except CanonicalError as error:
        raise DecisionRefused("The browser's own statement cannot be read.") from error
    if not isinstance(client, dict) or client.get("type") != kind or client.get("crossOrigin"):
        raise DecisionRefused("The passkey was used for something else.")
    if "topOrigin" in client or client.get("origin") not in origins:
        raise DecisionRefused("The passkey was used on another page.")
    asked = str(client.get("challenge", "")).encode()
    if not hmac.compare_digest(asked, websafe_encode(challenge).encode()):
        raise DecisionRefused("The passkey was used for another question.")
    return str(client["origin"])


def _read_authenticator(raw: bytes, rp_id: str) -> AuthenticatorData:
    """Rule 6."""
    try:
        data = AuthenticatorData(raw)
    except _UNREADABLE as error:
        raise DecisionRefused("The passkey's answer cannot be read.") from error
    wanted = hashlib.sha256(rp_id.encode()).digest()
    if not rp_id or not hmac.compare_digest(data.rp_id_hash, wanted):
        raise DecisionRefused("The passkey belongs to another page.")
    if not data.is_user_present() or not data.is_user_verified():
        raise DecisionRefused("The passkey has not recognised you: use a finger, a face or a PIN.")
    return data


def _map(value: object) -> dict[int, Any]:
    if not isinstance(value, dict):
        raise TypeError("A COSE key is a map.")
    return value


def _is_allowed(key: CoseKey) -> bool:
    """Rule 7: the library knows more kinds of keys than are used here, weak ones among them."""
    match dict(key):
        case {1: 2, 3: -7, -1: 1, -2: bytes() as x, -3: bytes() as y}:
            return len(key) == 5 and len(x) == len(y) == 32
        case {1: 1, 3: -8, -1: 6, -2: bytes() as point}:
            return len(key) == 4 and len(point) == 32
        case {1: 3, 3: -257, -1: bytes() as modulus, -2: b"\x01\x00\x01"}:
            return len(key) == 4 and len(modulus) == 256
    return False


REVOKED_PASSKEYS_REF = "silas/revoked-passkeys"
PASSKEY_SEAL = "silas-passkey-v1"
_MAX_NAME_LENGTH = 80
_SELECT = """
SELECT credential_id, public_key, rp_id, name, enrolled_at, owner_key_id, endorsement, sign_count,
    revoked_at
FROM passkeys
"""
_INSERT = """
INSERT INTO passkeys
    (credential_id, public_key, rp_id, name, enrolled_at, owner_key_id, endorsement, sign_count)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (credential_id) DO NOTHING
"""
_COUNT = """
UPDATE passkeys SET sign_count = ?
WHERE credential_id = ? AND (sign_count < ? OR (sign_count = 0 AND ? = 0))
"""


class Passkey(Data):
    """One passkey, as people see it."""

    credential_id: str
    public_key: str
    rp_id: str
    """The name of the page that it works on."""
    name: str
    enrolled_at: UtcDatetime
    trusted: bool


class _PasskeyRow(NamedTuple):
    """What `_SELECT` gives."""

    credential_id: str
    public_key: str
    rp_id: str
    name: str
    enrolled_at: str
    owner_key_id: str
    endorsement: str
    sign_count: int
    revoked_at: str | None

    def sealed_fields(self) -> dict[str, str]:
        """What the owner's key vouches for (rule 1)."""
        return {
            "credential_id": self.credential_id,
            "public_key": self.public_key,
            "rp_id": self.rp_id,
            "name": self.name,
            "enrolled_at": self.enrolled_at,
        }


class PasskeyStore:
    """The passkeys of one data directory."""

    def __init__(
        self,
        database: Database,
        keys: OwnerKey,
        *,
        vault: Vault,
        audit: AuditTrail,
        clock: Clock,
    ) -> None:
        self._database = database
        self._seals = Seals(keys)
        self._revoked = RevokedList(vault, REVOKED_PASSKEYS_REF, "passkeys")
        self._audit = audit
        self._clock = clock

    async def enrol(
        self, registration: Registration, *, challenge: bytes, origin: str, name: str
    ) -> Passkey:
        """Make a passkey the owner's (rule 1). Whoever calls this has checked rule 2."""
        rp_id = page_name(origin)
        made = read_registration(registration, challenge=challenge, origins=(origin,), rp_id=rp_id)
        if registration.credential_id in self._revoked.ids():
            raise DeviceUnknown("This passkey was revoked. Make a new one.")
        row = self._row(registration.credential_id, made, rp_id=rp_id, name=name)

        def write(tx: Transaction) -> bool:
            if not tx.execute(_INSERT, row[:-1]):
                return False
            event = {"credential_id": registration.credential_id, "name": row.name}
            self._audit.append(tx, "passkey_enrolled", event)
            return True

        if not await self._database.transaction(write, durability=Durability.TRUST):
            raise DecisionRefused("This passkey is enrolled already.")
        return await self.require(registration.credential_id)

    def _row(self, credential_id: str, made: NewKey, *, rp_id: str, name: str) -> _PasskeyRow:
        shown = " ".join(name.split())[:_MAX_NAME_LENGTH] or "A passkey"
        at, public = format_timestamp(self._clock.now()), made.public_key.hex()
        row = _PasskeyRow(credential_id, public, rp_id, shown, at, "", "", made.sign_count, None)
        key_id, endorsement = self._seals.sign(PASSKEY_SEAL, row.sealed_fields())
        return row._replace(owner_key_id=str(key_id), endorsement=str(endorsement))

    async def revoke(self, credential_id: str) -> Passkey:
        """End a passkey (rule 3); raises `DeviceUnknown`."""
        found = await self.find(credential_id)
        if found is None:
            raise DeviceUnknown("There is no such passkey.")
        self._revoked.add(credential_id)
        values = (format_timestamp(self._clock.now()), credential_id)

        def write(tx: Transaction) -> None:
            tx.execute("UPDATE passkeys SET revoked_at = ? WHERE credential_id = ?", values)
            self._audit.append(tx, "passkey_revoked", {"credential_id": credential_id})

        await self._database.transaction(write, durability=Durability.TRUST)
        return found.model_copy(update={"trusted": False})

    async def trusted(self) -> list[Passkey]:
        """Those that can be used, the oldest first."""
        revoked = self._revoked.ids()
        rows = await self._database.fetch_all(f"{_SELECT} ORDER BY enrolled_at, credential_id")
        found = (self._passkey(_PasskeyRow(*row), revoked) for row in rows)
        return [each for each in found if each.trusted]

    async def find(self, credential_id: str) -> Passkey | None:
        """One passkey, or None."""
        row = await self._database.fetch_one(f"{_SELECT} WHERE credential_id = ?", (credential_id,))
        return self._passkey(_PasskeyRow(*row), self._revoked.ids()) if row else None

    async def endorsed(self, credential_id: str) -> tuple[dict[str, str], str, str] | None:
        """What the owner's key has vouched for, as `DeviceStore.endorsed`."""
        found = await self._database.fetch_one(
            f"{_SELECT} WHERE credential_id = ?", (credential_id,)
        )
        if found is None:
            return None
        row = _PasskeyRow(*found)
        return row.sealed_fields(), row.owner_key_id, row.endorsement

    async def require(self, credential_id: str) -> Passkey:
        """A passkey that is trusted now; raises `DecisionRefused`."""
        found = await self.find(credential_id)
        if found is None or not found.trusted:
            raise DecisionRefused("This passkey is not the owner's, or it was revoked.")
        return found

    async def verify(
        self, assertion: Assertion, challenge: bytes, *, origins: Collection[str]
    ) -> Use:
        """The use of a passkey that is trusted now, on one of these pages; or `DecisionRefused`.

        Its use is written down with `count_in`, in the transaction of what it lets happen.
        """
        passkey = await self.require(assertion.credential_id)
        own = [origin for origin in origins if page_name(origin) == passkey.rp_id]
        key = bytes.fromhex(passkey.public_key)
        return read_assertion(assertion, key, challenge=challenge, origins=own)

    def count_in(self, tx: Transaction, credential_id: str, use: Use) -> None:
        """Note a use (rule 4); raises `DecisionRefused` if it was used further elsewhere."""
        if tx.execute(_COUNT, (use.count, credential_id, use.count, use.count)) != 1:
            raise DecisionRefused("This passkey was used elsewhere since. It may be a copy.")

    def _passkey(self, row: _PasskeyRow, revoked: frozenset[str]) -> Passkey:
        seal = Seal(row.owner_key_id, row.endorsement)
        return Passkey(
            credential_id=row.credential_id,
            public_key=row.public_key,
            rp_id=row.rp_id,
            name=row.name,
            enrolled_at=parse_timestamp(row.enrolled_at),
            trusted=row.revoked_at is None
            and row.credential_id not in revoked
            and self._seals.holds_now(seal, PASSKEY_SEAL, row.sealed_fields()),
        )


def enrolment_challenge(registration: Registration, name: str) -> bytes:
    """What a passkey that is there already signs, to let another one in."""
    content = {
        "type": "passkey_enrolment",
        "credential_id": registration.credential_id,
        "authenticator_data": base64.b64encode(registration.authenticator_data).decode(),
        "name": name,
    }
    return hashlib.sha256(canonical_bytes(content)).digest()
