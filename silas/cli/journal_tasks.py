"""`silas journal task`."""

from datetime import UTC, datetime, timedelta
from typing import Any

import click

from silas.cli.commands import JsonGroup
from silas.cli.context import CliContext, pass_cli
from silas.cli.journal_bench import Bench, shown, with_journal
from silas.journal import Outcome
from silas.journal.lines import checklist_lines, task_line, time_line, visible_line
from silas.journal.models import Priority, Task, TaskStatus
from silas.journal.moments import understand, understand_minutes
from silas.kernel import visible

_TASK = click.argument("task_name", metavar="TASK")
_CATEGORY = click.option("-c", "--category", metavar="NAME", help="Which part of your life.")
_STATUS = click.Choice([each.value for each in TaskStatus])
_PRIORITY = click.Choice([each.value for each in Priority], case_sensitive=False)
_NOTHING = "none"
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@click.group(cls=JsonGroup)
def task() -> None:
    """Write tasks down, change and finish them. TASK is the end of an id or a name's beginning."""


@task.command("add")
@click.argument("title")
@_CATEGORY
@click.option("-d", "--due", metavar="TIME", help="`tomorrow 9am`, `next friday`, `2026-03-01`.")
@click.option("-p", "--priority", type=_PRIORITY, default="P2", show_default=True)
@click.option("-e", "--estimate", metavar="TIME", help="`45m`, `1h30`.")
@click.option("-l", "--label", "labels", multiple=True, help="May be given several times.")
@click.option("-i", "--item", "items", multiple=True, help="An item of its checklist.")
@click.option("--language", metavar="CODE", help="`en`, `de-AT`.")
@click.option("--body", default="", help="More about it.")
@pass_cli
def add(cli: CliContext, /, title: str, **said: Any) -> None:
    """Write a task down. A category that is not there yet is made."""

    async def work(bench: Bench) -> tuple[Outcome, str]:
        outcome = await bench.do(
            "create_task",
            title=title,
            category_id=await bench.category(said["category"], make=True),
            due_at=bench.moment(said["due"], day_means="end") if said["due"] else None,
            priority=said["priority"],
            estimate_minutes=understand_minutes(said["estimate"]) if said["estimate"] else None,
            labels=said["labels"],
            language=said["language"],
            body=said["body"],
            checklist_items=said["items"],
        )
        return outcome, await _line(bench, str(outcome.payload["task_id"]))

    outcome, line = with_journal(cli, work)
    cli.show(shown(outcome), line)


@task.command("list")
@_CATEGORY
@click.option("-s", "--status", "statuses", type=_STATUS, multiple=True)
@click.option("-l", "--label", "labels", multiple=True)
@click.option("--due", metavar="TIME", help="Only what is due before then.")
@click.option("-a", "--all", "everything", is_flag=True, help="Also what is done or rejected.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True)
@pass_cli
def list_tasks(cli: CliContext, /, **said: Any) -> None:
    """Show tasks, the most pressing first."""

    async def work(bench: Bench) -> tuple[list[Task], list[str]]:
        category = await bench.category(said["category"])
        status = [TaskStatus(each) for each in said["statuses"]] or None
        found = await bench.journal.list_tasks(
            categories=None if category is None else {category},
            status=frozenset(TaskStatus) if said["everything"] else status,
            due_before=_due_before(bench, said["due"]),
            labels=said["labels"],
            limit=said["limit"],
        )
        names = await _names(bench)
        return found, [task_line(each, names, zone=bench.zone, now=bench.now) for each in found]

    found, lines = with_journal(cli, work)
    data = {"tasks": [each.model_dump(mode="json") for each in found]}
    cli.show(data, "\n".join(lines) or "No tasks. Add one: silas journal task add TITLE")


@task.command()
@_TASK
@pass_cli
def show(cli: CliContext, task_name: str) -> None:
    """Show a task whole."""

    async def work(bench: Bench) -> tuple[dict[str, Any], list[str]]:
        found = await bench.find(Task, task_name)
        lists = await bench.journal.checklists_of(found.id)
        entries = await bench.journal.time_entries(
            _LONG_AGO, bench.now + timedelta(days=2), task_id=found.id
        )
        lines = [await _line(bench, found.id), found.id]
        lines += [visible(found.body)] if found.body else []
        lines += [line for each, items in lists for line in checklist_lines(each, items)]
        lines += [time_line(each, {}, zone=bench.zone, now=bench.now) for each in entries]
        data = found.model_dump(mode="json") | {
            "checklists": [
                each.model_dump(mode="json") | {"items": [i.model_dump(mode="json") for i in items]}
                for each, items in lists
            ],
            "time_entries": [each.model_dump(mode="json") for each in entries],
        }
        return data, lines

    data, lines = with_journal(cli, work)
    cli.show(data, "\n".join(lines))


@task.command()
@_TASK
@click.option("-t", "--title")
@click.option("-c", "--category", metavar="NAME", help="Move it; `none` takes it out.")
@click.option("-d", "--due", metavar="TIME", help="`none` for no date.")
@click.option("-p", "--priority", type=_PRIORITY)
@click.option("-e", "--estimate", metavar="TIME", help="`none` for no estimate.")
@click.option("-s", "--status", type=_STATUS)
@click.option("-l", "--label", "labels", multiple=True, help="Its labels from now on.")
@click.option("--language", metavar="CODE")
@click.option("--body")
@pass_cli
def edit(cli: CliContext, /, task_name: str, **said: Any) -> None:
    """Change a task; what is not named stays as it is."""

    async def work(bench: Bench) -> tuple[Outcome, str]:
        found = await bench.find(Task, task_name)
        fields = await _fields(bench, said)
        if not fields:
            raise click.UsageError("Say what to change. See: silas journal task edit --help")
        outcome = await bench.do("update_task_fields", task_id=found.id, fields=fields)
        return outcome, await _line(bench, found.id)

    outcome, line = with_journal(cli, work)
    cli.show(shown(outcome), line)


@task.command()
@_TASK
@click.option("--rejected", is_flag=True, help="It is not to be done any more.")
@click.option("-f", "--follow-up", metavar="TITLE", help="What comes after it.")
@click.option("--rollover", is_flag=True, help="Open checklist items go to a follow-up task.")
@click.option("--preview", is_flag=True, help="Only say what would be changed.")
@pass_cli
def done(
    cli: CliContext,
    task_name: str,
    *,
    rejected: bool,
    follow_up: str | None,
    rollover: bool,
    preview: bool,
) -> None:
    """Finish a task."""

    async def work(bench: Bench) -> tuple[Outcome, list[str]]:
        found = await bench.find(Task, task_name)
        status = TaskStatus.REJECTED if rejected else TaskStatus.DONE
        if rollover or follow_up is not None:
            arguments: dict[str, Any] = {"close_as": status, "follow_up_title": follow_up}
            name = "conclude_task_with_rollover"
        else:
            arguments, name = {"fields": {"status": status}}, "update_task_fields"
        outcome = await bench.do(name, preview_only=preview, task_id=found.id, **arguments)
        names = await _names(bench)
        return outcome, [
            task_line(each, names, zone=bench.zone, now=bench.now)
            for each in outcome.records
            if isinstance(each, Task)
        ]

    outcome, lines = with_journal(cli, work)
    told = ["Nothing was changed. This would be:"] if outcome.preview else []
    cli.show(shown(outcome), "\n".join([*told, *lines]) or "It was so already.")


async def _fields(bench: Bench, said: dict[str, Any]) -> dict[str, Any]:
    plain = ("title", "priority", "status", "language", "body")
    fields: dict[str, Any] = {name: said[name] for name in plain if said[name] is not None}
    if said["labels"]:
        fields["labels"] = said["labels"]
    if said["category"] is not None:
        fields["category_id"] = (
            None if said["category"] == _NOTHING else await bench.category(said["category"])
        )
    if said["due"] is not None:
        due = said["due"]
        fields["due_at"] = None if due == _NOTHING else bench.moment(due, day_means="end")
    if said["estimate"] is not None:
        took = said["estimate"]
        fields["estimate_minutes"] = None if took == _NOTHING else understand_minutes(took)
    return fields


def _due_before(bench: Bench, text: str | None) -> datetime | None:
    if text is None:
        return None
    return understand(text, now=bench.now, zone=bench.zone, day_means="end") + timedelta(minutes=1)


async def _line(bench: Bench, task_id: str) -> str:
    found = await bench.journal.get(Task, task_id)
    return task_line(found, await _names(bench), zone=bench.zone, now=bench.now)


async def _names(bench: Bench) -> dict[str, str]:
    return {each.id: visible_line(each.name) for each in await bench.journal.categories()}
