"""Asking for something over the real socket, and what came of it."""

import json
from typing import Any

from tests.web.place import Line, Place

Card = dict[str, Any]
_UNFINISHED = {"pending", "queued", "running"}


async def card_for(line: Line, text: str) -> Card:
    """The card that a request leads to."""
    said = await line.say(text)
    return await line.until("approval_request", trace_id=f"trace_{said['message_id']}")


async def decided(line: Line, card: Card, verdict: str) -> None:
    """Decide it the way the page does."""
    await line.send(line.decision(card, verdict))
    await line.until("card_closed", request_id=card["request_id"], state=verdict)


async def ended(line: Line, card: Card) -> dict[str, Any]:
    """The work of an approved card, when it has come to its end."""
    while True:
        work = await line.until("work", trace_id=card["trace_id"])
        if work["status"] not in _UNFINISHED:
            return work


async def executed(place: Place) -> list[dict[str, Any]]:
    """Every call that any work has made, with its arguments."""
    rows = await place.core.database.fetch_all("SELECT args FROM work_ledger ORDER BY started_at")
    return [json.loads(args) for (args,) in rows]


async def nothing_was_done(place: Place) -> None:
    """No token, no attempt, no call."""
    for table in ("approval_tokens", "work_attempts", "work_ledger"):
        rows = await place.core.database.fetch_all(f"SELECT * FROM {table}")
        assert rows == [], table


async def open_cards(place: Place) -> list[str]:
    return [card.card_id for card in await place.house.cards.open_cards()]


def plan_of(card: Card) -> dict[str, Any]:
    """What is signed, read from its very bytes."""
    [item] = card["items"]
    plan: dict[str, Any] = json.loads(item["plan"])
    return plan
