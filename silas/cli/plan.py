"""`silas plan`: check a plan file, show the hash that an approval binds to, show stored plans."""

from pathlib import Path
from typing import Any, BinaryIO

import click

from silas.app.errors import NotInitialised
from silas.app.ground import Ground
from silas.app.work import work_stores
from silas.cli.commands import JsonCommand, LazyCommand, LazyGroup
from silas.cli.context import CliContext, pass_cli
from silas.cli.opening import with_ground
from silas.kernel import strict_loads, visible, visible_json
from silas.work import Plan, WorkItem, WorkItemUnknown, decode_plan, parse_plan
from silas.work.binding import bind_workspaces
from silas.work.front_matter import MAX_PLAN_BYTES

_FILE = click.argument("file", type=click.File("rb"))


COMMANDS = {
    "check": LazyCommand("silas.cli.plan:check", "Say whether a file is a plan."),
    "hash": LazyCommand("silas.cli.plan:show_hash", "Show what an approval would be bound to."),
    "show": LazyCommand("silas.cli.plan:show", "Show the plan of a stored work item."),
    "run": LazyCommand("silas.cli.plan_run:run", "Approve a plan and execute it."),
}


@click.group(cls=LazyGroup, lazy_commands=COMMANDS)
def plan() -> None:
    """Check plans, show them, and run them.

    A plan is a markdown file with YAML front matter; `docs/plans.md` describes it.
    """


@click.command(cls=JsonCommand)
@_FILE
@pass_cli
def check(cli: CliContext, file: BinaryIO) -> None:
    """Say whether FILE (or - for standard input) is a plan, with every problem at once."""
    text = read_plan(file)
    parsed = parse_plan(text)
    outside = parsed.outside_references
    known = _known(cli, outside) if outside else None
    if known is not None:
        parsed = parse_plan(text, known=known)
    unchecked = sorted(outside) if known is None else []
    data = {
        "valid": True,
        "items": [_summary(item) for item in parsed.items],
        "unchecked_references": unchecked,
    }
    cli.show(data, _verdict(parsed, unchecked))


@click.command("hash", cls=JsonCommand)
@_FILE
@pass_cli
def show_hash(cli: CliContext, file: BinaryIO) -> None:
    """Show the hash that an approval of FILE would be bound to, one line for each item."""
    items = bind_workspaces(parse_plan(read_plan(file)), base=base_of(file)).items
    cli.show(
        {"items": [{"id": item.id, "plan_hash": item.plan_hash} for item in items]},
        "\n".join(f"{item.plan_hash}  {item.id}" for item in items),
    )


@click.command(cls=JsonCommand)
@click.argument("work_item_id", metavar="ID")
@pass_cli
def show(cli: CliContext, work_item_id: str) -> None:
    """Show the plan of a stored work item: exactly what an approval is bound to."""
    item = with_ground(cli, lambda ground: _load(ground, work_item_id))
    content = visible_json(strict_loads(item.plan_bytes()))
    cli.show(
        {**item.model_dump(mode="json"), "plan_hash": item.plan_hash},
        f"{_line(item)}\n  status {item.status.value}\n  hash   {item.plan_hash}\n\n{content}",
    )


def base_of(file: BinaryIO) -> Path:
    """The directory that a plan's paths are relative to: its own."""
    name = getattr(file, "name", None)
    return Path(name).resolve().parent if isinstance(name, str) and name != "-" else Path.cwd()


def read_plan(file: BinaryIO) -> str:
    """The text of a plan file."""
    # One byte more than a plan may have is enough to refuse it.
    return decode_plan(file.read(MAX_PLAN_BYTES + 1))


def _known(cli: CliContext, ids: frozenset[str]) -> set[str] | None:
    """Those of the ids that are stored here; None if there is no Silas here to ask."""
    try:
        return with_ground(cli, lambda ground: work_stores(ground).items.known(ids))
    except NotInitialised:
        return None


async def _load(ground: Ground, work_item_id: str) -> WorkItem:
    item = await work_stores(ground).items.get(work_item_id)
    if item is None:
        raise WorkItemUnknown(f"There is no work item {visible(work_item_id)} here.")
    return item


def _summary(item: WorkItem) -> dict[str, Any]:
    return {
        "id": item.id,
        "type": item.type.value,
        "title": item.title,
        "plan_hash": item.plan_hash,
        "checks": len(item.verify),
        "gates": len(item.gates),
        "depends_on": item.depends_on,
    }


def _line(item: WorkItem) -> str:
    return f"{item.id} ({item.type.value}): {visible(item.title, keep_newlines=False)}"


def _verdict(parsed: Plan, unchecked: list[str]) -> str:
    lines = ["This is a plan."]
    for item in parsed.items:
        after = f", after {', '.join(item.depends_on)}" if item.depends_on else ""
        lines.append(f"  {_line(item)}")
        lines.append(f"    checks: {len(item.verify)}, gates: {len(item.gates)}{after}")
        lines.append(f"    hash {item.plan_hash}")
        if not item.verify and item.agent == "ephemeral":
            lines.append("    Note: no check will confirm that it is done.")
    if unchecked:
        names = ", ".join(unchecked)
        lines.append(f"Not looked up, because Silas is not set up here: {names}.")
    return "\n".join(lines)
