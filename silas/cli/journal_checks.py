"""`silas journal check`."""

from typing import Any

import click

from silas.cli.commands import JsonGroup
from silas.cli.context import CliContext, pass_cli
from silas.cli.journal_bench import Bench, shown, with_journal
from silas.journal import Outcome
from silas.journal.lines import checklist_lines, item_line
from silas.journal.models import Checklist, ChecklistItem, Task

_TASK = click.argument("task_name", metavar="TASK")
_ITEMS = click.argument("names", metavar="ITEM…", nargs=-1, required=True)


@click.group(cls=JsonGroup)
def check() -> None:
    """Checklists of tasks. An item is named by the end of its id or its first words."""


@check.command("add")
@_TASK
@click.argument("items", nargs=-1, required=True)
@click.option("--list", "title", metavar="TITLE", help="Make a new checklist of this name.")
@pass_cli
def add(cli: CliContext, task_name: str, items: tuple[str, ...], title: str | None) -> None:
    """Add items to the checklist of a task."""

    async def work(bench: Bench) -> Outcome:
        found = await bench.find(Task, task_name)
        if title is not None:
            return await bench.do("create_checklist", task_id=found.id, title=title, items=items)
        return await bench.do("add_multiple_checklist_items", task_id=found.id, items=items)

    _tell(cli, with_journal(cli, work))


@check.command("list")
@_TASK
@pass_cli
def list_items(cli: CliContext, task_name: str) -> None:
    """Show the checklists of a task."""

    async def work(bench: Bench) -> list[tuple[Checklist, list[ChecklistItem]]]:
        found = await bench.find(Task, task_name)
        return await bench.journal.checklists_of(found.id)

    lists = with_journal(cli, work)
    data = [
        each.model_dump(mode="json") | {"items": [item.model_dump(mode="json") for item in items]}
        for each, items in lists
    ]
    lines = [line for each, items in lists for line in checklist_lines(each, items)]
    cli.show({"checklists": data}, "\n".join(lines) or "This task has no checklist.")


@check.command("done")
@_ITEMS
@pass_cli
def done(cli: CliContext, names: tuple[str, ...]) -> None:
    """Check items off."""
    _set(cli, names, checked=True)


@check.command("undo")
@_ITEMS
@pass_cli
def undo(cli: CliContext, names: tuple[str, ...]) -> None:
    """Take check marks away."""
    _set(cli, names, checked=False)


@check.command("move")
@click.argument("names", metavar="ITEM…", nargs=-1, required=True)
@click.option("--to", "target", metavar="TASK", help="A task; its first checklist takes them.")
@click.option("--new-task", metavar="TITLE", help="Make a task of them.")
@pass_cli
def move(cli: CliContext, names: tuple[str, ...], target: str | None, new_task: str | None) -> None:
    """Move items of one checklist to another task, or make a new task of them."""
    if (target is None) == (new_task is None):
        raise click.UsageError("Say either --to TASK or --new-task TITLE.")

    async def work(bench: Bench) -> Outcome:
        items = [await bench.find(ChecklistItem, name) for name in names]
        source = items[0].checklist_id
        moved: dict[str, Any] = {
            "item_ids": [item.id for item in items],
            "from_checklist_id": source,
        }
        if new_task is not None:
            return await bench.do(
                "move_checklist_items_to_new_task", new_task_title=new_task, **moved
            )
        return await bench.do(
            "move_checklist_items", to_checklist_id=await _list_of(bench, str(target)), **moved
        )

    _tell(cli, with_journal(cli, work))


async def _list_of(bench: Bench, task_name: str) -> str:
    found = await bench.find(Task, task_name)
    lists = await bench.journal.checklists_of(found.id)
    if lists:
        return lists[0][0].id
    made = await bench.do("create_checklist", task_id=found.id)
    return str(made.payload["checklist_id"])


def _set(cli: CliContext, names: tuple[str, ...], *, checked: bool) -> None:
    async def work(bench: Bench) -> Outcome:
        items = [await bench.find(ChecklistItem, name) for name in names]
        updates = [{"id": item.id, "checked": checked} for item in items]
        return await bench.do("update_checklist_items", updates=updates)

    _tell(cli, with_journal(cli, work))


def _tell(cli: CliContext, outcome: Outcome) -> None:
    lines = [item_line(each) for each in outcome.records if isinstance(each, ChecklistItem)]
    cli.show(shown(outcome), "\n".join(lines) or "It was so already.")
