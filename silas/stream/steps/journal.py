"""Of step 10: what the owner wishes to be done to his journal. Nobody else's wish is done.

1. The turn answers a message, and the message is signed as the owner's. What a planner or a worker
   says later is nobody's wish.
2. The answer must be made from the owner's words alone. If text of others was read for it, or is in
   the conversation that the agent was told, a stranger may be the one who wishes: nothing is done.
3. The gates `on_tool_call` look at each wish. Whoever blocks, or wants to be asked, is obeyed.
4. What is done has an id made from the message's own: a turn that is taken again does it once.
5. What happened is told by the runtime. If something did not, the agent's own words are dropped: it
   does not know that.
"""

from typing import Any

from pydantic import ValidationError

from silas.gates import GateAction, GateTrigger
from silas.journal.spoken import Told
from silas.journal.wishes import JournalOp
from silas.kernel import TaintLevel, join_taint
from silas.queue.models import UserMessage
from silas.stream.gating import known_of, look, look_at_response
from silas.stream.ports import JournalRoom
from silas.stream.turn_context import Turn, TurnContext

_ABSENT = "There is no journal here, so nothing was written."
_NOT_THE_OWNER = (
    "Only the owner can change the journal, with a message that is signed as the owner's. Nothing "
    "was written."
)
_FOREIGN = (
    "Nothing was written into your journal: text that is not yours was read for this answer, and "
    "it could be what wished for it. Write it yourself, in Journal or with `silas journal`."
)
_WITHHELD = (
    "A rule stopped my answer. What you wished for in the journal was looked at before that."
)


async def apply_journal_ops(room: TurnContext, turn: Turn) -> Turn:
    """The owner's own wishes, each once."""
    response, said = turn.response, turn.message.payload
    if response is None or not response.journal_ops or not isinstance(said, UserMessage):
        return turn
    refusal = _refusal(room, turn)
    if refusal is not None or room.journal is None:
        await _log_refusal(room, turn, response.journal_ops, refusal or _ABSENT)
        return turn.saying(refusal or _ABSENT)
    answers: list[Told] = []
    for number, op in enumerate(response.journal_ops):
        operation_id = f"{turn.message.message_id}.journal{number}"
        told = await _fulfil(room, turn, op, journal=room.journal, operation_id=operation_id)
        if told.done:
            turn = _audited(room, turn, op, told, operation_id=operation_id)
        else:
            # The text may name records, and so repeat what somebody else wrote.
            await _log_refusal(room, turn, [op], told.code)
        answers.append(told)
    return await _say(room, turn, answers, own_words=response.message)


def _refusal(room: TurnContext, turn: Turn) -> str | None:
    if room.journal is None:
        return _ABSENT
    if turn.message.taint is not TaintLevel.OWNER:  # 1
        return _NOT_THE_OWNER
    return None if turn.taint is TaintLevel.OWNER else _FOREIGN  # 2


async def _fulfil(
    room: TurnContext, turn: Turn, op: JournalOp, *, journal: JournalRoom, operation_id: str
) -> Told:
    wish = {"tool_name": "journal_op", "tool_args": op.model_dump(mode="json")}
    context: dict[str, Any] = {**known_of(turn), **wish, "taint": turn.taint.value}
    trigger = GateTrigger.ON_TOOL_CALL
    results, context = await look(room, turn, trigger, context, quality="quality_gate_tool_call")
    stopping = next((each for each in results if each.action is not GateAction.CONTINUE), None)
    if stopping is not None:  # 3
        told = f"Nothing was written: the gate {stopping.gate_name} stopped it."
        return Told(text=told, taint=TaintLevel.OWNER, done=False, code="a gate stopped it")
    try:
        op = JournalOp.model_validate(context["tool_args"])
    except ValidationError:
        told = "Nothing was written: a gate has changed the wish into something else."
        return Told(text=told, taint=TaintLevel.OWNER, done=False, code="a gate changed it")
    said = turn.message.payload
    said_at = said.timestamp if isinstance(said, UserMessage) else turn.message.created_at
    return await journal.fulfil(op, operation_id=operation_id, said_at=said_at)  # 4


def _audited(
    room: TurnContext, turn: Turn, op: JournalOp, told: Told, *, operation_id: str
) -> Turn:
    entry = {
        **known_of(turn),
        "op": op.op.value,
        "operation_id": operation_id,
        "records": list(told.changed),
    }
    return turn.auditing(lambda tx: room.audit.append(tx, "journal_changed", entry))


async def _log_refusal(room: TurnContext, turn: Turn, ops: list[JournalOp], reason: str) -> None:
    wanted = [op.op.value for op in ops]
    await room.audit.log("journal_op_refused", **known_of(turn), ops=wanted, reason=reason)


async def _say(room: TurnContext, turn: Turn, answers: list[Told], *, own_words: str) -> Turn:
    """The answer, past the same gates as every other, with the taint of what is told in it (5)."""
    lines = [each.text for each in answers]
    if all(each.done for each in answers) and own_words.strip():
        lines.insert(0, own_words)
    taint = join_taint(turn.taint, *(each.taint for each in answers))
    looked, stopping = await look_at_response(room, turn.saying("\n".join(lines)))
    return (looked if stopping is None else turn.saying(_WITHHELD)).having(taint=taint)
