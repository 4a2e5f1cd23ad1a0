"""The runtime's loop: the planner's advice, the owner's decisions, and what was given up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from silas.kernel import Clock, TaintLevel
from silas.queue.consumer import Handled
from silas.queue.dead_letters import LEASE_RAN_OUT, OnDeadLetter
from silas.queue.errors import NotWorthRetrying
from silas.queue.models import (
    OWN_CHANNEL,
    Agent,
    AgentReply,
    ErrorCode,
    ErrorPayload,
    MessageKind,
    PlannerGuidance,
    QueueMessage,
    SystemEvent,
    Urgency,
    UserMessage,
    follow,
)
from silas.queue.table import Lease
from silas.review.cards import DECISION_MADE
from silas.stream.cadence import CadenceWatch
from silas.stream.cards import STOP_WORK, follow_decision, stop_work
from silas.stream.consult import Consultations
from silas.stream.interaction import Surface
from silas.stream.store import Origin
from silas.stream.turn_context import TurnContext
from silas.work.execution_context import ExecutionContext

GIVEN_UP = "given_up"
_SORRY = "I could not finish this, and I do not try it again. The reason: "
_UNANSWERED: Mapping[MessageKind, Literal[Agent.PROXY, Agent.PLANNER, Agent.EXECUTOR]] = {
    MessageKind.USER_MESSAGE: Agent.PROXY,
    MessageKind.PLAN_REQUEST: Agent.PLANNER,
    MessageKind.PLAN_RESULT: Agent.PROXY,
    MessageKind.REPLAN_REQUEST: Agent.PLANNER,
    MessageKind.RESEARCH_RESULT: Agent.PLANNER,
    MessageKind.EXECUTION_REQUEST: Agent.EXECUTOR,
}
"""If one of these is given up, somebody waits for nothing; and whose work it was."""
_FIRST = _UNANSWERED.keys() - {MessageKind.REPLAN_REQUEST, MessageKind.EXECUTION_REQUEST}
"""Then it is the first answer; otherwise there was one, and this is how it goes on."""


@dataclass(frozen=True)
class RuntimeLoop:
    """Handler of `runtime_queue`."""

    services: TurnContext
    ctx: ExecutionContext
    consultations: Consultations
    cadence: CadenceWatch

    async def __call__(self, lease: Lease) -> Handled:
        message, payload = lease.message, lease.message.payload
        if isinstance(payload, PlannerGuidance):
            return await self._advised(message, payload)
        if isinstance(payload, SystemEvent) and payload.event == DECISION_MADE:
            card_id = str(payload.data.get("card_id", ""))
            handled = await follow_decision(self.services, self.ctx, message, card_id)
            # Looked at once the decision is followed: it may mean to read the log of a whole day.
            return replace(handled, after=(*handled.after, self._note_cadence))
        if isinstance(payload, SystemEvent) and payload.event == STOP_WORK:
            name = str(payload.data.get("work_item_id", ""))
            return await stop_work(self.services, self.ctx, message, name)
        if isinstance(payload, ErrorPayload):
            return await self._sorry(message, payload.about)
        if isinstance(payload, SystemEvent) and payload.event == GIVEN_UP:  # of an older version
            return await self._sorry(message, payload.data)
        raise NotWorthRetrying(f"The runtime cannot read this {message.message_kind}.")

    async def _note_cadence(self) -> None:
        await self.cadence.note()

    async def _advised(self, message: QueueMessage, guidance: PlannerGuidance) -> Handled:
        taken = await self.consultations.answer(guidance, message.content)
        await self.services.audit.log(
            "planner_advised" if taken else "planner_guidance_ignored",
            consult_id=guidance.consult_id,
            work_item_id=guidance.work_item_id,
            tokens=guidance.tokens,
            cost_usd=guidance.cost_usd,
        )
        return Handled()

    async def _sorry(self, message: QueueMessage, data: Mapping[str, object]) -> Handled:
        """Somebody waits for an answer that will not come: this is the answer."""
        origin = await self.services.store.origin(message.trace_id)
        connection = origin.connection_id if origin else str(data.get("connection_id") or "")
        if not connection:
            return Handled()
        reply = AgentReply(
            connection_id=connection,
            channel=origin.channel if origin else str(data.get("channel") or OWN_CHANNEL),
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
                    ids=self.services.ids,
                    clock=self.services.clock,
                    urgency=Urgency.NEEDS_ATTENTION,
                ),
            )
        )


def _answered(data: Mapping[str, object], origin: Origin | None) -> str | None:
    if not data.get("answers"):
        return None
    return origin.message_id if origin else str(data.get("message_id"))


def on_dead_letter(clock: Clock) -> OnDeadLetter:
    """For the queue store: what is sent when a message is given up."""

    def letters(message: QueueMessage, reason: str, attempts: int) -> Sequence[QueueMessage]:
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
        error = ErrorPayload(
            error_code=ErrorCode.TIMEOUT if LEASE_RAN_OUT in reason else ErrorCode.TOOL_FAILURE,
            retryable=False,
            origin_agent=_UNANSWERED[message.message_kind],
            attempt_number=attempts,
            detail=reason[:2000],
            about=known,
        )
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
                payload=error,
                error_code=error.error_code,
                retryable=error.retryable,
                origin_agent=error.origin_agent,
                attempt_number=error.attempt_number,
            ),
        )

    return letters
