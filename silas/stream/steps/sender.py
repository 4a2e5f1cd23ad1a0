"""The steps at both ends of a turn.

0.5, 2, 6, 6.5 and 14: what waits, who is speaking, and what that person may use.
13, 15 and 16: the answer goes out, the mood moves on, the turn is counted.
"""

from dataclasses import replace

from pydantic import ValidationError

from silas.approval import ChannelMessage, SignedMessage
from silas.approval.devices import MessageVerifier
from silas.context.service import PendingEntry
from silas.gates import GateAction, GateTrigger, GateType
from silas.kernel import TaintLevel
from silas.kernel.ids import conversation_scope, person_of
from silas.personality.feedback import spoken_event
from silas.queue.models import MessageKind, UserMessage
from silas.storage import Transaction
from silas.stream.interaction import surface_of_reply
from silas.stream.steps.remembering import entry_of_message, message_sources
from silas.stream.steps.routing import is_owners
from silas.stream.steps.visiting import proving_gates
from silas.stream.turn_context import Turn, TurnContext, Write, reply_of

_MISPLACED = (
    "I did not read this message: it is not signed by you for this conversation. Send it again "
    "from here; if that does not help, check the clock of this device."
)


async def surface_what_waits(services: TurnContext, turn: Turn) -> Turn:
    """Step 0.5: reviews, suggestions and warnings that wait come onto the surfaces."""
    if services.proactive is not None:
        await services.proactive.surface(turn.scope_id, now=services.clock.now())
    return turn


async def sign_and_taint(services: TurnContext, turn: Turn) -> Turn:
    """Step 2: how far the message is trusted. Decided once, also if a crash repeats the turn.

    That it was decided is read from a row, which somebody may have written: the owner's message is
    his by its signature only.
    """
    if turn.is_resumed:
        return _as_owners(turn)
    known = await services.store.origin(turn.message.trace_id)
    taint = known.taint if known and known.message_id == turn.message.message_id else None
    found: tuple[Write, ...] = ()
    entry: PendingEntry | None = None
    if taint is None:
        taint, found, entry = await _decide(services, turn)
    elif taint is TaintLevel.OWNER and not await _is_signed(services, turn):
        await services.audit.log("message_taint_forged", trace_id=turn.message.trace_id)
        taint = TaintLevel.EXTERNAL
    if _is_misplaced(turn, taint):
        turn = replace(turn, stopped="not signed for this conversation").saying(_MISPLACED)
    if turn.stopped is not None:
        turn, found = turn.writing(*found), ()  # the steps that would write it down are left out
    sources = message_sources(turn, taint)
    changes = {"taint": taint, "taint_sources": list(sources)}
    return replace(
        turn,
        message_writes=found,
        entry=entry,
        message=turn.message.model_copy(update=changes),
        origin=turn.origin.model_copy(update={"taint": taint}),
        taint=taint,
        sources=sources,
        read_taint=taint,
    )


def _as_owners(turn: Turn) -> Turn:
    """The turn of a request that stands, word by word, in an answer that the owner has signed."""
    taint = TaintLevel.OWNER
    return replace(
        turn,
        message=turn.message.model_copy(update={"taint": taint, "taint_sources": []}),
        taint=taint,
        read_taint=taint,
    )


def _is_misplaced(turn: Turn, taint: TaintLevel) -> bool:
    """Whether it is in a conversation that the owner has begun, and is not the owner's there.

    Such a conversation is the owner's alone: what was copied into it, or was signed for another
    one, is refused, and leaves no word in its context.
    """
    return taint is not TaintLevel.OWNER and turn.scope_id != person_of(turn.scope_id)


async def _decide(
    services: TurnContext, turn: Turn
) -> tuple[TaintLevel, tuple[Write, ...], PendingEntry | None]:
    """The taint, what is still to be written down about it, and the entry that was."""
    signed = _signed(services, turn)
    if signed is not None and services.messages is not None:
        return await _verify(services, turn, signed, services.messages)
    known = services.is_known(turn.origin.channel, turn.sender_id)
    taint = TaintLevel.AUTH if known else TaintLevel.EXTERNAL
    origin = turn.origin.model_copy(update={"taint": taint})
    return taint, (lambda tx: services.store.note_origin(tx, origin),), None


async def _verify(
    services: TurnContext, turn: Turn, signed: SignedMessage, messages: MessageVerifier
) -> tuple[TaintLevel, tuple[Write, ...], PendingEntry | None]:
    """The same for a message with a signature: written down in the transaction of its nonce."""
    context = services.context if turn.stopped is None else None
    written: list[PendingEntry] = []
    if context is not None:
        await context.bring_back(turn.scope_id)

    def note(tx: Transaction, taint: TaintLevel) -> None:
        services.store.note_origin(tx, turn.origin.model_copy(update={"taint": taint}))
        if context is not None and not _is_misplaced(turn, taint):
            entry = context.pending(entry_of_message(services, turn, taint))
            entry.write(tx)
            written[:] = [entry]

    taint = (await messages.classify(signed, services.keys(), also=note)).taint
    return taint, (), written[0] if written else None


async def _is_signed(services: TurnContext, turn: Turn) -> bool:
    signed = _signed(services, turn)
    if signed is None or services.messages is None:
        return False
    return await services.messages.is_signed(signed, services.keys())


def _signed(services: TurnContext, turn: Turn) -> SignedMessage | None:
    """The message as it was signed: its own text, whatever the gates made of it.

    The owner speaks on his own connection. A signature does not say on which one it was made: what
    somebody has copied to another is not the owner's there, and must not use up his nonce.
    """
    sent = turn.message.payload
    if not isinstance(sent, UserMessage) or sent.signature is None or sent.nonce is None:
        return None
    if turn.origin.connection_id != services.policy.owner_id:
        return None
    if turn.scope_id != conversation_scope(services.policy.owner_id, sent.conversation):
        return None
    try:
        message = ChannelMessage(
            channel=sent.channel,
            sender_id=sent.sender_id,
            text=turn.message.content,
            timestamp=sent.timestamp,
            attachments=sent.attachments,
            reply_to=sent.reply_to,
            conversation=sent.conversation,
        )
        return SignedMessage.model_validate(
            {"message": message, "signature": sent.signature, "nonce": sent.nonce}
        )
    except ValidationError:
        return None


async def allow_tools(services: TurnContext, turn: Turn) -> Turn:
    """Step 6: the tools that this connection has reached."""
    return replace(turn, allowed=services.tools_of(turn.origin))


async def update_access(services: TurnContext, turn: Turn) -> Turn:
    """Step 14: gates that prove something about the sender have been passed."""
    checks = {
        name
        for name, gate in proving_gates(services, turn).items()
        if gate.on is GateTrigger.EVERY_USER_MESSAGE and gate.type is GateType.CUSTOM_CHECK
    }
    access = services.visitors.of(turn.origin.connection_id, owner=is_owners(services, turn))
    # Where another goal has a gate of the same name, both have to be passed.
    failed = {
        each.gate_name for each in turn.input_results if each.action is not GateAction.CONTINUE
    }
    for name in sorted(checks & {each.gate_name for each in turn.input_results} - failed):
        access.gate_passed(name)
    return turn


async def send(services: TurnContext, turn: Turn) -> Turn:
    """Step 13: the answer, once, on the surface that the runtime chooses."""
    if turn.response is None:
        return turn
    surface = turn.surface or surface_of_reply(has_card=turn.card_id is not None).value
    reply = reply_of(
        services,
        turn,
        turn.response.message,
        surface=surface,
        answers=_answers(turn),
        card_id=turn.card_id,
        # A tap says it in the owner's name: what strangers wrote must not get there.
        chips=() if turn.taint is TaintLevel.EXTERNAL else turn.response.chips,
        urgent=turn.needs_attention or turn.card_id is not None,
    )
    return turn.sending(reply)


def _answers(turn: Turn) -> bool:
    """A status tells how it goes on; only the message itself or its plan is answered."""
    return turn.message.message_kind is not MessageKind.EXECUTION_STATUS


async def settle_mood(services: TurnContext, turn: Turn) -> Turn:
    """Step 15: what happened moves the mood a little, and time moves it back."""
    if services.personality is None:
        return turn
    return turn.writing(
        services.personality.after_turn(
            person_of(turn.scope_id),
            turn.mood or spoken_event(turn.text) or "turn",
            trusted=turn.message.taint is TaintLevel.OWNER,
            now=services.clock.now(),
            key=turn.message.message_id,
        )
    )


async def count_turn(services: TurnContext, turn: Turn) -> Turn:
    """Step 16: counted together with everything that the turn leads to."""
    door, link, tokens = services.door, turn.link_id, turn.usage.tokens
    if door is not None and link is not None and tokens:
        turn = turn.writing(lambda tx: door.store.count_in(tx, link, tokens=tokens))
    return turn.writing(lambda tx: services.store.count_turn(tx, turn.scope_id))
