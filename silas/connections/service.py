"""What the page, the command line and tests ask of connections: the functions of one API.

Reading needs the session of a device. Whatever changes something is the owner's. Nothing here
connects anything or lets it do more: that follows from a signed card.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from silas.audit.models import AuditTrail
from silas.connections.cards import it_request, server_in_words
from silas.connections.domains import DomainCards, DomainCrossing
from silas.connections.manager import ConnectionManager
from silas.connections.models import (
    PERSONAL,
    Connection,
    ConnectionName,
    ConnectionStatus,
    DomainName,
    HealthCheckResult,
    SignInShown,
    covered_by,
)
from silas.kernel import visible
from silas.kernel.models import Data, UtcDatetime
from silas.skills.sidecar import SkillKind

_RECENT = 2000
_MOST_USES = 20
Named = Annotated[str, Field(min_length=1, max_length=200)]
Identity = Annotated[str, Field(max_length=320)]
Options = Annotated[
    dict[Annotated[str, Field(max_length=40)], Annotated[str, Field(max_length=500)]],
    Field(max_length=20),
]


class ConnectionShown(Data):
    """One connection in a list."""

    connection_id: str
    name: str
    skill: str
    provider: str
    username: str
    domain: str
    status: ConnectionStatus
    intact: bool
    """Whether the row is as the owner has approved it."""
    servers: list[str]
    permissions: list[str]
    can_be_granted: list[str]
    problem: str
    step: str
    """What a setup that is on its way does now."""
    found: str
    """What was found when it was tried out."""
    wants_secret: str | None
    """The name under which the owner is asked for a secret now."""
    guidance: str
    """Which secret that is, and where the owner gets it."""
    sign_in: SignInShown | None
    """How the owner signs in at the provider now."""
    card_ids: list[str]
    """What waits for the owner about it."""
    last_used_at: UtcDatetime | None
    last_health_check: UtcDatetime | None


class ConnectionKind(Data):
    """A skill with which an account can be connected."""

    skill: str
    description: str
    connected: int


class ConnectionList(Data):
    """All connections, and what can be connected."""

    connections: list[ConnectionShown]
    kinds: list[ConnectionKind]
    domains: list[str]
    """Those that accounts belong to."""
    crossings: list[DomainCrossing]
    """What may cross from one domain to another."""


class ConnectionUse(Data):
    """One thing that was done with a connection."""

    at: str
    event: str
    words: str
    """What happened, for a person."""
    tool: str
    work_item_id: str


class ConnectionDetails(Data):
    """One connection whole."""

    connection: ConnectionShown
    initial_permissions: list[str]
    auth_strategy: str
    health_check: str
    secret: str
    """The name of its secret in the vault."""
    uses: list[ConnectionUse]


class CrossingAsked(Data):
    """The card that asks the owner what may cross."""

    source: str
    target: str
    card_id: str | None
    """None: it may cross already."""


class ItRequest(Data):
    """A letter to whoever keeps the rules of the owner's organisation."""

    name: str
    text: str


class ConnectionAsked(Data):
    """The card that asks the owner."""

    connection: ConnectionShown
    card_id: str | None
    """None: there is nothing to ask."""


class ConnectionHealth(Data):
    """What a check found."""

    name: str
    result: HealthCheckResult


class ConnectionChecks(Data):
    """What checks found."""

    checks: list[ConnectionHealth]


@dataclass(frozen=True)
class ConnectionService:
    """The connections, for whoever the owner talks through."""

    manager: ConnectionManager
    audit: AuditTrail
    domains: DomainCards

    async def list_connections(self, domain: DomainName | None = None) -> ConnectionList:
        """All connections, and the skills with which another one can be connected."""
        every = await self.manager.list_connections(domain)
        loader = self.manager.scripts.loader
        kinds = []
        for each in await loader.opened():
            if each.sidecar.type is SkillKind.CONNECTION:
                count = sum(one.skill_name == each.name for one in every)
                kinds.append(
                    ConnectionKind(skill=each.name, description=each.description, connected=count)
                )
        return ConnectionList(
            connections=[await self._shown(each) for each in every],
            kinds=kinds,
            domains=sorted({each.domain for each in await self.manager.list_connections()}),
            crossings=await self.domains.policies.listed(),
        )

    async def show(self, name: Named) -> ConnectionDetails:
        """One connection whole: its servers, what it may do, what was done with it."""
        connection = await self.manager.store.find(name)
        return ConnectionDetails(
            connection=await self._shown(connection),
            initial_permissions=list(connection.initial_permissions),
            auth_strategy=connection.auth_strategy.value,
            health_check=connection.health_check,
            secret=connection.ref_id,
            uses=await self._uses(connection),
        )

    async def connect(
        self,
        skill: Named,
        identity: Identity = "",
        options: Options | None = None,
        *,
        name: ConnectionName | None = None,
        domain: DomainName = PERSONAL,
        secret: Named | None = None,
    ) -> ConnectionAsked:
        """Find an account, and put it before the owner. Nothing is connected before a yes.

        `secret` is the name of a secret that the vault holds already: nobody is asked for it then.
        """
        hint = {"identity": identity, **(options or {})}
        connection, question = await self.manager.propose(
            skill, hint, name=name, domain=domain, secret_from=secret
        )
        return ConnectionAsked(
            connection=await self._shown(connection), card_id=question.question_id
        )

    async def reconnect(self, name: Named, secret: Named | None = None) -> ConnectionShown:
        """Set up again an account that has failed: the owner types its password or signs in.

        `secret` is the name of a secret that the vault holds already: nobody is asked for it then.
        """
        if secret is None:
            await self.manager.run_setup_flow(name)
        else:
            await self.manager.activate_connection(name, secret)
        return await self._shown(await self.manager.store.find(name))

    async def cancel(self, name: Named) -> ConnectionShown:
        """End a setup, wherever it is. What was typed is forgotten."""
        return await self._shown(await self.manager.cancel(name))

    async def check(self, name: Named | None = None) -> ConnectionChecks:
        """Try one connection, or every active one, now."""
        names = (
            [name]
            if name
            else [
                each.connection_id for each in await self.manager.list_connections() if each.usable
            ]
        )
        checks = []
        for each in names:
            found = await self.manager.store.find(each)
            result = await self.manager.check(found.connection_id)
            checks.append(ConnectionHealth(name=found.name, result=result))
        return ConnectionChecks(checks=checks)

    async def pause(self, name: Named) -> ConnectionShown:
        """Let nothing use a connection."""
        return await self._shown(await self.manager.pause(name))

    async def resume(self, name: Named) -> ConnectionShown:
        """Let a paused connection be used again."""
        return await self._shown(await self.manager.resume(name))

    async def rename(self, name: Named, new_name: ConnectionName) -> ConnectionShown:
        """Call a connection otherwise."""
        return await self._shown(await self.manager.rename(name, new_name))

    async def remove(self, name: Named) -> ConnectionShown:
        """Forget a connection and its secret."""
        return await self._shown(await self.manager.remove(name))

    async def allow(self, name: Named, permission: Named) -> ConnectionAsked:
        """Ask the owner to let a connection do more."""
        reason = "You asked for it."
        question = await self.manager.escalate_permission(name, permission, reason)
        shown = await self._shown(await self.manager.store.find(name))
        return ConnectionAsked(connection=shown, card_id=question.question_id if question else None)

    async def disallow(self, name: Named, permission: Named) -> ConnectionShown:
        """Take a permission back."""
        return await self._shown(await self.manager.reduce_permission(name, permission))

    async def cross(self, source: DomainName, target: DomainName) -> CrossingAsked:
        """Ask the owner to let what is read in one domain be used in another."""
        question = await self.domains.ask(source, target)
        card = question.question_id if question else None
        return CrossingAsked(source=source, target=target, card_id=card)

    async def uncross(self, source: DomainName, target: DomainName) -> ConnectionList:
        """Take back what may cross. Work that waits is held to it as well."""
        await self.domains.policies.take_back(source, target)
        return await self.list_connections()

    async def it_request(self, name: Named) -> ItRequest:
        """Write what an IT department has to know to let an account be connected."""
        connection = await self.manager.store.find(name)
        skill = await self.manager.connection_skill(connection.skill_name)
        return ItRequest(name=connection.name, text=it_request(connection, skill))

    async def _shown(self, connection: Connection) -> ConnectionShown:
        run = self.manager.runs.get(connection.connection_id)
        available = connection.permissions_available
        covered = covered_by(connection.permissions_granted, available)
        waiting = await self.manager.cards.waiting(connection)
        return ConnectionShown(
            connection_id=connection.connection_id,
            name=connection.name,
            skill=connection.skill_name,
            provider=connection.provider,
            username=connection.identity,
            domain=connection.domain,
            status=connection.status,
            intact=connection.sealed,
            servers=[server_in_words(each) for each in connection.endpoints],
            permissions=list(connection.permissions_granted),
            can_be_granted=[each for each in available if each not in covered],
            problem=connection.problem,
            step=run.message if run else "",
            found=self.manager.found.get(connection.connection_id, ""),
            wants_secret=run.wants_secret if run else None,
            guidance=run.guidance if run else "",
            sign_in=run.sign_in if run else None,
            card_ids=[each.question_id for each in waiting],
            last_used_at=connection.last_used_at,
            last_health_check=connection.last_health_check,
        )

    async def _uses(self, connection: Connection) -> list[ConnectionUse]:
        found = [
            ConnectionUse(
                at=each.at,
                event=each.event,
                words=_in_words(each.event, each.data),
                tool=str(each.data.get("tool", "")),
                work_item_id=str(each.data.get("work_item_id", "")),
            )
            for each in await self.audit.tail(_RECENT)
            if each.data.get("connection") == connection.connection_id
        ]
        return found[-_MOST_USES:][::-1]


_WORDS = {
    "connection_proposed": "it was put before you",
    "connection_setup_started": "its setup began",
    "connection_activated": "it was connected",
    "connection_not_set_up": "its setup ended before it was done",
    "connection_failed": "it stopped working",
    "connection_recovered": "it worked again",
    "connection_tried_later": "you chose to try it later",
    "connection_paused": "it was paused",
    "connection_resumed": "it was resumed",
    "connection_renamed": "it was renamed",
    "connection_permission_granted": "you allowed {permissions} from now on",
    "connection_permission_once": "you allowed {permissions} once",
    "connection_permission_denied": "you did not allow {permissions}",
    "connection_permission_taken": "{permissions} was taken back",
    "connection_once_used": "{permissions} was used once",
    "connection_used": "{tool} was called",
}


def _in_words(event: str, data: Mapping[str, Any]) -> str:
    told = _WORDS.get(event, event.replace("_", " "))
    shown = {name: visible(str(data.get(name, "")), keep_newlines=False) for name in _SHOWN}
    return told.format(**shown)


_SHOWN = ("permissions", "tool")
