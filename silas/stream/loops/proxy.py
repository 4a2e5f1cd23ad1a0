"""The proxy's loop: what users say, what the planner answers, how work is going.

The queue gives out the messages of one scope one after the other, across all processes: turns of a
scope never overlap, and their order is the order of the messages.
"""

from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from silas.kernel import TaintLevel
from silas.kernel.ids import conversation_scope
from silas.memory.models import MemoryOp, MemoryQuery
from silas.queue.consumer import Handled
from silas.queue.errors import NotWorthRetrying
from silas.queue.models import (
    Agent,
    ErrorPayload,
    ExecutionStatus,
    MessageKind,
    PlanResult,
    QueueMessage,
    StatusPayload,
    Urgency,
    UserMessage,
)
from silas.queue.table import Lease
from silas.storage import Durability
from silas.stream.answering import Stage
from silas.stream.interaction import surface_of_status
from silas.stream.models import (
    MAX_MEMORY_QUERIES,
    PLANNED,
    AgentResponse,
    PlanAction,
    PlanActionType,
)
from silas.stream.scheduling import SCHEDULER
from silas.stream.steps.vault import without_secret
from silas.stream.steps.visiting import told_to_visitor
from silas.stream.store import Origin
from silas.stream.turn import take_turn
from silas.stream.turn_context import Turn, TurnContext
from silas.stream.visitors import is_visit
from silas.work.models import InteractionMode

_MOODS = {
    ExecutionStatus.DONE: "task_completed",
    ExecutionStatus.UNCHECKED: "task_completed",
    ExecutionStatus.VERIFICATION_FAILED: "ci_failure",
    ExecutionStatus.BLOCKED: "blocked",
    ExecutionStatus.STUCK: "blocked",
}


@dataclass(frozen=True)
class ProxyLoop:
    """Handler of `proxy_queue`."""

    services: TurnContext

    async def __call__(self, lease: Lease) -> Handled:
        message = lease.message
        if not isinstance(message.payload, UserMessage | PlanResult):
            return _handled(await take_turn(self.services, await self._turn_of(message)))
        try:
            return await self._answer(await self._turn_of(message))
        except BaseException:
            self.services.answers.show(message.trace_id, "")  # it will be made anew
            self.services.answers.end(message.trace_id)
            raise

    async def _turn_of(self, message: QueueMessage) -> Turn:
        payload = message.payload
        if isinstance(payload, UserMessage) and payload.after_question is not None:
            return await self._agreed(message, payload.after_question)
        if isinstance(payload, UserMessage):
            return await self._said(message, payload)
        if isinstance(payload, PlanResult):
            return await self._planned(message, payload)
        if isinstance(payload, StatusPayload):
            return await self._status(message, payload)
        if isinstance(payload, ErrorPayload):
            return (await self._later(message)).saying(payload.detail)
        raise NotWorthRetrying(f"The proxy cannot read a {message.message_kind}.")

    async def _answer(self, turn: Turn) -> Handled:
        """Take the turn of a message that is answered; whoever watches sees where that is."""
        answers, trace_id = self.services.answers, turn.message.trace_id
        await answers.begin(turn.origin, Stage.READING if turn.text else Stage.CHECKING)
        turn = await take_turn(self.services, turn)
        if any(each.message_kind is MessageKind.PLAN_REQUEST for each in turn.outgoing):
            return _handled(turn)  # the planner goes on with it

        async def end() -> None:
            answers.end(trace_id)

        turn = turn.writing(lambda tx: answers.stops.forget_in(tx, trace_id))
        return _handled(replace(turn, after=(*turn.after, end)))

    async def _said(self, message: QueueMessage, said: UserMessage) -> Turn:
        if message.scope_id != conversation_scope(said.connection_id, said.conversation):
            raise NotWorthRetrying("The message belongs to another conversation than it says.")
        origin = Origin(
            trace_id=message.trace_id,
            scope_id=message.scope_id,
            connection_id=said.connection_id,
            channel=said.channel,
            sender_id=said.sender_id,
            message_id=message.message_id,
        )
        known = await self.services.store.origin(message.trace_id)
        if known is not None and known.model_copy(update={"taint": None}) != origin:
            raise NotWorthRetrying("Another message has begun this trace.")
        # Nothing is known about the sender until step 2 has looked.
        unknown = message.model_copy(update={"taint": TaintLevel.EXTERNAL})
        turn = Turn(
            message=unknown,
            origin=origin,
            number=await self.services.store.turns(message.scope_id) + 1,
            text=message.content,
        )
        return without_secret(self.services, turn)

    async def _agreed(self, message: QueueMessage, question_id: str) -> Turn:
        """A request of the owner's, now that he has let Silas read what it needs.

        Its words, and that they are the owner's, come from the answer that he has signed.
        """
        places = self.services.places
        agreed = await places.agreed(question_id) if places is not None else None
        origin = await self.services.store.require_origin(message.trace_id)
        if (
            agreed is None
            or agreed.question.trace_id != origin.trace_id
            or message.scope_id != origin.scope_id
            or not self.services.is_owners(origin)
            or origin.taint is not TaintLevel.OWNER
        ):
            raise NotWorthRetrying("Nobody has agreed to what this needs.")
        request, said = agreed.asked.request, message.payload
        again = {"folder": request.folder, "said_in": request.said_in}
        payload = said.model_copy(update=again) if isinstance(said, UserMessage) else said
        return Turn(
            message=message.model_copy(update={"content": request.text, "payload": payload}),
            origin=origin,
            number=await self.services.store.turns(message.scope_id) + 1,
            text=request.text,
            is_resumed=True,
        )

    async def _planned(self, message: QueueMessage, result: PlanResult) -> Turn:
        turn = replace(
            await self._later(message), speaker=Agent.PLANNER, mode=_mode(result.interaction_mode)
        )
        action, kind = None, PlanActionType(result.plan_action)
        if message.plan_markdown is not None or kind not in PLANNED:
            action = PlanAction(
                action=kind,
                plan_markdown=message.plan_markdown,
                continuation_of=result.continuation_of,
                interaction_mode_override=_mode(result.interaction_mode_override),
            )
        queries = _readable(MemoryQuery, result.memory_queries)[:MAX_MEMORY_QUERIES]
        return replace(
            turn,
            response=AgentResponse(
                message=message.content,
                plan_action=action,
                needs_approval=result.needs_approval,
                memory_ops=_readable(MemoryOp, result.memory_ops),
                memory_queries=queries,
            ),
        )

    async def _status(self, message: QueueMessage, status: StatusPayload) -> Turn:
        turn = await self._later(message)
        urgent = message.urgency is Urgency.NEEDS_ATTENTION
        surface = surface_of_status(
            status.status, asked_for=turn.sender_id != SCHEDULER, is_last=urgent
        )
        text = message.content
        if is_visit(turn.origin.connection_id):
            item = await self.services.items.get(message.task_id or "")
            text = told_to_visitor(status.status, item.title if item else "It")
        return replace(
            turn.saying(text),
            speaker=Agent.RUNTIME,
            surface=surface.value,
            needs_attention=urgent,
            mood=_MOODS.get(status.status),
        )

    async def _later(self, message: QueueMessage) -> Turn:
        """A turn about something that was begun earlier, for whoever began it."""
        origin = await self.services.store.require_origin(message.trace_id)
        if origin.scope_id != message.scope_id:
            raise NotWorthRetrying("The message belongs to another conversation than it says.")
        return Turn(
            message=message,
            origin=origin,
            number=await self.services.store.turns(message.scope_id),
            text="",
            taint=message.taint,
            sources=tuple(message.taint_sources),
            read_taint=message.taint,
        )


def _handled(turn: Turn) -> Handled:
    trusted = Durability.TRUST if turn.card_id else turn.durability
    return Handled(turn.outgoing, turn.writes, trusted, turn.after)


def _mode(name: str | None) -> InteractionMode | None:
    return InteractionMode(name) if name in set(InteractionMode) else None


def _readable(kind: type[Any], wishes: list[dict[str, Any]]) -> list[Any]:
    """Those that can be read: a plan is not refused for a bad note beside it."""
    found = []
    for wish in wishes:
        try:
            found.append(kind.model_validate(wish))
        except ValidationError:
            continue
    return found
