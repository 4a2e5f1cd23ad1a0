"""One open page: let in by its device's signature, then served until it goes.

1. The first frame of ours is a challenge; the first of the page's is its device's signature over
   it, within five seconds. Otherwise the socket is closed with 4001.
2. Whoever is let in gets, in this order: its name, the conversations, the cards that wait and what
   goes on, what it has missed, the answers that are being made, and what secrets are asked for.
3. Before a frame is acted on, the device is looked up again: revoked means gone. (A ping is not.)
4. A frame that makes no sense is answered with an error; many of them end the conversation.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Sequence

from pydantic import ValidationError
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from silas.approval import Device
from silas.kernel import CanonicalError, SilasError, strict_loads
from silas.kernel.models import Data
from silas.kernel.program import as_typed
from silas.review.cards import Card
from silas.web import wire
from silas.web.access import auth_bytes, has_token
from silas.web.acting import act
from silas.web.front import Front
from silas.web.hub import Hub, Page
from silas.web.showing import (
    card_frame,
    items_of,
    shown_answering,
    shown_delivery,
    shown_saying,
    work_frame,
)

_HISTORY = 200
_RECENT_CARDS = 40
UNAUTHORISED = 4001
_AUTH_SECONDS = 5.0
_LATE = "late"
"""A page that was only slow may try again; one that is not trusted need not."""
_GOING, _NONSENSE, _ANEW, _TOO_SLOW = 1001, 1008, 1012, 1013
_OUTBOX = 2000
_LAST_SECONDS = 1.0
_MOST_NONSENSE = 20
_PING = wire.Ping()
_PING_TEXT, _PONG_TEXT = _PING.model_dump_json(), wire.Pong().model_dump_json()


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
    page.put(wire.Conversations(conversations=await front.search.conversations.list()))
    for card in await _cards(front):
        page.put(await card_frame(front, card))
        if card.state == "approved":
            for item in await items_of(card, front.items):
                page.put(await work_frame(card.trace_id, item, front.calls.work.images))
    for call in await front.calls.cards():
        page.put(call)
    page.put(wire.History(messages=await _missed(front, auth)))
    for progress, text in front.answers.current():
        page.put(shown_answering(progress))
        page.put(wire.Streaming(trace_id=progress.trace_id, start=0, piece=text))
    for request in await front.secrets.open_requests():
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


class Nonsense(Exception):
    """A frame that cannot be understood. It never leaves this module."""


class Conversation:
    """`silas.web.hub.Page`."""

    def __init__(self, front: Front, hub: Hub, socket: WebSocket) -> None:
        self._front = front
        self._hub = hub
        self._socket = socket
        self._outbox: asyncio.Queue[Data] = asyncio.Queue(_OUTBOX)
        self._ending: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._code = _GOING
        self._device_id = ""

    @property
    def device_id(self) -> str:
        """Whose page it is."""
        return self._device_id

    def put(self, frame: Data) -> None:
        """Send this, in its turn; a page that does not read is let go, and comes back."""
        try:
            self._outbox.put_nowait(frame)
        except asyncio.QueueFull:
            self._end(_TOO_SLOW)

    def leave(self) -> None:
        """The device is no longer trusted."""
        self._end(UNAUTHORISED)

    def call_again(self) -> None:
        """Silas was set up anew."""
        self._end(_ANEW)

    async def run(self) -> None:
        """Serve the page until it goes."""
        await self._socket.accept()
        try:
            entered = await self._enter()
        except TimeoutError:
            await self._close(UNAUTHORISED, _LATE)
            return
        if entered is None:
            await self._close(UNAUTHORISED)
            return
        device, auth = entered
        self._device_id = device.device_id
        self._hub.pages.add(self)
        tasks = [
            asyncio.create_task(each, name="web page")
            for each in (self._send_all(), self._converse(device, auth))
        ]
        try:
            until: set[asyncio.Future[None]] = {*tasks, self._ending}
            await asyncio.wait(until, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._hub.pages.discard(self)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._close(self._code)

    def _end(self, code: int) -> None:
        if not self._ending.done():
            self._code = code
            self._ending.set_result(None)

    async def _close(self, code: int, reason: str | None = None) -> None:
        if self._socket.application_state is WebSocketState.CONNECTED:
            try:
                await self._socket.close(code, reason)
            except (RuntimeError, WebSocketDisconnect):
                return  # the other side was faster

    async def _enter(self) -> tuple[Device, wire.Auth] | None:
        """Rule 1; raises `TimeoutError`."""
        challenge = secrets.token_urlsafe(32)
        try:
            async with asyncio.timeout(_AUTH_SECONDS):
                await self._socket.send_text(wire.Hello(challenge=challenge).model_dump_json())
                frame = await self._receive()
        except (WebSocketDisconnect, Nonsense):
            return None
        if not isinstance(frame, wire.Auth) or not has_token(self._front.token, frame.token):
            return None
        device = await self._signed_by(frame, challenge)
        return None if device is None else (device, frame)

    async def _signed_by(self, auth: wire.Auth, challenge: str) -> Device | None:
        if auth.device_id is None or auth.signature is None:
            return None
        origin = self._socket.headers.get("origin", "")
        payload = auth_bytes(challenge=challenge, device_id=auth.device_id, origin=origin)
        if not await self._front.devices.verify(auth.device_id, payload, auth.signature):
            return None
        return await self._front.devices.find(auth.device_id)

    async def _receive(self) -> wire.FromPage:
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", _GOING))
        text = message.get("text")
        if text == _PING_TEXT:
            return _PING  # by far the most frequent one, and always the same
        if not isinstance(text, str):
            raise Nonsense
        try:
            return wire.FROM_PAGE.validate_python(strict_loads(text))
        except (CanonicalError, ValidationError) as error:
            raise Nonsense from error

    async def _send_all(self) -> None:
        while True:
            frame = await self._outbox.get()
            await self._socket.send_text(frame.model_dump_json())
            self._outbox.task_done()

    async def _converse(self, device: Device, auth: wire.Auth) -> None:
        await welcome(self._front, self, device, auth)
        self.put(self._hub.attention)
        address = self._socket.client.host if self._socket.client else ""
        nonsense = 0
        while nonsense < _MOST_NONSENSE:
            try:
                frame = await self._receive()
            except Nonsense:
                nonsense += 1
                told = "This frame is not part of the protocol."
                self.put(wire.Failed(code="E_CHANNEL_FRAME", message=told))
                continue
            if isinstance(frame, wire.Ping):
                await self._socket.send_text(_PONG_TEXT)  # it may overtake, there is no order to it
            else:
                await self._act(frame, address)
        with contextlib.suppress(TimeoutError):  # whoever reads hears all of it
            async with asyncio.timeout(_LAST_SECONDS):
                await self._outbox.join()
        self._end(_NONSENSE)

    async def _act(self, frame: wire.FromPage, address: str) -> None:
        about = getattr(frame, "message_id", None) or getattr(frame, "request_id", None)
        try:
            device = await self._front.devices.find(self._device_id)
            if device is None or not device.trusted:  # 2
                self.leave()
                return
            await act(self._front, self._hub, self, frame, address=address)
        except SilasError as error:
            wait = error.details.get("retry_after_seconds")
            self.put(
                wire.Failed(
                    code=error.code,
                    message=as_typed(error.message),
                    about=about,
                    retry_after=wait,
                )
            )
