"""Which subscriptions there are: the same thing is watched once.

A whole file stands for all ranges of its lines. Ranges that overlap or touch become one.
"""

import re
from typing import NamedTuple

from pydantic import ValidationError

from silas.context.errors import SubscriptionRefused
from silas.context.eviction import put_to_sleep
from silas.context.files import WatchedFiles
from silas.context.models import ContextSubscription, ContextZone, SubscriptionType
from silas.context.scope import ScopeContext, Watched
from silas.memory.models import MemoryQuery

_RANGE = re.compile(r"(.+):([0-9]{1,9})-([0-9]{1,9})", re.DOTALL)


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
    found = _RANGE.fullmatch(target)
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


def _of_file(scope: ScopeContext, path: str, kind: SubscriptionType) -> list[Watched]:
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
    scope.watched[sub.sub_id] = Watched(
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
