"""`silas journal time`, `day` and `today`."""

from datetime import date, datetime, timedelta
from typing import Any

import click

from silas.cli.commands import CliContext, JsonCommand, JsonGroup, pass_cli
from silas.cli.journal_session import SO_ALREADY, JournalSession, shown, with_journal
from silas.journal import Outcome
from silas.journal.lines import duration, read_day, time_line
from silas.journal.models import DayBlock, DayPlan, Task, TimeEntry
from silas.kernel import format_timestamp
from silas.kernel.when import day_bounds, parse_day, parse_minutes, parse_moment

_CATEGORY = click.option("-c", "--category", metavar="NAME", help="For time without a task.")
_NOTE = click.option("-n", "--note", default="", help="What it was spent on.")
_DATE = click.option("-d", "--date", "day_text", metavar="DAY", default="today", show_default=True)


@click.group(cls=JsonGroup)
def time() -> None:
    """The timer, and where time went."""


@time.command()
@click.argument("task_name", metavar="TASK", required=False)
@_CATEGORY
@_NOTE
@pass_cli
def start(cli: CliContext, task_name: str | None, category: str | None, note: str) -> None:
    """Start the timer; the one that runs is stopped."""

    async def work(session: JournalSession) -> tuple[Outcome, list[str]]:
        outcome = await session.do(
            "start_task_timer",
            task_id=None if task_name is None else (await session.find(Task, task_name)).id,
            category_id=await session.category(category, make=True),
            note=note,
        )
        return outcome, await _lines(session, outcome)

    outcome, lines = with_journal(cli, work)
    cli.show(shown(outcome), "\n".join(lines) or "It runs already.")


@time.command()
@click.option("-n", "--note", help="What it was spent on.")
@pass_cli
def stop(cli: CliContext, note: str | None) -> None:
    """Stop the timer."""

    async def work(session: JournalSession) -> tuple[Outcome, list[str]]:
        outcome = await session.do("stop_task_timer", note=note)
        return outcome, await _lines(session, outcome)

    outcome, lines = with_journal(cli, work)
    cli.show(shown(outcome), "\n".join(lines))


@time.command()
@click.argument("task_name", metavar="TASK", required=False)
@click.option("-f", "--from", "begin", metavar="TIME", required=True, help="`9am`, `2h ago`.")
@click.option("-t", "--to", "end", metavar="TIME", help="`10:30`; now if neither is given.")
@click.option("--for", "length", metavar="TIME", help="`45m`, `1h30`, instead of --to.")
@_CATEGORY
@_NOTE
@pass_cli
def log(
    cli: CliContext,
    task_name: str | None,
    *,
    begin: str,
    end: str | None,
    length: str | None,
    category: str | None,
    note: str,
) -> None:
    """Write time down that was spent without a timer."""
    if end is not None and length is not None:
        raise click.UsageError("Say either --to or --for.")

    async def work(session: JournalSession) -> tuple[Outcome, list[str]]:
        started = parse_moment(begin, now=session.now, zone=session.zone, prefer="past")
        ended = _end(session, started, end, length)
        outcome = await session.do(
            "create_retrospective_time_entry",
            task_id=None if task_name is None else (await session.find(Task, task_name)).id,
            category_id=await session.category(category, make=True),
            started_at=format_timestamp(started),
            ended_at=format_timestamp(ended),
            description=note,
        )
        return outcome, await _lines(session, outcome)

    outcome, lines = with_journal(cli, work)
    cli.show(shown(outcome), "\n".join(lines))


@time.command("list")
@click.option("--since", metavar="TIME", default="today", show_default=True)
@click.option("--until", metavar="TIME", help="The end of today if not given.")
@_CATEGORY
@pass_cli
def list_entries(cli: CliContext, since: str, until: str | None, category: str | None) -> None:
    """Show where time went."""

    async def work(session: JournalSession) -> tuple[list[TimeEntry], list[str]]:
        begin = parse_moment(since, now=session.now, zone=session.zone, prefer="past")
        _, tonight = day_bounds(session.now.astimezone(session.zone).date(), session.zone)
        end = tonight
        if until is not None:
            end = parse_moment(until, now=session.now, zone=session.zone, day_means="end")
        limit = await session.category(category)
        found = await session.journal.time_entries(
            begin, end, categories=None if limit is None else {limit}
        )
        names = await names_of(session, found)
        lines = [time_line(each, names, zone=session.zone, now=session.now) for each in found]
        spent = sum(((e.ended_at or session.now) - e.started_at for e in found), timedelta())
        return found, [*lines, f"{duration(spent)} in all"] if found else []

    found, lines = with_journal(cli, work)
    data = {"time_entries": [each.model_dump(mode="json") for each in found]}
    cli.show(data, "\n".join(lines) or "No time was written down.")


@time.command()
@click.argument("entry_name", metavar="ENTRY")
@click.argument("text")
@pass_cli
def note(cli: CliContext, entry_name: str, text: str) -> None:
    """Say what a stretch of time was spent on."""

    async def work(session: JournalSession) -> tuple[Outcome, list[str]]:
        entry = await session.find(TimeEntry, entry_name)
        outcome = await session.do("annotate_time_entry", time_entry_id=entry.id, note=text)
        return outcome, await _lines(session, outcome)

    outcome, lines = with_journal(cli, work)
    cli.show(shown(outcome), "\n".join(lines) or SO_ALREADY)


async def names_of(session: JournalSession, entries: list[TimeEntry]) -> dict[str, str]:
    """What the tasks and categories of these are called."""
    wanted = {name for each in entries for name in (each.task_id, each.category_id) if name}
    found = await session.journal.get_many(wanted)
    return {each.id: getattr(each, "title", "") or getattr(each, "name", "") for each in found}


def _end(
    session: JournalSession, started: datetime, end: str | None, length: str | None
) -> datetime:
    if length is not None:
        return started + timedelta(minutes=parse_minutes(length))
    if end is None:
        return session.now
    # `--from "yesterday 9am" --to 11am` ends on the day on which it began.
    return parse_moment(end, now=started, zone=session.zone, prefer="future")


async def _lines(session: JournalSession, outcome: Outcome) -> list[str]:
    entries = [each for each in outcome.records if isinstance(each, TimeEntry)]
    names = await names_of(session, entries)
    return [time_line(each, names, zone=session.zone, now=session.now) for each in entries]


@click.group(cls=JsonGroup)
def day() -> None:
    """Plan a day: blocks of time, and tasks that are pinned to it."""


@day.command()
@click.argument("day_text", metavar="DAY", default="today")
@pass_cli
def show(cli: CliContext, day_text: str) -> None:
    """Show the plan of a day."""
    _show(cli, day_text)


@click.command(cls=JsonCommand)
@pass_cli
def today(cli: CliContext) -> None:
    """Show what today is about: its plan, the timer, and what is due."""
    _show(cli, "today")


@day.command()
@click.argument("begin")
@click.argument("end")
@click.option("-t", "--task", "task_name", metavar="TASK")
@click.option("-c", "--category", metavar="NAME")
@click.option("-n", "--note", default="")
@_DATE
@pass_cli
def add(cli: CliContext, /, begin: str, end: str, day_text: str, **said: Any) -> None:
    """Add a block from BEGIN to END: `silas journal day add 9:00 10:30 -t squats`."""

    async def work(session: JournalSession) -> Outcome:
        wanted = parse_day(day_text, now=session.now, zone=session.zone)
        task = said["task_name"]
        block = {
            "start_time": _on(session, wanted, begin),
            "end_time": _on(session, wanted, end),
            "task_id": (await session.find(Task, task)).id if task else None,
            "category_id": await session.category(said["category"], make=True),
            "note": said["note"],
        }
        return await session.do(
            "upsert_day_plan_blocks", plan_date=wanted.isoformat(), upserts=[block]
        )

    outcome = with_journal(cli, work)
    cli.show(shown(outcome), "Planned.")


@day.command()
@click.argument("block_name", metavar="BLOCK")
@pass_cli
def remove(cli: CliContext, block_name: str) -> None:
    """Take a block out of its plan."""

    async def work(session: JournalSession) -> Outcome:
        block = await session.find(DayBlock, block_name)
        plan = await session.journal.get(DayPlan, block.day_plan_id)
        return await session.do(
            "upsert_day_plan_blocks", plan_date=plan.date.isoformat(), deletes=[block.id]
        )

    cli.show(shown(with_journal(cli, work)), "Taken out.")


@day.command()
@click.argument("task_names", metavar="TASK…", nargs=-1, required=True)
@click.option("--off", is_flag=True, help="Take them off again.")
@_DATE
@pass_cli
def pin(cli: CliContext, task_names: tuple[str, ...], day_text: str, *, off: bool) -> None:
    """Pin tasks to a day."""

    async def work(session: JournalSession) -> Outcome:
        wanted = parse_day(day_text, now=session.now, zone=session.zone)
        tasks = [(await session.find(Task, name)).id for name in task_names]
        which: dict[str, Any] = {"unpin": tasks} if off else {"task_ids": tasks}
        return await session.do("pin_day_plan_tasks", plan_date=wanted.isoformat(), **which)

    cli.show(shown(with_journal(cli, work)), "Taken off." if off else "Pinned.")


def _on(session: JournalSession, day: date, text: str) -> str:
    """A time of day on that day; a whole moment is taken as it is."""
    start, _ = day_bounds(day, session.zone)
    return format_timestamp(parse_moment(text, now=start, zone=session.zone))


def _show(cli: CliContext, day_text: str) -> None:
    async def work(session: JournalSession) -> tuple[dict[str, Any], list[str]]:
        wanted = parse_day(day_text, now=session.now, zone=session.zone)
        return await _day(session, wanted)

    data, lines = with_journal(cli, work)
    cli.show(data, "\n".join(lines))


async def _day(session: JournalSession, wanted: date) -> tuple[dict[str, Any], list[str]]:
    view = await session.journal.read(lambda reader: read_day(reader, wanted, zone=session.zone))
    data = {
        "date": wanted.isoformat(),
        "plan": view.plan.model_dump(mode="json") if view.plan else None,
        "blocks": [each.model_dump(mode="json") for each in view.blocks],
        "running_timer": view.running.model_dump(mode="json") if view.running else None,
        "pinned": [each.model_dump(mode="json") for each in view.pinned],
        "due": [each.model_dump(mode="json") for each in view.due],
    }
    return data, view.lines(zone=session.zone, now=session.now)
