"""Where connections are kept: one row each, sealed by the owner's key.

1. The seal covers everything that decides what may be reached and done: account, servers, name of
   the credential, permissions, state. A row that somebody else wrote or changed is no connection.
2. Times and the last problem are not sealed: they decide nothing.
3. A change of what is sealed, its seal and its entry in the audit log are one transaction.
4. Ids begin with `conn_`; they are no ids of channels.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from silas.approval.keys import ProvenRows, Seal, Seals
from silas.audit.models import AuditTrail, OwnerKey
from silas.connections.models import Connection, ConnectionUnknown
from silas.egress.accounts import OAuthRegistration
from silas.kernel import Clock, format_timestamp
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
_COLUMNS = tuple(name for name in Connection.model_fields if name not in ("sealed", "oauth"))
_SELECT = (
    f"SELECT {', '.join(_COLUMNS)}, "  # noqa: S608 - ours
    "(SELECT oauth FROM connection_sign_ins AS sign_in "
    "WHERE sign_in.connection_id = connections.connection_id), seal_key_id, seal FROM connections"
)
_UPSERT = (
    f"INSERT INTO connections ({', '.join(_COLUMNS)}, seal_key_id, seal) "  # noqa: S608 - ours
    f"VALUES ({', '.join('?' * (len(_COLUMNS) + 2))}) ON CONFLICT (connection_id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in (*_COLUMNS[1:], "seal_key_id", "seal"))
)
_TIMES = frozenset(_NOT_SEALED) - {"sealed"}


@dataclass
class ConnectionStore:
    """The connections of one data directory."""

    database: Database
    keys: OwnerKey
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
        for field in ("connection_id", "name", "username"):
            wanted = [each for each in every if getattr(each, field).casefold() == named.casefold()]
            if len(wanted) == 1:
                return wanted[0]
        known = ", ".join(each.name for each in every) or "none"
        raise ConnectionUnknown(f"There is no connection {named!a}, or more than one: {known}.")

    async def save(self, connection: Connection, event: str, **facts: Any) -> Connection:
        """Keep it as it is now, sealed and logged (rule 3)."""
        changed = connection.model_copy(update={"changed_at": self.clock.now(), "sealed": True})
        seal = await asyncio.to_thread(Seals(self.keys).sign, _SEALED, _sealed_fields(changed))
        entry = {"connection": changed.connection_id, "name": changed.name, **facts}

        def write(tx: Transaction) -> None:
            tx.execute(_UPSERT, (*_values(changed), seal.key_id, seal.signature))
            _write_sign_in(tx, changed.connection_id, changed.oauth)
            self.audit.append(tx, event, entry)

        await self.database.transaction(write, durability=Durability.TRUST)
        return changed

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
            _write_sign_in(tx, connection.connection_id, None)
            self.audit.append(tx, "connection_removed", entry)

        await self.database.transaction(write, durability=Durability.TRUST)

    def _connection(self, row: tuple[Any, ...]) -> Connection:
        *values, oauth, key_id, signature = row
        fields = dict(zip(_COLUMNS, values, strict=True))
        for name in _LISTS:
            fields[name] = json.loads(fields[name])
        fields["oauth"] = json.loads(oauth) if oauth is not None else None
        connection = Connection.model_validate(fields)
        seal, sealed = Seal(key_id, signature), _sealed_fields(connection)
        known = (json.dumps(sealed, sort_keys=True), key_id, signature)
        at = connection.changed_at
        holds = self._proven.holds(
            known, seal, lambda: Seals(self.keys).holds(seal, _SEALED, sealed, at=at)
        )
        return connection.model_copy(update={"sealed": holds})


def _sealed_fields(connection: Connection) -> Mapping[str, Any]:
    """Everything that decides what may be reached and done (rule 1)."""
    fields = connection.model_dump(mode="json", exclude=set(_NOT_SEALED))
    if connection.oauth is None:
        del fields["oauth"]  # rows from before it are sealed without it
    return {name: "" if value is None else value for name, value in fields.items()}


def _values(connection: Connection) -> list[Any]:
    fields = connection.model_dump(mode="json", include=set(_COLUMNS))
    return [json.dumps(fields[name]) if name in _LISTS else fields[name] for name in _COLUMNS]


def _write_sign_in(tx: Transaction, connection_id: str, oauth: OAuthRegistration | None) -> None:
    tx.execute("DELETE FROM connection_sign_ins WHERE connection_id = ?", (connection_id,))
    if oauth is not None:
        tx.execute(
            "INSERT INTO connection_sign_ins (connection_id, oauth) VALUES (?, ?)",
            (connection_id, oauth.model_dump_json()),
        )


def _plain(value: Any) -> Any:
    return format_timestamp(value) if isinstance(value, datetime) else value
