"""Messages for the tests of the bus."""

from datetime import UTC, datetime
from typing import Any

from silas.kernel import TaintLevel
from silas.queue.models import (
    Agent,
    AgentReply,
    MessageKind,
    PlanRequest,
    QueueMessage,
    UserMessage,
)

WHEN = datetime(2026, 1, 1, 12, tzinfo=UTC)
FROM_TERMINAL = UserMessage(
    channel="terminal", connection_id="conn_1", sender_id="owner", timestamp=WHEN
)
A_PLAN = PlanRequest(
    connection_id="conn_1", interaction_register="execution", interaction_mode="act_and_report"
)
AN_ANSWER = AgentReply(connection_id="conn_1", channel="terminal")


def message(message_id: str = "msg_1", **fields: Any) -> QueueMessage:
    """What a user said, unless the fields say otherwise."""
    return QueueMessage(**(said(message_id) | fields))


def said(message_id: str = "msg_1") -> dict[str, Any]:
    """The fields of what a user said."""
    return {
        "message_id": message_id,
        "trace_id": "trace_1",
        "content": "hello",
        "sender": Agent.USER,
        "message_kind": MessageKind.USER_MESSAGE,
        "scope_id": "scope_1",
        "taint": TaintLevel.OWNER,
        "created_at": WHEN,
        "payload": FROM_TERMINAL,
    }


def plan_request(message_id: str = "msg_1", **fields: Any) -> QueueMessage:
    """A request to the planner: its queue keeps no order."""
    kind = {"sender": Agent.PROXY, "message_kind": MessageKind.PLAN_REQUEST, "payload": A_PLAN}
    return message(message_id, **(kind | fields))


def answer(message_id: str = "msg_1", **fields: Any) -> QueueMessage:
    """An answer on its way to a person."""
    kind = {"sender": Agent.PROXY, "message_kind": MessageKind.AGENT_RESPONSE, "payload": AN_ANSWER}
    return message(message_id, **(kind | fields))
