"""The programs that may ask: each has a name and a token of its own, and can be removed.

1. A client's row is sealed with the owner's key. One that was changed afterwards is nobody, and so
   is one that was removed and is put back: the vault knows.
2. The token is shown once, when the client is added; what is kept is its hash.
3. A client may ask, and nothing else: it decides nothing and sees nothing of others.
"""

import asyncio
import hashlib
import hmac
import secrets
from typing import NamedTuple

from silas.approval.keys import KeyManager, Seal, Seals
from silas.audit.models import AuditTrail
from silas.kernel import ApprovalError, Clock, IdFactory, format_timestamp, parse_timestamp
from silas.kernel.models import Data, UtcDatetime
from silas.storage import Database, Durability

CLIENT = "client"
MAX_CLIENT_NAME = 40
_SEALED = "client_seal"
_SELECT = """
SELECT client_id, name, token_hash, created_at, removed_at, seal_key_id, seal FROM clients
"""


class ClientRefused(ApprovalError):
    """No such client may ask here. `silas clients list` shows who may."""

    code = "E_APPROVAL_CLIENT_REFUSED"


class ClientExists(ApprovalError):
    """There is a client of this name. Choose another name, or remove it first."""

    code = "E_APPROVAL_CLIENT_EXISTS"


class Client(Data):
    """A program that may ask."""

    client_id: str
    name: str
    created_at: UtcDatetime


class AddedClient(Client):
    """The same, with the token that it shows from now on. It is told once."""

    token: str


class _ClientRow(NamedTuple):
    client_id: str
    name: str
    token_hash: str
    created_at: str
    removed_at: str | None
    seal_key_id: str
    seal: str

    def sealed_fields(self) -> dict[str, str]:
        """What the owner's key has signed."""
        return {
            "client_id": self.client_id,
            "name": self.name,
            "token_hash": self.token_hash,
            "created_at": self.created_at,
        }

    def client(self) -> Client:
        """For people."""
        return Client(
            client_id=self.client_id, name=self.name, created_at=parse_timestamp(self.created_at)
        )


class ClientStore:
    """The clients of one data directory."""

    def __init__(
        self,
        database: Database,
        keys: KeyManager,
        *,
        audit: AuditTrail,
        clock: Clock,
        ids: IdFactory,
    ) -> None:
        self._database = database
        self._seals = Seals(keys)
        self._ended = keys.ended
        self._audit = audit
        self._clock = clock
        self._ids = ids

    async def add(self, name: str) -> AddedClient:
        """Let a program ask from now on; raises `ClientExists`."""
        if any(each.name == name for each in await self.list()):
            raise ClientExists(f"There is a client {name!a} already. Choose another name.")
        token, now = secrets.token_urlsafe(32), self._clock.now()
        row = _ClientRow(
            self._ids.new(CLIENT), name, _hash(token), format_timestamp(now), None, "", ""
        )
        seal = self._seals.sign(_SEALED, row.sealed_fields())
        await self._database.transaction(
            lambda tx: tx.execute(
                "INSERT INTO clients (client_id, name, token_hash, created_at, removed_at, "
                "seal_key_id, seal) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (*row[:5], *seal),
            ),
            durability=Durability.TRUST,
        )
        await self._audit.log("client_added", client_id=row.client_id, name=name)
        return AddedClient(**row.client().model_dump(), token=token)

    async def list(self) -> list[Client]:
        """Those that may ask now."""
        rows = await self._database.fetch_all(
            f"{_SELECT} WHERE removed_at IS NULL ORDER BY created_at, client_id"
        )
        found = [_ClientRow(*row) for row in rows]
        return [row.client() for row in found if self._holds(row)]

    async def recognise(self, token: str) -> Client:
        """The client that shows this token; raises `ClientRefused`."""
        rows = await self._database.fetch_all(
            f"{_SELECT} WHERE token_hash = ? AND removed_at IS NULL", (_hash(token),)
        )
        for row in (_ClientRow(*each) for each in rows):
            if hmac.compare_digest(row.token_hash, _hash(token)) and self._holds(row):
                return row.client()
        raise ClientRefused

    async def remove(self, name: str) -> Client:
        """Let it ask no more; raises `ClientRefused`."""
        for each in await self.list():
            if name in (each.name, each.client_id):
                await self._database.execute(
                    "UPDATE clients SET removed_at = ? WHERE client_id = ?",
                    (format_timestamp(self._clock.now()), each.client_id),
                )
                await self._audit.log("client_removed", client_id=each.client_id, name=each.name)
                await asyncio.to_thread(self._ended.end, [each.client_id], each.created_at)
                return each
        raise ClientRefused(f"There is no client {name!a}. `silas clients list` shows them.")

    def _holds(self, row: _ClientRow) -> bool:
        seal = Seal(row.seal_key_id, row.seal)
        sealed = self._seals.holds(seal, _SEALED, row.sealed_fields(), at=self._clock.now())
        return sealed and not self._ended.covers(row.client_id, parse_timestamp(row.created_at))


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
