"""`silas journal rate`, `note`, `category`, `search`, `history`, `delete`, `export` and others."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from silas.app.journal import change_journal
from silas.cli.commands import CliContext, JsonCommand, JsonGroup, pass_cli
from silas.cli.journal_session import SO_ALREADY, JournalSession, shown, with_journal
from silas.journal import Outcome
from silas.journal.errors import ImportRefused
from silas.journal.files import read_csv, read_json, read_todo_txt, write_json
from silas.journal.lines import name_of, rating_line, record_line, short_id, visible_line, when
from silas.journal.models import KINDS, Category, DayPlan, Note, Rating, Record, link_id
from silas.journal.queries import HistoryEntry
from silas.journal.records import OWNER_ACTOR
from silas.kernel import SilasError
from silas.kernel.models import Data
from silas.kernel.when import parse_day, parse_moment
from silas.storage.errors import translated
from silas.storage.files import write_private_file

_CATEGORY = click.option("-c", "--category", "category_name", metavar="NAME")
_LIMIT = click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True)
_RECORD = click.argument("name", metavar="RECORD")
_OWN_FIELDS = {
    "id", "kind", "created_at", "updated_at", "vector_clock", "versions", "deletions",
}  # fmt: skip
_IDS = ("_id", "_ids")
_NOTHING: tuple[Any, ...] = (None, "", [])
_FORMATS = {".json": "json", ".txt": "todo.txt", ".csv": "csv"}
_PIECE_BYTES = 200_000  # the answer, which is longer, must fit into a megabyte as well
_PIECE_RECORDS = 200
_MAX_FILE_BYTES = 100_000_000


@click.command(cls=JsonCommand)
@click.argument("target_name", metavar="TARGET")
@click.argument("dimension")
@click.argument("value", type=click.FloatRange(0, 10))
@click.option("-n", "--note", "text", default="")
@pass_cli
def rate(cli: CliContext, target_name: str, dimension: str, *, value: float, text: str) -> None:
    """Say how TARGET was, from 0 to 10: `silas journal rate today energy 7`.

    TARGET is a task, a stretch of time, a block, a note, or a day.
    """

    async def work(session: JournalSession) -> Outcome:
        target = await _target(session, target_name)
        return await session.do(
            "create_or_update_rating", target_id=target, dimension=dimension, value=value, note=text
        )

    outcome = with_journal(cli, work)
    cli.show(shown(outcome), f"{visible_line(dimension)}: {value:g}")


@click.command(cls=JsonCommand)
@click.option("-d", "--dimension")
@click.option("--since", metavar="TIME")
@_CATEGORY
@pass_cli
def ratings(
    cli: CliContext, dimension: str | None, since: str | None, category_name: str | None
) -> None:
    """Show ratings, the newest first."""

    async def work(session: JournalSession) -> tuple[list[Rating], dict[str, str]]:
        limit = await session.category(category_name)
        begin = since and parse_moment(since, now=session.now, zone=session.zone, prefer="past")
        found = await session.journal.ratings(
            dimension=dimension,
            since=begin or None,
            categories=None if limit is None else {limit},
        )
        targets = await session.journal.get_many([each.target_id for each in found])
        return found, {each.id: _day_or_name(each) for each in targets}

    found, names = with_journal(cli, work)
    data = {"ratings": [each.model_dump(mode="json") for each in found]}
    cli.show(data, "\n".join(rating_line(each, names) for each in found) or "No ratings.")


@click.command(cls=JsonCommand)
@click.argument("text")
@_CATEGORY
@click.option("-a", "--about", metavar="RECORD", help="What it is about.")
@click.option("--language", metavar="CODE")
@click.option("-e", "--edit", "known", metavar="NOTE", help="Put TEXT in the place of this note's.")
@pass_cli
def note(
    cli: CliContext,
    text: str,
    *,
    category_name: str | None,
    about: str | None,
    language: str | None,
    known: str | None,
) -> None:
    """Write something down, or change what was written down."""
    if known is not None and (category_name or about or language):
        raise click.UsageError("With --edit only the text is changed.")

    async def work(session: JournalSession) -> Outcome:
        if known is not None:
            found = await session.find(Note, known)
            return await session.do("update_note", note_id=found.id, text=text)
        return await session.do(
            "create_note",
            text=text,
            category_id=await session.category(category_name, make=True),
            about_id=(await session.find_any(about)).id if about else None,
            language=language,
        )

    outcome = with_journal(cli, work)
    cli.show(shown(outcome), f"Noted: {short_id(str(outcome.payload['note_id']))}")


@click.command(cls=JsonCommand)
@_CATEGORY
@_LIMIT
@pass_cli
def notes(cli: CliContext, category_name: str | None, limit: int) -> None:
    """Show notes, the newest first."""

    async def work(session: JournalSession) -> tuple[list[Note], list[str]]:
        only = await session.category(category_name)
        found = await session.journal.notes(
            categories=None if only is None else {only}, limit=limit
        )
        return found, [
            f"{short_id(each.id)}  {when(each.created_at, session.zone, session.now)}  "
            f"{visible_line(each.text)}"
            for each in found
        ]

    found, lines = with_journal(cli, work)
    data = {"notes": [each.model_dump(mode="json") for each in found]}
    cli.show(data, "\n".join(lines) or "No notes.")


@click.group(cls=JsonGroup)
def category() -> None:
    """Parts of your life; what a companion may see is bounded by them."""


@category.command("list")
@pass_cli
def list_categories(cli: CliContext) -> None:
    """Show all categories."""

    async def work(session: JournalSession) -> list[Category]:
        return await session.journal.categories()

    found = with_journal(cli, work)
    lines = [f"{short_id(each.id)}  {visible_line(each.name)}" for each in found]
    data = {"categories": [each.model_dump(mode="json") for each in found]}
    cli.show(data, "\n".join(lines) or "No categories. Add one: silas journal category add NAME")


@category.command("add")
@click.argument("name")
@click.option("--colour", metavar="#RRGGBB")
@pass_cli
def add_category(cli: CliContext, name: str, colour: str | None) -> None:
    """Make a category."""

    async def work(session: JournalSession) -> Outcome:
        return await session.do("create_category", name=name, colour=colour)

    cli.show(shown(with_journal(cli, work)), f"{visible_line(name)} is there.")


@category.command("edit")
@click.argument("old_name", metavar="CATEGORY")
@click.option("--name")
@click.option("--colour", metavar="#RRGGBB")
@pass_cli
def edit_category(cli: CliContext, old_name: str, name: str | None, colour: str | None) -> None:
    """Rename a category, or give it another colour."""

    async def work(session: JournalSession) -> Outcome:
        found = await session.find(Category, old_name)
        return await session.do("update_category", category_id=found.id, name=name, colour=colour)

    cli.show(shown(with_journal(cli, work)), "Changed.")


@click.command(cls=JsonCommand)
@click.argument("words", nargs=-1, required=True)
@_CATEGORY
@click.option("-k", "--kind", "kinds", type=click.Choice(sorted(KINDS)), multiple=True)
@_LIMIT
@pass_cli
def search(
    cli: CliContext,
    words: tuple[str, ...],
    *,
    category_name: str | None,
    kinds: tuple[str, ...],
    limit: int,
) -> None:
    """Find records with all of these words; the last word may be its beginning."""

    async def work(session: JournalSession) -> list[Record]:
        only = await session.category(category_name)
        return await session.journal.search(
            " ".join(words),
            categories=None if only is None else {only},
            kinds=kinds or None,
            limit=limit,
        )

    found = with_journal(cli, work)
    data = {"records": [each.model_dump(mode="json") for each in found]}
    cli.show(data, "\n".join(map(record_line, found)) or "Nothing has these words.")


@click.command(cls=JsonCommand)
@_RECORD
@pass_cli
def history(cli: CliContext, name: str) -> None:
    """Show how a record came about: who changed what, and when."""

    async def work(session: JournalSession) -> tuple[list[HistoryEntry], list[str]]:
        record = await session.find_any(name, deleted=True)
        entries = await session.journal.history(record.id)
        names = await _names(session, entries)
        return entries, [
            f"{when(each.at, session.zone, session.now)}  {_who(each.actor)}  "
            f"{_changed(each, names)}"
            for each in entries
        ]

    entries, lines = with_journal(cli, work)
    cli.show({"history": [each.model_dump(mode="json") for each in entries]}, "\n".join(lines))


@click.command(cls=JsonCommand)
@click.argument("first", metavar="RECORD")
@click.argument("second", metavar="RECORD")
@click.option("-r", "--relation", default="related", show_default=True)
@click.option("--remove", is_flag=True, help="Say that they do not any more.")
@pass_cli
def link(cli: CliContext, first: str, second: str, *, relation: str, remove: bool) -> None:
    """Say that two records belong together."""

    async def work(session: JournalSession) -> Outcome:
        ends = [(await session.find_any(each)).id for each in (first, second)]
        if remove:
            return await session.do("delete_record", record_id=link_id(ends[0], ends[1], relation))
        return await session.do("link_records", from_id=ends[0], to_id=ends[1], relation=relation)

    cli.show(shown(with_journal(cli, work)), "Not linked any more." if remove else "Linked.")


@click.command(cls=JsonCommand)
@_RECORD
@pass_cli
def delete(cli: CliContext, name: str) -> None:
    """Delete a record; `silas journal restore` brings it back."""

    async def work(session: JournalSession) -> Outcome:
        return await session.do("delete_record", record_id=(await session.find_any(name)).id)

    _tell(cli, with_journal(cli, work))


@click.command(cls=JsonCommand)
@_RECORD
@pass_cli
def restore(cli: CliContext, name: str) -> None:
    """Bring a deleted record back."""

    async def work(session: JournalSession) -> Outcome:
        record = await session.find_any(name, deleted=True)
        return await session.do("restore_record", record_id=record.id)

    _tell(cli, with_journal(cli, work))


@click.command(cls=JsonCommand)
@click.argument("change_id", metavar="ID")
@pass_cli
def undo(cli: CliContext, change_id: str) -> None:
    """Take back the change ID that was made by talking, if nothing of it was changed since."""

    async def work(session: JournalSession) -> Outcome:
        return await session.do("undo_change", change_id=change_id)

    _tell(cli, with_journal(cli, work))


async def _target(session: JournalSession, text: str) -> str:
    """A record; or a day, whose plan is made if there is none."""
    try:
        return (await session.find_any(text)).id
    except SilasError as unknown:
        try:
            wanted = parse_day(text, now=session.now, zone=session.zone, prefer="past")
        except SilasError:
            raise unknown from None
    made = await session.do("get_or_create_day_plan", plan_date=wanted.isoformat())
    return str(made.payload["day_plan_id"])


async def _names(session: JournalSession, entries: list[HistoryEntry]) -> dict[str, str]:
    """What the records are called whose ids are in a history."""
    ids = {
        str(one)
        for entry in entries
        for field, value in entry.after.items()
        if field.endswith(_IDS) and value
        for one in (value if isinstance(value, list) else [value])
    }
    return {each.id: _day_or_name(each) for each in await session.journal.get_many(sorted(ids))}


def _day_or_name(record: Record) -> str:
    return record.date.isoformat() if isinstance(record, DayPlan) else name_of(record)


def _who(actor: str) -> str:
    return "you" if actor == OWNER_ACTOR else visible_line(actor)


def _changed(entry: HistoryEntry, names: dict[str, str]) -> str:
    before = entry.before or {}
    return "; ".join(
        f"{_spoken(field)}: {_said(value, names)}"
        for field, value in entry.after.items()
        if field not in _OWN_FIELDS and value != before.get(field)
        if value not in _NOTHING or before.get(field) not in _NOTHING
    )


def _spoken(field: str) -> str:
    for ending in (*_IDS, "_at"):
        field = field.removesuffix(ending)
    return field.replace("_", " ")


def _said(value: Any, names: dict[str, str]) -> str:
    if value in _NOTHING:
        return "nothing"
    many = value if isinstance(value, list) else [value]
    return visible_line(", ".join(names.get(str(each), str(each)) for each in many))


def _tell(cli: CliContext, outcome: Outcome) -> None:
    lines = [record_line(each) for each in outcome.records]
    cli.show(shown(outcome), "\n".join(lines) or SO_ALREADY)


@click.command(cls=JsonCommand)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@pass_cli
def export(cli: CliContext, file: Path, *, force: bool) -> None:
    """Write the whole journal to FILE as JSON, tombstones included."""
    if file.exists() and not force:
        raise click.BadParameter(f"{file} exists already. Choose another name, or use --force.")

    async def work(session: JournalSession) -> dict[str, Any]:
        records = await session.journal.export()
        return write_json(records, host_id=session.journal.host_id, now=session.now)

    data = with_journal(cli, work)
    with translated(str(file)):
        text = json.dumps(data, ensure_ascii=False, indent=1)
        write_private_file(file, text.encode())
    count = len(data["records"])
    cli.show({"file": str(file), "records": count}, f"Wrote {count} records to {file}.")


@click.command("import", cls=JsonCommand)
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--format",
    "form",
    type=click.Choice(sorted(_FORMATS.values())),
    help="Else by its name.",
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

    async def work(session: JournalSession) -> int:
        if chosen == "json":
            records: Sequence[Data] = read_json(text)
        elif chosen == "csv":
            records = read_csv(text, now=session.now, zone=session.zone, category=category)
        else:
            records = read_todo_txt(text, zone=session.zone, category=category)
        return await _take_in(session, records, whole=chosen == "json", seed=f"{category}\n{text}")

    count = with_journal(cli, work)
    cli.show({"file": str(file), "changed": count}, f"{count} records are new or changed.")


async def _take_in(
    session: JournalSession, records: Sequence[Data], *, whole: bool, seed: str
) -> int:
    """Write in pieces; each has an id that follows from the file, so it is written once."""
    operation, argument = ("import_records", "records") if whole else ("import_tasks", "tasks")
    name, changed = hashlib.sha256(seed.encode()).hexdigest(), 0
    before = await session.journal.last_cursor()
    for number, piece in enumerate(_pieces([each.model_dump(mode="json") for each in records])):
        operation_id = None if whole else f"import:{name}:{number}"
        outcome = await change_journal(
            session.core, session.journal, operation, {argument: piece}, operation_id=operation_id
        )
        # An operation that was made before tells its first outcome; the journal is as it was.
        if await session.journal.last_cursor() > before:
            changed += len(outcome.changed_entity_ids)
            before = await session.journal.last_cursor()
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
        if file.stat().st_size > _MAX_FILE_BYTES:
            raise ImportRefused("This file is too large to be a journal.")
        content = file.read_bytes()
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ImportRefused("This file is not text in UTF-8. Nothing was changed.") from error
