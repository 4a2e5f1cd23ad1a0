"""What commands that execute work have in common: asking, watching, and telling how it ended."""

import asyncio
from typing import Any

import click

from silas.app.ground import Ground
from silas.app.workshop import open_workshop
from silas.approval import ApprovalDecision, ApprovalVerdict
from silas.cli.context import CliContext
from silas.cli.terminal import on_terminal
from silas.kernel import strict_loads, visible, visible_json
from silas.work import WorkItem, WorkItemResult, WorkItemStatus
from silas.work.errors import WorkNotDone
from silas.work.executor import WorkItemExecutor
from silas.work.ports import ExecutorAgent, PausedCall

_YES = ApprovalDecision(verdict=ApprovalVerdict.APPROVED)
_NO = ApprovalDecision(verdict=ApprovalVerdict.DECLINED)
_GOOD = (WorkItemStatus.DONE, WorkItemStatus.HEALTHY)
_MAX_DETAIL = 160


class TerminalApprover:
    """`Approver` at a terminal: shows exactly what would be signed, and takes only a typed yes."""

    async def decide_call(self, call: PausedCall) -> ApprovalDecision:
        reasons = "\n".join(f"  {visible(reason)}" for reason in call.reasons)
        shown = visible_json(call.model_dump(mode="json"))
        return await asyncio.to_thread(ask_owner, f"{reasons}\n{shown}\nLet this one call happen?")

    async def decide_item(self, item: WorkItem) -> ApprovalDecision:
        return await asyncio.to_thread(ask_owner, f"{shown_plan(item)}\nApprove exactly this?")


class LiveView:
    """`Progress` on the terminal: one line for everything that happens."""

    def __init__(self, cli: CliContext) -> None:
        self._cli = cli

    def __call__(self, work_item_id: str, what: str, detail: str = "") -> None:
        text = visible(" ".join(detail.split()), keep_newlines=False)
        shown = text if len(text) <= _MAX_DETAIL else f"{text[:_MAX_DETAIL]}…"
        self._cli.say(f"  {work_item_id}  {what}{': ' if shown else ''}{shown}")


def workshop_of(
    ground: Ground, cli: CliContext, *, agent: ExecutorAgent | None = None
) -> WorkItemExecutor:
    """The executor for this call; it asks in between only if somebody is there to answer."""
    approver = TerminalApprover() if on_terminal() and not cli.as_json else None
    return open_workshop(ground, agent=agent, approver=approver, progress=LiveView(cli))


def shown_plan(item: WorkItem) -> str:
    """Exactly what is signed, whole, with nothing invisible in it."""
    return f"{visible_json(strict_loads(item.plan_bytes()))}\nhash {item.plan_hash}  {item.id}"


def decide(
    cli: CliContext,
    items: list[WorkItem],
    hashes: tuple[str, ...],
    *,
    option: str = "--approve",
    shows: str = "silas plan hash",
) -> ApprovalDecision:
    """Show the items whole, and take the owner's decision about exactly them.

    It is typed at the terminal, or it is the full hash of every item. There is no third way:
    without either, nothing is approved. `option` takes the hashes that the command `shows`.
    """
    cli.say("\n\n".join(shown_plan(item) for item in items))
    if hashes:
        if set(hashes) != {item.plan_hash for item in items}:
            raise click.UsageError(
                f"{option} must name the full hash of every item, and nothing else. This is "
                f"another plan than the one that you looked at: see `{shows}`."
            )
        return _YES
    if not on_terminal() or cli.as_json:
        raise click.UsageError(
            f"Nobody can be asked here. Read the plan, and say {option} with the hash that "
            f"`{shows}` shows."
        )
    return ask_owner("Approve exactly this, and execute it?")


def tell_result(cli: CliContext, result: WorkItemResult, items: list[WorkItem]) -> None:
    """Show what is so, and end with 0 only if the work is done."""
    cli.show(
        {
            "result": result.model_dump(mode="json"),
            "items": [{"id": item.id, "status": item.status.value} for item in items],
        },
        "\n".join(_lines(result, items)),
    )
    if result.status not in _GOOD:
        raise click.exceptions.Exit(WorkNotDone.exit_code)


def _lines(result: WorkItemResult, items: list[WorkItem]) -> list[str]:
    lines = [f"{result.work_item_id} is {result.status.value}. {visible(result.summary)}"]
    if result.last_error:
        lines.append(f"  {visible(result.last_error)}")
    for each in result.verification_results:
        mark = "passed" if each.passed else "FAILED"
        lines.append(f"  check {mark}: {visible(each.name)} ({visible(each.reason)})")
    lines += [f"  {item.id}: {item.status.value}" for item in items[1:]]
    lines += [f"  made {visible(name)}" for name in sorted(result.artifacts)]
    lines += [f"  next: {visible(step)}" for step in result.next_steps]
    return lines


def ask_owner(question: str) -> ApprovalDecision:
    """The owner's answer, typed; silence is a no."""
    agreed: Any = click.confirm(question, default=False, err=True)
    return _YES if agreed else _NO
