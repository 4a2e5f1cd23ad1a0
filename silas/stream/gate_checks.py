"""How a turn is looked at by its gates; what follows from it is the business of the steps.

`StandingGoals` are those that the owner has approved and that are always on: their gates look at
every turn as long as the approval is in force.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from silas.approval.engine import ApprovalEngine
from silas.gates import Gate, GateAction, GateResult, GateTrigger
from silas.kernel import Clock, SilasError
from silas.stream.answering import Stage
from silas.stream.models import MAX_TEXT
from silas.stream.turn_context import Turn, TurnContext
from silas.work.models import ALWAYS_ON, WorkItem
from silas.work.store import WorkItemStore

_CHECK_AGAIN = timedelta(minutes=1)
_NOBODY = "There are gates, and nobody here can evaluate them."


async def look_at_response(services: TurnContext, turn: Turn) -> tuple[Turn, GateResult | None]:
    """The turn with its response as the gates leave it, and what stops it if anything does."""
    said = turn.response.message if turn.response else ""
    context = {"response": said, "message": turn.text, **known_of(turn)}
    trigger = GateTrigger.EVERY_AGENT_RESPONSE
    results, context = await look(services, turn, trigger, context, quality="quality_gate_output")
    stopping = await first_stop(services, turn, results, context)
    return turn.saying(str(context["response"])), stopping


async def look(
    services: TurnContext,
    turn: Turn,
    trigger: GateTrigger,
    context: dict[str, Any],
    *,
    quality: str,
) -> tuple[tuple[GateResult, ...], dict[str, Any]]:
    """The policy results and the context as it is now; what the quality lane says is logged."""
    concerned = [gate for gate in turn.gates if gate.on is trigger]
    if not concerned:
        return (), context
    if turn.runner is None:
        return tuple(_unanswered(gate) for gate in concerned), context
    policy, observed, merged = await turn.runner.check_gates(concerned, trigger, context)
    for result in observed:
        await services.audit.log(
            quality,
            **known_of(turn),
            gate=result.gate_name,
            score=result.score,
            flags=result.flags,
        )
    return tuple(policy), merged


async def first_stop(
    services: TurnContext, turn: Turn, results: Sequence[GateResult], context: dict[str, Any]
) -> GateResult | None:
    """The first result that ends the turn: a block, or a question that was not answered by yes."""
    for result in results:
        if result.action is GateAction.BLOCK:
            return result
    for result in results:
        if result.action is GateAction.REQUIRE_APPROVAL:
            approver, connection = services.gate_approver, turn.origin.connection_id
            services.answers.enter(turn.message.trace_id, Stage.DECIDING)
            if approver is None or not await approver.approve_gate(
                result, connection_id=connection, context=context
            ):
                return result
    return None


def known_of(turn: Turn) -> dict[str, Any]:
    """What the runtime knows about the turn; nothing of it was said by anybody."""
    return {
        "sender_id": turn.sender_id,
        "connection_id": turn.origin.connection_id,
        "scope_id": turn.scope_id,
        "trace_id": turn.message.trace_id,
    }


def _unanswered(gate: Gate) -> GateResult:
    return GateResult(gate_name=gate.name, lane=gate.lane, action=GateAction.BLOCK, reason=_NOBODY)


def clip(text: str, *, room: int = 0) -> str:
    """The text, as long as a message may be that also has room for so many characters."""
    most = max(MAX_TEXT - room, 0)
    return text if len(text) <= most else f"{text[:most]}\n[the rest was dropped]"


@dataclass
class StandingGoals:
    """The goals that are always on, read again when one of them changes, and once a minute."""

    items: WorkItemStore
    approvals: ApprovalEngine
    clock: Clock
    _versions: list[tuple[str, int]] = field(default_factory=list)
    _goals: tuple[WorkItem, ...] = ()
    _checked_at: datetime | None = None

    async def in_force(self) -> tuple[WorkItem, ...]:
        """Those whose standing approval holds now."""
        now, versions = self.clock.now(), await self.items.approved_goals()
        fresh = self._checked_at is not None and now - self._checked_at < _CHECK_AGAIN
        if not fresh or versions != self._versions:
            found = [await self.items.get(name) for name, _ in versions]
            checked = [goal for goal in found if goal and await self._holds(goal)]
            self._goals, self._versions, self._checked_at = tuple(checked), versions, now
        return self._goals

    async def _holds(self, goal: WorkItem) -> bool:
        token = goal.approval_token
        if goal.schedule != ALWAYS_ON or goal.agent != "stream" or token is None:
            return False
        try:
            return (await self.approvals.check_goal(token, goal))[0]
        except SilasError:  # a gate does not fall away because a disk fails
            return goal.id in {each.id for each in self._goals}
