"""What cannot be undone: plans that ask for it, and an authenticator that a test controls."""

from typing import Any

from playwright.async_api import CDPSession, Page

from silas.gates import ActionEnvelope
from silas.kernel import TaintLevel
from silas.storage import Transaction
from silas.stream.ports import PlanReview
from silas.stream.store import Origin, WorkOrigin
from silas.work.models import WorkItem
from silas.work.plan import parse
from silas.work.store import save_item
from tests.web.place import Place

PLAN = """---
id: {name}
type: task
title: {title}
verify:
  - name: there
    run: cat a.txt
    expect: {{contains: x}}
---
Do it.

```file path=a.txt
x
```
"""


def plan_calling(tool: str | None, *, name: str = "risky", title: str = "Clean up") -> WorkItem:
    item = parse(PLAN.format(name=name, title=title))
    if tool is None:
        return item
    return item.model_copy(update={"approvals": [ActionEnvelope(tool=tool)]})


async def ask(
    place: Place,
    item: WorkItem,
    *,
    card_id: str = "card_1",
    taint: TaintLevel = TaintLevel.OWNER,
    **more: Any,
) -> None:
    """A card for this plan, as the stream asks it."""
    room, owner, trace = place.house.stream.turns, "owner", f"trace_{card_id}"
    origin = Origin(
        trace_id=trace,
        scope_id=owner,
        connection_id=owner,
        channel="web",
        sender_id=owner,
        message_id=f"msg_{card_id}",
        taint=taint,
    )
    review = PlanReview(
        card_id=card_id,
        items=[item],
        scope_id=owner,
        connection_id=owner,
        channel="web",
        trace_id=trace,
        message="Shall I?",
        taint=taint,
        **more,
    )

    def write(tx: Transaction) -> None:
        room.store.note_origin(tx, origin)
        room.store.note_work(
            tx, WorkOrigin(work_item_id=item.id, trace_id=trace, scope_id=owner, taint=taint)
        )
        save_item(tx, item, now="2026-01-01T00:00:00.000000Z")
        place.house.cards.ask_plan(tx, review)

    await place.core.database.transaction(write)
    await place.web.hub.tell_cards(place.front)


async def authenticator(page: Page, **changes: Any) -> CDPSession:
    """A passkey device in the browser, with somebody in front of it."""
    session = await page.context.new_cdp_session(page)
    await session.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
        "automaticPresenceSimulation": True,
        **changes,
    }
    await session.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    return session
