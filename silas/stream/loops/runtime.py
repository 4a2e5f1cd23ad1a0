"""The runtime's loop: the planner's advice, the owner's decisions, and what was given up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from silas.kernel import Clock, TaintLevel
from silas.queue.consumer import Handled
from silas.queue.errors import NotWorthRetrying
from silas.queue.follow import follow
from silas.queue.models import (
    Agent,
    AgentReply,
    MessageKind,
    PlannerGuidance,
    QueueMessage,
    SystemEvent,
    Urgency,
    UserMessage,
)
from silas.queue.store import AfterDeath, Lease
from silas.stream.consult import Consultations
from silas.stream.decisions import DECISION_MADE, follow_decision
from silas.stream.store import Origin
from silas.stream.surfaces import Surface
from silas.stream.turn_context import TurnContext
from silas.work.workbench import Workbench

GIVEN_UP = "given_up"
_SORRY = "I could not finish this, although I tried several times. The reason: "
_UNANSWERED = frozenset(
    {
        MessageKind.USER_MESSAGE,
        MessageKind.PLAN_REQUEST,
        MessageKind.PLAN_RESULT,
        MessageKind.REPLAN_REQUEST,
        MessageKind.RESEARCH_RESULT,
        MessageKind.EXECUTION_REQUEST,
    }
)
"""If one of these is given up, somebody waits for nothing."""
_FIRST = _UNANSWERED - {MessageKind.REPLAN_REQUEST, MessageKind.EXECUTION_REQUEST}
"""Then it is the first answer; otherwise there was one, and this is how it goes on."""


@dataclass(frozen=True)
class RuntimeLoop:
    """Handler of `runtime_queue`."""

    room: TurnContext
    bench: Workbench
    consultations: Consultations

    async def __call__(self, lease: Lease) -> Handled:
        message, payload = lease.message, lease.message.payload
        if isinstance(payload, PlannerGuidance):
            return await self._advised(message, payload)
        if isinstance(payload, SystemEvent) and payload.event == DECISION_MADE:
            card_id = str(payload.data.get("card_id", ""))
            if self.room.cadence is not None:
                await self.room.cadence.note()
            return await follow_decision(self.room, self.bench, message, card_id)
        if isinstance(payload, SystemEvent) and payload.event == GIVEN_UP:
            return await self._sorry(message, payload)
        raise NotWorthRetrying(f"The runtime cannot read this {message.message_kind}.")

    async def _advised(self, message: QueueMessage, guidance: PlannerGuidance) -> Handled:
        taken = await self.consultations.answer(guidance, message.content)
        await self.room.audit.log(
            "planner_advised" if taken else "planner_guidance_ignored",
            consult_id=guidance.consult_id,
            work_item_id=guidance.work_item_id,
            tokens=guidance.tokens,
            cost_usd=guidance.cost_usd,
        )
        return Handled()

    async def _sorry(self, message: QueueMessage, event: SystemEvent) -> Handled:
        """Somebody waits for an answer that will not come: this is the answer."""
        origin = await self.room.store.origin(message.trace_id)
        data = event.data
        connection = origin.connection_id if origin else str(data.get("connection_id") or "")
        if not connection:
            return Handled()
        reply = AgentReply(
            connection_id=connection,
            channel=origin.channel if origin else str(data.get("channel") or "home"),
            in_reply_to=_answered(data, origin),
            surface=Surface.STREAM.value,
        )
        return Handled(
            (
                follow(
                    message,
                    sender=Agent.RUNTIME,
                    kind=MessageKind.AGENT_RESPONSE,
                    content=f"{_SORRY}{message.content}",
                    payload=reply,
                    ids=self.room.ids,
                    clock=self.room.clock,
                    urgency=Urgency.NEEDS_ATTENTION,
                ),
            )
        )


def _answered(data: Mapping[str, object], origin: Origin | None) -> str | None:
    if not data.get("answers"):
        return None
    return origin.message_id if origin else str(data.get("message_id"))


def after_death(clock: Clock) -> AfterDeath:
    """For the queue store: what is sent when a message is given up."""

    def letters(message: QueueMessage, reason: str) -> Sequence[QueueMessage]:
        if message.message_kind not in _UNANSWERED:
            return ()
        said = message.payload
        known: dict[str, object] = {
            "message_id": message.message_id,
            "kind": message.message_kind.value,
            "answers": message.message_kind in _FIRST and not getattr(said, "replaces", None),
        }
        if isinstance(said, UserMessage):
            known |= {"connection_id": said.connection_id, "channel": said.channel}
        return (
            QueueMessage(
                message_id=f"{GIVEN_UP}.{message.message_id}",
                trace_id=message.trace_id,
                content=reason[:2000],
                sender=Agent.RUNTIME,
                message_kind=MessageKind.SYSTEM_EVENT,
                scope_id=message.scope_id,
                taint=TaintLevel.EXTERNAL,
                created_at=clock.now(),
                payload=SystemEvent(event=GIVEN_UP, data=known),
            ),
        )

    return letters
