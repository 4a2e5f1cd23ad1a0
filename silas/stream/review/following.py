"""What an answer leads to. Nothing here executes anything: at most it asks for a plan.

| kind | answer | then |
|---|---|---|
| draft | edit | the plan with the owner's text, asked anew |
| | approve | the plan as it was, asked anew |
| | rephrase | the planner is asked to write it differently |
| decision | again | the same plan, asked anew |
| | another_way | the planner is asked |
| suggestion | do_it | the planner is asked, in a conversation of its own |
| autonomy | approve | a token for exactly this change, then the change |
| | tighten_now | back to the settings |
| batch | edit_selection | a batch of those that were chosen, to be approved by itself |
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from silas.approval import ApprovalDecision, ApprovalVerdict
from silas.kernel import ApprovalError, TaintLevel, join_taint
from silas.queue.consumer import Handled
from silas.queue.follow import follow
from silas.queue.models import Agent, MessageKind, PlanRequest, QueueMessage
from silas.storage import Transaction
from silas.stream.interaction import resolve_interaction_mode
from silas.stream.models import InteractionRegister
from silas.stream.review.asking_again import asked, asking, fresh_copy, reply
from silas.stream.review.autonomy import Autonomy
from silas.stream.review.batches import selection_of
from silas.stream.review.drafts import with_text
from silas.stream.review.models import Kind, Question
from silas.stream.review.store import QuestionStore
from silas.stream.review.stuck import AGAIN, ANOTHER_WAY
from silas.stream.store import Origin
from silas.stream.turn_context import TurnContext
from silas.work.models import WorkItem

_HOME = "home"
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
    autonomy: Autonomy

    async def follow(self, room: TurnContext, message: QueueMessage, name: str) -> Handled:
        """Do what the signed answer says; an answer that nobody signed leads to nothing."""
        found = await self.questions.answered(name)
        if found is None:
            return Handled()
        question, answer = found
        ways: dict[Kind, Callable[..., Awaitable[Handled]]] = {
            Kind.DRAFT: self._draft,
            Kind.DECISION: self._decision,
            Kind.SUGGESTION: self._suggestion,
            Kind.AUTONOMY: self._autonomy,
            Kind.BATCH: self._batch,
        }
        way = ways.get(question.content.kind)
        return await way(room, message, question, answer) if way else Handled()

    async def _draft(
        self, room: TurnContext, message: QueueMessage, question: Question, answer: Answer
    ) -> Handled:
        origin, item = await _about(room, question)
        if origin is None or item is None:
            return Handled()
        verdict = answer.get("verdict")
        if verdict == "rephrase":
            return Handled((_plan(room, message, origin, f"{_REWRITE}\n\n{item.body}", question),))
        if verdict not in ("edit", "approve"):
            told = f"{item.title}: dropped. I do nothing about it."
            return Handled((reply(room, message, origin, told),))
        changed = with_text(item, str(answer.get("edited_text", ""))) if verdict == "edit" else item
        if changed is None:
            return Handled((reply(room, message, origin, _NOT_WRITTEN),))
        return await _ask_again(room, message, origin, changed, before=item, question=question)

    async def _decision(
        self, room: TurnContext, message: QueueMessage, question: Question, answer: Answer
    ) -> Handled:
        origin, item = await _about(room, question)
        if origin is None or item is None:
            return Handled()
        said = str(answer.get("freetext") or "").strip()
        wish = answer.get("selected_value")
        if wish == ANOTHER_WAY or (said and wish is None):
            text = "\n\n".join([_OTHERWISE, *([said] if said else []), item.body])
            return Handled((_plan(room, message, origin, text, question),))
        if wish == AGAIN:
            return await _ask_again(room, message, origin, item, before=item, question=question)
        return Handled((reply(room, message, origin, f"{item.title}: I leave it."),))

    async def _suggestion(
        self, room: TurnContext, message: QueueMessage, question: Question, answer: Answer
    ) -> Handled:
        if answer.get("selected_value") != "do_it":
            return Handled()
        owner, content = room.policy.owner_id, question.content
        origin = Origin(
            trace_id=question.trace_id,
            scope_id=question.scope_id,
            connection_id=owner,
            channel=_HOME,
            sender_id=owner,
            message_id=question.question_id,
            taint=content.taint,
        )

        def note(tx: Transaction) -> None:
            room.store.note_origin(tx, origin)

        request = _plan(room, message, origin, str(content.body["request"]), question)
        begun = reply(room, message, origin, f"I plan it: {content.intent}.")
        return Handled((request, begun), (note,))

    async def _autonomy(
        self, room: TurnContext, message: QueueMessage, question: Question, answer: Answer
    ) -> Handled:
        verdict = answer.get("verdict")
        if verdict == "tighten_now":
            await self.autonomy.tighten()
        if verdict == "approve":
            yes = ApprovalDecision(verdict=ApprovalVerdict.APPROVED)
            try:
                when = await self.questions.answered_at(question, answer)
                await self.autonomy.apply(question, yes, decided_at=when)
            except ApprovalError as error:
                await room.audit.log("autonomy_refused", reason=error.message)
                return Handled()
        await room.audit.log(
            "autonomy_decided", proposal=question.question_id, verdict=str(verdict)
        )
        return Handled()

    async def _batch(
        self, room: TurnContext, message: QueueMessage, question: Question, answer: Answer
    ) -> Handled:
        if answer.get("verdict") != "edit_selection":
            return Handled()
        smaller = selection_of(room, question, list(answer.get("selected_item_ids") or ()))
        if smaller is not None:
            await self.questions.ask(smaller)
        return Handled()


async def _about(room: TurnContext, question: Question) -> tuple[Origin | None, WorkItem | None]:
    body = question.content.body
    name = body.get("work_item_id") or body.get("metadata", {}).get("work_item_id")
    return await room.store.origin(question.trace_id), await room.items.get(str(name))


async def _ask_again(
    room: TurnContext,
    message: QueueMessage,
    origin: Origin,
    item: WorkItem,
    *,
    before: WorkItem,
    question: Question,
) -> Handled:
    taint = join_taint(question.content.taint, await room.store.taint_of(before))
    changed = item.body != before.body
    review, write = asking(
        room,
        origin,
        await fresh_copy(room, item),
        taint=taint,
        message=_CHANGED if changed else _SAME,
        replaces=before.id,
        card_id=f"card_{question.question_id}",
    )
    return asked(room, message, origin, review=review, write=write)


def _plan(
    room: TurnContext, message: QueueMessage, origin: Origin, text: str, question: Question
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
        high_initiative_min=room.policy.high_initiative_min,
        default_mode_by_register=room.policy.default_modes,
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
        ids=room.ids,
        clock=room.clock,
        taint=taint,
    )
    once = {"message_id": f"plan.{question.question_id}", "trace_id": origin.trace_id}
    return request.model_copy(update=once)
