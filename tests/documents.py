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
from typing import Any

import apsw

import silas
from silas.kernel import SilasError
from silas.kernel import errors as kernel_errors
from silas.settings.keys import default_of, description_of, walk
from silas.storage import load_migrations
from silas.web.wire import wire_schema
from tests.companions.contract import tool_schemas
from tests.settings.test_every_key_is_read import NOT_READ_YET
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
    return told[told.index("The exit codes:") :]


def settings_reference() -> str:
    """Every setting with its default, by section, in the order of the file."""
    lines = ["# Settings", "", _ABOUT_SETTINGS]
    section: tuple[str, ...] | None = None
    for key, kind in sorted(walk(), key=lambda found: _place_of(found[0])):
        if kind.shape == "section":
            continue
        if key[:-1] != section:
            section = key[:-1]
            told = description_of(section) if section else "At the top."
            title = f"`{'.'.join(section)}`" if section else "Top"
            lines += ["", f"## {title}", "", told, "", "| key | default | |", "|---|---|---|"]
        later = NOT_READ_YET.get(".".join(key))
        note = f" *Not read yet: it waits for {later}.*" if later else ""
        lines.append(f"| `{key[-1]}` | {_default_in_words(key)} | {description_of(key)}{note} |")
    return "\n".join([*lines, ""])


_ABOUT_SETTINGS = (
    "Generated from `silas/settings`. `silas init` writes a file with all of them, commented out; "
    "`silas config show` says what is in force and where it comes from, `silas config check` what "
    "is wrong. `SILAS_CHANNELS__WEB__PORT=9000` sets `channels.web.port`, over the file. What is "
    "not in this list is refused, with the name that was probably meant."
)
_SECTIONS = [key for key, kind in walk() if kind.shape == "section"]


def _place_of(key: tuple[str, ...]) -> tuple[int, ...]:
    """Settings of one section stand together; sections keep the order of the file."""
    section = key[:-1]
    return (_SECTIONS.index(section) + 1 if section else 0,)


def _default_in_words(key: tuple[str, ...]) -> str:
    default = default_of(key)
    if isinstance(default, dict | list) and default:
        return "see the file that `silas init` writes"
    return f"`{json.dumps(default, ensure_ascii=False)}`"


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


def wire_types() -> str:
    """The same for TypeScript, which checks the page's modules with it (`make check-page`)."""
    schema = wire_schema()
    named = {**schema["from_page"]["$defs"], **schema["to_page"]["$defs"]}
    parts = [
        "// What travels between the page and Silas. Generated; silas/web/wire.py is the source."
    ]
    parts += [f"export type {name} = {_typed(named[name])};" for name in sorted(named)]
    parts.append(f"export type FromPage = {_typed(schema['from_page'])};")
    parts.append(f"export type ToPage = {_typed(schema['to_page'])};")
    return "\n".join(parts) + "\n"


def _typed(schema: dict[str, Any]) -> str:
    """A JSON Schema as a type of TypeScript's. A frame always has its `type`."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " | ".join(_typed(each) for each in choices)
    if "const" in schema or "enum" in schema:
        return " | ".join(json.dumps(each) for each in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"({_typed(schema.get('items', {}))})[]"
    if "properties" in schema:
        needed = {*schema.get("required", ()), "type"}
        fields = schema["properties"].items()
        inside = [
            f"  {name}{'' if name in needed else '?'}: {_typed(each)};" for name, each in fields
        ]
        return "\n".join(["{", *inside, "}"])
    if schema.get("type") == "object":
        values = schema.get("additionalProperties")
        return f"Record<string, {_typed(values) if isinstance(values, dict) else 'any'}>"
    return _PLAIN_TYPES.get(schema.get("type", ""), "any")


_PLAIN_TYPES = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
}


def companion_tools() -> str:
    """The JSON Schemas of what the tools of companions take and give."""
    return json.dumps(tool_schemas(), indent=1, sort_keys=True) + "\n"


DOCUMENTS: dict[str, Callable[[], str]] = {
    "docs/agent_tools/tool_schemas.json": companion_tools,
    "docs/errors.md": error_table,
    "docs/settings.md": settings_reference,
    "docs/schema.sql": schema,
    "docs/wire.d.ts": wire_types,
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
