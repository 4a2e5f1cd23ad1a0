"""The access controller: which tools a visitor may use, decided by the gates that were passed.

1. Everybody starts at `public`. A level is higher than another if it requires more gates; of two
   that require as many, the later one is.
2. A level is reached when all the gates that it requires have been passed. One that requires
   nothing, other than `public`, is never reached.
3. A level with `expires_after` ends that many seconds after it was reached, on a clock that nobody
   can set back. Then everything that was proven is forgotten and must be proven again.
4. The owner is not subject to levels and has all tools. Who is not known to be the owner is not.
5. Without levels, or without a level `public`, a visitor has no tools.
6. Every change of level is handed to `on_change`, to be written into the audit log.
7. A customer's record is read when a level is reached, and forgotten with it. It is that of the
   customer whom the link of the visitor names, else of the value that the gate has verified.
8. A visitor who comes to another goal, or to another version of it, starts at `public` again.

`CustomerDirectory` holds customers' records, each in a JSON file of its own, in a directory that
nobody else may write.

1. The directory lies inside the data directory, behind all links.
2. It and the file belong to this user (or to root), and no group and no other user may write them.
3. The name of the file is the customer's id and `.json`. An id that is not a plain name is refused,
   and a link is not followed.
4. The file is a JSON object of at most a megabyte.

Who may use which tools: one access controller for each connection.
"""

import os
import re
import stat
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from silas.gates.errors import CustomerContextRefused
from silas.gates.models import AccessLevel
from silas.kernel import CanonicalError, Clock, TaintLevel, strict_loads
from silas.kernel.models import Data, UtcDatetime

PUBLIC = "public"
_CUSTOMER_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@+-]{0,127}")
_MAX_RECORD_BYTES = 1024 * 1024
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


class CustomerDirectory:
    """Customers' records in one directory."""

    def __init__(self, directory: Path, *, data_dir: Path) -> None:
        self._directory = directory
        self._data_dir = data_dir

    def load(self, customer_id: str) -> dict[str, Any] | None:
        """One customer's record, None if there is none; raises `CustomerContextRefused`."""
        if not _CUSTOMER_ID.fullmatch(customer_id):  # 3
            raise CustomerContextRefused("The customer's id cannot be the name of a file.")
        try:
            content = self._read(f"{customer_id}.json")
        except FileNotFoundError:
            return None
        except OSError as error:
            reason = f"The customer's file cannot be read: {error.strerror}"
            raise CustomerContextRefused(reason) from error
        return _record(content)

    def _read(self, name: str) -> bytes:
        real = Path(os.path.realpath(self._directory))
        if Path(os.path.realpath(self._data_dir)) not in real.parents:  # 1
            raise CustomerContextRefused("The customers' directory lies outside of data_dir.")
        directory = os.open(real, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _require_ours(os.fstat(directory), "The customers' directory")
            return _content(name, directory)
        finally:
            os.close(directory)


def _content(name: str, directory: int) -> bytes:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, dir_fd=directory), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise CustomerContextRefused("The customer's file is not a regular file.")
        _require_ours(found, "The customer's file")
        content = file.read(_MAX_RECORD_BYTES + 1)
    if len(content) > _MAX_RECORD_BYTES:  # 4
        raise CustomerContextRefused("The customer's file is larger than a megabyte.")
    return content


def _require_ours(found: os.stat_result, what: str) -> None:
    if found.st_mode & _OTHERS_MAY_WRITE or found.st_uid not in (os.geteuid(), 0):  # 2
        raise CustomerContextRefused(f"{what} may be written by other users; run `chmod go-w`.")


def _record(content: bytes) -> dict[str, Any]:
    try:
        record = strict_loads(content)
    except CanonicalError as error:
        raise CustomerContextRefused("The customer's file is not JSON.") from error
    if not isinstance(record, dict):
        raise CustomerContextRefused("The customer's file is not a JSON object.")
    return record


class AccessChange(Data):
    """A visitor came to another level."""

    connection_id: str
    before: str
    after: str
    reason: str
    at: UtcDatetime
    customer_id: str | None = None
    customer_problem: str | None = None


def is_owner(connection_id: str, *, owner_id: str, taint: TaintLevel | None = None) -> bool:
    """Whether this is the owner: by the connection, or by a message verified as the owner's."""
    return taint is TaintLevel.OWNER or (bool(owner_id) and connection_id == owner_id)


@dataclass
class _Proven:
    """What a visitor has proven, and what it led to."""

    level: str = PUBLIC
    granted: float | None = None
    gates: set[str] = field(default_factory=set)
    customer_id: str | None = None
    customer: Mapping[str, Any] | None = None


class AccessController:
    """The access of one connection. The model has no way to call it."""

    def __init__(
        self,
        connection_id: str,
        levels: Mapping[str, AccessLevel],
        *,
        clock: Clock,
        on_change: Callable[[AccessChange], None],
        owner: bool = False,
        all_tools: Sequence[str] = (),
        customers: CustomerDirectory | None = None,
        customer_id: str | None = None,
    ) -> None:
        self._connection_id = connection_id
        self._customer_id = customer_id
        self._levels = dict(levels)
        self._clock = clock
        self._on_change = on_change
        self._owner = owner
        self._all_tools = tuple(all_tools)
        self._customers = customers
        self._proven = _Proven()

    @property
    def level(self) -> str:
        """The name of the current level."""
        self._expire()
        return self._proven.level

    def gate_passed(self, gate_name: str, *, verified: str | None = None) -> None:
        """Record that a gate was passed, and rise to the highest level that is now reached.

        `verified` is the value that the gate has looked at: it may name the customer (rule 7).
        """
        if self._owner:
            return
        self._expire()
        self._proven.gates.add(gate_name)
        reached = max(self._reached(), key=self._rank, default=PUBLIC)
        if self._rank(reached) > self._rank(self._proven.level):
            self._rise(reached, verified)

    def get_customer_context(self) -> Mapping[str, Any] | None:
        """The record of the customer, as long as the level lasts that it was read for."""
        self._expire()
        return self._proven.customer

    def reset(self, reason: str) -> None:
        """Forget everything that was proven."""
        self._drop(reason)

    def get_allowed_tools(self) -> list[str]:
        """The tools of the current level, after looking whether it has expired."""
        if self._owner:  # 4
            return list(self._all_tools)
        level = self._levels.get(self.level)
        return list(level.tools) if level else []  # 5

    def _reached(self) -> list[str]:
        return [
            name
            for name, level in self._levels.items()
            if level.requires and self._proven.gates.issuperset(level.requires)  # 2
        ]

    def _rank(self, name: str) -> tuple[int, int]:
        if name == PUBLIC or name not in self._levels:
            return (0, 0)
        return len(set(self._levels[name].requires)), list(self._levels).index(name)  # 1

    def _rise(self, level: str, verified: str | None) -> None:
        before, problem = self._proven.level, None
        self._proven.level = level
        self._proven.granted = self._clock.monotonic()
        customer = self._customer_id or verified or self._connection_id
        try:
            record = self._customers.load(customer) if self._customers else None
            if record is not None:
                self._proven.customer_id, self._proven.customer = customer, record
        except CustomerContextRefused as error:
            problem = error.message
        self._report(before, "gates passed", problem)

    def _expire(self) -> None:
        level = self._levels.get(self._proven.level)
        if level is None or level.expires_after is None or self._proven.granted is None:
            return
        if self._clock.monotonic() - self._proven.granted >= level.expires_after:  # 3
            self._drop("expired")

    def _drop(self, reason: str) -> None:
        before = self._proven.level
        self._proven = _Proven()
        if before != PUBLIC:
            self._report(before, reason, None)

    def _report(self, before: str, reason: str, problem: str | None) -> None:
        change = AccessChange(
            connection_id=self._connection_id,
            before=before,
            after=self._proven.level,
            reason=reason,
            at=self._clock.now(),
            customer_id=self._proven.customer_id,
            customer_problem=problem,
        )
        self._on_change(change)  # 6


_MAX_CONTROLLERS = 10_000


@dataclass(frozen=True)
class _Served:
    """What a connection came for."""

    goal: str
    levels: Mapping[str, AccessLevel]
    customer_id: str | None = None


class Visitors:
    """The controllers of the connections. One that was forgotten starts at `public` again."""

    def __init__(
        self,
        levels: Mapping[str, AccessLevel],
        *,
        clock: Clock,
        on_change: Callable[[AccessChange], None],
        all_tools: Sequence[str],
        customers: CustomerDirectory | None = None,
    ) -> None:
        """`levels` are of those who came for no goal of their own."""
        self._default = _Served("", levels)
        self._clock = clock
        self._on_change = on_change
        self._all_tools = tuple(all_tools)
        self._customers = customers
        self._known: OrderedDict[tuple[str, bool], tuple[_Served, AccessController]] = OrderedDict()

    def serve(
        self,
        connection_id: str,
        goal: str,
        levels: Mapping[str, AccessLevel],
        *,
        customer_id: str | None = None,
    ) -> None:
        """Let a visitor have the levels of this goal; `goal` names it and its version (rule 8)."""
        served, key = _Served(goal, dict(levels), customer_id), (connection_id, False)
        known = self._known.get(key)
        if known is not None and known[0] == served:
            return
        if known is not None:
            known[1].reset("the goal has changed")
        self._add(key, served)

    def of(self, connection_id: str, *, owner: bool) -> AccessController:
        """The controller of this connection; the owner's and a visitor's are different ones."""
        key = (connection_id, owner)
        if key not in self._known:
            self._add(key, self._default)
        self._known.move_to_end(key)
        return self._known[key][1]

    def _add(self, key: tuple[str, bool], served: _Served) -> None:
        connection_id, owner = key
        controller = AccessController(
            connection_id,
            served.levels,
            clock=self._clock,
            on_change=self._on_change,
            owner=owner,
            all_tools=self._all_tools,
            customers=self._customers,
            customer_id=served.customer_id,
        )
        self._known[key] = (served, controller)
        while len(self._known) > _MAX_CONTROLLERS:
            self._known.popitem(last=False)
