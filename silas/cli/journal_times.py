"""`silas journal time`."""

from datetime import datetime, timedelta

import click

from silas.cli.commands import JsonGroup
from silas.cli.context import CliContext, pass_cli
from silas.cli.journal_bench import Bench, shown, with_journal
from silas.journal import Outcome
from silas.journal.lines import duration, time_line
from silas.journal.models import Task, TimeEntry
from silas.journal.moments import day_bounds, understand, understand_minutes
from silas.kernel import format_timestamp

_CATEGORY = click.option("-c", "--category", metavar="NAME", help="For time without a task.")
_NOTE = click.option("-n", "--note", default="", help="What it was spent on.")


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

    async def work(bench: Bench) -> tuple[Outcome, list[str]]:
        outcome = await bench.do(
            "start_task_timer",
            task_id=None if task_name is None else (await bench.find(Task, task_name)).id,
            category_id=await bench.category(category, make=True),
            note=note,
        )
        return outcome, await _lines(bench, outcome)

    outcome, lines = with_journal(cli, work)
    cli.show(shown(outcome), "\n".join(lines) or "It runs already.")


@time.command()
@click.option("-n", "--note", help="What it was spent on.")
@pass_cli
def stop(cli: CliContext, note: str | None) -> None:
    """Stop the timer."""

    async def work(bench: Bench) -> tuple[Outcome, list[str]]:
        outcome = await bench.do("stop_task_timer", note=note)
        return outcome, await _lines(bench, outcome)

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

    async def work(bench: Bench) -> tuple[Outcome, list[str]]:
        started = understand(begin, now=bench.now, zone=bench.zone, prefer="past")
        ended = _end(bench, started, end, length)
        outcome = await bench.do(
            "create_retrospective_time_entry",
            task_id=None if task_name is None else (await bench.find(Task, task_name)).id,
            category_id=await bench.category(category, make=True),
            started_at=format_timestamp(started),
            ended_at=format_timestamp(ended),
            description=note,
        )
        return outcome, await _lines(bench, outcome)

    outcome, lines = with_journal(cli, work)
    cli.show(shown(outcome), "\n".join(lines))


@time.command("list")
@click.option("--since", metavar="TIME", default="today", show_default=True)
@click.option("--until", metavar="TIME", help="The end of today if not given.")
@_CATEGORY
@pass_cli
def list_entries(cli: CliContext, since: str, until: str | None, category: str | None) -> None:
    """Show where time went."""

    async def work(bench: Bench) -> tuple[list[TimeEntry], list[str]]:
        begin = understand(since, now=bench.now, zone=bench.zone, prefer="past")
        _, tonight = day_bounds(bench.now.astimezone(bench.zone).date(), bench.zone)
        end = tonight
        if until is not None:
            end = understand(until, now=bench.now, zone=bench.zone, day_means="end")
        limit = await bench.category(category)
        found = await bench.journal.time_entries(
            begin, end, categories=None if limit is None else {limit}
        )
        names = await names_of(bench, found)
        lines = [time_line(each, names, zone=bench.zone, now=bench.now) for each in found]
        spent = sum(((e.ended_at or bench.now) - e.started_at for e in found), timedelta())
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

    async def work(bench: Bench) -> tuple[Outcome, list[str]]:
        entry = await bench.find(TimeEntry, entry_name)
        outcome = await bench.do("annotate_time_entry", time_entry_id=entry.id, note=text)
        return outcome, await _lines(bench, outcome)

    outcome, lines = with_journal(cli, work)
    cli.show(shown(outcome), "\n".join(lines) or "It was so already.")


async def names_of(bench: Bench, entries: list[TimeEntry]) -> dict[str, str]:
    """What the tasks and categories of these are called."""
    wanted = {name for each in entries for name in (each.task_id, each.category_id) if name}
    found = await bench.journal.get_many(wanted)
    return {each.id: getattr(each, "title", "") or getattr(each, "name", "") for each in found}


def _end(bench: Bench, started: datetime, end: str | None, length: str | None) -> datetime:
    if length is not None:
        return started + timedelta(minutes=understand_minutes(length))
    if end is None:
        return bench.now
    # `--from "yesterday 9am" --to 11am` ends on the day on which it began.
    return understand(end, now=started, zone=bench.zone, prefer="future")


async def _lines(bench: Bench, outcome: Outcome) -> list[str]:
    entries = [each for each in outcome.records if isinstance(each, TimeEntry)]
    names = await names_of(bench, entries)
    return [time_line(each, names, zone=bench.zone, now=bench.now) for each in entries]
