"""`silas journal task` and `check`: tasks and their checklists."""

from datetime import UTC, datetime, timedelta
from typing import Any

import click

from silas.cli.commands import CliContext, JsonGroup, pass_cli
from silas.cli.journal_session import SO_ALREADY, JournalSession, shown, with_journal
from silas.journal import Outcome
from silas.journal.conversation import reminder_moment
from silas.journal.lines import (
    checklist_lines,
    item_line,
    reminder_line,
    short_id,
    task_line,
    time_line,
    visible_line,
)
from silas.journal.models import (
    Checklist,
    ChecklistItem,
    Priority,
    Recurrence,
    Task,
    TaskStatus,
)
from silas.journal.queries import with_reminder
from silas.kernel import format_timestamp, visible
from silas.kernel.when import parse_minutes, parse_moment

_TASK = click.argument("task_name", metavar="TASK")
_CATEGORY = click.option("-c", "--category", metavar="NAME", help="Which part of your life.")
_STATUS = click.Choice([each.value for each in TaskStatus])
_PRIORITY = click.Choice([each.value for each in Priority], case_sensitive=False)
_NOTHING = "none"
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_OF_TASK = click.argument("task_name", metavar="TASK")
_ITEMS = click.argument("names", metavar="ITEM…", nargs=-1, required=True)


@click.group(cls=JsonGroup)
def task() -> None:
    """Write tasks down, change and finish them. TASK is the end of an id or a name's beginning."""


@task.command("add")
@click.argument("title")
@_CATEGORY
@click.option("-d", "--due", metavar="TIME", help="`tomorrow 9am`, `next friday`, `2026-03-01`.")
@click.option("--every", metavar="TIMES", help="It comes again: `monday`, `day at 9am`, `month`.")
@click.option("--remind", metavar="TIME", help="When to remind you; `due` for when it is due.")
@click.option("-p", "--priority", type=_PRIORITY, default="P2", show_default=True)
@click.option("-e", "--estimate", metavar="TIME", help="`45m`, `1h30`.")
@click.option("-l", "--label", "labels", multiple=True, help="May be given several times.")
@click.option("-i", "--item", "items", multiple=True, help="An item of its checklist.")
@click.option("--language", metavar="CODE", help="`en`, `de-AT`.")
@click.option("--body", default="", help="More about it.")
@pass_cli
def add(cli: CliContext, /, title: str, **said: Any) -> None:
    """Write a task down. A category that is not there yet is made."""

    async def work(session: JournalSession) -> tuple[Outcome, str]:
        outcome = await session.do(
            "create_task",
            title=title,
            category_id=await session.category(said["category"], make=True),
            **_times(session, said["due"], said["every"], said["remind"]),
            priority=said["priority"],
            estimate_minutes=parse_minutes(said["estimate"]) if said["estimate"] else None,
            labels=said["labels"],
            language=said["language"],
            body=said["body"],
            checklist_items=said["items"],
        )
        return outcome, await _line(session, str(outcome.payload["task_id"]))

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

    async def work(session: JournalSession) -> tuple[list[Task], list[str]]:
        category = await session.category(said["category"])
        status = [TaskStatus(each) for each in said["statuses"]] or None
        found = await session.journal.list_tasks(
            categories=None if category is None else {category},
            status=frozenset(TaskStatus) if said["everything"] else status,
            due_before=_due_before(session, said["due"]),
            labels=said["labels"],
            limit=said["limit"],
        )
        names = await _names(session)
        return found, [task_line(each, names, zone=session.zone, now=session.now) for each in found]

    found, lines = with_journal(cli, work)
    data = {"tasks": [each.model_dump(mode="json") for each in found]}
    cli.show(data, "\n".join(lines) or "No tasks. Add one: silas journal task add TITLE")


@task.command()
@_TASK
@pass_cli
def show(cli: CliContext, task_name: str) -> None:
    """Show a task whole."""

    async def work(session: JournalSession) -> tuple[dict[str, Any], list[str]]:
        found = await session.find(Task, task_name)
        lists = await session.journal.checklists_of(found.id)
        entries = await session.journal.time_entries(
            _LONG_AGO, session.now + timedelta(days=2), task_id=found.id
        )
        lines = [await _line(session, found.id), found.id]
        lines += [visible(found.body)] if found.body else []
        lines += [line for each, items in lists for line in checklist_lines(each, items)]
        lines += [time_line(each, {}, zone=session.zone, now=session.now) for each in entries]
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
@click.option("--every", metavar="TIMES", help="It comes again: `monday`; `none` for no more.")
@click.option("--remind", metavar="TIME", help="`due` for when it is due; `none` for no reminder.")
@click.option("-p", "--priority", type=_PRIORITY)
@click.option("-e", "--estimate", metavar="TIME", help="`none` for no estimate.")
@click.option("-s", "--status", type=_STATUS)
@click.option("-l", "--label", "labels", multiple=True, help="Its labels from now on.")
@click.option("--language", metavar="CODE")
@click.option("--body")
@pass_cli
def edit(cli: CliContext, /, task_name: str, **said: Any) -> None:
    """Change a task; what is not named stays as it is."""

    async def work(session: JournalSession) -> tuple[Outcome, str]:
        found = await session.find(Task, task_name)
        fields = await _fields(session, said, found)
        if not fields:
            raise click.UsageError("Say what to change. See: silas journal task edit --help")
        outcome = await session.do("update_task_fields", task_id=found.id, fields=fields)
        return outcome, await _line(session, found.id)

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

    async def work(session: JournalSession) -> tuple[Outcome, list[str]]:
        found = await session.find(Task, task_name)
        status = TaskStatus.REJECTED if rejected else TaskStatus.DONE
        if rollover or follow_up is not None:
            arguments: dict[str, Any] = {"close_as": status, "follow_up_title": follow_up}
            name = "conclude_task_with_rollover"
        else:
            arguments, name = {"fields": {"status": status}}, "update_task_fields"
        outcome = await session.do(name, preview_only=preview, task_id=found.id, **arguments)
        names = await _names(session)
        return outcome, [
            task_line(each, names, zone=session.zone, now=session.now)
            for each in outcome.records
            if isinstance(each, Task)
        ]

    outcome, lines = with_journal(cli, work)
    notice = ["Nothing was changed. This would be:"] if outcome.preview else []
    cli.show(shown(outcome), "\n".join([*notice, *lines]) or SO_ALREADY)


def _times(
    session: JournalSession, due: str | None, every: str | None, remind: str | None
) -> dict[str, Any]:
    """When a new task is due, comes again and is told of."""
    repeats = session.recurrence(every) if every else None
    due_at = session.moment(due, day_means="end") if due else None
    if repeats is not None and due_at is None:
        first = Recurrence.model_validate(repeats).next_after(session.now)
        due_at = format_timestamp(first) if first else None
    return {
        "due_at": due_at,
        "repeats": repeats,
        "remind_at": _remind_at(session, remind, due_at) if remind else None,
    }


def _remind_at(session: JournalSession, text: str, due_at: str | None) -> str:
    if text != "due":
        return format_timestamp(reminder_moment(text, now=session.now, zone=session.zone))
    if due_at is None:
        raise click.UsageError("`--remind due` needs a task with a date: say --due or --every.")
    return due_at


async def _fields(session: JournalSession, said: dict[str, Any], task: Task) -> dict[str, Any]:
    plain = ("title", "priority", "status", "language", "body")
    fields: dict[str, Any] = {name: said[name] for name in plain if said[name] is not None}
    if said["labels"]:
        fields["labels"] = said["labels"]
    if said["category"] is not None:
        fields["category_id"] = (
            None if said["category"] == _NOTHING else await session.category(said["category"])
        )
    if said["due"] is not None:
        due = said["due"]
        fields["due_at"] = None if due == _NOTHING else session.moment(due, day_means="end")
    if said["every"] is not None:
        every = said["every"]
        fields["repeats"] = None if every == _NOTHING else session.recurrence(every)
    if said["remind"] is not None:
        fields["remind_at"] = _new_reminder(session, said["remind"], fields, task)
    if said["estimate"] is not None:
        took = said["estimate"]
        fields["estimate_minutes"] = None if took == _NOTHING else parse_minutes(took)
    return fields


def _new_reminder(
    session: JournalSession, text: str, fields: dict[str, Any], task: Task
) -> str | None:
    if text == _NOTHING:
        return None
    due = fields.get("due_at", format_timestamp(task.due_at) if task.due_at else None)
    if fields.get("repeats") is not None and "due_at" not in fields:
        first = Recurrence.model_validate(fields["repeats"]).next_after(session.now)
        due = format_timestamp(first) if first else None
    return _remind_at(session, text, due)


@task.command("reminders")
@pass_cli
def reminders(cli: CliContext) -> None:
    """Show what you will be reminded of, the next first."""

    async def work(session: JournalSession) -> tuple[list[Task], list[str]]:
        tasks = await session.journal.read(with_reminder)
        coming = [each for each in tasks if each.reminder_after(session.now) is not None]
        return coming, [
            f"{short_id(each.id)}  {reminder_line(each, zone=session.zone, now=session.now)}"
            for each in coming
        ]

    found, lines = with_journal(cli, work)
    data = {"tasks": [each.model_dump(mode="json") for each in found]}
    cli.show(data, "\n".join(lines) or "No reminders. Set one: silas journal task add … --remind")


def _due_before(session: JournalSession, text: str | None) -> datetime | None:
    if text is None:
        return None
    return parse_moment(text, now=session.now, zone=session.zone, day_means="end") + timedelta(
        minutes=1
    )


async def _line(session: JournalSession, task_id: str) -> str:
    found = await session.journal.get(Task, task_id)
    return task_line(found, await _names(session), zone=session.zone, now=session.now)


async def _names(session: JournalSession) -> dict[str, str]:
    return {each.id: visible_line(each.name) for each in await session.journal.categories()}


@click.group(cls=JsonGroup)
def check() -> None:
    """Checklists of tasks. An item is named by the end of its id or its first words."""


@check.command("add")
@_OF_TASK
@click.argument("items", nargs=-1, required=True)
@click.option("--list", "title", metavar="TITLE", help="Make a new checklist of this name.")
@pass_cli
def add_items(cli: CliContext, task_name: str, items: tuple[str, ...], title: str | None) -> None:
    """Add items to the checklist of a task."""

    async def work(session: JournalSession) -> Outcome:
        found = await session.find(Task, task_name)
        if title is not None:
            return await session.do("create_checklist", task_id=found.id, title=title, items=items)
        return await session.do("add_multiple_checklist_items", task_id=found.id, items=items)

    _show_items(cli, with_journal(cli, work))


@check.command("list")
@_OF_TASK
@pass_cli
def list_items(cli: CliContext, task_name: str) -> None:
    """Show the checklists of a task."""

    async def work(session: JournalSession) -> list[tuple[Checklist, list[ChecklistItem]]]:
        found = await session.find(Task, task_name)
        return await session.journal.checklists_of(found.id)

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
def tick(cli: CliContext, names: tuple[str, ...]) -> None:
    """Check items off."""
    _set(cli, names, checked=True)


@check.command("undo")
@_ITEMS
@pass_cli
def uncheck(cli: CliContext, names: tuple[str, ...]) -> None:
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

    async def work(session: JournalSession) -> Outcome:
        items = [await session.find(ChecklistItem, name) for name in names]
        source = items[0].checklist_id
        moved: dict[str, Any] = {
            "item_ids": [item.id for item in items],
            "from_checklist_id": source,
        }
        if new_task is not None:
            return await session.do(
                "move_checklist_items_to_new_task", new_task_title=new_task, **moved
            )
        return await session.do(
            "move_checklist_items", to_checklist_id=await _list_of(session, str(target)), **moved
        )

    _show_items(cli, with_journal(cli, work))


async def _list_of(session: JournalSession, task_name: str) -> str:
    found = await session.find(Task, task_name)
    lists = await session.journal.checklists_of(found.id)
    if lists:
        return lists[0][0].id
    made = await session.do("create_checklist", task_id=found.id)
    return str(made.payload["checklist_id"])


def _set(cli: CliContext, names: tuple[str, ...], *, checked: bool) -> None:
    async def work(session: JournalSession) -> Outcome:
        items = [await session.find(ChecklistItem, name) for name in names]
        updates = [{"id": item.id, "checked": checked} for item in items]
        return await session.do("update_checklist_items", updates=updates)

    _show_items(cli, with_journal(cli, work))


def _show_items(cli: CliContext, outcome: Outcome) -> None:
    lines = [item_line(each) for each in outcome.records if isinstance(each, ChecklistItem)]
    cli.show(shown(outcome), "\n".join(lines) or SO_ALREADY)
