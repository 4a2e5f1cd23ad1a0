"""A stranger in a conversation of his own."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from silas.app.ground import Ground
from silas.app.stream import open_intake, open_queue
from silas.evals.crowd.page import LONGEST_WAIT
from silas.kernel import Clock
from silas.queue.models import UserMessage
from silas.stream.delivery import Deliveries, Delivery
from silas.stream.intake import Intake

_CHANNEL = "crowd"


@dataclass(frozen=True)
class Street:
    """Where strangers come from: the bus of a data directory whose server is another process."""

    intake: Intake
    deliveries: Deliveries
    clock: Clock

    @classmethod
    def to(cls, ground: Ground) -> "Street":
        """The one that leads to this house."""
        deliveries = Deliveries(ground.database, ground.clock)
        return cls(open_intake(ground, open_queue(ground)), deliveries, ground.clock)


@dataclass
class Visitor:
    """One of them."""

    name: str
    street: Street
    _answers: AsyncIterator[Delivery] | None = field(default=None, repr=False)

    async def say(self, text: str) -> str:
        """Say something; returns the message's id."""
        said = UserMessage(
            channel=_CHANNEL,
            connection_id=self.name,
            sender_id=self.name,
            timestamp=self.street.clock.now(),
        )
        return (await self.street.intake.accept(text, said)).message_id

    async def listen(self) -> str:
        """The id of the message that the next answer answers."""
        if self._answers is None:
            self._answers = self.street.deliveries.follow(self.name, 0)
        delivery = await asyncio.wait_for(anext(self._answers), LONGEST_WAIT)
        return delivery.reply.in_reply_to or ""

    async def hear(self, text: str) -> None:
        """Say something, and wait for its answer."""
        name = await self.say(text)
        while await self.listen() != name:
            pass
