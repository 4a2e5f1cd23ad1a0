"""What the frames of a page do."""

import base64
from dataclasses import replace

from silas.approval import ApprovalDecision, ApprovalVerdict
from silas.audit.models import AuditEntry
from silas.kernel import ChannelError
from silas.queue.models import UserMessage
from silas.stream.activity import sentence_of
from silas.stream.admission import busy_for
from silas.stream.errors import CardUnknown
from silas.web import wire
from silas.web.calls import Signed
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
    )
    message = await front.intake.accept(frame.text, said, message_id=frame.message_id)
    await front.said.keep(message, connection_id=front.owner_id)
    page.put(wire.Accepted(message_id=frame.message_id, trace_id=message.trace_id))
    await hub.tell_said(front)


async def _decide(front: Front, hub: Hub, page: Page, frame: wire.ApprovalResponse) -> None:
    name, verdict = frame.request_id, ApprovalVerdict(frame.verdict)
    signed = Signed(page.device_id, frame.signature, frame.passkey, front.origins.allowed)
    if await front.calls.waits(name):
        await front.calls.decide(name, verdict, signed, chosen=frame.chosen)
    else:
        await front.cards.decide_signed(
            name,
            ApprovalDecision(verdict=verdict),
            key_id=signed.key_id,
            signature=signed.signature,
            passkey=signed.passkey,
            origins=signed.origins,
        )
    hub.tell(wire.CardClosed(request_id=name, state=verdict.value))
    await hub.tell_cards(front)


async def _answer(front: Front, hub: Hub, page: Page, frame: wire.AnyAnswer) -> None:
    questions = front.calls.questions
    state = await take_answer(questions, front.cards, frame, key_id=page.device_id)
    hub.tell(wire.CardClosed(request_id=frame.request_id, state=state))
    await hub.tell_cards(front)


async def recent_entries(front: Front, count: int) -> list[wire.ActivityEntry]:
    """What happened, in words, the newest first; work is called by its title."""
    entries = await front.audit.tail(count * _LOG_ENTRIES_PER_LINE)
    told: list[wire.ActivityEntry] = []
    for entry in reversed(entries):
        text = sentence_of(await _titled(front, entry))
        if text and len(told) < count:
            told.append(
                wire.ActivityEntry(seq=entry.seq, at=entry.at, event=entry.event, text=text)
            )
    return told


async def _titled(front: Front, entry: AuditEntry) -> AuditEntry:
    name = entry.data.get("work_item_id")
    item = await front.items.get(name) if isinstance(name, str) else None
    if item is None:
        return entry
    return replace(entry, data={**entry.data, "work_item_id": f"“{item.title}”"})
