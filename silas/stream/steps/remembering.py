"""Steps 3 to 5 and 9 to 11.5: chronicle, memory and context. Absent rooms make them do nothing.

All of it happens before the turn is committed, and may happen again if the process dies in between:
every entry has an id made from the message's own, so that the same thing is added once.
"""

from pydantic import ValidationError

from silas.gates import GateAction, GateTrigger
from silas.kernel import SilasError, TaintLevel
from silas.memory.models import MemoryItem, MemoryOp, MemoryQuery, ReingestionTier
from silas.stream.gating import known_of, look
from silas.stream.ports import ChronicleEntry
from silas.stream.turn_context import Turn, TurnContext, Write

_RECALLED = 5
_MAX_QUERY = 2000


async def chronicle_message(room: TurnContext, turn: Turn) -> Turn:
    """Step 3: what was said is part of the conversation; the next step writes it down."""
    if room.context is None:
        return turn
    taint = turn.message.taint
    text = f"[{taint.value}] {turn.sender_id}: {turn.text}"
    said = await room.context.saying(
        _entry(turn, "in", f"channel:{turn.origin.channel}", text=text, taint=taint)
    )
    return turn.having(said=said, found=(*turn.found, said.write))


async def keep_message(room: TurnContext, turn: Turn) -> Turn:
    """Step 3.5: the raw message is kept, without coming back by itself.

    In one transaction with what was found out about it: from here on it is known, whatever becomes
    of the answer.
    """
    raw = _raw(room, turn, "in", turn.text, kind="conversation_raw", taint=turn.message.taint)
    writes = (*turn.found, *raw)
    if writes:
        await room.store.write(writes)
    if turn.said is not None:
        await turn.said.show()
    return turn.having(found=(), said=None)


async def recall(room: TurnContext, turn: Turn) -> Turn:
    """Step 4: memories that fit the message come into the context."""
    text = turn.text.strip()[:_MAX_QUERY]
    if text:
        await _inject(room, turn, [MemoryQuery(query=text, max_results=_RECALLED)])
    return turn


async def enforce_budget(room: TurnContext, turn: Turn) -> Turn:
    """Step 5: what does not fit leaves the context."""
    if room.context is not None:
        goal = room.active_goal.title if room.active_goal else None
        await room.context.enforce_budget(turn.scope_id, turn.number, current_goal=goal)
    return turn


async def answer_queries(room: TurnContext, turn: Turn) -> Turn:
    """Step 9: what the agent wants to remember next time comes into the context."""
    if turn.response is not None:
        queries = turn.response.memory_queries
        await _inject(room, turn, queries)
        if room.context is not None:
            for query in queries:
                await room.context.watch_query(turn.scope_id, query.query, turn_number=turn.number)
    return turn


async def apply_memory_ops(room: TurnContext, turn: Turn) -> Turn:
    """Step 10: what the agent wishes to be remembered: not too much, and past the gates."""
    if turn.response is None or room.memory is None:
        return turn
    wishes = turn.response.memory_ops
    most = _how_many(room, turn.scope_id, len(wishes))
    if len(wishes) > most:
        await room.audit.log(
            "memory_ops_truncated", **known_of(turn), wanted=len(wishes), kept=most
        )
    for number, op in enumerate(wishes[:most]):
        await _apply(room, turn, op, key=f"{turn.message.message_id}.op{number}")
    return turn


def _how_many(room: TurnContext, scope_id: str, wanted: int) -> int:
    """As many as one turn may have, and as are left in this minute."""
    most = min(wanted, room.policy.max_memory_ops)
    if room.memory_ops is None:
        return most
    return sum(room.memory_ops.take(scope_id) for _ in range(most))


async def chronicle_response(room: TurnContext, turn: Turn) -> Turn:
    """Step 11: the answer is part of the conversation, once it is sent."""
    if turn.response is None or room.context is None:
        return turn
    text = f"Silas: {turn.response.message}"
    said = await room.context.saying(
        _entry(turn, "out", f"agent:{turn.speaker.value}", text=text, taint=turn.taint)
    )
    return turn.writing(said.write).having(said=said, after=(*turn.after, said.show))


async def keep_response(room: TurnContext, turn: Turn) -> Turn:
    """Step 11.5: the raw answer is kept, without coming back by itself."""
    if turn.response is None:
        return turn
    said = turn.response.message
    return turn.writing(*_raw(room, turn, "out", said, kind="agent_response_raw", taint=turn.taint))


def _entry(turn: Turn, end: str, source: str, *, text: str, taint: TaintLevel) -> ChronicleEntry:
    return ChronicleEntry(
        entry_id=f"{turn.message.message_id}.{end}",
        scope_id=turn.scope_id,
        turn_number=turn.number,
        source=source,
        text=text,
        taint=taint,
    )


def _raw(
    room: TurnContext, turn: Turn, end: str, text: str, *, kind: str, taint: TaintLevel
) -> tuple[Write, ...]:
    """What keeps a text as it was said, in the session that its entry of the chronicle has."""
    if room.memory is None or not text:
        return ()
    now, said = room.clock.now(), turn.said
    keep = room.memory.raw_record(
        MemoryItem(
            memory_id=f"raw_{turn.message.message_id}.{end}",
            scope_id=turn.scope_id,
            content=text,
            reingestion_tier=ReingestionTier.LOW_REINGESTION,
            taint=taint,
            created_at=now,
            updated_at=now,
            source_kind=kind,
        )
    )
    return (lambda tx: keep(tx, said.session if said is not None else None),)


async def _inject(room: TurnContext, turn: Turn, queries: list[MemoryQuery]) -> None:
    if room.memory is None or room.context is None:
        return
    for query in queries:
        found = await room.memory.retrieve(query, turn.scope_id)
        await room.context.add_memories(turn.scope_id, found, turn_number=turn.number)


async def _apply(room: TurnContext, turn: Turn, op: MemoryOp, *, key: str) -> None:
    if room.memory is None:
        return
    wish = {"tool_name": "memory_op", "tool_args": op.model_dump(mode="json")}
    context = {**known_of(turn), **wish, "taint": turn.taint.value}
    trigger = GateTrigger.ON_TOOL_CALL
    results, context = await look(room, turn, trigger, context, quality="quality_gate_tool_call")
    stopping = [each for each in results if each.action is not GateAction.CONTINUE]
    if stopping:
        reason = f"{stopping[0].gate_name}: {stopping[0].reason}"
        await room.audit.log("memory_op_blocked", **known_of(turn), op=op.op.value, reason=reason)
        return
    try:
        op = MemoryOp.model_validate(context["tool_args"])
        await room.memory.apply(op, scope_id=turn.scope_id, taint=turn.taint, key=key)
    except (SilasError, ValidationError) as error:
        await room.audit.log(
            "memory_op_refused", **known_of(turn), op=op.op.value, reason=str(error)
        )
