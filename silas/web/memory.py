"""`/api/memory/*`: what Silas remembers of the owner, looked at, put right and forgotten.

1. It is the owner's scope, and no other: nobody names a scope here.
2. Reading needs the session of a paired device. A change needs its signature, which makes the text
   of a correction the owner's own words.
3. What the owner has confirmed is forgotten only with the device's signature over exactly that:
   the hash of what `to_forget` has shown, under a name of the page's own choosing.

The terminal uses the same functions: over the owner's socket, or on the files if no Silas runs.
"""

from typing import Annotated, Any, Literal

from fastapi import Path
from pydantic import Field

from silas.approval import (
    ApprovalDecision,
    ApprovalStrength,
    ApprovalVerdict,
    Base64Bytes,
)
from silas.kernel.models import Data
from silas.memory.curation import (
    MAX_PAGE,
    Id,
    MemoryCuration,
    MemoryPage,
    ShownMemory,
    ToForget,
)
from silas.memory.forgetting import Forgotten
from silas.memory.models import MemoryChange
from silas.memory.preferences import text_for_owner
from silas.review.decisions import OwnersProof, OwnersWord
from silas.web.access import AskingDevice, page
from silas.web.command_routes import Routes, command_routes
from silas.web.commands import ApiCommand, Body, PageAccess, by_name
from silas.web.front import Front

MEMORY_COMMANDS = by_name(
    [
        # Looking. The page has GET routes of its own for these.
        ApiCommand(MemoryCuration.newest),
        ApiCommand(MemoryCuration.search),
        ApiCommand(MemoryCuration.show),
        ApiCommand(MemoryCuration.numbers),
        ApiCommand(MemoryCuration.changes),
        ApiCommand(MemoryCuration.to_forget),
        # Changing.
        ApiCommand(MemoryCuration.correct, PageAccess.SIGNED),
        ApiCommand(MemoryCuration.undo, PageAccess.SIGNED),
        ApiCommand(MemoryCuration.forget),
    ]
)
"""By name; the page forgets by ids alone, with what it has signed (3)."""

Lane = Literal["remembered", "said"]
"""What comes back by itself, or everything as it was said."""
Question = Annotated[str, Path(min_length=1, max_length=2000)]
After = Annotated[str, Path(max_length=60)]
_FIRST = "newest"
_MAX_SEARCHED = 50


class ConfirmedForgetting(Body):
    """The device's word that exactly these confirmed memories go."""

    question_id: Annotated[str, Field(min_length=8, max_length=100)]
    claim_hash: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    signature: Base64Bytes


class ForgettingRequest(Body):
    """What the owner wants forgotten, from the page."""

    memory_ids: Annotated[list[Id], Field(min_length=1, max_length=MAX_PAGE)]
    confirmed: ConfirmedForgetting | None = None


class ShownChange(Data):
    """A change, with what it was about as the owner reads it."""

    change: MemoryChange
    text: str


class ForgettingShown(Body):
    """What the page asks about before anything goes."""

    memory_ids: Annotated[list[Id], Field(min_length=1, max_length=MAX_PAGE)]


def memory_routes(front: Front) -> Routes:
    """The routes."""
    routes = Routes("/api/memory")
    memory = front.memory

    @routes.get("/page/{lane}/{after}")
    @page(PageAccess.SESSION)
    async def listed(lane: Lane, after: After) -> MemoryPage:
        place = None if after == _FIRST else after
        return await memory.page(raw=lane == "said", after=place)

    @routes.get("/find/{lane}/{question:path}")
    @page(PageAccess.SESSION)
    async def found(lane: Lane, question: Question) -> MemoryPage:
        return await memory.search(question=question, raw=lane == "said", limit=_MAX_SEARCHED)

    @routes.get("/item/{memory_id}")
    @page(PageAccess.SESSION)
    async def one(memory_id: str) -> ShownMemory:
        return await memory.show(memory_id=memory_id)

    @routes.get("/numbers")
    @page(PageAccess.SESSION)
    async def numbers_for_page() -> dict[str, Any]:
        return await memory.numbers()

    @routes.get("/changes")
    @page(PageAccess.SESSION)
    async def changes_for_page() -> list[ShownChange]:
        return [_shown_change(change) for change in await memory.changes()]

    @routes.post("/forgetting")
    @page(PageAccess.SIGNED)
    async def forgetting(asked: ForgettingShown) -> ToForget:
        return await memory.to_forget(memory_ids=tuple(asked.memory_ids))

    @routes.post("/forget_these")
    @page(PageAccess.SIGNED)
    async def forget_these(asked: ForgettingRequest, device: AskingDevice) -> Forgotten:
        ids, confirmed = tuple(asked.memory_ids), asked.confirmed
        if confirmed is None:
            return await memory.forget(memory_ids=ids)
        word = _devices_word(device.device_id, confirmed.signature)
        return await memory.forget_confirmed(
            ids, word, question_id=confirmed.question_id, claim_hash=confirmed.claim_hash
        )

    routes.include(command_routes("", MEMORY_COMMANDS.values(), lambda: front.memory))
    return routes


def _shown_change(change: MemoryChange) -> ShownChange:
    item = change.after or change.before
    return ShownChange(change=change, text=text_for_owner(item) if item else "")


def _devices_word(device_id: str, signature: bytes) -> OwnersWord:
    yes = ApprovalDecision(verdict=ApprovalVerdict.APPROVED, approval_strength=ApprovalStrength.TAP)
    return OwnersWord(yes, OwnersProof(device_id, signature))
