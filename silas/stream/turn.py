"""The turn pipeline: every step, listed once, in its order.

Three kinds of messages take this way. What a user says takes all of it. What the planner answers,
and how work is going, is Silas speaking: for them the way begins with the gates and goes on with
the response. A step that stops the turn (a gate that blocks) skips to what must always happen.

Everything that the turn leads to is sent and written together at its end, or not at all.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from silas.queue.models import MessageKind
from silas.stream.steps.closing import count_turn, send, settle_mood
from silas.stream.steps.gates import input_gates, output_gates, precompile_gates
from silas.stream.steps.plans import handle_plan
from silas.stream.steps.remembering import (
    answer_queries,
    chronicle_message,
    chronicle_response,
    enforce_budget,
    keep_message,
    keep_response,
    recall,
)
from silas.stream.steps.routing import route
from silas.stream.steps.sender import (
    allow_tools,
    prepare_skills,
    sign_and_taint,
    surface_what_waits,
    update_access,
)
from silas.stream.steps.wishes import apply_ops
from silas.stream.turn_context import Turn, TurnContext

_USER = frozenset({MessageKind.USER_MESSAGE})
_TALK = _USER | {MessageKind.PLAN_RESULT}
_ALL = _TALK | {MessageKind.EXECUTION_STATUS}


@dataclass(frozen=True)
class Step:
    """One step: its number in the specification, and the messages that take it."""

    number: str
    run: Callable[[TurnContext, Turn], Awaitable[Turn]]
    takes: frozenset[MessageKind]
    always: bool = False
    """Also after the turn was stopped."""


STEPS: tuple[Step, ...] = (
    Step("0", precompile_gates, _ALL),
    Step("0.5", surface_what_waits, _USER),
    Step("1", input_gates, _USER),
    Step("2", sign_and_taint, _USER, always=True),
    Step("3", chronicle_message, _USER),
    Step("3.5", keep_message, _USER),
    Step("4", recall, _USER),
    Step("5", enforce_budget, _USER),
    Step("6", allow_tools, _USER),
    Step("6.5", prepare_skills, _USER),
    Step("7", route, _USER),
    Step("8", output_gates, _ALL),
    Step("9", answer_queries, _TALK),
    Step("10", apply_ops, _TALK),
    Step("11", chronicle_response, _ALL),
    Step("11.5", keep_response, _TALK),
    Step("12", handle_plan, _TALK),
    Step("13", send, _ALL, always=True),
    Step("14", update_access, _USER),
    Step("15", settle_mood, _ALL, always=True),
    Step("16", count_turn, _USER, always=True),
)


async def take_turn(room: TurnContext, turn: Turn) -> Turn:
    """The turn after all its steps."""
    kind = turn.message.message_kind
    for step in STEPS:
        if kind in step.takes and (turn.stopped is None or step.always):
            turn = await step.run(room, turn)
    return turn
