"""`silas journal export` and `import`."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from silas.app.journal import change_journal
from silas.cli.commands import JsonCommand
from silas.cli.context import CliContext, pass_cli
from silas.cli.journal_bench import Bench, with_journal
from silas.journal.errors import ImportRefused
from silas.journal.files import read_csv, read_json, read_todo_txt, write_json
from silas.kernel.models import Data
from silas.storage.errors import translated
from silas.storage.files import write_private_file

_FORMATS = {".json": "json", ".txt": "todo.txt", ".csv": "csv"}
_PIECE_BYTES = 200_000  # the answer, which is longer, must fit into a megabyte as well
_PIECE_RECORDS = 200
_MOST_BYTES = 100_000_000


@click.command(cls=JsonCommand)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@pass_cli
def export(cli: CliContext, file: Path, *, force: bool) -> None:
    """Write the whole journal to FILE as JSON, tombstones included."""
    if file.exists() and not force:
        raise click.BadParameter(f"{file} exists already. Choose another name, or use --force.")

    async def work(bench: Bench) -> dict[str, Any]:
        records = await bench.journal.export()
        return write_json(records, host_id=bench.journal.host_id, now=bench.now)

    data = with_journal(cli, work)
    with translated(str(file)):
        text = json.dumps(data, ensure_ascii=False, indent=1)
        write_private_file(file, text.encode())
    count = len(data["records"])
    cli.show({"file": str(file), "records": count}, f"Wrote {count} records to {file}.")


@click.command("import", cls=JsonCommand)
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--format", "form", type=click.Choice(sorted(_FORMATS.values())), help="Else by its name."
)
@click.option("-c", "--category", metavar="NAME", help="For tasks that name none.")
@pass_cli
def import_(cli: CliContext, file: Path, *, form: str | None, category: str | None) -> None:
    """Take FILE in: a journal in JSON, or tasks from todo.txt or CSV.

    A file is checked whole before anything is written. The same file a second time changes nothing.
    """
    chosen = form or _FORMATS.get(file.suffix.lower())
    if chosen is None:
        raise click.UsageError("Say what it is with --format.")
    text = _read(file)

    async def work(bench: Bench) -> int:
        if chosen == "json":
            records: Sequence[Data] = read_json(text)
        elif chosen == "csv":
            records = read_csv(text, now=bench.now, zone=bench.zone, category=category)
        else:
            records = read_todo_txt(text, zone=bench.zone, category=category)
        return await _take_in(bench, records, whole=chosen == "json", seed=f"{category}\n{text}")

    count = with_journal(cli, work)
    cli.show({"file": str(file), "changed": count}, f"{count} records are new or changed.")


async def _take_in(bench: Bench, records: Sequence[Data], *, whole: bool, seed: str) -> int:
    """Write in pieces; each has an id that follows from the file, so it is written once."""
    operation, argument = ("import_records", "records") if whole else ("import_tasks", "tasks")
    name, changed = hashlib.sha256(seed.encode()).hexdigest(), 0
    before = await bench.journal.last_cursor()
    for number, piece in enumerate(_pieces([each.model_dump(mode="json") for each in records])):
        operation_id = None if whole else f"import:{name}:{number}"
        outcome = await change_journal(
            bench.ground, bench.journal, operation, {argument: piece}, operation_id=operation_id
        )
        # An operation that was made before tells its first outcome; the journal is as it was.
        if await bench.journal.last_cursor() > before:
            changed += len(outcome.changed_entity_ids)
            before = await bench.journal.last_cursor()
    return changed


def _pieces(records: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    piece: list[dict[str, Any]] = []
    size = 0
    for record in records:
        length = len(json.dumps(record))
        if piece and (size + length > _PIECE_BYTES or len(piece) == _PIECE_RECORDS):
            yield piece
            piece, size = [], 0
        piece.append(record)
        size += length
    if piece:
        yield piece


def _read(file: Path) -> str:
    with translated(str(file)):
        if file.stat().st_size > _MOST_BYTES:
            raise ImportRefused("This file is too large to be a journal.")
        content = file.read_bytes()
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ImportRefused("This file is not text in UTF-8. Nothing was changed.") from error
