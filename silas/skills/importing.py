"""A stranger's skill becomes one of ours: read leniently, written strictly, every change told.

1. The dialect is detected (Silas, the open standard, Claude, Codex, OpenClaw, Hermes) or hinted.
2. The six keys of the standard stay; what Silas has a place for moves into `silas.yaml`; single
   values that nobody knows stay below `metadata`.
3. Whatever would act by itself is taken out and told as "asked for, not granted": hooks, install
   specs, commands inside of the text, schedules, variables that are handed over, tools that are
   approved beforehand, models and contexts of its own.
4. Scripts are declared as tools. The arguments of Python scripts are read out of their own
   `argparse`. A shell or JavaScript script with a fixed number of words gets a Python entry point
   with explicit arguments; every other one runs as it is, in the sandbox. The report says which.
5. Files with credentials stay behind; credentials inside of other files are blanked.
6. A skill that is ours already comes out as it went in: importing twice changes nothing.
"""

import json
import re
import tempfile
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Any

import yaml
from pydantic import ValidationError

from silas.kernel.models import Data
from silas.skills.command_rules import secrets_in
from silas.skills.entry_points import (
    EFFECT_OF_IMPORTED,
    INTERPRETERS,
    other_declaration,
    python_declaration,
)
from silas.skills.format import (
    MAX_SKILL_FILE_BYTES,
    SIDECAR_FILE,
    SKILL_FILE,
    Skill,
    SkillInvalid,
    SkillManifest,
    lenient_front_matter,
    parse_sidecar,
    parse_skill,
    write_skill,
)
from silas.skills.sidecar import ScriptDeclaration, SkillSidecar, script_file
from silas.skills.tree import (
    MAX_FILES,
    MAX_TREE_BYTES,
    SkillTreeRefused,
    copy_tree,
    find_skill,
    path_problem,
    plain_files,
    unpack_archive,
)
from silas.storage.trees import shown


class SkillDialect(StrEnum):
    """Whose way of writing skills it is."""

    SILAS = "silas"
    STANDARD = "standard"
    CLAUDE = "claude"
    CODEX = "codex"
    OPENCLAW = "openclaw"
    HERMES = "hermes"


class AskedFor(Data):
    """Something that a skill asks for and does not get."""

    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.what}: {self.why}"


class RewrittenScript(Data):
    """What became of a script that is no Python."""

    script: str
    entry: str | None
    """The Python file that runs it; None: it runs as it is."""
    how: str


class TransformationReport(Data):
    """What an import has changed, for the owner who is to decide."""

    name: str
    dialect: SkillDialect
    source: str
    commit: str | None = None
    kept: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    """Keys that stand in `silas.yaml` now."""
    translated: tuple[str, ...] = ()
    removed: tuple[AskedFor, ...] = ()
    """Asked for, not granted."""
    rewritten: tuple[RewrittenScript, ...] = ()
    unresolved: tuple[str, ...] = ()
    """What a person has to look at."""

    @property
    def not_granted(self) -> tuple[str, ...]:
        """The same in sentences."""
        return tuple(map(str, self.removed))


@dataclass(frozen=True)
class ImportedSkill:
    """A skill in our form, and what was changed on the way."""

    directory: Path
    foreign: bool
    """It was not written for Silas."""
    report: TransformationReport


def import_skill(
    source: Path,
    into: Path,
    *,
    hint: str | None = None,
    commit: str | None = None,
    source_name: str | None = None,
) -> ImportedSkill:
    """Take a skill from a folder or an archive; it stands below `into` afterwards, by its name.

    `commit` and `source_name` say where the folder was fetched.
    """
    into.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".unpacked-", dir=into) as place:
        folder = unpack_archive(source, Path(place) / "all") if source.is_file() else source
        name = source_name or str(source)
        report = transform(find_skill(folder), into, hint, source_name=name, commit=commit)
    return ImportedSkill(into / report.name, report.dialect is not SkillDialect.SILAS, report)


def transform(
    source: Path,
    into: Path,
    hint: str | None = None,
    *,
    source_name: str | None = None,
    commit: str | None = None,
) -> TransformationReport:
    """Write the skill in `source` as one of ours below `into`, in a folder with its name."""
    into.mkdir(mode=0o700, parents=True, exist_ok=True)
    own = _own_skill(source)
    if own is not None and hint in (None, SkillDialect.SILAS):
        copy_tree(source, own.tree, into / own.name)
        return TransformationReport(
            name=own.name,
            dialect=SkillDialect.SILAS,
            source=source_name or str(source),
            commit=commit,
            kept=tuple(file.path for file in own.tree.files),
        )
    work = _Transformation(source, hint)
    work.run(into)
    return TransformationReport(
        name=work.name,
        dialect=work.dialect,
        source=source_name or str(source),
        commit=commit,
        kept=tuple(work.kept),
        moved=tuple(work.moved),
        translated=tuple(work.translated),
        removed=tuple(work.removed),
        rewritten=tuple(work.rewritten),
        unresolved=tuple(work.unresolved),
    )


def _own_skill(source: Path) -> Skill | None:
    """The skill if nothing has to be changed about it (rule 6)."""
    try:
        skill = parse_skill(source)
    except (SkillInvalid, SkillTreeRefused):
        return None
    left_behind = any(_left_behind(file.path) for file in skill.tree.files)
    left_behind = left_behind or _OPENAI_FILE in skill.tree.by_path
    foreign = skill.manifest.allowed_tools is not None or _INLINE.search(skill.body)
    declared = SIDECAR_FILE in skill.tree.by_path or not skill.scripts
    return skill if declared and not left_behind and not foreign else None


_INLINE = re.compile(r"(?m)(^|[\s(])!`([^`\n]{1,2000})`")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_OPENAI_FILE = "agents/openai.yaml"
_HOOK_FILES = {"hooks.json", ".mcp.json", "settings.json", "settings.local.json", "plugin.json"}
_KEY_FILES = re.compile(
    r"(?:^|/)(?:\.env(?:\.(?!example|sample|template)[\w.-]+)?|id_(?:rsa|dsa|ecdsa|ed25519)"
    r"|\.netrc|\.npmrc|\.pypirc|credentials(?:\.json)?|.*\.(?:pem|p12|pfx|key|keystore|jks))$",
    re.IGNORECASE,
)
_JUNK = {".git", "__pycache__", ".DS_Store", ".venv", "node_modules", ".idea", ".vscode", ".github"}
_BLANKED = "REMOVED-BY-IMPORT"


def _left_behind(path: str) -> str | None:
    """Why a file is not taken along, or None."""
    parts = PurePosixPath(path).parts
    if _JUNK.intersection(parts):
        return "it is no part of a skill"
    if parts[-1] in _HOOK_FILES and (
        len(parts) == 1 or parts[0] in ("hooks", ".claude", ".claude-plugin")
    ):
        return "it would act by itself"
    return "it holds credentials" if _KEY_FILES.search(path) else None


# Which keys go where: `None` drops them with the reason.
_NOT_GRANTED = {
    "allowed-tools": "tools are approved when they are used, not beforehand",
    "allowed_tools": "tools are approved when they are used, not beforehand",
    "tools": "tools are approved when they are used, not beforehand",
    "hooks": "nothing of a skill runs by itself",
    "context": "the runtime decides in which context work is done",
    "agent": "the runtime decides who does the work",
    "model": "the owner chooses the models",
    "effort": "the owner chooses how much a model thinks",
    "install": "Silas installs nothing for a skill",
    "always": "a skill belongs to the work that names it",
    "schedule": "only a goal that the owner has approved has a schedule",
    "blueprint": "only a goal that the owner has approved has a schedule",
    "command-dispatch": "a skill adds no commands",
    "command-tool": "a skill adds no commands",
    "mcpServers": "a tool server is approved by itself",
    "mcp": "a tool server is approved by itself",
    "requires_toolsets": "tools are chosen by the plan",
    "fallback_for_toolsets": "tools are chosen by the plan",
    "fallback_for_tools": "tools are chosen by the plan",
    "permissions": "rights are given by the owner, on the card",
}
_OWN_KEYS = ("activation", "ui", "composes_with", "type", "auth_strategy", "hosts")
_CLAUDE_KEYS = {"disable-model-invocation", "user-invocable", "argument-hint", "context", "hooks"}
_CLAUDE_KEYS |= {"model", "effort", "agent"}
_HERMES_KEYS = {"platforms", "required_environment_variables", "prerequisites"}
_OPENCLAW_NAMES = ("openclaw", "clawdbot", "clawdis", "moltbot")


@dataclass
class _Transformation:
    """One import, step by step."""

    source: Path
    hint: str | None
    name: str = ""
    dialect: SkillDialect = SkillDialect.STANDARD
    kept: list[str] = field(default_factory=list)
    moved: list[str] = field(default_factory=list)
    translated: list[str] = field(default_factory=list)
    removed: list[AskedFor] = field(default_factory=list)
    rewritten: list[RewrittenScript] = field(default_factory=list)
    unresolved: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    programs: set[str] = field(default_factory=set)
    metadata: dict[str, str] = field(default_factory=dict)
    sidecar: dict[str, Any] = field(default_factory=dict)

    def run(self, into: Path) -> None:
        self._take_files()
        text = self._skill_file()
        front, body = lenient_front_matter(text)
        # An escape in the YAML brings in what the text itself did not hold.
        front = _without_control(front)
        self.dialect = SkillDialect(self.hint) if self.hint else self._detect(front, body)
        if not front:
            self.unresolved.append("There is no front matter; name and description were made up.")
        self._existing_sidecar()
        manifest = self._manifest(front, body)
        for key, value in front.items():
            self._key(key, value)
        self._openai_file()
        body = self._body(body)
        if "scripts" not in self.sidecar:
            self._scripts(body)
        self._requirements_file()
        self._write(into, manifest, body)

    # Files (rules 3 and 5)

    def _take_files(self) -> None:
        total = 0
        for path, raw, executable in self._plain_files():
            why = _left_behind(path)
            if why is not None:
                if not _JUNK.intersection(PurePosixPath(path).parts):
                    self.removed.append(AskedFor(what=f"the file {path}", why=why))
                continue
            total += len(raw)
            if total > MAX_TREE_BYTES or len(self.files) >= MAX_FILES:
                raise SkillTreeRefused("The folder is too large for a skill: leave data out of it.")
            self.files[path] = self._blanked(path, raw)
            if executable:
                self.programs.add(path)

    def _plain_files(self) -> Iterator[tuple[str, bytes, bool]]:
        for path, content, executable in plain_files(self.source, without=_JUNK):
            if isinstance(content, bytes):
                yield path, content, executable
            else:
                self.removed.append(AskedFor(what=f"{shown(path, most=100)}", why=content))

    def _blanked(self, path: str, raw: bytes) -> bytes:
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            return raw
        clean = text
        for _format, found in secrets_in(text):
            clean = clean.replace(found[0], _BLANKED)
        if clean == text:
            return raw
        what = f"a credential in {path}"
        self.removed.append(AskedFor(what=what, why="credentials are not taken in; it was blanked"))
        return clean.encode()

    def _skill_file(self) -> str:
        name = next((each for each in self.files if each.lower() == SKILL_FILE.lower()), None)
        if name is None:
            raise SkillTreeRefused(f"{self.source} holds no {SKILL_FILE}.")
        raw = self.files.pop(name)
        if len(raw) > MAX_SKILL_FILE_BYTES:
            raise SkillTreeRefused(f"{name} is too long. Put details into files below references/.")
        text = raw.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
        clean = _CONTROL.sub("", text.removeprefix("\ufeff"))
        if len(clean) != len(text.removeprefix("\ufeff")):
            self.translated.append(f"{name}: control characters were taken out")
        return clean

    def _existing_sidecar(self) -> None:
        raw = self.files.pop(SIDECAR_FILE, None)
        if raw is None:
            return
        try:
            sidecar = parse_sidecar(raw.decode("utf-8", "replace"))
        except SkillInvalid:
            self.unresolved.append(f"{SIDECAR_FILE} could not be read and was left out.")
            return
        self.sidecar = sidecar.model_dump(mode="json", exclude_defaults=True)
        self.kept.append(SIDECAR_FILE)

    def _detect(self, front: Mapping[str, Any], body: str) -> SkillDialect:
        inner = front.get("metadata")
        named = str(inner) if inner is not None else ""
        if any(name in named for name in _OPENCLAW_NAMES) or "command-dispatch" in front:
            return SkillDialect.OPENCLAW
        if "hermes" in named or _HERMES_KEYS & front.keys():
            return SkillDialect.HERMES
        if _OPENAI_FILE in self.files:
            return SkillDialect.CODEX
        rights = str(front.get("allowed-tools", ""))
        if _CLAUDE_KEYS & front.keys() or "(" in rights or _INLINE.search(body):
            return SkillDialect.CLAUDE
        own = SIDECAR_FILE in self.files or {"script_args", "activation"} & front.keys()
        return SkillDialect.SILAS if own else SkillDialect.STANDARD

    # Keys (rules 2 and 3)

    def _manifest(self, front: Mapping[str, Any], body: str) -> dict[str, Any]:
        given = str(front.get("name") or self.source.resolve().name)
        self.name = skill_name(given)
        if self.name != given:
            self.translated.append(f"name: {shown(given, most=80)!r} became {self.name!r}")
        description = _one_text(front.get("description")).strip()
        if not description:
            description = _first_paragraph(body) or "No description was given by its author."
            self.unresolved.append("The description was missing; check the one that was made up.")
        if len(description) > 1024:
            description = f"{description[:1020].rsplit(' ', 1)[0]} ..."
            self.translated.append("description: shortened to 1024 characters")
        values: dict[str, Any] = {"name": self.name, "description": description}
        for key in ("license", "compatibility"):
            text = _one_text(front.get(key)).strip()[:500]
            if text:
                values[key] = text
        self.kept += [key for key in ("name", "description", *values) if key not in self.kept]
        return values

    def _key(self, key: str, value: Any) -> None:
        if key in ("name", "description", "license", "compatibility"):
            return
        if key == "metadata":
            self._metadata(value)
        elif key in _NOT_GRANTED:
            self._refuse(key, value)
        elif key in _OWN_KEYS:
            self._move(key, value)
        elif key == "script_args":
            self._script_args(value)
        elif key in ("initial_permissions", "available_permissions"):
            inner = self.sidecar.setdefault("permissions", {})
            inner[key.removesuffix("_permissions")] = _texts(value)
            self.moved.append(key)
        elif key in ("requirements", "requires", "prerequisites"):
            self._requirements(value)
        elif key == "required_environment_variables":
            self._environment(value)
        else:
            self._foreign(key, value)

    def _refuse(self, key: str, value: Any) -> None:
        entries = value if isinstance(value, list) and key == "install" else [value]
        for each in entries or [value]:
            what = f"{key}: {_short(each)}"
            self.removed.append(AskedFor(what=what, why=_NOT_GRANTED[key]))

    def _move(self, key: str, value: Any) -> None:
        self.sidecar.setdefault(key, value)
        self.moved.append(key)

    def _foreign(self, key: str, value: Any) -> None:
        if key in ("disable-model-invocation", "user-invocable"):
            asks = str(value).lower() == ("true" if key.startswith("disable") else "false")
            if asks:
                wanted = "manual" if key.startswith("disable") else "background"
                self.sidecar["activation"] = wanted
                self.translated.append(f"{key}: became `activation: {wanted}`")
        elif key in ("platforms", "os"):
            self._require("other", [f"platforms: {', '.join(_texts(value))}"])
        elif isinstance(value, str):
            if value.strip():
                self.metadata[key] = value.strip()[:500]
                self.translated.append(f"{key}: kept below `metadata`")
        elif isinstance(value, list) and all(isinstance(each, str) for each in value):
            self.metadata[key] = ", ".join(value)[:500]
            self.translated.append(f"{key}: kept below `metadata`")
        else:
            self.unresolved.append(f"Nobody knows what `{key}` means; it was left out.")

    def _metadata(self, value: Any) -> None:
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                value = {"note": value} if value else {}
        for key, inner in value.items() if isinstance(value, dict) else ():
            if key in (*_OPENCLAW_NAMES, "hermes") and isinstance(inner, dict):
                for name, each in inner.items():
                    self._dialect_key(name, each)
            elif isinstance(inner, str):
                self.metadata[key] = inner
            else:
                self._foreign(key, inner)
        if value:
            self.kept.append("metadata")

    def _dialect_key(self, key: str, value: Any) -> None:
        if key == "requires":
            self._requirements(value)
        elif key == "primaryEnv":
            self._require("environment", _texts(value))
        elif key == "related_skills":
            names = [name for each in _texts(value) if (name := skill_name(each))]
            self.sidecar.setdefault("composes_with", names)
            self.translated.append("related_skills: became `composes_with`")
        elif key == "config":
            self._require("other", [f"settings of its own: {_short(value)}"])
        elif key in _NOT_GRANTED:
            self._refuse(key, value)
        else:
            self._foreign(key, value)

    def _requirements(self, value: Any) -> None:
        if not isinstance(value, dict):
            self._require("other", _texts(value))
            return
        places = {
            "bins": "programs",
            "anyBins": "programs",
            "commands": "programs",
            "programs": "programs",
            "env": "environment",
            "env_vars": "environment",
            "environment": "environment",
            "packages": "packages",
            "python": "packages",
        }
        for key, inner in value.items():
            self._require(places.get(key, "other"), _texts(inner))

    def _environment(self, value: Any) -> None:
        entries = value if isinstance(value, list) else [value]
        names = [
            str(each.get("name", "")) if isinstance(each, dict) else str(each) for each in entries
        ]
        self._require("environment", names)
        what = f"required_environment_variables: {', '.join(filter(None, names))}"
        why = "no variable is handed over by itself; a credential is never handed to a script"
        self.removed.append(AskedFor(what=what, why=why))

    def _require(self, place: str, entries: list[str]) -> None:
        known = self.sidecar.setdefault("requirements", {}).setdefault(place, [])
        for each in entries:
            line = " ".join(each.split())[:300]
            fits = place != "environment" or re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,127}", line)
            if line and fits and line not in known and len(known) < 100:
                known.append(line)
        if entries and f"requirements.{place}" not in self.moved:
            self.moved.append(f"requirements.{place}")

    def _script_args(self, value: Any) -> None:
        scripts = self.sidecar.setdefault("scripts", {})
        for path, arguments in value.items() if isinstance(value, dict) else ():
            purpose = f"Runs {path}."
            scripts[path] = {"description": purpose, "arguments": arguments, **EFFECT_OF_IMPORTED}
        self.moved.append("script_args")

    def _openai_file(self) -> None:
        raw = self.files.pop(_OPENAI_FILE, None)
        if raw is None:
            return
        try:
            values = yaml.load(raw.decode("utf-8", "replace"), Loader=yaml.BaseLoader)  # noqa: S506
        except yaml.YAMLError:
            values = None
        face = values.get("interface") if isinstance(values, dict) else None
        ui = self.sidecar.setdefault("ui", {})
        for key in ("display_name", "short_description"):
            if isinstance(face, dict) and isinstance(face.get(key), str):
                ui.setdefault(
                    key, " ".join(face[key].split())[: 80 if key == "display_name" else 200]
                )
        icon = str(face.get("icon_small") or "") if isinstance(face, dict) else ""
        if icon.removeprefix("./") in self.files:
            ui.setdefault("icon", icon)
        policy = values.get("policy") if isinstance(values, dict) else None
        if isinstance(policy, dict) and str(policy.get("allow_implicit_invocation")) == "false":
            self.sidecar["activation"] = "manual"
        if isinstance(values, dict) and "dependencies" in values:
            what = f"dependencies: {_short(values['dependencies'])}"
            self.removed.append(AskedFor(what=what, why="a tool server is approved by itself"))
        self.translated.append(
            "agents/openai.yaml: its names moved into `ui`, the rest was left out"
        )

    def _body(self, body: str) -> str:
        for found in _INLINE.finditer(body):
            what = f"the command `{found[2]}` inside of the text"
            self.removed.append(AskedFor(what=what, why="nothing is run when a skill is read"))
        return _INLINE.sub(r"\1`\2`", body).strip("\n")

    # Scripts (rule 4)

    def _scripts(self, body: str) -> None:
        declared: dict[str, Any] = {}
        names: set[str] = set()
        for path in sorted(self.files):
            if not path.startswith("scripts/") or path in declared or len(declared) >= 90:
                continue
            ending = PurePosixPath(path).suffix
            if ending == ".py" and PurePosixPath(path).name not in ("__init__.py", "conftest.py"):
                entry, script = path, python_declaration(path, self.files[path], body)
            elif ending in INTERPRETERS:
                entry, script = self._other_script(path, body)
            else:
                continue
            name = script.tool_name(entry)
            if name in names:
                script = script.model_copy(update={"tool": f"{name}_{len(names)}"[:64]})
            names.add(script.tool_name(entry))
            declared[entry] = script.model_dump(mode="json", exclude_defaults=True)
        if declared:
            self.sidecar["scripts"] = declared
            self.moved.append("scripts")

    def _other_script(self, path: str, body: str) -> tuple[str, ScriptDeclaration]:
        made = other_declaration(path, self.files[path], body, taken=self.files.keys())
        if made.source is not None:
            self.files[made.entry] = made.source
        entry = made.entry if made.source is not None else None
        self.rewritten.append(RewrittenScript(script=path, entry=entry, how=made.how))
        return made.entry, made.declaration

    def _requirements_file(self) -> None:
        for path in ("requirements.txt", "scripts/requirements.txt"):
            lines = self.files.get(path, b"").decode("utf-8", "replace").split("\n")
            self._require("packages", [line.split("#")[0].strip() for line in lines if line])

    def _write(self, into: Path, values: dict[str, Any], body: str) -> None:
        manifest = SkillManifest(
            **values, metadata={key: text for key, text in self.metadata.items() if key}
        )
        for path in list(self.files):
            problem = path_problem(path)
            if problem is not None:
                self.unresolved.append(f"{shown(path, most=100)} was left out: {problem}.")
                del self.files[path]
        sidecar = self._checked_sidecar()
        self.kept += sorted(self.files)
        write_skill(
            into / self.name,
            manifest,
            body=body,
            sidecar=sidecar,
            files=self.files,
            executable=self.programs & self.files.keys(),
        )

    def _checked_sidecar(self) -> SkillSidecar:
        """The sidecar without the parts that cannot be used; each is told."""
        values = _without_empty(self.sidecar)
        for _round in range(len(values) + 1):
            try:
                sidecar = SkillSidecar.model_validate_json(json.dumps(values))
            except ValidationError as error:
                for key in {
                    str(each["loc"][0]) if each["loc"] else "auth_strategy"
                    for each in error.errors()
                }:
                    values.pop(key, None)
                    self.unresolved.append(f"`{key}` could not be used and was left out.")
                continue
            missing = [path for path in sidecar.scripts if script_file(path) not in self.files]
            kept = {
                path: each
                for path, each in sidecar.scripts.items()
                if script_file(path) in self.files
            }
            self.unresolved += [f"{path} is declared, but not there." for path in missing]
            ui = sidecar.ui
            if ui.icon and ui.icon.removeprefix("./") not in self.files:
                ui = ui.model_copy(update={"icon": None})
            return sidecar.model_copy(update={"scripts": kept, "ui": ui})
        return SkillSidecar()


# Small parts


def skill_name(text: str) -> str:
    """A name in the form that the standard asks for."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    name = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:64].strip("-")
    return name or "imported-skill"


def _one_text(value: Any) -> str:
    return " ".join(value.split()) if isinstance(value, str) else ""


def _texts(value: Any) -> list[str]:
    if isinstance(value, list):
        return [text for each in value for text in _texts(each)]
    if isinstance(value, dict):
        return [f"{key}: {_short(each)}" for key, each in value.items()]
    return [str(value)] if value not in (None, "") else []


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return shown(" ".join(text.split()), most=160)


def _first_paragraph(body: str) -> str:
    lines = [line.strip() for line in body.split("\n")]
    return next((line for line in lines if len(line) >= 24 and line[0].isalpha()), "")[:500]


def _without_control(value: Any) -> Any:
    if isinstance(value, dict):
        return {_without_control(key): _without_control(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_without_control(each) for each in value]
    return _CONTROL.sub("", value) if isinstance(value, str) else value


def _without_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: each for key, each in values.items() if each not in ({}, [], "", None)}
