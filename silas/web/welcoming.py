"""What a page gets when it is let in: its name, what it has missed, what waits, what goes on."""

from collections.abc import Sequence

from silas.approval import Device
from silas.stream.cards import Card
from silas.web import wire
from silas.web.front import Front
from silas.web.hub import Page
from silas.web.showing import items_of, shown_card, shown_delivery, shown_saying, shown_work

_HISTORY = 200
_RECENT_CARDS = 40


async def welcome(front: Front, page: Page, device: Device, auth: wire.Auth) -> None:
    """Send it all, in this order."""
    page.put(
        wire.Ready(
            device_id=device.device_id,
            device_name=device.name,
            owner_id=front.owner_id,
            ticket=front.sessions.ticket(device.device_id),
            version=front.version,
            model=front.model,
            chips=list(front.chips),
        )
    )
    for card in await _cards(front):
        items = await items_of(card, front.items)
        page.put(shown_card(card, items))
        if card.state == "approved":
            for item in items:
                page.put(shown_work(card, item))
    for call in await front.calls.cards():
        page.put(call)
    page.put(wire.History(messages=await _missed(front, auth)))
    for request in front.secrets.open_requests():
        page.put(request)


async def _cards(front: Front) -> Sequence[Card]:
    """Those that wait, and the latest that do not."""
    known = {card.card_id: card for card in await front.cards.recent(_RECENT_CARDS)}
    known |= {card.card_id: card for card in await front.cards.open_cards()}
    return sorted(known.values(), key=lambda card: (card.created_at, card.card_id))


async def _missed(front: Front, auth: wire.Auth) -> list[wire.Message]:
    """Both halves of the conversation, in the order in which they happened."""
    owner = front.owner_id
    if auth.said:
        sayings = await front.said.after(owner, auth.said)
    else:
        sayings = await front.said.newest(owner, _HISTORY)
    start = auth.delivery or max(0, await front.deliveries.last(owner) - _HISTORY)
    deliveries = await front.deliveries.after(owner, start, limit=2 * _HISTORY)
    messages = [*map(shown_saying, sayings), *map(shown_delivery, deliveries)]
    return sorted(messages, key=lambda message: message.timestamp)
