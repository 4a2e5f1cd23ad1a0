"""The owner's passkeys: what a person proves with a finger, a face or a PIN.

1. A passkey is the owner's because the owner's active key has signed its id, public key and page.
   A row that somebody wrote into the database is nobody's passkey.
2. Enrolling the first one takes the owner himself, at Silas's own machine: `PasskeyCodes` gives
   out a code only for a statement that the owner's key has signed. Every further one takes an
   assertion of one that is there already. A paired browser alone enrols nothing.
3. Revoking is at once and for good, and rotating the owner's key ends them all, as with devices.
4. The counter of a passkey must grow with every use, if it has one: a copy would fall behind.
"""

import base64
import hashlib
from collections.abc import Collection

from silas.approval.devices import OwnerKey
from silas.approval.errors import DecisionRefused, DeviceUnknown
from silas.approval.ports import AuditTrail, KeyVault
from silas.approval.revoked import RevokedList
from silas.approval.webauthn import (
    Assertion,
    NewKey,
    Registration,
    Use,
    page_name,
    read_assertion,
    read_registration,
)
from silas.kernel import (
    CanonicalError,
    Clock,
    canonical_bytes,
    format_timestamp,
    parse_timestamp,
)
from silas.kernel.models import Data, UtcDatetime
from silas.storage import Database, Durability, Row, Transaction

REVOKED_PASSKEYS_REF = "silas/revoked-passkeys"
_FORMAT = "silas-passkey-v1"
_LONGEST_NAME = 80
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


class PasskeyStore:
    """The passkeys of one data directory."""

    def __init__(
        self,
        database: Database,
        keys: OwnerKey,
        *,
        vault: KeyVault,
        audit: AuditTrail,
        clock: Clock,
    ) -> None:
        self._database = database
        self._keys = keys
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
        values = self._row(registration.credential_id, made, rp_id=rp_id, name=name)

        def write(tx: Transaction) -> bool:
            if not tx.execute(_INSERT, values):
                return False
            event = {"credential_id": registration.credential_id, "name": values[3]}
            self._audit.append(tx, "passkey_enrolled", event)
            return True

        if not await self._database.transaction(write, durability=Durability.TRUST):
            raise DecisionRefused("This passkey is enrolled already.")
        return await self.require(registration.credential_id)

    def _row(
        self, credential_id: str, made: NewKey, *, rp_id: str, name: str
    ) -> tuple[str, str, str, str, str, str, str, int]:
        shown = " ".join(name.split())[:_LONGEST_NAME] or "A passkey"
        at, public = format_timestamp(self._clock.now()), made.public_key.hex()
        payload = _endorsed(credential_id, public, rp_id, name=shown, enrolled_at=at)
        key_id, signature = self._keys.sign(payload)
        endorsement = base64.b64encode(signature).decode()
        return credential_id, public, rp_id, shown, at, key_id, endorsement, made.sign_count

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
        return [found for row in rows if (found := self._passkey(row, revoked)).trusted]

    async def find(self, credential_id: str) -> Passkey | None:
        """One passkey, or None."""
        row = await self._database.fetch_one(f"{_SELECT} WHERE credential_id = ?", (credential_id,))
        return self._passkey(row, self._revoked.ids()) if row else None

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

    def _passkey(self, row: Row, revoked: frozenset[str]) -> Passkey:
        credential_id, public_key, rp_id, name, enrolled_at, key_id, endorsement, _, ended = row
        payload = _endorsed(credential_id, public_key, rp_id, name=name, enrolled_at=enrolled_at)
        return Passkey(
            credential_id=credential_id,
            public_key=public_key,
            rp_id=rp_id,
            name=name,
            enrolled_at=parse_timestamp(enrolled_at),
            trusted=ended is None
            and credential_id not in revoked
            and self._vouched(key_id, payload, endorsement),
        )

    def _vouched(self, key_id: str, payload: bytes, endorsement: str) -> bool:
        try:
            signature = base64.b64decode(endorsement, validate=True)
        except ValueError:
            return False
        return bool(payload) and self._keys.vouches(key_id, payload, signature)


def enrolment_challenge(registration: Registration, name: str) -> bytes:
    """What a passkey that is there already signs, to let another one in."""
    content = {
        "type": "passkey_enrolment",
        "credential_id": registration.credential_id,
        "authenticator_data": base64.b64encode(registration.authenticator_data).decode(),
        "name": name,
    }
    return hashlib.sha256(canonical_bytes(content)).digest()


def _endorsed(
    credential_id: str, public_key: str, rp_id: str, *, name: str, enrolled_at: str
) -> bytes:
    content = {
        "format": _FORMAT,
        "credential_id": credential_id,
        "public_key": public_key,
        "rp_id": rp_id,
        "name": name,
        "enrolled_at": enrolled_at,
    }
    try:
        return canonical_bytes(content)
    except CanonicalError:
        return b""
