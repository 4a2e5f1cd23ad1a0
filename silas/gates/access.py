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
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from silas.gates.errors import CustomerContextRefused
from silas.gates.models import AccessLevel
from silas.gates.ports import CustomerFiles
from silas.kernel import Clock, TaintLevel
from silas.kernel.models import Data, UtcDatetime

PUBLIC = "public"


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
    customer: dict[str, Any] | None = None


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
        customers: CustomerFiles | None = None,
    ) -> None:
        self._connection_id = connection_id
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

    def gate_passed(self, gate_name: str) -> None:
        """Record that a gate was passed, and rise to the highest level that is now reached."""
        if self._owner:
            return
        self._expire()
        self._proven.gates.add(gate_name)
        reached = max(self._reached(), key=self._rank, default=PUBLIC)
        if self._rank(reached) > self._rank(self._proven.level):
            self._rise(reached)

    def get_allowed_tools(self) -> list[str]:
        """The tools of the current level, after looking whether it has expired."""
        if self._owner:  # 4
            return list(self._all_tools)
        level = self._levels.get(self.level)
        return list(level.tools) if level else []  # 5

    def get_customer_context(self) -> dict[str, Any] | None:
        """What is known about the customer, once it is known who that is."""
        self._expire()
        return None if self._proven.customer is None else dict(self._proven.customer)

    def reset(self, levels: Mapping[str, AccessLevel]) -> None:
        """Another goal is active: what was proven for the old one counts no more."""
        self._levels = dict(levels)
        if not self._owner:
            self._drop("another goal")

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

    def _rise(self, level: str) -> None:
        before, problem = self._proven.level, None
        self._proven.level = level
        self._proven.granted = self._clock.monotonic()
        try:
            known = self._customers.load(self._connection_id) if self._customers else None
        except CustomerContextRefused as error:
            known, problem = None, error.message
        self._proven.customer = known
        self._tell(before, "gates passed", problem)

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
            self._tell(before, reason, None)

    def _tell(self, before: str, reason: str, problem: str | None) -> None:
        change = AccessChange(
            connection_id=self._connection_id,
            before=before,
            after=self._proven.level,
            reason=reason,
            at=self._clock.now(),
            customer_id=self._connection_id if self._proven.customer is not None else None,
            customer_problem=problem,
        )
        self._on_change(change)  # 6
