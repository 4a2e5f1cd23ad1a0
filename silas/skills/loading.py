"""Installed skills as work sees them: which there are, what they say, which tools they bring.

`SkillLoader` and `SkillResolver` have the methods of the protocols 4.20 and 4.21.

1. A skill is what is installed, enabled, sealed and unchanged on the disk. Anything else is not
   there: neither for a plan, nor for a model.
2. Names are flat: one skill has a name. Bundled ones are installed like others, by `silas init`.
3. Who sees what: the proxy a name and a description, the planner the body as well, the worker the
   body, the paths of the scripts and the tools; checks see nothing.
4. `activation`: the planner chooses among `auto`. A `manual` skill is for plans in which the owner
   names it. A `background` one is read, and brings no tool.
5. What a start needs of a skill stands in its sealed row: name, description, activation, tools. Its
   files are all held against the digest that the row names, and parsed when somebody opens it.
6. The text of a skill is a stranger's for ever. It instructs the worker inside of its plan, and
   widens nothing: what may be done is decided where calls are reviewed.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

from silas.kernel import visible
from silas.kernel.models import Data
from silas.sandbox.models import SandboxRunner
from silas.skills.format import SKILL_FILE, Skill, read_skill
from silas.skills.importing import import_skill
from silas.skills.inspection import inspect_skill
from silas.skills.sidecar import Activation, SkillKind, SkillUi, script_file
from silas.skills.store import SkillRecord, SkillStore, SkillUnknown
from silas.skills.tools import skill_tools, unchanged
from silas.skills.tree import SkillChanged, SkillTreeRefused, read_file
from silas.tools.declaration import Tool, ToolRegistry

Connected = Callable[[Skill, Sequence[Tool]], Sequence[Tool]]
"""The tools of a connection as they are with the owner's accounts."""
Served = Callable[[Skill, Path], Sequence[Tool]]
"""The tools of a tool server, out of its folder."""
_AUTO = Activation.AUTO.value
EXECUTOR, PLANNER, PROXY = "executor", "planner", "proxy"
_MOST_CACHED = 2_000
"""More than anybody has: when they are full, everything is read anew."""

T = TypeVar("T")


class SkillMetadata(Data):
    """What a skill says of itself, without its instructions."""

    name: str
    description: str
    digest: str
    activation: Activation
    ui: SkillUi
    composes_with: tuple[str, ...]
    script_args: dict[str, dict[str, Any]]
    """The JSON schema of the arguments of each tool."""
    hosts: tuple[str, ...]


@dataclass
class SkillLoader:
    """Reads the skills that are installed (rule 1)."""

    store: SkillStore
    _read: dict[str, Skill] = field(default_factory=dict)
    """By digest: what has the same digest says the same."""

    async def scan(self) -> list[SkillRecord]:
        """Every skill that can be used, by name, as its sealed row says (rule 5)."""
        read = self.store.trees.read
        return [record for record, _tree in await self._each(lambda _name, digest: read(digest))]

    async def opened(self) -> list[Skill]:
        """Every skill that can be used, by name, with all that it says."""
        return [skill for _record, skill in await self._each(self._version)]

    async def load_metadata(self, skill_name: str) -> SkillMetadata:
        """What one skill says of itself; raises `SkillUnknown`."""
        return metadata_of(await self.load(skill_name))

    async def load_full(self, skill_name: str) -> str:
        """The whole `SKILL.md`; raises `SkillUnknown`."""
        skill = await self.load(skill_name)
        directory = self.store.trees.path(skill.digest)
        raw = await asyncio.to_thread(read_file, directory, skill.tree, SKILL_FILE)
        return raw.decode("utf-8")

    async def resolve_script(self, skill_name: str, script_path: str) -> str:
        """Where a script lies; raises `SkillTreeRefused` if it is no file of the skill."""
        skill = await self.load(skill_name)
        if script_path not in skill.scripts or script_path not in skill.tree.by_path:
            raise SkillTreeRefused(
                f"{visible(skill_name)} has no script {visible(script_path)}. "
                f"It has: {', '.join(skill.scripts) or 'none'}."
            )
        return str(self.store.trees.path(skill.digest) / script_path)

    async def validate(self, skill_name: str) -> dict[str, Any]:
        """What was found in an installed skill, as `silas skills check` reports it."""
        skill = await self.load(skill_name)
        directory = self.store.trees.path(skill.digest)
        report = await asyncio.to_thread(inspect_skill, directory)
        return report.model_dump(mode="json")

    async def import_external(
        self, source: str, format_hint: str | None = None, *, into: Path
    ) -> dict[str, Any]:
        """Adapt somebody else's skill into a folder; installs nothing. The report says how."""
        found = await asyncio.to_thread(import_skill, Path(source), into, hint=format_hint)
        return found.report.model_dump(mode="json")

    async def load(self, skill_name: str) -> Skill:
        """One skill that can be used; raises `SkillUnknown`."""
        record = await self.store.get(skill_name)
        skill = await self._skill(record) if record is not None and record.usable else None
        if skill is None:
            raise SkillUnknown(f"The skill {skill_name!a} is not installed, or not enabled.")
        return skill

    async def version(self, name: str, digest: str) -> Skill:
        """One version as it lies on the disk now; raises `SkillChanged`."""
        return await asyncio.to_thread(self._version, name, digest)

    async def _skill(self, record: SkillRecord) -> Skill | None:
        found = await self._unchanged([record], self._version)
        return found[0][1] if found else None

    async def _each(self, look: Callable[[str, str], T]) -> list[tuple[SkillRecord, T]]:
        """What `look` finds in every skill that can be used, by name and digest."""
        usable = [each for each in await self.store.listed() if each.usable]
        return await self._unchanged(usable, look)

    async def _unchanged(
        self, records: Sequence[SkillRecord], look: Callable[[str, str], T]
    ) -> list[tuple[SkillRecord, T]]:
        """Those whose files are as approved; all of them are read in one other thread."""
        found: list[tuple[SkillRecord, T]] = []
        changed: list[SkillRecord] = []

        def look_at_all() -> None:
            for each in records:
                try:
                    found.append((each, look(each.name, each.digest or "")))
                except SkillChanged:
                    changed.append(each)

        await asyncio.to_thread(look_at_all)
        for each in changed:
            await self.store.audit.log("skill_files_changed", skill=each.name, digest=each.digest)
        return found

    def _version(self, name: str, digest: str) -> Skill:
        tree = self.store.trees.read(digest)
        known = self._read.get(digest)
        if known is not None:
            return known
        skill = read_skill(self.store.trees.path(digest), tree, name=name)
        if len(self._read) >= _MOST_CACHED:
            self._read.clear()
        self._read[digest] = skill
        return skill


@dataclass(frozen=True)
class SkillResolver:
    """The skills of one piece of work; `SkillFiles` of `silas.work`."""

    loader: SkillLoader
    sandbox: SandboxRunner
    connected: Connected | None = None
    """None: there are no accounts, and connections bring no tools."""
    served: Served | None = None
    """None: there are no tool servers."""

    async def digest(self, name: str) -> str | None:
        """The version in force, if its files are unchanged."""
        return await self.loader.store.usable_digest(name)

    async def instructions(self, name: str) -> str:
        """The body for the worker, with where its scripts lie and which tools they are."""
        skill = await self.loader.load(name)
        directory = self.loader.store.trees.path(skill.digest)
        return "\n\n".join([skill.body, *_scripts(skill, directory)])

    def directories(self, hashes: Mapping[str, str]) -> list[str]:
        """What the sandbox shows read-only: the folders of exactly these versions."""
        return [str(self.loader.store.trees.path(digest)) for digest in hashes.values()]

    async def tools(self, hashes: Mapping[str, str]) -> Sequence[Tool]:
        """The tools of exactly these versions; whoever asks for them begins to use the skills."""
        found: list[Tool] = []
        for name, digest in hashes.items():
            skill = await self.loader.version(name, digest)
            if skill.sidecar.activation is not Activation.BACKGROUND:
                found += self._tools_of(skill)
        await self.loader.store.note_used(hashes)
        return found

    async def resolve_for_work_item(self, skills: Iterable[str]) -> list[SkillMetadata]:
        """What the skills of a piece of work say of themselves; it has inherited its parent's."""
        return [await self.loader.load_metadata(name) for name in skills]

    async def prepare_toolset(
        self,
        skill_hashes: Mapping[str, str],
        agent_role: str,
        base_toolset: ToolRegistry[Tool],
        allowed_tools: Iterable[str],
    ) -> ToolRegistry[Tool]:
        """The tools that this role has in this work: those of the skills are the worker's alone.

        The wrappers that prepare, filter and ask are built around it (`silas.agents.toolsets`).
        """
        more = await self.tools(skill_hashes) if agent_role == EXECUTOR else ()
        whole, allowed = base_toolset.with_tools(more), set(allowed_tools)
        return ToolRegistry([each for name, each in whole.tools.items() if name in allowed])

    async def described(self, first: Iterable[str] = ()) -> dict[str, str]:
        """Names and descriptions, for the proxy and the planner, the most important first.

        Those in `first`, then what was used last, then by name; only what may be chosen (rule 4).
        """
        named = dict.fromkeys(first)
        records = await self.loader.store.listed()
        wanted = {each.name: each for each in records if each.name in named and each.usable}
        chosen = [wanted[name] for name in named if name in wanted]
        others = [
            each
            for each in records
            if each.activation == _AUTO and each.usable and each.name not in named
        ]
        used = [(each.last_used_at, each) for each in others if each.last_used_at is not None]
        used.sort(key=itemgetter(0), reverse=True)
        # By name already, as they are listed; a name that stands there keeps its first place.
        ordered = (*chosen, *(each for _moment, each in used), *others)
        return {each.name: each.description for each in ordered}

    async def search(self, words: str, *, limit: int = 10) -> dict[str, str]:
        """The skills that the planner may choose whose name or description has these words."""
        wanted = {each.casefold() for each in words.split()}
        scored = []
        for name, description in (await self.described()).items():
            text = f"{name} {description}".casefold()
            hits = len([each for each in wanted if each in text])
            if hits:
                scored.append((-hits, name, description))
        return {name: description for _, name, description in sorted(scored)[:limit]}

    async def body(self, name: str) -> str:
        """The instructions for the planner, and what the skill goes together with."""
        skill = await self.loader.load(name)
        others = ", ".join(skill.sidecar.composes_with)
        tools = [
            f"- `{tool}`: {skill.sidecar.scripts[path].description}"
            for tool, path in skill.sidecar.tools.items()
        ]
        parts = [skill.body, *(["Its tools:\n" + "\n".join(tools)] if tools else [])]
        parts += [f"It goes together with: {others}."] if others else []
        return "\n\n".join(parts)

    def _tools_of(self, skill: Skill) -> Sequence[Tool]:
        trees = self.loader.store.trees
        if skill.sidecar.type is SkillKind.TOOL_SERVER:
            return self.served(skill, trees.path(skill.digest)) if self.served is not None else ()
        tools = skill_tools(
            skill,
            trees.path(skill.digest),
            sandbox=self.sandbox,
            require_unchanged=partial(unchanged, trees.read),
        )
        if skill.sidecar.type is not SkillKind.CONNECTION:
            return tools
        return self.connected(skill, tools) if self.connected is not None else ()


def metadata_of(skill: Skill) -> SkillMetadata:
    """What a skill says of itself."""
    sidecar = skill.sidecar
    return SkillMetadata(
        name=skill.name,
        description=skill.description,
        digest=skill.digest,
        activation=sidecar.activation,
        ui=sidecar.ui,
        composes_with=sidecar.composes_with,
        script_args={
            tool: sidecar.scripts[path].declaration(path).offer.parameters
            for tool, path in sidecar.tools.items()
        },
        hosts=sidecar.hosts,
    )


def _scripts(skill: Skill, directory: Path) -> list[str]:
    """Where the files of a skill lie in the sandbox, and which of them are tools."""
    tools: dict[str, list[str]] = {}
    for tool, entry in skill.sidecar.tools.items():
        tools.setdefault(script_file(entry), []).append(f"the tool `{tool}`")
    lines = [
        f"- {directory / path}" + (f" ({', '.join(tools[path])})" if path in tools else "")
        for path in skill.scripts
    ]
    where = f"The files of this skill are in {directory}, read-only."
    return [f"{where}\n" + "\n".join(lines)] if lines else [where]
