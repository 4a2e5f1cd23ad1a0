"""`/api/journal/export` and `import`: the whole journal as a file, in and out of the page.

1. Whoever may read the journal may have it whole; only the device's signature takes a file in.
2. Nothing is read of a request before its session is known, and no more than `MOST_BODY` of it.
3. A file is checked whole, then counted, and taken in only if the owner says so: in one change.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from pydantic import Field, ValidationError

from silas.journal.errors import ImportRefused
from silas.journal.files import read_json, write_json
from silas.journal.models import Record
from silas.journal.taking_in import TakenIn, take_in
from silas.kernel import JournalError
from silas.kernel.models import Data
from silas.web.front import Front

Guard = Callable[..., Awaitable[Any]]
IMPORT = "/api/journal/import"
"""Where the door lets more through than elsewhere."""
MOST_TEXT = 8 * 1024 * 1024
MOST_BODY = 2 * MOST_TEXT
"""A text in JSON may be twice as long as it is."""
_ACTOR = "owner"
_TOO_LARGE = (
    "This file is larger than 8 MB. Take it in with `silas journal import FILE` in a terminal."
)


class BroughtFile(Data):
    """A file, and whether it is to be taken in or only to be counted."""

    text: Annotated[str, Field(max_length=MOST_TEXT)]
    apply: bool = False


def journal_file_routes(front: Front, *, reader: Guard, signer: Guard) -> APIRouter:
    """The routes; whoever passes the guards is the owner."""
    router = APIRouter()

    @router.get("/export", dependencies=[Depends(reader)])
    async def export() -> Response:
        records = await front.journal.export()
        now = front.clock.now()
        content = await asyncio.to_thread(
            _written, list(records), host_id=front.journal.host_id, now=now
        )
        name = f"silas-journal-{now.astimezone(front.zone):%Y-%m-%d}.json"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(content, media_type="application/json", headers=headers)

    # The body is no parameter: it is read by the guard, which asks for the session first (rule 2).
    @router.post("/import", dependencies=[Depends(signer)])
    async def bring(request: Request) -> TakenIn:
        body = await request.body()
        try:
            brought, records = await asyncio.to_thread(_read, body)
            return await take_in(
                front.journal, records, actor=_ACTOR, preview_only=not brought.apply
            )
        except JournalError as error:
            raise HTTPException(400, error.message) from error

    return router


def _written(records: list[Record], **about: Any) -> bytes:
    return json.dumps(write_json(records, **about), ensure_ascii=False, indent=1).encode()


def _read(body: bytes) -> tuple[BroughtFile, tuple[Record, ...]]:
    try:
        brought = BroughtFile.model_validate_json(body)
    except ValidationError as error:
        long = any(each["type"] == "string_too_long" for each in error.errors())
        raise ImportRefused(_TOO_LARGE if long else None) from error
    return brought, read_json(brought.text)
