"""Where a secret is found: in every file, row, backup, environment and command line."""

import asyncio
import base64
import io
import sqlite3
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from silas.app.backup import back_up
from silas.app.core import Core
from silas.kernel import SystemClock

_DATABASE = b"SQLite format 3\0"


def forms_of(secret: str) -> list[bytes]:
    """The secret as it is, and as programs write what they pass on."""
    raw = secret.encode()
    found = [raw, raw[::-1], raw.hex().encode(), quote(secret, safe="").encode()]
    # In base64 it depends on what stands before it: three ways, without their ragged ends.
    return found + [base64.b64encode(b"\0" * before + raw)[4:-4] for before in range(3)]


def is_in(secret: str, *texts: str | bytes) -> bool:
    """Whether any of these holds the secret in any form."""
    plain = [each.encode() if isinstance(each, str) else each for each in texts]
    return any(form in each for form in forms_of(secret) for each in plain)


async def places_with(secret: str, core: Core, *roots: Path) -> list[str]:
    """Where it is found: below these directories, in a new backup, and in the process list."""
    backup = roots[0] / "searched-backup.tar"
    await asyncio.to_thread(
        back_up,
        core.paths,
        backup,
        clock=SystemClock(),
        replace=True,
        progress=lambda *_: None,
    )
    found = [name for name, text in _everything(roots) if is_in(secret, text)]
    searched = [name for name, _ in _archived(backup.read_bytes(), "")]
    assert any(name.endswith(".db") for name in searched), searched
    backup.unlink()
    return found + [name for name, text in _processes() if is_in(secret, text)]


def _everything(roots: Iterable[Path]) -> Iterator[tuple[str, bytes]]:
    for root in roots:
        for path in root.rglob("*"):
            if not path.is_file():
                continue
            content = path.read_bytes()
            yield str(path), content
            if content.startswith(_DATABASE):
                # A long value lies on several pages: the file alone does not show it whole.
                yield from _rows(content, str(path))
            elif path.suffix == ".tar":
                yield from _archived(content, str(path))


def _archived(content: bytes, name: str) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        for member in archive:
            file = archive.extractfile(member)
            inside = file.read() if file else b""
            yield f"{name}!{member.name}", inside
            if member.name.endswith(".tar"):
                yield from _archived(inside, f"{name}!{member.name}")
            elif inside.startswith(_DATABASE):
                yield from _rows(inside, f"{name}!{member.name}")


def _rows(content: bytes, name: str) -> Iterator[tuple[str, bytes]]:
    # The two bytes say that a journal lies beside the file, which the search reads by itself.
    with closing(sqlite3.connect(":memory:")) as database:
        database.deserialize(content[:18] + b"\1\1" + content[20:])
        tables = database.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL%'"
        ).fetchall()
        for (table,) in tables:
            for row in database.execute(f'SELECT * FROM "{table}"'):
                cells = [each if isinstance(each, bytes) else str(each).encode() for each in row]
                yield f"{name}:{table}", b"\0".join(cells)


def _processes() -> Iterator[tuple[str, bytes]]:
    for process in Path("/proc").iterdir():
        for name in ("environ", "cmdline"):
            try:
                content = (process / name).read_bytes() if process.name.isdigit() else b""
            except OSError:
                continue
            yield f"{process}/{name}", content
