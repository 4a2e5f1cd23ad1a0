"""Where the values in a call come from, as far as the runtime saw it happen.

1. `plan`: the value stands in the words that the owner approved.
2. `tool:NAME`: it stood in a result of that tool, outside of the sandbox, and not in the arguments
   of the same call. Otherwise a worker could say a value to a tool that repeats it.
3. A value counts as standing there only as a whole: `a.test` does not stand in `a.test.evil`.
   A single character, and a whole number of up to three digits, says so little that it stands
   everywhere: it has no source. "1. Show me the files" does not name the file 1.
4. A list or an object has the sources that all of its parts have.
5. `tool:NAME#WHO`: it is a field of the record named WHO among the results of that tool, which must
   be JSON. A record is an object with a field that is exactly WHO. If two different records have
   that name, neither does: somebody may have put the second one there. Text inside of a field is
   never a record, and names that only look alike are different.

What a tool in the sandbox prints is no source: the worker decides what it prints.
"""

import asyncio
import posixpath
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from silas.gates.envelopes import lookups_in, origin_of
from silas.gates.guards.jailbreak import ForeignTexts
from silas.kernel import (
    OWNERS,
    CanonicalError,
    Provenance,
    TaintLevel,
    external,
    read_at,
    strict_loads,
)
from silas.tools.declaration import Tool
from silas.tools.execution import ACCOUNT_SOURCE, ExecutionResult
from silas.tools.tree import FileRefused, Tree, matches
from silas.work.attempt_files import MAX_FILES
from silas.work.execution_context import ExecutionContext
from silas.work.models import WorkItem
from silas.work.origins import OriginStore, made_from_words
from silas.work.shell_commands import ShellCommand, Unreadable, read_list
from silas.work.shell_commands import names as words_of
from silas.work.workspaces import AttemptWorkspace, WorkspaceKind

PLAN = "plan"
_JOINED_BEFORE = r"(?<![\w@:/.%+~-])"
_JOINED_AFTER = r"(?![\w@:/%+~-]|\.\w)"
_SAYS_LITTLE = re.compile(r"\W*(?:\w|\d{1,3})\W*")
_MAX_CHARS_PER_TOOL = 2_000_000


@dataclass
class ArgumentSources:
    """What was said and read in one attempt."""

    approved: str
    _read: dict[str, list[tuple[str, frozenset[str]]]] = field(default_factory=dict)
    _size: dict[str, int] = field(default_factory=dict)

    def saw(self, tool: str, args: Mapping[str, Any], result: str) -> None:
        """Remember what a call gave; beyond a limit, what comes has no source."""
        size = self._size.get(tool, 0) + len(result)
        if size <= _MAX_CHARS_PER_TOOL:
            said = frozenset(text.casefold() for text in (*_texts(args), *_names(args)))
            self._read.setdefault(tool, []).append((result, said))
            self._size[tool] = size

    def of_arguments(
        self, args: Mapping[str, Any], *, lookups: Iterable[tuple[str, str]] = ()
    ) -> dict[str, tuple[str, ...]]:
        """The sources of each argument; records are looked up for these tools and names."""
        asked = list(lookups)
        return {
            name: tuple(sorted(self.sources_of(value) | self._records_with(value, asked)))
            for name, value in args.items()
        }

    def sources_of(self, value: Any) -> frozenset[str]:
        """Everything that the whole value can have come from."""
        parts = [self._sources_of_text(text) for text in _texts(value)]
        return frozenset.intersection(*parts) if parts else frozenset({PLAN})

    def are_owners_words(self, args: Mapping[str, Any]) -> bool:
        """Whether everything in these arguments stands in what the owner approved."""
        words = [each for value in args.values() for each in (*_texts(value), *_names(value))]
        return all(_stands_in(text, self.approved) for text in words)

    def _records_with(self, value: Any, lookups: Iterable[tuple[str, str]]) -> frozenset[str]:
        """Rule 5."""
        texts = list(_texts(value))
        return frozenset(
            origin_of(f"tool:{tool}", name)
            for tool, name in lookups
            if texts and self._is_in_record(texts, tool, name)
        )

    def _is_in_record(self, texts: list[str], tool: str, name: str) -> bool:
        named: list[Mapping[str, Any]] = []
        for result, said in self._read.get(tool, ()):
            found = [each for each in _records(result) if name in _fields(each)]
            if any(_was_said(text, said) for text in texts) and found:
                return False
            named.extend(each for each in found if each not in named)
        return len(named) == 1 and set(texts) <= set(_fields(named[0]))

    def _sources_of_text(self, text: str) -> frozenset[str]:
        if _SAYS_LITTLE.fullmatch(text):
            return frozenset()
        found = {
            f"tool:{tool}"
            for tool, results in self._read.items()
            if any(
                _stands_in(text, result) and not _was_said(text, said) for result, said in results
            )
        }
        return frozenset(found | {PLAN} if _stands_in(text, self.approved) else found)


def _records(result: str) -> Iterator[Mapping[str, Any]]:
    """Every object in a result that is JSON."""
    try:
        pending = [strict_loads(result)]
    except CanonicalError:
        return
    while pending:
        value = pending.pop()
        if isinstance(value, Mapping):
            yield value
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)


def _fields(record: Mapping[str, Any]) -> list[str]:
    """The texts and numbers that stand in the record itself."""
    return [text for value in record.values() if _is_plain(value) for text in _texts(value)]


def _is_plain(value: Any) -> bool:
    return not isinstance(value, Mapping | list | tuple)


def _texts(value: Any) -> Iterator[str]:
    """Every text and number in a value, as it would be read."""
    if isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)
    elif value is not None and not isinstance(value, bool) and value != "":
        yield str(value)


def _names(value: Any) -> Iterator[str]:
    """Every name in the objects of a value: whoever makes the call may have chosen it."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield str(name)
            yield from _names(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _names(each)


def _was_said(text: str, said: frozenset[str]) -> bool:
    """Whether it stood in the arguments, alone or among other words, in capitals or not."""
    return any(_stands_in(text.casefold(), each) for each in said)


def _stands_in(text: str, place: str) -> bool:
    return re.search(_JOINED_BEFORE + re.escape(text) + _JOINED_AFTER, place) is not None


_NOT_WRITTEN_DOWN = "what {name} has read, of which an earlier version kept no source"
_SHELLS = ("sh", "/bin/sh", "bash", "/bin/bash")
_READS_NAMED = words_of(
    "cat head tail wc test [ stat cmp nl tac sha1sum sha256sum sha512sum md5sum cksum"
)
_READS_NOTHING = words_of("echo printf true false : exit pwd date sleep seq mkdir rm touch")
_HAS_NO_OPTIONS = frozenset({"echo", "printf", "test", "[", "true", "false", ":"})
_DATE_READS_NOTHING = frozenset({"-u", "-R", "-I", "-d"})
_EXPANDED = frozenset("{}$")
"""What some shells make other names from: `{a,b}`, `$'a'`."""
_WRITES_ONLY = frozenset({"write_file", "restore_file", "write_attachment"})
_READS_ONE = frozenset({"read_file", "edit_file"})


def files_read(
    tool: Tool, args: Mapping[str, Any], names: Collection[str], *, plain: bool
) -> Collection[str]:
    """Which of these files of the workspace a call can have read.

    A command, and whatever is not known here, can have read all of them; a command that names what
    it reads, only those, if the workspace is `plain`.
    """
    if not tool.contained or tool.name in _WRITES_ONLY:
        return ()
    if tool.name in _READS_ONE:
        wanted = posixpath.normpath(str(args.get("path", "")))
        return [name for name in names if name == wanted]
    if tool.name == "grep":
        return [name for name in names if matches(str(args.get("glob", "**")), name)]
    if tool.name == "glob":
        return [name for name in names if matches(str(args.get("pattern", "**")), name)]
    argv = args.get("argv") if plain and tool.name == "shell_exec" else None
    return command_reads(_as_text(argv), names) if isinstance(argv, list) else names


def _as_text(argv: Sequence[str]) -> str:
    if len(argv) == 3 and argv[0] in _SHELLS and argv[1] == "-c":
        return str(argv[2])
    return shlex.join(map(str, argv))


def command_reads(text: str, names: Collection[str]) -> Collection[str]:
    """Which of these files a command can read: all, unless every part of it names what it reads."""
    try:
        commands = [each for pipeline in read_list(text) for each in pipeline.commands]
        operands = [operand for command in commands for operand in _operands(command)]
    except Unreadable:
        return names
    read = [posixpath.normpath(each) for each in operands]
    if any(each.startswith(("/", "..", "~")) for each in read):
        return names
    return [name for name in names if any(name == each or _is_below(name, each) for each in read)]


def _is_below(name: str, folder: str) -> bool:
    return folder == "." or name.startswith(f"{folder}/")


def _operands(command: ShellCommand) -> Iterator[str]:
    """The paths that one command reads; raises `Unreadable` if only its program knows them."""
    words = [*command.words, *(target for _, target in command.redirections)]
    if command.assignments or not all(
        each.is_constant and not each.substitutions for each in words
    ):
        raise Unreadable("only the shell knows what it reads")
    program, *rest = command.texts or (":",)
    if program not in _READS_NAMED | _READS_NOTHING:
        raise Unreadable(f"{program} may read anything")
    options = [each for each in rest if each.startswith("-") and program not in _HAS_NO_OPTIONS]
    if any(_may_name_a_file(program, each) for each in options):
        raise Unreadable(f"an option of {program} may name what it reads")
    named = [target.text for kind, target in command.redirections if "<" in kind]
    if program in _READS_NAMED:
        named += [each for each in rest if not each.startswith("-")]
    if any(_EXPANDED & set(each) for each in named):
        raise Unreadable("only the shell knows which names these are")
    yield from named


def _may_name_a_file(program: str, option: str) -> bool:
    """`wc --files0-from=F` and `date -f F` print what F holds; after `--`, `-x` is a file."""
    return option.startswith("--") or (program == "date" and option not in _DATE_READS_NOTHING)


async def foreign_files(ctx: ExecutionContext, files: AttemptWorkspace) -> dict[str, str]:
    """The strangers' files that an attempt began with, each with its source."""
    imported = await asyncio.to_thread(lambda: files.imported)
    found: dict[str, str] = {}
    if imported:
        before = [name for name in (files.item.follow_up_of, *files.item.depends_on) if name]
        handed_on = await read_by(ctx, before)
        if handed_on.taint is TaintLevel.EXTERNAL:
            mark = made_from_words(handed_on.sources) or "made from a stranger's text"
            found |= {name: f"the file {name} ({mark})" for name in imported}
    if files.kind is WorkspaceKind.COPY and files.workspace.path is not None:
        own = {name: each for name, each in files.base.digests.items() if name not in imported}
        found |= await ctx.origins.foreign_files(files.workspace.path, own)
    return found


async def read_by(ctx: ExecutionContext, work_item_ids: Iterable[str]) -> Provenance:
    """What the runs of these items have read, as far as it is written down."""
    names = list(work_item_ids)
    known = await ctx.origins.of_work(names)
    for name in names:
        for attempt in await ctx.attempts.list_of(name):
            entries = await ctx.ledger.entries(name, attempt.attempt)
            taints = [entry.result.taint for entry in entries if entry.result]
            if TaintLevel.EXTERNAL in taints and known.taint is not TaintLevel.EXTERNAL:
                known = known.joined(external(_NOT_WRITTEN_DOWN.format(name=name)))
    return known


async def made_from(ctx: ExecutionContext, item: WorkItem) -> tuple[str, ...]:
    """The work that this item follows from, and what that follows from, and so on."""
    found: dict[str, None] = {}
    names = [item]
    while names:
        each = names.pop()
        before = (each.parent, each.spawned_by, each.follow_up_of, *each.depends_on)
        for name in before:
            if name and name != item.id and name not in found:
                found[name] = None
                earlier = await ctx.items.get(name)
                names += [earlier] if earlier else []
    return tuple(found)


async def read_by_checks(ctx: ExecutionContext, files: AttemptWorkspace) -> Provenance:
    """What the checks of an item can have read, and so what they print can hold."""
    checks = files.item.verify
    if not checks:
        return OWNERS
    hosts = [f"{host} (by the check {check.name})" for check in checks for host in check.network]
    foreign = await foreign_files(ctx, files)
    read: dict[str, None] = dict.fromkeys(() if is_plain(files) else foreign)
    for check in checks:
        read |= dict.fromkeys(command_reads(check.run, foreign))
    found = [*hosts, *(foreign[name] for name in read)]
    return external(*found) if found else OWNERS


async def read_below(
    origins: OriginStore, directory: Path, tool: Tool, args: Mapping[str, Any]
) -> Provenance:
    """What a look at the files below a directory can have read."""
    try:
        digests = await asyncio.to_thread(_digests_read, directory, tool, args)
    except FileRefused as error:
        return external(f"files below {directory} that cannot be looked at: {error.message}")
    found = await origins.foreign_files(str(directory), digests)
    return external(*found.values()) if found else OWNERS


def _digests_read(root: Path, tool: Tool, args: Mapping[str, Any]) -> dict[str, str]:
    with Tree.open(root) as tree:
        names = files_read(tool, args, tree.listing(limit=MAX_FILES).files, plain=False)
        return {name: tree.digest(name) or "" for name in names}


def is_plain(files: AttemptWorkspace) -> bool:
    """Whether the names in a command mean what they say.

    A link is another name of a file. A plan's own variables may decide which program is meant.
    """
    return not files.base.stamps.links and not files.workspace.env


def result_source(tool: Tool, result: ExecutionResult, at: datetime) -> Provenance:
    """What a result comes from: the pages that it shows, or the hosts that it was got from."""
    if result.taint is not TaintLevel.EXTERNAL:
        return Provenance(result.taint)
    found = [str(each["url"]) for each in result.content if "url" in each]
    if account := result.metadata.get(ACCOUNT_SOURCE):
        found.insert(0, str(account))
    used = result.metadata.get("network")
    found += [str(each["host"]) for each in used if each["host"]] if isinstance(used, list) else []
    if not found:
        return external(read_at(f"tool:{tool.name}", at))
    return external(*(read_at(f"{page} (by {tool.name})", at) for page in found))


@dataclass
class RunTaint:
    """What has entered the run of this item so far, and where it came from.

    The runtime writes it down as it sees it happen. Nothing of it comes from the worker.
    """

    item: WorkItem
    taint: TaintLevel
    taint_sources: list[str]

    @cached_property
    def foreign(self) -> ForeignTexts:
        """What the worker read from outside: its report does not repeat what was ordered there."""
        return ForeignTexts(self._provenance.approved)

    @cached_property
    def _provenance(self) -> ArgumentSources:
        # Nobody was shown the body of a spawned task: what checks printed stands in it.
        spawned = self.item.spawned_by is not None
        return ArgumentSources("" if spawned else self.item.body)

    def add_text(
        self, name: str, tool: Tool | None, args: dict[str, Any], result: ExecutionResult
    ) -> None:
        """Remember what a call of this tool gave; `tool` is None if it is not there any more."""
        if tool is not None and not tool.contained:
            self._provenance.saw(name, args, result.return_value)
        if result.taint is TaintLevel.EXTERNAL:
            self.foreign.saw(result.return_value)

    @property
    def provenance(self) -> Provenance:
        return Provenance(self.taint, tuple(self.taint_sources))

    def add(self, found: Provenance) -> None:
        """Something was read; the taint of a run only ever grows."""
        joined = self.provenance.joined(found)
        self.taint, self.taint_sources = joined.taint, list(joined.sources)

    def sources_of(self, args: dict[str, Any]) -> dict[str, tuple[str, ...]]:
        """Where each argument of a call can have come from."""
        return self._provenance.of_arguments(args, lookups=lookups_in(self.item.approvals))

    def tells_nobody(self, tool: Tool, args: dict[str, Any]) -> bool:
        """Whether the call gives away nothing that the owner did not say themselves."""
        return tool.own_account or self._provenance.are_owners_words(args)
