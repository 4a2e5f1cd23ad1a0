"""A skill becomes usable: looked at, shown whole, approved, tried out, indexed; and goes again.

1. Its files are copied first, and everything that follows is about the copy. What happens to the
   source after that changes nothing.
2. The card shows what the skill does, asks for and is given, what was taken out of it, what was
   found in it, and every file with its digest. A yes is to exactly that: its token has the scope
   `skill_install`, and is used up in the transaction that stores the decision.
3. The copy is read again and compared when the yes is followed, after the trial, and before every
   use. A copy that is not what was shown is not installed.
4. The trial runs each tool once in the sandbox, with an example of its author's or with arguments
   made up from its schema, and with no way out. What fails is shown. A script that asks for a host
   that its skill does not list has gone beyond what was asked for: the skill is not installed.
5. Row, seal, version and audit entry are one transaction. A crash before it leaves a yes that is
   followed again, for as long as a yes may be followed; one after it changes nothing more.
6. A changed byte is another version, with a card of its own that shows what is different.
7. A skill is disabled, removed, or put back to the version before without a card: nothing comes
   into force that the owner has not approved before.
"""

import asyncio
import contextlib
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from silas.approval import ApprovalEngine, ApprovalScope, ApprovalToken
from silas.audit.models import AuditTrail
from silas.egress import ListedHost
from silas.kernel import ApprovalError, Clock, IdFactory, SandboxError, SkillError
from silas.kernel.models import Data
from silas.review.decisions import Decisions
from silas.review.questions import (
    QUESTION,
    YES,
    AnsweredQuestion,
    Question,
    QuestionStore,
    ShownPayload,
)
from silas.sandbox.models import SandboxLimits, SandboxResult, SandboxRunner, checked_request
from silas.skills.card import (
    ShownSkill,
    StagedSkill,
    declared_effect,
    payload_of,
    shown_skill,
    skill_question,
)
from silas.skills.format import Skill, read_skill
from silas.skills.inspection import inspect_skill
from silas.skills.sidecar import ScriptArgument, ScriptDeclaration, SkillKind
from silas.skills.store import (
    BroughtTool,
    SkillRecord,
    SkillState,
    SkillStore,
    SkillVersion,
    VersionState,
)
from silas.skills.tools import script_command
from silas.skills.tree import SkillChanged, TreeDifference, compare_trees, read_tree
from silas.storage import Durability, Transaction

_INSTALL = frozenset({ApprovalScope.SKILL_INSTALL})
_NOWHERE = "nowhere.invalid"
"""The host of a trial: no name server knows it, so every way out is refused, and noted."""
_TRIAL = SandboxLimits(wall_seconds=20, cpu_seconds=10, output_bytes=4_000)
_SHOWN_OUTPUT_CHARS = 2_000
_MADE_UP_TEXT = "example"
_CHANGED = "Its files were changed after they were shown. Nothing was installed: propose it again."
_TOO_LATE = "The yes came too late to be followed. Nothing was installed: propose it again."
_ENDINGS = {
    VersionState.DECLINED: "skill_declined",
    VersionState.BLOCKED: "skill_blocked",
    VersionState.LAPSED: "skill_lapsed",
}
"""What the audit log calls it that a version was not installed."""
Listener = Callable[[str], Awaitable[object]]
"""Is told the name of a skill when something about it has changed, or was decided."""


class SkillRefused(SkillError):
    """This skill cannot be installed as it is. The sentence says what stands against it."""

    code = "E_SKILL_REFUSED"


class Trial(Data):
    """What one tool did when it was tried out."""

    tool: str
    args: dict[str, Any]
    made_up: bool
    exit_code: int
    printed: str
    reached_for: tuple[str, ...] = ()
    """The hosts that it asked for."""
    beyond: tuple[str, ...] = ()
    """Those of them that its skill does not list."""


@dataclass
class SkillInstaller:
    """Puts skills before the owner, and follows the answers."""

    store: SkillStore
    questions: QuestionStore
    decisions: Decisions
    approvals: ApprovalEngine
    sandbox: SandboxRunner
    audit: AuditTrail
    clock: Clock
    ids: IdFactory
    owner_id: str
    taken_tools: frozenset[str]
    """The names of the tools that Silas itself has."""
    trials: Path
    """Where scripts are tried out."""
    changed: list[Listener] = field(default_factory=list)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def propose(self, staged: StagedSkill) -> Question:
        """Put a skill before the owner; raises `SkillRefused` (rules 1 and 2)."""
        skill = await asyncio.to_thread(_read, staged.directory)
        if (skill.sidecar.type is SkillKind.TOOL_SERVER) != (staged.kind is SkillKind.TOOL_SERVER):
            raise SkillRefused("A tool server is no skill to install: `silas mcp add` adds one.")
        async with self._turn:
            record = await self._require_free(skill)
            await asyncio.to_thread(self.store.trees.put, staged.directory, skill.tree)
            shown = await self._shown(skill, staged, record)
            question = skill_question(
                shown, staged, self.ids.new(QUESTION), owner_id=self.owner_id, now=self.clock.now()
            )
            version = SkillVersion(
                name=skill.name,
                digest=skill.digest,
                state=VersionState.PROPOSED,
                source=staged.source,
                origin=staged.origin,
                question_id=question.question_id,
                report=staged.report,
                created_at=self.clock.now(),
            )
            await self._ask(question, version)
        return question

    async def answered(self, about: str) -> None:
        """Follow the owner's answer, once, also after a crash (rules 3 to 5)."""
        _, name, digest = about.split(":", 2)
        async with self._turn:
            version = await self.store.version(name, digest)
            if version is None or version.question_id is None:
                return
            found = await self.questions.answered(version.question_id)
            if found is None:
                return
            if version.state is VersionState.INSTALLED:
                await self._carry_out(found)
            elif version.state is VersionState.PROPOSED:
                await self._follow(version, found)

    async def end_expired(self) -> None:
        """Nobody decided in time: nothing is installed, and nothing is kept."""
        async with self._turn:
            for version in await self.store.proposed():
                question = await self.questions.get(version.question_id or "")
                if question.state in ("expired", "outdated"):
                    await self._end(version, VersionState.LAPSED, "Nobody decided in time.")

    async def _follow(self, version: SkillVersion, found: AnsweredQuestion) -> None:
        if found.value != YES:
            await self._end(version, VersionState.DECLINED, "You declined it.")
            return
        payload = payload_of(found.question)
        token = await self.entered(found, payload)
        if token is None:
            await self._end(version, VersionState.LAPSED, _TOO_LATE)
            return
        try:
            skill = await asyncio.to_thread(self._shown_copy, version, found.question)  # 3
            trial = await self._try_out(skill)  # 4
            await asyncio.to_thread(self.store.trees.read, version.digest)  # 3
        except SkillError as error:
            reason = _CHANGED if isinstance(error, SkillChanged) else error.message
            await self._end(version, VersionState.BLOCKED, reason)
            return
        beyond = sorted({host for each in trial for host in each.beyond})
        tried = version.model_copy(update={"trial": [each.model_dump() for each in trial]})
        if beyond:
            reason = f"Its trial asked for {', '.join(beyond)}, which it does not list."
            await self._end(tried, VersionState.BLOCKED, reason)
            return
        await self._install(skill, tried)
        await self._carry_out(found, token)

    async def entered(
        self,
        found: AnsweredQuestion,
        payload: ShownPayload,
        *,
        accept: frozenset[ApprovalScope] = _INSTALL,
    ) -> ApprovalToken | None:
        """The token of this yes, used up for exactly what was shown; None if it is not valid."""
        try:
            token = await self.decisions.token_of(found.decision, payload.id)
        except ApprovalError as error:
            name = found.question.question_id
            await self.audit.log("decision_refused", card_id=name, reason=error.message)
            return None
        if token is None:
            return None
        valid, _ = await self.approvals.enter(token, payload, accept=accept)
        return token if valid else None

    async def _carry_out(self, found: AnsweredQuestion, token: ApprovalToken | None = None) -> None:
        """The yes was followed: it opens nothing any more."""
        payload = payload_of(found.question)
        token = token or await self.entered(found, payload)
        if token is not None:
            await self.approvals.carried_out(token, payload)

    def _shown_copy(self, version: SkillVersion, question: Question) -> Skill:
        """The copy, if it still is what the card showed."""
        shown = ShownSkill.model_validate(question.content.body["skill"])
        tree = self.store.trees.read(version.digest)
        if (shown.name, shown.digest, shown.files) != (version.name, tree.digest, tree.files):
            raise SkillChanged
        return read_skill(self.store.trees.path(version.digest), tree, name=version.name)

    async def _install(self, skill: Skill, version: SkillVersion) -> None:
        """Rule 5."""
        before = await self.store.get(skill.name)
        in_force = before if before is not None and before.digest is not None else None
        record = record_of(skill, now=self.clock.now()).model_copy(
            update={"previous": in_force.digest if in_force else None}
        )
        installed = version.model_copy(update={"state": VersionState.INSTALLED, "reason": ""})
        await self.store.put_in_force(record, installed, "skill_installed")
        await self.tell_changed(skill.name)

    async def _end(self, version: SkillVersion, state: VersionState, reason: str) -> None:
        """It is not installed; of its files nothing is kept, unless the version is in force."""
        ended = version.model_copy(update={"state": state, "reason": reason})
        record = await self.store.get(version.name)
        if record is not None and version.digest in (record.digest, record.previous):
            ended = ended.model_copy(update={"state": VersionState.INSTALLED})
        entry = {"skill": version.name, "digest": version.digest, "reason": reason}

        def write(tx: Transaction) -> None:
            self.store.save_version_in(tx, ended)
            self.audit.append(tx, _ENDINGS[state], entry)

        await self.store.database.transaction(write, durability=Durability.TRUST)
        await self.store.erase_unneeded(version.digest)
        await self.tell_changed(version.name)

    # What the owner does with a skill that is installed (rule 7).

    async def disable(self, name: str) -> SkillRecord:
        """Keep a skill, and let nothing use it."""
        record = await self._sealed(name)
        if record.state is not SkillState.INSTALLED:
            raise SkillRefused(f"{name} is disabled already.")
        return await self._changed(record, "skill_disabled", state=SkillState.DISABLED)

    async def enable(self, name: str) -> SkillRecord:
        """Let a disabled skill be used again, as the version that was approved."""
        record = await self._sealed(name)
        if record.state is not SkillState.DISABLED:
            raise SkillRefused(f"{name} is not disabled.")
        _require_looked_at(record)
        return await self._changed(record, "skill_enabled", state=SkillState.INSTALLED)

    async def roll_back(self, name: str) -> SkillRecord:
        """Put the version before into force; the two change places."""
        record = await self._sealed(name)
        if record.bundled or record.previous is None:
            raise SkillRefused(f"There is no earlier version of {name} to go back to.")
        async with self._turn:
            tree = await asyncio.to_thread(self.store.trees.read, record.previous)
            directory = self.store.trees.path(record.previous)
            skill = await asyncio.to_thread(read_skill, directory, tree, name=name)
        now = self.clock.now()
        _require_looked_at(record)
        back = record_of(skill, now=now).model_copy(
            update={"previous": record.digest, "state": record.state}
        )
        return await self._changed(back, "skill_rolled_back")

    async def remove(self, name: str) -> SkillRecord:
        """Take a skill away: its files and its versions are erased."""
        record = await self.store.require(name)
        if record.bundled:
            raise SkillRefused(f"{name} comes with Silas. `silas skills disable {name}` ends it.")
        for version in await self.store.versions(name):
            if version.question_id is not None:
                await self.questions.close(version.question_id, "outdated")
        gone = {"state": SkillState.REMOVED, "digest": None, "previous": None, "tools": ()}
        removed = await self._changed(record, "skill_removed", **gone)
        await self.store.forget_versions(name, keep=())
        return removed

    async def _sealed(self, name: str) -> SkillRecord:
        record = await self.store.require(name)
        if not record.sealed or record.digest is None:
            raise SkillRefused(
                f"The row of {name} is not as you approved it. Remove it, and install it again."
            )
        return record

    async def _changed(self, record: SkillRecord, event: str, **fields: Any) -> SkillRecord:
        changed = await self.store.change(record.model_copy(update=fields), event)
        await self.tell_changed(record.name)
        return changed

    async def tell_changed(self, name: str) -> None:
        """Let whoever shows or uses this skill look again."""
        for listener in self.changed:
            await listener(name)

    # What is put before the owner.

    async def _require_free(self, skill: Skill) -> SkillRecord | None:
        """The row of the skill that this would be a version of; raises `SkillRefused`."""
        record = await self.store.get(skill.name)
        if record is not None and record.bundled:
            raise SkillRefused(f"{skill.name} comes with Silas. Give the skill another name.")
        in_force = record is not None and record.usable and record.digest == skill.digest
        if in_force:
            raise SkillRefused(f"Exactly this version of {skill.name} is installed already.")
        for other in await self.store.listed():
            names = {each.name for each in other.tools}
            wanted = set(skill.sidecar.tool_names)
            taken = sorted(names & wanted) if other.name != skill.name else []
            if taken:
                raise SkillRefused(
                    f"The tool {taken[0]} is the skill {other.name}'s. Name it otherwise in "
                    "silas.yaml, or remove the other skill first."
                )
        own = sorted(self.taken_tools & set(skill.sidecar.tool_names))
        if own:
            raise SkillRefused(f"The tool {own[0]} is Silas' own. Name it otherwise in silas.yaml.")
        return record

    async def _shown(
        self, skill: Skill, staged: StagedSkill, record: SkillRecord | None
    ) -> ShownSkill:
        directory = self.store.trees.path(skill.digest)
        report = await asyncio.to_thread(inspect_skill, directory)
        changes = TreeDifference()
        replaces = record.digest if record is not None else None
        if replaces is not None:
            with contextlib.suppress(SkillChanged):
                before = await asyncio.to_thread(self.store.trees.read, replaces)
                changes = compare_trees(before, skill.tree)
        return shown_skill(skill, staged, report.findings, replaces=replaces, changes=changes)

    async def _ask(self, question: Question, version: SkillVersion) -> None:
        older = [each for each in await self.store.proposed() if each.name == version.name]
        entry = {
            "skill": version.name,
            "digest": version.digest,
            "source": version.source,
            "card_id": question.question_id,
        }

        def write(tx: Transaction) -> None:
            for each in older:
                if each.question_id is not None:
                    self.questions.close_in(tx, each.question_id, "outdated")
                if each.digest != version.digest:
                    ended = {"state": VersionState.LAPSED, "reason": "A newer one was proposed."}
                    self.store.save_version_in(tx, each.model_copy(update=ended))
            self.store.save_version_in(tx, version)
            self.questions.ask_in(tx, question)
            self.audit.append(tx, "skill_proposed", entry)

        await self.store.database.transaction(write, durability=Durability.TRUST)
        self.questions.tell()
        for each in older:
            await self.store.erase_unneeded(each.digest)

    # The trial (rule 4).

    async def _try_out(self, skill: Skill) -> list[Trial]:
        tried = []
        for path, declared in sorted(skill.sidecar.scripts.items()):
            tried.append(await self._try(skill, path, declared))
        return tried

    async def _try(self, skill: Skill, path: str, declared: ScriptDeclaration) -> Trial:
        made_up = not declared.examples
        args = made_up_arguments(declared) if made_up else dict(declared.examples[0])
        call = declared.call(args)
        directory = self.store.trees.path(skill.digest)
        self.trials.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.trials) as work:
            request = checked_request(
                argv=(*script_command(directory, path), *call.words),
                env={"PYTHONUNBUFFERED": "1"},
                cwd=work,
                read=(str(directory),),
                write=(work,),
                network=(_NOWHERE,),
                limits=_TRIAL,
                stdin=call.stdin.encode(),
                one_stream=True,
            )
            try:
                ran = await self.sandbox.run(request)
            except SandboxError as error:
                raise SkillRefused(f"It could not be tried out: {error.message}") from error
        return _trial(declared.tool_name(path), args, ran, made_up=made_up, listed=skill)


def _trial(
    tool: str, args: dict[str, Any], ran: SandboxResult, *, made_up: bool, listed: Skill
) -> Trial:
    wanted = sorted({each.host for each in ran.network if each.host != _NOWHERE})
    allowed = {ListedHost.parse(host).name for host in listed.sidecar.hosts}
    return Trial(
        tool=tool,
        args=args,
        made_up=made_up,
        exit_code=ran.exit_code,
        printed=ran.text[:_SHOWN_OUTPUT_CHARS],
        reached_for=tuple(wanted),
        beyond=tuple(each for each in wanted if each.partition(":")[0] not in allowed),
    )


def _require_looked_at(record: SkillRecord) -> None:
    if record.is_quarantined:
        raise SkillRefused(
            f"{record.name} has changed and is quarantined. `silas mcp renew {record.name}` shows "
            "it to you as it is now."
        )


def _read(directory: Path, *, without: Sequence[str] = ()) -> Skill:
    tree = read_tree(directory, without=without)
    return read_skill(directory, tree, name=directory.name)


def _read_below(directory: Path) -> list[tuple[Path, Skill]]:
    if not directory.is_dir():
        return []
    found = sorted(each for each in directory.iterdir() if each.is_dir())
    # Whoever installs the package may have compiled its files; that is no part of a skill.
    return [(path, _read(path, without=["__pycache__"])) for path in found]


def record_of(skill: Skill, *, now: Any, bundled: bool = False) -> SkillRecord:
    """A skill in force."""
    tools = [
        BroughtTool(name=tool, effect=declared_effect(skill, skill.sidecar.scripts[path]))
        for tool, path in sorted(skill.sidecar.tools.items())
    ]
    tools += [
        BroughtTool(name=name, effect=served.declared)
        for name, served in sorted(skill.sidecar.served.items())
    ]
    return SkillRecord(
        name=skill.name,
        state=SkillState.INSTALLED,
        digest=skill.digest,
        bundled=bundled,
        description=skill.description,
        activation=skill.sidecar.activation.value,
        tools=tuple(tools),
        installed_at=now,
        changed_at=now,
    )


def made_up_arguments(declared: ScriptDeclaration) -> dict[str, Any]:
    """Arguments that fit, for a tool without an example: as few and as small as possible."""
    return {name: _made_up(each) for name, each in declared.arguments.items() if each.is_required}


def _made_up(argument: ScriptArgument) -> Any:
    if argument.enum:
        return argument.enum[0]
    match argument.type.value:
        case "integer":
            return int(argument.minimum or 0) if argument.minimum is not None else 1
        case "number":
            return argument.minimum if argument.minimum is not None else 1.0
        case "boolean":
            return False
        case "array":
            return [_MADE_UP_TEXT] * (argument.min_length or 0)
    least, most = argument.min_length or 0, argument.max_length
    text = _MADE_UP_TEXT if most is None else _MADE_UP_TEXT[:most]
    return text.ljust(least, "x")


async def install_bundled(
    store: SkillStore, directory: Path, *, event: str | None = "skill_bundled"
) -> list[str]:
    """Put the skills of the package into force; returns the names of those that are new or changed.

    Whoever installs a package of Silas accepts what it brings: `silas init` names it. A skill of
    the package that the owner has disabled stays disabled.
    """
    changed = []
    for path, skill in await asyncio.to_thread(_read_below, directory):
        before = await store.get(skill.name)
        known = before is not None and before.sealed and before.bundled
        if known and before is not None and before.digest == skill.digest:
            continue
        await asyncio.to_thread(store.trees.put, path, skill.tree)
        now = store.clock.now()
        state = before.state if known and before is not None else SkillState.INSTALLED
        version = SkillVersion(
            name=skill.name,
            digest=skill.digest,
            state=VersionState.INSTALLED,
            source="Silas",
            created_at=now,
        )
        record = record_of(skill, now=now, bundled=True).model_copy(update={"state": state})
        await store.put_in_force(record, version, event)
        changed.append(skill.name)
    return changed
