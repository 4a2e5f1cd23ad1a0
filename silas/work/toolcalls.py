"""The tool calls of one attempt: the only way in which a worker does anything. For each call,
1 to 4 are its review, 5 and 6 perform it:

1. the run may go on: it is not over, it was not blocked, and the budget is not used up;
2. the tool exists and its arguments fit its schema;
3. the gates `on_tool_call` let it pass, may rewrite its arguments (which must fit again), block it,
   or ask the owner;
4. a tool that acts outside of the sandbox is inside an envelope of the plan, or the owner is asked:
   always if it changes something, and if foreign content has entered the run (`seen.py`), also if
   it tells somebody something (`silas.gates.envelope_rules`);
5. what the approval covers is still what it was;
6. the call is written down, made, and its result written down.

A refusal is an answer to the worker. A block by policy at 5 ends the attempt. What the owner will
decide later is not performed: the review says so, and a worker that can wait ends its run with it.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from silas.gates import ActionEnvelope, Gate, GateAction, GateResult, GateTrigger
from silas.gates.envelope_rules import is_inside, outside_reason, still_good
from silas.kernel import (
    ApprovalError,
    CanonicalError,
    SilasError,
    canonical_bytes,
)
from silas.work.authorisation import authorise_call, require_decided
from silas.work.budget import BudgetUsed, add_used
from silas.work.call_envelope import call_envelope
from silas.work.errors import BindingBroken
from silas.work.execution_models import ExecutionResult, ModelView
from silas.work.executors import Tool
from silas.work.executors.arguments import ArgumentsRefused
from silas.work.ledger import LedgerEntry
from silas.work.paused import DecidedCall
from silas.work.ports import CallReview, PausedCall, ToolOffer
from silas.work.seen import Seen
from silas.work.workbench import Workbench
from silas.work.workspaces import AttemptWorkspace

_NOT_WITHIN_AN_ATTEMPT = {"max_attempts", "max_planner_calls"}


class Refused(Exception):
    """The call is not made; the text is the worker's answer."""


class Waits(Exception):
    """The owner decides later; carries the call."""

    def __init__(self, call: PausedCall) -> None:
        super().__init__(call.tool)
        self.call = call


@dataclass
class AttemptTools:
    """`ReviewingCaller` of one attempt, with what it has used and seen so far."""

    bench: Workbench
    files: AttemptWorkspace
    gates: list[Gate]
    used: BudgetUsed
    started: float
    seen: Seen
    decided: list[DecidedCall] = field(default_factory=list)
    """Calls of this attempt that the owner has approved while it waited; each is good for one."""
    waiting: list[PausedCall] = field(default_factory=list)
    """What the owner has to decide; a run is paused for these calls and for nothing else."""
    broken: BindingBroken | None = None
    over: bool = False
    reported: tuple[int, float] = (0, 0.0)
    """Tokens and money of this run, as far as it has said so."""
    made: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """The calls that were begun in this and in earlier attempts: for envelopes that are used up."""
    _steps: int = 0
    _reviews: int = 0
    _passed: dict[int, tuple[CallReview, bool]] = field(default_factory=dict)
    """Reviews that let a call pass and were not performed yet, and whether the owner was asked."""
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def remember(self, entries: Iterable[LedgerEntry]) -> None:
        """What earlier calls of this attempt gave, for an attempt that was paused."""
        for each in entries:
            if each.result is not None:
                tool = self.bench.registry.get(each.tool)
                self.seen.add_text(each.tool, tool, each.args, each.result)

    @property
    def names(self) -> tuple[str, ...]:
        return self.bench.registry.names

    @property
    def offers(self) -> tuple[ToolOffer, ...]:
        return self.bench.registry.offers

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
        except Refused as refused:
            return str(refused)
        return None

    def report(self, *, tokens: int, cost_usd: float) -> None:
        self.reported = tokens, cost_usd

    async def close(self) -> None:
        """Wait for the call that is going on; from now on none is made.

        Whoever keeps this object beyond the worker's run must not work beside the checks.
        """
        async with self._turn:
            self.over = True

    def used_now(self) -> BudgetUsed:
        """What was used before this attempt, and in it so far."""
        seconds = self.bench.clock.monotonic() - self.started
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
            await self.bench.audit.log(
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
            args, asked_for = await self._pass_gates(tool, args)  # 3
            reasons = asked_for + self._outside_reasons(tool, args)  # 4
            if reasons:
                await self._ask(tool, args, reasons, by_gates=asked_for)
        except Refused as refused:
            return review.model_copy(update={"refusal": str(refused)})
        except Waits as waits:
            self.waiting.append(waits.call)
            return review.model_copy(update={"args": args, "waits": waits.call})
        review = review.model_copy(update={"args": args})
        self._passed[review.number] = review, bool(reasons)
        return review

    async def _perform(self, review: CallReview) -> ModelView:
        try:
            self._require_passed(review)
            tool = self._fitting(review.tool, review.args)
            await self._require_unchanged()  # 5
            return (await self._execute(tool, review.args)).model_view()  # 6
        except Refused as refused:
            return self._answer(str(refused))

    def _require_passed(self, review: CallReview) -> None:
        """A review is good for one call, and only as long as what it found is so."""
        if review.refusal is not None:
            raise Refused(review.refusal)
        passed, asked = self._passed.pop(review.number, (None, False))
        if passed != review:
            why = f": {review.waits.reasons[0]}" if review.waits else "."
            raise Refused(f"This call waits for the owner's decision{why}")
        self._require_going_on()
        tool = self.bench.registry.get(review.tool)
        if tool is not None and not asked and self._outside_reasons(tool, review.args):
            raise Refused("The plan does not cover this call any more. Call it again.")

    def _require_going_on(self) -> None:
        if self.over:
            raise Refused("The attempt is over.")
        if self.broken is not None:
            raise Refused(self.broken.message)
        used = add_used(self.used_now(), *self.reported)
        reached = set(used.reached(self.files.item.budget)) - _NOT_WITHIN_AN_ATTEMPT
        if reached:
            raise Refused(f"The budget is used up: {', '.join(sorted(reached))}.")

    def _fitting(self, name: str, args: dict[str, Any]) -> Tool:
        tool = self.bench.registry.get(name)
        if tool is None:
            raise Refused(f"There is no tool {name[:100]!a}. There are: {', '.join(self.names)}.")
        try:
            canonical_bytes(args)
            tool.check(args)
        except (ArgumentsRefused, CanonicalError) as error:
            raise Refused(f"These arguments do not fit {name}: {error}") from error
        return tool

    async def _pass_gates(
        self, tool: Tool, args: dict[str, Any]
    ) -> tuple[dict[str, Any], list[str]]:
        """The arguments as the gates leave them, and why the owner has to be asked, if so."""
        gates = [gate for gate in self.gates if gate.on is GateTrigger.ON_TOOL_CALL]
        if not gates:
            return args, []
        if self.bench.gates is None:
            raise Refused("The plan has gates, and nobody here can evaluate them.")
        policy, quality, merged = await self.bench.gates.check_gates(
            gates, GateTrigger.ON_TOOL_CALL, self._gate_context(tool, args)
        )
        await self.log_quality("quality_gate_tool_call", quality)
        blocks = [result for result in policy if result.action is GateAction.BLOCK]
        if blocks:
            await self._log_block(tool, [f"{each.gate_name}: {each.reason}" for each in blocks])
            raise Refused(f"A gate stopped this: {blocks[0].gate_name}: {blocks[0].reason}")
        rewritten = merged.get("tool_args", args)
        if rewritten != args:
            args = dict(rewritten)
            self._fitting(tool.name, args)
        asks = [each for each in policy if each.action is GateAction.REQUIRE_APPROVAL]
        return args, [f"{each.gate_name}: {each.reason}" for each in asks]

    def _gate_context(self, tool: Tool, args: dict[str, Any]) -> dict[str, Any]:
        """The call, and what the runtime knows about it; nothing of it comes from the worker."""
        item = self.files.item
        return {
            "tool_name": tool.name,
            "tool_args": args,
            "tool_parameters": sorted(tool.arguments.model_fields),
            "contained": tool.contained,
            "changes_state": tool.changes_state,
            "taint": self.seen.taint.value,
            "taint_sources": self.seen.taint_sources,
            "tells_nobody": self.seen.tells_nobody(tool, args),
            "argument_sources": self.seen.sources_of(args),
            "envelopes": [each.model_dump(mode="json") for each in self._envelopes()],
            "work_dir": str(self.files.directory),
            "work_item_id": item.id,
        }

    def _outside_reasons(self, tool: Tool, args: dict[str, Any]) -> list[str]:
        sources = self.seen.sources_of(args)
        reason = outside_reason(
            contained=tool.contained,
            inside=is_inside(self._envelopes(), tool.name, args, sources=sources),
            changes_state=tool.changes_state,
            taint=self.seen.taint,
            taint_sources=self.seen.taint_sources,
            tells_nobody=self.seen.tells_nobody(tool, args),
        )
        return [reason] if reason else []

    def _envelopes(self) -> list[ActionEnvelope]:
        """What the plan still covers: some envelopes are good for so many calls only."""
        return still_good(self.files.item.approvals, self.made)

    async def _ask(
        self, tool: Tool, args: dict[str, Any], reasons: list[str], *, by_gates: list[str]
    ) -> None:
        """Let the owner decide, with a token for exactly this call; a no is the answer."""
        call = self.as_paused(tool.name, args, reasons)
        try:
            decided = self._take_decided(call, by_gates)
            if decided is not None:
                await require_decided(self.bench, decided)
            elif not await authorise_call(self.bench, call):
                raise Waits(call)
        except ApprovalError as error:
            await self._log_block(tool, [*reasons, error.message])
            raise Refused(error.message) from error

    def _take_decided(self, call: PausedCall, by_gates: list[str]) -> DecidedCall | None:
        """The owner's yes to this call, once: same arguments, and no gate has a new objection."""
        for each in self.decided:
            same = (each.call.tool, each.call.args) == (call.tool, call.args)
            if same and set(by_gates) <= set(each.call.reasons):
                self.decided.remove(each)
                return each
        return None

    async def _require_unchanged(self) -> None:
        try:
            await self.files.require_unchanged()
        except SilasError as error:
            self.broken = BindingBroken(error.message)
            raise Refused(error.message) from error

    async def _execute(self, tool: Tool, args: dict[str, Any]) -> ExecutionResult:
        bench, item, attempt = self.bench, self.files.item, self.files.attempt
        seq = await bench.ledger.begin(item.id, attempt, tool=tool.name, args=args)
        self._steps += 1
        self.made.append((tool.name, args))
        bench.progress(item.id, "call", _shown(tool, args))
        left = item.budget.max_wall_time_seconds - self.used_now().wall_time_seconds
        envelope = call_envelope(
            bench, self.files, tool=tool, args=args, seq=seq, seconds_left=left
        )
        result = await tool.execute(envelope)
        foreign_files = self.files.holds_foreign_content
        taint = self.seen.add_taint(tool, result, foreign_files=foreign_files)
        result = result.model_copy(update={"taint": taint})
        await bench.ledger.finish(item.id, attempt, seq=seq, result=result)
        self.seen.add_text(tool.name, tool, args, result)
        bench.progress(item.id, "result", result.error or result.return_value)
        return result

    def _answer(self, reason: str) -> ModelView:
        return ModelView(
            success=False, return_value="", content=[], error=reason, taint=self.seen.taint
        )

    async def _log_block(self, tool: Tool, reasons: list[str]) -> None:
        await self.bench.audit.log(
            "tool_call_blocked",
            work_item_id=self.files.item.id,
            attempt=self.files.attempt,
            tool=tool.name,
            reasons=reasons,
        )


def _shown(tool: Tool, args: Mapping[str, Any]) -> str:
    words = args.get("argv") or [args.get("path") or args.get("query") or ""]
    return " ".join([tool.name, *map(str, words)])
