"""`silas plan`: check a plan file, show its hash, show stored plans, and run one."""

import asyncio
import contextlib
import os
from pathlib import Path
from typing import Any, BinaryIO

import click

from silas.app.agents import open_worker
from silas.app.core import Core
from silas.app.work import off_limits_of
from silas.approval import ApprovalDecision, ApprovalVerdict
from silas.cli.approver import decide, executor_of, tell_result
from silas.cli.commands import (
    CliContext,
    JsonGroup,
    pass_cli,
    settings_of,
    with_core,
)
from silas.kernel import strict_loads, visible, visible_json
from silas.settings.paths import NotInitialised
from silas.work import (
    Plan,
    WorkItem,
    WorkItemConflict,
    WorkItemResult,
    WorkItemStatus,
    WorkItemUnknown,
    decode_plan,
    parse_plan,
)
from silas.work.authorisation import authorise, plan_question
from silas.work.binding import bind_plan
from silas.work.errors import BindingBroken, WorkNotDone
from silas.work.executor import WorkItemExecutor
from silas.work.models import ENDED_WELL
from silas.work.plan_text import MAX_PLAN_BYTES
from silas.work.store import WorkItemStore
from silas.work.wording import plan_lines

_FILE = click.argument("file", type=click.File("rb"))


@click.group(cls=JsonGroup)
def plan() -> None:
    """Check plans, show them, and run them.

    A plan is a markdown file with YAML front matter; `docs/plans.md` describes it.
    """


@plan.command()
@_FILE
@pass_cli
def check(cli: CliContext, file: BinaryIO) -> None:
    """Say whether FILE (or - for standard input) is a plan, with every problem at once.

    Shows the hash that an approval would be bound to, or what is missing before it can be run here.
    """
    text = read_plan(file)
    parsed = parse_plan(text)
    outside = parsed.outside_references
    known = _known(cli, outside) if outside else None
    if known is not None:
        parsed = parse_plan(text, known=known)
    unchecked = sorted(outside) if known is None else []
    bound, missing = _bound_here(cli, parsed, base_of(file))
    data = {
        "valid": True,
        "items": [_summary(item, bound) for item in parsed.items],
        "unchecked_references": unchecked,
        "missing": missing,
    }
    cli.show(data, _verdict(bound or parsed, unchecked, missing=missing))


@plan.command("hash")
@_FILE
@pass_cli
def show_hash(cli: CliContext, file: BinaryIO) -> None:
    """Show the hash that an approval of FILE would be bound to, one line for each item.

    What `silas plan run` would refuse before it asks has no such hash, and is refused here, too.
    """
    items = _bind(cli, parse_plan(read_plan(file)), base_of(file)).items
    cli.show(
        {"items": [{"id": item.id, "plan_hash": item.plan_hash} for item in items]},
        "\n".join(f"{item.plan_hash}  {item.id}" for item in items),
    )


@plan.command()
@click.argument("work_item_id", metavar="ID")
@pass_cli
def show(cli: CliContext, work_item_id: str) -> None:
    """Show the plan of a stored work item: exactly what an approval is bound to."""
    item = with_core(cli, lambda core: _load(core, work_item_id))
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
        return with_core(cli, lambda core: core.work.items.known(ids))
    except NotInitialised:
        return None


async def _load(core: Core, work_item_id: str) -> WorkItem:
    item = await core.work.items.get(work_item_id)
    if item is None:
        raise WorkItemUnknown(f"There is no work item {visible(work_item_id)} here.")
    return item


def _bound_here(cli: CliContext, parsed: Plan, base: Path) -> tuple[Plan | None, str]:
    """The plan as it would be approved on this machine; or None, and why it cannot be."""
    try:
        return _bind(cli, parsed, base), ""
    except BindingBroken as error:
        return None, error.message


def _bind(cli: CliContext, parsed: Plan, base: Path) -> Plan:
    """The plan bound to what is here; skills are looked up only for one that names some."""
    off_limits = off_limits_of(settings_of(cli).paths)
    if any(item.skills for item in parsed.items):
        with contextlib.suppress(NotInitialised):
            return with_core(
                cli,
                lambda core: bind_plan(
                    parsed, base=base, off_limits=off_limits, skills=core.skill_files
                ),
            )
    return asyncio.run(bind_plan(parsed, base=base, off_limits=off_limits))


def _summary(item: WorkItem, bound: Plan | None) -> dict[str, Any]:
    hashes = {each.id: each.plan_hash for each in bound.items} if bound else {}
    return {
        "id": item.id,
        "plan_hash": hashes.get(item.id),
        "type": item.type.value,
        "title": item.title,
        "checks": len(item.verify),
        "gates": len(item.gates),
        "depends_on": item.depends_on,
    }


def _line(item: WorkItem) -> str:
    return f"{item.id} ({item.type.value}): {visible(item.title, keep_newlines=False)}"


def _verdict(parsed: Plan, unchecked: list[str], *, missing: str) -> str:
    lines = ["This is a plan."]
    for item in parsed.items:
        after = f", after {', '.join(item.depends_on)}" if item.depends_on else ""
        lines.append(f"  {_line(item)}")
        lines.append(f"    checks: {len(item.verify)}, gates: {len(item.gates)}{after}")
        lines += [f"    {visible(line, keep_newlines=False)}" for line in plan_lines(item)]
        if not missing:
            lines.append(f"    hash {item.plan_hash}")
    if missing:
        lines.append(f"It cannot be run here as it is: {visible(missing)}")
    if unchecked:
        names = ", ".join(unchecked)
        lines.append(f"Not looked up, because Silas is not set up here: {names}.")
    return "\n".join(lines)


@plan.command()
@click.argument("file", type=click.File("rb"))
@click.option(
    "--approve",
    "hashes",
    multiple=True,
    metavar="HASH",
    help="Where nobody can be asked: the full hash of the plan, as `silas plan hash` shows it. "
    "Once for each item of a project.",
)
@pass_cli
def run(cli: CliContext, file: BinaryIO, hashes: tuple[str, ...]) -> None:
    """Show what FILE would do, ask, and execute it.

    What is shown is exactly what is signed: the whole plan, the hashes of the files that it names
    and the directory that it works on. If any of it changes afterwards, nothing is executed.

    The model of the executor does the work. Without one, the blocks of the briefing are executed
    as they stand (`docs/plans.md`).

    Ends with 0 only if the work was carried out and no check failed. Whether a check has shown that
    it is done is its status: `done`, or `unchecked`.
    """
    text, base = read_plan(file), base_of(file)

    async def inside(core: Core) -> tuple[WorkItemResult, list[WorkItem]] | None:
        async with open_worker(core, environ=os.environ, home=Path.home()) as agent:
            executor = executor_of(core, cli, agent=agent)
            await executor.recover()
            stored = await _approved_plan(cli, core, executor, text, base=base, hashes=hashes)
            if stored is None:
                return None
            result = await executor.execute(stored[0])
            items = executor.context.items
            return result, [await items.get(item.id) or item for item in stored]

    ended = with_core(cli, inside)
    if ended is None:
        cli.show({"approved": False}, "Not approved. Nothing was executed.")
        raise click.exceptions.Exit(WorkNotDone.exit_code)
    tell_result(cli, *ended)


async def _approved_plan(
    cli: CliContext,
    core: Core,
    executor: WorkItemExecutor,
    text: str,
    *,
    base: Path,
    hashes: tuple[str, ...],
) -> list[WorkItem] | None:
    """The plan, shown, decided and stored with its approval; None after a no."""
    items = executor.context.items
    parsed = parse_plan(text, known=await items.known(parse_plan(text).outside_references))
    plan = await bind_plan(
        parsed, base=base, off_limits=off_limits_of(core.paths), skills=executor.context.skills
    )
    known = await _known_items(items, plan)
    decision = decide(cli, list(plan.items), hashes, effect_of=core.tools.effect_of)
    if decision.verdict is not ApprovalVerdict.APPROVED:
        await core.audit.log("plan_declined", work_item_id=plan.root.id)
        return None
    stored = known or await items.save_plan(plan)
    await core.conversations.note_typed(stored, owner_id=core.settings.owner_id)
    return await _authorised(executor, core, stored, decision)


async def _known_items(items: WorkItemStore, plan: Plan) -> list[WorkItem]:
    """The plan as it is stored already, or nothing; what is done is not run again."""
    stored = [await items.get(item.id) for item in plan.items]
    known = [item for item in stored if item is not None]
    if not known:
        return []
    same = all(
        item is not None and item.plan_bytes() == wanted.plan_bytes()
        for item, wanted in zip(stored, plan.items, strict=True)
    )
    if not same or known[0].status in ENDED_WELL:
        state = "was done already" if same else "is there already, with another plan"
        raise WorkItemConflict(f"{known[0].id} {state}. Give the plan another id.")
    return known


async def _authorised(
    executor: WorkItemExecutor, core: Core, items: list[WorkItem], decision: ApprovalDecision
) -> list[WorkItem]:
    """All items, those that are not done yet with their approval."""
    waiting = []
    for item in items:
        if item.status in (WorkItemStatus.PAUSED, WorkItemStatus.FAILED):
            waiting.append(await executor.context.control.resume(item.id))
        elif item.status not in ENDED_WELL:
            waiting.append(item)
    if not waiting:
        return items
    question = await plan_question(executor.context, waiting)
    word = core.decisions.owners_word(question, decision)
    approved = {
        item.id: item for item in await authorise(executor.context, waiting, question, word)
    }
    return [approved.get(item.id, item) for item in items]
