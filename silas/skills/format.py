"""A skill read and written: `SKILL.md` as the open standard has it, and `silas.yaml` beside it.

1. `SKILL.md` is UTF-8 with `\\n` at the ends of its lines. Its first line is `---` and nothing
   else; the next such line ends the front matter. What follows is the body.
2. The front matter has the six keys of the standard. Silas' own fields stand in `silas.yaml`.
3. A file that two readers understand differently is refused, with the reason: where three hyphens
   stand inside of the front matter (other readers split there), and where YAML 1.1 and 1.2 give
   different values (`yes`, `012`, a date, a key that stands twice).
4. The name is the directory's. Paths that `silas.yaml` names are files of the skill.
5. What Silas writes follows all of this, and is read again before it counts as written.

Importing (`silas.skills.importing`) is lenient; nothing here is.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from silas.kernel import SkillError
from silas.kernel.models import Data, FieldPath, dotted, problems_in
from silas.kernel.yaml_positions import YamlDocument, YamlError, YamlLimits, load_yaml
from silas.skills.sidecar import SkillKind, SkillName, SkillSidecar, script_file
from silas.skills.tree import SkillTree, read_file, read_tree, write_tree

SKILL_FILE = "SKILL.md"
SIDECAR_FILE = "silas.yaml"
MAX_SKILL_FILE_BYTES = 512 * 1024
STANDARD_KEYS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
FENCE = "---"

_LIMITS = YamlLimits(characters=200_000, depth=12, values=5_000)
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]")

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, order=True)
class SkillProblem:
    """One thing that is wrong with a skill: where it stands, and what would be right."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.message}"


class SkillInvalid(SkillError):
    """The skill cannot be read in exactly one way. Correct the lines that are named."""

    code = "E_SKILL_FORMAT"

    def __init__(self, problems: Iterable[SkillProblem]) -> None:
        self.problems = tuple(sorted(set(problems)))
        count = "a problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        lines = "".join(f"\n  {problem}" for problem in self.problems)
        super().__init__(
            f"The skill has {count}:{lines}", problems=[asdict(each) for each in self.problems]
        )


class SkillManifest(Data):
    """The front matter of `SKILL.md`."""

    model_config = ConfigDict(populate_by_name=True)

    name: SkillName
    description: Annotated[str, Field(min_length=1, max_length=1024)]
    license: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    compatibility: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    metadata: dict[str, str] = Field(default_factory=dict)
    allowed_tools: Annotated[str, Field(min_length=1, max_length=1000)] | None = Field(
        default=None, alias="allowed-tools"
    )
    """Tools that the author would like to see approved beforehand. Silas grants none of them."""


@dataclass(frozen=True)
class SkillText:
    """The parts of a `SKILL.md`. The front matter starts in line 2."""

    front_matter: str
    body: str
    body_line: int


@dataclass(frozen=True)
class Skill:
    """A skill: what it says of itself, its instructions, and all of its files."""

    manifest: SkillManifest
    sidecar: SkillSidecar
    body: str
    tree: SkillTree

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def description(self) -> str:
        return self.manifest.description

    @property
    def digest(self) -> str:
        """What an approval of this skill is bound to."""
        return self.tree.digest

    @property
    def reaches_out(self) -> bool:
        """Whether its scripts reach anything outside of their sandbox: hosts, or an account."""
        return bool(self.sidecar.hosts) or self.sidecar.type is SkillKind.CONNECTION

    @property
    def scripts(self) -> tuple[str, ...]:
        """Everything below `scripts/`, and what is declared as a tool."""
        inside = {file.path for file in self.tree.files if file.path.startswith("scripts/")}
        return tuple(sorted(inside | {script_file(each) for each in self.sidecar.scripts}))


def parse_skill(directory: Path, *, name: str | None = None) -> Skill:
    """Read a skill strictly; raises `SkillInvalid` or `SkillTreeRefused`.

    `name` is the name that it must have; unless given, that of its directory.
    """
    tree = read_tree(directory)
    return read_skill(directory, tree, name=name or directory.name)


def read_skill(directory: Path, tree: SkillTree, *, name: str) -> Skill:
    """Read a skill whose tree is known; raises `SkillChanged` if it is another one by now."""
    if SKILL_FILE not in tree.by_path:
        raise _invalid(SKILL_FILE, 1, "there is no such file; a skill begins with it")
    text = split_skill(_decoded(read_file(directory, tree, SKILL_FILE), SKILL_FILE))
    manifest = _manifest(text)
    if manifest.name != name:
        message = f"name: must be {name!r}, as the directory is called, not {manifest.name!r}"
        raise _invalid(SKILL_FILE, 2, message)
    sidecar = SkillSidecar()
    if SIDECAR_FILE in tree.by_path:
        sidecar = parse_sidecar(_decoded(read_file(directory, tree, SIDECAR_FILE), SIDECAR_FILE))
    _check_paths(sidecar, tree)
    return Skill(manifest=manifest, sidecar=sidecar, body=text.body, tree=tree)


def split_skill(text: str) -> SkillText:
    """The front matter and the body; raises `SkillInvalid` where readers would differ (rule 3)."""
    lines = text.split("\n")
    if lines[0] != FENCE:
        message = "the first line must be `---` and nothing else, with YAML below it"
        raise _invalid(SKILL_FILE, 1, message)
    end = next((at for at, line in enumerate(lines[1:], 1) if line == FENCE), None)
    if end is None:
        raise _invalid(SKILL_FILE, 1, "the front matter is not closed by a line `---`")
    for number, line in enumerate(lines[1:end], 2):
        if FENCE in line:
            message = (
                "`---` stands inside of the front matter, and other readers end it there; "
                "write other hyphens, or leave it out"
            )
            raise _invalid(SKILL_FILE, number, message)
        if line.startswith("..."):
            raise _invalid(SKILL_FILE, number, "`...` ends a YAML document; leave it out")
    body = "\n".join(lines[end + 1 :])
    return SkillText("\n".join(lines[1:end]) + "\n", body.strip("\n"), end + 2)


def lenient_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """What a foreign `SKILL.md` seems to say: its front matter and its body, whatever is wrong.

    Values are as they are written (`1.10` stays `1.10`), because nobody knows what was meant.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if lines[0].rstrip() != FENCE:
        return {}, "\n".join(lines)
    end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() == FENCE), None)
    if end is None:
        return {}, "\n".join(lines[1:])
    body = "\n".join(lines[end + 1 :])
    return _lenient_values("\n".join(lines[1:end])), body


def _lenient_values(text: str) -> dict[str, Any]:
    if len(text) > _LIMITS.characters or re.search(r"(?m)[:\-]\s*&\w", text):
        return {}
    try:
        value = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 - gives texts alone
    except (yaml.YAMLError, ValueError, RecursionError):
        # Mostly a colon in a description: every line of the top level by itself.
        plain = re.findall(r"(?m)^([A-Za-z][\w-]*):[ \t]*(.*)$", text)
        value = {key: rest.strip().strip("\"'") for key, rest in plain if rest.strip()}
    return {str(key): each for key, each in value.items()} if isinstance(value, dict) else {}


def parse_sidecar(text: str) -> SkillSidecar:
    """The content of `silas.yaml`; raises `SkillInvalid`."""
    document = _yaml(text, SIDECAR_FILE, first_line=1)
    value = {} if document.value is None else document.value
    return _model(SkillSidecar, value, document, SIDECAR_FILE)


def _manifest(text: SkillText) -> SkillManifest:
    document = _yaml(text.front_matter, SKILL_FILE, first_line=2)
    if isinstance(document.value, dict):
        unknown = [key for key in document.value if key not in STANDARD_KEYS]
        if unknown:
            raise SkillInvalid(
                SkillProblem(
                    SKILL_FILE,
                    document.key_position((key,)).line,
                    f"`{key}` is no key of the standard; put Silas' own into {SIDECAR_FILE}, "
                    "and everything else below `metadata`",
                )
                for key in unknown
            )
    return _model(SkillManifest, document.value, document, SKILL_FILE)


def _model(model: type[M], value: Any, document: YamlDocument, file: str) -> M:
    if not isinstance(value, dict):
        raise _invalid(file, 1, "must be a mapping: lines such as `key: value`")
    try:
        # As JSON, so that a list may stand for a tuple and a text for one of several words, and
        # nothing else is taken for something that it is not.
        return model.model_validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        raise SkillInvalid(
            SkillProblem(file, _line(document, path), f"{dotted(path)}: {message}")
            for path, message in problems_in(error)
        ) from error


def _line(document: YamlDocument, path: FieldPath) -> int:
    return document.key_position(path).line


def _yaml(text: str, file: str, *, first_line: int) -> YamlDocument:
    try:
        document = load_yaml(text, limits=_LIMITS, first_line=first_line)
    except YamlError as error:
        raise SkillInvalid(
            SkillProblem(file, each.position.line, each.message) for each in error.problems
        ) from error
    try:
        other = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:
        raise _invalid(file, first_line, f"other readers refuse this YAML ({error})") from error
    path = _difference(document.value, other)
    if path is not None:
        message = f"{dotted(path)}: readers of YAML disagree about this value; put it in quotes"
        raise _invalid(file, _line(document, path), message)
    return document


def _difference(one: Any, other: Any, path: FieldPath = ()) -> FieldPath | None:
    """Where the two values differ first, or None."""
    if type(one) is not type(other):
        return path
    if isinstance(one, dict):
        if list(one) != list(other):
            return path
        found = (_difference(one[key], other[key], (*path, key)) for key in one)
    elif isinstance(one, list):
        if len(one) != len(other):
            return path
        found = (_difference(each, other[at], (*path, at)) for at, each in enumerate(one))
    else:
        return None if one == other else path
    return next((each for each in found if each is not None), None)


def _check_paths(sidecar: SkillSidecar, tree: SkillTree) -> None:
    scripts = {script_file(each): None for each in sidecar.scripts}
    named = [*scripts, *([sidecar.ui.icon] if sidecar.ui.icon else [])]
    missing = [path for path in named if path.removeprefix("./") not in tree.by_path]
    if missing:
        raise SkillInvalid(
            SkillProblem(SIDECAR_FILE, 1, f"{path!r} is no file of the skill") for path in missing
        )


def _decoded(raw: bytes, file: str) -> str:
    if len(raw) > MAX_SKILL_FILE_BYTES:
        raise _invalid(file, 1, f"has more than {MAX_SKILL_FILE_BYTES // 1024} KB; shorten it")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise _invalid(file, line, "this is not UTF-8 text; save the file as UTF-8") from error
    hidden = _CONTROL.search(text)
    if hidden:
        line = text[: hidden.start()].count("\n") + 1
        what = "ends its lines with `\\r`; save it with `\\n` alone"
        if hidden[0] != "\r":
            what = f"contains the control character {hidden[0]!a}; remove it"
        raise _invalid(file, line, what)
    return text


def _invalid(file: str, line: int, message: str) -> SkillInvalid:
    return SkillInvalid([SkillProblem(file, line, message)])


# Writing


def write_skill(
    directory: Path,
    manifest: SkillManifest,
    *,
    body: str,
    sidecar: SkillSidecar | None = None,
    files: Mapping[str, bytes] | None = None,
    executable: Iterable[str] = (),
) -> Skill:
    """Write a skill into a new directory with its name, and read it again (rule 5)."""
    content = dict(files or {})
    content[SKILL_FILE] = skill_text(manifest, body).encode()
    own = sidecar_text(sidecar or SkillSidecar())
    if own:
        content[SIDECAR_FILE] = own.encode()
    _check_written(manifest, sidecar or SkillSidecar(), content)
    tree = write_tree(directory, content, executable=executable)
    return read_skill(directory, tree, name=directory.name)


def skill_text(manifest: SkillManifest, body: str) -> str:
    """A `SKILL.md` that every reader understands in the same way."""
    values = manifest.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    front = "".join(_block(values, 0))
    return f"{FENCE}\n{front}{FENCE}\n\n{body.strip(chr(10))}\n"


def sidecar_text(sidecar: SkillSidecar) -> str:
    """A `silas.yaml` that says the same; empty if there is nothing to say."""
    return "".join(_block(sidecar.model_dump(mode="json", exclude_defaults=True), 0))


def _check_written(
    manifest: SkillManifest, sidecar: SkillSidecar, content: Mapping[str, bytes]
) -> None:
    """Raise `SkillInvalid` before anything is written that would not be read as it was meant."""
    text = split_skill(_decoded(content[SKILL_FILE], SKILL_FILE))
    if _manifest(text) != manifest:
        raise _invalid(SKILL_FILE, 1, "holds a value that cannot be written safely")
    own = _decoded(content.get(SIDECAR_FILE, b""), SIDECAR_FILE)
    if parse_sidecar(own) != sidecar:
        raise _invalid(SIDECAR_FILE, 1, "holds a value that cannot be written safely")


def _block(values: Mapping[str, Any], depth: int) -> list[str]:
    lines = []
    for key, value in values.items():
        name = f"{'  ' * depth}{_key(key)}:"
        if isinstance(value, Mapping) and value:
            lines += [f"{name}\n", *_block(value, depth + 1)]
        elif isinstance(value, list) and value:
            lines.append(f"{name}\n")
            lines += [f"{'  ' * (depth + 1)}- {_flow(each)}\n" for each in value]
        else:
            lines.append(f"{name} {_flow(value)}\n")
    return lines


_PLAIN_KEY = re.compile(r"[a-z][a-z_-]*[a-z]")
_WORDS_OF_YAML = {"true", "false", "null", "yes", "no", "on", "off"}


def _key(key: str) -> str:
    plain = _PLAIN_KEY.fullmatch(key) and key not in _WORDS_OF_YAML and FENCE not in key
    return key if plain else _text(key)


def _flow(value: Any) -> str:
    """A value on one line; JSON is YAML, apart from what `_text` takes care of."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_text(key)}: {_flow(each)}" for key, each in value.items())
        return f"{{{inner}}}"
    if isinstance(value, list):
        return f"[{', '.join(_flow(each) for each in value)}]"
    return json.dumps(value)


def _text(text: str) -> str:
    # Readers that split at three hyphens must not find them; `\\x2d` is a hyphen in YAML.
    return json.dumps(text, ensure_ascii=False).replace(FENCE, r"-\x2d-")
