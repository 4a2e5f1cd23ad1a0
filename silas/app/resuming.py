"""Work that waited for the owner goes on once he has decided, wherever he did."""

from silas.app.ground import Ground
from silas.app.stream import open_queue
from silas.stream.resuming import resume_request
from silas.stream.store import ConversationStore


async def go_on(ground: Ground, work_item_id: str, call_id: str) -> bool:
    """Let the running Silas go on with work that came from a conversation; False for other work."""
    store = ConversationStore(ground.database, ground.clock)
    request = await resume_request(store, work_item_id, call_id=call_id, clock=ground.clock)
    return request is not None and await open_queue(ground).enqueue(request)
