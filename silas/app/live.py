"""What grows and goes on right now, for terminals beside the page.

A terminal that has joined a running Silas asks over the control socket for what is new, and waits
there until something is. Nothing relies on it: what matters is delivered through the database.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from silas.app.instance import MAX_MESSAGE, short_path
from silas.app.paths import Paths
from silas.app.peers import peer_user
from silas.kernel import CanonicalError, canonical_bytes, strict_loads
from silas.kernel.errors import ServerError
from silas.stream.ports import Live

_KEPT = 500
_WAIT_SECONDS = 20.0
_AGAIN_SECONDS = 1.0


@dataclass
class Passing:
    """`Live` that passes on to whoever listens by then."""

    to: Live | None = None

    def text(self, connection_id: str, trace_id: str, piece: str) -> None:
        """An answer grows."""
        if self.to is not None:
            self.to.text(connection_id, trace_id, piece)

    def progress(self, trace_id: str, what: str, detail: str = "") -> None:
        """Work goes on."""
        if self.to is not None:
            self.to.progress(trace_id, what, detail)


@dataclass
class LiveLog:
    """`Live` that tells the page, and keeps the last of it for terminals."""

    page: Live
    _events: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_KEPT))
    _number: int = 0
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def watched(self) -> bool:
        """Whether a page is open."""
        return bool(getattr(self.page, "watched", False))

    def text(self, connection_id: str, trace_id: str, piece: str) -> None:
        """An answer grows."""
        self.page.text(connection_id, trace_id, piece)
        self._keep({"connection_id": connection_id, "trace_id": trace_id, "piece": piece})

    def progress(self, trace_id: str, what: str, detail: str = "") -> None:
        """Work goes on."""
        self.page.progress(trace_id, what, detail)
        self._keep({"trace_id": trace_id, "what": what, "detail": detail[:_KEPT]})

    async def events(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Control: what came after a number, as soon as there is something; null is from now on."""
        after = params.get("after")
        if not isinstance(after, int) or after > self._number:
            return {"number": self._number, "events": []}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_WAIT_SECONDS):
                while self._number <= after:
                    self._news.clear()
                    await self._news.wait()
        missed = min(self._number - after, len(self._events))
        found = list(self._events)[len(self._events) - missed :] if missed > 0 else []
        return {"number": self._number, "events": found}

    def _keep(self, event: dict[str, Any]) -> None:
        self._events.append(event)
        self._number += 1
        self._news.set()


async def follow_live(paths: Paths, live: Live) -> None:
    """Pass on what the running Silas tells, for as long as this task lives."""
    while True:
        with contextlib.suppress(OSError, EOFError, CanonicalError, ServerError, ValueError):
            await _follow(paths, live)
        await asyncio.sleep(_AGAIN_SECONDS)


async def _follow(paths: Paths, live: Live) -> None:
    with short_path(paths.socket) as address:
        reader, writer = await asyncio.open_unix_connection(address, limit=MAX_MESSAGE)
    try:
        if peer_user(writer.get_extra_info("socket")) != paths.data_dir.stat().st_uid:
            raise ServerError("The socket belongs to another user.")
        number: int | None = None
        while True:
            request = {"method": "live", "params": {"after": number}}
            writer.write(canonical_bytes(request) + b"\n")
            answer = strict_loads(await reader.readuntil(b"\n"))
            if not isinstance(answer, dict) or not isinstance(answer.get("result"), dict):
                return
            number = answer["result"]["number"]
            for event in answer["result"]["events"]:
                _pass_on(event, live)
    finally:
        writer.close()


def _pass_on(event: Mapping[str, str], live: Live) -> None:
    if "piece" in event:
        live.text(event["connection_id"], event["trace_id"], event["piece"])
    else:
        live.progress(event["trace_id"], event["what"], event["detail"])
