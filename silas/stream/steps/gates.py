"""Steps 0, 1 and 8: the gates of a turn. They are collected once, and the same ones look twice."""

from silas.gates import GateResult, GateTrigger
from silas.gates.escalation import Escalator
from silas.gates.ports import GateBlock
from silas.stream.desk import TurnDesk
from silas.stream.gating import first_stop, known_of, look, look_at_response
from silas.stream.turn_context import Turn, TurnContext

_SORRY = "I can't go on with this: a rule stopped it. The owner can see which one."


async def precompile_gates(room: TurnContext, turn: Turn) -> Turn:
    """Step 0: the gates of the configuration and of the active goal, fixed for this turn."""
    goal = room.active_goal
    gates = (*room.system_gates, *(goal.gates if goal else ()))
    return turn.having(gates=gates, runner=room.gates.for_turn() if room.gates else None)


async def input_gates(room: TurnContext, turn: Turn) -> Turn:
    """Step 1: the message may be blocked, asked about, or rewritten."""
    context = {"message": turn.text, **known_of(turn)}
    trigger = GateTrigger.EVERY_USER_MESSAGE
    results, context = await look(room, turn, trigger, context, quality="quality_gate_input")
    turn = turn.having(input_results=results)
    stopping = await first_stop(room, turn, results, context)
    if stopping is None:
        return turn.having(text=str(context["message"]))
    return await _escalate(room, turn, stopping, again=None)


async def output_gates(room: TurnContext, turn: Turn) -> Turn:
    """Step 8: the response may be suppressed, asked about, or rewritten."""
    if turn.response is None:
        return turn
    passed, stopping = await look_at_response(room, turn)
    if stopping is None:
        return passed
    suppressed = turn.having(response=None, decision=None)
    return await _escalate(room, suppressed, stopping, again=turn)


async def _escalate(
    room: TurnContext, turn: Turn, result: GateResult, *, again: Turn | None
) -> Turn:
    """Do what the gate's `on_block` says; the turn goes on only if a new answer has passed."""
    goal = room.active_goal
    gate = next((each for each in turn.gates if each.name == result.gate_name), None)
    desk = TurnDesk(room, again)
    escalator = Escalator(desk, audit=room.audit, escalations=goal.escalation if goal else None)
    outcome = await escalator.handle(
        GateBlock(
            gate_name=result.gate_name,
            reason=result.reason,
            sender_id=turn.sender_id,
            on_block=gate.on_block if gate else "report",
        )
    )
    if outcome.resolved and desk.passed is not None:
        return desk.passed
    told = " ".join(desk.said) or _SORRY
    return (
        turn.sending(*desk.notices(turn))
        .having(response=None, stopped=f"gate {result.gate_name}", mood="blocked")
        .saying(told)
    )
