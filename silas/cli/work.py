"""`silas work`: what is being done, what was done, and how to stop it."""

import os
from pathlib import Path
from typing import Any

import click

from silas.app.ground import Ground
from silas.app.worker import open_worker
from silas.app.workshop import open_workshop
from silas.approval import ApprovalVerdict
from silas.cli.commands import JsonGroup
from silas.cli.context import CliContext, pass_cli
from silas.cli.opening import with_ground
from silas.cli.waiting import decide_call, waiting
from silas.cli.working import decide, tell_result, workshop_of
from silas.kernel import format_timestamp, visible, visible_json
from silas.work import Attempt, LedgerEntry, WorkItem, WorkItemResult, WorkItemStatus
from silas.work.attempts import WAITING
from silas.work.authorisation import authorise
from silas.work.errors import WorkNotDone
from silas.work.executor import WorkItemExecutor
from silas.work.store import require_item

_ID = click.argument("work_item_id", metavar="ID")
_SECONDS = 30.0
_OUTPUT = 400


@click.group(cls=JsonGroup)
def work() -> None:
    """Show work items, and stop or resume them."""


work.add_command(waiting)
work.add_command(decide_call)


@work.command("list")
@click.option(
    "--status", type=click.Choice([each.value for each in WorkItemStatus]), help="Only these."
)
@pass_cli
def list_work(cli: CliContext, status: str | None) -> None:
    """Show all work items."""
    wanted = [WorkItemStatus(status)] if status else list(WorkItemStatus)

    async def load(ground: Ground) -> list[WorkItem]:
        items = open_workshop(ground).bench.items
        found = [item for each in wanted for item in await items.list_by_status(each)]
        return sorted(found, key=lambda item: (str(item.created_at), item.id))

    items = with_ground(cli, load)
    data = [
        {
            "id": item.id,
            "type": item.type.value,
            "status": item.status.value,
            "attempts": item.attempts,
            "title": item.title,
        }
        for item in items
    ]
    lines = [_line(item) for item in items]
    cli.show({"items": data}, "\n".join(lines) or "There is no work yet.")


@work.command("show")
@_ID
@pass_cli
def show_work(cli: CliContext, work_item_id: str) -> None:
    """Show one work item: where it stands, its attempts, its checks."""

    async def load(ground: Ground) -> tuple[WorkItem, list[Attempt], list[WorkItem]]:
        bench = open_workshop(ground).bench
        item = await require_item(bench.items, work_item_id)
        below = await bench.items.list_by_parent(work_item_id)
        return item, await bench.attempts.list_of(work_item_id), below

    item, attempts, below = with_ground(cli, load)
    data = {
        "item": item.model_dump(mode="json"),
        "attempts": [attempt.model_dump(mode="json") for attempt in attempts],
        "below": [{"id": each.id, "status": each.status.value} for each in below],
    }
    lines = [_line(item), *map(_attempt_line, attempts)]
    for result in item.verification_results[-len(item.verify) :] if item.verify else []:
        mark = "passed" if result.passed else "FAILED"
        lines.append(f"  check {mark}: {visible(result.name)} ({visible(result.reason)})")
    lines += [f"  {_line(each)}" for each in below]
    cli.show(data, "\n".join(lines))


@work.command("log")
@_ID
@pass_cli
def log_work(cli: CliContext, work_item_id: str) -> None:
    """Show every call that the attempts at a work item made, and what it gave."""

    async def load(ground: Ground) -> list[tuple[Attempt, list[LedgerEntry]]]:
        bench = open_workshop(ground).bench
        await require_item(bench.items, work_item_id)
        tried = await bench.attempts.list_of(work_item_id)
        return [
            (attempt, await bench.ledger.entries(work_item_id, attempt.attempt))
            for attempt in tried
        ]

    tried = with_ground(cli, load)
    data = [
        {**attempt.model_dump(mode="json"), "calls": [e.model_dump(mode="json") for e in entries]}
        for attempt, entries in tried
    ]
    lines: list[str] = []
    for attempt, entries in tried:
        lines.append(_attempt_line(attempt))
        lines += [line for entry in entries for line in _entry_lines(entry)]
    cli.show({"attempts": data}, "\n".join(lines) or "Nothing was tried yet.")


@work.command()
@_ID
@pass_cli
def cancel(cli: CliContext, work_item_id: str) -> None:
    """End a work item, and everything below it, for good."""
    _stop(cli, work_item_id, "cancel")


@work.command()
@_ID
@pass_cli
def pause(cli: CliContext, work_item_id: str) -> None:
    """Stop a work item, and everything below it, until it is resumed."""
    _stop(cli, work_item_id, "pause")


@work.command()
@_ID
@click.option("--approve", "hashes", multiple=True, metavar="HASH", help="As in `silas plan run`.")
@pass_cli
def resume(cli: CliContext, work_item_id: str, hashes: tuple[str, ...]) -> None:
    """Go on with a work item that was stopped, with a fresh attempt.

    If its approval is not valid any more, it is shown and asked for again.
    """

    async def inside(ground: Ground) -> tuple[WorkItemResult, list[WorkItem]] | None:
        async with open_worker(ground, environ=os.environ, home=Path.home()) as agent:
            shop = workshop_of(ground, cli, agent=agent)
            await shop.recover()
            return await _resumed(shop, work_item_id, cli, hashes)

    ended = with_ground(cli, inside)
    if ended is None:
        cli.show({"approved": False}, "Not approved. Nothing was executed.")
        raise click.exceptions.Exit(WorkNotDone.exit_code)
    tell_result(cli, *ended)


async def _resumed(
    shop: WorkItemExecutor, work_item_id: str, cli: CliContext, hashes: tuple[str, ...]
) -> tuple[WorkItemResult, list[WorkItem]] | None:
    items = shop.bench.items
    item = await require_item(items, work_item_id)
    below = await items.list_by_parent(item.id)
    family = [item, *(each for each in below if each.id in item.tasks)]
    family = [each for each in family if each.status is not WorkItemStatus.DONE]
    if not await _approved_again(shop, family, cli, hashes):
        return None
    await shop.bench.control.resume(work_item_id)
    result = await shop.execute(await require_item(items, work_item_id))
    ids = [item.id, *(each.id for each in below)]
    return result, [await require_item(items, each) for each in ids]


async def _approved_again(
    shop: WorkItemExecutor, items: list[WorkItem], cli: CliContext, hashes: tuple[str, ...]
) -> bool:
    """Whether everything is approved; what is not any more is shown and asked for."""
    expired = [item for item in items if not await _is_approved(shop, item)]
    if not expired:
        return True
    decision = decide(cli, expired, hashes)
    if decision.verdict is not ApprovalVerdict.APPROVED:
        return False
    for item in expired:
        await authorise(shop.bench, item, decision)
    return True


async def _is_approved(shop: WorkItemExecutor, item: WorkItem) -> bool:
    token, approvals = item.approval_token, shop.bench.approvals
    if token is None:
        return False
    goal = item.type.value == "goal"
    valid, _ = await (approvals.check_goal(token, item) if goal else approvals.enter(token, item))
    return valid


def _stop(cli: CliContext, work_item_id: str, what: str) -> None:
    async def inside(ground: Ground) -> tuple[list[WorkItem], bool]:
        shop = open_workshop(ground)
        await shop.recover()
        control = shop.bench.control
        stop = control.cancel if what == "cancel" else control.pause
        stopped = await stop(work_item_id)
        return stopped, await control.wait_until_idle(work_item_id, seconds=_SECONDS)

    stopped, idle = with_ground(cli, inside)
    data = {"stopped": [{"id": each.id, "status": each.status.value} for each in stopped]}
    lines = [f"{each.id} is {each.status.value}." for each in stopped]
    lines = lines or [f"{visible(work_item_id)} was stopped or done already."]
    lines.append("Nothing of it is running." if idle else "It has not stopped yet. Look again.")
    cli.show({**data, "idle": idle}, "\n".join(lines))
    if not idle:
        raise click.exceptions.Exit(WorkNotDone.exit_code)


def _line(item: WorkItem) -> str:
    title = visible(item.title, keep_newlines=False)
    return f"{item.id} ({item.type.value}): {item.status.value}, attempts {item.attempts}  {title}"


def _attempt_line(attempt: Attempt) -> str:
    going_on = "waits for you: silas work waiting" if attempt.runner == WAITING else "going on"
    ended = attempt.outcome.value if attempt.outcome else going_on
    detail = f": {visible(attempt.detail, keep_newlines=False)}" if attempt.detail else ""
    return f"  attempt {attempt.attempt} {format_timestamp(attempt.started_at)} {ended}{detail}"


def _entry_lines(entry: LedgerEntry) -> list[str]:
    arguments: Any = visible_json(entry.args).replace("\n", " ")
    result = entry.result
    if result is None:
        return [f"    {entry.seq}. {entry.tool} {arguments}", "       nobody knows how it ended"]
    told = visible(result.error or result.return_value, keep_newlines=False)[:_OUTPUT]
    mark = "worked" if result.success else "did not work"
    return [f"    {entry.seq}. {entry.tool} {arguments}", f"       {mark}: {told}"]
