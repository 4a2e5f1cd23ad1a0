"""The tool calls of one attempt: the only way in which a worker does anything. For each call,
1 to 4 are its review, 5 and 6 perform it:

1. the run may go on: it is not over, it was not blocked, and the budget is not used up;
2. the tool exists and its arguments fit its schema; one that is not offered exists only for calls
   that stand in the script of the approved plan, letter for letter;
3. the gates `on_tool_call` let it pass, may rewrite its arguments (which must fit again), block it,
   or ask the owner; for a tool that uses an account, `connection_permission` is always one of them,
   and a yes to what it asks is for this one call;
4. a tool that acts outside of the sandbox is inside an envelope of the plan, or of a standing grant
   of the owner's in a run that nothing foreign has entered, or the owner is asked:
   always if it changes something, and if foreign content has entered the run (`provenance.py`),
   also if it tells somebody something (`silas.gates.envelopes`). A command with hosts to reach acts
   outside of the sandbox;
5. what the approval covers is still what it was, and nobody waits for the answer to exactly this
   call, of a tool that cannot be asked whether it was made: no attempt makes it a second time;
6. the call is written down, and for one in an account also what takes it back (`undo_calls.py`);
   it is made, and its result written down. Before that, the gates `after_step`
   of this step look at the result, and may rewrite its text. One that blocks ends the attempt. One
   that asks is decided when the worker has ended, before anything of the work is taken over; until
   then the worker does nothing outside of the sandbox.

A refusal is an answer to the worker. A block by policy at 5 ends the attempt. What the owner will
decide later is not performed: the review says so, and a worker that can wait ends its run with it.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from silas.gates import ActionEnvelope, Gate, GateAction, GateResult, GateTrigger
from silas.gates.envelopes import is_inside, outside_reason, still_good
from silas.gates.providers.builtin import CONNECTION_PERMISSION
from silas.kernel import (
    ApprovalError,
    CanonicalError,
    SilasError,
    canonical_bytes,
    external,
    strict_loads,
)
from silas.sandbox.models import SandboxConfig
from silas.tools.declaration import ArgumentsRefused, Tool, ToolOffer
from silas.tools.execution import ExecutionEnvelope, ExecutionResult, ModelView
from silas.work.admission import GATE_BLOCKED, Blocked
from silas.work.authorisation import AFTER_STEP, authorise_call, final_lines, require_decided
from silas.work.binding import require_skills
from silas.work.errors import BindingBroken
from silas.work.execution_context import ExecutionContext, no_grants
from silas.work.ledger import LedgerEntry
from silas.work.models import BudgetUsed, add_used
from silas.work.paused import DecidedCall
from silas.work.ports import CallReview, PausedCall
from silas.work.provenance import (
    RunTaint,
    files_read,
    foreign_files,
    is_plain,
    made_from,
    result_source,
)
from silas.work.script import ScriptInvalid, call_of, read_script
from silas.work.undo_calls import MadeCall, record_after, record_before
from silas.work.workspaces import AttemptWorkspace

GATE_STOPPED = "gate_stopped"
"""What the progress of work says when a gate has blocked something; then the gate's name."""
_LOST = (
    "The answer to exactly this call was lost before, and nobody knows what it has done. This work "
    "does not make it again: look first what is there."
)
_NOT_WITHIN_AN_ATTEMPT = {"max_attempts", "max_planner_calls"}


class CallRefused(Exception):
    """The call is not made; the text is the worker's answer."""


class CallWaits(Exception):
    """The owner decides later; carries the call."""

    def __init__(self, call: PausedCall) -> None:
        super().__init__(call.tool)
        self.call = call


async def calls_of(ctx: ExecutionContext, files: AttemptWorkspace) -> "AttemptTools":
    """The calls of an attempt that the runtime itself makes, with the tools of its skills.

    Nobody is asked in between, and what the owner allows for a while is not used: a call that would
    need a decision is refused. Raises `WorkError` or `ValueError` if the skills are not those that
    were approved.
    """
    item = files.item
    await require_skills(item, ctx.skills)
    more = await ctx.skills.tools(item.skill_hashes) if ctx.skills else ()
    alone = replace(ctx, registry=ctx.registry.with_tools(more), approver=None, grants=no_grants)
    return AttemptTools(
        alone,
        files,
        [*ctx.system_gates, *item.gates],
        item.budget_used,
        ctx.clock.monotonic(),
        RunTaint(item, await ctx.taint_of(item), []),
        made=[],
    )


@dataclass
class AttemptTools:
    """`ToolCaller` and `CallReviewer` of one attempt, with what it has used and seen so far."""

    ctx: ExecutionContext
    files: AttemptWorkspace
    gates: list[Gate]
    used: BudgetUsed
    started: float
    seen: RunTaint
    made: list[tuple[str, dict[str, Any]]]
    """The calls that were begun in this and in earlier attempts: for envelopes that are used up."""
    decided: list[DecidedCall] = field(default_factory=list)
    """Calls of this attempt that the owner has approved while it waited; each is good for one."""
    waiting: list[PausedCall] = field(default_factory=list)
    """What the owner has to decide; a run is paused for these calls and for nothing else."""
    asked_after: list[PausedCall] = field(default_factory=list)
    """Steps whose results the owner has to let stand, because a gate after them asks."""
    broken: BindingBroken | None = None
    stopped: Blocked | None = None
    """Why a gate after a step has ended the attempt."""
    over: bool = False
    reported: tuple[int, float] = (0, 0.0)
    """Tokens and money of this run, as far as it has said so."""
    _steps: int = 0
    _reviews: int = 0
    _passed: dict[int, tuple[CallReview, bool]] = field(default_factory=dict)
    """Reviews that let a call pass and were not performed yet, and whether the owner was asked."""
    _granted: set[int] = field(default_factory=set)
    """Reviews that let a call pass because a standing grant of the owner's covers it."""
    _once: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """What the owner has granted an account for the call of a review."""
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _made_from: tuple[str, ...] | None = None
    _foreign: Mapping[str, str] | None = None
    """The strangers' files among those that the attempt began with, each with its source."""

    def remember(self, entries: Iterable[LedgerEntry]) -> None:
        """What earlier calls of this attempt gave, for an attempt that was paused."""
        for each in entries:
            if each.result is not None:
                tool = self.ctx.registry.get(each.tool)
                self.seen.add_text(each.tool, tool, each.args, each.result)

    @property
    def names(self) -> tuple[str, ...]:
        return self.ctx.registry.names

    @property
    def offers(self) -> tuple[ToolOffer, ...]:
        return self.ctx.registry.offers

    @property
    def reviewer(self) -> "AttemptTools":
        return self

    async def call(self, tool: str, args: Mapping[str, Any]) -> ModelView:
        # One at a time: the ledger has an order, and what the approval covers is looked at between.
        async with self._turn:
            return await self._perform(await self._review(tool, dict(args)))

    async def review(self, tool: str, args: Mapping[str, Any]) -> CallReview:
        async with self._turn:
            return await self._review(tool, dict(args))

    async def perform(self, review: CallReview) -> ModelView:
        async with self._turn:
            return await self._perform(review)

    def revoked(self) -> str | None:
        """Step 1 as a question."""
        try:
            self._require_going_on()
        except CallRefused as refused:
            return str(refused)
        return None

    def report(self, *, tokens: int, cost_usd: float) -> None:
        self.reported = tokens, cost_usd

    async def close(self) -> None:
        """Wait for the call that is going on; from now on none is made.

        Whoever keeps this object beyond the worker's run must not work beside the checks, and nor
        must what its tools have running.
        """
        async with self._turn:
            self.over = True
            for tool in self.ctx.registry.tools.values():
                if tool.release is not None:
                    await tool.release()

    def used_now(self) -> BudgetUsed:
        """What was used before this attempt, and in it so far."""
        seconds = self.ctx.clock.monotonic() - self.started
        return self.used.model_copy(
            update={
                "wall_time_seconds": self.used.wall_time_seconds + max(0.0, seconds),
                "executor_runs": self.used.executor_runs + self._steps,
            }
        )

    def as_paused(self, tool: str, args: dict[str, Any], reasons: list[str]) -> PausedCall:
        """The call as the owner is asked about it."""
        return PausedCall(
            work_item_id=self.files.item.id,
            attempt=self.files.attempt,
            tool=tool,
            args=args,
            reasons=reasons,
            taint=self.seen.taint,
            taint_sources=list(self.seen.taint_sources),
        )

    async def log_quality(self, event: str, results: list[GateResult]) -> None:
        """Write down what the quality gates found; it stops nothing."""
        for result in results:
            await self.ctx.audit.log(
                event,
                work_item_id=self.files.item.id,
                gate=result.gate_name,
                score=result.score,
                flags=result.flags,
            )

    async def _review(self, name: str, args: dict[str, Any]) -> CallReview:
        self._reviews += 1
        review = CallReview(number=self._reviews, tool=name, args=args)
        try:
            self._require_going_on()  # 1
            tool = self._fitting(name, args)  # 2
            self._require_decided_steps(tool)
            args, asked_for = await self._pass_gates(tool, args)  # 3
            await self._require_known(tool, args)  # 5: before the owner is asked for nothing
            reasons = asked_for + self._outside_reasons(tool, args)  # 4
            granted = (
                bool(reasons) and not asked_for and await self._is_granted(tool, args, reasons)
            )
            if reasons and not granted:
                await self._ask(tool, args, reasons, by_gates=asked_for)
        except CallRefused as refused:
            return review.model_copy(update={"refusal": str(refused)})
        except CallWaits as waits:
            self.waiting.append(waits.call)
            return review.model_copy(update={"args": args, "waits": waits.call})
        review = review.model_copy(update={"args": args})
        self._passed[review.number] = review, bool(reasons)
        if granted:
            self._granted.add(review.number)
        self._once[review.number] = await self._granted_once(tool, args, asked_for)
        return review

    async def _perform(self, review: CallReview) -> ModelView:
        try:
            self._require_passed(review)
            tool = self._fitting(review.tool, review.args)
            await self._require_unchanged()  # 5
            await self._require_known(tool, review.args)
            if review.number in self._granted:
                self._granted.remove(review.number)
                await self._use_grant(tool, review.args)
            once = self._once.pop(review.number, ())
            return (await self._execute(tool, review.args, once)).model_view()  # 6
        except CallRefused as refused:
            return self._answer(str(refused))

    def _require_passed(self, review: CallReview) -> None:
        """A review is good for one call, and only as long as what it found is so."""
        if review.refusal is not None:
            raise CallRefused(review.refusal)
        passed, asked = self._passed.pop(review.number, (None, False))
        if passed != review:
            why = f": {review.waits.reasons[0]}" if review.waits else "."
            raise CallRefused(f"This call waits for the owner's decision{why}")
        self._require_going_on()
        tool = self.ctx.registry.get(review.tool)
        if tool is not None and not asked and self._outside_reasons(tool, review.args):
            raise CallRefused("The plan does not cover this call any more. Call it again.")

    def _require_going_on(self) -> None:
        if self.over:
            raise CallRefused("The attempt is over.")
        if self.broken is not None:
            raise CallRefused(self.broken.message)
        if self.stopped is not None:
            raise CallRefused(self.stopped.reason)
        used = add_used(self.used_now(), *self.reported)
        reached = set(used.reached(self.files.item.budget)) - _NOT_WITHIN_AN_ATTEMPT
        if reached:
            raise CallRefused(f"The budget is used up: {', '.join(sorted(reached))}.")

    def _require_decided_steps(self, tool: Tool) -> None:
        if self.asked_after and not self._contained(tool):
            raise CallRefused(f"The owner decides first: {self.asked_after[0].reasons[0]}")

    def _fitting(self, name: str, args: dict[str, Any]) -> Tool:
        tool = self.ctx.registry.get(name)
        if tool is None or not (tool.offered or (name, args) in self._script):
            known = ", ".join(self.names)
            raise CallRefused(f"There is no tool {name[:100]!a}. There are: {known}.")
        try:
            canonical_bytes(args)
            tool.check(args)
        except (ArgumentsRefused, CanonicalError) as error:
            raise CallRefused(f"These arguments do not fit {name}: {error}") from error
        return tool

    @cached_property
    def _script(self) -> list[tuple[str, dict[str, object]]]:
        """The calls that the plan itself makes; what the owner has signed holds them."""
        try:
            return [call_of(step) for step in read_script(self.files.item.body)]
        except ScriptInvalid:
            return []

    async def _pass_gates(
        self, tool: Tool, args: dict[str, Any]
    ) -> tuple[dict[str, Any], list[str]]:
        """The arguments as the gates leave them, and why the owner has to be asked, if so."""
        gates = [gate for gate in self.gates if gate.on is GateTrigger.ON_TOOL_CALL]
        gates += [CONNECTION_PERMISSION] if tool.account is not None else []
        if not gates:
            return args, []
        if self.ctx.gates is None:
            raise CallRefused("The plan has gates, and nobody here can evaluate them.")
        context = {**self._gate_context(tool, args), **await self._account_context(tool, args)}
        policy, quality, merged = await self.ctx.gates.check_gates(
            gates, GateTrigger.ON_TOOL_CALL, context
        )
        await self.log_quality("quality_gate_tool_call", quality)
        blocks = [result for result in policy if result.action is GateAction.BLOCK]
        if blocks:
            await self._log_block(tool, [f"{each.gate_name}: {each.reason}" for each in blocks])
            for each in blocks:
                self.ctx.progress(self.files.item.id, GATE_STOPPED, each.gate_name)
            raise CallRefused(f"A gate stopped this: {blocks[0].gate_name}: {blocks[0].reason}")
        rewritten = merged.get("tool_args", args)
        if rewritten != args:
            args = dict(rewritten)
            self._fitting(tool.name, args)
        asks = [each for each in policy if each.action is GateAction.REQUIRE_APPROVAL]
        return args, [f"{each.gate_name}: {each.reason}" for each in asks]

    async def _account_context(self, tool: Tool, args: dict[str, Any]) -> Mapping[str, Any]:
        try:
            return await tool.account.gate_context(args) if tool.account is not None else {}
        except ArgumentsRefused as error:
            raise CallRefused(str(error)) from error

    async def _granted_once(
        self, tool: Tool, args: dict[str, Any], asked_for: list[str]
    ) -> tuple[str, ...]:
        """What the owner has just granted an account: what its gate has asked for."""
        if not any(each.startswith(f"{CONNECTION_PERMISSION.name}: ") for each in asked_for):
            return ()
        return tuple((await self._account_context(tool, args))["required_permissions"])

    def _gate_context(self, tool: Tool, args: dict[str, Any]) -> dict[str, Any]:
        """The call, and what the runtime knows about it; nothing of it comes from the worker."""
        item = self.files.item
        return {
            "tool_name": tool.name,
            "tool_args": args,
            "tool_parameters": sorted(tool.arguments.model_fields),
            "contained": self._contained(tool),
            "changes_state": tool.changes_state,
            "taint": self.seen.taint.value,
            "taint_sources": self.seen.taint_sources,
            "tells_nobody": self._tells_nobody(tool, args),
            "argument_sources": self.seen.sources_of(args),
            "envelopes": [each.model_dump(mode="json") for each in self._envelopes()],
            "work_dir": str(self.files.directory),
            "work_item_id": item.id,
        }

    def _outside_reasons(self, tool: Tool, args: dict[str, Any]) -> list[str]:
        sources = self.seen.sources_of(args)
        reason = outside_reason(
            contained=self._contained(tool),
            inside=is_inside(
                self._envelopes(),
                tool.name,
                args,
                sources=sources,
                written=(tool.name, args) in self._script,
            ),
            changes_state=tool.changes_state,
            taint=self.seen.taint,
            taint_sources=self.seen.taint_sources,
            tells_nobody=self._tells_nobody(tool, args),
        )
        return [reason] if reason else []

    def _contained(self, tool: Tool) -> bool:
        return tool.is_contained(self.files.workspace.network)

    def _tells_nobody(self, tool: Tool, args: dict[str, Any]) -> bool:
        # What a command tells is not in its arguments: the program may read anything it sees.
        if tool.tells_more or (tool.contained and not self._contained(tool)):
            return False
        return self.seen.tells_nobody(tool, args)

    def _envelopes(self) -> list[ActionEnvelope]:
        """What the plan still covers: some envelopes are good for so many calls only."""
        return still_good(self.files.item.approvals, self.made)

    async def _ask(
        self, tool: Tool, args: dict[str, Any], reasons: list[str], *, by_gates: list[str]
    ) -> None:
        """Let the owner decide, with a token for exactly this call; a no is the answer."""
        final = final_lines([tool.name], self.ctx.registry.effect_of)
        call = self.as_paused(tool.name, args, [*reasons, *final])
        try:
            decided = self._take_decided(call, by_gates)
            if decided is not None:
                await require_decided(self.ctx, decided)
            elif not await authorise_call(self.ctx, call):
                raise CallWaits(call)
        except ApprovalError as error:
            await self._log_block(tool, [*reasons, error.message])
            raise CallRefused(error.message) from error

    async def _is_granted(self, tool: Tool, args: dict[str, Any], reasons: list[str]) -> bool:
        """Whether the owner has allowed calls like this for a while, and none is asked about."""
        call = self.as_paused(tool.name, args, reasons)
        return await self.ctx.grants(call, False) is not None

    async def _use_grant(self, tool: Tool, args: dict[str, Any]) -> None:
        """Count the use before the call; what was used up meanwhile is asked about anew."""
        call = self.as_paused(tool.name, args, ["A standing grant covers it."])
        if await self.ctx.grants(call, True) is None:
            raise CallRefused(
                "The standing grant does not cover this call any more. Call it again."
            )

    def _take_decided(self, call: PausedCall, by_gates: list[str]) -> DecidedCall | None:
        """The owner's yes to this call, once: same arguments, and no gate has a new objection."""
        for each in self.decided:
            same = (each.call.tool, each.call.args) == (call.tool, call.args)
            if same and set(by_gates) <= set(each.call.reasons):
                self.decided.remove(each)
                return each
        return None

    async def _require_known(self, tool: Tool, args: dict[str, Any]) -> None:
        """What became of this very call, if it was made before; after a crash, too."""
        name = self.files.item.id
        if tool.made_once and await self.ctx.ledger.was_lost(name, tool=tool.name, args=args):
            raise CallRefused(_LOST)

    async def _require_unchanged(self) -> None:
        try:
            await self.files.require_unchanged()
            await require_skills(self.files.item, self.ctx.skills)
        except SilasError as error:
            self.broken = BindingBroken(error.message)
            raise CallRefused(error.message) from error

    async def _execute(
        self, tool: Tool, args: dict[str, Any], once: tuple[str, ...]
    ) -> ExecutionResult:
        ctx, item, attempt = self.ctx, self.files.item, self.files.attempt
        if reason := await ctx.limits.too_often(item, tool.name):
            raise CallRefused(reason)
        account = await self._account_context(tool, args)
        seq = await ctx.ledger.begin(item.id, attempt, tool=tool.name, args=args)
        name = str(account.get("connection_id", ""))
        undo = await record_before(ctx, item, tool, MadeCall(attempt, seq, args, name, once))
        self._steps += 1
        self.made.append((tool.name, args))
        ctx.progress(item.id, "call", _shown(tool, args))
        envelope = self._envelope(tool, args, seq).model_copy(
            update={
                "permissions_once": once,
                "made_from": await self._lineage(),
                "sources": tuple(self.seen.taint_sources),
            }
        )
        result = await tool.executor.execute(envelope)
        if undo is not None:
            await record_after(ctx, item, undo, result)
        await self._note_read(tool, args, result)
        result = await self._look_after_step(
            tool, args, seq, result.model_copy(update={"taint": self.seen.taint})
        )
        await ctx.ledger.finish(item.id, attempt, seq=seq, result=result)
        if hosts := result.metadata.get("network"):
            await ctx.audit.log(
                "network_used", work_item_id=item.id, attempt=attempt, call=seq, hosts=hosts
            )
        self.seen.add_text(tool.name, tool, args, result)
        ctx.progress(item.id, "result", result.error or result.return_value)
        return result

    async def _look_after_step(
        self, tool: Tool, args: dict[str, Any], seq: int, result: ExecutionResult
    ) -> ExecutionResult:
        """The result as the gates after this step leave it."""
        for gate in self.gates:
            if gate.on is not GateTrigger.AFTER_STEP or gate.after_step != seq - 1:
                continue
            if self.ctx.gates is None:
                self.stopped = Blocked(
                    GATE_BLOCKED, f"Nobody here can evaluate the gate {gate.name}.", gate=gate
                )
                return result
            context = {**_step_context(tool, seq, result), **self._known}
            policy, quality, merged = await self.ctx.gates.check_gates(
                [gate], GateTrigger.AFTER_STEP, context
            )
            await self.log_quality("quality_gate_after_step", quality)
            result = result.model_copy(update={"return_value": str(merged["response"])})
            for found in policy:
                reason = f"{found.gate_name}: {found.reason}"
                if found.action is GateAction.BLOCK:
                    self.ctx.progress(self.files.item.id, GATE_STOPPED, found.gate_name)
                    self.stopped = Blocked(GATE_BLOCKED, reason, gate=gate)
                elif found.action is GateAction.REQUIRE_APPROVAL:
                    shown = {"tool": tool.name, "args": args, "output": result.return_value}
                    self.asked_after.append(self.as_paused(AFTER_STEP, shown, [reason]))
        return result

    @property
    def _known(self) -> dict[str, str]:
        """What the runtime knows about the run, for gates; nothing of it was said by anybody."""
        item, directory = self.files.item, self.files.directory
        return {"work_dir": str(directory), "work_item_id": item.id}

    async def _note_read(self, tool: Tool, args: dict[str, Any], result: ExecutionResult) -> None:
        """What the call has read is part of the run from here on, also after a crash."""
        known = self.seen.provenance
        self.seen.add(result_source(tool, result, self.ctx.clock.now()))
        foreign = await self._foreign_files()
        read = files_read(tool, args, foreign, plain=is_plain(self.files))
        if read:
            self.seen.add(external(*(foreign[name] for name in read)))
        if self.seen.provenance != known:
            await self.ctx.origins.note_work(self.files.item.id, self.seen.provenance)

    async def _foreign_files(self) -> Mapping[str, str]:
        if self._foreign is None:
            self._foreign = await foreign_files(self.ctx, self.files)
        return self._foreign

    async def _lineage(self) -> tuple[str, ...]:
        if self._made_from is None:
            self._made_from = await made_from(self.ctx, self.files.item)
        return self._made_from

    def _envelope(self, tool: Tool, args: dict[str, Any], seq: int) -> ExecutionEnvelope:
        """Call number `seq`: in the attempt's own sandbox, within what is left of the time."""
        ctx, files, item = self.ctx, self.files, self.files.item
        left = item.budget.max_wall_time_seconds - self.used_now().wall_time_seconds
        directory = str(files.directory)
        skills = ctx.skills.directories(item.skill_hashes) if ctx.skills else []
        return ExecutionEnvelope(
            execution_id=f"{item.id}.{files.attempt}.{seq}",
            step_index=seq - 1,
            task_description=item.title,
            action=tool.name,
            args=args,
            timeout_seconds=max(1, min(ctx.limits.call_seconds, int(left) + 1)),
            sandbox_config=SandboxConfig(
                work_dir=directory,
                network_hosts=files.workspace.network,
                filesystem_read=[
                    *(f"{directory}/{name}" for name in files.workspace.pinned),
                    *skills,
                ],
                max_memory_mb=ctx.limits.memory_mb,
                max_cpu_seconds=ctx.limits.cpu_seconds,
                env=files.workspace.env,
            ),
            directory=files.workspace.path,
        )

    def _answer(self, reason: str) -> ModelView:
        return ModelView(
            success=False, return_value="", content=[], error=reason, taint=self.seen.taint
        )

    async def _log_block(self, tool: Tool, reasons: list[str]) -> None:
        await self.ctx.audit.log(
            "tool_call_blocked",
            work_item_id=self.files.item.id,
            attempt=self.files.attempt,
            tool=tool.name,
            reasons=reasons,
        )


def _step_context(tool: Tool, seq: int, result: ExecutionResult) -> dict[str, object]:
    """What a gate can look at: the step, its output, and the output's values if it is JSON."""
    try:
        values = strict_loads(result.return_value)
    except CanonicalError:
        values = {}
    named = values if isinstance(values, dict) else {}
    return {
        **named,
        "step_index": seq - 1,
        "tool_name": tool.name,
        "response": result.return_value,
    }


def _shown(tool: Tool, args: Mapping[str, Any]) -> str:
    words = args.get("argv") or [args.get("path") or args.get("query") or ""]
    return " ".join([tool.name, *map(str, words)])
