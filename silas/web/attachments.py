"""`/api/attachments`: files for messages, brought by the owner and given back to nobody else.

1. Nothing of a file is read before it is known who brings it, and no more than
   `MAX_UPLOAD_BODY_BYTES` of it.
2. What is given back is saved, not shown: the browser is told so, guesses no type, and runs nothing
   of it. Only images say what they are, so that the page can show them small.
"""

import asyncio
import binascii
import re
from typing import Annotated
from urllib.parse import quote

from fastapi import HTTPException, Request, Response
from pydantic import Field, ValidationError

from silas.stream.attachments import (
    MAX_FILE_BYTES,
    AttachmentRefused,
    AttachmentStore,
    AttachmentUnknown,
    FileKind,
    clean_name,
    kind_of,
)
from silas.web.access import page
from silas.web.command_routes import Routes
from silas.web.commands import Body, PageAccess
from silas.web.errors import InvalidRequest
from silas.web.wire import FileAttached

UPLOAD = "/api/attachments"
"""Where the host guard lets more through than elsewhere."""
MAX_BASE64_CHARS = 4 * -(-MAX_FILE_BYTES // 3)
MAX_UPLOAD_BODY_BYTES = MAX_BASE64_CHARS + 4096
_TOO_LARGE = (
    f"This file is larger than {MAX_FILE_BYTES // (1024 * 1024)} MB. Attach a part of it, or name "
    "its path instead."
)
_POLICY = "default-src 'none'; sandbox"
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class BroughtAttachment(Body):
    """A file: its name, and its bytes in base64."""

    name: Annotated[str, Field(min_length=1, max_length=1000)]
    content: Annotated[str, Field(max_length=MAX_BASE64_CHARS)]


def attachment_routes(store: AttachmentStore) -> Routes:
    """The routes."""
    routes = Routes(UPLOAD)

    # The body is no parameter: it is read by the guard, which asks for the session first (rule 1).
    @routes.post("")
    @page(PageAccess.SIGNED)
    async def bring(request: Request) -> FileAttached:
        name, content = await asyncio.to_thread(_read, await request.body())
        file = await store.keep(name, content)
        return FileAttached(sha256=file.sha256, name=file.name, kind=file.kind, size=file.size)

    @routes.get("/{sha256}/{name:path}")
    @page(PageAccess.SESSION)
    async def give_back(sha256: Digest, name: str) -> Response:
        content = await store.content(sha256)
        if content is None:
            raise HTTPException(404, AttachmentUnknown.sentence())
        return saved_answer(clean_name(name), content, kind_of(content))

    return routes


def saved_answer(name: str, content: bytes, kind: FileKind) -> Response:
    """Bytes that a browser saves, and neither shows nor runs (rule 2)."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)
    saved = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name)}"
    return Response(
        content,
        media_type=kind.media_type,
        headers={
            "Content-Disposition": saved,
            "Content-Security-Policy": _POLICY,
            "X-Content-Type-Options": "nosniff",
        },
    )


def _read(body: bytes) -> tuple[str, bytes]:
    try:
        brought = BroughtAttachment.model_validate_json(body)
    except ValidationError as error:
        if any(
            each["type"] == "string_too_long" and each["loc"] == ("content",)
            for each in error.errors()
        ):
            raise AttachmentRefused(_TOO_LARGE) from error
        raise InvalidRequest("A file is a `name` and its bytes in base64 as `content`.") from error
    try:
        return brought.name, binascii.a2b_base64(brought.content, strict_mode=True)
    except ValueError as error:
        raise InvalidRequest("`content` is not base64. Send the bytes of the file so.") from error
