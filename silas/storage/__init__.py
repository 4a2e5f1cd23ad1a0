"""Durable state: the `Database` port, its SQLite driver, migrations, backups.

Rooms write plain SQL in the subset that SQLite and PostgreSQL share, through the port alone.
Nothing here knows what the tables mean, and no driver's exception leaves this package.
"""

from silas.storage.errors import (
    DatabaseBusy,
    DatabaseConstraint,
    DatabaseCorrupt,
    DatabaseFromTheFuture,
    DatabaseNotOpened,
    DatabaseReadOnly,
    DiskFull,
    MigrationDrift,
    MigrationMissing,
)
from silas.storage.migrations import Migration, load_migrations, migrate
from silas.storage.ports import Database, Durability, Reader, Row, SqlValue, Transaction
from silas.storage.sqlite import SqliteDatabase

__all__ = [
    "Database",
    "DatabaseBusy",
    "DatabaseConstraint",
    "DatabaseCorrupt",
    "DatabaseFromTheFuture",
    "DatabaseNotOpened",
    "DatabaseReadOnly",
    "DiskFull",
    "Durability",
    "Migration",
    "MigrationDrift",
    "MigrationMissing",
    "Reader",
    "Row",
    "SqlValue",
    "SqliteDatabase",
    "Transaction",
    "load_migrations",
    "migrate",
]
