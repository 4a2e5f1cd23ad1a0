"""Steps 13, 15 and 16: the answer goes out, the mood moves on, the turn is counted."""

from silas.kernel import TaintLevel
from silas.queue.models import MessageKind
from silas.stream.surfaces import surface_of_reply
from silas.stream.turn_context import Turn, TurnContext, reply_of


async def send(room: TurnContext, turn: Turn) -> Turn:
    """Step 13: the answer, once, on the surface that the runtime chooses."""
    if turn.response is None:
        return turn
    surface = turn.surface or surface_of_reply(has_card=turn.card_id is not None).value
    reply = reply_of(
        room,
        turn,
        turn.response.message,
        surface=surface,
        answers=_answers(turn),
        card_id=turn.card_id,
        urgent=turn.needs_attention or turn.card_id is not None,
    )
    return turn.sending(reply)


def _answers(turn: Turn) -> bool:
    """A status tells how it goes on; only the message itself or its plan is answered."""
    return turn.message.message_kind is not MessageKind.EXECUTION_STATUS


async def settle_mood(room: TurnContext, turn: Turn) -> Turn:
    """Step 15: what happened moves the mood a little, and time moves it back."""
    if room.personality is None:
        return turn
    return turn.writing(
        room.personality.after_turn(
            turn.scope_id,
            turn.mood or "turn",
            trusted=turn.message.taint is TaintLevel.OWNER,
            now=room.clock.now(),
            key=turn.message.message_id,
        )
    )


async def count_turn(room: TurnContext, turn: Turn) -> Turn:
    """Step 16: counted together with everything that the turn leads to."""
    return turn.writing(lambda tx: room.store.count_turn(tx, turn.scope_id))
