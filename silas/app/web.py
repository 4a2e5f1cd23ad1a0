"""The web page, wired: the front of a house, its server, and the ways in.

A model that is chosen in the page is used at once: the house is closed in its orderly way and
opened again with the new settings, while the address, the lock and the pairing codes stay.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from starlette.types import ASGIApp, Receive, Scope, Send

import silas
from silas.agents.brain.chips import chips
from silas.agents.models.roles import Role
from silas.agents.models.servers import KNOWN_SERVERS, LocalServer
from silas.app.background import in_background
from silas.app.companion_line import CompanionLine, call_desk
from silas.app.first_run import FirstRun
from silas.app.ground import Ground
from silas.app.house import House, open_house
from silas.app.journal import JournalLine
from silas.app.live import LiveLog
from silas.app.model_choices import model_name
from silas.app.personality import open_personality
from silas.app.resuming import go_on
from silas.app.settings import LoadedSettings, Settings
from silas.approval import PasskeyCodes
from silas.journal import NotificationBatch
from silas.kernel import Clock, ServerError, SilasError, format_timestamp
from silas.stream.limits import RateLimit
from silas.stream.said import SaidStore
from silas.web import wire
from silas.web.app import make_app
from silas.web.calls import WaitingCalls
from silas.web.front import Front
from silas.web.hub import Hub
from silas.web.origins import Origins
from silas.web.pairing import PairingDesk
from silas.web.passkeys import PasskeyDesk
from silas.web.pending_secrets import PendingSecrets
from silas.web.serving import bound, serving
from silas.web.sessions import Sessions
from silas.work.store import WorkItemStore

_log = logging.getLogger(__name__)


@dataclass
class WebFront:
    """The web page of one process: what `silas start` opens, and what commands ask it for."""

    clock: Clock
    environ: Mapping[str, str]
    home: Path
    address: str = ""
    """Where it is, once it is there; empty if it is switched off."""
    reload: Callable[[], LoadedSettings] | None = None
    """Reads the settings the way they were read at the start; None: the page changes none."""
    servers: Sequence[LocalServer] = KNOWN_SERVERS
    """Where models may answer on this machine."""
    pairing: PairingDesk = field(init=False)
    sessions: Sessions = field(init=False)
    hub: Hub = field(default_factory=Hub)
    live: LiveLog = field(init=False)
    journal: JournalLine = field(default_factory=JournalLine)
    companions: CompanionLine = field(default_factory=CompanionLine)
    _front: Front | None = None
    _app: ASGIApp | None = None
    _wanted: asyncio.Queue[Settings | None] = field(default_factory=asyncio.Queue)

    def __post_init__(self) -> None:
        self.pairing = PairingDesk(self.clock)
        self.sessions = Sessions(self.clock)
        self.live = LiveLog(self.hub)

    @contextlib.asynccontextmanager
    async def open(self, ground: Ground) -> AsyncIterator[House]:
        """The house with its web page."""
        async with contextlib.AsyncExitStack() as stack:
            web = ground.settings.channels.web
            # The address first: whoever cannot have it should not have started anything.
            listening = bound(web.host, web.port) if web.enabled else None
            if listening is not None:
                stack.callback(listening.close)
            port = listening.getsockname()[1] if listening is not None else None
            house = await stack.enter_async_context(self._kept_open(ground, port))
            if listening is not None:
                await stack.enter_async_context(serving(self._answer, listening))
                self.address = _address(web.host, listening.getsockname()[1])
            await stack.enter_async_context(in_background(house.warm_up()))
            yield house

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Whatever the front of the house is right now answers."""
        if self._app is not None:
            await self._app(scope, receive, send)

    @contextlib.asynccontextmanager
    async def _kept_open(self, ground: Ground, port: int | None) -> AsyncIterator[House]:
        """The house, opened and closed in one task, also when it is opened again in between."""
        first: asyncio.Future[House] = asyncio.get_running_loop().create_future()
        keeping = asyncio.create_task(self._keep(ground, port, first), name="house")
        either: set[asyncio.Future[Any]] = {keeping, first}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not first.done():
            await keeping  # raises what went wrong
        try:
            yield first.result()
        finally:
            self._wanted.put_nowait(None)
            await keeping

    async def _keep(self, ground: Ground, port: int | None, first: asyncio.Future[House]) -> None:
        good = ground
        while True:
            try:
                settings = await self._live_in(ground, port, first)
            except SilasError:
                if ground is good:
                    raise
                _log.exception("Silas cannot work with the new settings, and keeps the old ones.")
                ground = good
                continue
            if settings is None:
                return
            good, ground = ground, replace(ground, settings=settings)

    async def _live_in(
        self, ground: Ground, port: int | None, first: asyncio.Future[House]
    ) -> Settings | None:
        """One house, until other settings are wanted; None at the end."""
        async with (
            open_house(ground, environ=self.environ, home=self.home, live=self.live) as house,
            contextlib.AsyncExitStack() as stack,
        ):
            stack.enter_context(self.journal.connected(house.journal))
            stack.enter_context(self.companions.connected(house.companions.desk))
            stack.callback(house.journal.subscribe(self._tell_journal))
            if port is not None:
                front = self._front = self._make(house, port)
                house.desk.questions.news.add(self.hub.look_again)
                await stack.enter_async_context(self.hub.running(front))
                self._app = make_app(front, self.hub)
                self.hub.call_again()
            if not first.done():
                first.set_result(house)
            return await self._wanted.get()

    def _tell_journal(self, batch: NotificationBatch) -> None:
        self.hub.tell(wire.JournalChanged(cursor=batch.source_cursor or 0))

    def link(self) -> str:
        """A new way in for one browser. The code is in the fragment: no server ever sees it."""
        if not self.address:
            raise ServerError("The web page is switched off: channels.web.enabled is false.")
        return f"{self.address}/#pair={self.pairing.issue().code}"

    async def pair(self, _params: dict[str, Any]) -> dict[str, Any]:
        """Control: a new link."""
        link = self.link()
        return {"link": link, "made_at": format_timestamp(self.clock.now())}

    async def passkey_code(self, params: dict[str, Any]) -> dict[str, Any]:
        """Control: the owner lets a browser enrol its first passkey."""
        if self._front is None:
            raise ServerError("The web page is switched off: channels.web.enabled is false.")
        self._front.passkeys.codes.allow(params)
        return {"allowed": True}

    async def ask_secret(self, params: dict[str, Any]) -> dict[str, Any]:
        """Control: a secret is to be typed in a paired browser."""
        if self._front is None:
            raise ServerError("The web page is switched off: channels.web.enabled is false.")
        name, label = str(params.get("name", "")), str(params.get("label") or params.get("name"))
        request = wire.SecureInputRequest(ref_id=name, label=label[:200])
        self._front.secrets.ask(request)
        self.hub.tell(request)
        return {"asked": True, "pages": len(self.hub.pages)}

    async def devices_changed(self, _params: dict[str, Any]) -> dict[str, Any]:
        """Control: somebody was revoked."""
        if self._front is not None:
            await self.hub.drop_untrusted(self._front)
        return {"pages": len(self.hub.pages)}

    def _make(self, house: House, port: int) -> Front:
        ground = house.ground
        settings, clock = ground.settings, ground.clock
        web, limits = settings.channels.web, settings.limits
        manners = open_personality(ground)
        thinks = model_name(settings, Role.PROXY)
        return Front(
            owner_id=settings.owner_id,
            origins=Origins.of(port, more=web.public_origins),
            devices=ground.devices,
            nonces=ground.nonces,
            cards=house.cards,
            deliveries=house.deliveries,
            said=SaidStore(ground.database, clock),
            intake=house.stream.intake,
            items=WorkItemStore(ground.database, clock),
            calls=_waiting_calls(house),
            audit=ground.audit,
            pairing=self.pairing,
            passkeys=PasskeyDesk(
                ground.passkeys, PasskeyCodes(ground.keys, clock), ground.database, clock
            ),
            sessions=self.sessions,
            secrets=PendingSecrets(ground.vault),
            per_address=RateLimit(clock, limits.ws_messages_per_minute_per_ip),
            clock=clock,
            ids=ground.ids,
            version=silas.__version__,
            token=web.auth_token.get_secret_value() if web.auth_token else None,
            personality=manners.engine if manners else None,
            model=thinks,
            chips=() if thinks else chips(),
            journal=house.journal,
            companions=partial(call_desk, house.companions.desk),
            zone=ZoneInfo(settings.scheduler.timezone),
            setup=FirstRun(
                ground, self.environ, self.reload, self._wanted.put_nowait, self.servers
            ),
        )


def _waiting_calls(house: House) -> WaitingCalls:
    ground = house.ground
    return WaitingCalls(
        house.stream.work.bench,
        ground.devices,
        ground.passkeys,
        ground.database,
        house.desk.questions,
        ground.clock,
        partial(go_on, ground),
    )


def _address(host: str, port: int) -> str:
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)  # noqa: S104 - compared
    return f"http://{f'[{name}]' if ':' in name and '[' not in name else name}:{port}"
