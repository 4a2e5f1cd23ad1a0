"""Who may use which tools: one access controller for each connection."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

from silas.gates import AccessLevel
from silas.gates.access import AccessChange, AccessController
from silas.gates.ports import CustomerFiles
from silas.kernel import Clock

_MOST = 10_000


class Visitors:
    """The controllers of the connections. One that was forgotten starts at `public` again."""

    def __init__(
        self,
        levels: Mapping[str, AccessLevel],
        *,
        clock: Clock,
        on_change: Callable[[AccessChange], None],
        all_tools: Sequence[str],
        customers: CustomerFiles | None = None,
    ) -> None:
        self._levels = levels
        self._clock = clock
        self._on_change = on_change
        self._all_tools = tuple(all_tools)
        self._customers = customers
        self._known: OrderedDict[tuple[str, bool], AccessController] = OrderedDict()

    def of(self, connection_id: str, *, owner: bool) -> AccessController:
        """The controller of this connection; the owner's and a visitor's are different ones."""
        key = (connection_id, owner)
        if key not in self._known:
            self._known[key] = AccessController(
                connection_id,
                self._levels,
                clock=self._clock,
                on_change=self._on_change,
                owner=owner,
                all_tools=self._all_tools,
                customers=self._customers,
            )
        self._known.move_to_end(key)
        while len(self._known) > _MOST:
            self._known.popitem(last=False)
        return self._known[key]
