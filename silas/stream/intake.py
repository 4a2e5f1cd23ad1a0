"""How a message comes in: written down before anybody is told that it was taken."""

from silas.kernel import Clock, IdFactory, TaintLevel
from silas.queue.models import Agent, MessageKind, QueueMessage, Urgency, UserMessage
from silas.queue.store import QueueStore
from silas.stream.admission import Admission
from silas.stream.errors import NotTaken


class Intake:
    """Takes messages from channels. Once `accept` returns, the message will be answered."""

    def __init__(
        self, queue: QueueStore, *, clock: Clock, ids: IdFactory, admission: Admission
    ) -> None:
        self._admission = admission
        self._queue = queue
        self._clock = clock
        self._ids = ids
        self._open = True

    def close(self) -> None:
        """Take nothing more."""
        self._open = False

    async def accept(
        self, text: str, said: UserMessage, *, message_id: str | None = None
    ) -> QueueMessage:
        """Take a message in; with the channel's own id for it, a repetition is the same message.

        Each connection is a scope of its own. Who is speaking is found out in the turn: until then
        the message counts as a stranger's. Raises `NotTaken`, or `BusyRetry` with the time to wait.
        """
        if not self._open:
            raise NotTaken
        name = message_id or self._ids.new("msg")
        message = QueueMessage(
            message_id=name,
            trace_id=f"trace_{name}",
            content=text,
            sender=Agent.USER,
            message_kind=MessageKind.USER_MESSAGE,
            scope_id=said.connection_id,
            taint=TaintLevel.EXTERNAL,
            created_at=self._clock.now(),
            payload=said,
            urgency=self._urgency(said),
        )
        async with self._admission.admitted(said):
            await self._queue.enqueue(message)
        return message

    def _urgency(self, said: UserMessage) -> Urgency:
        """The owner does not wait behind strangers."""
        owner = said.connection_id == self._admission.owner_id
        return Urgency.NEEDS_ATTENTION if owner else Urgency.INFORMATIONAL
