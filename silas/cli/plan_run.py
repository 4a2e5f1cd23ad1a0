"""`silas plan run`: show a plan, ask, sign, execute, check, tell."""

from typing import BinaryIO

import click

from silas.app.ground import Ground
from silas.approval import ApprovalDecision, ApprovalVerdict
from silas.cli.commands import JsonCommand
from silas.cli.context import CliContext, pass_cli
from silas.cli.opening import with_ground
from silas.cli.plan import base_of, read_plan
from silas.cli.working import decide, tell_result, workshop_of
from silas.stream.store import ConversationStore
from silas.work import Plan, WorkItem, WorkItemConflict, WorkItemResult, WorkItemStatus, parse_plan
from silas.work.authorisation import authorise
from silas.work.binding import bind_plan
from silas.work.errors import WorkNotDone
from silas.work.executor import WorkItemExecutor
from silas.work.store import WorkItemStore


@click.command(cls=JsonCommand)
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

    Ends with 0 only if the work was done and passed its checks.
    """
    text, base = read_plan(file), base_of(file)

    async def inside(ground: Ground) -> tuple[WorkItemResult, list[WorkItem]] | None:
        shop = workshop_of(ground, cli)
        await shop.recover()
        items = shop.bench.items
        parsed = parse_plan(text, known=await items.known(parse_plan(text).outside_references))
        plan = await bind_plan(parsed, base=base, skills=shop.bench.skills)
        known = await _known_items(items, plan)
        decision = decide(cli, list(plan.items), hashes)
        if decision.verdict is not ApprovalVerdict.APPROVED:
            await ground.audit.log("plan_declined", work_item_id=plan.root.id)
            return None
        stored = known or await items.save_plan(plan)
        origins = ConversationStore(ground.database, ground.clock)
        await origins.note_typed(stored, owner_id=ground.settings.owner_id)
        approved = [await _authorised(shop, item, decision) for item in stored]
        result = await shop.execute(approved[0])
        return result, [await items.get(item.id) or item for item in approved]

    ended = with_ground(cli, inside)
    if ended is None:
        cli.show({"approved": False}, "Not approved. Nothing was executed.")
        raise click.exceptions.Exit(WorkNotDone.exit_code)
    tell_result(cli, *ended)


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
    if not same or known[0].status is WorkItemStatus.DONE:
        told = "was done already" if same else "is there already, with another plan"
        raise WorkItemConflict(f"{known[0].id} {told}. Give the plan another id.")
    return known


async def _authorised(
    shop: WorkItemExecutor, item: WorkItem, decision: ApprovalDecision
) -> WorkItem:
    if item.status is WorkItemStatus.DONE:
        return item
    if item.status in (WorkItemStatus.PAUSED, WorkItemStatus.FAILED):
        item = await shop.bench.control.resume(item.id)
    return await authorise(shop.bench, item, decision)
