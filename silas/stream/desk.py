"""What an escalation can do inside a turn: say something, have it said anew, tell the owner."""

from silas.gates.ports import GateBlock
from silas.kernel import ChannelError
from silas.queue.models import Agent, AgentReply, MessageKind, QueueMessage, Urgency
from silas.stream.asking import ask_proxy
from silas.stream.gating import look_at_response
from silas.stream.surfaces import Surface
from silas.stream.turn_context import Turn, TurnContext, message_of


class TurnDesk:
    """`EscalationDesk` of one turn. It collects; the turn sends when all of it can happen."""

    def __init__(self, room: TurnContext, again: Turn | None) -> None:
        self._room = room
        self._again = again
        self._notices: list[str] = []
        self.said: list[str] = []
        self.passed: Turn | None = None

    async def send(self, message: str) -> None:
        self.said.append(message)

    async def hand_over(self, message: str | None) -> bool:
        """No channel can hand a conversation over; the escalation goes on with its fallback."""
        return False

    async def transfer(self, queue: str) -> None:
        raise ChannelError(f"No channel has a queue {queue}.")

    async def rephrase(self, instruction: str) -> bool:
        turn = self._again
        if turn is None or turn.speaker is not Agent.PROXY or turn.response is None:
            return False
        answered = await ask_proxy(self._room, turn, instruction=instruction)
        if answered.response is None:
            return False
        looked, stopping = await look_at_response(self._room, answered)
        self.passed = None if stopping else looked
        return stopping is None

    async def retry(self) -> bool:
        return await self.rephrase("Answer again.")

    async def spawn_task(self, block: GateBlock) -> None:
        """A task of the goal's is made by its own cycle; from a turn the owner is told instead."""
        self._notices.append(f"The gate {block.gate_name} asks for a repair: {block.reason}")

    async def notify_owner(self, text: str) -> None:
        self._notices.append(text)

    def notices(self, turn: Turn) -> list[QueueMessage]:
        """What the owner is told, in the owner's own scope."""
        owner = self._room.policy.owner_id
        return [
            message_of(
                self._room,
                turn,
                sender=Agent.RUNTIME,
                kind=MessageKind.AGENT_RESPONSE,
                content=text,
                payload=AgentReply(
                    connection_id=owner, channel="home", surface=Surface.ACTIVITY.value
                ),
                urgency=Urgency.NEEDS_ATTENTION,
            ).model_copy(update={"scope_id": owner})
            for text in self._notices
        ]
