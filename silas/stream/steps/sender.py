"""Steps 0.5, 2, 6, 6.5 and 14: what waits, who is speaking, and what that person may use."""

from pydantic import ValidationError

from silas.approval import ChannelMessage, SignedMessage
from silas.gates import GateAction, GateTrigger, GateType
from silas.kernel import TaintLevel
from silas.queue.models import UserMessage
from silas.storage import Transaction
from silas.stream.asking import is_owners
from silas.stream.turn_context import Turn, TurnContext, Write


async def surface_what_waits(room: TurnContext, turn: Turn) -> Turn:
    """Step 0.5: reviews, suggestions and warnings that wait come onto the surfaces."""
    if room.proactive is not None:
        await room.proactive.surface(turn.scope_id, now=room.clock.now())
    return turn


async def sign_and_taint(room: TurnContext, turn: Turn) -> Turn:
    """Step 2: how far the message is trusted. Decided once, also if a crash repeats the turn.

    That it was decided is read from a row, which somebody may have written: the owner's message is
    his by its signature only.
    """
    known = await room.store.origin(turn.message.trace_id)
    taint = known.taint if known and known.message_id == turn.message.message_id else None
    found: tuple[Write, ...] = ()
    if taint is None:
        taint, found = await _decide(room, turn)
    elif taint is TaintLevel.OWNER and not await _is_signed(room, turn):
        await room.audit.log("message_taint_forged", trace_id=turn.message.trace_id)
        taint = TaintLevel.EXTERNAL
    if turn.stopped is not None:
        turn, found = turn.writing(*found), ()  # the steps that would write it down are left out
    return turn.having(
        found=found,
        message=turn.message.model_copy(update={"taint": taint}),
        origin=turn.origin.model_copy(update={"taint": taint}),
        taint=taint,
    )


async def _decide(room: TurnContext, turn: Turn) -> tuple[TaintLevel, tuple[Write, ...]]:
    """The taint, and what is still to be written down about it."""

    def note(tx: Transaction, taint: TaintLevel) -> None:
        room.store.note_origin(tx, turn.origin.model_copy(update={"taint": taint}))

    signed = _signed(room, turn)
    if signed is not None and room.messages is not None:
        return (await room.messages.classify(signed, room.keys(), also=note)).taint, ()
    known = room.is_known(turn.origin.channel, turn.sender_id)
    taint = TaintLevel.AUTH if known else TaintLevel.EXTERNAL
    return taint, (lambda tx: note(tx, taint),)


async def _is_signed(room: TurnContext, turn: Turn) -> bool:
    signed = _signed(room, turn)
    if signed is None or room.messages is None:
        return False
    return await room.messages.is_signed(signed, room.keys())


def _signed(room: TurnContext, turn: Turn) -> SignedMessage | None:
    """The message as it was signed: its own text, whatever the gates made of it.

    The owner speaks on his own connection. A signature does not say on which one it was made: what
    somebody has copied to another is not the owner's there, and must not use up his nonce.
    """
    said = turn.message.payload
    if not isinstance(said, UserMessage) or said.signature is None or said.nonce is None:
        return None
    if turn.origin.connection_id != room.policy.owner_id:
        return None
    try:
        message = ChannelMessage(
            channel=said.channel,
            sender_id=said.sender_id,
            text=turn.message.content,
            timestamp=said.timestamp,
            attachments=said.attachments,
            reply_to=said.reply_to,
        )
        return SignedMessage.model_validate(
            {"message": message, "signature": said.signature, "nonce": said.nonce}
        )
    except ValidationError:
        return None


async def allow_tools(room: TurnContext, turn: Turn) -> Turn:
    """Step 6: the tools that this connection has reached."""
    return turn.having(allowed=room.tools_of(turn.origin))


async def prepare_skills(room: TurnContext, turn: Turn) -> Turn:
    """Step 6.5: the skills of the active goal."""
    goal = room.active_goal
    if goal is None or room.skills is None:
        return turn
    texts = {name: await room.skills.instructions(name) for name in goal.skills}
    return turn.having(skills=room.context.fit_skills(texts) if room.context else texts)


async def update_access(room: TurnContext, turn: Turn) -> Turn:
    """Step 14: gates that prove something about the sender have been passed."""
    checks = {
        gate.name
        for gate in turn.gates
        if gate.on is GateTrigger.EVERY_USER_MESSAGE and gate.type is GateType.CUSTOM_CHECK
    }
    access = room.visitors.of(turn.origin.connection_id, owner=is_owners(room, turn))
    for result in turn.input_results:
        if result.gate_name in checks and result.action is GateAction.CONTINUE:
            access.gate_passed(result.gate_name)
    return turn
