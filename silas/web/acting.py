"""What the frames of a page do."""

import base64

from silas.approval import ApprovalDecision, ApprovalStrength, ApprovalVerdict
from silas.audit.models import AuditEntry
from silas.kernel import ChannelError
from silas.queue.models import UserMessage
from silas.review.cards import asking_for
from silas.review.decisions import OwnersProof, OwnersWord
from silas.review.errors import CardUnknown
from silas.stream.activity import sentence_of, tone_of
from silas.stream.admission import busy_for
from silas.web import wire
from silas.web.front import Front
from silas.web.hub import Hub, Page
from silas.web.questions import take_answer

_CHANNEL = "web"
_LOG_ENTRIES_PER_LINE = 6
"""Most entries of the log have no sentence; so many are read for each that is shown."""


async def act(front: Front, hub: Hub, page: Page, frame: wire.FromPage, *, address: str) -> None:
    """Do what a frame asks for; raises `SilasError` with the reason if it is not done."""
    match frame:
        case wire.Say():
            if not front.per_address.take(address):
                raise busy_for(front.per_address.wait(address))
            await _say(front, hub, page, frame)
        case wire.StopAnswer():
            await front.answers.stop(frame.trace_id)  # that it has stopped is said by the answer
        case wire.ApprovalResponse():
            await _decide(front, hub, page, frame)
        case (
            wire.GateResponse()
            | wire.BatchReviewResponse()
            | wire.DraftReviewResponse()
            | wire.DecisionResponse()
            | wire.SuggestionResponse()
            | wire.AutonomyThresholdResponse()
            | wire.ConnectionSetupResponse()
            | wire.PermissionEscalationResponse()
            | wire.ConnectionFailureResponse()
        ):
            await _answer(front, hub, page, frame)
        case wire.ActivityRequest():
            page.put(wire.Activity(entries=await recent_entries(front, frame.count)))
        case wire.SecureInputCompleted():
            return
        case wire.Auth():
            raise ChannelError("This page is let in already.")
        case _:
            raise CardUnknown("Nothing like that waits for an answer.")


async def _say(front: Front, hub: Hub, page: Page, frame: wire.Say) -> None:
    said = UserMessage(
        channel=_CHANNEL,
        connection_id=front.owner_id,
        sender_id=front.owner_id,
        timestamp=frame.timestamp,
        signature=base64.b64encode(frame.signature).decode(),
        nonce=frame.nonce,
        folder=frame.folder,
        conversation=frame.conversation,
        attachments=frame.attachments,
    )
    await front.attachments.find(frame.attachments)
    message = await front.intake.accept(
        frame.text, said, message_id=frame.message_id, record=front.search.conversations.record
    )
    page.put(wire.Accepted(message_id=frame.message_id, trace_id=message.trace_id))
    await hub.tell_said(front)
    await hub.tell_conversations(front)


async def _decide(front: Front, hub: Hub, page: Page, frame: wire.ApprovalResponse) -> None:
    name, verdict = frame.request_id, ApprovalVerdict(frame.verdict)
    strength = ApprovalStrength(frame.strength)
    decision = ApprovalDecision(verdict=verdict, approval_strength=strength)
    if verdict is ApprovalVerdict.EDIT_REQUESTED:
        decision = asking_for(frame.changes)
    proof = _proof(front, page, frame)
    if await front.calls.waits(name):
        await front.calls.decide(name, OwnersWord(decision, proof), chosen=frame.chosen)
    else:
        await front.cards.decide(name, decision, proof)
    hub.tell(wire.CardClosed(request_id=name, state=verdict.value))
    await hub.tell_cards(front)


async def _answer(front: Front, hub: Hub, page: Page, frame: wire.AnyAnswer) -> None:
    questions = front.calls.questions
    state = await take_answer(questions, front.cards, frame, _proof(front, page, frame))
    hub.tell(wire.CardClosed(request_id=frame.request_id, state=state))
    await hub.tell_cards(front)


def _proof(front: Front, page: Page, frame: wire.ApprovalResponse | wire.AnyAnswer) -> OwnersProof:
    return OwnersProof(page.device_id, frame.signature, frame.passkey, front.origins.allowed)


async def recent_entries(front: Front, count: int) -> list[wire.ActivityEntry]:
    """What happened, in words, the newest first; work and cards are called by their titles."""
    entries = await front.audit.tail(count * _LOG_ENTRIES_PER_LINE)
    told: list[wire.ActivityEntry] = []
    for entry in reversed(entries):
        named = await front.titles.named(entry)
        text = sentence_of(named) if named is not None else None
        if not text:
            continue
        if told and told[-1].text == text:
            # A watch that is well says the same all day: that is one line.
            told[-1] = told[-1].model_copy(update={"times": told[-1].times + 1})
        elif len(told) < count:
            told.append(await _activity_entry(front, entry, text))
        else:
            break
    return told


async def _activity_entry(front: Front, entry: AuditEntry, text: str) -> wire.ActivityEntry:
    card = entry.data.get("card_id")
    work = await front.titles.work_of(entry)
    known = await front.items.get(work) if work else None
    return wire.ActivityEntry.model_validate(
        {
            "seq": entry.seq,
            "at": entry.at,
            "event": entry.event,
            "text": text,
            "tone": tone_of(entry),
            "work_item_id": known.id if known else None,
            "card_id": card if isinstance(card, str) else None,
        }
    )
