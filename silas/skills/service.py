"""What the page, the command line and tests ask of skills: the functions of one API.

Reading needs no vault. Whatever changes something is the owner's: over the owner's socket, or
signed by a device of the owner's. Nothing here installs or fetches anything: that follows from a
signed card.
"""

import asyncio
import difflib
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from silas.approval import ApprovalScope
from silas.kernel import SkillError
from silas.kernel.models import Data, UtcDatetime
from silas.review.questions import YES
from silas.skills.card import ShownTool, StagedSkill, shown_tools
from silas.skills.command_rules import SkillFinding
from silas.skills.fetching import (
    GitSource,
    fetch_of,
    fetch_payload,
    fetch_question,
    fetched,
    is_remote,
    parse_source,
)
from silas.skills.format import SKILL_FILE, Skill, parse_skill
from silas.skills.importing import ImportedSkill, SkillDialect, import_skill
from silas.skills.inspection import description_problems, inspect_skill
from silas.skills.installing import SkillInstaller, SkillRefused
from silas.skills.loading import SkillLoader
from silas.skills.sidecar import SkillKind
from silas.skills.store import SkillOrigin, SkillRecord, SkillState, SkillVersion, VersionState
from silas.skills.tree import SkillChanged, SkillFile, SkillTreeRefused, read_file

MAX_FILE_SHOWN_BYTES = 512 * 1024
SkillNameText = Annotated[str, Field(min_length=1, max_length=64)]
SourcePath = Annotated[str, Field(min_length=1, max_length=4096)]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
FilePath = Annotated[str, Field(min_length=1, max_length=1024)]
WorkItemName = Annotated[str, Field(min_length=1, max_length=200)]
FolderPath = Annotated[str, Field(max_length=1024)]
Dialect = Annotated[SkillDialect, Field(strict=False)]
Query = Annotated[str, Field(max_length=500)]
_FETCH = frozenset({ApprovalScope.SINGLE_STEP})
_NOT_TAKEN_IN = (
    "Skills of others are not taken in from there: see skills.import.allow_external and "
    "skills.import.allowed_sources."
)


class UsedBy(Data):
    """A plan or a goal that names a skill."""

    work_item_id: str
    title: str
    kind: str
    status: str


Users = Callable[[str], Awaitable[list[UsedBy]]]
"""Which work names a skill."""
Draft = Callable[[str, str | None, Path], Awaitable[tuple[Path, str]]]
"""Writes a skill that does again what a piece of work did, called so, below a folder; returns where
it is, and out of which work. Raises `SkillRefused`."""


class SkillShown(Data):
    """One skill in a list."""

    name: str
    description: str
    state: SkillState
    digest: str | None
    bundled: bool
    activation: str
    tools: list[str]
    hosts: list[str]
    can_roll_back: bool
    intact: bool
    """Whether row and files are as they were approved."""
    installed_at: UtcDatetime
    last_used_at: UtcDatetime | None


class SkillWaiting(Data):
    """A version that was put before the owner, and is not installed."""

    name: str
    digest: str
    state: VersionState
    source: str
    card_id: str | None
    reason: str
    answer: str | None = None
    """How its card was decided or ended, until that is followed; None while it waits for you."""
    follow_until: UtcDatetime | None = None
    """Until when a yes is followed; None if it is too late, or if there is none."""


class SkillList(Data):
    """All skills, and what waits."""

    skills: list[SkillShown]
    waiting: list[SkillWaiting]


class SkillDetails(Data):
    """One skill whole."""

    skill: SkillShown
    text: str
    """The whole `SKILL.md`."""
    tools: list[ShownTool]
    files: list[SkillFile]
    findings: list[SkillFinding]
    source: str
    origin: SkillOrigin | None
    """The commit that it was fetched as, if it was."""
    trial: list[dict[str, Any]]
    report: dict[str, Any] | None
    versions: list[SkillWaiting]
    used_by: list[UsedBy]


class SkillFileShown(Data):
    """One file of one version."""

    path: str
    sha256: str
    size: int
    text: str | None
    """None: it is no text, or too long to be shown."""


class SkillFileDifference(Data):
    """What is different in one file between two versions; no lines if it is no text."""

    path: str
    lines: list[str]


class FetchAsked(Data):
    """The card that asks the owner whether to fetch a skill."""

    card_id: str
    url: str
    commit: str | None
    asks: str


class SkillAsked(Data):
    """The card that asks the owner about a skill."""

    card_id: str
    name: str
    digest: str
    asks: str
    flagged: bool
    """Whether something dangerous was found in it."""
    findings: int


@dataclass(frozen=True)
class SkillPolicy:
    """The settings, as far as skills are concerned."""

    skills_dir: Path
    """Where a skill that is named without a path is looked for, and a new one is written."""
    may_import: bool = True
    """Whether skills that were not written for Silas are taken in."""
    may_fetch: bool = True
    """Whether skills are fetched from repositories."""
    description_chars: tuple[int, int] = (24, 1024)
    """The fewest and the most that a description has."""
    follow_for: timedelta = timedelta(minutes=30)
    """How long a yes is followed."""
    refuse_steps: bool = True
    """Whether a description that lists steps is refused."""


@dataclass(frozen=True)
class SkillService:
    """The skills of one data directory, for whoever the owner talks through."""

    installer: SkillInstaller
    loader: SkillLoader
    users: Users
    policy: SkillPolicy
    draft: Draft

    async def list_skills(self, query: Query = "") -> SkillList:
        """All skills that were not removed, and what waits; with words, only what has them."""
        records = await self.loader.store.listed()
        kept = [each for each in records if each.state is not SkillState.REMOVED]
        wanted = query.casefold().split()
        fitting = [
            each
            for each in kept
            if all(word in f"{each.name} {each.description}".casefold() for word in wanted)
        ]
        waiting = [await self._proposed(each) for each in await self.loader.store.proposed()]
        return SkillList(skills=[await self._shown(each) for each in fitting], waiting=waiting)

    async def _proposed(self, version: SkillVersion) -> SkillWaiting:
        """What waits for the owner, or was answered and waits for Silas to follow it."""
        installer = self.installer
        answer, at = await installer.questions.ended(version.question_id or "") or (None, None)
        until = at + self.policy.follow_for if at is not None and answer == YES else None
        in_time = until is not None and installer.clock.now() < until
        told = {"answer": answer, "follow_until": until if in_time else None}
        return _waiting(version).model_copy(update=told)

    async def show(self, name: SkillNameText) -> SkillDetails:
        """One skill whole: its text, what it may do, what was found, who uses it."""
        store = self.loader.store
        record = await store.require(name)
        versions = await store.versions(name)
        skill = await self._skill(record)
        directory = store.trees.path(skill.digest)
        report = await asyncio.to_thread(inspect_skill, directory)
        text = await asyncio.to_thread(read_file, directory, skill.tree, SKILL_FILE)
        current = next((each for each in versions if each.digest == skill.digest), None)
        return SkillDetails(
            skill=await self._shown(record),
            text=text.decode("utf-8"),
            tools=list(shown_tools(skill)),
            files=list(skill.tree.files),
            findings=list(report.findings),
            source=current.source if current else "Silas",
            origin=current.origin if current else None,
            trial=current.trial if current else [],
            report=current.report if current else None,
            versions=[_waiting(each) for each in versions],
            used_by=await self.users(name),
        )

    async def read_file(self, digest: Digest, path: FilePath) -> SkillFileShown:
        """One file of a version that waits or is installed, to the last byte."""
        return await asyncio.to_thread(self._read_file, digest, path)

    async def difference(
        self, before: Digest, after: Digest, path: FilePath
    ) -> SkillFileDifference:
        """What is different in one file, as a unified difference."""
        found = [await self.read_file(digest, path) for digest in (before, after)]
        old, new = ((each.text or "").splitlines() for each in found)
        is_text = all(each.text is not None for each in found)
        lines = difflib.unified_diff(old, new, "before", "now", lineterm="")
        return SkillFileDifference(path=path, lines=list(lines) if is_text else [])

    async def install(self, source: SourcePath, hint: Dialect | None = None) -> SkillAsked:
        """Put a skill before the owner: a folder or an archive on this machine, of any dialect.

        Nothing is installed before the owner's yes.
        """
        if is_remote(source):
            raise SkillRefused("This is an address: `silas skills import` fetches from there.")
        path = self._source(source)
        with tempfile.TemporaryDirectory(prefix="silas-skill-") as place:
            imported = await asyncio.to_thread(import_skill, path, Path(place), hint=hint)
            if imported.foreign and not self.policy.may_import:
                raise SkillRefused(_NOT_TAKEN_IN)
            return await self._propose(imported, StagedSkill(imported.directory, str(path)))

    async def keep(self, work_item: WorkItemName, name: SkillNameText | None = None) -> SkillAsked:
        """Draft a skill from work that was done and checked, and put it before the owner."""
        with tempfile.TemporaryDirectory(prefix="silas-skill-") as place:
            directory, source = await self.draft(work_item, name, Path(place))
            record = await self.loader.store.get(directory.name)
            if record is not None and record.state is not SkillState.REMOVED:
                raise SkillRefused(f"There is a skill {directory.name} already. Choose a name.")
            return await self.propose_own(directory, source)

    async def propose_own(self, directory: Path, source: str) -> SkillAsked:
        """Put a skill before the owner that Silas has written into a folder."""
        with tempfile.TemporaryDirectory(prefix="silas-skill-") as place:
            imported = await asyncio.to_thread(import_skill, directory, Path(place))
            return await self._propose(imported, StagedSkill(imported.directory, source))

    async def fetch(
        self,
        url: SourcePath,
        commit: str | None = None,
        path: FolderPath = "",
        address: str | None = None,
        hint: Dialect | None = None,
    ) -> FetchAsked:
        """Ask the owner whether to fetch a skill from a git repository, as this commit.

        `path` is the folder in the repository; `address` is where a host is that is not public.
        """
        source = parse_source(url, commit=commit, path=path, address=address)
        if not self.policy.may_fetch:
            raise SkillRefused(_NOT_TAKEN_IN)
        installer = self.installer
        question = fetch_question(
            source,
            hint=hint,
            clock=installer.clock,
            ids=installer.ids,
            owner_id=installer.owner_id,
        )
        await installer.questions.ask(question)
        return FetchAsked(
            card_id=question.question_id,
            url=source.url,
            commit=source.commit,
            asks=question.content.intent,
        )

    async def fetch_answered(self, about: str) -> None:
        """Follow the owner's answer to a fetch: a yes fetches once, and puts the skill before them.

        A yes that was not followed to its end, because the process ended, is followed again.
        """
        installer = self.installer
        found = await installer.questions.answered(about.partition(":")[2])
        if found is None or found.value != YES:
            return
        payload = fetch_payload(found.question)
        token = await installer.entered(found, payload, accept=_FETCH)
        if token is None:
            return
        source, hint = fetch_of(found.question)
        try:
            await self._fetch(source, hint)
        except SkillError as error:
            await installer.audit.log("skill_fetch_failed", url=source.url, reason=error.message)
        await installer.approvals.carried_out(token, payload)

    async def _fetch(self, source: GitSource, hint: str | None) -> None:
        installer = self.installer
        async with fetched(installer.sandbox, source, installer.trials) as found:
            place = found.directory.parent.with_name("imported")
            imported = await asyncio.to_thread(
                import_skill,
                found.directory,
                place,
                hint=hint,
                commit=found.origin.commit,
                source_name=source.url,
            )
            left = tuple(f"{each}; it stayed behind" for each in found.left_out)
            staged = StagedSkill(
                imported.directory, source.url, origin=found.origin, not_granted=left
            )
            await installer.audit.log("skill_fetched", **found.origin.model_dump(mode="json"))
            await self._propose(imported, staged)

    async def _propose(self, imported: ImportedSkill, staged: StagedSkill) -> SkillAsked:
        """Put what was imported before the owner, with the report of it."""
        await asyncio.to_thread(self._require_described, imported)
        report = imported.report
        question = await self.installer.propose(
            replace(
                staged,
                not_granted=(*report.not_granted, *staged.not_granted),
                report=report.model_dump(mode="json") if imported.foreign else None,
                unresolved=report.unresolved,
            )
        )
        skill = question.content.body["skill"]
        dangers = [each for each in skill["findings"] if each["weight"] == "danger"]
        return SkillAsked(
            card_id=question.question_id,
            name=skill["name"],
            digest=skill["digest"],
            asks=question.content.intent,
            flagged=bool(dangers),
            findings=len(skill["findings"]),
        )

    async def update(self, name: SkillNameText) -> SkillAsked | FetchAsked:
        """Look where a skill came from, and put what is there now before the owner.

        Where it was fetched, the owner is asked whether to fetch again.
        """
        record = await self.loader.store.require(name)
        if record.bundled or record.digest is None:
            raise SkillRefused(f"{name} comes with Silas, and is updated with it.")
        if (await self._skill(record)).sidecar.type is SkillKind.TOOL_SERVER:
            raise SkillRefused(f"{name} is a tool server: `silas mcp renew {name}` looks at it.")
        version = await self.loader.store.version(name, record.digest)
        if version is None:
            raise SkillRefused(f"Nobody knows where {name} came from. Install it from its folder.")
        origin = version.origin
        if origin is not None:
            return await self.fetch(origin.url, path=origin.path, address=origin.address)
        return await self.install(version.source)

    async def disable(self, name: SkillNameText) -> SkillShown:
        """Keep a skill, and let nothing use it."""
        return await self._shown(await self.installer.disable(name))

    async def enable(self, name: SkillNameText) -> SkillShown:
        """Let a disabled skill be used again."""
        return await self._shown(await self.installer.enable(name))

    async def rollback(self, name: SkillNameText) -> SkillShown:
        """Go back to the version before."""
        return await self._shown(await self.installer.roll_back(name))

    async def remove(self, name: SkillNameText) -> SkillShown:
        """Take a skill away, with its files and versions."""
        return await self._shown(await self.installer.remove(name))

    def _require_described(self, imported: ImportedSkill) -> None:
        """Raise `SkillRefused` if a description does not say when the skill is wanted.

        A stranger's is not for the owner to mend: there, it is a finding on the card.
        """
        description = parse_skill(imported.directory).description
        shortest, longest = self.policy.description_chars
        problems = description_problems(description, shortest=shortest, longest=longest)
        if not self.policy.refuse_steps:
            problems = tuple(each for each in problems if "lists steps" not in each)
        if problems and not imported.foreign:
            raise SkillRefused(f"Mend the description first: {'; '.join(problems)}.")

    def _source(self, source: str) -> Path:
        """A path, or the name of a folder in the owner's directory of skills."""
        try:
            path = Path(source).expanduser()
        except RuntimeError as error:
            raise SkillRefused(f"{source} names the home of nobody on this machine.") from error
        if not path.is_absolute() and "/" not in source:
            path = self.policy.skills_dir / source
        if not path.is_absolute() or not _is_there(path):
            raise SkillRefused(
                f"There is no {path} on this machine. Name the folder or the archive of a skill."
            )
        return path

    def _read_file(self, digest: str, path: str) -> SkillFileShown:
        trees = self.loader.store.trees
        tree = trees.read(digest)
        content = read_file(trees.path(digest), tree, path)
        file = tree.by_path[path]
        text = None
        if len(content) <= MAX_FILE_SHOWN_BYTES and b"\0" not in content:
            try:
                text = content.decode("utf-8")
            except UnicodeDecodeError:
                text = None
        return SkillFileShown(path=path, sha256=file.sha256, size=file.size, text=text)

    async def _skill(self, record: SkillRecord) -> Skill:
        if record.digest is None:
            raise SkillRefused(f"{record.name} has no version in force.")
        return await self.loader.version(record.name, record.digest)

    async def _shown(self, record: SkillRecord) -> SkillShown:
        hosts: tuple[str, ...] = ()
        intact = record.sealed
        if record.digest is not None:
            try:
                hosts = (await self._skill(record)).sidecar.hosts
            except (SkillChanged, SkillTreeRefused, SkillError):
                intact = False
        return SkillShown(
            name=record.name,
            description=record.description,
            state=record.state,
            digest=record.digest,
            bundled=record.bundled,
            activation=record.activation,
            tools=[each.name for each in record.tools],
            hosts=list(hosts),
            can_roll_back=record.previous is not None and not record.bundled,
            intact=intact,
            installed_at=record.installed_at,
            last_used_at=record.last_used_at,
        )


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # no system has such a name
        return False


def _waiting(version: SkillVersion) -> SkillWaiting:
    return SkillWaiting(
        name=version.name,
        digest=version.digest,
        state=version.state,
        source=version.source,
        card_id=version.question_id,
        reason=version.reason,
    )
