"""Takes back what work did in the owner's accounts: by call, or all of it.

    record = await record_before(ctx, item, call, tool)        # durable, before the call
    record = await record_after(ctx, item, record, result)     # what it has left, and the token
    done = await undo_calls(ctx, work_item_id, [1, 3])          # or all: leave the numbers out

Whoever makes calls in accounts (an attempt, a batch) writes each down with the first two; the third
is the one door for taking back, whatever made the call.

1. What takes a call back is known and written down before the call is made: the tool that its own
   tool declares (`inverse`), the account, the approval. A call that nothing takes back is written
   down, too, so that the owner is told.
2. After the call, the row is completed with the arguments for what was really changed and for the
   state that was left, as the tool answers in `undo`. They may only narrow the call: a value that
   both have is the same, or a part of it. What the call did not have (the id of what it made) is
   the tool's word. Another tool than the declared one takes nothing back.
3. The approval of the work gives the undo its own token then: for exactly this call of this tool,
   once, until the window ends. No approval in force, no token; who takes the approval back takes
   the token back.
4. Undo uses the token up, passes `check` and the gates of any call (`connection_permission` among
   them), runs the version of the skill that was approved, and goes through the broker. What the
   owner had granted for the one call holds for its undo.
5. The tool that takes back looks whether things are as the call has left them. What was changed
   since stays as it is, and the answer says so.
6. An undo is begun once, by one device. If it breaks off, nobody knows how it ended, and it is not
   repeated. A call that was begun and never completed is not taken back: nobody knows what it did.
7. After the window, the same calls become a plan (`undo_script`), approved like any other.
"""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from silas.approval import ApprovalDecision, ApprovalScope, ApprovalVerdict
from silas.approval.errors import DecisionRefused
from silas.gates import GateAction, GateTrigger
from silas.gates.providers.builtin import CONNECTION_PERMISSION
from silas.kernel import CanonicalError, canonical_bytes, strict_loads, visible
from silas.kernel.models import Data, UtcDatetime
from silas.sandbox.models import SandboxConfig
from silas.skills.sidecar import ACCOUNT
from silas.tools.declaration import ArgumentsRefused, Tool
from silas.tools.execution import ExecutionEnvelope, ExecutionResult
from silas.work.binding import require_skills
from silas.work.errors import BindingBroken
from silas.work.execution_context import ExecutionContext
from silas.work.ledger import CallUndo, UndoState
from silas.work.models import WorkItem
from silas.work.provenance import result_source
from silas.work.store import require_item

UNDONE, NOT_UNDONE = "call_undone", "call_not_undone"
_ONE_CALL = frozenset({ApprovalScope.SINGLE_STEP})
_MOST_WORDS = 600
_NOTHING_DONE = ("conflict", "refused")
"""Kinds of failures after which nothing was changed, as tools of connections name them."""
NOTHING_UNDOES = "Nothing takes this back."
_UNKNOWN = "Nobody knows whether it was done. Look before you do anything about it."
_UNPROVEN = "What was written down about it is not what Silas wrote. Nothing is taken back by it."
_HALF = "Taking it back was begun, and nobody knows how it ended. Look before you do more."
_WHICH = (
    "Left as it is: several attempts have a call {call}. Say which: `--attempt {attempt}` for this."
)
_CLOSED = "The time for taking it back with one tap is over. It takes a plan now."
_UNAPPROVED = "The approval of this work is not in force any more. It takes a plan now."


@dataclass(frozen=True)
class MadeCall:
    """A call that is about to be made."""

    attempt: int
    seq: int
    args: Mapping[str, Any]
    account: str
    permissions: Sequence[str] = ()


class UndoneCall(Data):
    """What became of taking back one call."""

    attempt: int
    seq: int
    tool: str
    undone: bool
    told: str
    needs_plan: bool = False
    """A plan could still take it back."""


@dataclass(frozen=True)
class _UndoPayload:
    """What the token of an undo is for: this call, taken back in exactly this way."""

    undo: CallUndo
    parent: str | None = None

    @property
    def id(self) -> str:
        return f"undo.{self.undo.work_item_id}.{self.undo.attempt}.{self.undo.seq}"

    def plan_bytes(self) -> bytes:
        wanted = self.undo.model_dump(mode="json", exclude={"state", "told", "token"})
        return canonical_bytes({"id": self.id, "undo": wanted})

    def spawn_policy_bytes(self) -> bytes:
        return b""


class _Refused(Exception):
    """It is not taken back; the text says why, for the owner."""


async def record_before(
    ctx: ExecutionContext, item: WorkItem, tool: Tool, call: MadeCall
) -> CallUndo | None:
    """Rule 1; None for a call that changes nothing in an account."""
    if tool.account is None or not tool.changes_state:
        return None
    known = tool.inverse if tool.inverse and ctx.registry.get(tool.inverse) else None
    undo = CallUndo(
        work_item_id=item.id,
        attempt=call.attempt,
        seq=call.seq,
        title=item.title,
        tool=tool.name,
        args=dict(call.args),
        account=call.account,
        inverse=known,
        permissions=list(call.permissions),
        approved_by=item.approval_token.token_id if item.approval_token else "",
        begun_at=ctx.clock.now(),
    )
    await ctx.undos.write(undo)
    return undo


async def record_after(
    ctx: ExecutionContext, item: WorkItem, undo: CallUndo, result: ExecutionResult
) -> CallUndo:
    """Rules 2 and 3."""
    answer = answer_of(result)
    if not result.success or "error" in answer:
        nothing = answer.get("kind") in _NOTHING_DONE
        state = UndoState.NOTHING if nothing else UndoState.UNKNOWN
        completed = undo.model_copy(update={"state": state})
        await ctx.undos.write(completed)
        return completed
    if undo.inverse is None:
        completed = undo.model_copy(update={"state": UndoState.DONE, "told": NOTHING_UNDOES})
        await ctx.undos.write(completed)
        return completed
    if "undo" in answer and answer["undo"] is None:
        completed = undo.model_copy(update={"state": UndoState.NOTHING})
        await ctx.undos.write(completed)
        return completed
    args = _undo_args(ctx.registry.get(undo.inverse), undo, answer)
    until = ctx.clock.now() + ctx.undos.window
    completed = undo.model_copy(update={"state": UndoState.DONE, "undo_args": args, "until": until})
    return await _with_token(ctx, item, completed)


async def _with_token(ctx: ExecutionContext, item: WorkItem, undo: CallUndo) -> CallUndo:
    """Rule 3."""
    approval = item.approval_token
    state = None
    if approval is not None and undo.undo_args is not None:
        state = await ctx.approvals.tokens.state(approval.token_id, approval.plan_hash)
    if approval is None or state is None or state.void_reason:
        await ctx.undos.write(undo)
        return undo
    yes = ApprovalDecision(
        verdict=ApprovalVerdict.APPROVED, approval_strength=approval.approval_strength
    )
    try:
        prepared = await ctx.approvals.prepare(
            _UndoPayload(undo),
            yes,
            ApprovalScope.SINGLE_STEP,
            max_executions=1,
            ttl=ctx.undos.window,
        )
    except DecisionRefused:  # too long to be signed, or proven too weakly for a single call
        await ctx.undos.write(undo)
        return undo
    given = undo.model_copy(update={"token": prepared.token})
    await ctx.undos.write(given, lambda tx: ctx.approvals.issue_in(tx, prepared))
    await ctx.approvals.vouch()
    return given


def _undo_args(tool: Tool | None, undo: CallUndo, answer: Mapping[str, Any]) -> Any:
    """What the call is taken back with (rule 2); None if that is not known."""
    said = answer.get("undo", {"tool": undo.inverse, "args": undo.args})
    if tool is None or not isinstance(said, dict) or said.get("tool") != undo.inverse:
        return None
    args = said.get("args")
    if not isinstance(args, dict):
        return None
    given = {name: each for name, each in args.items() if name != ACCOUNT and each is not None}
    if not all(_narrows(each, undo.args.get(name)) for name, each in given.items()):
        return None
    wanted = {**given, ACCOUNT: undo.account}
    try:
        tool.check(wanted)
        canonical_bytes(wanted)
    except (ArgumentsRefused, CanonicalError):
        return None
    return wanted


def _narrows(value: Any, of: Any) -> bool:
    if of is None or value == of:
        return True
    return isinstance(value, list) and isinstance(of, list) and all(each in of for each in value)


def answer_of(result: ExecutionResult) -> dict[str, Any]:
    """The JSON object that a tool of a connection has printed; empty if it printed none."""
    return answer_in(result.return_value)


def answer_in(printed: str) -> dict[str, Any]:
    """The JSON object in what was printed: all of it, or its last line that is one."""
    for text in (printed, *printed.splitlines()[::-1]):
        try:
            found = strict_loads(text)
        except CanonicalError:
            continue
        if isinstance(found, dict):
            return found
    return {}


async def undo_calls(
    ctx: ExecutionContext,
    work_item_id: str,
    calls: Collection[int] | None = None,
    *,
    attempt: int | None = None,
) -> list[UndoneCall]:
    """Take back calls of a work item, the last one first; raises `WorkItemUnknown`.

    `calls` are numbers as `CallUndo.seq` has them, of this attempt; without one, a number that
    several attempts have is asked about: each began to count anew. None: all calls.
    """
    item = await require_item(ctx.items, work_item_id)
    found = [e for e in await ctx.undos.of(work_item_id) if attempt in (None, e.attempt)]
    if calls is not None:
        found = [each for each in found if each.seq in calls]
    times = Counter(each.seq for each in found) if calls is not None else Counter[int]()
    return [
        _outcome(each, _WHICH.format(call=each.seq, attempt=each.attempt))
        if times[each.seq] > 1
        else await _undone(ctx, item, each)
        for each in reversed(found)
    ]


async def _undone(ctx: ExecutionContext, item: WorkItem, undo: CallUndo) -> UndoneCall:
    told = why_not(ctx, undo)
    if told:
        return _outcome(undo, told, needs_plan=_can_be_planned(undo))
    try:
        with_skills = await _with_skills(ctx, item)
        tool = await _require_passing(with_skills, item, undo)
    except _Refused as refused:
        await _log(ctx, undo, str(refused))
        return _outcome(undo, str(refused), needs_plan=True)
    if not await ctx.undos.move(undo, UndoState.UNDOING):  # rule 6
        return _outcome(undo, "Another device is taking it back, or has done so.")
    begun = undo.model_copy(update={"state": UndoState.UNDOING})
    valid, reason = await _authorised(ctx, begun)
    if not valid:
        await ctx.undos.move(begun, UndoState.DONE)
        return _outcome(undo, f"{_UNAPPROVED} ({reason}.)", needs_plan=True)
    try:
        result = await tool.executor.execute(_envelope(ctx, item, begun))
    finally:
        if tool.release is not None:
            await tool.release()
    await ctx.origins.note_work(item.id, result_source(tool, result, ctx.clock.now()))
    state, told = _concluded(result)
    await ctx.undos.move(begun, state, told)
    if begun.token is not None:
        await ctx.approvals.carried_out(begun.token, _UndoPayload(begun))
    done = state is UndoState.UNDONE
    await _log(ctx, begun, told, event=UNDONE if done else NOT_UNDONE)
    return _outcome(begun, told, undone=done)


def why_not(ctx: ExecutionContext, undo: CallUndo) -> str:
    """Why one tap does not take this back, in words; empty if it does."""
    if undo.state is UndoState.UNPROVEN:
        return _UNPROVEN
    if undo.inverse is None:
        return NOTHING_UNDOES
    words = {
        UndoState.BEGUN: _UNKNOWN,
        UndoState.UNKNOWN: _UNKNOWN,
        UndoState.NOTHING: "It has changed nothing.",
        UndoState.UNDOING: _HALF,
        UndoState.UNDONE: "It was taken back already.",
        UndoState.LEFT: undo.told or "It was left as it is.",
    }
    if undo.state in words:
        return words[undo.state]
    if undo.undo_args is None:
        return "It is not known what it has left, so nothing takes it back."
    if undo.until is None or ctx.clock.now() >= undo.until:
        return _CLOSED
    return "" if undo.token is not None else _UNAPPROVED


def _can_be_planned(undo: CallUndo) -> bool:
    return undo.state is UndoState.DONE and undo.undo_args is not None


async def _with_skills(ctx: ExecutionContext, item: WorkItem) -> ExecutionContext:
    """The same with the tools of the versions that were approved (rule 4)."""
    try:
        await require_skills(item, ctx.skills)
        more = await ctx.skills.tools(item.skill_hashes) if ctx.skills else ()
        return replace(ctx, registry=ctx.registry.with_tools(more))
    except (BindingBroken, ValueError) as error:
        raise _Refused(f"Its skill is not the one that was approved: {error}") from error


async def _require_passing(ctx: ExecutionContext, item: WorkItem, undo: CallUndo) -> Tool:
    """The tool, if the account can be used and every gate lets the call pass (rule 4)."""
    tool = ctx.registry.get(undo.inverse or "")
    if tool is None or tool.account is None or undo.undo_args is None or ctx.gates is None:
        raise _Refused("The tool that takes it back is not there any more.")
    try:
        tool.check(undo.undo_args)
        account = await tool.account.gate_context(undo.undo_args)
    except ArgumentsRefused as error:
        raise _Refused(f"The connection cannot be used: {error}") from error
    taint = await ctx.taint_of(item)
    context = {
        "tool_name": tool.name,
        "tool_args": undo.undo_args,
        "tool_parameters": sorted(tool.arguments.model_fields),
        "contained": False,
        "changes_state": True,
        "taint": taint.value,
        "taint_sources": [],
        "tells_nobody": False,
        "argument_sources": {},
        "envelopes": [],
        "work_item_id": item.id,
        **account,
    }
    on_call = GateTrigger.ON_TOOL_CALL
    gates = [each for each in (*ctx.system_gates, *item.gates) if each.on is on_call]
    policy, _, merged = await ctx.gates.check_gates(
        [*gates, CONNECTION_PERMISSION], on_call, context
    )
    granted = set(account.get("required_permissions") or ()) <= set(undo.permissions)
    for each in policy:
        asks = each.action is GateAction.REQUIRE_APPROVAL
        if asks and each.gate_name == CONNECTION_PERMISSION.name and granted:
            continue  # the owner's yes to the call is one to its undo
        if asks or each.action is GateAction.BLOCK:
            raise _Refused(f"{each.gate_name}: {each.reason}")
    if merged.get("tool_args", undo.undo_args) != undo.undo_args:
        raise _Refused("A gate would change what is taken back.")
    return tool


async def _authorised(ctx: ExecutionContext, undo: CallUndo) -> tuple[bool, str]:
    """Use the token up, and pass the door of execution (rule 4)."""
    if undo.token is None:
        return False, "There is no approval"
    payload = _UndoPayload(undo)
    valid, reason = await ctx.approvals.verify(undo.token, payload, accept=_ONE_CALL)
    if valid:
        valid, reason = await ctx.approvals.check(undo.token, payload, accept=_ONE_CALL)
    return valid, reason


def _envelope(ctx: ExecutionContext, item: WorkItem, undo: CallUndo) -> ExecutionEnvelope:
    limits = ctx.limits
    return ExecutionEnvelope(
        execution_id=f"{item.id}.undo{undo.attempt}.{undo.seq}",
        step_index=0,
        task_description=f"Undo: {item.title}",
        action=undo.inverse or "",
        args=undo.undo_args or {},
        permissions_once=tuple(undo.permissions),
        timeout_seconds=limits.call_seconds,
        sandbox_config=SandboxConfig(
            work_dir="",
            filesystem_read=ctx.skills.directories(item.skill_hashes) if ctx.skills else [],
            max_memory_mb=limits.memory_mb,
            max_cpu_seconds=limits.cpu_seconds,
        ),
    )


def _concluded(result: ExecutionResult) -> tuple[UndoState, str]:
    """How it stands now, and what the owner is told (rule 5)."""
    answer = answer_of(result)
    if not result.success or "error" in answer:
        told = _words(str(answer.get("error") or result.error or "It did not work."))
        nothing = answer.get("kind") in _NOTHING_DONE
        return (UndoState.LEFT, told) if nothing else (UndoState.UNKNOWN, f"{_HALF} ({told})")
    stayed = answer.get("stayed")
    if isinstance(stayed, list) and stayed:
        names = ", ".join(map(str, stayed))
        return UndoState.UNDONE, _words(f"Taken back, but for what was moved since: {names}")
    return UndoState.UNDONE, "Taken back."


def _words(text: str) -> str:
    return visible(text[:_MOST_WORDS], keep_newlines=False)


def _outcome(
    undo: CallUndo, told: str, *, undone: bool = False, needs_plan: bool = False
) -> UndoneCall:
    return UndoneCall(
        attempt=undo.attempt,
        seq=undo.seq,
        tool=undo.tool,
        undone=undone,
        told=told,
        needs_plan=needs_plan,
    )


async def _log(
    ctx: ExecutionContext, undo: CallUndo, told: str, *, event: str = NOT_UNDONE
) -> None:
    await ctx.audit.log(
        event,
        work_item_id=undo.work_item_id,
        attempt=undo.attempt,
        call=undo.seq,
        tool=undo.tool,
        inverse=undo.inverse,
        connection=undo.account,
        told=told,
    )


class UndoOffer(Data):
    """One call of work in an account, and whether one tap takes it back."""

    attempt: int
    seq: int
    tool: str
    account: str
    inverse: str | None
    until: UtcDatetime | None
    told: str
    """Why one tap does not; empty if it does."""


async def undo_offers(ctx: ExecutionContext, work_item_id: str) -> list[UndoOffer]:
    """The calls of a work item in accounts, in their order."""
    return [
        UndoOffer(
            attempt=each.attempt,
            seq=each.seq,
            tool=each.tool,
            account=each.account,
            inverse=each.inverse,
            until=each.until,
            told=why_not(ctx, each),
        )
        for each in await ctx.undos.of(work_item_id)
    ]


async def undo_plan(ctx: ExecutionContext, work_item_id: str) -> str | None:
    """The plan that takes back what one tap does not any more (rule 7); None if nothing does."""
    item = await require_item(ctx.items, work_item_id)
    script = undo_script(await ctx.undos.of(work_item_id))
    if not script:
        return None
    header = {
        "id": ctx.ids.new("task"),
        "type": "task",
        "title": f"Undo: {item.title}"[:200],
        "skills": list(item.skills),
    }
    lines = [f"{name}: {json.dumps(value)}" for name, value in header.items()]
    return "\n".join(["---", *lines, "---", "# What to do", "", script, ""])


def undo_script(undos: Sequence[CallUndo]) -> str:
    """The blocks of a plan that takes these calls back, the last one first (rule 7)."""
    blocks = [
        f"```call tool={each.inverse}\n{json.dumps(each.undo_args, ensure_ascii=True)}\n```"
        for each in reversed(undos)
        if _can_be_planned(each)
    ]
    return "\n\n".join(blocks)
