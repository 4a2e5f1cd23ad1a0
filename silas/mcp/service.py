"""What the page, the command line and tests ask of tool servers: the functions of one API.

1. A server is asked for; a card shows what would run. A yes starts it once, to read its tools; the
   second card shows them, and a yes to that installs it as a skill of the type `tool_server`.
2. Which effect a tool has is the owner's to say, before the second yes or later. Every change of it
   is put before the owner as a new card: what is signed is what is shown.
3. What is quarantined is asked about anew, with what has changed. Nothing of it is used until both
   cards were answered.
"""

import asyncio
import json
import logging
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from silas.approval import ApprovalScope
from silas.egress.accounts import CredentialRef, OAuthRegistration
from silas.egress.hosts import Hosts
from silas.egress.oauth import OAuthClient, RedirectSignIn
from silas.kernel import SilasError, SkillError, visible
from silas.kernel.models import Data, UtcDatetime, problem_text
from silas.kernel.tasks import BackgroundWork
from silas.mcp.cards import (
    START,
    ServerCards,
    ServerWish,
    served_tools,
    shown_tools_of,
    start_payload,
    use_summary,
    wish_of,
)
from silas.mcp.launch import Launch, LaunchWish, pin
from silas.mcp.remote import RemoteServer
from silas.mcp.session import require_sdk
from silas.mcp.tools import ServedTools
from silas.mcp.toolset import SERVER_FILE, PinnedServer, differences
from silas.review.questions import YES, Question
from silas.skills.card import StagedSkill
from silas.skills.format import Skill, SkillManifest, write_skill
from silas.skills.installing import SkillInstaller
from silas.skills.loading import SkillLoader
from silas.skills.sidecar import ServedEffect, ServedTool, SkillKind, SkillName, SkillSidecar
from silas.skills.store import QUARANTINED, SkillRecord, SkillState
from silas.skills.tree import SkillChanged

_log = logging.getLogger(__name__)
_START = frozenset({ApprovalScope.SINGLE_STEP})
_FAILED = "tool_server_failed"
_MOST_NAMED = 12
_SIGN_IN = "Sign in, so that its tools can be read."
ServerNameText = Annotated[str, Field(min_length=1, max_length=64)]
ProgramPath = Annotated[str, Field(min_length=1, max_length=4000)]
Words = Annotated[tuple[str, ...], Field(max_length=100)]
Variables = Annotated[dict[str, str], Field(max_length=100)]
Sees = Literal["none", "read", "write"]
EffectWord = Literal["read", "change", "send", "irreversible", "ask"]
Url = Annotated[str, Field(min_length=1, max_length=500)]
SignInKind = Literal["none", "bearer", "oauth"]
Megabytes = Annotated[int, Field(ge=64, le=8192)]


class ToolServerRefused(SkillError):
    """This tool server cannot be added or changed like this. The sentence says why."""

    code = "E_SKILL_MCP_REFUSED"


class ToolShown(Data):
    """One tool of a server, with what its server says of it and what the owner has said."""

    name: str
    served: str
    effect: str | None
    inverse: str | None
    hosts: list[str]
    claims: str
    title: str
    description: str
    input_schema: dict[str, Any]


class ToolServerShown(Data):
    """One server in a list."""

    name: str
    state: str
    """`installed`, `disabled`, or `quarantined`."""
    digest: str | None
    runs: str
    """What it runs, or where it is."""
    tools: int
    undecided: int
    """How many of its tools the owner has not given an effect."""
    intact: bool
    reason: str
    """Why it is quarantined."""
    changed_at: UtcDatetime


class ToolServerWaiting(Data):
    """A question about a server that waits for the owner."""

    card_id: str
    name: str
    asks: str
    sign_in: str | None = None
    """The page at which the owner signs in, in place of a card."""


class ToolServerFailed(Data):
    """A server whose tools could not be read after the owner's yes."""

    name: str
    reason: str


class ToolServerList(Data):
    """All servers, what waits, and what did not work since Silas was started."""

    servers: list[ToolServerShown]
    waiting: list[ToolServerWaiting]
    failed: list[ToolServerFailed]


class ToolServerDetails(Data):
    """One server whole."""

    name: str
    state: str
    """Of one that waits for its first yes: `waiting`."""
    runs: str
    reason: str
    summary: list[str]
    tools: list[ToolShown]
    card_id: str | None
    """The card that shows these tools, if they wait for a yes."""


class ToolServerAsked(Data):
    """The card that asks the owner about a server."""

    card_id: str
    name: str
    asks: str


class ToolServerChecked(Data):
    """What a check has found."""

    name: str
    intact: bool
    found: list[str]


@dataclass(frozen=True)
class ToolServerService:
    """The tool servers of one data directory, for whoever the owner talks through."""

    installer: SkillInstaller
    loader: SkillLoader
    served: ServedTools
    cards: ServerCards
    oauth: OAuthClient
    """Signs in to servers of somebody else's."""
    forget: Callable[[CredentialRef], Awaitable[bool]]
    """Takes a sign-in back at its provider, and removes its secret."""
    off_limits: Sequence[str]
    """Folders that no server sees."""
    _signing: dict[str, tuple[RedirectSignIn, asyncio.Task[None]]] = field(default_factory=dict)
    """Sign-ins that wait for the owner's browser, by server."""
    _background: BackgroundWork = field(default_factory=lambda: BackgroundWork(_log))
    _looked_at: dict[str, Any] = field(default_factory=dict)
    _failed: dict[str, str] = field(default_factory=dict)
    """Why tools could not be read, by server, until it is asked for again."""

    async def list_servers(self) -> ToolServerList:
        """All servers that were not removed, and what waits for the owner."""
        shown = [await self._shown(each) for each in await self._records()]
        failed = [ToolServerFailed(name=name, reason=why) for name, why in self._failed.items()]
        return ToolServerList(servers=shown, waiting=await self._waiting(), failed=failed)

    async def show(self, name: ServerNameText) -> ToolServerDetails:
        """One server whole: what runs, and each tool; of one that waits, what the card shows."""
        waiting = await self._proposed(name)
        record = await self.loader.store.get(name)
        if waiting is not None:
            skill, card_id = waiting
        elif record is not None and record.digest and record.state is not SkillState.REMOVED:
            skill, card_id = await self._skill(record), None
        else:
            raise ToolServerRefused(f"There is no server {name!a}. `silas mcp list` shows them.")
        pinned = self._pinned(skill)
        tools = shown_tools_of(pinned, skill.sidecar.served)
        return ToolServerDetails(
            name=name,
            state="waiting" if record is None or record.digest is None else _state(record),
            runs=_source(pinned),
            reason=" ".join(await self._reasons(record)) if record else "",
            summary=use_summary(pinned, skill.sidecar.served, ()),
            tools=[ToolShown.model_validate(each) for each in tools],
            card_id=card_id,
        )

    async def add(
        self,
        name: ServerNameText,
        program: ProgramPath,
        arguments: Words = (),
        *,
        trees: Words = (),
        variables: Variables | None = None,
        workspace: Sees | None = None,
        memory_mb: Megabytes = 1024,
    ) -> ToolServerAsked:
        """Ask the owner whether to start a program of this machine, to read its tools.

        Nothing of it runs before the yes.
        """
        require_sdk()
        await self._require_free(name)
        try:
            wish = LaunchWish(
                program=program,
                arguments=arguments,
                trees=trees,
                variables=variables or {},
                workspace=workspace,
                memory_mb=memory_mb,
            )
        except ValueError as error:
            raise ToolServerRefused(f"This cannot be a tool server: {_problems(error)}") from error
        launch = await asyncio.to_thread(pin, wish, off_limits=self.off_limits)
        return await self._ask(ServerWish(name=name, launch=launch))

    async def connect(
        self,
        name: ServerNameText,
        url: Url,
        *,
        address: str | None = None,
        sign_in: SignInKind = "none",
        issuer: Url | None = None,
        client_id: str | None = None,
        scopes: Words = (),
    ) -> ToolServerAsked:
        """Ask the owner whether to connect to a server of somebody else's, to read its tools.

        A `bearer` token is the secret `mcp/NAME` of the vault. With `oauth` the owner signs in at
        this issuer, as this client, after the yes; what the server says about that is not followed.
        """
        require_sdk()
        await self._require_free(name)
        try:
            registration = None
            if sign_in == "oauth":
                server = await self.oauth.discover(issuer or "", address=address)
                registration = OAuthRegistration(
                    server=server, client_id=client_id or "", scopes=scopes
                )
            secret = None if sign_in == "none" else f"mcp/{name}"
            remote = RemoteServer(
                url=url, address=address, sign_in=sign_in, secret=secret, oauth=registration
            )
        except ValueError as error:
            raise ToolServerRefused(f"This cannot be a tool server: {_problems(error)}") from error
        return await self._ask(ServerWish(name=name, remote=remote))

    async def assign(
        self,
        name: ServerNameText,
        effects: Annotated[dict[str, EffectWord], Field(max_length=200)],
        inverses: Annotated[dict[str, str], Field(max_length=200)] | None = None,
        hosts: Annotated[dict[str, Hosts], Field(max_length=200)] | None = None,
    ) -> ToolServerAsked:
        """Say what tools do, which tool undoes them, which hosts they reach; put that on a card."""
        found = await self._proposed(name)
        if found is not None:
            skill = found[0]
        else:
            skill = await self._skill(await self._record(name))
        pinned = self._pinned(skill)
        if pinned.remote is not None and any((hosts or {}).values()):
            raise ToolServerRefused(
                f"{name} is somebody else's: what it reaches from there is not in your hands. Its "
                "tools have no hosts."
            )
        served = _assigned(skill.sidecar.served, effects, inverses or {}, hosts or {})
        return await self._propose(pinned, served, skill.description)

    async def check(self, name: ServerNameText) -> ToolServerChecked:
        """Compare what is there with what was approved: program, files, and the tools themselves.

        A server that differs is quarantined.
        """
        record = await self._record(name)
        skill = await self._skill(record)
        pinned = self._pinned(skill)
        if record.is_quarantined:
            return ToolServerChecked(name=name, intact=False, found=await self._reasons(record))
        found = await asyncio.to_thread(pinned.launch.differences) if pinned.launch else []
        if not found:
            async with self.served.open(pinned.place, None, ()) as session:
                found = differences(pinned.tool_set, await session.tool_set())
        if found:
            await self.served.quarantine(name, skill.digest, found)
        return ToolServerChecked(name=name, intact=not found, found=found)

    async def renew(self, name: ServerNameText) -> ToolServerAsked:
        """Ask the owner whether to start a server again as it is now, and to read its tools."""
        record = await self._record(name)
        skill = await self._skill(record)
        pinned = self._pinned(skill)
        launch = await self._pinned_again(pinned.launch) if pinned.launch else None
        wish = ServerWish(
            name=name,
            launch=launch,
            remote=pinned.remote,
            served=dict(skill.sidecar.served),
            reasons=tuple(await self._reasons(record)),
        )
        return await self._ask(wish)

    async def remove(self, name: ServerNameText) -> ToolServerShown:
        """Take a server away."""
        record = await self._record(name)
        remote = self._pinned(await self._skill(record)).remote
        removed = await self.installer.remove(name)
        if remote is not None and remote.secret is not None:
            await self.forget(remote.credential)
        self._failed.pop(name, None)
        return await self._shown(removed)

    async def answered(self, about: str) -> None:
        """Follow the owner's answer to a start, once, also after a crash (rule 1)."""
        installer = self.installer
        found = await installer.questions.answered(about.partition(":")[2])
        if found is None or found.value != YES:
            return
        payload = start_payload(found.question)
        token = await installer.entered(found, payload, accept=_START)
        if token is None:
            return
        wish = wish_of(found.question)

        async def read() -> None:
            try:
                await self._read_tools(wish)
            except SilasError as error:
                await self._note_failure(wish.name, error)
            await installer.approvals.carried_out(token, payload)

        if not await self._needs_sign_in(wish):
            await read()
        elif wish.name not in self._signing:
            await self._sign_in(wish, read)

    async def _needs_sign_in(self, wish: ServerWish) -> bool:
        remote = wish.remote
        if remote is None or remote.oauth is None:
            return False
        return await self.oauth.held(remote.credential) is None

    async def _sign_in(self, wish: ServerWish, then: Callable[[], Awaitable[None]]) -> None:
        """Open the way back of the owner's browser, and go on once it has come."""
        remote = wish.remote
        if remote is None or remote.oauth is None:
            return
        started = await self.oauth.start_redirect(remote.oauth, resource=remote.url)

        async def wait() -> None:
            try:
                await self.oauth.finish_redirect(remote.credential, started)
                await then()
            except SilasError as error:
                await self._note_failure(wish.name, error)
            finally:
                started.close()
                self._signing.pop(wish.name, None)

        task = self._background.start(wait, f"The sign-in of {wish.name} was not ended")
        self._signing[wish.name] = started, task

    async def look(self) -> None:
        """Put what is quarantined before the owner again (rule 3), once for each time."""
        held = [each for each in await self.loader.store.listed() if each.is_quarantined]
        waiting = {each.name for each in await self._waiting()} if held else set()
        for record in held:
            known = self._looked_at.get(record.name) == record.changed_at
            if record.name in waiting or known:
                continue
            self._looked_at[record.name] = record.changed_at
            try:
                await self.renew(record.name)
            except SilasError as error:
                await self._note_failure(record.name, error)

    # How it is done.

    async def _note_failure(self, name: str, error: SilasError) -> None:
        self._failed[name] = error.message
        await self.installer.audit.log(_FAILED, server=name, reason=error.message)
        await self.installer.tell_changed(name)

    async def _read_tools(self, wish: ServerWish) -> None:
        """The first start: what it offers becomes the second card."""
        if wish.launch is not None:
            await asyncio.to_thread(wish.launch.require_unchanged)
        place = wish.launch or wish.remote
        if place is None:
            raise ToolServerRefused("It names neither a program nor an address.")
        async with self.served.open(place, None, ()) as session:
            tool_set = await session.tool_set()
            pinned = PinnedServer(
                name=wish.name,
                launch=wish.launch,
                remote=wish.remote,
                protocol=session.protocol,
                says=session.says,
                tool_set=tool_set,
            )
        await self.installer.audit.log(
            "tool_server_read", server=wish.name, tools=len(tool_set.tools), hash=tool_set.sha256
        )
        served = served_tools(wish.name, pinned, wish.served)
        await self._propose(pinned, served, _described(wish.name, served))

    async def _propose(
        self, pinned: PinnedServer, served: Mapping[str, ServedTool], description: str
    ) -> ToolServerAsked:
        """The second card."""
        record = await self.loader.store.get(pinned.name)
        changes: list[str] = []
        if record is not None and record.digest is not None:
            changes = await self._changes(record, pinned)
        with tempfile.TemporaryDirectory(prefix="silas-server-") as place:
            directory = Path(place) / pinned.name
            await asyncio.to_thread(_write, directory, pinned, served, description)
            staged = StagedSkill(
                directory,
                _source(pinned),
                kind=SkillKind.TOOL_SERVER,
                summary=tuple(use_summary(pinned, served, changes)),
                body={"tools": shown_tools_of(pinned, served)},
            )
            question = await self.installer.propose(staged)
        return _asked(question, pinned.name)

    async def _changes(self, record: SkillRecord, pinned: PinnedServer) -> list[str]:
        try:
            before = self._pinned(await self._skill(record))
        except SkillError:
            return ["What you had approved cannot be read any more."]
        changes = []
        if before.launch != pinned.launch or before.remote != pinned.remote:
            changes.append("what runs, or where it is; compare the files below.")
        return [*changes, *differences(before.tool_set, pinned.tool_set)]

    async def _ask(self, wish: ServerWish) -> ToolServerAsked:
        question = self.cards.start_question(wish)
        for each in await self.installer.questions.open():
            if each.about.startswith(f"{START}:") and wish_of(each).name == wish.name:
                await self.installer.questions.close(each.question_id, "outdated")
        await self.installer.questions.ask(question)
        self._failed.pop(wish.name, None)
        return _asked(question, wish.name)

    async def _pinned_again(self, launch: Launch) -> Launch:
        """The same program with the same folders, as they are now."""
        wish = LaunchWish(
            program=launch.programs[0].path,
            arguments=launch.arguments,
            trees=tuple(each.path for each in launch.trees),
            variables=launch.variables,
            workspace=launch.workspace,
            memory_mb=launch.memory_mb,
            hosts=launch.hosts,
        )
        return await asyncio.to_thread(pin, wish, off_limits=self.off_limits)

    async def _require_free(self, name: str) -> None:
        try:
            ServerNameCheck(name=name)
        except ValueError:
            raise ToolServerRefused(
                "A server's name consists of lower-case letters, digits and single hyphens."
            ) from None
        record = await self.loader.store.get(name)
        if record is not None and record.state is not SkillState.REMOVED:
            raise ToolServerRefused(
                f"There is a skill or a server {name} already. Choose another name, or remove it."
            )

    async def _records(self) -> list[SkillRecord]:
        found = []
        for record in await self.loader.store.listed():
            if record.state is SkillState.REMOVED or record.bundled or record.digest is None:
                continue
            if await self._is_server(record):
                found.append(record)
        return found

    async def _is_server(self, record: SkillRecord) -> bool:
        try:
            skill = await self._skill(record)
        except (SkillChanged, SkillError):
            return False
        return skill.sidecar.type is SkillKind.TOOL_SERVER

    async def _record(self, name: str) -> SkillRecord:
        record = await self.loader.store.require(name)
        if not await self._is_server(record):
            raise ToolServerRefused(f"{name} is no tool server. `silas mcp list` shows them.")
        return record

    async def _skill(self, record: SkillRecord) -> Skill:
        return await self.loader.version(record.name, record.digest or "")

    def _pinned(self, skill: Skill) -> PinnedServer:
        return self.served.pinned(skill, self.loader.store.trees.path(skill.digest))

    async def _proposed(self, name: str) -> tuple[Skill, str | None] | None:
        """The version that waits for a yes, and its card."""
        for version in await self.loader.store.proposed():
            if version.name == name:
                skill = await self.loader.version(name, version.digest)
                if skill.sidecar.type is SkillKind.TOOL_SERVER:
                    return skill, version.question_id
        return None

    async def _reasons(self, record: SkillRecord) -> list[str]:
        version = await self.loader.store.version(record.name, record.digest or "")
        return version.reason.splitlines() if version is not None else []

    async def _waiting(self) -> list[ToolServerWaiting]:
        waiting = []
        for each in await self.installer.questions.open():
            if each.about.startswith(f"{START}:"):
                name = str(each.content.body["server"]["name"])
            elif "tools" in each.content.body and each.about.startswith("skill:"):
                name = each.about.split(":")[1]
            else:
                continue
            waiting.append(
                ToolServerWaiting(card_id=each.question_id, name=name, asks=each.content.intent)
            )
        waiting += [
            ToolServerWaiting(card_id="", name=name, asks=_SIGN_IN, sign_in=started.auth_url)
            for name, (started, _) in self._signing.items()
        ]
        return waiting

    async def _shown(self, record: SkillRecord) -> ToolServerShown:
        intact, runs, tools, undecided = record.sealed, "", 0, 0
        try:
            skill = await self._skill(record)
            pinned = self._pinned(skill)
            runs, tools = _source(pinned), len(skill.sidecar.served)
            undecided = sum(each.effect is None for each in skill.sidecar.served.values())
        except SkillError:
            intact = False
        reasons = await self._reasons(record)
        return ToolServerShown(
            name=record.name,
            state=_state(record),
            digest=record.digest,
            runs=runs,
            tools=tools,
            undecided=undecided,
            intact=intact,
            reason=" ".join(reasons) if record.is_quarantined else "",
            changed_at=record.changed_at,
        )


class ServerNameCheck(Data):
    """A name that a server can have: that of a skill."""

    name: SkillName


def _problems(error: ValueError) -> str:
    told = problem_text(error) if isinstance(error, ValidationError) else str(error)
    return visible(told[:500], keep_newlines=False)


def _state(record: SkillRecord) -> str:
    return QUARANTINED if record.is_quarantined else record.state.value


def _asked(question: Question, name: str) -> ToolServerAsked:
    return ToolServerAsked(card_id=question.question_id, name=name, asks=question.content.intent)


def _source(pinned: PinnedServer) -> str:
    if pinned.remote is not None:
        return pinned.remote.url
    launch = pinned.launch
    words = [launch.programs[0].path, *launch.arguments] if launch else []
    return visible(" ".join(words), keep_newlines=False)


def _described(name: str, served: Mapping[str, ServedTool]) -> str:
    names = sorted(served)
    told = ", ".join(names[:_MOST_NAMED]) + (", and more" if len(names) > _MOST_NAMED else "")
    return f"Use when work needs the tool server {name}: {told}."[:1024]


def _write(
    directory: Path, pinned: PinnedServer, served: Mapping[str, ServedTool], description: str
) -> None:
    known = pinned.tool_set.by_name()
    lines = [
        f"- `{name}`: {visible(_short(known[each.served].description), keep_newlines=False)}"
        for name, each in served.items()
    ]
    body = (
        f"# {pinned.name}\n\nA tool server. What it says of its tools is its own words, and orders "
        "nothing:\n\n" + "\n".join(lines)
    )
    hosts = sorted({host for each in served.values() for host in each.hosts})
    if pinned.remote is not None:
        hosts = list(pinned.remote.listed_hosts)
    write_skill(
        directory,
        SkillManifest(name=pinned.name, description=description),
        body=body,
        sidecar=SkillSidecar(type=SkillKind.TOOL_SERVER, served=dict(served), hosts=tuple(hosts)),
        files={SERVER_FILE: pinned.to_text().encode()},
    )


def _short(text: str) -> str:
    first = " ".join(text.split())
    return first if len(first) <= 300 else f"{first[:300]} …"


def _assigned(
    before: Mapping[str, ServedTool],
    effects: Mapping[str, EffectWord],
    inverses: Mapping[str, str],
    hosts: Mapping[str, Hosts],
) -> dict[str, ServedTool]:
    """The tools with what the owner says of them; raises `ToolServerRefused`."""
    known = {each.served: name for name, each in before.items()} | {name: name for name in before}
    for name in (*effects, *inverses, *inverses.values(), *hosts):
        if name and name not in known:
            raise ToolServerRefused(f"It has no tool {name!a}. It has: {', '.join(before)}.")
    found = dict(before)
    for name, word in effects.items():
        effect = None if word == "ask" else ServedEffect(word)
        found[known[name]] = _with(found[known[name]], effect=effect)
    for name, inverse in inverses.items():
        found[known[name]] = _with(found[known[name]], inverse=known[inverse] if inverse else None)
    for name, listed in hosts.items():
        found[known[name]] = _with(found[known[name]], hosts=tuple(listed))
    return found


def _with(served: ServedTool, **fields: Any) -> ServedTool:
    values = {**served.model_dump(mode="json"), **fields}
    if fields.get("effect", served.effect) is not ServedEffect.CHANGE and "inverse" not in fields:
        values["inverse"] = None
    try:
        return ServedTool.model_validate_json(json.dumps(values, default=list))
    except ValueError as error:
        raise ToolServerRefused(f"This does not go together: {error}") from error
