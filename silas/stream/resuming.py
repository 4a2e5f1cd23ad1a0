"""Going on with work that waited for the owner, once a call of it was decided."""

from silas.kernel import Clock
from silas.queue.models import Agent, ExecutionRequest, MessageKind, QueueMessage, Urgency
from silas.stream.store import ConversationStore


async def resume_request(
    store: ConversationStore, work_item_id: str, *, call_id: str, clock: Clock
) -> QueueMessage | None:
    """The message that lets the running Silas go on; None for work without a conversation.

    Asked for once for each decision. Whether anything may be executed is decided at the door.
    """
    work = await store.work_origin(work_item_id)
    origin = await store.origin(work.trace_id) if work else None
    if work is None or origin is None:
        return None
    return QueueMessage(
        message_id=f"resume.{call_id}",
        trace_id=work.trace_id,
        content=work_item_id,
        sender=Agent.RUNTIME,
        message_kind=MessageKind.EXECUTION_REQUEST,
        scope_id=work.scope_id,
        taint=work.taint,
        created_at=clock.now(),
        payload=ExecutionRequest(
            work_item_id=work_item_id, connection_id=origin.connection_id, resume=True
        ),
        task_id=work_item_id,
        urgency=Urgency.NEEDS_ATTENTION,
    )
