"""Messages that follow from others keep what must not get lost on the way."""

from typing import Any

from silas.kernel import Clock, IdFactory, TaintLevel, join_taint
from silas.queue.models import Agent, MessageKind, Payload, QueueMessage


def follow(
    message: QueueMessage,
    *,
    sender: Agent,
    kind: MessageKind,
    content: str,
    payload: Payload,
    ids: IdFactory,
    clock: Clock,
    taint: TaintLevel | None = None,
    **more: Any,
) -> QueueMessage:
    """A message that this one leads to: same trace, scope and task, and never less tainted."""
    inherited = {
        "task_id": message.task_id,
        "parent_task_id": message.parent_task_id,
        "urgency": message.urgency,
    }
    return QueueMessage(
        **(inherited | more),
        message_id=ids.new("msg"),
        trace_id=message.trace_id,
        scope_id=message.scope_id,
        taint=message.taint if taint is None else join_taint(message.taint, taint),
        created_at=clock.now(),
        sender=sender,
        message_kind=kind,
        content=content,
        payload=payload,
    )
