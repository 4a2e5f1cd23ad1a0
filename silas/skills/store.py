"""Where skills are kept: their files, named by their digest, and which version is in force.

1. The files of a version lie in a directory of its digest below the data directory, read-only. A
   version that was changed there has another digest, and is not that version any more.
2. A row says which version is in force, which was before, what tools it brings. The owner's key
   seals it: a row that somebody else wrote or changed installs nothing.
3. Nothing is read out of a directory that no row names. What nobody needs any more is erased.
4. A name is one skill's, and so is the name of a tool: what a yes was given for cannot be taken
   over by another skill.
"""

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, TypeAdapter

from silas.approval.keys import ProvenRows, Seal, Seals
from silas.audit.models import AuditTrail, OwnerKey
from silas.gates.risk import DeclaredEffect
from silas.kernel import Clock, SkillError, format_timestamp, parse_timestamp
from silas.kernel.models import Data, UtcDatetime
from silas.skills.tree import SkillChanged, SkillTree, SkillTreeRefused, copy_tree, read_tree
from silas.storage import Database, Durability, Row, Transaction
from silas.storage.errors import translated
from silas.storage.files import make_private_directory, sync_directory
from silas.storage.trees import remove_tree

_SEALED = "skill_in_force"
QUARANTINED = "quarantined"
"""The activation of a tool server that nobody can bring into play."""
_SELECT = """
SELECT name, state, digest, previous, bundled, description, activation, tools, seal_key_id, seal,
    installed_at, changed_at, last_used_at
FROM skills
"""
_UPSERT = """
INSERT INTO skills (name, state, digest, previous, bundled, description, activation, tools,
    seal_key_id, seal, installed_at, changed_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET state = excluded.state, digest = excluded.digest,
    previous = excluded.previous, bundled = excluded.bundled, description = excluded.description,
    activation = excluded.activation, tools = excluded.tools, seal_key_id = excluded.seal_key_id,
    seal = excluded.seal, installed_at = excluded.installed_at, changed_at = excluded.changed_at
"""
_VERSIONS = """
SELECT name, digest, state, source, origin, question_id, report, trial, reason, created_at
FROM skill_versions
"""
_NEEDED = "SELECT digest FROM skill_versions WHERE state IN ('proposed', 'installed')"
_INSERT_VERSION = """
INSERT INTO skill_versions (name, digest, state, source, origin, question_id, report, trial, reason,
    created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (name, digest) DO UPDATE SET state = excluded.state, source = excluded.source,
    origin = excluded.origin, question_id = excluded.question_id, report = excluded.report,
    trial = excluded.trial, reason = excluded.reason, created_at = excluded.created_at
"""


class SkillUnknown(SkillError):
    """There is no such skill. `silas skills list` shows those that there are."""

    code = "E_SKILL_UNKNOWN"


class SkillState(StrEnum):
    """Whether a skill can be used."""

    INSTALLED = "installed"
    DISABLED = "disabled"
    REMOVED = "removed"


class VersionState(StrEnum):
    """What became of one version."""

    PROPOSED = "proposed"
    INSTALLED = "installed"
    DECLINED = "declined"
    BLOCKED = "blocked"
    """Its trial went beyond what it asked for, or its files were not those that were shown."""
    LAPSED = "lapsed"
    """Nobody decided in time, or the yes was too old to be followed."""


class BroughtTool(Data):
    """A tool that a skill brings, as far as its risk is concerned."""

    name: str
    effect: DeclaredEffect | None = None


class SkillRecord(Data):
    """Which version of a skill is in force."""

    name: str
    state: SkillState
    digest: str | None
    previous: str | None = None
    """The version before, to go back to."""
    bundled: bool = False
    """It comes with Silas, and its version is the package's."""
    description: str = ""
    activation: str = "auto"
    tools: tuple[BroughtTool, ...] = ()
    installed_at: UtcDatetime
    changed_at: UtcDatetime
    last_used_at: UtcDatetime | None = None
    sealed: bool = False
    """Whether the row is as the owner's key has sealed it; if not, nothing is installed."""

    @property
    def is_quarantined(self) -> bool:
        """What it consists of has changed: nothing uses it until the owner has looked at it."""
        return self.activation == QUARANTINED

    @property
    def usable(self) -> bool:
        """Whether work may use it."""
        return self.sealed and self.state is SkillState.INSTALLED and self.digest is not None


class SkillOrigin(Data):
    """Where in which repository a skill was, and as which commit it was fetched."""

    url: str
    commit: str
    path: str = ""
    """The folder in the repository; empty: its top."""
    address: str | None = None
    """Where the host is, if it is not on the public network."""

    def __str__(self) -> str:
        place = f"the folder {self.path} of " if self.path else ""
        return f"{place}{self.url} as of the commit {self.commit}"


class SkillVersion(Data):
    """One version that was put before the owner."""

    name: str
    digest: str
    state: VersionState
    source: str
    """Where its files were taken from."""
    origin: SkillOrigin | None = None
    """The commit, if they were fetched."""
    question_id: str | None = None
    report: dict[str, Any] | None = None
    """What was changed when it was imported."""
    trial: list[dict[str, Any]] = Field(default_factory=list)
    """What its scripts did when they were tried out."""
    reason: str = ""
    """Why it was not installed, in words."""
    created_at: UtcDatetime


_MOST_READ = 10_000
_TOOLS = TypeAdapter(tuple[BroughtTool, ...])


class _SkillRow(NamedTuple):
    """What `_SELECT` gives."""

    name: str
    state: str
    digest: str | None
    previous: str | None
    bundled: int
    description: str
    activation: str
    tools: str
    seal_key_id: str | None
    seal: str | None
    installed_at: str
    changed_at: str
    last_used_at: str | None

    def record(self) -> SkillRecord:
        return SkillRecord(
            name=self.name,
            state=SkillState(self.state),
            digest=self.digest,
            previous=self.previous,
            bundled=bool(self.bundled),
            description=self.description,
            activation=self.activation,
            tools=_TOOLS.validate_json(self.tools),
            installed_at=parse_timestamp(self.installed_at),
            changed_at=parse_timestamp(self.changed_at),
            last_used_at=parse_timestamp(self.last_used_at) if self.last_used_at else None,
        )


_Effects = dict[str, tuple[_SkillRow, DeclaredEffect | None]]


class _Listing(NamedTuple):
    """The whole table, and what it means."""

    rows: Sequence[Row]
    records: Sequence[SkillRecord]
    effects: _Effects
    key_ids: set[str]

    @property
    def lasts(self) -> bool:
        """Whether it may be remembered: a seal that does not hold is asked about every time."""
        return all(each.sealed for each in self.records)


@dataclass(frozen=True)
class SkillTrees:
    """The files of all versions, below one directory (rule 1)."""

    root: Path

    def path(self, digest: str) -> Path:
        """Where a version lies."""
        return self.root / digest

    def put(self, source: Path, tree: SkillTree) -> Path:
        """Copy a version here, all of it or nothing; what lies here already is compared.

        Raises `SkillChanged` if the source is not this tree any more.
        """
        target = self.path(tree.digest)
        with translated(str(target)):
            if self.is_whole(tree.digest):
                return target
            make_private_directory(self.root)
            remove_tree(target)
            remove_tree(target.with_name(f".{target.name}.partial"))  # of a copy that was cut off
            copy_tree(source, tree, target)
            sync_directory(self.root)
        return target

    def read(self, digest: str) -> SkillTree:
        """The version as it lies here now; raises `SkillChanged` if that is not it any more."""
        try:
            tree = read_tree(self.path(digest))
        except SkillTreeRefused as error:
            raise SkillChanged(f"{SkillChanged.sentence()} ({error.message})") from error
        if tree.digest != digest:
            raise SkillChanged
        return tree

    def erase(self, digest: str) -> None:
        """Remove a version."""
        remove_tree(self.path(digest))

    def erase_others(self, needed: Iterable[str]) -> None:
        """Remove what no row names (rule 3): of installations that a crash has cut off."""
        if not self.root.is_dir():
            return
        known = set(needed)
        for path in sorted(self.root.iterdir()):
            if path.name not in known:
                remove_tree(path)

    def is_whole(self, digest: str) -> bool:
        """Whether a version lies here unchanged."""
        try:
            self.read(digest)
        except SkillChanged:
            return False
        return True


@dataclass
class SkillStore:
    """The skills of one data directory."""

    database: Database
    trees: SkillTrees
    keys: OwnerKey
    audit: AuditTrail
    clock: Clock
    _effects: _Effects = field(default_factory=dict)
    _read: dict[_SkillRow, SkillRecord] = field(default_factory=dict)
    """Rows that were read: what stands in the same row means the same, but for its seal."""
    _listing: _Listing | None = None
    """What the table said last: as long as it stands there and its keys are active, it holds."""

    def __post_init__(self) -> None:
        self._proven = ProvenRows(self.keys)

    async def load(self) -> None:
        """Learn which tools there are: what `effect_of` then knows."""
        self._effects = self._effects_in(
            map(_SkillRow._make, await self.database.fetch_all(_SELECT))
        )

    def effect_of(self, tool: str) -> DeclaredEffect | None:
        """What the tool of an installed skill declares (`silas.gates.risk.EffectOf`)."""
        row, effect = self._effects.get(tool, (None, None))
        return effect if row is not None and self._record(row).usable else None

    async def listed(self) -> list[SkillRecord]:
        """Every skill that is or was installed, by name."""
        rows = await self.database.fetch_all(f"{_SELECT} ORDER BY name")
        known = self._listing
        if known is None or known.rows != rows or not all(map(self.keys.is_active, known.key_ids)):
            named = [_SkillRow._make(row) for row in rows]
            # At once: what is installed while the seals are proven is learned after this.
            self._effects = effects = self._effects_in(named)
            records = await asyncio.to_thread(lambda: [self._record(row) for row in named])
            known = _Listing(rows, records, effects, {str(row.seal_key_id) for row in named})
            self._listing = known if known.lasts else None
        else:
            self._effects = known.effects
        return list(known.records)

    async def get(self, name: str) -> SkillRecord | None:
        """One skill, whatever its state; None if there never was one."""
        row = await self.database.fetch_one(f"{_SELECT} WHERE name = ?", (name,))
        return self._record(_SkillRow(*row)) if row else None

    async def require(self, name: str) -> SkillRecord:
        """One skill that was not removed; raises `SkillUnknown`."""
        found = await self.get(name)
        if found is None or found.state is SkillState.REMOVED:
            raise SkillUnknown(f"There is no skill {name!a}. `silas skills list` shows them.")
        return found

    async def is_whole(self, digest: str) -> bool:
        """Whether the files of a version lie there unchanged."""
        return await asyncio.to_thread(self.trees.is_whole, digest)

    async def usable_digest(self, name: str) -> str | None:
        """The version in force, if its files lie there unchanged; None if it cannot be used."""
        found = await self.get(name)
        if found is None or not found.usable or found.digest is None:
            return None
        try:
            await asyncio.to_thread(self.trees.read, found.digest)
        except SkillChanged:
            await self.audit.log("skill_files_changed", skill=name, digest=found.digest)
            return None
        return found.digest

    def save_in(self, tx: Transaction, record: SkillRecord, seal: Seal) -> None:
        """Write which version is in force, with the seal that `seal` gave."""
        tools = _TOOLS.dump_json(record.tools).decode()
        values = (record.name, record.state.value, record.digest, record.previous)
        more = (int(record.bundled), record.description, record.activation, tools)
        times = (format_timestamp(record.installed_at), format_timestamp(record.changed_at))
        tx.execute(_UPSERT, (*values, *more, seal.key_id, seal.signature, *times))

    async def seal(self, record: SkillRecord) -> Seal:
        """The owner's key vouches for this row."""
        return await asyncio.to_thread(Seals(self.keys).sign, _SEALED, _sealed_fields(record))

    async def change(self, record: SkillRecord, event: str) -> SkillRecord:
        """Another state of a skill, sealed and logged."""
        now = self.clock.now()
        record = record.model_copy(update={"changed_at": now, "sealed": True})
        seal = await self.seal(record)

        def write(tx: Transaction) -> None:
            self.save_in(tx, record, seal)
            self.audit.append(tx, event, {"skill": record.name, "digest": record.digest})

        await self.database.transaction(write, durability=Durability.TRUST)
        await self.load()
        return record

    async def quarantine(self, name: str, digest: str, why: Sequence[str]) -> None:
        """Let nothing use this version any more, if it is in force; the owner is told why."""
        record = await self.get(name)
        if record is None or not record.usable or record.digest != digest:
            return
        version = await self.version(name, digest)
        if version is not None:
            told = version.model_copy(update={"reason": "\n".join(why)})
            await self.database.transaction(
                lambda tx: self.save_version_in(tx, told), durability=Durability.TRUST
            )
        await self.change(
            record.model_copy(update={"state": SkillState.DISABLED, "activation": QUARANTINED}),
            "tool_server_quarantined",
        )

    async def put_in_force(
        self, record: SkillRecord, version: SkillVersion, event: str | None
    ) -> None:
        """A version comes into force: row, seal, version and audit entry in one transaction.

        None: whoever calls has an entry of their own that names it.
        """
        record = record.model_copy(update={"sealed": True})
        seal = await self.seal(record)
        entry = {
            "skill": record.name,
            "digest": record.digest,
            "previous": record.previous,
            "card_id": version.question_id,
        }

        def write(tx: Transaction) -> None:
            self.save_in(tx, record, seal)
            self.save_version_in(tx, version)
            if event is not None:
                self.audit.append(tx, event, entry)

        await self.database.transaction(write, durability=Durability.TRUST)
        await self.forget_versions(record.name, keep=(record.digest, record.previous))

    async def forget_versions(self, name: str, *, keep: Iterable[str | None]) -> None:
        """Erase every version of a skill but these, row and files."""
        kept = set(keep)
        gone = [each for each in await self.versions(name) if each.digest not in kept]

        def write(tx: Transaction) -> None:
            for each in gone:
                key = (each.name, each.digest)
                tx.execute("DELETE FROM skill_versions WHERE name = ? AND digest = ?", key)

        await self.database.transaction(write)
        for each in gone:
            await self.erase_unneeded(each.digest)
        await self.load()

    async def erase_unneeded(self, digest: str) -> None:
        """Erase the files of a version that neither waits nor is installed."""
        if await self.database.fetch_one(f"{_NEEDED} AND digest = ?", (digest,)) is None:
            await asyncio.to_thread(self.trees.erase, digest)

    async def versions(self, name: str) -> list[SkillVersion]:
        """Every version of a skill, newest first."""
        rows = await self.database.fetch_all(
            f"{_VERSIONS} WHERE name = ? ORDER BY created_at DESC, digest", (name,)
        )
        return [_version(row) for row in rows]

    async def version(self, name: str, digest: str) -> SkillVersion | None:
        """One version."""
        row = await self.database.fetch_one(
            f"{_VERSIONS} WHERE name = ? AND digest = ?", (name, digest)
        )
        return _version(row) if row else None

    async def proposed(self) -> list[SkillVersion]:
        """What waits for the owner."""
        rows = await self.database.fetch_all(
            f"{_VERSIONS} WHERE state = 'proposed' ORDER BY created_at, name"
        )
        return [_version(row) for row in rows]

    def save_version_in(self, tx: Transaction, version: SkillVersion) -> None:
        """Write down what became of a version."""
        report = json.dumps(version.report) if version.report is not None else None
        values = (version.name, version.digest, version.state.value, version.source)
        origin = version.origin.model_dump_json() if version.origin is not None else None
        told = (origin, version.question_id, report, json.dumps(version.trial), version.reason)
        tx.execute(_INSERT_VERSION, (*values, *told, format_timestamp(version.created_at)))

    async def note_used(self, names: Iterable[str]) -> None:
        """Work uses these now."""
        now = format_timestamp(self.clock.now())

        def write(tx: Transaction) -> None:
            for name in names:
                tx.execute("UPDATE skills SET last_used_at = ? WHERE name = ?", (now, name))

        await self.database.transaction(write)

    async def erase_leftovers(self) -> None:
        """Remove files that no row names, of what a crash has cut off."""
        rows = await self.database.fetch_all(_NEEDED)
        await asyncio.to_thread(self.trees.erase_others, [str(digest) for (digest,) in rows])

    def _effects_in(self, rows: Iterable[_SkillRow]) -> _Effects:
        return {tool.name: (row, tool.effect) for row in rows for tool in self._unsealed(row).tools}

    def _record(self, row: _SkillRow) -> SkillRecord:
        record, seal = self._unsealed(row), Seal(row.seal_key_id, row.seal)

        def ask() -> bool:
            fields = _sealed_fields(record)
            return Seals(self.keys).holds(seal, _SEALED, fields, at=record.changed_at)

        sealed = self._proven.holds(row._replace(last_used_at=None), seal, ask)
        return record.model_copy(update={"sealed": sealed})

    def _unsealed(self, row: _SkillRow) -> SkillRecord:
        known = self._read.get(row)
        if known is None:
            if len(self._read) >= _MOST_READ:
                self._read.clear()
            known = self._read[row] = row.record()
        return known


def _sealed_fields(record: SkillRecord) -> dict[str, Any]:
    """Everything that decides what may run."""
    return {
        "name": record.name,
        "state": record.state.value,
        "digest": record.digest or "",
        "previous": record.previous or "",
        "bundled": record.bundled,
        "description": record.description,
        "activation": record.activation,
        "tools": _TOOLS.dump_python(record.tools, mode="json"),
        "changed_at": format_timestamp(record.changed_at),
    }


def _version(row: Any) -> SkillVersion:
    name, digest, state, source, origin, question_id, report, trial, reason, created_at = row
    known: Mapping[str, Any] = {
        "origin": SkillOrigin.model_validate_json(origin) if origin else None,
        "report": json.loads(report) if report else None,
        "trial": json.loads(trial) if trial else [],
    }
    return SkillVersion(
        name=name,
        digest=digest,
        state=VersionState(state),
        source=source,
        question_id=question_id,
        reason=reason,
        created_at=parse_timestamp(created_at),
        **known,
    )
