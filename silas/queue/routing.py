"""Where messages go, as data: nobody chooses a queue, the sender and the kind do.

1. A pair of sender and kind that is not in the table is refused.
2. An error travels like its kind.
3. In an ordered queue, the messages of one scope are given out one at a time, in their order.
"""

from collections.abc import Mapping
from types import MappingProxyType

from silas.queue.errors import NoRoute
from silas.queue.models import Agent, MessageKind, QueueMessage, QueueName, Urgency

ROUTES: Mapping[tuple[Agent, MessageKind], QueueName] = MappingProxyType(
    {
        (Agent.USER, MessageKind.USER_MESSAGE): QueueName.PROXY,
        (Agent.PROXY, MessageKind.PLAN_REQUEST): QueueName.PLANNER,
        (Agent.PLANNER, MessageKind.PLAN_REQUEST): QueueName.PLANNER,
        (Agent.RUNTIME, MessageKind.PLAN_REQUEST): QueueName.PLANNER,
        (Agent.PLANNER, MessageKind.PLAN_RESULT): QueueName.PROXY,
        (Agent.PLANNER, MessageKind.RESEARCH_REQUEST): QueueName.EXECUTOR,
        (Agent.EXECUTOR, MessageKind.RESEARCH_RESULT): QueueName.PLANNER,
        (Agent.PROXY, MessageKind.EXECUTION_REQUEST): QueueName.EXECUTOR,
        (Agent.RUNTIME, MessageKind.EXECUTION_REQUEST): QueueName.EXECUTOR,
        (Agent.RUNTIME, MessageKind.EXECUTION_STATUS): QueueName.PROXY,
        (Agent.RUNTIME, MessageKind.CONSULT_PLANNER): QueueName.PLANNER,
        (Agent.PLANNER, MessageKind.PLANNER_GUIDANCE): QueueName.RUNTIME,
        (Agent.RUNTIME, MessageKind.REPLAN_REQUEST): QueueName.PLANNER,
        (Agent.PROXY, MessageKind.AGENT_RESPONSE): QueueName.CHANNEL,
        (Agent.PLANNER, MessageKind.AGENT_RESPONSE): QueueName.CHANNEL,
        (Agent.EXECUTOR, MessageKind.AGENT_RESPONSE): QueueName.CHANNEL,
        (Agent.RUNTIME, MessageKind.AGENT_RESPONSE): QueueName.CHANNEL,
        (Agent.RUNTIME, MessageKind.SYSTEM_EVENT): QueueName.RUNTIME,
        (Agent.RUNTIME, MessageKind.COMPANION_WAKE): QueueName.COMPANION,
    }
)

ORDERED = frozenset({QueueName.PROXY, QueueName.CHANNEL, QueueName.COMPANION})
"""What a person sees must come in the order in which it happened; a companion runs once at a time.
"""

PRIORITY: Mapping[Urgency, int] = MappingProxyType(
    {Urgency.NEEDS_ATTENTION: 0, Urgency.INFORMATIONAL: 1, Urgency.BACKGROUND: 2}
)
"""The smaller, the sooner. In an ordered queue it ranks the scopes, never within one."""


def route(message: QueueMessage) -> QueueName:
    """The queue for this message; raises `NoRoute`."""
    queue = ROUTES.get((message.sender, message.message_kind))
    if queue is None:
        raise NoRoute(
            f"Nobody receives {message.message_kind} from {message.sender}. Nothing was queued.",
            message_id=message.message_id,
        )
    return queue


def lane_of(message: QueueMessage, queue: QueueName) -> str | None:
    """Where order is kept for this message; None where it does not matter."""
    return f"{queue}/{message.scope_id}" if queue in ORDERED else None
