"""Personas: versions that never change once they are in use, and the owner's approval of each.

A companion, a model or a file can propose a version; it stays a draft until the owner approves it.
What is in use is one pointer, and every run says which version it used.
"""

from collections.abc import Mapping
from typing import Any, Literal

from silas.companions.errors import CompanionInvalid, CompanionUnknown
from silas.companions.ids import digest, persona_head_id
from silas.companions.kinds.library import PersonaDefinition
from silas.companions.messages import AgentPersonaHead, AgentPersonaVersion
from silas.companions.models import AgentPersonaStatus
from silas.companions.store import CompanionStore
from silas.kernel.models import Data
from silas.storage import Reader, Transaction

OWNER = "owner"
_FIELDS = ("voice_directives", "tone_bounds", "coaching_style", "anti_sycophancy_policy")
Author = Literal["user", "agent", "system"]


class PersonaChange(Data):
    """One field, before and after."""

    field: str
    before: Any
    after: Any


class Personas:
    """The personas of this device's companions."""

    def __init__(self, store: CompanionStore) -> None:
        self._store = store

    async def in_use(self, agent_id: str) -> AgentPersonaVersion | None:
        """The version in use; None if there is none that the owner has approved."""
        return await self._store.database.snapshot(lambda reader: self._in_use_in(reader, agent_id))

    async def history(self, agent_id: str) -> list[AgentPersonaVersion]:
        """Every version, the first one first."""
        return await self._store.find(AgentPersonaVersion, {"agent_id": agent_id})

    def begin_in(self, tx: Transaction, agent_id: str, persona: PersonaDefinition) -> None:
        """The first version: the owner approves it by making the companion."""
        version = self._version(
            agent_id,
            1,
            {
                "voice_directives": {
                    "voice": persona.voice,
                    "directives": list(persona.directives),
                },
                "tone_bounds": dict(persona.tone_bounds),
                "coaching_style": persona.coaching_style,
                "anti_sycophancy_policy": persona.anti_sycophancy_policy,
            },
            author="system",
        )
        self._activate_in(tx, version)

    async def propose(
        self,
        agent_id: str,
        changes: Mapping[str, Any],
        *,
        author: Author,
        session_id: str | None = None,
    ) -> AgentPersonaVersion:
        """A draft with these fields changed; raises `CompanionInvalid`."""
        unknown = sorted(changes.keys() - set(_FIELDS))
        if unknown:
            raise CompanionInvalid(f"A persona has no {', '.join(unknown)}.")

        def write(tx: Transaction) -> AgentPersonaVersion:
            known = self._store.find_in(tx, AgentPersonaVersion, {"agent_id": agent_id})
            used = self._in_use_in(tx, agent_id)
            fields = {name: getattr(used, name) for name in _FIELDS} if used else {}
            draft = self._version(
                agent_id,
                max((each.version for each in known), default=0) + 1,
                {**fields, **changes},
                author=author,
                diff_from_version_id=used.id if used else None,
                source_session_id=session_id,
            )
            return self._store.put_in(tx, draft)

        return await self._store.transaction(write)

    async def diff(self, version_id: str) -> tuple[PersonaChange, ...]:
        """What a version changes, against the one that it was made from."""
        version = await self._store.require(AgentPersonaVersion, version_id)
        origin = version.diff_from_version_id
        before = await self._store.get(AgentPersonaVersion, origin) if origin else None
        return tuple(
            PersonaChange(field=name, before=was, after=becomes)
            for name in _FIELDS
            if (was := getattr(before, name, None)) != (becomes := getattr(version, name))
        )

    async def approve(self, agent_id: str, version_id: str) -> AgentPersonaVersion:
        """The owner's yes to a draft: it is in use from now on; raises `CompanionInvalid`."""

        def write(tx: Transaction) -> AgentPersonaVersion:
            return self._activate_in(tx, self._draft_in(tx, agent_id, version_id))

        return await self._store.transaction(write)

    async def decline(self, agent_id: str, version_id: str) -> AgentPersonaVersion:
        """The owner's no to a draft: it stays in the history; raises `CompanionInvalid`."""

        def write(tx: Transaction) -> AgentPersonaVersion:
            version = self._draft_in(tx, agent_id, version_id)
            archived = {"status": AgentPersonaStatus.ARCHIVED}
            return self._store.put_in(tx, version.model_copy(update=archived))

        return await self._store.transaction(write)

    def _draft_in(self, tx: Transaction, agent_id: str, version_id: str) -> AgentPersonaVersion:
        version = self._store.require_in(tx, AgentPersonaVersion, version_id)
        if version.agent_id != agent_id:
            raise CompanionUnknown(f"{version_id} is not a persona of this companion.")
        if version.status is not AgentPersonaStatus.DRAFT:
            raise CompanionInvalid(f"This version is {version.status}, not a draft.")
        return version

    def _activate_in(self, tx: Transaction, version: AgentPersonaVersion) -> AgentPersonaVersion:
        now = self._store.clock.now()
        used = self._in_use_in(tx, version.agent_id)
        if used is not None:
            retired = used.model_copy(update={"status": AgentPersonaStatus.ARCHIVED})
            self._store.put_in(tx, retired)
        approved = {
            "status": AgentPersonaStatus.ACTIVE,
            "approved_by": OWNER,
            "approved_at": now,
        }
        active = self._store.put_in(tx, version.model_copy(update=approved))
        self._store.put_in(
            tx,
            AgentPersonaHead(
                id=persona_head_id(version.agent_id),
                agent_id=version.agent_id,
                persona_version_id=active.id,
                persona_version=active.version,
                host_id=self._store.host_id,
                updated_at=now,
            ),
        )
        return active

    def _in_use_in(self, reader: Reader, agent_id: str) -> AgentPersonaVersion | None:
        head = self._store.get_in(reader, AgentPersonaHead, persona_head_id(agent_id))
        if head is None:
            return None
        version = self._store.get_in(reader, AgentPersonaVersion, head.persona_version_id)
        if version is None or version.agent_id != agent_id or version.approved_by != OWNER:
            return None
        return version

    def _version(
        self, agent_id: str, number: int, fields: Mapping[str, Any], *, author: Author, **more: Any
    ) -> AgentPersonaVersion:
        return AgentPersonaVersion(
            id=digest("persona", agent_id, number, self._store.host_id),
            agent_id=agent_id,
            version=number,
            status=AgentPersonaStatus.DRAFT,
            authored_by=author,
            created_at=self._store.clock.now(),
            **fields,
            **more,
        )
