"""The proxy's loop: what users say, what the planner answers, how work is going.

The queue gives out the messages of one scope one after the other, across all processes: turns of a
scope never overlap, and their order is the order of the messages.
"""

from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from silas.kernel import TaintLevel
from silas.memory.models import MemoryOp, MemoryQuery
from silas.queue.consumer import Handled
from silas.queue.errors import NotWorthRetrying
from silas.queue.models import (
    Agent,
    ErrorPayload,
    ExecutionStatus,
    PlanResult,
    QueueMessage,
    StatusPayload,
    Urgency,
    UserMessage,
)
from silas.queue.store import Lease
from silas.storage import Durability
from silas.stream.models import MAX_MEMORY_QUERIES, AgentResponse, PlanAction, PlanActionType
from silas.stream.scheduling import SCHEDULER
from silas.stream.store import Origin
from silas.stream.surfaces import surface_of_status
from silas.stream.turn import take_turn
from silas.stream.turn_context import Turn, TurnContext
from silas.work.models import InteractionMode

_MOODS = {
    ExecutionStatus.DONE: "task_completed",
    ExecutionStatus.VERIFICATION_FAILED: "verification_failed",
    ExecutionStatus.BLOCKED: "blocked",
    ExecutionStatus.STUCK: "blocked",
}


@dataclass(frozen=True)
class ProxyLoop:
    """Handler of `proxy_queue`."""

    room: TurnContext

    async def __call__(self, lease: Lease) -> Handled:
        message = lease.message
        payload = message.payload
        if isinstance(payload, UserMessage):
            turn = await self._said(message, payload)
        elif isinstance(payload, PlanResult):
            turn = await self._planned(message, payload)
        elif isinstance(payload, StatusPayload):
            turn = await self._status(message, payload)
        elif isinstance(payload, ErrorPayload):
            turn = (await self._later(message)).saying(payload.detail)
        else:
            raise NotWorthRetrying(f"The proxy cannot read a {message.message_kind}.")
        turn = await take_turn(self.room, turn)
        trusted = Durability.TRUST if turn.card_id else turn.durability
        return Handled(turn.outgoing, turn.writes, trusted, turn.after)

    async def _said(self, message: QueueMessage, said: UserMessage) -> Turn:
        origin = Origin(
            trace_id=message.trace_id,
            scope_id=message.scope_id,
            connection_id=said.connection_id,
            channel=said.channel,
            sender_id=said.sender_id,
            message_id=message.message_id,
        )
        known = await self.room.store.origin(message.trace_id)
        if known is not None and known.model_copy(update={"taint": None}) != origin:
            raise NotWorthRetrying("Another message has begun this trace.")
        # Nothing is known about the sender until step 2 has looked.
        unknown = message.model_copy(update={"taint": TaintLevel.EXTERNAL})
        return Turn(
            message=unknown,
            origin=origin,
            number=await self.room.store.turns(message.scope_id) + 1,
            text=message.content,
        )

    async def _planned(self, message: QueueMessage, result: PlanResult) -> Turn:
        turn = (await self._later(message)).having(
            speaker=Agent.PLANNER, mode=_mode(result.interaction_mode)
        )
        action = None
        if message.plan_markdown is not None:
            action = PlanAction(
                action=PlanActionType.PROPOSE,
                plan_markdown=message.plan_markdown,
                continuation_of=result.continuation_of,
                interaction_mode_override=_mode(result.interaction_mode_override),
            )
        queries = _readable(MemoryQuery, result.memory_queries)[:MAX_MEMORY_QUERIES]
        return turn.having(
            response=AgentResponse(
                message=message.content,
                plan_action=action,
                needs_approval=result.needs_approval,
                memory_ops=_readable(MemoryOp, result.memory_ops),
                memory_queries=queries,
            )
        )

    async def _status(self, message: QueueMessage, status: StatusPayload) -> Turn:
        turn = await self._later(message)
        urgent = message.urgency is Urgency.NEEDS_ATTENTION
        surface = surface_of_status(
            status.status, asked_for=turn.sender_id != SCHEDULER, is_last=urgent
        )
        return turn.saying(message.content).having(
            speaker=Agent.RUNTIME,
            surface=surface.value,
            needs_attention=urgent,
            mood=_MOODS.get(status.status),
        )

    async def _later(self, message: QueueMessage) -> Turn:
        """A turn about something that was begun earlier, for whoever began it."""
        origin = await self.room.store.require_origin(message.trace_id)
        if origin.scope_id != message.scope_id:
            raise NotWorthRetrying("The message belongs to another conversation than it says.")
        return Turn(
            message=message,
            origin=origin,
            number=await self.room.store.turns(message.scope_id),
            text="",
            taint=message.taint,
        )


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
