"""The turn pipeline: every step, listed once, in its order.

Three kinds of messages take this way. What a user says takes all of it. What the planner answers,
and how work is going, is Silas speaking: for them the way begins with the gates and goes on with
the response. A step that stops the turn (a gate that blocks) skips to what must always happen.

Everything that the turn leads to is sent and written together at its end, or not at all.

The owner can stop the steps that may take long: gates, and the agent. What was shown of the answer
then is the answer, marked as stopped, and nothing that was asked for is begun.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

from silas.kernel import Provenance
from silas.queue.models import MessageKind
from silas.stream.answering import NOTHING_BEGUN, STOPPED, AnswerStopped
from silas.stream.models import AgentResponse
from silas.stream.skills import prepare_skills
from silas.stream.steps.gates import input_gates, output_gates, precompile_gates
from silas.stream.steps.plans import handle_plan
from silas.stream.steps.records import apply_ops
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
    count_turn,
    send,
    settle_mood,
    sign_and_taint,
    surface_what_waits,
    update_access,
)
from silas.stream.turn_context import Turn, TurnContext

_USER = frozenset({MessageKind.USER_MESSAGE})
_TALK = _USER | {MessageKind.PLAN_RESULT}
_ALL = _TALK | {MessageKind.EXECUTION_STATUS}


@dataclass(frozen=True)
class Step:
    """One step: its number in the specification, and the messages that take it."""

    number: str
    run: Callable[[TurnContext, Turn], Coroutine[Any, Any, Turn]]
    takes: frozenset[MessageKind]
    always: bool = False
    """Also after the turn was stopped."""
    may_last: bool = False
    """The owner can stop it."""
    keeps: bool = False
    """Also after the owner has stopped the turn: what was said by then is remembered."""


STEPS: tuple[Step, ...] = (
    Step("0", precompile_gates, _ALL),
    Step("0.5", surface_what_waits, _USER),
    Step("1", input_gates, _USER, may_last=True),
    Step("2", sign_and_taint, _USER, always=True),
    Step("3", chronicle_message, _USER),
    Step("3.5", keep_message, _USER),
    Step("4", recall, _USER),
    Step("5", enforce_budget, _USER),
    Step("6", allow_tools, _USER),
    Step("6.5", prepare_skills, _USER),
    Step("7", route, _USER, may_last=True),
    Step("8", output_gates, _ALL, may_last=True),
    Step("9", answer_queries, _TALK),
    Step("10", apply_ops, _TALK),
    Step("11", chronicle_response, _ALL, keeps=True),
    Step("11.5", keep_response, _TALK),
    Step("12", handle_plan, _TALK),
    Step("13", send, _ALL, always=True),
    Step("14", update_access, _USER),
    Step("15", settle_mood, _ALL, always=True),
    Step("16", count_turn, _USER, always=True),
)


_BY_OWNER = "the owner"


async def take_turn(services: TurnContext, turn: Turn) -> Turn:
    """The turn after all its steps."""
    kind = turn.message.message_kind
    for step in STEPS:
        if kind not in step.takes or not _goes_on(step, turn):
            continue
        run = _until_stopped(services, step, turn) if step.may_last else step.run(services, turn)
        turn = await run
        if step.run is output_gates and not _asks_planner(turn):
            services.answers.settle(turn.message.trace_id)
    return turn


def _goes_on(step: Step, turn: Turn) -> bool:
    return turn.stopped is None or step.always or (step.keeps and turn.stopped == _BY_OWNER)


def _asks_planner(turn: Turn) -> bool:
    """Whether the answer is still to come, from the planner."""
    return turn.decision is not None and turn.decision.route == "planner"


async def _until_stopped(services: TurnContext, step: Step, turn: Turn) -> Turn:
    trace_id = turn.message.trace_id
    try:
        return await services.answers.stoppable(trace_id, step.run(services, turn))
    except AnswerStopped:
        return _as_stopped(services, turn)


def _as_stopped(services: TurnContext, turn: Turn) -> Turn:
    """What was shown is the answer; what the turn would have led to is left out."""
    trace_id = turn.message.trace_id
    shown, found, stage = services.answers.stopped(trace_id)
    said = f"{shown.rstrip()}\n\n{STOPPED}" if shown else NOTHING_BEGUN
    made_from = Provenance(turn.taint, turn.sources).joined(found) if found else None
    entry = {"trace_id": trace_id, "stage": stage}
    turn = turn.auditing(lambda tx: services.audit.append(tx, "answer_stopped", entry))
    return replace(
        turn,
        response=AgentResponse(message=said),
        decision=None,
        outgoing=(),
        wishes=(),
        outputs=(),
        taint=made_from.taint if made_from else turn.taint,
        sources=made_from.sources if made_from else turn.sources,
        stopped=_BY_OWNER,
    )
