"""The tool executor: one chain of checks for every call, in this order.

1. The tool exists and the arguments fit it. What a write changes is named by ids, never by names.
2. No stop switch is on: for everything, this companion, or a class of this tool.
3. The companion lives and is not paused.
4. Its kind may use the tool and has every capability that the tool needs.
5. The tool may be used for what the companion was woken by.
6. The scope is not empty, and lies within the companion's categories as they are now.
7. There is budget for one more call.
8. The owner's gates let a write pass.
9. A write that is risky enough waits for the owner, with a preview; nothing is written. One that
   was approved passes the door: the token was used up for exactly this call and this preview.
10. The write goes through `operations.py`, under its operation id. 2, 3 and 6, and whether the run
   was called off, are asked once more, behind the journal's fence: what is stopped between this
   answer and the commit is not written.

A refusal is a result with its code, never an exception: companions go on, and the log tells it.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import BaseModel

from silas.audit.models import AuditTrail
from silas.companions.budgets import Budgets
from silas.companions.errors import (
    AgentDestroyed,
    AgentPaused,
    CapabilityDenied,
    ConfirmationRequired,
    OutOfScope,
    UnknownTool,
    UnsafeTarget,
    WakeReasonDenied,
    tool_code,
)
from silas.companions.gateway import StopSwitches
from silas.companions.kinds.library import CompanionDefinition, Definitions
from silas.companions.messages import PolicyDecisions
from silas.companions.models import BudgetUsage, Companion, ToolResultStatus
from silas.companions.operations import Operations, action_message_id, target_refs
from silas.companions.ports import ApprovableAction
from silas.companions.store import CompanionStore
from silas.companions.tools.calls import written
from silas.companions.tools.registry import (
    AgentToolCall,
    AgentToolRegistry,
    AgentToolResult,
    CompanionTool,
    ToolEffect,
    ToolReach,
)
from silas.gates import Gate, GateAction, GateTrigger
from silas.gates.risk import RiskLevel
from silas.gates.runner import GateRunner
from silas.journal.models import AccessScope
from silas.journal.operations.scoped import outcome_in_scope
from silas.journal.store import FenceMoved, Guard, Journal, Outcome
from silas.kernel import (
    ApprovalError,
    CompanionError,
    GateError,
    JournalError,
    SilasError,
    TaintLevel,
)

_LADDER = tuple(RiskLevel)
_ALWAYS = RiskLevel.HIGH
Door = Callable[[ApprovableAction], Awaitable[None]]
"""Raises unless the owner's token was used up for exactly this action."""
GoesOn = Callable[[], Awaitable[None]]
"""Raises if the owner has called off the run that a call belongs to."""
_ID = re.compile(r"[a-z][a-z_]*[_-][0-9A-Za-z-]{1,90}")
"""How ids in the journal look: `task_01k…`, `dayplan-2026-01-02`."""
_REFUSALS = (CompanionError, JournalError, ApprovalError, GateError)


class CallGates:
    """Evaluates the gates `on_tool_call` of the settings; where there are none, all calls pass."""

    def __init__(self, gates: Sequence[Gate], runner: GateRunner) -> None:
        self._gates = [gate for gate in gates if gate.on is GateTrigger.ON_TOOL_CALL]
        self._runner = runner

    async def asks(self, call: AgentToolCall, tool: CompanionTool) -> bool:
        """Whether a gate wants the owner to be asked; raises `GateError` if one says no."""
        if not self._gates:
            return False
        policy, _, merged = await self._runner.check_gates(
            self._gates, GateTrigger.ON_TOOL_CALL, _context(call, tool)
        )
        for result in policy:
            if result.action is GateAction.BLOCK:
                raise GateError(f"A gate stopped this: {result.gate_name}: {result.reason}")
        if merged.get("tool_args", call.arguments) != call.arguments:
            # Other arguments would be another action, with an id of its own.
            raise GateError("A gate wants other arguments than the companion's. Nothing was done.")
        return any(each.action is GateAction.REQUIRE_APPROVAL for each in policy)


@dataclass(frozen=True)
class _Admitted:
    tool: CompanionTool
    arguments: BaseModel
    companion: Companion
    definition: CompanionDefinition


@dataclass(frozen=True)
class ToolExecutor:
    """Executes the calls of all companions of this device."""

    registry: AgentToolRegistry
    store: CompanionStore
    journal: Journal
    switches: StopSwitches
    budgets: Budgets
    operations: Operations
    time_zone: Callable[[], str]
    gates: CallGates
    audit: AuditTrail

    async def execute(
        self,
        call: AgentToolCall,
        *,
        decisions: PolicyDecisions,
        reason: str = "",
        door: Door | None = None,
        goes_on: GoesOn | None = None,
    ) -> AgentToolResult:
        """The result of a call; a refusal is one, too. `door` is for what was approved.

        `goes_on` is asked right before a write, in the run that wants it.
        """
        try:
            admitted = await self._admit(call, decisions)
            await self.budgets.charge(call.agent_id, BudgetUsage(tool_calls=1))
            held = await self._held(call, admitted, decisions, reason=reason, door=door)
            return held or await self._carry_out(call, admitted, goes_on)
        except _REFUSALS as error:
            return refused(call, error)

    async def result_in_journal(self, call: AgentToolCall) -> AgentToolResult | None:
        """The result of a write that the journal has made already; None if it has not."""
        outcome = await self._outcome(call)
        if not isinstance(outcome, Outcome):
            return None
        reach = self._reach(call, preview_only=False)
        return succeeded(
            call, written(reach, await outcome_in_scope(self.journal, outcome, reach.scope))
        )

    async def _outcome(self, call: AgentToolCall) -> Any | None:
        """What the journal has done for this very call."""
        return await self.journal.outcome_of(call.operation_id, actor=_actor(call))

    async def _admit(self, call: AgentToolCall, decisions: PolicyDecisions) -> _Admitted:
        name = call.tool_name
        async with decisions.deciding("schema", name):
            tool = self.registry.get(name)
            if tool is None or not tool.offered:
                raise UnknownTool(f"There is no tool {name[:60]!a} for companions.")
            arguments = tool.read_arguments(call.arguments)
        async with decisions.deciding("target", name):
            if tool.writes:
                _require_ids(call)
        async with decisions.deciding("stop_switch", name):
            classes = self.registry.classes_of(tool, arguments)
            await self.switches.require(call.agent_id, classes)
        async with decisions.deciding("lifecycle", name):
            companion = await self._living(call.agent_id)
        async with decisions.deciding("capability", name):
            definition = await Definitions(self.store).of(call.agent_id)
            if not definition.profile.allows(name, tool.capabilities):
                raise CapabilityDenied(tool=name)
        async with decisions.deciding("wake_reason", name):
            if call.wake_reason not in tool.allowed_wake_reasons:
                raise WakeReasonDenied(tool=name)
        async with decisions.deciding("scope", name):
            _require_scope(call, companion)
        async with decisions.deciding("budget", name):
            await self.budgets.require(companion, tool_calls=1)
        return _Admitted(tool, arguments, companion, definition)

    async def _carry_out(
        self, call: AgentToolCall, admitted: _Admitted, goes_on: GoesOn | None
    ) -> AgentToolResult:
        writes = admitted.tool.writes
        if call.preview_only or not writes:
            effect = await self._handle(call, admitted, preview_only=writes)
            return succeeded(call, effect, partial=writes)
        return await self._write(call, admitted, goes_on)

    async def _held(
        self,
        call: AgentToolCall,
        admitted: _Admitted,
        decisions: PolicyDecisions,
        *,
        reason: str,
        door: Door | None,
    ) -> AgentToolResult | None:
        """Rules 8 and 9: the result of a write that waits for the owner; None if it may be made."""
        tool = admitted.tool
        if call.preview_only or not tool.writes:
            return None
        async with decisions.deciding("gates", tool.name):
            gated = await self.gates.asks(call, tool)
        risk = self.registry.risk_of(tool, admitted.arguments)
        asks = gated or needs_approval(risk, confirm_from=admitted.definition.confirm_from)
        if asks and await self._outcome(call) is None:
            preview = await self._handle(call, admitted, preview_only=True)
            action = approvable(
                call, admitted.tool, admitted.companion, preview, risk=risk, reason=reason
            )
            async with decisions.deciding("approval", tool.name):
                if door is None:
                    return await self._hold(call, action)
                await door(action)
        return None

    async def _hold(self, call: AgentToolCall, action: ApprovableAction) -> AgentToolResult:
        """Rule 9: a card, and nothing else."""
        await self.operations.hold(call, action)
        refusal = ConfirmationRequired()
        return AgentToolResult(
            success=False,
            status=ToolResultStatus.PARTIAL,
            tool_action_id=action_message_id(call.run_key, call.operation_id),
            tool_name=call.tool_name,
            operation_id=call.operation_id,
            payload=action.preview,
            error_code=tool_code(refusal),
            error_message=refusal.message,
        )

    async def _write(
        self, call: AgentToolCall, admitted: _Admitted, goes_on: GoesOn | None
    ) -> AgentToolResult:
        """Rule 10."""
        await self.operations.begin(call)
        try:
            effect = await self._write_if_allowed(call, admitted, goes_on)
        except _REFUSALS as error:
            await self.operations.failed(call.operation_id, error.message)
            raise
        result = succeeded(call, effect)
        await self.operations.journal_committed(call.operation_id, result)
        await self.note_written(call, result)
        return result

    async def note_written(self, call: AgentToolCall, result: AgentToolResult) -> None:
        """Let the audit log say what a companion has written."""
        await self.audit.log(
            "companion_wrote",
            agent_id=call.agent_id,
            tool=call.tool_name,
            operation_id=call.operation_id,
            changed=list(result.changed_entity_ids),
        )

    async def _write_if_allowed(
        self, call: AgentToolCall, admitted: _Admitted, goes_on: GoesOn | None
    ) -> ToolEffect:
        """The last door. Every further turn follows from something that the owner did meanwhile."""
        while True:
            guard = await self.journal.fence.guard()
            classes = self.registry.classes_of(admitted.tool, admitted.arguments)
            await self.switches.require(call.agent_id, classes)
            _require_scope(call, await self._living(call.agent_id))
            if goes_on is not None:
                await goes_on()
            try:
                return await self._handle(call, admitted, preview_only=False, guard=guard)
            except FenceMoved:
                continue

    async def _handle(
        self,
        call: AgentToolCall,
        admitted: _Admitted,
        *,
        preview_only: bool,
        guard: Guard | None = None,
    ) -> ToolEffect:
        reach = replace(self._reach(call, preview_only=preview_only), guard=guard)
        return await admitted.tool.handler(reach, admitted.arguments)

    def _reach(self, call: AgentToolCall, *, preview_only: bool) -> ToolReach:
        return ToolReach(
            journal=self.journal,
            scope=AccessScope(allowed_category_ids=call.scope.allowed_category_ids),
            actor=_actor(call),
            operation_id=call.operation_id,
            preview_only=preview_only,
            now=self.store.clock.now(),
            zone=ZoneInfo(self.time_zone()),
        )

    async def _living(self, agent_id: str) -> Companion:
        companion = await self.store.require(Companion, agent_id)
        if companion.is_destroyed:
            raise AgentDestroyed(agent_id=agent_id)
        if companion.paused_at is not None:
            raise AgentPaused(agent_id=agent_id)
        return companion


def _context(call: AgentToolCall, tool: CompanionTool) -> dict[str, object]:
    """The call, and what the runtime knows about it; nothing of it is a model's opinion."""
    return {
        "tool_name": tool.name,
        "tool_args": call.arguments,
        "tool_parameters": sorted(tool.arguments.model_fields),
        "contained": tool.contained,
        "changes_state": tool.writes,
        # What a companion acts on is text of the journal, which may come from anywhere.
        "taint": TaintLevel.EXTERNAL.value,
        "taint_sources": ["journal"],
        "envelopes": [],
        "companion_id": call.agent_id,
        "companion_kind": call.agent_kind,
    }


def needs_approval(risk: RiskLevel, *, confirm_from: RiskLevel) -> bool:
    """Whether a write waits for a card. What is high always does, whatever was configured."""
    threshold = min(confirm_from, _ALWAYS, key=_LADDER.index)
    return _LADDER.index(risk) >= _LADDER.index(threshold)


def approvable(
    call: AgentToolCall,
    tool: CompanionTool,
    companion: Companion,
    preview: ToolEffect,
    *,
    risk: RiskLevel,
    reason: str,
) -> ApprovableAction:
    """The call as the owner is shown it."""
    return ApprovableAction(
        operation_id=call.operation_id,
        agent_id=call.agent_id,
        display_name=companion.display_name,
        agent_kind=companion.kind,
        tool_name=tool.name,
        tool_version=tool.version,
        arguments=call.arguments,
        allowed_category_ids=tuple(sorted(call.scope.allowed_category_ids)),
        preview=preview.payload,
        risk=risk,
        reason=reason,
    )


def succeeded(call: AgentToolCall, effect: ToolEffect, *, partial: bool = False) -> AgentToolResult:
    """The result of a call that did what it should; `partial` is a preview."""
    return AgentToolResult(
        success=True,
        status=ToolResultStatus.PARTIAL if partial else ToolResultStatus.SUCCESS,
        tool_action_id=action_message_id(call.run_key, call.operation_id),
        tool_name=call.tool_name,
        operation_id=call.operation_id,
        changed_entity_ids=effect.changed_entity_ids,
        changed_tokens=effect.changed_tokens,
        payload=effect.payload,
    )


def refused(call: AgentToolCall, error: SilasError) -> AgentToolResult:
    """The result of a call that was refused."""
    return AgentToolResult(
        success=False,
        status=ToolResultStatus.ERROR,
        tool_action_id=action_message_id(call.run_key, call.operation_id),
        tool_name=call.tool_name[:200],
        operation_id=call.operation_id,
        error_code=tool_code(error),
        error_message=error.message,
    )


def _actor(call: AgentToolCall) -> str:
    return f"companion:{call.agent_id}"


def _require_ids(call: AgentToolCall) -> None:
    """A name may mean several things: no write takes one."""
    named = [each for each in target_refs(call.arguments) if not _ID.fullmatch(each)]
    if named:
        raise UnsafeTarget(f"{named[0][:60]!a} is no id. {UnsafeTarget.sentence()}")


def _require_scope(call: AgentToolCall, companion: Companion) -> None:
    wanted = call.scope.allowed_category_ids
    if not wanted or not wanted <= set(companion.allowed_category_ids):
        raise OutOfScope(tool=call.tool_name)
