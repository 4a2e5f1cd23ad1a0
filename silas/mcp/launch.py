"""What of a tool server runs: which program, out of which files, with what; pinned to the byte.

1. The program is named absolutely. Links on the way to it are followed when it is pinned, and where
   they lead is pinned as well; its interpreter (`#!`) too.
2. Everything that it loads lies in trees: folders whose every file and link is part of one digest.
   What is neither in a tree nor in the system's own directories does not exist in the sandbox. A
   script or a module among the system's own is refused, unless a folder of packages can be pinned
   with it: what it loads there changes with other programs' updates.
3. A link in a tree leads to the same tree, to another one, or to the system. Any other is refused.
4. A package runner, code in an argument (`npx`, `sh -c`, `python -c`, `node -e`), code in the
   workspace and a program that only starts another one (`env`, `timeout`) are refused: what they
   would run is in no file that can be pinned.
5. A variable that changes which code is run or loaded is refused. So is one that holds a
   credential: no program in a sandbox gets one.
6. All of it is compared before every start. What differs by one byte is not started.
"""

import hashlib
import os
import stat
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from silas.egress.hosts import Hosts
from silas.kernel import SkillError, canonical_bytes, visible
from silas.kernel.models import Data, FieldProblem, refuse, text_like
from silas.kernel.redaction import redact
from silas.mcp.importing import fetches
from silas.sandbox import environment
from silas.sandbox.models import MEBIBYTE, CanonicalPath, is_within
from silas.skills.sidecar import VariableName
from silas.storage.trees import Entry, shown, walk

WORKSPACE = "{workspace}"
"""In an argument: where the copy of the workspace lies."""
MAX_TREES = 16
MAX_FILES = 60_000
MAX_TREE_BYTES = 1024 * MEBIBYTE
_MAX_PROGRAM_BYTES = 512 * MEBIBYTE
_INLINE: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("sh", "bash", "dash", "zsh", "fish", "ksh"), ("-c",)),
    **dict.fromkeys(("python", "python3", "pypy", "pypy3"), ("-c", "-")),
    **dict.fromkeys(("node", "nodejs"), ("-e", "--eval", "-p", "--print", "-r", "--require", "-")),
    **dict.fromkeys(("perl", "ruby"), ("-e", "-E", "-")),
}
"""Programs that take code as an argument, and which words say so."""
_MODULES = frozenset({"python", "pypy"})
"""Interpreters that run a module with `-m`."""
_STARTERS = (
    *("bwrap", "busybox", "chroot", "chrt", "dbus-run-session", "doas", "env", "find", "firejail"),
    *(
        "flock",
        "gdb",
        "ionice",
        "ltrace",
        "make",
        "nice",
        "nohup",
        "nsenter",
        "parallel",
        "prlimit",
    ),
    *("run-parts", "runuser", "script", "setpriv", "setsid", "ssh", "stdbuf", "strace", "su"),
    *("sudo", "systemd-run", "taskset", "time", "timeout", "toybox", "unshare", "watch", "xargs"),
)
"""Programs that start what their arguments name."""
_LOADS = (
    *("LD_", "DYLD_", "GLIBC_", "GCONV_", "OPENSSL_", "BASH_", "GIT_", "PYTHON", "PERL", "RUBY"),
    *("GEM_", "NODE_", "NPM_", "TS_NODE", "DENO_", "BUN_", "LUA_", "PHP", "DOTNET_", "CORECLR_"),
    *("JAVA_", "_JAVA_", "JDK_"),
)
_LOADS_TOO = frozenset(
    {"PATH", "ENV", "HOME", "TMPDIR", "IFS", "SHELL", "SHELLOPTS", "CLASSPATH", "LUA_INIT"}
)
_HARMLESS = frozenset({"PYTHONUNBUFFERED", "PYTHONIOENCODING", "PYTHONUTF8", "NODE_ENV"})

Sha256 = Annotated[str, text_like(r"[0-9a-f]{64}", "must be a SHA-256")]
Argument = Annotated[str, Field(max_length=4000), text_like(r"[^\x00-\x1f\x7f]*", "is one line")]


class LaunchRefused(SkillError):
    """This program cannot be pinned, so it cannot be a tool server. The sentence says why."""

    code = "E_SKILL_MCP_PROGRAM"


class ServerChanged(SkillError):
    """What the tool server consists of is not what you have approved. It was not used."""

    code = "E_SKILL_MCP_CHANGED"


class PinnedProgram(Data):
    """One program: where it is named, where that leads, and what it holds."""

    path: CanonicalPath
    target: CanonicalPath
    sha256: Sha256


class PinnedTree(Data):
    """A folder that the program runs out of."""

    path: CanonicalPath
    sha256: Sha256
    """Over every file and link in it, with names and executable bits."""
    files: int
    size: int


class Launch(Data):
    """Everything that decides what a server of this machine does when it starts."""

    programs: Annotated[tuple[PinnedProgram, ...], Field(min_length=1, max_length=4)]
    """The program, and its interpreters."""
    arguments: Annotated[tuple[Argument, ...], Field(max_length=100)] = ()
    trees: Annotated[tuple[PinnedTree, ...], Field(max_length=MAX_TREES)] = ()
    variables: dict[VariableName, Argument] = Field(default_factory=dict)
    workspace: Literal["none", "read", "write"] = "none"
    """Whether it sees the copy of the workspace, and may write there."""
    memory_mb: Annotated[int, Field(ge=64, le=8192)] = 1024
    hosts: Hosts = ()
    """What its tools may reach, all of them together."""

    @model_validator(mode="after")
    def _holds_together(self) -> Self:
        if self.workspace == "none" and any(WORKSPACE in each for each in self.arguments):
            refuse([FieldProblem(("workspace",), f"{WORKSPACE} needs `read` or `write`")])
        return self

    def argv(self, directory: str) -> tuple[str, ...]:
        """The command in a run whose workspace lies here."""
        return (
            self.programs[0].path,
            *(each.replace(WORKSPACE, directory) for each in self.arguments),
        )

    @property
    def mounts(self) -> tuple[str, ...]:
        """What has to be visible beside the system's own directories."""
        return tuple(each.path for each in self.trees)

    def require_unchanged(self) -> None:
        """Raise `ServerChanged` unless every byte is as it was pinned (rule 6)."""
        differences = self.differences()
        if differences:
            raise ServerChanged(f"{ServerChanged.sentence()} {' '.join(differences)}")

    def differences(self) -> list[str]:
        """What is not as it was pinned, in sentences; empty if all is."""
        found = []
        for program in self.programs:
            try:
                now = _pin_program(program.path)
            except LaunchRefused as error:
                found.append(error.message)
                continue
            if now != program:
                found.append(f"The program {program.path} is another one.")
        for tree in self.trees:
            try:
                if pin_tree(Path(tree.path), beside=self.mounts) != tree:
                    found.append(f"The files in {tree.path} are others.")
            except LaunchRefused as error:
                found.append(error.message)
        return found


class LaunchWish(Data):
    """What the owner names: the program with its arguments, and what it is given."""

    program: Annotated[str, Field(min_length=1, max_length=4000)]
    arguments: Annotated[tuple[Argument, ...], Field(max_length=100)] = ()
    trees: Annotated[tuple[str, ...], Field(max_length=MAX_TREES)] = ()
    """Folders that belong to it, besides those that Silas finds by itself."""
    variables: dict[VariableName, Argument] = Field(default_factory=dict)
    workspace: Literal["none", "read", "write"] | None = None
    """None: `write` if an argument names it, else `none`."""
    memory_mb: Annotated[int, Field(ge=64, le=8192)] = 1024
    hosts: Hosts = ()


def pin(wish: LaunchWish, *, off_limits: Sequence[str] = ()) -> Launch:
    """The program and everything that it runs out of; raises `LaunchRefused` (rules 1 to 5).

    `off_limits` are folders that no server ever sees: those that Silas keeps.
    """
    _require_harmless(wish)
    programs = _programs(wish.program)
    _require_pinned_code(programs, wish.arguments)
    folders = [*map(str, map(Path, wish.trees)), *_found_trees(programs, wish.arguments)]
    chosen = _outermost(folders)
    for folder in chosen:
        _require_own(folder, off_limits)
    trees = tuple(pin_tree(Path(folder), beside=chosen) for folder in chosen)
    for program in programs:
        for path in (program.path, program.target):
            if not _is_visible(path, chosen):
                raise LaunchRefused(
                    f"{shown(path)} lies neither in the system's directories nor in a folder that "
                    "was named. Name its folder with --tree."
                )
    needs = any(WORKSPACE in each for each in wish.arguments)
    return Launch(
        programs=programs,
        arguments=wish.arguments,
        trees=trees,
        variables=wish.variables,
        workspace=wish.workspace or ("write" if needs else "none"),
        memory_mb=wish.memory_mb,
        hosts=wish.hosts,
    )


def _require_harmless(wish: LaunchWish) -> None:
    """Rules 4 and 5."""
    name = Path(wish.program).name
    for each in {name, Path(os.path.realpath(wish.program)).name}:
        stem = _stem(each)
        if runner := fetches(each):
            raise LaunchRefused(runner)
        if stem in _STARTERS:
            raise LaunchRefused(f"Name the program itself, not `{stem}`.")
        _require_code_in_files(each, stem, wish.arguments)
        if _is_interpreter(each):
            _require_no_runner(wish.arguments)
    for variable, value in wish.variables.items():
        upper = variable.upper()
        loads = upper.startswith(_LOADS) or upper in _LOADS_TOO
        if loads and upper not in _HARMLESS:
            raise LaunchRefused(f"{variable} changes which code is run. Leave it out.")
        if redact({variable: value}) != {variable: value}:
            raise LaunchRefused(
                f"{variable} holds a credential. No program in a sandbox gets one: use the "
                "server's remote form, whose credential Silas' broker keeps."
            )
    if redact(list(wish.arguments)) != list(wish.arguments):
        raise LaunchRefused("There is a credential in the arguments. No program gets one.")


def _stem(name: str) -> str:
    return name.rstrip("0123456789.") or name


def _is_interpreter(path: str) -> bool:
    names = {Path(path).name, _stem(Path(path).name)}
    return bool(names & _INLINE.keys())


def _script_of(arguments: Sequence[str]) -> str | None:
    """The file that an interpreter runs."""
    return next((each for each in arguments if each.startswith("/") and Path(each).is_file()), None)


def _module_of(arguments: Sequence[str]) -> str | None:
    """The module that an interpreter runs."""
    own = _own_words(arguments, modules=True)
    rest = arguments[len(own) :]
    return rest[1] if len(rest) > 1 and rest[0] == "-m" else None


def _require_no_runner(arguments: Sequence[str]) -> None:
    """A package runner as its interpreter sees it: `node …/npx-cli.js`, `python -m uv`."""
    script, module = _script_of(arguments), _module_of(arguments)
    named = [script, os.path.realpath(script)] if script else []
    named += [module.partition(".")[0]] if module else []
    for runner in filter(None, map(fetches, named)):
        raise LaunchRefused(runner)


def _require_pinned_code(programs: Sequence[PinnedProgram], arguments: Sequence[str]) -> None:
    """The end of rule 2."""
    *scripts, program = [each.target for each in programs]
    if not scripts and _is_interpreter(program):
        script = _script_of(arguments)
        scripts += [os.path.realpath(script)] if script else []
        module = (_module_of(arguments) or "").partition(".")[0]
        if module and module not in sys.stdlib_module_names:  # installed beside the interpreter
            scripts.append(programs[0].path)
    for script in scripts:
        if not any(_home_of(script)):
            raise LaunchRefused(
                f"{shown(script)} is one of the system's own programs, and what it loads there "
                "changes with others. Install the server into a folder of its own "
                "(docs/mcp.md shows how), and name its program there."
            )


def _require_code_in_files(name: str, stem: str, arguments: Sequence[str]) -> None:
    words = _INLINE.get(name, _INLINE.get(stem))
    own = [] if words is None else _own_words(arguments, modules=stem in _MODULES)
    if any(WORKSPACE in word for word in own):
        raise LaunchRefused(
            f"{name} would run code out of the workspace, which nobody can pin. Put it into a "
            "folder of its own, and name that."
        )
    for word in words or ():
        if _has_option(own, word):
            raise LaunchRefused(
                f"`{name} {word}` runs code that is in no file, so it cannot be pinned. Put it "
                "into a file, and name that."
            )


def _own_words(arguments: Sequence[str], *, modules: bool) -> list[str]:
    """What an interpreter itself reads: everything before the file, or the module, that it runs.

    A plain word before that is the value of an option, and ends nothing.
    """
    own: list[str] = []
    for each in arguments:
        if (modules and each == "-m") or (each.startswith("/") and Path(each).is_file()):
            break
        own.append(each)
    return own


def _has_option(own: Sequence[str], word: str) -> bool:
    """Whether an option of the interpreter itself says so."""
    for each in own:
        if each == word or (word.startswith("--") and each.startswith(f"{word}=")):
            return True
        if not each.startswith("-"):
            continue
        short = len(word) == 2 and not each.startswith("--")
        if short and word != "-" and word[1] in each[1:]:
            return True
    return False


def _programs(program: str) -> tuple[PinnedProgram, ...]:
    """The program and the interpreters that it is started with (rule 1)."""
    if not program.startswith("/"):
        raise LaunchRefused(f"{visible(program)} is no absolute path. Name the program whole.")
    found = [_pin_program(os.path.normpath(program))]
    while interpreter := _interpreter(found[-1].target):
        if len(found) == 4 or any(each.path == interpreter for each in found):
            raise LaunchRefused(f"{shown(program)} goes through too many interpreters.")
        found.append(_pin_program(interpreter))
    return tuple(found)


def _pin_program(path: str) -> PinnedProgram:
    try:
        target = os.path.realpath(path, strict=True)
        with open(target, "rb") as file:  # noqa: PTH123 - to the descriptor's own status
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or not status.st_mode & 0o111:
                raise LaunchRefused(f"{shown(path)} is no program.")
            if status.st_size > _MAX_PROGRAM_BYTES:
                raise LaunchRefused(f"{shown(path)} is too large for a program.")
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise LaunchRefused(f"{shown(path)} cannot be read: {error.strerror}.") from error
    return PinnedProgram(path=path, target=target, sha256=digest)


def _interpreter(program: str) -> str | None:
    """What the first line of a script names."""
    with open(program, "rb") as file:  # noqa: PTH123 - it was read just now
        first = file.readline(512)
    if not first.startswith(b"#!"):
        return None
    words = first[2:].decode("utf-8", "replace").split()
    if words and Path(words[0]).name == "env":
        names = [each for each in words[1:] if not each.startswith("-")]
        for place in environment.SYSTEM_PATH.split(":") if names else ():
            if os.access(f"{place}/{names[0]}", os.X_OK):
                return f"{place}/{names[0]}"
        raise LaunchRefused(f"{shown(program)} wants {names[:1]}, which the system does not have.")
    if not words or not words[0].startswith("/"):
        raise LaunchRefused(f"{shown(program)} does not say which program runs it.")
    return os.path.normpath(words[0])


def _found_trees(programs: Sequence[PinnedProgram], arguments: Sequence[str]) -> Iterator[str]:
    """The folders that programs and files in arguments belong to."""
    for program in programs:
        yield from _home_of(program.path)
        yield from _home_of(program.target)
    for argument in arguments:
        if argument.startswith("/") and Path(argument).is_file():
            yield from _home_of(os.path.normpath(argument))
            yield from _home_of(os.path.realpath(argument))


def _home_of(path: str) -> Iterator[str]:
    """A virtual environment with the Python below it, an installation of npm, the installation
    of an interpreter of the owner's own (nvm, pyenv), or the folder.

    Nothing, of a program of the system's own.
    """
    parents = Path(path).parents
    for parent in parents:
        if (parent / "pyvenv.cfg").is_file():
            yield str(parent)
            yield from _base_python(parent)
            return
    modules = [each for each in parents if each.name == "node_modules"]
    if modules:
        yield str(modules[-1])
    elif not _is_system(path):
        yield str(_installation_of(path) or parents[0])


def _installation_of(path: str) -> Path | None:
    """Where an interpreter has what belongs to it, beside its `bin`; None for anything else."""
    program = Path(path)
    prefix = program.parent.parent
    holds_more = prefix == Path.home().resolve() / ".local"
    beside = program.parent.name == "bin" and (prefix / "lib").is_dir()
    return prefix if _is_interpreter(path) and beside and not holds_more else None


def _base_python(environment_folder: Path) -> Iterator[str]:
    text = (environment_folder / "pyvenv.cfg").read_text("utf-8", "replace")
    for line in text.splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "home" and not _is_system(value.strip()):
            yield str(Path(os.path.realpath(value.strip())).parent)


def _outermost(folders: Sequence[str]) -> list[str]:
    unique = sorted(set(folders), key=len)
    return [
        each
        for at, each in enumerate(unique)
        if not any(is_within(each, outer) for outer in unique[:at])
    ]


def _require_own(folder: str, off_limits: Sequence[str]) -> None:
    """Refuse folders that are more than a program's own."""
    home = str(Path.home().resolve())
    if os.path.realpath(folder) != folder:
        raise LaunchRefused(f"{shown(folder)} is reached through a link. Name where it leads.")
    if is_within(home, folder) or folder in ("/tmp", "/etc", "/var", "/home", "/opt"):  # noqa: S108
        raise LaunchRefused(
            f"{shown(folder)} holds much more than the server. Put the server into a folder of its "
            "own, or name that with --tree."
        )
    if any(is_within(folder, each) or is_within(each, folder) for each in off_limits):
        raise LaunchRefused(f"{shown(folder)} is Silas' own, and shown to no server.")


def _is_system(path: str) -> bool:
    roots = (*environment.system_directories(), *environment.system_links())
    return any(is_within(path, root) for root in roots)


def _is_visible(path: str, trees: Sequence[str]) -> bool:
    return _is_system(path) or any(is_within(path, tree) for tree in trees)


def pin_tree(folder: Path, *, beside: Sequence[str] = ()) -> PinnedTree:
    """Every file and link below a folder; raises `LaunchRefused` (rules 2 and 3)."""
    began = time.time_ns()
    stamps = _stamps(folder)
    known = _READ.get((str(folder), tuple(beside)))
    if known is not None and known[0] == stamps:
        return known[1]
    tree = _read_tree(folder, beside)
    newest = max((each[-1] for each in stamps), default=0)
    if _stamps(folder) == stamps and newest < began - _RACY_NANOSECONDS:
        if len(_READ) >= _MOST_READ:
            _READ.clear()
        _READ[str(folder), tuple(beside)] = stamps, tree
    return tree


Stamps = list[tuple[str, int, int, int, int, int]]
_READ: dict[tuple[str, tuple[str, ...]], tuple[Stamps, PinnedTree]] = {}
"""Trees that were read, with the stamps of their files: what nobody has written to since is not
read again. The kernel sets the last stamp, and no program can."""
_MOST_READ = 32
_RACY_NANOSECONDS = 2_000_000_000
"""A file that was written to so shortly before it was read could be written to at the same time."""


def _stamps(folder: Path) -> Stamps:
    """What the kernel says of every file of a tree."""
    found: Stamps = []
    with _opened(folder) as root:
        for entry in walk(root):
            status = entry.status
            stamp = (status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns)
            found.append((entry.path, *stamp, status.st_ctime_ns))
    return sorted(found)


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    try:
        root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise LaunchRefused(f"{shown(str(folder))} cannot be read: {error.strerror}.") from error
    try:
        yield root
    except OSError as error:
        raise LaunchRefused(f"{shown(str(folder))}: {error.strerror}.") from error
    finally:
        os.close(root)


def _read_tree(folder: Path, beside: Sequence[str]) -> PinnedTree:
    lines: list[tuple[str, str, str]] = []
    files = size = 0
    with _opened(folder) as root:
        for entry in walk(root):
            kind, value, length = _pinned(entry, folder, beside)
            if kind:
                lines.append((os.fsencode(entry.path).hex(), kind, value))
                files, size = files + 1, size + length
            if files > MAX_FILES or size > MAX_TREE_BYTES:
                raise LaunchRefused(
                    f"{shown(str(folder))} holds too much for a server: more than {MAX_FILES} "
                    f"files, or {MAX_TREE_BYTES // MEBIBYTE} MB. Give it a folder of its own."
                )
    digest = hashlib.sha256(canonical_bytes({"tree": 1, "files": sorted(lines)}))
    return PinnedTree(path=str(folder), sha256=digest.hexdigest(), files=files, size=size)


def _pinned(entry: Entry, folder: Path, beside: Sequence[str]) -> tuple[str, str, int]:
    """What one name in a tree is: its kind, what it holds, its size."""
    mode = entry.status.st_mode
    if stat.S_ISLNK(mode):
        target = os.readlink(entry.name, dir_fd=entry.directory)
        _require_inside(folder / entry.path, target, (str(folder), *beside))
        return "link", os.fsencode(target).hex(), 0
    if entry.is_directory:
        return "", "", 0
    if not stat.S_ISREG(mode):
        raise LaunchRefused(f"{shown(entry.path)} in {shown(str(folder))} is no plain file.")
    kind = "program" if mode & stat.S_IXUSR else "file"
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(entry.name, flags, dir_fd=entry.directory)
    with os.fdopen(descriptor, "rb") as file:
        return kind, hashlib.file_digest(file, "sha256").hexdigest(), entry.status.st_size


def _require_inside(place: Path, target: str, roots: Sequence[str]) -> None:
    """Rule 3: where a link leads, one step; what is there is pinned by itself."""
    leads = os.path.normpath(place.parent / target)
    if not (_is_system(leads) or any(is_within(leads, root) for root in roots)):
        raise LaunchRefused(
            f"The link {shown(str(place))} leads out of the server's folder, to {shown(target)}."
        )
