"""The web page, wired: the front of a house, its server, and the ways in."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import silas
from silas.agents.brain.proxy import chips
from silas.agents.models.roles import Role
from silas.app.ground import Ground
from silas.app.house import House, open_house
from silas.app.model_choices import model_name
from silas.app.personality import open_personality
from silas.kernel import Clock, ServerError, format_timestamp
from silas.stream.said import SaidStore
from silas.web.app import make_app
from silas.web.calls import WaitingCalls
from silas.web.front import Front
from silas.web.hub import Hub
from silas.web.limits import RateLimit
from silas.web.origins import Origins
from silas.web.pairing import PairingDesk
from silas.web.pending_secrets import PendingSecrets
from silas.web.serving import bound, serving
from silas.web.sessions import Sessions
from silas.work.store import WorkItemStore


@dataclass
class WebFront:
    """The web page of one process: what `silas start` opens, and what commands ask it for."""

    clock: Clock
    environ: Mapping[str, str]
    home: Path
    address: str = ""
    """Where it is, once it is there; empty if it is switched off."""
    pairing: PairingDesk = field(init=False)
    hub: Hub = field(default_factory=Hub)
    _front: Front | None = None

    def __post_init__(self) -> None:
        self.pairing = PairingDesk(self.clock)

    @contextlib.asynccontextmanager
    async def open(self, ground: Ground) -> AsyncIterator[House]:
        """The house with its web page."""
        async with contextlib.AsyncExitStack() as stack:
            web = ground.settings.channels.web
            # The address first: whoever cannot have it should not have started anything.
            listening = bound(web.host, web.port) if web.enabled else None
            if listening is not None:
                stack.callback(listening.close)
            house = await stack.enter_async_context(
                open_house(ground, environ=self.environ, home=self.home, live=self.hub)
            )
            if listening is not None:
                port = listening.getsockname()[1]
                front = self._front = self._make(house, port)
                await stack.enter_async_context(self.hub.running(front))
                await stack.enter_async_context(serving(make_app(front, self.hub), listening))
                self.address = _address(web.host, port)
            yield house

    def link(self) -> str:
        """A new way in for one browser. The code is in the fragment: no server ever sees it."""
        if not self.address:
            raise ServerError("The web page is switched off: channels.web.enabled is false.")
        return f"{self.address}/#pair={self.pairing.issue().code}"

    async def pair(self, _params: dict[str, Any]) -> dict[str, Any]:
        """Control: a new link."""
        link = self.link()
        return {"link": link, "made_at": format_timestamp(self.clock.now())}

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
            calls=WaitingCalls(house.stream.work.bench, ground.devices, clock),
            audit=ground.audit,
            pairing=self.pairing,
            sessions=Sessions(clock),
            secrets=PendingSecrets(ground.vault),
            per_scope=RateLimit(clock, limits.ws_messages_per_minute_per_scope),
            per_address=RateLimit(clock, limits.ws_messages_per_minute_per_ip),
            clock=clock,
            ids=ground.ids,
            version=silas.__version__,
            token=web.auth_token.get_secret_value() if web.auth_token else None,
            personality=manners.engine if manners else None,
            model=thinks,
            chips=() if thinks else chips(),
        )


def _address(host: str, port: int) -> str:
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)  # noqa: S104 - compared
    return f"http://{f'[{name}]' if ':' in name and '[' not in name else name}:{port}"
