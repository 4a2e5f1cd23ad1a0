"""The file tools: those of a worker, and `restore_file` and `write_attachment`.

A worker has `read_file`, `write_file`, `edit_file`, `grep` and `glob`.

They run in Silas' own process, so they are narrow: they open the workspace by descriptor
(`tree.py`) and never follow a link. That needs no sandbox: nothing of what they read is executed or
interpreted, except a regular expression that cannot take for ever.

A worker writes to a copy. What a changed file held is kept before the copy is taken over, so
`restore_file` is the inverse of every tool that writes, itself included. No model is offered it,
and none can call it: a call is made only if it stands in the script of the plan that the owner has
approved. It brings back nothing that was not in the same directory of the owner's. The same holds
for `write_attachment`: it writes a file that the owner attached to a message, byte by byte.
"""

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Generic, NamedTuple, TypeVar

from pydantic import Field

from silas.gates.models import SafeRegex
from silas.kernel import TaintLevel
from silas.kernel.models import Data, text_like
from silas.kernel.safe_regex import compiled
from silas.sandbox.command_run import to_the_end
from silas.sandbox.environment import PROTECTED
from silas.storage.trees import shown
from silas.tools.declaration import CHANGES, OBSERVES, Tool, checked
from silas.tools.execution import ExecutionEnvelope, ExecutionResult, failed, succeeded
from silas.tools.tree import FileRefused, Tree, matching, split_path

MAX_FILE_BYTES = 8 * 1024 * 1024
MAX_FILES = 20_000
NOT_ARTIFACTS = frozenset(PROTECTED)
"""Names in which a worker cannot leave anything."""

_MAX_LINE_CHARS = 500
_SHOWN_CHARS = 2_000
_MOST_LIKE = 3
_WORDS = re.compile(r"\w+")
_RESTORE = "restore_file"
_ATTACH = "write_attachment"

WorkspacePath = Annotated[str, Field(min_length=1, max_length=1024)]
Sha256 = Annotated[str, text_like(r"[0-9a-f]{64}", "must be a SHA-256")]
ContentFor = Callable[[str, str], Awaitable[bytes | None]]
"""Gives the content with this SHA-256 that was kept for this directory of the owner's."""
AttachedContent = Callable[[str], Awaitable[bytes | None]]
"""Gives the attached file with this SHA-256."""

A = TypeVar("A", bound=Data)


class ReadArguments(Data):
    """Which file, and which lines of it (counted from 1)."""

    path: WorkspacePath
    first_line: int = Field(default=1, ge=1)
    max_lines: int = Field(default=5000, ge=1, le=100_000)


class WriteArguments(Data):
    """Which file, and what it is to hold."""

    path: WorkspacePath
    content: str = Field(max_length=MAX_FILE_BYTES)
    executable: bool | None = None


class EditArguments(Data):
    """Which file, which passage, and what is to stand there instead."""

    path: WorkspacePath
    old: Annotated[str, Field(min_length=1, max_length=MAX_FILE_BYTES)]
    new: str = Field(max_length=MAX_FILE_BYTES)


class GrepArguments(Data):
    """What to look for, in which files, and how many lines to show."""

    pattern: Annotated[SafeRegex, Field(max_length=1000)]
    glob: Annotated[str, Field(min_length=1, max_length=1000)] = "**"
    max_matches: int = Field(default=200, ge=1, le=5000)


class GlobArguments(Data):
    """`*` and `?` stay in one directory, `**` crosses them."""

    pattern: Annotated[str, Field(min_length=1, max_length=1000)]


class RestoreArguments(Data):
    """Which file, and the hash of what it is to hold again."""

    path: WorkspacePath
    sha256: Sha256
    executable: bool = Field(description="Whether it was executable.")


class AttachmentArguments(Data):
    """Which file, and the hash of the attached file that it is to hold."""

    path: WorkspacePath
    sha256: Sha256


def file_tools() -> list[Tool]:
    """The tools that read and write files of the workspace."""
    return [
        Tool(
            "read_file",
            ReadArguments,
            _FileExecutor(ReadArguments, _read),
            contained=True,
            stays_offline=True,
            effect=OBSERVES,
            description=(
                "Read a text file of the workspace. Paths are relative to the workspace. "
                'Example: {"path": "src/app.py", "first_line": 1, "max_lines": 200}'
            ),
        ),
        Tool(
            "write_file",
            WriteArguments,
            _FileExecutor(WriteArguments, _write),
            contained=True,
            stays_offline=True,
            effect=CHANGES,
            inverse=_RESTORE,
            description=(
                "Write a whole text file of the workspace; what was in it is replaced. To change a "
                "part of a file use edit_file. "
                'Example: {"path": "notes.txt", "content": "hello\\n"}'
            ),
        ),
        Tool(
            "edit_file",
            EditArguments,
            _FileExecutor(EditArguments, _edit),
            contained=True,
            stays_offline=True,
            effect=CHANGES,
            inverse=_RESTORE,
            description=(
                "Replace one passage of a text file. `old` must be in the file exactly once, so "
                "copy it with enough lines around it. "
                'Example: {"path": "app.py", "old": "retries = 3", "new": "retries = 5"}'
            ),
        ),
        Tool(
            "grep",
            GrepArguments,
            _FileExecutor(GrepArguments, _grep),
            contained=True,
            stays_offline=True,
            effect=OBSERVES,
            description=(
                "Find lines of the workspace's text files that match a regular expression. "
                'Example: {"pattern": "def main", "glob": "src/**/*.py"}'
            ),
        ),
        Tool(
            "glob",
            GlobArguments,
            _FileExecutor(GlobArguments, _glob),
            contained=True,
            stays_offline=True,
            effect=OBSERVES,
            description=(
                "List the files of the workspace whose path matches. `*` and `?` stay in one "
                'directory, `**` crosses directories. Example: {"pattern": "**/*.md"}'
            ),
        ),
    ]


def restore_tool(content_for: ContentFor) -> Tool:
    """`restore_file`, over what is kept in a data directory."""
    return Tool(
        _RESTORE,
        RestoreArguments,
        _RestoreExecutor(content_for),
        contained=True,
        stays_offline=True,
        effect=CHANGES,
        inverse=_RESTORE,
        offered=False,
    )


def attachment_tool(content_of: AttachedContent) -> Tool:
    """`write_attachment`, over the files that were attached in a data directory."""
    return Tool(
        _ATTACH,
        AttachmentArguments,
        _AttachmentExecutor(content_of),
        contained=True,
        stays_offline=True,
        effect=CHANGES,
        inverse=_RESTORE,
        offered=False,
    )


@dataclass(frozen=True)
class _FileExecutor(Generic[A]):
    """Does its work on the open workspace."""

    arguments: type[A]
    work: Callable[[Tree, A, ExecutionEnvelope], ExecutionResult]

    async def execute(self, envelope: ExecutionEnvelope) -> ExecutionResult:
        args = checked(self.arguments, envelope.args)
        return await _in_workspace(envelope, lambda tree: self.work(tree, args, envelope))


@dataclass(frozen=True)
class _RestoreExecutor:
    """Writes what was kept."""

    content_for: ContentFor

    async def execute(self, envelope: ExecutionEnvelope) -> ExecutionResult:
        args = checked(RestoreArguments, envelope.args)
        content = await self.content_for(envelope.directory or "", args.sha256)
        if content is None:
            return failed(
                envelope,
                f"{args.path} cannot be put back: nothing with the hash {args.sha256} is kept that "
                "was in this directory.",
            )

        def write(tree: Tree) -> ExecutionResult:
            _require_writable(envelope, args.path)
            tree.write(args.path, content, executable=args.executable)
            text = f"Put {len(content)} bytes back to {args.path}."
            return succeeded(envelope, text, artifacts={args.path: args.sha256})

        return await _in_workspace(envelope, write)


@dataclass(frozen=True)
class _AttachmentExecutor:
    """Writes what was attached. Somebody wrote it: it is foreign to the run."""

    content_of: AttachedContent

    async def execute(self, envelope: ExecutionEnvelope) -> ExecutionResult:
        args = checked(AttachmentArguments, envelope.args)
        content = await self.content_of(args.sha256)
        if content is None:
            return failed(
                envelope,
                f"{args.path} cannot be written: the attached file is not kept any more. Attach it "
                "again.",
            )

        def write(tree: Tree) -> ExecutionResult:
            _require_writable(envelope, args.path)
            tree.write(args.path, content)
            text = f"Wrote the attached file to {args.path}: {len(content)} bytes."
            made = {args.path: args.sha256}
            return succeeded(envelope, text, artifacts=made, taint=TaintLevel.EXTERNAL)

        return await _in_workspace(envelope, write)


async def _in_workspace(
    envelope: ExecutionEnvelope, work: Callable[[Tree], ExecutionResult]
) -> ExecutionResult:
    """Do the work off the event loop; a refusal becomes a result."""

    def inside() -> ExecutionResult:
        with Tree.open(Path(envelope.sandbox_config.work_dir)) as tree:
            return work(tree)

    try:
        return await to_the_end(asyncio.to_thread(inside))
    except FileRefused as error:
        return failed(envelope, error.message)


def _read(tree: Tree, args: ReadArguments, envelope: ExecutionEnvelope) -> ExecutionResult:
    first = args.first_line - 1
    lines = _text(tree, args.path).splitlines(True)[first : first + args.max_lines]
    return succeeded(envelope, _cut("".join(lines), envelope))


def _write(tree: Tree, args: WriteArguments, envelope: ExecutionEnvelope) -> ExecutionResult:
    _require_writable(envelope, args.path)
    content = args.content.encode()
    tree.write(args.path, content, executable=args.executable)
    digest = hashlib.sha256(content).hexdigest()
    text = f"Wrote {len(content)} bytes to {args.path}."
    return succeeded(envelope, text, artifacts={args.path: digest})


def _edit(tree: Tree, args: EditArguments, envelope: ExecutionEnvelope) -> ExecutionResult:
    _require_writable(envelope, args.path)
    text = _text(tree, args.path)
    found = text.count(args.old)
    if found != 1:
        return failed(envelope, _not_unique(args.path, args.old, text, found))
    content = text.replace(args.old, args.new).encode()
    tree.write(args.path, content)
    digest = hashlib.sha256(content).hexdigest()
    return succeeded(envelope, f"Changed {args.path}.", artifacts={args.path: digest})


def _not_unique(path: str, passage: str, text: str, found: int) -> str:
    """Why a passage cannot be replaced, and what its writer needs to see to mend that."""
    if found:
        return f"The passage is there {found} times; it must be unique. Copy more lines around it."
    words = set(_WORDS.findall(passage))
    like = [line for line in text.splitlines() if words <= set(_WORDS.findall(line))]
    if words and 0 < len(like) <= _MOST_LIKE:
        shown = "\n".join(line[:_MAX_LINE_CHARS] for line in like)
        return f"The passage is there 0 times. {path} has this instead; copy it exactly:\n{shown}"
    if len(text) > _SHOWN_CHARS:
        return f"The passage is there 0 times. Read {path} and copy it from there exactly."
    return f"The passage is there 0 times. Copy it from {path} exactly, which holds:\n{text}"


def _grep(tree: Tree, args: GrepArguments, envelope: ExecutionEnvelope) -> ExecutionResult:
    lines: list[str] = []
    for line in _matching_lines(tree, args):
        if len(lines) == args.max_matches:
            lines.append("[there are more]")
            break
        lines.append(line)
    return succeeded(envelope, _cut("\n".join(lines), envelope))


def _matching_lines(tree: Tree, args: GrepArguments) -> Iterator[str]:
    names = tree.listing(skip=NOT_ARTIFACTS, limit=MAX_FILES).files
    for each in find_lines(tree, matching(args.glob, names), args.pattern):
        yield f"{shown(each.name)}:{each.number}: {each.line}"


class ReadText(NamedTuple):
    """What a text file held, with the digest and the size of the bytes that were read."""

    text: str
    sha256: str
    size: int


class FoundLine(NamedTuple):
    """A line that matches, and the file in which it stands."""

    name: str
    number: int
    line: str
    read: ReadText
    """The very content that the line was found in."""


def find_lines(tree: Tree, names: Iterable[str], pattern: str) -> Iterator[FoundLine]:
    """The lines of these text files that match."""
    wanted = compiled(pattern)
    for name in names:
        try:
            read = read_text(tree, name)
        except FileRefused:
            continue  # binary or too large: nothing to show a line of
        for number, line in enumerate(read.text.splitlines(), 1):
            if wanted.search(line):
                yield FoundLine(name, number, line[:_MAX_LINE_CHARS], read)


def _glob(tree: Tree, args: GlobArguments, envelope: ExecutionEnvelope) -> ExecutionResult:
    names = tree.listing(skip=NOT_ARTIFACTS, limit=MAX_FILES).files
    found = "\n".join(map(shown, matching(args.pattern, names)))
    return succeeded(envelope, _cut(found, envelope))


def _require_writable(envelope: ExecutionEnvelope, name: str) -> None:
    """Refuse files that the approval covers, and names that make other programs run code."""
    parts = split_path(name)
    held = sorted(set(parts) & set(PROTECTED))
    if held:
        raise FileRefused(f"{name}: {held[0]} is protected, because other programs act on it.")
    target = f"{envelope.sandbox_config.work_dir}/{name}"
    if target in envelope.sandbox_config.filesystem_read:
        raise FileRefused(f"{name} is part of what was approved and cannot be changed.")


def _text(tree: Tree, name: str) -> str:
    """A text file of the workspace."""
    return read_text(tree, name).text


def read_text(tree: Tree, name: str) -> ReadText:
    """A text file, read once; raises `FileRefused`."""
    raw = tree.read(name, limit=MAX_FILE_BYTES)
    try:
        return ReadText(raw.decode(), hashlib.sha256(raw).hexdigest(), len(raw))
    except UnicodeDecodeError as error:
        raise FileRefused(f"{name} is not UTF-8 text.") from error


def _cut(text: str, envelope: ExecutionEnvelope) -> str:
    """The text, as long as the envelope allows."""
    if len(text) <= envelope.max_output_bytes:
        return text
    return text[: envelope.max_output_bytes] + "\n[the rest was dropped]"
