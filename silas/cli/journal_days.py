"""`silas journal day` and `silas journal today`."""

from datetime import date
from typing import Any

import click

from silas.cli.commands import JsonCommand, JsonGroup
from silas.cli.context import CliContext, pass_cli
from silas.cli.journal_bench import Bench, shown, with_journal
from silas.journal import Outcome
from silas.journal.models import DayBlock, DayPlan, Task
from silas.journal.moments import day_bounds, understand, understand_day
from silas.journal.overview import read_day
from silas.kernel import format_timestamp

_DATE = click.option("-d", "--date", "day_text", metavar="DAY", default="today", show_default=True)


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

    async def work(bench: Bench) -> Outcome:
        wanted = understand_day(day_text, now=bench.now, zone=bench.zone)
        task = said["task_name"]
        block = {
            "start_time": _on(bench, wanted, begin),
            "end_time": _on(bench, wanted, end),
            "task_id": (await bench.find(Task, task)).id if task else None,
            "category_id": await bench.category(said["category"], make=True),
            "note": said["note"],
        }
        return await bench.do(
            "upsert_day_plan_blocks", plan_date=wanted.isoformat(), upserts=[block]
        )

    outcome = with_journal(cli, work)
    cli.show(shown(outcome), "Planned.")


@day.command()
@click.argument("block_name", metavar="BLOCK")
@pass_cli
def remove(cli: CliContext, block_name: str) -> None:
    """Take a block out of its plan."""

    async def work(bench: Bench) -> Outcome:
        block = await bench.find(DayBlock, block_name)
        plan = await bench.journal.get(DayPlan, block.day_plan_id)
        return await bench.do(
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

    async def work(bench: Bench) -> Outcome:
        wanted = understand_day(day_text, now=bench.now, zone=bench.zone)
        tasks = [(await bench.find(Task, name)).id for name in task_names]
        which: dict[str, Any] = {"unpin": tasks} if off else {"task_ids": tasks}
        return await bench.do("pin_day_plan_tasks", plan_date=wanted.isoformat(), **which)

    cli.show(shown(with_journal(cli, work)), "Taken off." if off else "Pinned.")


def _on(bench: Bench, day: date, text: str) -> str:
    """A time of day on that day; a whole moment is taken as it is."""
    start, _ = day_bounds(day, bench.zone)
    return format_timestamp(understand(text, now=start, zone=bench.zone))


def _show(cli: CliContext, day_text: str) -> None:
    async def work(bench: Bench) -> tuple[dict[str, Any], list[str]]:
        wanted = understand_day(day_text, now=bench.now, zone=bench.zone)
        return await _day(bench, wanted)

    data, lines = with_journal(cli, work)
    cli.show(data, "\n".join(lines))


async def _day(bench: Bench, wanted: date) -> tuple[dict[str, Any], list[str]]:
    view = await bench.journal.read(lambda reader: read_day(reader, wanted, zone=bench.zone))
    data = {
        "date": wanted.isoformat(),
        "plan": view.plan.model_dump(mode="json") if view.plan else None,
        "blocks": [each.model_dump(mode="json") for each in view.blocks],
        "running_timer": view.running.model_dump(mode="json") if view.running else None,
        "pinned": [each.model_dump(mode="json") for each in view.pinned],
        "due": [each.model_dump(mode="json") for each in view.due],
    }
    return data, view.lines(zone=bench.zone, now=bench.now)
