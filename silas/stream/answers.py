"""What an answer leads to. Nothing here executes anything: at most it asks for a plan.

| kind | answer | then |
|---|---|---|
| draft | edit | the plan with the owner's text, asked anew |
| | approve | the plan as it was, asked anew |
| | rephrase | the planner is asked to write it differently |
| decision | again | the same plan, asked anew |
| | another_way | the planner is asked |
| suggestion | do_it | the planner is asked, in a conversation of its own |
| | do_it, of work to be kept | a skill is drafted, and asked about (`silas.stream.skills`) |
| autonomy | approve | a token for exactly this change, then the change |
| | tighten_now | back to the settings: changes and standing grants |
| record | approve | exactly these changes of the memory and the journal |
| place | approve, narrow | the place is open, and the request that needed it is answered |
| batch | edit_selection | a batch of those that were chosen, to be approved by itself |

Changes of the memory and the journal that an agent came up with (`record`) are asked about first:

1. All changes of one turn are one card. It shows what each would do, and holds the changes whole.
2. A signed yes makes exactly those. A memory that is not what it was when it was shown stays.
3. What a model has worded stays a model's wording, also with a yes.
4. What came of it is told, and can be undone like every other change.
"""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from silas.gates.risk import RiskLevel
from silas.journal.conversation import JournalOp, JournalReply
from silas.kernel import ApprovalError, SilasError, TaintLevel, join_taint, visible
from silas.kernel.ids import person_of
from silas.memory.changes import digest_of
from silas.memory.models import MemoryChange, MemoryItem, MemoryOp, MemoryOpType, Words
from silas.memory.trust import is_model_worded
from silas.proactive.autonomy import AutonomyService
from silas.proactive.suggestions import ACCEPTED, DISMISSED, SuggestionEngine
from silas.queue.consumer import Handled
from silas.queue.models import (
    Agent,
    MessageKind,
    PlanRequest,
    QueueMessage,
    UserMessage,
    follow,
)
from silas.review.decisions import QuestionKind
from silas.review.questions import (
    QUESTION,
    AnsweredQuestion,
    Question,
    QuestionChoice,
    QuestionContent,
    QuestionStore,
    value_of,
)
from silas.review.unasked import UnaskedCards, is_digest
from silas.storage import Durability
from silas.stream.cards import asked, asking, fresh_copy, reply
from silas.stream.interaction import resolve_interaction_mode
from silas.stream.models import InteractionRegister
from silas.stream.offers import AGAIN, ANOTHER_WAY, selection_of, with_text
from silas.stream.ports import ProposedChange, RecordProposal
from silas.stream.store import Origin, own_origin
from silas.stream.turn_context import TurnContext, Write
from silas.work.models import WorkItem

MOST_OPEN = 3
"""How many such cards wait at once: an agent that wishes for more is refused."""

_LIFETIME = timedelta(days=7)
_YES = "approve"
_SHOWN = 200
_LEFT = "I left your memory and your journal as they are."
_MOVED = "Nothing was changed: this memory is not what it was when I asked."


def question_of(proposal: RecordProposal, *, now: datetime) -> Question:
    """The card (rule 1)."""
    name = f"{QUESTION}_{hashlib.sha256(proposal.key.encode()).hexdigest()[:40]}"
    lines = "\n".join(f"- {each.line}" for each in proposal.changes)
    return Question(
        question_id=name,
        scope_id=proposal.scope_id,
        trace_id=proposal.trace_id,
        about=f"record:{proposal.key}",
        content=QuestionContent(
            kind=QuestionKind.RECORD,
            intent=_intent(proposal),
            rationale="You did not ask for this in your message; the answer to it wants it.",
            risk=RiskLevel.LOW,
            taint=proposal.taint,
            actions=[
                QuestionChoice(value=_YES, label="Change it"),
                QuestionChoice(value="decline", label="Leave it"),
            ],
            body={
                "question": lines,
                "changes": [each.model_dump(mode="json") for each in proposal.changes],
            },
        ),
        created_at=now,
        expires_at=now + _LIFETIME,
    )


def _intent(proposal: RecordProposal) -> str:
    if all(each.room == "journal" for each in proposal.changes):
        return "Change your journal?"
    return "Change what I remember about you?"


async def follow_changes(
    services: TurnContext, question: Question, answer: Mapping[str, Any]
) -> str:
    """Make the changes if the owner has said yes (rule 2); returns what he is told."""
    said = value_of(answer)
    proposed = question.content.body["changes"]
    await services.audit.log(
        "record_changes_decided",
        card_id=question.question_id,
        answer=str(said),
        changes=len(proposed),
    )
    if said != _YES:
        return _LEFT
    lines = [
        await _make(services, question, ProposedChange.model_validate(each)) for each in proposed
    ]
    return "\n".join(lines)


async def _make(services: TurnContext, question: Question, change: ProposedChange) -> str:
    try:
        if change.room == "memory":
            return await _change_memory(services, question, change)
        return await _change_journal(services, question, change)
    except (SilasError, ValidationError) as error:
        reason = error.message if isinstance(error, SilasError) else "It cannot be read."
        await services.audit.log(
            "record_change_refused", card_id=question.question_id, services=change.room
        )
        return f"Nothing was changed: {reason}"


async def _change_memory(services: TurnContext, question: Question, change: ProposedChange) -> str:
    op, memory = MemoryOp.model_validate(change.op), services.memory
    if memory is None:
        return _MOVED
    scope = person_of(question.scope_id)
    old = await memory.find(op.memory_id or "", scope)
    if old is None or digest_of(old) != change.before:
        return _MOVED
    made = await memory.apply(
        op,
        scope_id=scope,
        taint=question.content.taint,
        words=Words.MODEL,
        key=change.key,
    )
    return change_line(made)


async def _change_journal(services: TurnContext, question: Question, change: ProposedChange) -> str:
    if services.journal is None or change.said_at is None:
        return "Nothing was written: there is no journal here."
    op = JournalOp.model_validate(change.op)
    told = await services.journal.fulfil(op, operation_id=change.key, said_at=change.said_at)
    if told.done:
        await services.audit.log(
            "journal_changed",
            card_id=question.question_id,
            op=op.op.value,
            operation_id=change.key,
            records=list(told.changed),
        )
        return with_undo(told, change.key)
    return told.text


def with_undo(told: JournalReply, operation_id: str) -> str:
    """What the journal tells, and how it is undone if anything was changed."""
    if not told.changed:
        return told.text
    return f"{told.text} Undo: `silas journal undo {operation_id}`."


def change_line(change: MemoryChange) -> str:
    """What was changed in the memory, and how it is undone."""
    return f"{_what(change)} Undo: `silas memory undo {change.change_id}`."


def _what(change: MemoryChange) -> str:
    before, after = change.before, change.after
    if after is None:
        return f"I no longer remember: {quoted(before)}."
    whose = "in my own words" if is_model_worded(after) else "in your words"
    if before is None:
        return f"I noted, {whose}: {quoted(after)}."
    if change.op is MemoryOpType.LINK:
        return f"I linked what I remember: {quoted(after)}."
    return f"I changed what I remember: {quoted(before)} is now {quoted(after)}, {whose}."


def quoted(item: MemoryItem | None) -> str:
    """A memory's text, on one line."""
    return quoted_text(item.content if item is not None else "")


def quoted_text(text: str) -> str:
    """A text on one line, as it may stand in a sentence."""
    line = visible(" ".join(text.split()), keep_newlines=False)
    return f"“{line if len(line) <= _SHOWN else f'{line[:_SHOWN]}…'}”"


def told_taint(change: MemoryChange) -> TaintLevel:
    """Whose words stand in the line of a change, besides those of the agent that answers."""
    return change.before.taint if change.before is not None else TaintLevel.OWNER


_CHANGED = "Here is the plan with your changes. Nothing happens before your yes."
_SAME = "Here is the plan again. Nothing happens before your yes."
_NOT_WRITTEN = "I cannot put that text into the plan exactly. Please tell me in your own words."
_REWRITE = "Write the text of this plan differently."
_OTHERWISE = "This plan did not work. Plan another way to reach the same."
Answer = Mapping[str, Any]


@dataclass(frozen=True)
class Answers:
    """Follows the answers of one data directory."""

    questions: QuestionStore
    autonomy: AutonomyService
    suggestions: SuggestionEngine
    unasked: UnaskedCards

    async def follow(self, services: TurnContext, message: QueueMessage, name: str) -> Handled:
        """Do what the signed answer says; an answer that nobody signed leads to nothing."""
        found = await self.questions.answered(name)
        if found is None:
            return Handled()
        question, answer, _ = found
        if question.content.kind is QuestionKind.AUTONOMY:
            return await self._autonomy(services, message, found)
        ways: dict[QuestionKind, Callable[..., Awaitable[Handled]]] = {
            QuestionKind.DRAFT: self._draft,
            QuestionKind.DECISION: self._decision,
            QuestionKind.SUGGESTION: self._suggestion,
            QuestionKind.BATCH: self._batch,
            QuestionKind.RECORD: self._record,
            QuestionKind.PLACE: self._place,
        }
        way = ways.get(question.content.kind)
        return await way(services, message, question, answer) if way else Handled()

    async def _draft(
        self, services: TurnContext, message: QueueMessage, question: Question, answer: Answer
    ) -> Handled:
        origin, item = await _about(services, question)
        if origin is None or item is None:
            return Handled()
        verdict = answer.get("verdict")
        if verdict == "rephrase":
            words = str(answer.get("words") or "").strip()
            text = "\n\n".join([_REWRITE, *([words] if words else []), item.body])
            return Handled((_plan(services, message, origin, text, question),))
        if verdict not in ("edit", "approve"):
            told = f"{item.title}: dropped. Nothing of it was done."
            return Handled((reply(services, message, origin, told),))
        changed = with_text(item, str(answer.get("edited_text", ""))) if verdict == "edit" else item
        if changed is None:
            return Handled((reply(services, message, origin, _NOT_WRITTEN),))
        return await _ask_again(services, message, origin, changed, before=item, question=question)

    async def _decision(
        self, services: TurnContext, message: QueueMessage, question: Question, answer: Answer
    ) -> Handled:
        origin, item = await _about(services, question)
        if origin is None or item is None:
            return Handled()
        said = str(answer.get("freetext") or "").strip()
        wish = answer.get("selected_value")
        if wish == ANOTHER_WAY or (said and wish is None):
            text = "\n\n".join([_OTHERWISE, *([said] if said else []), item.body])
            return Handled((_plan(services, message, origin, text, question),))
        if wish == AGAIN:
            return await _ask_again(services, message, origin, item, before=item, question=question)
        return Handled((reply(services, message, origin, f"{item.title}: I leave it."),))

    async def _suggestion(
        self, services: TurnContext, message: QueueMessage, question: Question, answer: Answer
    ) -> Handled:
        said = str(answer.get("selected_value"))
        if is_digest(question):
            await self.unasked.follow(question, said)
            return Handled()
        outcome = ACCEPTED if said == "do_it" else DISMISSED
        await self.suggestions.mark_handled(question.scope_id, question, outcome)
        if outcome != ACCEPTED:
            return Handled()
        content = question.content
        origin, note = _unasked_origin(services, question)
        if tells := content.body.get("tells"):
            return Handled((reply(services, message, origin, str(tells)),), (note,))
        request = _plan(services, message, origin, str(content.body["request"]), question)
        begun = reply(services, message, origin, f"I plan it: {content.intent}.")
        return Handled((request, begun), (note,))

    async def _autonomy(
        self, services: TurnContext, message: QueueMessage, answered: AnsweredQuestion
    ) -> Handled:
        name, verdict = answered.question.question_id, answered.value
        if verdict == "tighten_now":
            await self.autonomy.tighten(name)
        elif verdict == "approve":
            try:
                await self.autonomy.calibrator.apply(answered)
            except ApprovalError as error:
                await services.audit.log("autonomy_refused", reason=error.message)
                origin, note = _unasked_origin(services, answered.question)
                return Handled((reply(services, message, origin, error.message),), (note,))
        else:
            await services.audit.log("autonomy_decided", proposal=name, verdict=str(verdict))
        return Handled()

    async def _record(
        self, services: TurnContext, message: QueueMessage, question: Question, answer: Answer
    ) -> Handled:
        origin = await services.store.origin(question.trace_id)
        told = await follow_changes(services, question, answer)
        return Handled((reply(services, message, origin, told),) if origin else ())

    async def _place(
        self, services: TurnContext, message: QueueMessage, question: Question, answer: Answer
    ) -> Handled:
        del answer
        places = services.places
        if places is None:
            return Handled()
        agreed = await places.agreed(question.question_id)
        origin = await services.store.origin(question.trace_id)
        if agreed is None:
            told = f"I do not read {places.shown(Path(str(question.content.body['place'])))}."
            return Handled((reply(services, message, origin, told),) if origin else ())
        opening = await places.opening(agreed)
        again = (_again(services, message, origin, question),) if origin else ()
        return Handled(again, (opening,), Durability.TRUST)

    async def _batch(
        self, services: TurnContext, message: QueueMessage, question: Question, answer: Answer
    ) -> Handled:
        if answer.get("verdict") != "edit_selection":
            return Handled()
        smaller = selection_of(services, question, list(answer.get("selected_item_ids") or ()))
        if smaller is not None:
            await self.questions.ask(smaller)
        return Handled()


def _unasked_origin(services: TurnContext, question: Question) -> tuple[Origin, Write]:
    """Where it is told what came of a card that nobody has asked for, and what notes that."""
    owner = services.policy.owner_id
    origin = own_origin(
        owner,
        question.question_id,
        scope_id=question.scope_id,
        sender_id=owner,
        taint=question.content.taint,
        trace_id=question.trace_id,
    )
    return origin, lambda tx: services.store.note_origin(tx, origin)


async def _about(
    services: TurnContext, question: Question
) -> tuple[Origin | None, WorkItem | None]:
    body = question.content.body
    name = body.get("work_item_id") or body.get("metadata", {}).get("work_item_id")
    return await services.store.origin(question.trace_id), await services.items.get(str(name))


async def _ask_again(
    services: TurnContext,
    message: QueueMessage,
    origin: Origin,
    item: WorkItem,
    *,
    before: WorkItem,
    question: Question,
) -> Handled:
    taint = join_taint(question.content.taint, await services.store.taint_of(before))
    changed = item.body != before.body
    review, write = asking(
        services,
        origin,
        await fresh_copy(services, item),
        taint=taint,
        message=_CHANGED if changed else _SAME,
        replaces=before.id,
        card_id=f"card_{question.question_id}",
    )
    return asked(services, message, origin, review=review, write=write)


def _again(
    services: TurnContext, message: QueueMessage, origin: Origin, question: Question
) -> QueueMessage:
    """The request that needed a place, once more; its words stand in what the owner has signed."""
    request = follow(
        message,
        sender=Agent.USER,
        kind=MessageKind.USER_MESSAGE,
        content=str(question.content.body["request"]["text"]),
        payload=UserMessage(
            channel=origin.channel,
            connection_id=origin.connection_id,
            sender_id=origin.sender_id,
            timestamp=services.clock.now(),
            after_question=question.question_id,
        ),
        ids=services.ids,
        clock=services.clock,
    )
    once = {"message_id": f"again.{question.question_id}", "trace_id": origin.trace_id}
    return request.model_copy(update=once)


def _plan(
    services: TurnContext, message: QueueMessage, origin: Origin, text: str, question: Question
) -> QueueMessage:
    """A request to the planner, never less tainted than what the question was made from."""
    taint = join_taint(question.content.taint, origin.taint or TaintLevel.EXTERNAL)
    mode = resolve_interaction_mode(
        None,
        None,
        work_item_mode=None,
        risk_requires_confirmation=taint is TaintLevel.EXTERNAL,
        initiative_level=0.0,
        interaction_register=InteractionRegister.EXECUTION,
        high_initiative_min=services.policy.high_initiative_min,
        default_mode_by_register=services.policy.default_modes,
    )
    request = follow(
        message,
        sender=Agent.RUNTIME,
        kind=MessageKind.PLAN_REQUEST,
        content=text,
        payload=PlanRequest(
            connection_id=origin.connection_id,
            interaction_register="execution",
            interaction_mode=mode.value,
        ),
        ids=services.ids,
        clock=services.clock,
        taint=taint,
    )
    once = {"message_id": f"plan.{question.question_id}", "trace_id": origin.trace_id}
    return request.model_copy(update=once)
