"""The statements of a table. Names come from `tables.py` alone, values travel as parameters."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from silas.companions.tables import Table, plain
from silas.storage import SqlValue


def select_one(table: Table[Any], *, with_deleted: bool = False) -> str:
    """One record by its key."""
    alive = " AND deleted_at IS NULL" if table.synced and not with_deleted else ""
    return f"SELECT body FROM {table.name} WHERE {table.key} = ?{alive}"  # noqa: S608 - our names


def select_many(
    table: Table[Any],
    where: Mapping[str, Any],
    *,
    newest_first: bool,
    limit: int | None,
    with_deleted: bool,
) -> tuple[str, list[SqlValue]]:
    """The records whose columns have these values, and the parameters for them."""
    unknown = sorted(where.keys() - set(table.all_columns))
    if unknown:
        raise ValueError(f"{table.name} has no column {', '.join(unknown)}")
    tests = [f"{name} IS NULL" if where[name] is None else f"{name} = ?" for name in where]
    params = [plain(value) for value in where.values() if value is not None]
    if table.synced and not with_deleted:
        tests.append("deleted_at IS NULL")
    way = "DESC" if newest_first else "ASC"
    sql = f"SELECT body FROM {table.name}"  # noqa: S608 - our names
    if tests:
        sql += f" WHERE {' AND '.join(tests)}"
    sql += f" ORDER BY {table.order} {way}, {table.key} {way}"
    if limit is None:
        return sql, params
    return f"{sql} LIMIT ?", [*params, limit]


def upsert(table: Table[Any]) -> str:
    """Write a record, over the one with its key if there is one."""
    names = table.all_columns
    places = ", ".join("?" * len(names))
    changes = ", ".join(f"{name} = excluded.{name}" for name in names[1:])
    return (
        f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({places}) "  # noqa: S608 - our names
        f"ON CONFLICT ({table.key}) DO UPDATE SET {changes}"
    )


def among(sql: str, column: str, keys: Sequence[str] | None) -> tuple[str, tuple[str, ...]]:
    """The statement, with its `{these}` filled in: only rows with these keys, or all (None)."""
    if keys is None:
        return sql.format(these=""), ()
    these = f" AND {column} IN (SELECT value FROM json_each(?))"  # noqa: S608 - our names
    return sql.format(these=these), (json.dumps(list(keys)),)
