"""The web page, wired: the front of a runtime, its server, and the ways in.

A model that is chosen in the page is used at once: the runtime is closed in its orderly way and
opened again with the new settings, while the address, the lock and the pairing codes stay.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from starlette.types import ASGIApp, Receive, Scope, Send

import silas
from silas.agents.brain.grammar import chips
from silas.agents.models.choices import Role
from silas.agents.models.detection import KNOWN_SERVERS, LocalServer
from silas.app.agents import model_name
from silas.app.context import curation_of
from silas.app.conversation import research_limits
from silas.app.core import Core
from silas.app.first_run import FirstRun
from silas.app.jobs import in_background
from silas.app.runtime import Runtime, open_runtime
from silas.app.work import resumptions_of
from silas.approval import PasskeyCodes
from silas.journal import NotificationBatch
from silas.kernel import Clock, ServerError, SilasError
from silas.proactive.autonomy import AutonomyService
from silas.settings.load import LoadedSettings
from silas.settings.models import Settings
from silas.settings.services import WebSettings
from silas.stream.activity import ActivityTitles
from silas.stream.delivery import UserMessageStore
from silas.stream.limits import RateLimit
from silas.stream.research import ResearchStore
from silas.stream.turn_context import no_goals
from silas.stream.visitors import VisitorDoor
from silas.web import wire
from silas.web.access import WebSessions
from silas.web.api import CommandGroup, ProcessApi
from silas.web.attachments import MAX_UPLOAD_BODY_BYTES, UPLOAD
from silas.web.calls import WaitingCalls
from silas.web.commands import ApiCommand
from silas.web.front import Front
from silas.web.host_guard import HostGuard, Origins
from silas.web.hub import Hub
from silas.web.journal import IMPORT, MAX_IMPORT_BODY_BYTES
from silas.web.locked import LockedDoor
from silas.web.pairing import PairingCodes, PairingLink, make_link
from silas.web.passkeys import PasskeyService
from silas.web.serving import Certificate, bound, serving
from silas.web.usage import UsageView
from silas.web.visitors import Visits
from silas.work.script import ScriptWorker

_SWITCHED_OFF = "The web page is switched off: channels.web.enabled is false."
_REOPENING_SECONDS = 30.0
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
    pairing: PairingCodes = field(init=False)
    sessions: WebSessions = field(init=False)
    hub: Hub = field(default_factory=Hub)
    api: ProcessApi = field(default_factory=ProcessApi)
    _front: Front | None = None
    _page: ASGIApp | None = None
    _listening: socket.socket | None = None
    _certificate: Certificate | None = None
    _settings: WebSettings = field(default_factory=WebSettings)
    _server: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)
    _is_serving: bool = False
    _opened: asyncio.Event = field(default_factory=asyncio.Event)
    _wanted: asyncio.Queue[Settings | None] = field(default_factory=asyncio.Queue)

    def __post_init__(self) -> None:
        self.pairing = PairingCodes(self.clock)
        self.sessions = WebSessions(self.clock)
        self.api.add(CommandGroup("/api/web", _COMMANDS, self))

    @contextlib.asynccontextmanager
    async def open(self, core: Core) -> AsyncIterator[Runtime]:
        """The runtime with its web page."""
        async with contextlib.AsyncExitStack() as stack:
            # The address first: whoever cannot have it should not have started anything.
            listening = self._bind(core)
            if listening is not None:
                stack.callback(listening.close)
                stack.push_async_callback(self._server.aclose)
            port = listening.getsockname()[1] if listening is not None else None
            runtime = await stack.enter_async_context(self._kept_open(core, port))
            if listening is not None:
                await self._serve(core, listening)
                stack.push_async_callback(self._server.aclose)
                stack.callback(self._end_visits)
            await stack.enter_async_context(in_background(runtime.warm_up()))
            yield runtime

    def _bind(self, core: Core) -> socket.socket | None:
        """The address of the page; None if it is switched off."""
        web = core.settings.channels.web
        if web.enabled and self._listening is None:
            self._settings = web
            chain, key = web.tls_certificate, web.tls_key
            self._certificate = Certificate(chain, key) if chain and key else None
            self._listening = bound(web.host, web.port)
        return self._listening

    async def _serve(self, core: Core, listening: socket.socket) -> None:
        """Serve whatever page there is, unless that is done already."""
        if not self._is_serving:
            await self._server.enter_async_context(
                serving(self._answer, listening, certificate=self._certificate)
            )
            self._is_serving = True
            self.address = _own_address(core.settings.channels.web, listening.getsockname()[1])

    async def wait_for_passphrase(
        self,
        core: Core,
        open_vault: Callable[[str], None],
        *,
        stopping: asyncio.Event,
        ready: Callable[[], None],
    ) -> None:
        """Serve the page of a locked Silas until its vault is open, or the server is to stop.

        `ready` is called when the page can be reached.
        """
        door = LockedDoor(
            open_vault, self.pairing, core.devices, core.nonces, core.audit, self.clock
        )
        listening = self._bind(core)
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.api.locked(door))
            if listening is None:
                ready()
                await _first_of(door.opened, stopping)
                return
            web, port = core.settings.channels.web, listening.getsockname()[1]
            guarded = HostGuard(self.api, origins=_origins(web, port))
            stack.enter_context(self._answering_with(guarded))
            await self._serve(core, listening)
            ready()
            await _first_of(door.opened, stopping)
        if not door.opened.is_set():
            await self._server.aclose()
            listening.close()

    @contextlib.contextmanager
    def _answering_with(self, page: ASGIApp) -> Iterator[None]:
        """Answer with this page until the end of the block; then whoever asks waits for the next.

        The server goes on meanwhile: of one that was ended and begun anew, those who had just
        connected would get no answer at all.
        """
        self._page = page
        self._opened.set()
        try:
            yield
        finally:
            self._opened.clear()

    def _end_visits(self) -> None:
        """Visitors who wait for news would keep the server from closing."""
        if self._front is not None:
            self._front.visits.end()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The page of whatever Silas is open; who asks while one is opened anew waits for it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_REOPENING_SECONDS):
                await self._opened.wait()
        if self._page is not None:
            await self._page(scope, receive, send)

    @contextlib.asynccontextmanager
    async def _kept_open(self, core: Core, port: int | None) -> AsyncIterator[Runtime]:
        """The runtime, opened and closed in one task, also when it is opened again in between."""
        first: asyncio.Future[Runtime] = asyncio.get_running_loop().create_future()
        keeping = asyncio.create_task(self._keep(core, port, first), name="runtime")
        either: set[asyncio.Future[Any]] = {keeping, first}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            keeping.cancel()  # else it would open what nobody closes
            await asyncio.wait({keeping})
            raise
        if not first.done():
            await keeping  # raises what went wrong
        try:
            yield first.result()
        finally:
            self._wanted.put_nowait(None)
            await keeping

    async def _keep(self, core: Core, port: int | None, first: asyncio.Future[Runtime]) -> None:
        good = core
        while True:
            try:
                settings = await self._live_in(core, port, first)
            except SilasError:
                if core is good:
                    raise
                _log.exception("Silas cannot work with the new settings, and keeps the old ones.")
                core = good
                continue
            if settings is None:
                return
            good, core = core, replace(core, settings=settings)

    async def _live_in(
        self, core: Core, port: int | None, first: asyncio.Future[Runtime]
    ) -> Settings | None:
        """One runtime, until other settings are wanted; None at the end."""
        async with (
            open_runtime(
                core,
                environ=self.environ,
                home=self.home,
                live=self.hub,
                is_watched=lambda: self.hub.watched,
                ask_secret=self._ask_told_secret,
                hear_companion=self.hub.companion_text,
            ) as runtime,
            contextlib.AsyncExitStack() as stack,
        ):
            stack.callback(runtime.journal.subscribe(self._tell_journal))
            changed = runtime.companions.notifications
            stack.callback(changed.listen(lambda _batch: self.hub.companions_changed()))
            begun = runtime.companions.worker.listen(lambda _run: self.hub.companions_changed())
            stack.callback(begun)
            runtime.skills.installer.changed.append(self._tell_skills)
            runtime.connections.manager.changed.append(self._tell_connections)
            runtime.secrets.asked.add(self.hub.tell)
            runtime.secrets.closed.add(self._tell_secret_closed)
            front = self._front = self._make(runtime, port or 0)
            stack.callback(front.visits.end)
            runtime.reviews.questions.news.add(self.hub.look_again)
            await stack.enter_async_context(self.hub.running(front))
            stack.enter_context(self.api.opened(front, self.hub))
            guarded = HostGuard(
                self.api,
                origins=front.origins,
                larger={IMPORT: MAX_IMPORT_BODY_BYTES, UPLOAD: MAX_UPLOAD_BODY_BYTES},
            )
            stack.enter_context(self._answering_with(guarded))
            self.hub.call_again()
            if not first.done():
                first.set_result(runtime)
            return await self._wanted.get()

    async def _tell_skills(self, _name: str) -> None:
        self.hub.tell(wire.SkillsChanged())

    def _tell_connections(self) -> None:
        self.hub.tell(wire.ConnectionsChanged())

    def _tell_secret_closed(self, ref_id: str) -> None:
        self.hub.tell(wire.CardClosed(request_id=f"secret:{ref_id}", state="withdrawn"))

    def _tell_journal(self, batch: NotificationBatch) -> None:
        self.hub.tell(wire.JournalChanged(cursor=batch.source_cursor or 0))

    def link(self) -> str:
        """A new way in for a browser of this machine."""
        return self._make_link().link

    async def pair(self) -> PairingLink:
        """A new link for one browser."""
        return self._make_link()

    def _make_link(self) -> PairingLink:
        if not self.address:
            raise ServerError(_SWITCHED_OFF)
        return make_link(
            self.pairing,
            address=self.address,
            public_origins=self._settings.public_origins,
            needs_token=self._settings.auth_token is not None,
        )

    async def passkey_code(self, statement: dict[str, Any]) -> dict[str, bool]:
        """The owner lets a browser enrol its first passkey."""
        self._served().passkeys.codes.allow(statement)
        return {"allowed": True}

    async def ask_secret(self, name: str, label: str = "") -> dict[str, Any]:
        """A secret is to be typed in a paired browser."""
        front = self._served()
        self.hub.tell(await front.secrets.ask(name, label or name))
        return {"asked": True, "pages": len(self.hub.pages)}

    async def _ask_told_secret(self, name: str, label: str) -> bool:
        """Offer a card for a secret that was told in the conversation."""
        if self._front is None or not self.address:
            return False
        self.hub.tell(await self._front.secrets.ask(name, f"Your {label}", told=label))
        return True

    async def devices_changed(self) -> dict[str, int]:
        """Somebody was revoked: their pages are closed."""
        if self._front is not None:
            await self.hub.drop_untrusted(self._front)
        return {"pages": len(self.hub.pages)}

    def _served(self) -> Front:
        if self._front is None or not self.address:
            raise ServerError(_SWITCHED_OFF)
        return self._front

    def _make(self, runtime: Runtime, port: int) -> Front:
        """Everything that the page works with."""
        core = runtime.core
        settings, clock = core.settings, core.clock
        web, limits = settings.channels.web, settings.limits
        thinks = model_name(settings, Role.PROXY)
        return Front(
            owner_id=settings.owner_id,
            origins=_origins(web, port),
            public_origins=web.public_origins,
            devices=core.devices,
            nonces=core.nonces,
            cards=runtime.cards,
            decisions=core.decisions,
            deliveries=runtime.deliveries,
            said=UserMessageStore(core.database, clock),
            search=runtime.search,
            intake=runtime.stream.intake,
            answers=runtime.stream.turns.answers,
            attachments=core.attachments,
            items=core.work.items,
            calls=_waiting_calls(runtime),
            audit=core.audit,
            titles=ActivityTitles(core.database),
            pairing=self.pairing,
            passkeys=PasskeyService(
                core.passkeys, PasskeyCodes(core.keys, clock), core.database, clock
            ),
            sessions=self.sessions,
            secrets=runtime.secrets,
            visits=_visits(runtime, port),
            usage=_usage(runtime),
            per_address=RateLimit(clock, limits.ws_messages_per_minute_per_ip),
            clock=clock,
            ids=core.ids,
            version=silas.__version__,
            places=runtime.places,
            skills=runtime.skills,
            tool_servers=runtime.tool_servers,
            proposals=runtime.proposals,
            connections=runtime.connections,
            item_answers=runtime.batches.answers,
            autonomy=AutonomyService(
                runtime.reviews.autonomy, runtime.reviews.grants, runtime.core.settings.owner_id
            ),
            token=web.auth_token.get_secret_value() if web.auth_token else None,
            personality=runtime.personality,
            model=thinks,
            scripted=isinstance(runtime.stream.work.context.agent, ScriptWorker),
            chips=() if thinks else chips(),
            journal=runtime.journal,
            memory=curation_of(
                core, runtime.memory, settings.owner_id, runtime.stream.turns.context
            ),
            companions=runtime.companions.service,
            zone=ZoneInfo(settings.scheduler.timezone),
            setup=FirstRun(
                core,
                self.environ,
                self.reload,
                self._wanted.put_nowait,
                self.servers,
            ),
        )


_COMMANDS = tuple(
    ApiCommand(each)
    for each in (
        WebFront.pair,
        WebFront.passkey_code,
        WebFront.ask_secret,
        WebFront.devices_changed,
    )
)
"""For the owner at the machine alone."""


def _scheme(web: WebSettings) -> str:
    return "https" if web.tls_certificate else "http"


def _origins(web: WebSettings, port: int) -> Origins:
    return Origins.of(port, more=web.public_origins, scheme=_scheme(web))


def _page_address(web: WebSettings, port: int) -> str:
    """Where others reach the page: the first public origin, or this machine."""
    named = next(iter(web.public_origins), None)
    return named.rstrip("/") if named else _own_address(web, port)


def _own_address(web: WebSettings, port: int) -> str:
    """Where a browser of this machine reaches the page: with a certificate, by its name alone."""
    if web.tls_certificate:
        named = next(each for each in web.public_origins if each.startswith("https://"))
        return named.rstrip("/")
    return _address(web.host, port)


def _visits(runtime: Runtime, port: int) -> Visits:
    """Those who are not the owner; what comes from one address is counted for itself."""
    cases, door = runtime.cases, runtime.stream.turns.door
    settings = runtime.core.settings
    per_minute, web = settings.limits.ws_messages_per_minute_per_ip, settings.channels.web
    return Visits(
        store=cases.visitors,
        door=door or VisitorDoor(cases.visitors, no_goals),
        cases=cases,
        intake=runtime.stream.intake,
        said=cases.said,
        deliveries=runtime.deliveries,
        per_address=RateLimit(runtime.core.clock, per_minute),
        address=_page_address(web, port),
    )


def _usage(runtime: Runtime) -> UsageView:
    core = runtime.core
    return UsageView(
        ledger=core.usage,
        items=core.work.items,
        companions=runtime.companions.service,
        visitors=runtime.cases.visitors,
        planning=ResearchStore(core.database),
        limits=research_limits(core.settings),
        has_model=any(model_name(core.settings, role) for role in Role),
    )


def _waiting_calls(runtime: Runtime) -> WaitingCalls:
    core = runtime.core
    return WaitingCalls(
        runtime.stream.work.context,
        runtime.reviews.questions,
        core.clock,
        resumptions_of(core),
    )


async def _first_of(*events: asyncio.Event) -> None:
    waiting = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()


def _address(host: str, port: int) -> str:
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)  # noqa: S104 - compared
    return f"http://{f'[{name}]' if ':' in name and '[' not in name else name}:{port}"
