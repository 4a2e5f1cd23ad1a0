"""Long texts that the owner attached: shown in part, and read on where an answer needs more.

1. A text is cut into parts, at ends of lines. An agent is shown at most two of them with the
   message: the first, and the one that has most of the request's words, or else the second. It is
   told which, and how the others begin.
2. Two tools read any other part, and find words in all of it. They are there for the owner alone,
   and know the files of this conversation whose messages the owner has signed.
3. What they give is foreign text of that file, as all of it is (`silas.stream.attachments`).
4. How much may be read is bounded as for every tool: by the number of calls, and by the tokens of
   the turn. If not all of a text was read for an answer, the answer says how much was.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from silas.approval.devices import Attached
from silas.kernel import TaintLevel
from silas.kernel.models import Data
from silas.memory.intake import scrub
from silas.stream.attachments import (
    AttachedFile,
    AttachmentStore,
    FileKind,
    ReadFile,
    clean_name,
    kind_of,
    source_of,
)
from silas.stream.reading_tools import ReadingTool, answered_view, refused_view
from silas.tools.execution import ModelView

PART_CHARS = 12_000
_SHOWN_PARTS = 2
_MOST_OUTLINED = 40
_OUTLINE_CHARS = 60
_MOST_FOUND = 40
_AROUND_CHARS = 120
_MIN_WORD_CHARS = 4
_MIN_HASH_CHARS = 8
_WORD = re.compile(r"[^\W_]+")
_NOT_SHOWN = "[What is in it cannot be shown: it is neither a text nor an image.]"
_IMAGE_SHOWN = "[An image. It goes to models that see images, beside the message.]"


class TextPart(NamedTuple):
    """A part of a text, by its characters."""

    number: int
    """Counted from 1."""
    start: int
    end: int
    first_line: int


@dataclass(frozen=True)
class PartedText:
    """A text with its parts (rule 1)."""

    text: str

    @cached_property
    def parts(self) -> list[TextPart]:
        found: list[TextPart] = []
        start, line = 0, 1
        while start < len(self.text):
            end = self._end_of(start)
            found.append(TextPart(len(found) + 1, start, end, line))
            line += self.text.count("\n", start, end)
            start = end
        return found

    def _end_of(self, start: int) -> int:
        """The end of the last line that fits; a line that does not is cut."""
        end = start + PART_CHARS
        if end >= len(self.text):
            return len(self.text)
        last = self.text.rfind("\n", start, end)
        return end if last < 0 else last + 1

    def of(self, part: TextPart) -> str:
        return self.text[part.start : part.end]

    def shown(self, request: str) -> list[TextPart]:
        """The parts that an agent is shown with this request (rule 1)."""
        if len(self.parts) <= _SHOWN_PARTS:
            return self.parts
        words = {each for each in _words(request) if len(each) >= _MIN_WORD_CHARS}
        scores = {part: self._score(part, words) for part in self.parts[1:]}
        best = max(scores, key=lambda part: (scores[part], -part.number))
        return [self.parts[0], best]

    def _score(self, part: TextPart, words: set[str]) -> tuple[int, int]:
        """How many of the words are in it, and how often."""
        found = Counter(each for each in _words(self.of(part)) if each in words)
        return len(found), sum(found.values())


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def shown_of(found: ReadFile, request: str) -> str:
    """What an agent is shown of a file with this request."""
    text = found.text
    if text is None:
        return _IMAGE_SHOWN if found.file.kind.is_image else _NOT_SHOWN
    parted = PartedText(text)
    shown = parted.shown(request)
    if len(shown) == len(parted.parts):
        return scrub(text).text
    pieces = [f"[{_head(parted, part)}]\n{scrub(parted.of(part)).text}" for part in shown]
    return "\n".join([*pieces, _outline(parted, shown, found.file.name)])


def _head(parted: PartedText, part: TextPart) -> str:
    return (
        f"Part {part.number} of {len(parted.parts)}: characters {part.start + 1:,} to "
        f"{part.end:,} of {len(parted.text):,}, from line {part.first_line:,} on"
    )


def _outline(parted: PartedText, shown: Sequence[TextPart], name: str) -> str:
    """How the other parts begin, and what reads them."""
    others = [part for part in parted.parts if part not in shown]
    step = -(-len(others) // _MOST_OUTLINED)
    lines = [
        f"part {part.number}, from line {part.first_line:,} on: {_beginning(parted, part)}"
        for part in others[::step]
    ]
    told = f"[{len(others)} more parts of {name} are not shown. `read_attachment` reads one, "
    return "\n".join(
        [f"{told}`find_in_attachment` says in which of them words are. They begin so:", *lines, "]"]
    )


def _beginning(parted: PartedText, part: TextPart) -> str:
    line = " ".join(parted.of(part)[: 4 * _OUTLINE_CHARS].split())
    return scrub(line[:_OUTLINE_CHARS]).text


class PartArguments(Data):
    """Which file, by its name, and which part of it (counted from 1)."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    part: int = Field(ge=1)


class FoundArguments(Data):
    """Which words, in capitals or not, and in which file, by its name."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    text: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\r\n]*$")]


class ConversationFile(NamedTuple):
    """A file that the owner attached in this conversation."""

    named: Attached
    at: datetime


@dataclass
class AttachmentReader:
    """What one answer may read on in; the newest file of a name is meant."""

    store: AttachmentStore
    files: Sequence[ConversationFile]
    read: dict[str, set[int]] = field(default_factory=dict)
    """The numbers of the parts that were read, by the hash of their file."""
    _texts: dict[str, PartedText] = field(default_factory=dict)

    @property
    def tools(self) -> list[ReadingTool]:
        """The tools (rule 2); none where nothing was attached."""
        if not self.files:
            return []
        known = ", ".join(dict.fromkeys(each.named.name for each in self.files))[:1000]
        reading = f"Read one part of a long text that the owner attached. There are: {known}."
        finding = f"Find in which parts of an attached text words are. There are: {known}."
        return [
            _tool("read_attachment", reading, PartArguments, self.read_part),
            _tool("find_in_attachment", finding, FoundArguments, self.find),
        ]

    async def read_part(self, args: PartArguments) -> ModelView:
        """One part of a text."""
        found = await self._open(args.name)
        if isinstance(found, str):
            return refused_view(found, taint=TaintLevel.OWNER)
        file, parted = found
        if args.part > len(parted.parts):
            text = f"{file.named.name} has {_counted(len(parted.parts), 'part')}."
            return refused_view(text, taint=TaintLevel.OWNER)
        part = parted.parts[args.part - 1]
        self.read.setdefault(file.named.sha256, set()).add(part.number)
        return _view(file, f"{_head(parted, part)}:\n{parted.of(part)}")

    async def find(self, args: FoundArguments) -> ModelView:
        """Where words are, with what stands around them."""
        found = await self._open(args.name)
        if isinstance(found, str):
            return refused_view(found, taint=TaintLevel.OWNER)
        file, parted = found
        lines: list[str] = []
        for each in re.finditer(re.escape(args.text), parted.text, re.IGNORECASE):
            if len(lines) == _MOST_FOUND:
                lines.append(f"[there are more than {_MOST_FOUND} places]")
                break
            lines.append(_place(parted, each))
        return _view(file, "\n".join(lines) or f"“{args.text}” is nowhere in {file.named.name}.")

    async def _open(self, name: str) -> tuple[ConversationFile, PartedText] | str:
        """The file that is meant and its text, or why there is none."""
        wanted = name.casefold().strip()
        file = next((each for each in self.files if _is_meant(each.named, wanted)), None)
        if file is None:
            known = ", ".join(dict.fromkeys(each.named.name for each in self.files))
            return f"No such file is attached in this conversation. There are: {known}."
        sha256 = file.named.sha256
        if sha256 not in self._texts:
            content = await self.store.content(sha256)
            if content is None:
                return f"{file.named.name} is not kept any more. The owner can attach it again."
            if kind_of(content) is not FileKind.TEXT:
                return f"{file.named.name} is no text, so there is nothing to read in it."
            self._texts[sha256] = PartedText(await asyncio.to_thread(content.decode))
        return file, self._texts[sha256]


def _tool(
    name: str,
    told: str,
    arguments: type[Data],
    run: Callable[[Any], Awaitable[ModelView]],
) -> ReadingTool:
    return ReadingTool(name, told, arguments, run, contained=True, private=True)


def _is_meant(named: Attached, wanted: str) -> bool:
    if wanted == named.name.casefold():
        return True
    return len(wanted) >= _MIN_HASH_CHARS and named.sha256.startswith(wanted)


def _view(file: ConversationFile, text: str) -> ModelView:
    """Rule 3."""
    source = source_of(file.named.name, file.at)
    return answered_view(text, taint=TaintLevel.EXTERNAL, sources=[source])


def _place(parted: PartedText, found: re.Match[str]) -> str:
    text, start = parted.text, found.start()
    number = next(part.number for part in parted.parts if start < part.end)
    begin = max(text.rfind("\n", 0, start) + 1, start - _AROUND_CHARS)
    end = text.find("\n", found.end())
    end = min(len(text) if end < 0 else end, found.end() + _AROUND_CHARS)
    return f"part {number}: {text[begin:end].strip()}"


def left_unread(files: Iterable[ReadFile], request: str, read: Mapping[str, set[int]]) -> str:
    """What is said where an answer has not read all of the texts that came with it (rule 4)."""
    lines = []
    for each in files:
        parted = PartedText(each.text or "")
        numbers = {part.number for part in parted.shown(request)} | read.get(
            each.file.sha256, set()
        )
        count = sum(part.end - part.start for part in parted.parts if part.number in numbers)
        if count < len(parted.text):
            name, whole = clean_name(each.file.name), len(parted.text)
            lines.append(f"I read {count:,} of the {whole:,} characters of {name}.")
    return " ".join(lines)


def files_of(files: Iterable[AttachedFile], at: datetime) -> list[ConversationFile]:
    """The files of a message, as a reader takes them."""
    return [ConversationFile(each.signed, at) for each in files]


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
