"""Step 10: what an agent wishes to be remembered, and what the owner wishes about their journal.

Both are decided by their own rules. What the owner has to be asked is one card for the turn, which
is asked when the turn is committed. The answer says what was changed, what was not, and what waits.

What an agent wishes to be remembered, changed or deleted (`apply_memory_ops`):

1. Gates `on_tool_call` look at each wish; there are only so many in a turn, and in a minute.
2. What the agent wants kept is the owner's words only if the owner has said it in this message
   (`silas.stream.own_words`), and nothing from outside was read for the answer. Everything else is
   kept as a model's wording, and the owner is told.
3. What the owner said is changed or deleted at once only if the owner asks for it in this message.
   Otherwise the owner is asked on a card; where they cannot be asked, or text from outside had a
   part in the answer, nothing is changed.
4. Every change is told, can be undone, and is in the audit log with ids and digests.

What the owner wishes to be done to their journal (`apply_journal_ops`). Nobody else's wish is done:

1. The turn answers a message, and the message is signed as the owner's. What a planner or a worker
   says later is nobody's wish.
2. If text of others was read for this answer, a stranger may be the one who wishes: nothing is
   done. If such text is in the conversation that the agent was told, or other agents have worded
   it, only what the message asks for exactly is done: those are the owner's own words.
3. What the message asks for exactly (`silas.stream.own_words`) is done at once. What the agent came
   up with is put before the owner on a card, and done after their yes.
4. The gates `on_tool_call` look at each wish. Whoever blocks, or wants to be asked, is obeyed.
5. What is done has an id made from the message's own: a turn that is taken again does it once.
6. What happened is told by the runtime. If something did not, the agent's own words are dropped: it
   does not know that.
"""

import hashlib
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from silas.gates import GateAction, GateTrigger
from silas.journal.conversation import JournalConversation, JournalOp, JournalReply
from silas.kernel import SilasError, TaintLevel, join_taint
from silas.kernel.ids import person_of
from silas.memory.changes import digest_of
from silas.memory.models import MemoryItem, MemoryOp, MemoryOpType, TrustLevel, Words
from silas.memory.service import MemoryService
from silas.queue.models import UserMessage
from silas.stream.answers import change_line, quoted, quoted_text, told_taint, with_undo
from silas.stream.gate_checks import clip, known_of, look, look_at_response
from silas.stream.own_words import (
    all_said,
    asked_for,
    corrects,
    fold,
    in_owners_words,
    names_to_forget,
)
from silas.stream.ports import ProposedChange, RecordProposal
from silas.stream.turn_context import Turn, TurnContext


@dataclass(frozen=True)
class MemoryNews:
    """What came of the wishes: lines for the owner, and what he is to be asked."""

    lines: tuple[str, ...] = ()
    asked: tuple[ProposedChange, ...] = ()
    taint: TaintLevel = TaintLevel.OWNER

    def joined(self, other: "MemoryNews") -> "MemoryNews":
        return MemoryNews(
            (*self.lines, *other.lines),
            (*self.asked, *other.asked),
            join_taint(self.taint, other.taint),
        )


async def apply_memory_ops(services: TurnContext, turn: Turn) -> MemoryNews:
    """Do, ask about or refuse each wish. Only in his own scope is the owner told (4)."""
    news = MemoryNews()
    if turn.response is None or services.memory is None:
        return news
    wishes = turn.response.memory_ops
    most = _how_many(services, turn.scope_id, len(wishes))
    if len(wishes) > most:
        await services.audit.log(
            "memory_ops_truncated", **known_of(turn), wanted=len(wishes), kept=most
        )
    for number, op in enumerate(wishes[:most]):
        key = f"{turn.message.message_id}.op{number}"
        news = news.joined(await _apply(services, turn, op, memory=services.memory, key=key))
    return (
        news
        if person_of(turn.scope_id) == services.policy.owner_id
        else MemoryNews(taint=news.taint)
    )


def _can_ask(services: TurnContext, turn: Turn) -> bool:
    """Whether the owner can be asked, in whichever conversation."""
    mine = person_of(turn.scope_id) == services.policy.owner_id
    return services.proactive is not None and mine


def _how_many(services: TurnContext, scope_id: str, wanted: int) -> int:
    """As many as one turn may have, and as are left in this minute."""
    most = min(wanted, services.policy.max_memory_ops)
    return sum(services.memory_ops.take(scope_id) for _ in range(most))


async def _apply(
    services: TurnContext, turn: Turn, op: MemoryOp, *, memory: MemoryService, key: str
) -> MemoryNews:
    wish = {"tool_name": "memory_op", "tool_args": op.model_dump(mode="json")}
    context = {**known_of(turn), **wish, "taint": turn.taint.value}
    trigger = GateTrigger.ON_TOOL_CALL
    results, context = await look(
        services, turn, trigger, context, quality="quality_gate_tool_call"
    )
    stopping = [each for each in results if each.action is not GateAction.CONTINUE]
    if stopping:
        reason = f"{stopping[0].gate_name}: {stopping[0].reason}"
        await services.audit.log(
            "memory_op_blocked", **known_of(turn), op=op.op.value, reason=reason
        )
        return _not_done(f"the gate {stopping[0].gate_name} stopped it.")
    try:
        op = MemoryOp.model_validate(context["tool_args"])
        return await _decide(services, turn, op, memory=memory, key=key)
    except (SilasError, ValidationError) as error:
        # What pydantic says repeats what was wished, and the log cannot forget it.
        said = error.message if isinstance(error, SilasError) else "the wish cannot be read."
        await services.audit.log("memory_op_refused", **known_of(turn), op=op.op.value, reason=said)
        return _not_done(said)


async def _decide(
    services: TurnContext, turn: Turn, op: MemoryOp, *, memory: MemoryService, key: str
) -> MemoryNews:
    old = None
    if op.op is not MemoryOpType.STORE:
        old = await memory.find(op.memory_id or "", person_of(turn.scope_id))
    if old is not None and _can_ask_about(op, old) and not _asked_to(turn, op, old):  # 3
        return await _propose(services, turn, op, old, key=key)
    words = Words.OWNER if _said(turn, op.content or "") else Words.MODEL  # 2
    taint = TaintLevel.OWNER if words is Words.OWNER else turn.taint
    if words is Words.OWNER:
        op = _with_said_labels(op, turn.message.content)
    scope = person_of(turn.scope_id)
    change = await memory.apply(op, scope_id=scope, taint=taint, words=words, key=key)
    if op.op is MemoryOpType.LINK or (words is Words.OWNER and _tells(turn, change.after)):
        return MemoryNews()
    return MemoryNews((change_line(change),), taint=told_taint(change))


async def _propose(
    services: TurnContext, turn: Turn, op: MemoryOp, old: MemoryItem, *, key: str
) -> MemoryNews:
    """Ask about it, if the owner can be asked and nobody else may be who wishes it."""
    outside = turn.taint is TaintLevel.EXTERNAL
    asks = _can_ask(services, turn)
    reason = "text that is not yours had a part in it" if outside else "you did not ask for it"
    if outside or not asks:
        await services.audit.log(
            "memory_op_refused",
            **known_of(turn),
            op=op.op.value,
            memory_id=old.memory_id,
            reason=reason,
        )
        return _not_done(f"{reason}. It still says {quoted(old)}.", taint=old.taint)
    then = f"Change {quoted(old)} to {quoted_text(op.content or '')}"
    line = f"Delete {quoted(old)}" if op.op is MemoryOpType.DELETE else then
    proposed = ProposedChange(
        room="memory",
        op=op.model_dump(mode="json"),
        key=key,
        line=f"{line} in what I remember of you.",
        before=digest_of(old),
    )
    return MemoryNews(asked=(proposed,), taint=old.taint)


def _can_ask_about(op: MemoryOp, old: MemoryItem) -> bool:
    """Whether this would change what the owner said; links and what is trusted are refused."""
    working = old.trust_level is TrustLevel.WORKING
    return old.taint is TaintLevel.OWNER and working and op.op is not MemoryOpType.LINK


def _is_message(turn: Turn) -> bool:
    """Whether this turn answers a message that is signed as the owner's."""
    return isinstance(turn.message.payload, UserMessage) and turn.message.taint is TaintLevel.OWNER


def _said(turn: Turn, text: str) -> bool:
    untouched = _is_message(turn) and turn.read_taint is not TaintLevel.EXTERNAL
    return untouched and in_owners_words(text, turn.message.content)


def _asked_to(turn: Turn, op: MemoryOp, old: MemoryItem) -> bool:
    """Whether the owner wants this change of what he said, in this very message."""
    if not _is_message(turn):
        return False
    message = turn.message.content
    if op.op is MemoryOpType.DELETE:
        return names_to_forget(message, memory_id=old.memory_id, content=old.content)
    if op.op is MemoryOpType.UPDATE:
        return _said_as_correction(turn, op, old)
    return False


def _said_as_correction(turn: Turn, op: MemoryOp, old: MemoryItem) -> bool:
    if turn.read_taint is TaintLevel.EXTERNAL:
        return False
    return corrects(turn.message.content, old=old.content, new=op.content or "")


def _with_said_labels(op: MemoryOp, message: str) -> MemoryOp:
    """Tags and entities of the owner's words are his words too."""
    tags = [tag for tag in op.tags if all_said(tag, message)]
    names = [name for name in op.entity_refs if all_said(name, message)]
    return op.model_copy(update={"tags": tags, "entity_refs": names})


def _tells(turn: Turn, item: MemoryItem | None) -> bool:
    """Whether the answer says already what was kept, word for word."""
    if item is None or turn.response is None:
        return False
    said, kept = " ".join(fold(turn.response.message)), " ".join(fold(item.content))
    return f" {kept} " in f" {said} "


def _not_done(reason: str, *, taint: TaintLevel = TaintLevel.OWNER) -> MemoryNews:
    return MemoryNews((f"Nothing was changed in the memory: {reason}",), taint=taint)


_ABSENT = "There is no journal here, so nothing was written."
_NOT_THE_OWNER = (
    "Only the owner can change the journal, with a message that is signed as the owner's. Nothing "
    "was written."
)
_FOREIGN = (
    "Nothing was written into your journal: text that is not yours was read for this answer, and "
    "the wish could come from that text. Write it yourself, in Journal or with `silas journal`."
)
_NOT_ASKED = (
    "Nothing was written into your journal: you did not ask for it, and nobody can be asked now."
)


@dataclass(frozen=True)
class JournalNews:
    """What came of the wishes: answers of the journal, and what the owner is to be asked."""

    answers: tuple[JournalReply, ...] = ()
    asked: tuple[ProposedChange, ...] = ()

    @property
    def all_done(self) -> bool:
        return all(each.done for each in self.answers)


async def apply_journal_ops(services: TurnContext, turn: Turn) -> tuple[Turn, JournalNews]:
    """The owner's own wishes, each once; what he did not wish for is to be asked."""
    response, said = turn.response, turn.message.payload
    if response is None or not response.journal_ops or not isinstance(said, UserMessage):
        return turn, JournalNews()
    ops = response.journal_ops
    refusal = _refusal(services, turn)
    if refusal is not None or services.journal is None:
        await _log_refusal(services, turn, ops, refusal or _ABSENT)
        return turn, JournalNews((_no(refusal or _ABSENT, "refused"),))
    answers: list[JournalReply] = []
    asked: list[ProposedChange] = []
    for number, (op, exact) in enumerate(
        zip(ops, asked_for(ops, turn.message.content), strict=True)
    ):
        key = operation_id_of(turn.message.message_id, number)
        if not exact and not await services.journal.was_done(key):  # 3
            reason = _cannot_ask(services, turn)
            if reason is None:
                asked.append(_proposed(op, key=key, said_at=said.timestamp))
                continue
            await _log_refusal(services, turn, [op], reason)
            answers.append(_no(reason, "not asked for"))
            continue
        told = await _fulfil(services, turn, op, journal=services.journal, operation_id=key)
        if told.done:
            turn = _audited(services, turn, op, told, operation_id=key)
            if told.changed:
                turn = replace(turn, journal_changes=(*turn.journal_changes, key))
            told = told.model_copy(update={"text": with_undo(told, key)})
        else:
            # The text may name records, and so repeat what somebody else wrote.
            await _log_refusal(services, turn, [op], told.code)
        answers.append(told)
    return turn, JournalNews(tuple(answers), tuple(asked))


def operation_id_of(message_id: str, number: int) -> str:
    """The id of the change that a message's wish makes; short, for it is told and typed."""
    return f"said_{hashlib.sha256(f'{message_id}.journal{number}'.encode()).hexdigest()[:16]}"


def _refusal(services: TurnContext, turn: Turn) -> str | None:
    if services.journal is None:
        return _ABSENT
    if turn.message.taint is not TaintLevel.OWNER:  # 1
        return _NOT_THE_OWNER
    return _FOREIGN if turn.read_taint is TaintLevel.EXTERNAL else None  # 2


def _cannot_ask(services: TurnContext, turn: Turn) -> str | None:
    """Why the owner cannot be asked about what he did not wish for; None if he can."""
    if turn.taint is not TaintLevel.OWNER:  # 2
        return _FOREIGN
    asks = _can_ask(services, turn)
    return None if asks else _NOT_ASKED


def _proposed(op: JournalOp, *, key: str, said_at: datetime) -> ProposedChange:
    fields = op.model_dump(mode="json", exclude_none=True, exclude={"op"})
    said = ", ".join(f"{name} {quoted_text(value)}" for name, value in fields.items())
    return ProposedChange(
        room="journal",
        op=op.model_dump(mode="json", exclude_none=True),
        key=key,
        line=f"{op.op.value.replace('_', ' ').capitalize()} in your journal: {said or 'now'}.",
        said_at=said_at,
    )


def _no(text: str, code: str) -> JournalReply:
    return JournalReply(text=text, taint=TaintLevel.OWNER, done=False, code=code)


async def _fulfil(
    services: TurnContext,
    turn: Turn,
    op: JournalOp,
    *,
    journal: JournalConversation,
    operation_id: str,
) -> JournalReply:
    wish = {"tool_name": "journal_op", "tool_args": op.model_dump(mode="json")}
    context: dict[str, Any] = {**known_of(turn), **wish, "taint": turn.taint.value}
    trigger = GateTrigger.ON_TOOL_CALL
    results, context = await look(
        services, turn, trigger, context, quality="quality_gate_tool_call"
    )
    stopping = next((each for each in results if each.action is not GateAction.CONTINUE), None)
    if stopping is not None:  # 4
        told = f"Nothing was written: the gate {stopping.gate_name} stopped it."
        return _no(told, "a gate stopped it")
    try:
        looked_at = JournalOp.model_validate(context["tool_args"])
    except ValidationError:
        looked_at = None
    if looked_at != op:  # 3 holds for what was wished, and for nothing else
        told = "Nothing was written: a gate has changed the wish into something else."
        return _no(told, "a gate changed it")
    said = turn.message.payload
    said_at = said.timestamp if isinstance(said, UserMessage) else turn.message.created_at
    return await journal.fulfil(op, operation_id=operation_id, said_at=said_at)  # 5


def _audited(
    services: TurnContext, turn: Turn, op: JournalOp, told: JournalReply, *, operation_id: str
) -> Turn:
    entry = {
        **known_of(turn),
        "op": op.op.value,
        "operation_id": operation_id,
        "records": list(told.changed),
    }
    return turn.auditing(lambda tx: services.audit.append(tx, "journal_changed", entry))


async def _log_refusal(
    services: TurnContext, turn: Turn, ops: list[JournalOp], reason: str
) -> None:
    wanted = [op.op.value for op in ops]
    await services.audit.log("journal_op_refused", **known_of(turn), ops=wanted, reason=reason)


_WAITS = (
    "Not done yet: you did not ask for this, so I ask you first. The card waits in Review and in "
    "`silas review list`."
)
_TOO_MANY = "Not done: you did not ask for this, and enough questions of this kind wait already."
_WITHHELD = (
    "A rule stopped my answer. What I was to change in your memory and your journal was looked at "
    "before that: `silas memory changes` and `silas journal today` show what is there."
)


async def apply_ops(services: TurnContext, turn: Turn) -> Turn:
    """Do, ask and tell."""
    remembered = await apply_memory_ops(services, turn)
    turn, written = await apply_journal_ops(services, turn)
    turn, asked = await _ask(services, turn, (*remembered.asked, *written.asked))
    lines = [*remembered.lines, *(each.text for each in written.answers), *asked]
    return await _say(services, turn, lines, remembered, written) if lines else turn


async def _ask(
    services: TurnContext, turn: Turn, changes: tuple[ProposedChange, ...]
) -> tuple[Turn, list[str]]:
    if not changes:
        return turn, []
    proposal = RecordProposal(
        key=turn.message.message_id,
        scope_id=turn.scope_id,
        trace_id=turn.message.trace_id,
        changes=list(changes),
        taint=turn.taint,
    )
    asking = (
        await services.proactive.ask_changes(proposal) if services.proactive is not None else None
    )
    entry = {
        **known_of(turn),
        "changes": [f"{each.room}:{each.op['op']}" for each in changes],
        "asked": asking is not None,
    }
    turn = turn.auditing(lambda tx: services.audit.append(tx, "record_changes_proposed", entry))
    lines = [f"- {each.line}" for each in changes]
    if asking is None:
        return turn, [_TOO_MANY, *lines]
    return turn.writing(asking), [_WAITS, *lines]


async def _say(
    services: TurnContext,
    turn: Turn,
    lines: list[str],
    remembered: MemoryNews,
    written: JournalNews,
) -> Turn:
    """The answer, past the same gates as every other, with the taint of what is told in it."""
    own_words = turn.response.message if turn.response is not None else ""
    if written.all_done and own_words.strip():
        lines.insert(0, clip(own_words, room=sum(map(len, lines)) + len(lines)))
    told = (each.taint for each in written.answers)
    taint = join_taint(turn.taint, remembered.taint, TaintLevel.OWNER, *told)
    looked, stopping = await look_at_response(services, turn.saying("\n".join(lines)))
    return replace(looked if stopping is None else turn.saying(_WITHHELD), taint=taint)
