"""What a context watches: which subscriptions there are, and what they show.

The same thing is watched once. A whole file stands for all ranges of its lines. Ranges that overlap
or touch become one. `Materialiser` reads when a context is rendered: a file once in a turn, a query
every time, for the memory may have changed. What is the same as before leaves its block untouched.

`WatchedFiles` reads only below directories that are allowed, and never out of them:

1. Without allowed directories there is nothing to read.
2. A path is resolved, and has to lie below an allowed directory with all its links followed.
3. Then it is opened step by step from that directory, following no link at all: whoever swaps a
   directory for a link in between is refused.
4. Only regular files are read, and no more of them than can be shown.
"""

import asyncio
import hashlib
import logging
import os
import re
import stat
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from silas.context.eviction import put_to_sleep
from silas.context.models import (
    ContextItem,
    ContextKind,
    ContextSubscription,
    ContextZone,
    SubscriptionRefused,
    SubscriptionType,
    TokenBudget,
)
from silas.context.scope import ScopeContext, WatchedSubscription
from silas.kernel import Clock, Provenance, TaintLevel, external, join_taint
from silas.kernel.ids import person_of
from silas.memory.models import MemoryItem, MemoryQuery
from silas.memory.service import MemoryService

_STEP = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MOST_BYTES = 4 * 1024 * 1024


WhoseFile = Callable[[Path, str, bytes], Awaitable[Provenance]]
"""Says whose text a file below a directory is, which was just read."""


async def a_strangers(_directory: Path, name: str, _content: bytes) -> Provenance:
    """Nobody knows whose file it is."""
    return external(f"the file {name}, of which nobody knows where it came from")


@dataclass(frozen=True)
class Located:
    """A file that may be read: its place below the directory that allows it."""

    root: Path
    inside: tuple[str, ...]

    @property
    def path(self) -> Path:
        return self.root.joinpath(*self.inside)


class WatchedFiles:
    """The files that may be read."""

    def __init__(self, allowed: Iterable[Path] = (), *, whose: WhoseFile = a_strangers) -> None:
        self._allowed = tuple(allowed)
        self._whose = whose

    def locate(self, target: str) -> Located:
        """Where a file is, or `SubscriptionRefused`."""
        for directory in self._allowed:
            found = _below(directory, target)
            if found is not None:
                return found
        raise SubscriptionRefused(
            f"{target!r} is not a file below a directory that is allowed.", target=target
        )

    async def read(self, located: Located) -> tuple[str, Provenance]:
        """What stands in the file now, and whose text it is.

        Raises `SubscriptionRefused` if it cannot be shown.
        """
        try:
            data = await asyncio.to_thread(_read, located)
        except OSError as error:
            raise SubscriptionRefused(
                f"{located.path}: cannot be read ({error.strerror}).", target=str(located.path)
            ) from error
        found = await self._whose(located.root, "/".join(located.inside), data)
        return data.decode("utf-8", "replace"), found


def _below(directory: Path, target: str) -> Located | None:
    try:
        root = directory.resolve(strict=True)
        path = (root / target).resolve(strict=True)
    except (OSError, ValueError, RuntimeError):
        return None
    if path == root or not path.is_relative_to(root):
        return None
    return Located(root, path.relative_to(root).parts)


def _read(located: Located) -> bytes:
    here = os.open(located.root, _STEP)
    try:
        for name in located.inside[:-1]:
            there = os.open(name, _STEP, dir_fd=here)
            os.close(here)
            here = there
        file = os.open(located.inside[-1], _FILE, dir_fd=here)
    finally:
        os.close(here)
    with os.fdopen(file, "rb") as opened:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(0, "is not a regular file")
        data = opened.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise OSError(0, "is too large")
    return data


_LINE_RANGE = re.compile(r"(.+):([0-9]{1,9})-([0-9]{1,9})", re.DOTALL)


class Lines(NamedTuple):
    """A range of lines, both ends included, counted from 1."""

    path: str
    first: int
    last: int

    @property
    def target(self) -> str:
        return f"{self.path}:{self.first}-{self.last}"


def lines_of(target: str) -> Lines:
    """The range that `path:start-end` names."""
    found = _LINE_RANGE.fullmatch(target)
    if found is None or not 1 <= int(found[2]) <= int(found[3]):
        raise SubscriptionRefused(f"{target!r} is not of the form `path:start-end`.")
    return Lines(found[1], int(found[2]), int(found[3]))


def path_of(sub: ContextSubscription) -> str:
    """The file that a subscription is about."""
    is_range = sub.sub_type is SubscriptionType.FILE_LINES
    return lines_of(sub.target).path if is_range else sub.target


def watch(scope: ScopeContext, sub: ContextSubscription, files: WatchedFiles) -> str:
    """Watch something; returns the id of the subscription that now stands for it."""
    if sub.zone is ContextZone.SYSTEM:
        raise SubscriptionRefused("Nothing that changes by itself comes into the system zone.")
    if sub.sub_type is SubscriptionType.MEMORY_QUERY:
        _require_query(sub.target)
        return _same(scope, sub) or _begin(scope, sub)
    # One spelling for each file, so that two names of it are seen to be one.
    path = str(files.locate(path_of(sub)).path)
    if sub.sub_type is SubscriptionType.FILE:
        return _whole_file(scope, sub.model_copy(update={"target": path}))
    lines = lines_of(sub.target)._replace(path=path)
    return _some_lines(scope, sub.model_copy(update={"target": lines.target}), lines)


def _require_query(words: str) -> None:
    try:
        MemoryQuery(query=words)
    except ValidationError as error:
        raise SubscriptionRefused("This is not a query that the memory would take.") from error


def _whole_file(scope: ScopeContext, sub: ContextSubscription) -> str:
    for other in _of_file(scope, sub.target, SubscriptionType.FILE_LINES):
        _end(scope, other.sub.sub_id)
    return _same(scope, sub) or _begin(scope, sub)


def _some_lines(scope: ScopeContext, sub: ContextSubscription, lines: Lines) -> str:
    for whole in _of_file(scope, lines.path, SubscriptionType.FILE):
        if whole.sub.active:
            return whole.sub.sub_id
    first, last, kept = lines.first, lines.last, sub
    for other in _of_file(scope, lines.path, SubscriptionType.FILE_LINES):
        theirs = lines_of(other.sub.target)
        if theirs.first <= last + 1 and first <= theirs.last + 1:
            first, last = min(first, theirs.first), max(last, theirs.last)
            kept = other.sub if kept is sub else kept
            if other.sub.sub_id != kept.sub_id:
                _end(scope, other.sub.sub_id)
    target = lines._replace(first=first, last=last).target
    if kept.target == target and kept.sub_id in scope.watched:
        return _same(scope, kept) or kept.sub_id
    merged = sub.model_copy(update={"sub_id": kept.sub_id, "target": target, "content_hash": ""})
    return _begin(scope, merged)


def _of_file(scope: ScopeContext, path: str, kind: SubscriptionType) -> list[WatchedSubscription]:
    return [
        watched
        for watched in scope.watched.values()
        if watched.sub.sub_type is kind and path_of(watched.sub) == path
    ]


def _same(scope: ScopeContext, sub: ContextSubscription) -> str | None:
    """The subscription to the same thing, awake again."""
    for watched in scope.watched.values():
        if (watched.sub.sub_type, watched.sub.target) == (sub.sub_type, sub.target):
            watched.sub = watched.sub.model_copy(update={"active": True})
            watched.referenced = max(watched.referenced, sub.turn_created)
            return watched.sub.sub_id
    return None


def _begin(scope: ScopeContext, sub: ContextSubscription) -> str:
    if scope.has(sub.sub_id) and sub.sub_id not in scope.watched:
        raise SubscriptionRefused(f"{sub.sub_id!r} names something else in this context.")
    scope.watched[sub.sub_id] = WatchedSubscription(
        sub.model_copy(update={"active": True}), referenced=sub.turn_created
    )
    return sub.sub_id


def _end(scope: ScopeContext, sub_id: str) -> None:
    put_to_sleep(scope, sub_id)
    del scope.watched[sub_id]


def note_reference(scope: ScopeContext, text: str, turn_number: int) -> None:
    """An agent said this: what it speaks of stays awake."""
    for watched in scope.watched.values():
        if watched.sub.sub_type is SubscriptionType.MEMORY_QUERY:
            named = watched.sub.target
        else:
            named = path_of(watched.sub).rpartition("/")[2]
        if named.casefold() in text.casefold():
            watched.referenced = max(watched.referenced, turn_number)


_log = logging.getLogger(__name__)
MEMORY_ID = "mem_"
"""What the ids of items begin with that came from memory."""


def source_of_memory(item: MemoryItem) -> str:
    """A memory of a stranger's words, in words for the owner."""
    return f"the memory {item.memory_id}, kept from text of others on {item.created_at:%Y-%m-%d}"


class Materialiser:
    """Brings the blocks of subscriptions up to date."""

    def __init__(
        self,
        files: WatchedFiles,
        recall: MemoryService | None,
        *,
        budget: TokenBudget,
        clock: Clock,
        redact: Callable[[str], str],
    ) -> None:
        self._files = files
        self._recall = recall
        self._budget = budget
        self._clock = clock
        self._redact = redact

    async def refresh(self, scope: ScopeContext, turn_number: int) -> None:
        """Read what is watched; what cannot be shown is put to sleep."""
        for sub_id, watched in list(scope.watched.items()):
            if not watched.sub.active or watched.read_in == turn_number:
                continue
            try:
                content, found = await self._read(scope, watched)
            except SubscriptionRefused as refused:
                self._sleeps(scope, sub_id, refused.message)
                continue
            # While it was read, it may have been ended or merged.
            if scope.watched.get(sub_id) is watched and watched.sub.active:
                self._show(scope, watched, content, found=found, turn_number=turn_number)

    async def _read(
        self, scope: ScopeContext, watched: WatchedSubscription
    ) -> tuple[str, Provenance]:
        sub = watched.sub
        if sub.sub_type is SubscriptionType.MEMORY_QUERY:
            return await self._query(scope, sub.target)
        # The path is resolved anew: a link may point elsewhere by now.
        located = self._files.locate(path_of(sub))
        text, found = await self._files.read(located)
        if sub.sub_type is SubscriptionType.FILE_LINES:
            lines = lines_of(sub.target)
            text = "\n".join(text.split("\n")[lines.first - 1 : lines.last])
        return text, found

    async def _query(self, scope: ScopeContext, words: str) -> tuple[str, Provenance]:
        if self._recall is None:
            raise SubscriptionRefused("There is no memory to ask.")
        query = MemoryQuery(query=words, max_tokens=self._budget.max_subscription_tokens)
        person = person_of(scope.scope_id)
        found = [
            item
            for item in await self._recall.retrieve(query, person)
            if item.scope_id == person and not scope.has(f"{MEMORY_ID}{item.memory_id}")
        ]
        taint = join_taint(TaintLevel.OWNER, *(item.taint for item in found))
        foreign = (source_of_memory(each) for each in found if each.taint is TaintLevel.EXTERNAL)
        return "\n".join(item.content for item in found), Provenance(taint, tuple(foreign))

    def _show(
        self,
        scope: ScopeContext,
        watched: WatchedSubscription,
        content: str,
        *,
        found: Provenance,
        turn_number: int,
    ) -> None:
        sub = watched.sub
        content = self._redact(content)
        digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
        self._note_change(watched, digest, turn_number)
        old = scope.get(sub.sub_id)
        item = ContextItem(
            ctx_id=sub.sub_id,
            zone=sub.zone,
            content=content,
            created_at=old.item.created_at if old else self._clock.now(),
            turn_number=sub.turn_created,
            source=f"{sub.sub_type.value}:{sub.target}",
            taint=found.taint,
            sources=found.sources,
            kind=ContextKind.SUBSCRIPTION,
        )
        if not content and sub.sub_type is SubscriptionType.MEMORY_QUERY:
            scope.take(sub.sub_id)  # all that it finds is shown elsewhere, or there is nothing yet
            return
        block = scope.made(item, status=_status(watched))
        if block.tokens > self._budget.max_subscription_tokens:
            self._sleeps(scope, sub.sub_id, f"it has {block.tokens} tokens, too many")
            return
        if old is None or old.text != block.text or old.item.taint is not found.taint:
            scope.put(block)
        watched.sub = watched.sub.model_copy(update={"token_count": block.tokens})
        if sub.sub_type is not SubscriptionType.MEMORY_QUERY:
            watched.read_in = turn_number

    @staticmethod
    def _note_change(watched: WatchedSubscription, digest: str, turn_number: int) -> None:
        known = watched.sub.content_hash
        if not known:
            watched.changed_in = turn_number
        elif digest == known:
            watched.stale_since = None
            return
        elif watched.sub.sub_type is SubscriptionType.FILE_LINES:
            # The lines may have moved: what was meant stays the measure, and the reader is warned.
            if watched.stale_since is None:
                watched.stale_since = watched.changed_in
            return
        else:
            watched.changed_in = turn_number
        watched.sub = watched.sub.model_copy(update={"content_hash": digest})

    @staticmethod
    def _sleeps(scope: ScopeContext, sub_id: str, why: str) -> None:
        if sub_id in scope.watched:
            put_to_sleep(scope, sub_id)
            _log.warning("subscription %s is not shown any more: %s", sub_id, why)


def _status(watched: WatchedSubscription) -> str:
    if watched.stale_since is not None:
        return f"[stale — file changed since turn {watched.stale_since}]"
    return f"live | last_changed: turn {watched.changed_in}"
