"""Where connections are kept: one row each, sealed by the owner's key.

1. The seal covers everything that decides what may be reached and done: account, servers, name of
   the credential, permissions, state. A row that somebody else wrote or changed is no connection.
2. Times and the last problem are not sealed: they decide nothing.
3. A change of what is sealed, its seal and its entry in the audit log are one transaction.
4. Ids begin with `conn_`; they are no ids of channels.
5. Whoever narrows, pauses or removes a connection ends its earlier rows in the vault: a row with a
   genuine seal that somebody puts back is no connection.
6. What was granted for one call is used by one, however many make theirs at once.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from silas.approval.keys import KeyManager, ProvenRows, Seal, Seals
from silas.audit.models import AuditTrail
from silas.connections.models import Connection, ConnectionStatus, ConnectionUnknown
from silas.egress.accounts import OAuthRegistration
from silas.kernel import Clock, SilasError, format_timestamp
from silas.storage import Database, Durability, Transaction

CONNECTION = "conn"
"""How the ids of connections begin."""
_SEALED = "connection_in_force"
_LISTS = (
    "endpoints",
    "permissions_granted",
    "permissions_available",
    "permissions_once",
    "initial_permissions",
)
_NOT_SEALED = (
    "token_expires_at",
    "refresh_token_expires_at",
    "last_health_check",
    "last_refresh",
    "last_used_at",
    "problem",
    "sealed",
)
_BESIDE = ("sealed", "oauth", "address")
_COLUMNS = tuple(name for name in Connection.model_fields if name not in _BESIDE)
_SELECT = (
    f"SELECT {', '.join(_COLUMNS)}, "  # noqa: S608 - ours
    "(SELECT oauth FROM connection_sign_ins AS sign_in "
    "WHERE sign_in.connection_id = connections.connection_id), "
    "(SELECT address FROM connection_addresses AS own "
    "WHERE own.connection_id = connections.connection_id), seal_key_id, seal FROM connections"
)
_UPSERT = (
    f"INSERT INTO connections ({', '.join(_COLUMNS)}, seal_key_id, seal) "  # noqa: S608 - ours
    f"VALUES ({', '.join('?' * (len(_COLUMNS) + 2))}) ON CONFLICT (connection_id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in (*_COLUMNS[1:], "seal_key_id", "seal"))
)
_CHANGED_AT = "SELECT changed_at FROM connections WHERE connection_id = ?"
_TIMES = frozenset(_NOT_SEALED) - {"sealed"}


@dataclass
class ConnectionStore:
    """The connections of one data directory."""

    database: Database
    keys: KeyManager
    audit: AuditTrail
    clock: Clock

    def __post_init__(self) -> None:
        self._proven = ProvenRows(self.keys)

    async def listed(self) -> list[Connection]:
        """All of them, by name."""
        rows = await self.database.fetch_all(f"{_SELECT} ORDER BY name, connection_id")
        return await asyncio.to_thread(lambda: [self._connection(tuple(row)) for row in rows])

    async def get(self, connection_id: str) -> Connection | None:
        """One of them, whatever its state."""
        row = await self.database.fetch_one(f"{_SELECT} WHERE connection_id = ?", (connection_id,))
        return await asyncio.to_thread(self._connection, tuple(row)) if row else None

    async def find(self, named: str) -> Connection:
        """The one with this id, name or user name; raises `ConnectionUnknown`."""
        every = await self.listed()
        for field in ("connection_id", "name", "username", "address"):
            wanted = [each for each in every if getattr(each, field).casefold() == named.casefold()]
            if len(wanted) == 1:
                return wanted[0]
        known = ", ".join(each.name for each in every) or "none"
        raise ConnectionUnknown(f"There is no connection {named!a}, or more than one: {known}.")

    async def save(self, connection: Connection, event: str, **facts: Any) -> Connection:
        """Keep it as it is now, sealed and logged (rule 3)."""
        before = await self.get(connection.connection_id)
        changed = self._changed(connection, before)
        await self._write(changed, event, facts)
        await self._end_earlier(before, changed)
        return changed

    async def use_once(self, connection: Connection, permission: str) -> bool:
        """Use up what was granted for one call; False if another call has (rule 6)."""
        changed = self._changed(connection.model_copy(update={"permissions_once": ()}), connection)
        facts = {"permissions": permission}
        used = await self._write(changed, "connection_once_used", facts, instead_of=connection)
        if used:
            await self._end_earlier(connection, changed)
        return used

    def _changed(self, connection: Connection, before: Connection | None) -> Connection:
        now = self.clock.now()
        if before is not None:  # whatever the clock says, this one comes later (rule 5)
            now = max(now, before.changed_at + timedelta(microseconds=1))
        return connection.model_copy(update={"changed_at": now, "sealed": True})

    async def _write(
        self,
        changed: Connection,
        event: str,
        facts: Mapping[str, Any],
        *,
        instead_of: Connection | None = None,
    ) -> bool:
        """Keep it; False if the row is not the one any more that it is `instead_of`."""
        seal = await asyncio.to_thread(Seals(self.keys).sign, _SEALED, _sealed_fields(changed))
        entry = {"connection": changed.connection_id, "name": changed.name, **facts}
        known = format_timestamp(instead_of.changed_at) if instead_of is not None else None

        def write(tx: Transaction) -> bool:
            row = tx.fetch_one(_CHANGED_AT, (changed.connection_id,))
            if known is not None and (row is None or row[0] != known):
                return False
            tx.execute(_UPSERT, (*_values(changed), seal.key_id, seal.signature))
            _write_beside(tx, changed.connection_id, changed.oauth, changed.address)
            self.audit.append(tx, event, entry)
            return True

        return await self.database.transaction(write, durability=Durability.TRUST)

    async def _end_earlier(self, before: Connection | None, now: Connection | None) -> None:
        """Rule 5."""
        if before is not None and (now is None or _is_narrower(now, before)):
            await asyncio.to_thread(self.keys.ended.end, [before.connection_id], before.changed_at)

    async def note(self, connection_id: str, **values: Any) -> None:
        """Write down times and the last problem (rule 2)."""
        if not values.keys() <= _TIMES:
            raise ValueError("this is sealed")
        changes = ", ".join(f"{name} = ?" for name in values)
        told = [_plain(each) for each in values.values()]
        await self.database.execute(
            f"UPDATE connections SET {changes} WHERE connection_id = ?",  # noqa: S608 - our names
            (*told, connection_id),
        )

    async def remove(self, connection: Connection) -> None:
        """Forget it."""
        entry = {"connection": connection.connection_id, "name": connection.name}

        def write(tx: Transaction) -> None:
            tx.execute(
                "DELETE FROM connections WHERE connection_id = ?", (connection.connection_id,)
            )
            _write_beside(tx, connection.connection_id, None, "")
            self.audit.append(tx, "connection_removed", entry)

        await self.database.transaction(write, durability=Durability.TRUST)
        await self._end_earlier(connection, None)

    def _connection(self, row: tuple[Any, ...]) -> Connection:
        *values, oauth, address, key_id, signature = row
        fields = dict(zip(_COLUMNS, values, strict=True))
        for name in _LISTS:
            fields[name] = json.loads(fields[name])
        fields["oauth"] = json.loads(oauth) if oauth is not None else None
        fields["address"] = address or ""
        connection = Connection.model_validate(fields)
        seal, sealed = Seal(key_id, signature), _sealed_fields(connection)
        known = (json.dumps(sealed, sort_keys=True), key_id, signature)
        at = connection.changed_at
        holds = self._proven.holds(
            known, seal, lambda: Seals(self.keys).holds(seal, _SEALED, sealed, at=at)
        )
        return connection.model_copy(update={"sealed": holds and not self._has_ended(connection)})

    def _has_ended(self, connection: Connection) -> bool:
        try:
            return self.keys.ended.covers(connection.connection_id, connection.changed_at)
        except SilasError:  # a vault that does not open vouches for nothing
            return True


def _is_narrower(now: Connection, before: Connection) -> bool:
    """Whether the row before would allow anything that this one does not."""
    lists = ("permissions_granted", "permissions_once", "endpoints")
    lost = any(set(getattr(before, name)) - set(getattr(now, name)) for name in lists)
    places = (before.domain, before.ref_id) != (now.domain, now.ref_id)
    paused = before.status is not now.status and before.status is ConnectionStatus.ACTIVE
    return lost or places or paused


def _sealed_fields(connection: Connection) -> Mapping[str, Any]:
    """Everything that decides what may be reached and done (rule 1)."""
    fields = connection.model_dump(mode="json", exclude=set(_NOT_SEALED))
    for name in ("oauth", "address"):
        if not fields[name]:
            del fields[name]  # rows from before it are sealed without it
    return {name: "" if value is None else value for name, value in fields.items()}


def _values(connection: Connection) -> list[Any]:
    fields = connection.model_dump(mode="json", include=set(_COLUMNS))
    return [json.dumps(fields[name]) if name in _LISTS else fields[name] for name in _COLUMNS]


def _write_beside(
    tx: Transaction, connection_id: str, oauth: OAuthRegistration | None, address: str
) -> None:
    tx.execute("DELETE FROM connection_sign_ins WHERE connection_id = ?", (connection_id,))
    tx.execute("DELETE FROM connection_addresses WHERE connection_id = ?", (connection_id,))
    if address:
        tx.execute(
            "INSERT INTO connection_addresses (connection_id, address) VALUES (?, ?)",
            (connection_id, address),
        )
    if oauth is not None:
        tx.execute(
            "INSERT INTO connection_sign_ins (connection_id, oauth) VALUES (?, ?)",
            (connection_id, oauth.model_dump_json()),
        )


def _plain(value: Any) -> Any:
    return format_timestamp(value) if isinstance(value, datetime) else value
