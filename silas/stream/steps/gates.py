"""Steps 0, 1 and 8: the gates of a turn. They are collected once, and the same ones look twice.

When a gate stops a turn, `TurnEscalation` is what its escalation can do inside the turn: say
something, have it said anew, tell the owner.
"""

from dataclasses import replace
from functools import partial

from silas.gates import GateResult, GateTrigger
from silas.gates.escalation import EscalationOutcome, Escalator
from silas.gates.models import GateBlock
from silas.kernel import ChannelError, TaintLevel
from silas.queue.models import (
    OWN_CHANNEL,
    Agent,
    AgentReply,
    MessageKind,
    QueueMessage,
    Urgency,
)
from silas.stream.answering import Stage
from silas.stream.cards import asking
from silas.stream.cases import HANDED_OVER
from silas.stream.gate_checks import first_stop, known_of, look, look_at_response
from silas.stream.interaction import Surface
from silas.stream.models import AgentResponse
from silas.stream.scheduling import SCHEDULER
from silas.stream.steps.routing import ask_proxy
from silas.stream.steps.visiting import meet
from silas.stream.store import Origin, own_origin
from silas.stream.turn_context import Turn, TurnContext, Write, message_of
from silas.work.models import WorkItem, WorkItemType


class TurnEscalation:
    """`EscalationHandler` of one turn. It collects; the turn sends when all of it can happen."""

    def __init__(
        self, services: TurnContext, turn: Turn, block: GateBlock, again: Turn | None
    ) -> None:
        self._services = services
        self._turn = turn
        self._block = block
        self._again = again
        self._notices: list[str] = []
        self.said: list[str] = []
        self.writes: list[Write] = []
        self.passed: Turn | None = None

    async def send(self, message: str) -> None:
        self.said.append(message)

    async def hand_over(self, message: str | None) -> bool:
        """A card to the owner with the conversation; nobody takes over from the owner."""
        if not await self._open_case(None):
            return False
        self.said.append(message or HANDED_OVER)
        return True

    async def transfer(self, queue: str) -> None:
        if not await self._open_case(queue):
            raise ChannelError(f"Nobody looks at a queue {queue} for this conversation.")

    async def _open_case(self, queue: str | None) -> bool:
        """Whether a person will see it: then that is written together with the answer."""
        turn, cases = self._turn, self._services.cases
        write = None
        if cases is not None:
            write = await cases.opening(
                turn.origin, self._block, queue=queue, said=turn.message.content
            )
        if write is None:
            return False
        self.writes.append(write)
        return True

    async def rephrase(self, instruction: str) -> bool:
        turn = self._again
        if turn is None or turn.speaker is not Agent.PROXY or turn.response is None:
            return False
        answered = await ask_proxy(self._services, turn, instruction=instruction)
        if answered.response is None:
            return False
        looked, stopping = await look_at_response(self._services, answered)
        self.passed = None if stopping else looked
        return stopping is None

    async def retry(self) -> bool:
        return await self.rephrase("Answer again.")

    async def spawn_task(self, block: GateBlock) -> None:
        """A task of the owner's, on a card: nothing is done before the owner's yes."""
        services, origin = self._services, await repair_origin(self._services, self._turn)
        if services.reviews is None:
            raise ChannelError("Nobody can be asked about a task.")
        review, write = asking(
            services,
            origin,
            repair_task(self._turn, block),
            taint=TaintLevel.EXTERNAL,  # the reason may repeat what was said
            message=f"The gate {block.gate_name} asks for a repair: {block.reason}",
            card_id=f"card_{origin.trace_id}",
        )
        self.writes += [lambda tx: services.store.note_origin(tx, origin), write]
        self._notices.append(review.message)

    async def notify_owner(self, text: str) -> None:
        self._notices.append(text)

    def notices(self, turn: Turn) -> list[QueueMessage]:
        """What the owner is told, in the owner's own scope."""
        owner = self._services.policy.owner_id
        return [
            message_of(
                self._services,
                turn,
                sender=Agent.RUNTIME,
                kind=MessageKind.AGENT_RESPONSE,
                content=text,
                payload=AgentReply(
                    connection_id=owner, channel=OWN_CHANNEL, surface=Surface.ACTIVITY.value
                ),
                urgency=Urgency.NEEDS_ATTENTION,
            ).model_copy(update={"scope_id": owner})
            for text in self._notices
        ]


async def repair_origin(services: TurnContext, turn: Turn) -> Origin:
    """Where a repair is reported: to the owner, who decides about it, whoever was stopped."""
    name, owner = f"repair_{turn.message.message_id}"[:180], services.policy.owner_id
    scope = await services.store.latest_scope(owner)
    return own_origin(owner, name, scope_id=scope, sender_id=SCHEDULER, taint=TaintLevel.EXTERNAL)


def repair_task(turn: Turn, block: GateBlock) -> WorkItem:
    """What the owner is asked to let be repaired; it has the words of no visitor."""
    name = turn.message.message_id.replace(".", "-")[-100:]
    return WorkItem(
        id=f"repair-{name}",
        type=WorkItemType.TASK,
        title=f"Repair: the gate {block.gate_name} stopped a message",
        body=f"The gate {block.gate_name} stopped a message: {block.reason}\n\n"
        "Find out why, and repair what caused it.\n",
        without_proof=True,
    )


_SORRY = "I can't go on with this: a rule stopped it. The owner can see which one."


async def precompile_gates(services: TurnContext, turn: Turn) -> Turn:
    """Step 0: the gates of the configuration and of the goals in force, fixed for this turn."""
    goals = await services.goals_in_force()
    gates = (*services.system_gates, *(gate for goal in goals for gate in goal.gates))
    waits = partial(services.answers.wait_for, turn.message.trace_id)
    runner = services.gates.for_turn(waits) if services.gates else None
    return await meet(services, replace(turn, gates=gates, runner=runner))


async def input_gates(services: TurnContext, turn: Turn) -> Turn:
    """Step 1: the message may be blocked, asked about, or rewritten."""
    context = {"message": turn.text, **known_of(turn)}
    trigger = GateTrigger.EVERY_USER_MESSAGE
    results, context = await look(services, turn, trigger, context, quality="quality_gate_input")
    turn = replace(turn, input_results=results)
    stopping = await first_stop(services, turn, results, context)
    if stopping is None:
        return replace(turn, text=str(context["message"]))
    return await _escalate(services, turn, stopping, again=None)


async def output_gates(services: TurnContext, turn: Turn) -> Turn:
    """Step 8: the response may be suppressed, asked about, or rewritten."""
    if turn.response is None:
        return turn
    if turn.goal is not None and turn.blocked:
        turn = await _follow_blocked(services, turn, turn.blocked[0])
    if turn.decision is not None and turn.decision.route == "direct":
        services.answers.enter(turn.message.trace_id, Stage.CHECKING)
    passed, stopping = await look_at_response(services, turn)
    if stopping is None:
        return passed
    services.answers.show(turn.message.trace_id, "")  # what is not let through does not stand
    suppressed = replace(turn, response=None, decision=None)
    return await _escalate(services, suppressed, stopping, again=turn)


async def _follow_blocked(services: TurnContext, turn: Turn, result: GateResult) -> Turn:
    """A gate has stopped a visitor's call: what it says then is the answer, if it says anything."""
    escalation, _ = await _handled(services, turn, result, again=None)
    turn = turn.sending(*escalation.notices(turn)).writing(*escalation.writes)
    if not escalation.said:
        return turn
    plain = AgentResponse(message=" ".join(escalation.said))
    return replace(turn, response=plain, wishes=())


async def _handled(
    services: TurnContext, turn: Turn, result: GateResult, *, again: Turn | None
) -> tuple[TurnEscalation, EscalationOutcome]:
    """Do what the gate's `on_block` says."""
    goals = await services.goals_in_force()
    # Of two escalations with one name, that of the goal counts that the settings name; for a
    # visitor, that of the goal the visitor came for.
    own = (turn.goal,) if turn.goal else ()
    named = {key: way for goal in reversed((*own, *goals)) for key, way in goal.escalation.items()}
    gate = next((each for each in turn.gates if each.name == result.gate_name), None)
    block = GateBlock(
        gate_name=result.gate_name,
        reason=result.reason,
        sender_id=turn.sender_id,
        on_block=gate.on_block if gate else "report",
    )
    escalation = TurnEscalation(services, turn, block, again)
    outcome = await Escalator(escalation, audit=services.audit, escalations=named).handle(block)
    return escalation, outcome


async def _escalate(
    services: TurnContext, turn: Turn, result: GateResult, *, again: Turn | None
) -> Turn:
    """Do what the gate's `on_block` says; the turn goes on only if a new answer has passed."""
    escalation, outcome = await _handled(services, turn, result, again=again)
    if outcome.resolved and escalation.passed is not None:
        return escalation.passed
    told = " ".join(escalation.said) or _SORRY
    return replace(
        turn.sending(*escalation.notices(turn)).writing(*escalation.writes),
        response=None,
        stopped=f"gate {result.gate_name}",
        mood="blocked",
    ).saying(told)
