"""What of the files that a check runs and obeys the worker may write.

1. What a check runs is read from its command (`CommandPrograms`).
2. A file counts that the plan declares as added, changed or removed.
3. A pattern of added files counts if it could match a file that the check finds; one of changed
   files, if it matches such a file that is there. Patterns never cover files that other programs
   execute by their name (`executed_by`), so those count by their exact path alone.
4. Where every attempt starts empty, all programs of the check are the worker's own.

The code under test is the subject, even where a check imports it into its own process.

What a command runs and obeys in the workspace is read from its text, as far as that can be:

1. Commands that read data run nothing: what they read is the subject of a check.
2. The script of an interpreter and a command with a path are programs. What shell scripts and
   Makefiles run in turn is followed, up to some files and bytes.
3. Runners such as `make` and `pytest` find files by their names: those, and their configuration.
4. What no rule knows is taken for a program, if it is a file. Where a command runs what only the
   shell will know, every word of it is: rather a check too few than one that the worker decides.
"""

import json
import posixpath
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from silas.tools.tree import FileRefused, Listing, Tree, is_pattern, matches
from silas.work.effects import DeclaredChanges, executed_by
from silas.work.models import VerificationCheck
from silas.work.shell_commands import HOLE, ShellCommand, Unreadable, Word, names, simple_commands

_MAX_FILES, _MAX_BYTES, _MAX_DEPTH, _MAX_PATH = 50, 262_144, 8, 1024
_READERS = names(
    "cat test [ grep egrep fgrep rg zgrep sha1sum sha224sum sha256sum sha384sum sha512sum md5sum"
    " b2sum cksum sum wc head tail sort uniq stat ls find jq yq cut tr file echo printf true false"
    " : exit pwd date sleep seq expr basename dirname realpath readlink du df tree cmp diff comm"
    " join paste nl od xxd hexdump strings fold fmt column tee rev tac sed awk gawk mawk curl wget"
    " openssl gpg xmllint tidy shellcheck yamllint ruff black isort flake8 pyflakes pylint mypy"
    " pyright eslint prettier tsc identify convert pdftotext pdfinfo ffprobe exiftool unzip zipinfo"
    " tar gzip gunzip zcat xz bzip2 zstd iconv base64 git sqlite3 dig host nc ping ss ps env which"
    " type command set export unset umask mkdir rm cp mv touch ln chmod shift wait read local"
    " return ld ar as cc gcc g++ c++ clang clang++ rustc javac markdownlint codespell"
)
_PYTHON_READERS = names("json.tool py_compile compileall tokenize ast zipfile tarfile tabnanny")
_CHECKSUMS = re.compile(r"(?:sha\d+|md5|b2)sum|cksum")
_FILES_OF_COMMANDS = names("grep egrep fgrep sed awk gawk mawk jq")
_WRAPPERS = names("env command time nice nohup exec xargs sudo setsid stdbuf timeout busybox")
_RUN_WRAPPERS = names("uv poetry pipenv hatch pdm rye bundle coverage")
_SHELLS = names("sh bash dash zsh ksh ash . source")
_INTERPRETER = re.compile(
    r"(?P<python>(?:python|pypy)[\d.]*)|(?P<node>node|nodejs|tsx|ts-node)|(?P<php>php)|perl|ruby|lua"
)
# By the kind of interpreter: how code is given, and how a script is only looked at.
_CODE = {
    "python": re.compile(r"-[A-Za-z]*c"),
    "node": re.compile(r"-p?e|-p|--eval|--print"),
    "php": re.compile(r"-r"),
    None: re.compile(r"-\w*[eE]"),
}
_LOOKS = {"node": names("-c --check"), "php": names("-l"), None: names("-c -wc -cw")}
_PYTHON_MODULE = re.compile(r"-[A-Za-z]*m")
_PYTEST_OPTION = re.compile(
    r"-[qvxsl]+|-r\w+|-[kmnpcWo]|--[\w-]+=.*|--(?:maxfail|tb|durations|rootdir|quiet|verbose|lf|ff"
    r"|exitfirst|no-header|no-summary|strict-markers|strict-config|disable-warnings)"
)
_SUBCOMMANDS = names("run exec")
_OPTIONS_WITH_VALUES = names(
    "-W -X -o -O -r --require -I --import -k -m -n -p -c --maxfail --rootdir --durations --tb --cov"
)
_STARTS_OTHERS = re.compile(r"exec\(|eval\(|runpy|subprocess|system\(|popen|spawn|import_module")
_PLAIN_WORDS = re.compile(r"[^\s;&|()<>'\"`$={},:@\[\]]+")
_BRACKETS = re.compile(r"\[[^]]*\]")
_STARTING = re.compile(r"-.*|.*=.*|[\d.]+[smhd]?|\{\}")
_MAKEFILES = names("Makefile makefile GNUmakefile")
_MAKE_VARIABLE = re.compile(r"\$[({](\w+)[)}]")
_SYSTEM_PROGRAMS = ("/bin/", "/sbin/", "/usr/", "/opt/", "/nix/")
_LOADING = re.compile(r"PATH|LD_\w+|BASH_ENV|ENV|NODE_OPTIONS|PERL5\w+|RUBY\w+|PYTHONSTARTUP")

_PYTHON_TESTS = "**/test*.py **/*_test.py **/tests/** **/test/**"
_PYTHON_OBEYED = (
    "**/conftest.py **/pytest.ini **/.pytest.ini **/tox.ini **/setup.cfg **/pyproject.toml"
    " **/.coveragerc **/sitecustomize.py **/usercustomize.py **/site-packages/**"
)
_NODE = (
    "**/package.json **/*.test.* **/*.spec.* **/__tests__/** **/test/** **/tests/** **/*.config.*"
    " **/.npmrc **/.mocharc* **/node_modules/**"
)
_JAVA = "**/pom.xml **/*.gradle **/*.gradle.kts **/src/test/** **/gradle.properties **/.mvn/**"
_OTHERS = "**/test/** **/tests/** **/spec/** **/t/** **/*_spec.* **/*.bats **/*Test.* **/*Tests.*"
_FINDS: dict[str, str] = {
    "make": "**/Makefile **/makefile **/GNUmakefile **/*.mk",
    **dict.fromkeys(("pytest", "py.test", "unittest"), f"{_PYTHON_TESTS} {_PYTHON_OBEYED}"),
    **dict.fromkeys(("tox", "nox"), f"{_PYTHON_TESTS} {_PYTHON_OBEYED} **/noxfile.py"),
    **dict.fromkeys(("npm", "yarn", "pnpm", "npx", "bun", "deno"), _NODE),
    **dict.fromkeys(("jest", "mocha", "vitest", "ava", "tap", "playwright", "cypress"), _NODE),
    "go": "**/*_test.go **/go.mod **/go.work **/testdata/**",
    "cargo": "**/tests/** **/Cargo.toml **/build.rs **/.cargo/**",
    **dict.fromkeys(("mvn", "mvnw", "gradle", "gradlew", "sbt"), _JAVA),
    **dict.fromkeys(("bats", "rspec", "prove", "phpunit", "ctest", "busted"), _OTHERS),
    **dict.fromkeys(("rake", "just", "task", "dotnet", "mix", "swift", "cmake", "ninja"), _OTHERS),
    **dict.fromkeys(
        ("ruff", "mypy", "flake8", "pylint", "black"), "**/pyproject.toml **/setup.cfg"
    ),
    **dict.fromkeys(("eslint", "prettier", "tsc"), "**/*.config.* **/.eslintrc* **/tsconfig*.json"),
}
_FINDS["gmake"] = _FINDS["make"]
_PYTHON_RUNNERS = names("pytest py.test unittest tox nox")


@dataclass(frozen=True)
class CommandPrograms:
    """What a command runs and obeys. Not every path in it is there."""

    programs: tuple[tuple[str, ...], ...] = ()
    """The programs that it names: each with the paths that may be meant."""
    files: frozenset[str] = frozenset()
    """Other files that it may run."""
    found: frozenset[str] = frozenset()
    """The names by which runners find files."""
    examples: frozenset[str] = frozenset()
    """One such name for each runner."""
    helpers: frozenset[str] = frozenset()
    """The names of modules beside scripts and tests that were named themselves."""
    compared: tuple[tuple[str, ...], ...] = ()
    """Files that are compared with each other: whoever writes all of them decides."""
    takes_root_modules: bool = False
    """Whether Python looks for its own modules in the workspace, too."""

    @property
    def named(self) -> frozenset[str]:
        return self.files.union(*self.programs)


def programs_of(run: str, tree: Tree | None, listing: Listing | None) -> CommandPrograms:
    """What this command runs; `listing` is what the tree holds, or None if that is not known."""
    reading = _Reading(tree, listing or Listing({}, {}))
    reading.read(run, ("",))
    return reading.result()


@dataclass
class _Reading:
    """One command on its way; collects what it runs."""

    tree: Tree | None
    listing: Listing
    programs: list[tuple[str, ...]] = field(default_factory=list)
    files: set[str] = field(default_factory=set)
    found: set[str] = field(default_factory=set)
    helpers: set[str] = field(default_factory=set)
    examples: set[str] = field(default_factory=set)
    compared: list[tuple[str, ...]] = field(default_factory=list)
    takes_root_modules: bool = False
    _followed: set[str] = field(default_factory=set)
    _run_unknown: set[str] = field(default_factory=set)
    """Scripts that may run what they are given, as arguments or in variables."""
    _assigned: list[Word] = field(default_factory=list)
    _bytes: int = 0
    # Of the text that is being read: its words, and whether it runs what only the shell knows.
    _words: list[tuple[Word, tuple[str, ...]]] = field(default_factory=list)
    _runs_unknown: bool = False
    _is_elsewhere: bool = False
    _is_in_a_file: bool = False

    def result(self) -> CommandPrograms:
        self._end_text()
        return CommandPrograms(
            programs=tuple(self.programs),
            files=frozenset(self.files),
            found=frozenset(self.found),
            examples=frozenset(self.examples),
            helpers=frozenset(self.helpers),
            compared=tuple(self.compared),
            takes_root_modules=self.takes_root_modules,
        )

    def read(self, text: str, places: tuple[str, ...], depth: int = 0) -> None:
        """Look at all commands of a text; `places` are the directories that it may run in."""
        if depth > _MAX_DEPTH:
            self._runs_unknown = True
            return
        try:
            commands = list(simple_commands(text))
        except Unreadable:
            self._read_roughly(text, places)
            return
        for command in commands:
            self._look_inside(command, places, depth)
            if command.texts[:1] == ["cd"] and len(command.words) > 1:
                places = self._entered(command.words[1], places)
            elif command.words:
                self._command(command, places, depth)

    def _look_inside(self, command: ShellCommand, places: tuple[str, ...], depth: int) -> None:
        targets = [target for operator, target in command.redirections if "<<" not in operator]
        for word in (*command.words, *command.assignments, *targets):
            value = Word(word.text.rpartition("=")[2], has_wildcards=word.has_wildcards)
            self._words.append((value, places))
            self._assigned += [value] if word in command.assignments else []
            for inner in word.substitutions:
                self.read(inner, places, depth + 1)
            name, assigned, _ = word.text.partition("=")
            self.takes_root_modules |= bool(assigned) and name == "PYTHONPATH"
            self._runs_unknown |= bool(assigned) and _LOADING.fullmatch(name) is not None
        for operator, target in command.redirections:
            if "<<" in operator and not _INTERPRETER.fullmatch("".join(command.texts[:1])):
                self.read(target.text, places, depth + 1)

    def _read_roughly(self, text: str, places: tuple[str, ...]) -> None:
        """Take every word for a program."""
        for word in _PLAIN_WORDS.findall(text):
            self._maybe(Word(word), places)
            self._runner(posixpath.basename(word))

    def _command(self, command: ShellCommand, places: tuple[str, ...], depth: int) -> None:
        words = _unwrapped(command.words)
        if not words or words[0].text == "for":
            return
        first, arguments = words[0], words[1:]
        name = posixpath.basename(first.text)
        if "/" in first.text or HOLE in first.text:
            self._program(first, places, depth, arguments=arguments)
        if name in _RUN_WRAPPERS and [word.text for word in arguments[:1]] == ["run"]:
            self.found.add("**/pyproject.toml")
            self._command(ShellCommand(arguments[1:]), places, depth)
        elif name in _SHELLS:
            self._shell(arguments, places, depth)
        elif _INTERPRETER.fullmatch(name):
            self._interpreter(name, arguments, places, depth)
        else:
            self._runner(name, arguments, places)
            if name in _READERS:
                self._reader(name, arguments, places, depth)
            elif "/" not in first.text:
                self._maybe_all(arguments, places)

    def _reader(
        self, name: str, arguments: Sequence[Word], places: tuple[str, ...], depth: int
    ) -> None:
        texts = [word.text for word in arguments]
        if _CHECKSUMS.fullmatch(name) and {"-c", "--check"}.intersection(texts):
            self._maybe_all(arguments, places)
        if name in ("cmp", "diff"):
            operands = [self._paths(text, places) for text in texts if not text.startswith("-")]
            self.compared += [tuple(paths[0] for paths in operands)] if all(operands) else []
        for text, at in zip(texts, range(1, len(texts)), strict=False):
            if name in _FILES_OF_COMMANDS and text in ("-f", "--file", "--from-file"):
                self._program(arguments[at], places, depth)
            if name == "find" and text in ("-exec", "-execdir", "-ok"):
                self._command(ShellCommand(tuple(arguments[at:])), places, depth)

    def _shell(self, arguments: Sequence[Word], places: tuple[str, ...], depth: int) -> None:
        for at, word in enumerate(arguments):
            if re.fullmatch(r"-[a-z]*c", word.text):
                text = "".join(each.text for each in arguments[at + 1 : at + 2])
                self.read(text.replace(HOLE, " $x "), places, depth + 1)
                return
            if word.text == "-n":
                return  # It reads the script and runs nothing.
            if not word.text.startswith(("-", "+")) and not (at and arguments[at - 1].text == "-o"):
                given = arguments[at + 1 :]
                self._program(word, places, depth, arguments=given, is_shell=True)
                return
        self._runs_unknown = True  # It runs what comes in.

    def _interpreter(
        self, name: str, arguments: Sequence[Word], places: tuple[str, ...], depth: int
    ) -> None:
        known = _INTERPRETER.fullmatch(name)
        kind = known.lastgroup if known else None
        if _LOOKS.get(kind, frozenset()).intersection(word.text for word in arguments):
            return
        for at, word in enumerate(arguments):
            following = arguments[at + 1 :]
            if _CODE[kind].fullmatch(word.text):
                code = following[0].text if following else ""
                if _STARTS_OTHERS.search(code):
                    self._read_roughly(code, places)
                return
            if kind == "python" and following and _PYTHON_MODULE.fullmatch(word.text):
                self._module(following[0], following[1:], places, depth)
                return
            if word.text == "--test":
                self._runner("npm")
            elif arguments[at - 1].text in _OPTIONS_WITH_VALUES and at:
                self._maybe(word, places)
            elif not word.text.startswith("-") and word.text not in _SUBCOMMANDS:
                self._program(word, places, depth)
                return
        self._runs_unknown |= not any(word.text.startswith("--") for word in arguments)

    def _module(
        self, module: Word, arguments: Sequence[Word], places: tuple[str, ...], depth: int
    ) -> None:
        if module.text in _FINDS or module.text in _READERS | names("coverage"):
            self._command(ShellCommand((Word(module.text), *arguments)), places, depth)
        elif module.text not in _PYTHON_READERS:
            path = module.text.replace(".", "/")
            for each in (f"{path}.py", f"{path}/__main__.py", f"{path}/__init__.py"):
                self.files.update(self._paths(each, places))
            self._maybe_all(arguments, places)

    def _runner(
        self, name: str, arguments: Sequence[Word] = (), places: tuple[str, ...] = ("",)
    ) -> None:
        if name not in _FINDS:
            return
        patterns = _FINDS[name].split()
        if name in _PYTHON_RUNNERS:
            self.takes_root_modules = True
        operands = _operands(arguments) if name in ("pytest", "py.test") else []
        chosen = {
            path for word in operands for path in self._paths(word.text.split("::")[0], places)
        }
        if chosen and "." not in chosen and _is_plain_pytest(arguments):
            patterns = _PYTHON_OBEYED.split()
            for path in sorted(chosen):
                self.found |= {path, f"{path}/**"}
                self._beside(path)
        self.found.update(patterns)
        self.examples.add(patterns[0] if not chosen else min(chosen))
        if name in ("make", "gmake", "npm", "yarn", "pnpm"):
            self._follow_found(_MAKEFILES if "make" in name else names("package.json"))

    def _follow_found(self, wanted: frozenset[str]) -> None:
        for path in sorted(self.listing.files):
            base = posixpath.basename(path)
            if base in wanted or (wanted is _MAKEFILES and base.endswith(".mk")):
                self._follow(path, 1)

    def _beside(self, path: str) -> None:
        """The modules beside a Python file; those in the root are the subject."""
        above = posixpath.dirname(path)
        if above and path.endswith(".py"):
            self.helpers.add(f"{above}/*.py")

    def _paths(self, text: str, places: tuple[str, ...]) -> tuple[str, ...]:
        """The paths below the workspace that this may mean, and what they lead to by links."""
        if not text or text.startswith("/") or len(text) > _MAX_PATH:
            return ()
        paths = dict.fromkeys(posixpath.normpath(posixpath.join(place, text)) for place in places)
        led = dict.fromkeys(self._led_to(path) for path in paths)
        return tuple(path for path in {**paths, **led} if path.split("/", 1)[0] not in ("", ".."))

    def _led_to(self, path: str) -> str:
        for _ in range(_MAX_DEPTH):
            parts = path.split("/")
            above = ("/".join(parts[:count]) for count in range(1, len(parts) + 1))
            link = next((each for each in above if each in self.listing.links), None)
            if link is None:
                break
            target = posixpath.join(posixpath.dirname(link), self.listing.links[link])
            path = posixpath.normpath(target + path.removeprefix(link))
        return path

    def _entered(self, directory: Word, places: tuple[str, ...]) -> tuple[str, ...]:
        """Where commands may run after `cd`."""
        entered = self._paths(directory.text, places[:1]) if directory.is_constant else ()
        self._is_elsewhere |= not entered
        return tuple(dict.fromkeys([*entered, *places]))

    def _maybe_all(self, words: Sequence[Word], places: tuple[str, ...]) -> None:
        for word in words:
            self._maybe(word, places)

    def _maybe(self, word: Word, places: tuple[str, ...]) -> None:
        """Take this for a program if it is a file."""
        text = word.text.partition("=")[2] if word.text.startswith("-") else word.text
        if "://" in text or not text:
            return
        paths = self._paths(text, places)
        if word.has_wildcards:
            self.found.update(_BRACKETS.sub("?", path) for path in paths)
        self.files.update(paths)
        if text.endswith(".sh"):
            for path in paths:
                self._follow(path, 1)

    def _program(
        self,
        word: Word,
        places: tuple[str, ...],
        depth: int,
        *,
        arguments: Sequence[Word] = (),
        is_shell: bool = False,
    ) -> None:
        text = word.text
        if text.startswith("/") or text == "-":
            self._runs_unknown |= not text.startswith(_SYSTEM_PROGRAMS)
            return
        known = text.rpartition(HOLE)[2].lstrip("/")
        paths = self._paths(known, places)
        if (
            word.has_wildcards
            or "{}" in text
            or (known != text and not any(path in self.listing.files for path in paths))
        ):
            self._runs_unknown |= not word.has_wildcards or HOLE in text
            self._maybe(Word(known, has_wildcards=word.has_wildcards), places)
            return
        if not paths:
            return
        if known != text or self._is_in_a_file or self._is_elsewhere:
            self.files.update(paths)
        else:
            self.programs.append(paths)
        for path in paths:
            self._beside(path)
            self._follow(path, depth + 1, is_shell=is_shell)
            if path in self._run_unknown:
                self._maybe_all((*arguments, *self._assigned), places)
                self._runs_unknown |= any(HOLE in word.text for word in arguments)

    def _follow(self, path: str, depth: int, *, is_shell: bool = False) -> None:
        """Read what a script runs in turn."""
        if self.tree is None or path in self._followed or len(self._followed) >= _MAX_FILES:
            return
        self._followed.add(path)
        try:
            content = self.tree.read(path, limit=_MAX_BYTES - self._bytes)
        except FileRefused:
            return
        self._bytes += len(content)
        outside = self._is_in_a_file, self._words, self._runs_unknown
        self._is_in_a_file, self._words, self._runs_unknown = True, [], False
        self._read_file(path, content.decode(errors="replace"), depth, is_shell=is_shell)
        if self._end_text():
            self._run_unknown.add(path)
        self._is_in_a_file, self._words, self._runs_unknown = outside

    def _end_text(self) -> bool:
        """Rule 4: if the text runs what only the shell will know, all its words may be meant."""
        runs_unknown = self._runs_unknown
        for word, places in self._words if runs_unknown else ():
            self._maybe(word, places)
        return runs_unknown

    def _read_file(self, path: str, text: str, depth: int, *, is_shell: bool) -> None:
        places = ("", posixpath.dirname(path))
        base = posixpath.basename(path)
        if base in _MAKEFILES or base.endswith(".mk"):
            self._read_lines(_MAKE_VARIABLE.sub(_make_variable, text), places, depth)
        elif base == "package.json":
            self._read_lines("\n".join(_package_scripts(text)), places, depth)
        elif is_shell or base.endswith((".sh", ".bash")) or re.match(r"#!.*sh\b", text):
            self._read_script(text, places, depth)

    def _read_script(self, text: str, places: tuple[str, ...], depth: int) -> None:
        try:
            list(simple_commands(text))
        except Unreadable:
            self._read_lines(text, places, depth)
        else:
            self.read(text, places, depth)

    def _read_lines(self, text: str, places: tuple[str, ...], depth: int) -> None:
        for line in text.replace("\\\n", " ").splitlines():
            self.read(line.strip().lstrip("@-+"), places, depth)


def _unwrapped(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The command without what only starts it."""
    while words and words[0].text in _WRAPPERS:
        words = words[1:]
        while words and _STARTING.fullmatch(words[0].text):
            words = words[1:]
    return words


def _operands(arguments: Sequence[Word]) -> list[Word]:
    return [
        word
        for at, word in enumerate(arguments)
        if not word.text.startswith("-")
        and not (at and arguments[at - 1].text in _OPTIONS_WITH_VALUES)
    ]


def _is_plain_pytest(arguments: Sequence[Word]) -> bool:
    """Whether nothing but its operands says what pytest collects."""
    options = (word.text for word in arguments if word.text.startswith("-"))
    return all(word.is_constant for word in arguments) and all(
        _PYTEST_OPTION.fullmatch(option) for option in options
    )


def _make_variable(match: re.Match[str]) -> str:
    """`$(PYTHON)` is most likely `python`."""
    return match.group(1).lower().replace("cxx", "c++")


def _package_scripts(text: str) -> Iterator[str]:
    try:
        package: Any = json.loads(text)
        scripts = package.get("scripts", {}) if isinstance(package, dict) else {}
        yield from (each for each in scripts.values() if isinstance(each, str))
    except (ValueError, AttributeError, RecursionError):
        yield text


_MAX_LISTED = 50_000
_SCRIPT_SUFFIXES = (".sh", ".bash", ".py", ".pl", ".rb", ".js", ".mjs", ".ts", ".php", ".lua")
_NOT_LISTED = names(".git node_modules .venv venv .tox __pycache__ target")
_TEST_NAME = re.compile(r"test_.*\.py|.*_test\.py|tests?\.py")
_MODULES = sys.stdlib_module_names | names("pytest _pytest pluggy sitecustomize usercustomize")


def influences(
    check: VerificationCheck,
    tree: Tree | None,
    changes: DeclaredChanges,
) -> list[str]:
    """The files that the check runs or obeys and that the worker may write."""
    listing = list_files(tree) if tree is not None else None
    return influences_among(programs_of(check.run, tree, listing), tree, listing, changes)


def influences_among(
    programs: CommandPrograms,
    tree: Tree | None,
    listing: Listing | None,
    changes: DeclaredChanges,
) -> list[str]:
    """The same for programs that are known already, in a tree that was listed already."""
    own = set(_written(programs, changes, listing))
    if tree is None:
        own |= {paths[0] for paths in programs.programs}
        own |= {path for path in programs.files if path.endswith(_SCRIPT_SUFFIXES)}
        own |= {pattern.removeprefix("**/") for pattern in programs.examples}
    return sorted(own)


def list_files(tree: Tree) -> Listing | None:
    """What the workspace holds; None if that is too much to look at."""
    try:
        return tree.listing(skip=_NOT_LISTED, limit=_MAX_LISTED)
    except FileRefused:
        return None


def discovered(programs: CommandPrograms, listing: Listing | None) -> list[str]:
    """The files that are there and that the command finds by their names."""
    kept = (path for path in (listing.files if listing else ()) if not is_installed(path))
    return sorted(path for path in kept if _finds(programs, path))


def is_installed(path: str) -> bool:
    """Whether this belongs to what was installed or built, not to the files of the workspace."""
    return not _NOT_LISTED.isdisjoint(path.split("/"))


def may_be_written(changes: DeclaredChanges, path: str) -> bool:
    """Whether the declaration covers some content of this file."""
    if path in changes.add or path in changes.change or path in changes.remove:
        return True
    return executed_by(path) is None and changes.may_write(path)


def patterns_meet(one: str, other: str) -> bool:
    """Whether some path matches both."""
    return _meet(one.split("/"), other.split("/"), "**", _parts_meet)


def _written(
    programs: CommandPrograms, changes: DeclaredChanges, listing: Listing | None
) -> Iterator[str]:
    yield from (path for path in programs.named if may_be_written(changes, path))
    for paths in programs.compared:
        if all(may_be_written(changes, path) for path in paths):
            yield from paths
    for path in {*changes.add, *changes.change, *changes.remove}:
        if not is_pattern(path) and _finds(programs, path):
            yield path
    for pattern in filter(is_pattern, changes.add):
        if _could_find(programs, pattern):
            yield pattern
    for pattern in filter(is_pattern, changes.change):
        if (
            _could_find(programs, pattern)
            if listing is None
            else any(
                matches(pattern, path) and executed_by(path) is None and _finds(programs, path)
                for path in listing.files
            )
        ):
            yield pattern


def _finds(programs: CommandPrograms, path: str) -> bool:
    return (
        any(matches(pattern, path) for pattern in programs.found)
        or (not _is_test(path) and any(matches(each, path) for each in programs.helpers))
        or (programs.takes_root_modules and _is_root_module(path))
    )


def _could_find(programs: CommandPrograms, declared: str) -> bool:
    """Whether something that this pattern covers would be found."""
    ordinary = (each for each in programs.found | programs.helpers if executed_by(each) is None)
    if any(patterns_meet(declared, each) for each in ordinary):
        return True
    return programs.takes_root_modules and any(matches(declared, f"{name}.py") for name in _MODULES)


def _is_test(path: str) -> bool:
    return _TEST_NAME.fullmatch(posixpath.basename(path)) is not None


def _is_root_module(path: str) -> bool:
    """Whether Python would take this for one of its own modules, once the root is on its path."""
    return path.endswith(".py") and path.split("/", 1)[0].removesuffix(".py") in _MODULES


def _parts_meet(one: str, other: str) -> bool:
    return _meet(one, other, "*", lambda left, right: left == right or "?" in (left, right))


def _meet(
    one: Sequence[str], other: Sequence[str], star: str, meet: Callable[[str, str], bool]
) -> bool:
    """Whether two sequences can stand for the same one; `star` stands for any number of items."""
    todo, seen = [(0, 0)], set()
    while todo:
        at = left, right = todo.pop()
        if at in seen:
            continue
        seen.add(at)
        first = one[left] if left < len(one) else None
        second = other[right] if right < len(other) else None
        if first is None and second is None:
            return True
        if star in (first, second):
            todo += [(left + 1, right)] if first is not None else []
            todo += [(left, right + 1)] if second is not None else []
        elif first is not None and second is not None and meet(first, second):
            todo.append((left + 1, right + 1))
    return False
