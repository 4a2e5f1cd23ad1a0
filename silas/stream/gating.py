"""How a turn is looked at by its gates; what follows from it is the business of the steps."""

from collections.abc import Sequence
from typing import Any

from silas.gates import Gate, GateAction, GateResult, GateTrigger
from silas.stream.turn_context import Turn, TurnContext

MAX_TEXT = 100_000
"""The longest text that an agent can send anybody, in characters."""
_NOBODY = "There are gates, and nobody here can evaluate them."


async def look_at_response(room: TurnContext, turn: Turn) -> tuple[Turn, GateResult | None]:
    """The turn with its response as the gates leave it, and what stops it if anything does."""
    said = turn.response.message if turn.response else ""
    context = {"response": said, "message": turn.text, **known_of(turn)}
    trigger = GateTrigger.EVERY_AGENT_RESPONSE
    results, context = await look(room, turn, trigger, context, quality="quality_gate_output")
    stopping = await first_stop(room, turn, results, context)
    return turn.saying(str(context["response"])), stopping


async def look(
    room: TurnContext,
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
        await room.audit.log(
            quality,
            **known_of(turn),
            gate=result.gate_name,
            score=result.score,
            flags=result.flags,
        )
    return tuple(policy), merged


async def first_stop(
    room: TurnContext, turn: Turn, results: Sequence[GateResult], context: dict[str, Any]
) -> GateResult | None:
    """The first result that ends the turn: a block, or a question that was not answered by yes."""
    for result in results:
        if result.action is GateAction.BLOCK:
            return result
    for result in results:
        if result.action is GateAction.REQUIRE_APPROVAL:
            desk, connection = room.gate_desk, turn.origin.connection_id
            if desk is None or not await desk.approve_gate(
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


def clip(text: str) -> str:
    """The text, as long as a message may be."""
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}\n[the rest was dropped]"
