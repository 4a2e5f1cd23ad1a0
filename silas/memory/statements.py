"""The statements with which a store finds memories, each bound to the ids of one scope."""

from typing import Any

from silas.memory.rows import COLUMNS

_VALID = (
    "(m.valid_until IS NULL OR m.valid_until > ?) AND (m.valid_from IS NULL OR m.valid_from <= ?)"
)
KEYWORD = f"""
SELECT {COLUMNS} FROM (
    SELECT rowid AS row, rank AS score FROM memory_words
    WHERE memory_words MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rank LIMIT ?
) AS found JOIN memory_items AS m ON m.id = found.row
WHERE m.scope_no = ? AND {_VALID} ORDER BY found.score, m.id LIMIT ?
"""  # noqa: S608 - names of columns only
BY_ID = f"SELECT m.id, {COLUMNS} FROM memory_items AS m WHERE m.scope_no = ? AND m.memory_id = ?"  # noqa: S608
BY_BEGINNING = f"""
SELECT {COLUMNS} FROM memory_items AS m
WHERE m.scope_no = ? AND m.memory_id >= ? AND m.memory_id < ? LIMIT 2
"""  # noqa: S608
SESSION = f"""
SELECT {COLUMNS} FROM memory_items AS m
WHERE m.scope_no = ? AND m.session_id = ? AND m.id BETWEEN ? AND ? ORDER BY m.id
"""  # noqa: S608
TEMPORAL = f"""
SELECT {COLUMNS} FROM memory_items AS m
WHERE m.scope_no = ? AND m.created_at >= ? AND m.created_at < ? AND m.id BETWEEN ? AND ?
ORDER BY m.created_at DESC, m.id DESC LIMIT ?
"""  # noqa: S608
ENTITY = f"""
SELECT {COLUMNS} FROM memory_entities AS e JOIN memory_items AS m ON m.id = e.item
WHERE e.entity = ? AND e.item BETWEEN ? AND ? AND m.scope_no = ? ORDER BY m.id DESC LIMIT ?
"""  # noqa: S608
# Both ways: what it was caused by, and what it caused; each memory once, the nearest first.
_CAUSAL = f"""
WITH RECURSIVE chain (row, depth) AS (
    SELECT m.id, 0 FROM memory_items AS m WHERE m.scope_no = :scope AND m.memory_id = :start
    UNION
    SELECT next.id, chain.depth + 1 FROM chain
    JOIN memory_items AS here ON here.id = chain.row
    JOIN memory_items AS next ON next.scope_no = :scope AND next.id BETWEEN :first AND :last
        AND (next.memory_id IN (SELECT value FROM json_each(here.causal_refs))
             OR next.id IN (SELECT item FROM memory_causes WHERE cause = here.memory_id
                            AND item BETWEEN :first AND :last))
    WHERE chain.depth < :depth
)
SELECT {COLUMNS} FROM (SELECT row, min(depth) AS depth FROM chain GROUP BY row) AS near
JOIN memory_items AS m ON m.id = near.row
WHERE near.depth > 0 ORDER BY near.depth, m.id LIMIT :most
"""  # noqa: S608
KNOWN = """
SELECT m.memory_id FROM json_each(?) AS wanted
CROSS JOIN memory_items AS m ON m.scope_no = ? AND m.memory_id = wanted.value LIMIT 1
"""


def causal(names: dict[str, Any]) -> tuple[str, list[Any]]:
    """The statement for what led to a memory and what followed from it, and its parameters."""
    return _positional(_CAUSAL, names)


def _positional(sql: str, names: dict[str, Any]) -> tuple[str, list[Any]]:
    """The statement with `?1`, `?2` for its names; the port takes positions."""
    for number, name in enumerate(names, 1):
        sql = sql.replace(f":{name}", f"?{number}")
    return sql, list(names.values())
