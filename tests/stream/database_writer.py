"""Somebody who can write the database, and nothing else: no vault, no file beside it."""

from dataclasses import dataclass
from typing import Any

from silas.storage import Database, Reader, Transaction

_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql IS NOT NULL"
_NOT_MEANT = ("sqlite_", "schema_", "memory_", "chronicle")


@dataclass(frozen=True)
class OldRows:
    """All rows of a moment, but those of the audit log unless it is said so."""

    tables: dict[str, list[Any]]

    @classmethod
    async def of(cls, database: Database, *, with_audit: bool = False) -> "OldRows":
        def read(reader: Reader) -> dict[str, list[Any]]:
            names = [name for (name,) in reader.fetch_all(_TABLES)]
            return {
                name: reader.fetch_all(f"SELECT * FROM {name}")
                for name in names
                if not name.startswith(_NOT_MEANT) and (with_audit or not name.startswith("audit_"))
            }

        return cls(await database.snapshot(read))

    async def put_back(self, database: Database) -> None:
        """Let every row be as it was then."""

        def write(tx: Transaction) -> None:
            tx.execute("PRAGMA defer_foreign_keys = ON")
            for name, rows in self.tables.items():
                tx.execute(f"DELETE FROM {name}")
                for row in rows:
                    places = ", ".join("?" * len(row))
                    tx.execute(f"INSERT INTO {name} VALUES ({places})", tuple(row))

        await database.transaction(write)


async def audited(database: Database, event: str) -> int:
    """How often the log says this."""
    rows = await database.fetch_all("SELECT body FROM audit_log")
    return sum(f'"event":"{event}"' in body for (body,) in rows)
