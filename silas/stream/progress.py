"""How work goes: told live to whoever watches, and on the bus where it has to be known later."""

import asyncio
import logging
from collections import Counter

from silas.kernel import SilasError
from silas.queue.models import ExecutionStatus, Urgency
from silas.stream.healing import Running, status_message
from silas.stream.turn_context import TurnContext

_log = logging.getLogger(__name__)
_CHECK_FAILED = "failed"


class WorkProgress:
    """`silas.work.ports.Progress` of the stream."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._room: TurnContext | None = None
        self._told: Counter[str] = Counter()
        self._sending: set[asyncio.Task[object]] = set()

    def attach(self, room: TurnContext) -> None:
        """Where to tell it; before that, nobody hears anything."""
        self._room = room

    def __call__(self, work_item_id: str, what: str, detail: str = "") -> None:
        room, cause = self._room, self._running.cause_of(work_item_id)
        if room is None or cause is None:
            return
        if room.live is not None:
            room.live.progress(cause.trace_id, what, detail)
        if what != _CHECK_FAILED:
            return
        self._told[work_item_id] += 1
        number = self._told[work_item_id]
        task = asyncio.get_running_loop().create_task(
            self._try_to_tell(work_item_id, detail, number)
        )
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _try_to_tell(self, work_item_id: str, detail: str, number: int) -> None:
        """The report at the end says it once more, so a disk that fails just now loses nothing."""
        try:
            await self._tell(work_item_id, detail, number)
        except SilasError as error:
            _log.warning("%s: that a check failed was not told: %s", work_item_id, error.message)

    async def _tell(self, work_item_id: str, detail: str, number: int) -> None:
        """A check did not pass; what follows from that is the execution's business."""
        room, cause = self._room, self._running.cause_of(work_item_id)
        item = await room.items.get(work_item_id) if room else None
        if room is None or cause is None or item is None:
            return
        status = status_message(
            room,
            cause,
            item,
            status=ExecutionStatus.VERIFICATION_FAILED,
            text=f"{item.title}: a check did not pass. {detail}",
            detail=detail,
            urgency=Urgency.BACKGROUND,
        )
        once = {"message_id": f"{cause.message_id}.{work_item_id}.check{number}"[:200]}
        await room.enqueue(status.model_copy(update=once))
