"""A skill looked at from outside: what somebody should know before they say yes to it.

1. Any directory can be looked at, a damaged one too. Nothing of it is executed or imported, no link
   is followed, and what is too large is said to be unread.
2. Every finding names its file, its line, its rule and its weight. Any `danger` flags the skill.
3. Every file is looked at by what it is: prose by `prose_rules`, commands by `command_rules`,
   Python by `python_rules`; and every text for hidden characters, hidden commands and credentials.
4. A clean report is no proof. What an approved skill can do is limited by its sandbox alone.
"""

import io
import os
import re
import stat
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from silas.kernel import SkillError
from silas.kernel.models import Data
from silas.skills.command_rules import (
    COMMAND_RULES,
    DANGER,
    INFO,
    OBFUSCATED_JS,
    URL,
    WARN,
    FindingWeight,
    HostClass,
    SkillFinding,
    SkillScope,
    TextFinding,
    classify,
    command_findings,
    line_of,
    main_domain,
    secrets_in,
    set_of_words,
)
from silas.skills.format import (
    SIDECAR_FILE,
    SKILL_FILE,
    SkillInvalid,
    lenient_front_matter,
    parse_skill,
)
from silas.skills.order_rules import code_blocks, mentions_in
from silas.skills.prose_rules import (
    hidden_characters,
    hidden_commands,
    is_defensive,
    is_pressed,
    is_urged,
    prose_findings,
)
from silas.skills.python_rules import PythonFacts, python_facts, strings_of
from silas.skills.script_rules import script_findings, whole_file_findings
from silas.skills.sidecar import SkillKind, SkillSidecar
from silas.skills.tree import SkillTreeRefused, opened_root, path_problem
from silas.storage.trees import Entry, shown, walk
from silas.tools.tree import READ

DESCRIPTION_MIN_CHARACTERS, DESCRIPTION_MAX_CHARACTERS = 24, 1024
MAX_READ_BYTES = 1_000_000
MAX_RULE_CHARACTERS = 300_000
MAX_ALL_CHARACTERS = 5_000_000
MAX_LOOKED_AT = 3_000
_MAX_DEPTH = 16
_MAX_FINDINGS = 500

_PROSE = {".md", ".mdx", ".txt", ".rst", ".markdown", ".html", ".htm", ""}
_SHELLS = {".sh", ".bash", ".zsh", ".command", ".ps1", ".psm1", ".bat", ".cmd", ".fish"}
_SCRIPTS = {
    ".js",
    ".mjs",
    ".cjs",
    ".ts",
    ".tsx",
    ".jsx",
    ".rb",
    ".pl",
    ".php",
    ".lua",
    ".scpt",
    ".applescript",
    ".vbs",
    *(
        ".go",
        ".rs",
        ".r",
        ".jl",
        ".swift",
        ".java",
        ".kt",
        ".cs",
        ".dart",
        ".ex",
        ".exs",
        ".groovy",
    ),
}
_OFFICE = {".docx", ".xlsx", ".pptx", ".odt", ".ods", ".odp", ".epub", ".jar", ".whl", ".skill"}
_PICTURES = {".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf", ".ttf", ".otf", ".woff", ".woff2"}
# Data that other tools match against; anything else may hold what somebody executes.
_LISTS_OF_SIGNS = re.compile(
    r"(?i)rule|pattern|signature|ioc|indicator|test|fixture|sample|example|detect|threat|payload|eval"
)
_PROGRAM_MAGIC = (
    b"\x7fELF",
    b"MZ",
    b"\xfe\xed\xfa\xce",
    b"\xfe\xed\xfa\xcf",
    b"\xcf\xfa\xed\xfe",
    b"\xce\xfa\xed\xfe",
    b"\xca\xfe\xba\xbe",
)
_ARCHIVE_MAGIC = (b"PK\x03\x04", b"Rar!", b"7z\xbc\xaf", b"\x1f\x8b", b"BZh", b"\xfd7zXZ")


class SkillInspection(Data):
    """Everything that was found, the weightiest first."""

    flagged: bool
    findings: tuple[SkillFinding, ...]


@dataclass(frozen=True)
class _TextFile:
    path: str
    text: str

    @property
    def ending(self) -> str:
        return PurePosixPath(self.path).suffix.lower()

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name


@dataclass
class _Report:
    """Collects findings, each place once for each rule."""

    findings: dict[tuple[str, int, str], SkillFinding] = field(default_factory=dict)

    def add(self, file: str, line: int, rule: str, weight: FindingWeight, message: str) -> None:
        key = (file, line, rule)
        before = self.findings.get(key)
        if before is None or _rank(weight) > _rank(before.weight):
            self.findings[key] = SkillFinding(
                file=file, line=line, rule=rule, weight=weight, message=message
            )

    def add_texts(self, file: "_TextFile", findings: Iterable[TextFinding]) -> None:
        line = line_of(file.text)
        for each in findings:
            self.add(file.path, line(each.start), each.rule, each.weight, each.message)

    def result(self) -> SkillInspection:
        ordered = sorted(
            self.findings.values(),
            key=lambda each: (-_rank(each.weight), each.file, each.line, each.rule),
        )
        flagged = any(each.weight is DANGER for each in ordered)
        return SkillInspection(flagged=flagged, findings=tuple(ordered[:_MAX_FINDINGS]))


def _rank(weight: FindingWeight) -> int:
    return list(FindingWeight).index(weight)


def inspect_skill(directory: Path) -> SkillInspection:
    """Look at a directory; raises `SkillTreeRefused` if it is none."""
    report = _Report()
    files = list(_readable_files(directory, report))
    skill = next((each for each in files if each.path == SKILL_FILE), None)
    front, body = lenient_front_matter(skill.text) if skill else ({}, "")
    _check_format(directory, report, front)
    scope = _scope_of(directory, files, front)
    sidecar = _sidecar_of(directory)
    files = list(_within_budget(files, report))
    scripts = {each.path: python_facts(each.text, scope) for each in files if _is_python(each)}
    for file in files:
        _look_at(file, scope, report, scripts.get(file.path))
    _check_flow_between(scripts, report)
    _check_declarations(scripts, sidecar, front, report)
    if skill:
        _check_references(skill, body, {each.path for each in files}, directory, report)
    return report.result()


# Files (rule 1)


def _readable_files(directory: Path, report: _Report) -> Iterator[_TextFile]:
    with opened_root(directory) as root:
        try:
            for count, entry in enumerate(walk(root, enter=_is_entered)):
                if count >= MAX_LOOKED_AT:
                    message = f"holds more than {MAX_LOOKED_AT} files; the rest was not looked at"
                    report.add(".", 1, "too_much", WARN, message)
                    return
                file = _entry(entry, report)
                if file is not None:
                    yield file
        except OSError as error:
            report.add(".", 1, "unreadable", WARN, f"cannot be read to its end ({error.strerror})")


def _within_budget(files: list[_TextFile], report: _Report) -> Iterator[_TextFile]:
    """As much of each file as is looked at, so that no skill keeps anybody waiting for long."""
    left = MAX_ALL_CHARACTERS
    for file in sorted(files, key=lambda each: (each.path != SKILL_FILE, each.path)):
        text = file.text[: min(left, MAX_RULE_CHARACTERS)]
        if len(text) < len(file.text):
            report.add(file.path, 1, "too_much", WARN, "was not looked at to its end: too long")
        left -= len(text)
        yield _TextFile(file.path, text)


def _is_entered(entry: Entry) -> bool:
    return entry.depth < _MAX_DEPTH and entry.name != ".git"


def _entry(entry: Entry, report: _Report) -> _TextFile | None:
    path = shown(entry.path, most=300)
    problem = path_problem(entry.path)
    if problem is not None:
        report.add(path, 1, "odd_name", WARN, problem)
    mode = entry.status.st_mode
    if stat.S_ISLNK(mode):
        _check_link(entry, path, report)
    elif not entry.is_directory and not stat.S_ISREG(mode):
        report.add(path, 1, "special_file", WARN, "is neither a file nor a directory")
    elif stat.S_ISREG(mode):
        return _regular(entry, path, report)
    return None


def _check_link(entry: Entry, path: str, report: _Report) -> None:
    try:
        target = os.readlink(entry.name, dir_fd=entry.directory)
    except OSError:
        target = "/"
    inside = os.path.normpath(os.path.join(*entry.above, target))  # noqa: PTH118 - text alone
    leaves = target.startswith("/") or inside.startswith("..")
    weight = DANGER if leaves else WARN
    where = "out of the skill" if leaves else "to another file"
    report.add(path, 1, "link", weight, f"is a link that leads {where}")


def _regular(entry: Entry, path: str, report: _Report) -> _TextFile | None:
    try:
        descriptor = os.open(entry.name, READ, dir_fd=entry.directory)
        with os.fdopen(descriptor, "rb") as file:
            raw = file.read(MAX_READ_BYTES + 1)
    except OSError as error:
        report.add(path, 1, "unreadable", WARN, f"cannot be read ({error.strerror})")
        return None
    ending = PurePosixPath(path).suffix.lower()
    if _is_binary(raw, path, ending, report):
        return None
    if len(raw) > MAX_READ_BYTES:
        report.add(path, 1, "too_much", WARN, "is too large to be looked at to its end")
    text = raw[:MAX_READ_BYTES].decode("utf-8", "replace")
    if "\ufffd" in text[:-4] and "\ufffd".encode() not in raw:
        report.add(path, 1, "not_utf8", INFO, "is no UTF-8 text")
    return _TextFile(path, text)


def _is_binary(raw: bytes, path: str, ending: str, report: _Report) -> bool:
    if raw.startswith(_PROGRAM_MAGIC) and (b"\x00" in raw[:512]):
        disguised = ending in _PICTURES | _PROSE | {".json", ".py", ".sh", ".dat"}
        hidden = PurePosixPath(path).name.startswith(".") or (disguised and ending != "")
        weight = DANGER if hidden else WARN
        report.add(path, 1, "binary_program", weight, "is a program that nobody can read")
        return True
    if raw.startswith(_ARCHIVE_MAGIC) and ending not in _OFFICE:
        report.add(path, 1, "archive", WARN, "is an archive; what is in it was not looked at")
    if raw.startswith(b"PK\x03\x04"):
        _check_zip(raw, path, report)
    if ending in (".pyc", ".pyo", ".so", ".dylib", ".dll", ".class", ".wasm"):
        report.add(path, 1, "binary_program", WARN, "is compiled code that nobody can read")
        return True
    return b"\x00" in raw[:8192]


def _check_zip(raw: bytes, path: str, report: _Report) -> None:
    try:
        members = zipfile.ZipFile(io.BytesIO(raw)).infolist()
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
        return
    if any(member.flag_bits & 1 for member in members):
        report.add(path, 1, "password_archive", DANGER, "is an archive with a password")
    if any(name.filename.startswith(("/", "..")) or "/../" in name.filename for name in members):
        report.add(path, 1, "archive_traversal", DANGER, "is an archive that writes outside")


# Texts (rule 3)


def _is_python(file: _TextFile) -> bool:
    return file.ending == ".py" or "python" in _shebang(file)


def _shebang(file: _TextFile) -> str:
    return file.text[:80].split("\n", 1)[0] if file.text.startswith("#!") else ""


def _look_at(
    file: _TextFile, scope: SkillScope, report: _Report, facts: PythonFacts | None
) -> None:
    report.add_texts(file, hidden_characters(file.text, is_prose=file.ending in _PROSE))
    report.add_texts(file, hidden_commands(file.text))
    report.add_texts(file, _credentials(file.text))
    if facts is not None:
        _look_at_python(file, scope, report, facts)
    elif file.ending in _SHELLS | _SCRIPTS or _shebang(file):
        _look_at_script(file, scope, report)
    elif file.ending in _PROSE:
        report.add_texts(file, _prose(file.text, scope))
    else:
        found = command_findings(file.text, scope)
        listed = _LISTS_OF_SIGNS.search(file.path) is not None
        report.add_texts(file, (_at_most(each, WARN) for each in found) if listed else found)


def _prose(text: str, scope: SkillScope) -> Iterator[TextFinding]:
    is_mention = mentions_in(text, about=scope.about)
    for each in (*command_findings(text, scope), *prose_findings(text, scope)):
        concrete = any(
            classify(url, scope) is HostClass.HIDDEN
            for url in URL.findall(text[each.start : each.start + 300])
        )
        defensive = not concrete and is_defensive(text, each.start)
        shown = each.rule == "download_and_run" and not is_pressed(text, each.start, scope)
        if each.rule == "foreign_package" and each.weight is WARN:
            pressed = is_urged(text, each.start) and not is_mention(each.start)
            yield each.model_copy(update={"weight": DANGER}) if pressed else each
        elif each.weight is DANGER and (defensive or shown or is_mention(each.start)):
            yield _at_most(each, WARN)
        else:
            yield each
    yield from _shown_code(text, scope, is_mention)
    for found in re.finditer(r"(?m)(?:^|[\s(])!`[^`\n]{1,400}`", text):
        yield TextFinding(
            start=found.start(),
            rule="inline_shell",
            weight=WARN,
            message="holds a command that other agents run when they load the skill",
        )


_ENDING_OF = {
    **dict.fromkeys(("bash", "sh", "shell", "zsh", "console", "terminal"), ".sh"),
    **dict.fromkeys(("powershell", "ps1", "pwsh"), ".ps1"),
    **dict.fromkeys(("javascript", "js", "node", "typescript", "ts", "jsx", "tsx", "mjs"), ".js"),
    "ruby": ".rb",
    "rb": ".rb",
    "perl": ".pl",
    "php": ".php",
    "python": ".py",
    "py": ".py",
}


def _shown_code(
    text: str, scope: SkillScope, is_mention: Callable[[int], bool]
) -> Iterator[TextFinding]:
    """Code in prose is read as the language that it says it is in; what it mentions weighs less."""
    for start, language, code in code_blocks(text):
        ending = _ENDING_OF.get(language)
        if ending is None:
            continue
        found = (
            python_facts(code, scope).findings
            if ending == ".py"
            else script_findings(code, ending, scope)
        )
        ends = [0, *(each.end() for each in re.finditer("\n", code))]
        for each in found:
            if each.weight is not DANGER or each.rule in _READ_AS_TEXT:
                continue
            at = start + ends[min(each.line, len(ends)) - 1]
            mentioned = is_mention(start) or is_defensive(text, start) or is_defensive(text, at)
            yield TextFinding(
                start=at,
                rule=each.rule,
                weight=WARN if mentioned else DANGER,
                message=each.message,
            )


# What `command_findings` says about the whole text, with the words around it.
_READ_AS_TEXT = frozenset(each.name for each in COMMAND_RULES) - {"steals_secrets", "reverse_shell"}


def _at_most(finding: TextFinding, weight: FindingWeight) -> TextFinding:
    if _rank(finding.weight) <= _rank(weight):
        return finding
    return finding.model_copy(update={"weight": weight})


def _look_at_python(
    file: _TextFile, scope: SkillScope, report: _Report, facts: PythonFacts
) -> None:
    for each in (*facts.findings, *whole_file_findings(file.text)):
        report.add(file.path, each.line, each.rule, each.weight, each.message)
    if any(each.rule == "unreadable_script" for each in facts.findings):
        report.add_texts(file, command_findings(file.text, scope))
    for line, text in strings_of(file.text):
        for found in prose_findings(text, scope) if len(text) > 60 else ():
            if found.weight is DANGER and not is_defensive(text, found.start):
                report.add(file.path, line, found.rule, found.weight, found.message)


def _look_at_script(file: _TextFile, scope: SkillScope, report: _Report) -> None:
    code = _without_comments(file)
    for each in script_findings(code, file.ending, scope):
        report.add(file.path, each.line, each.rule, each.weight, each.message)
    if len(OBFUSCATED_JS.findall(code)) >= 10:
        report.add(file.path, 1, "obfuscated", DANGER, "is written so that nobody can read it")
    if re.search(r"\beval\s*\(|new\s+Function\s*\(", code) and file.ending in _SCRIPTS:
        report.add(file.path, 1, "evaluates_text", WARN, "executes a text as code")


def _without_comments(file: _TextFile) -> str:
    """The code with comment lines blanked, so that lines keep their numbers."""
    mark = "//" if file.ending in {".js", ".mjs", ".cjs", ".ts", ".tsx", ".jsx", ".php"} else "#"
    lines = file.text.split("\n")
    return "\n".join(
        " " * len(line) if line.lstrip().startswith(mark) and not line.startswith("#!") else line
        for line in lines
    )


def _credentials(text: str) -> Iterator[TextFinding]:
    for name, found in secrets_in(text):
        yield TextFinding(
            start=found.start(),
            rule="credential",
            weight=WARN,
            message=f"holds what looks like a secret ({name})",
        )


# The format, what is declared, what is referred to


def _check_format(directory: Path, report: _Report, front: dict[str, Any]) -> None:
    try:
        parse_skill(directory, name=str(front.get("name") or directory.name))
    except SkillInvalid as error:
        for each in error.problems:
            foreign = "no key of the standard" in each.message or "must be text" in each.message
            weight = INFO if foreign else WARN
            report.add(each.file, each.line, "format", weight, each.message)
    except SkillTreeRefused as error:
        report.add(".", 1, "format", WARN, error.message)
    except SkillError as error:
        report.add(".", 1, "format", WARN, error.message)
    description = front.get("description")
    for message in description_problems(description if isinstance(description, str) else ""):
        report.add(SKILL_FILE, 1, "description", INFO, message)
    for key in ("hooks", "install"):
        if key in front:
            report.add(SKILL_FILE, 1, "acts_by_itself", WARN, f"asks for `{key}`")


_STEPS = re.compile(r"(?:^|\s)(?:\d{1,2}[.)]|step\s+\d)\s", re.IGNORECASE)
_ORDER_WORDS = re.compile(
    r"\b(?:first|then|next|after that|afterwards|finally|lastly)\b", re.IGNORECASE
)
_BULLETS = re.compile(r"(?m)^\s*[-*]\s")


def description_problems(
    description: str,
    *,
    shortest: int = DESCRIPTION_MIN_CHARACTERS,
    longest: int = DESCRIPTION_MAX_CHARACTERS,
) -> tuple[str, ...]:
    """What keeps a description from telling when the skill is wanted; fixed rules decide."""
    problems = []
    if len(description.strip()) < shortest:
        problems.append(f"the description has fewer than {shortest} characters; say when to use it")
    if len(description) > longest:
        problems.append(
            f"the description has more than {longest} characters; say only when to use it"
        )
    steps, order = len(_STEPS.findall(description)), len(_ORDER_WORDS.findall(description))
    if steps >= 2 or order >= 3 or len(_BULLETS.findall(description)) >= 3:
        problems.append("the description lists steps; say when to use the skill, not how it works")
    return tuple(problems)


def _scope_of(directory: Path, files: list[_TextFile], front: dict[str, Any]) -> SkillScope:
    names = f"{directory.resolve().name} {front.get('name', '')} {front.get('author', '')}"
    words = {
        word
        for word in re.split(r"[^a-z0-9]+", names.lower())
        if len(word) >= 3 and word not in _GENERAL_WORDS
    }
    words.add(re.sub(r"[^a-z0-9]", "", str(front.get("name", "")).lower()))
    counts: Counter[str] = Counter()
    seen: set[str] = set()
    for file in files:
        for line in file.text.split("\n"):
            if "://" not in line or re.search(
                r"\|\s*\S*sh\b|-c\s+[\"']?\$\(|\|\s*iex|chmod|download", line, re.IGNORECASE
            ):
                continue
            fresh = {url.rstrip(".,)") for url in URL.findall(line)} - seen
            seen |= fresh
            counts.update(main_domain(_host(url)) for url in fresh)
    for key in ("homepage", "website", "repository", "url"):
        if isinstance(front.get(key), str):
            counts[main_domain(_host(front[key]))] += 2
    return SkillScope(
        about=f"{front.get('name', '')} {front.get('description', '')}",
        words=frozenset(words),
        hosts=frozenset(host for host, count in counts.items() if count >= 2 and host),
    )


_GENERAL_WORDS = set_of_words(
    "skill skills tool tools agent agents helper auto data code file files openclaw clawdbot claude"
    " codex cli manager the and for api app web bot pro plus utils util core main setup install"
    " installer search finder tracker assistant automation google youtube crypto wallet trading"
)


def _host(url: str) -> str:
    found = re.match(r"https?://(?:[^/@\s]*@)?([^/:?#\s]+)", url, re.IGNORECASE)
    return found[1].lower().rstrip(".,)") if found else ""


def _sidecar_of(directory: Path) -> SkillSidecar:
    try:
        return parse_skill(directory).sidecar
    except SkillError:
        return SkillSidecar()


def _check_flow_between(scripts: Mapping[str, PythonFacts], report: _Report) -> None:
    """One script takes what is private, another one sends: together they are one thief."""
    strange = HostClass.UNKNOWN
    sends = [
        each
        for each in scripts.values()
        if each.network and max(each.hosts, default=strange) >= strange
    ]
    for path, facts in scripts.items():
        if facts.takes and any(each is not facts for each in sends) and not facts.network:
            message = "reads what is private, and another script sends data to a stranger"
            report.add(path, facts.takes, "steals_secrets", DANGER, message)


def _check_declarations(
    scripts: Mapping[str, PythonFacts],
    sidecar: SkillSidecar,
    front: dict[str, Any],
    report: _Report,
) -> None:
    declared = set(sidecar.requirements.environment)
    asked = str(front)
    for path, facts in scripts.items():
        for name, line in facts.environment.items():
            if name not in declared and name not in asked and name not in _USUAL_VARIABLES:
                message = f"reads the variable {name}, which {SIDECAR_FILE} does not declare"
                report.add(path, line, "undeclared_environment", WARN, message)
        # A connection reaches the servers of its account, which the owner signs one by one.
        reaches = sidecar.hosts or sidecar.type is SkillKind.CONNECTION
        if facts.network and not reaches:
            message = f"uses the network, and {SIDECAR_FILE} declares no hosts"
            report.add(path, facts.network, "undeclared_network", WARN, message)


_USUAL_VARIABLES = set_of_words("HOME PATH USER LANG TMPDIR TERM PWD SHELL EDITOR NO_COLOR TZ")
_LINK = re.compile(r"\]\((?!https?:|mailto:|#|<)([^)\s]{1,300})\)")


def _check_references(
    skill: _TextFile, body: str, present: set[str], directory: Path, report: _Report
) -> None:
    line = line_of(skill.text)
    offset = skill.text.find(body) if body else 0
    for found in _LINK.finditer(body):
        target = found[1].split("#")[0].removeprefix("./")
        place = line(max(0, offset) + found.start())
        if target.startswith(("/", "~", "..")):
            report.add(
                SKILL_FILE, place, "reference_outside", WARN, f"refers to {found[1]!r}, outside"
            )
        elif target and target not in present and not (directory / target).exists():
            report.add(
                SKILL_FILE, place, "missing_reference", INFO, f"refers to {target!r}, not there"
            )
