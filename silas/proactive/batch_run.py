"""Does what the owner approved about the items of an account: one call for each item.

1. A batch is a work item of its own, so that it is listed, stopped and undone like other work. Its
   token is for the batch as it was shown (`BatchPayload`) and of a scope that opens no other door:
   nobody can execute the item in another way.
2. The door asks for the token, borne out by the audit log. Before each call the token is checked
   again, and whether the owner has stopped the batch meanwhile.
3. Each call is one that stands in the batch: its tool, its arguments, and one id. It goes through
   the gates (`connection_permission` among them), the broker and the ledger like any call of work.
   What takes it back is written down before it is made (`silas.work.undo_calls`).
4. A call that was begun is never made again. After a crash, whoever goes on begins with the first
   item that no call was begun for. Of a call without an answer, nobody knows what it did, and that
   is what the owner is told.
5. What does not work for one item is told of that item, and the next one is tried. After a few
   failures of the account itself in a row, the rest is left as it is.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from pydantic import Field

from silas.approval import ApprovalScope, ApprovalToken, BatchPayload
from silas.gates import ActionEnvelope
from silas.kernel import SilasError, visible
from silas.kernel.models import Data
from silas.queue.models import UndoableItem
from silas.work.attempt_store import AttemptOutcome
from silas.work.errors import WorkItemConflict
from silas.work.execution_context import ExecutionContext
from silas.work.ledger import LedgerEntry
from silas.work.models import ENDED_WELL, Budget, BudgetUsed, WorkItem, WorkItemStatus, WorkItemType
from silas.work.publication import discard_files
from silas.work.tool_calls import AttemptTools, calls_of
from silas.work.undo_calls import answer_of, undo_offers

ACT = frozenset({ApprovalScope.CONNECTION_ACT})
ACCOUNT_ARGUMENT = "account"
_SECONDS_EACH = 120
_MOST_FAILURES = 3
_NOT_DONE = ("conflict", "refused")
"""Kinds of failures after which nothing was changed, as tools of connections name them."""
_LONGEST_REASON = 300
_UNKNOWN = "nobody knows whether it was done; look before you do anything about it"
_NOT_TRIED = "it was not tried"
_STARTABLE = frozenset({WorkItemStatus.PENDING})


class ItemState(StrEnum):
    """What became of one item."""

    DONE = "done"
    SAME = "same"
    """It was so already: nothing had to be changed."""
    NOT_DONE = "not_done"
    UNKNOWN = "unknown"
    NOT_TRIED = "not_tried"


class ItemOutcome(Data):
    """What became of one item, and why."""

    item_id: str
    line: str
    state: ItemState
    told: str = ""
    attempt: int = 0
    seq: int | None = None
    """The number of its call in that attempt: with both, this item alone is taken back."""


class BatchReport(Data):
    """What became of a batch."""

    batch_id: str
    action: str
    outcomes: list[ItemOutcome]
    undo_until: datetime | None = None
    undoable: list[UndoableItem] = Field(default_factory=list)
    """The items that can be taken back one by one."""
    stopped: str = ""
    """Why it did not go on to the end, if it did not."""

    def count(self, *states: ItemState) -> int:
        """How many items ended so."""
        return sum(each.state in states for each in self.outcomes)

    @property
    def done(self) -> int:
        """How many items are as the owner wanted them."""
        return self.count(ItemState.DONE, ItemState.SAME)

    def text(self, label: str) -> str:
        """The whole of it, for the owner."""
        total = len(self.outcomes)
        said = [f"{label}: {total if self.done == total else f'{self.done} of {total}'} done."]
        if self.stopped:
            said.append(self.stopped)
        said += [
            f"- {each.line}: {each.told}."
            for each in self.outcomes
            if each.state not in (ItemState.DONE, ItemState.SAME)
        ]
        return "\n".join(said)


def batch_item(payload: BatchPayload, goal: WorkItem, title: str) -> WorkItem:
    """The work item that a batch is executed as (rule 1)."""
    blocks = [
        f"```call tool={payload.tool}\n{json.dumps(each, ensure_ascii=True)}\n```"
        for each in calls_in(payload)
    ]
    seconds = _SECONDS_EACH * (len(blocks) + 1)
    return WorkItem(
        id=payload.batch_id,
        type=WorkItemType.TASK,
        title=title[:200],
        parent=goal.id,
        domain=goal.domain,
        budget=Budget(max_wall_time_seconds=seconds, max_attempts=100),
        body="\n\n".join(["# What to do", *blocks, ""]),
        gates=goal.gates,
        skills=goal.skills,
        skill_hashes=goal.skill_hashes,
        approvals=[ActionEnvelope(tool=payload.tool, as_written=True)],
        script=True,
        on_stuck="report",
    )


def calls_in(payload: BatchPayload) -> list[dict[str, Any]]:
    """The arguments of each call, in the order of the items."""
    fixed = {**payload.args, ACCOUNT_ARGUMENT: payload.connection}
    found = []
    for name, state in zip(payload.item_ids, payload.states, strict=True):
        seen = {payload.state: state} if payload.state is not None else {}
        found.append({**fixed, payload.ids: [name], **seen})
    return found


async def run_batch(
    ctx: ExecutionContext, payload: BatchPayload, token: ApprovalToken, item: WorkItem
) -> BatchReport | None:
    """Execute an approved batch to its end; None if somebody else is at it.

    `item` is what `batch_item` gives. Called again after a crash, it goes on (rule 4); called again
    after the end, it says what became of it.
    """
    known = await ctx.items.get(item.id)
    if known is None:
        try:
            known = await ctx.items.save(item.model_copy(update={"approval_token": token}))
        except WorkItemConflict:  # somebody else has begun with it just now
            return None
    if known.status in ENDED_WELL:
        return await batch_report(ctx, payload)
    valid, reason = await ctx.approvals.enter(token, payload, accept=ACT)
    if not valid or known.status not in _STARTABLE:
        why = reason if not valid else f"It is {known.status.value}"
        return await batch_report(ctx, payload, stopped=f"I did not go on with it: {why}.")
    try:
        with ctx.control.at_work(known.id):
            claimed = await ctx.attempts.start(known.id, runner=ctx.runner, only_from=_STARTABLE)
            return await _execute(ctx, payload, token, claimed)
    except WorkItemConflict:
        return None


async def _execute(
    ctx: ExecutionContext, payload: BatchPayload, token: ApprovalToken, item: WorkItem
) -> BatchReport:
    stopped, refusals = "", dict[str, str]()
    try:
        files = await ctx.workspaces.open_attempt(item, item.attempts, {})
        tools = await calls_of(ctx, files)
        try:
            stopped = await _Run(ctx, payload, token, tools, refusals).go()
        finally:
            await tools.close()
    except (SilasError, ValueError) as error:
        stopped = f"I did not go on with it: {error}"
    report = await batch_report(ctx, payload, stopped=stopped, refusals=refusals)
    ended = await ctx.attempts.finish(
        item.id,
        item.attempts,
        outcome=AttemptOutcome.PASSED if not stopped else AttemptOutcome.STOPPED,
        status=WorkItemStatus.UNCHECKED,
        budget_used=BudgetUsed(attempts=item.attempts),
        detail=stopped,
    )
    await ctx.approvals.carried_out(token, payload)
    await discard_files(ctx.workspaces, ctx.audit, ended)
    ctx.progress(item.id, ended.status.value, stopped)
    return report


@dataclass
class _Run:
    """One attempt at a batch."""

    ctx: ExecutionContext
    payload: BatchPayload
    token: ApprovalToken
    tools: AttemptTools
    refusals: dict[str, str]
    """Why no call was begun for an item, by the item."""
    failed: int = 0

    async def go(self) -> str:
        """Make the calls that nobody has begun; why it stopped, or nothing."""
        begun = set(await begun_calls(self.ctx, self.payload))
        for name, args in zip(self.payload.item_ids, calls_in(self.payload), strict=True):
            if name in begun:
                continue
            if why := await self._closed():
                return why
            view = await self.tools.call(self.payload.tool, args)
            if await self._fails_always(name, view.error or ""):
                return "The account did not answer any more, so I left the rest as it is."
        return ""

    async def _closed(self) -> str:
        """Rule 2."""
        valid, reason = await self.ctx.approvals.check(self.token, self.payload, accept=ACT)
        if not valid:
            return f"I did not go on with it: {reason}."
        item = await self.ctx.items.get(self.payload.batch_id)
        if item is None or item.status is not WorkItemStatus.RUNNING:
            return "You have stopped it, so I left the rest as it is."
        return ""

    async def _fails_always(self, name: str, reason: str) -> bool:
        """Rule 5."""
        begun = (await begun_calls(self.ctx, self.payload)).get(name)
        if begun is None:
            self.refusals[name] = _short(reason)
        failed = begun is None or _told(begun.entry)[0] is ItemState.UNKNOWN
        self.failed = self.failed + 1 if failed else 0
        return self.failed >= _MOST_FAILURES


class BegunCall(NamedTuple):
    """A call that was begun for an item; its number counts within its attempt."""

    attempt: int
    entry: LedgerEntry


async def begun_calls(ctx: ExecutionContext, payload: BatchPayload) -> dict[str, BegunCall]:
    """The calls that were begun for the items, in all attempts, by the item (rule 4)."""
    by_args = {_key(args): args[payload.ids][0] for args in calls_in(payload)}
    found: dict[str, BegunCall] = {}
    for attempt in await ctx.attempts.list_of(payload.batch_id):
        for entry in await ctx.ledger.entries(payload.batch_id, attempt.attempt):
            name = by_args.get(_key(entry.args))
            if entry.tool == payload.tool and name is not None:
                found[name] = BegunCall(attempt.attempt, entry)
    return found


def _key(args: Mapping[str, Any]) -> str:
    return json.dumps(dict(args), sort_keys=True)


async def item_outcomes(
    ctx: ExecutionContext, payload: BatchPayload, refusals: Mapping[str, str] | None = None
) -> list[ItemOutcome]:
    """What became of each item, from what was written down."""
    begun, why = await begun_calls(ctx, payload), refusals or {}
    outcomes = []
    for name, line in zip(payload.item_ids, payload.lines, strict=True):
        made = begun.get(name)
        state, told = (
            _told(made.entry) if made else (ItemState.NOT_TRIED, why.get(name, _NOT_TRIED))
        )
        where = {"attempt": made.attempt, "seq": made.entry.seq} if made else {}
        outcomes.append(ItemOutcome(item_id=name, line=line, state=state, told=told, **where))
    return outcomes


async def batch_report(
    ctx: ExecutionContext,
    payload: BatchPayload,
    *,
    stopped: str = "",
    refusals: Mapping[str, str] | None = None,
) -> BatchReport:
    """What became of a batch, and what of it can be taken back."""
    outcomes = await item_outcomes(ctx, payload, refusals)
    offers = [each for each in await undo_offers(ctx, payload.batch_id) if not each.told]
    open_ = {(each.attempt, each.seq) for each in offers}
    return BatchReport(
        batch_id=payload.batch_id,
        action=payload.action,
        outcomes=outcomes,
        undo_until=max((each.until for each in offers if each.until), default=None),
        undoable=[
            UndoableItem(attempt=each.attempt, call=each.seq, line=each.line)
            for each in outcomes
            if each.seq is not None and (each.attempt, each.seq) in open_
        ],
        stopped=stopped,
    )


def _told(entry: LedgerEntry) -> tuple[ItemState, str]:
    if entry.result is None:
        return ItemState.UNKNOWN, _UNKNOWN
    answer = answer_of(entry.result)
    if entry.result.success and "error" not in answer:
        same = "undo" in answer and answer["undo"] is None
        return (ItemState.SAME, "it was so already") if same else (ItemState.DONE, "done")
    said = str(answer.get("error") or entry.result.error or "it did not work")
    said = _short(said)
    if answer.get("kind") in _NOT_DONE:
        return ItemState.NOT_DONE, said
    return ItemState.UNKNOWN, f"{said}; {_UNKNOWN}"


def _short(text: str) -> str:
    return visible(text[:_LONGEST_REASON], keep_newlines=False).rstrip(".")
