"""The documents that are generated from the code: `python -m tests.documents` writes them anew.

The tests compare each with its committed copy, so that a change of the schema or of an error code
is seen in review.
"""

import importlib
import inspect
import json
import pkgutil
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path

import apsw

import silas
from silas.companions.tools.contract import tool_schemas
from silas.kernel import SilasError
from silas.kernel import errors as kernel_errors
from silas.storage import load_migrations
from silas.web.wire import wire_schema
from tests.vectors.files import FILES as VECTORS

ROOT = Path(__file__).parent.parent


def all_errors() -> list[type[SilasError]]:
    """Every error class that Silas ships, in the order of exit codes.

    A module that needs an extra which is not installed is left out: errors do not live there.
    """
    for module in pkgutil.walk_packages(silas.__path__, "silas."):
        if not module.name.endswith("__main__"):
            _import(module.name)
    shipped = {kind for kind in _with_subclasses(SilasError) if kind.__module__[:6] == "silas."}
    return sorted(shipped, key=lambda kind: (kind.exit_code, kind.code))


def _import(name: str) -> None:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "silas").startswith("silas"):
            raise


def _with_subclasses(kind: type[SilasError]) -> Iterator[type[SilasError]]:
    yield kind
    for subclass in kind.__subclasses__():
        yield from _with_subclasses(subclass)


def error_table() -> str:
    """Every code, the exit code that goes with it, and the sentence that people see."""
    rows = [f"| `{kind.code}` | {kind.exit_code} | {kind.sentence()} |" for kind in all_errors()]
    return "\n".join(
        [
            "# Errors",
            "",
            "Codes and exit codes are stable: scripts may rely on them.",
            "",
            exit_code_ranges(),
            "",
            "| Code | Exit code | What it says |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def exit_code_ranges() -> str:
    """Whose exit codes are whose, as the kernel tells it."""
    told = inspect.cleandoc(kernel_errors.__doc__ or "")
    return told[told.index("Families own") :]


def schema() -> str:
    """What the migrations add up to, database by database."""
    folders = resources.files("silas.storage").joinpath("migrations").iterdir()
    databases = sorted(folder.name for folder in folders if folder.is_dir())
    parts = [
        "-- The schema that the migrations add up to. Generated; the migrations are the source."
    ]
    for name in databases:
        parts += [f"\n-- {name}\n", *_schema_of(name)]
    return "\n".join(parts)


def _schema_of(name: str) -> list[str]:
    connection = apsw.Connection(":memory:")
    for migration in load_migrations(name):
        connection.execute(migration.sql)
    # A full-text index brings its own shadow tables; their form is SQLite's affair.
    query = """
        SELECT m.sql FROM sqlite_schema m
        LEFT JOIN pragma_table_list t ON t.name = m.tbl_name AND t.schema = 'main'
        WHERE m.sql IS NOT NULL AND coalesce(t.type, '') <> 'shadow'
        ORDER BY m.tbl_name, m.type DESC, m.name
    """
    return [f"{sql};\n" for (sql,) in connection.execute(query)]


def wire() -> str:
    """The JSON Schema of what travels between the page and Silas."""
    return json.dumps(wire_schema(), indent=1, sort_keys=True) + "\n"


def companion_tools() -> str:
    """The JSON Schemas of what the tools of companions take and give."""
    return json.dumps(tool_schemas(), indent=1, sort_keys=True) + "\n"


DOCUMENTS: dict[str, Callable[[], str]] = {
    "docs/agent_tools/tool_schemas.json": companion_tools,
    "docs/errors.md": error_table,
    "docs/schema.sql": schema,
    "docs/wire.schema.json": wire,
    **VECTORS,
}


def main() -> None:
    """Write every document where it belongs."""
    for name, make in DOCUMENTS.items():
        (ROOT / name).write_text(make())
        print(name)


if __name__ == "__main__":
    main()
