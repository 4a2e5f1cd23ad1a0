"""`silas journal day` and `silas journal today`."""

from datetime import date, datetime
from typing import Any

import click

from silas.cli.commands import JsonCommand, JsonGroup
from silas.cli.context import CliContext, pass_cli
from silas.cli.journal_bench import Bench, shown, with_journal
from silas.cli.journal_lines import block_line, day_name, task_line, time_line
from silas.cli.journal_times import names_of
from silas.journal import Outcome
from silas.journal.models import DayBlock, DayPlan, Task
from silas.journal.moments import day_bounds, understand, understand_day
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
    begin, end = day_bounds(wanted, bench.zone)
    plan = await bench.journal.day_plan(wanted)
    blocks = plan[1] if plan else []
    running = await bench.journal.running_timer()
    due = await bench.journal.list_tasks(due_before=end)
    pinned = await bench.journal.get_many(plan[0].pinned_task_ids if plan else ())
    tasks = [each for each in pinned if isinstance(each, Task) and not each.deleted]
    now = bench.now
    lines = [day_name(wanted, now.astimezone(bench.zone).date())]
    lines += await _block_lines(bench, blocks)
    if running is not None and begin <= now < end:
        names = await names_of(bench, [running])
        lines.append(f"Timer: {time_line(running, names, zone=bench.zone, now=now)}")
    lines += await _task_lines(bench, "Pinned:", tasks, now)
    lines += await _task_lines(bench, "Due:", due, now)
    data = {
        "date": wanted.isoformat(),
        "plan": plan[0].model_dump(mode="json") if plan else None,
        "blocks": [each.model_dump(mode="json") for each in blocks],
        "running_timer": running.model_dump(mode="json") if running else None,
        "pinned": [each.model_dump(mode="json") for each in tasks],
        "due": [each.model_dump(mode="json") for each in due],
    }
    return data, lines if len(lines) > 1 else [*lines, "Nothing is planned, and nothing is due."]


async def _block_lines(bench: Bench, blocks: list[DayBlock]) -> list[str]:
    wanted = {name for each in blocks for name in (each.task_id, each.category_id) if name}
    found = await bench.journal.get_many(wanted)
    names = {each.id: getattr(each, "title", "") or getattr(each, "name", "") for each in found}
    return [f"  {block_line(each, names, zone=bench.zone)}" for each in blocks]


async def _task_lines(bench: Bench, head: str, tasks: list[Task], now: datetime) -> list[str]:
    names = {each.id: each.name for each in await bench.journal.categories()}
    lines = [f"  {task_line(each, names, zone=bench.zone, now=now)}" for each in tasks]
    return [head, *lines] if lines else []
