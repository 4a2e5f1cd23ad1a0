"""Stop switches: everything, one companion, or a class of tools. Kept on disk, asked at every door.

1. Whoever stops is obeyed at once: no wake and no question to a model begins after it, and nothing
   is written, not even what was just allowed: the journal's fence has moved.
2. A switch stays as it is until the owner releases it, also across a restart.
3. What was in flight ends at its next door: what the journal has already is written down, and
   nothing follows.
"""

from collections.abc import Awaitable, Callable, Collection

from silas.companions.errors import CompanionInvalid, Stopped
from silas.companions.ids import stop_switch_id
from silas.companions.models import StopScope, StopSwitch
from silas.companions.store import CompanionStore
from silas.companions.tools.models import ToolClass
from silas.storage import Durability, Reader

Fence = Callable[[], Awaitable[None]]
"""Stops every write that was allowed before: `silas.journal.fence`."""


class StopSwitches:
    """The switches of this device."""

    def __init__(self, store: CompanionStore, *, fence: Fence) -> None:
        self._store = store
        self._fence = fence

    async def engage(
        self, scope: StopScope, target: str | None = None, *, reason: str | None = None
    ) -> StopSwitch:
        """Stop; doing it again changes nothing."""
        switch = await self._set(scope, target, engaged=True, reason=reason)
        await self._fence()
        return switch

    async def release(self, scope: StopScope, target: str | None = None) -> StopSwitch:
        """Let it go on."""
        return await self._set(scope, target, engaged=False, reason=None)

    async def engaged(self) -> list[StopSwitch]:
        """The switches that are on."""
        return await self._store.find(StopSwitch, {"engaged": True})

    async def stopping(
        self, agent_id: str | None = None, classes: Collection[ToolClass] = ()
    ) -> StopSwitch | None:
        """The switch that stands against this companion and these tools, if any."""
        return _standing_against(await self.engaged(), agent_id, classes)

    def require_in(
        self, reader: Reader, agent_id: str | None = None, classes: Collection[ToolClass] = ()
    ) -> None:
        """`require` inside a transaction."""
        engaged = self._store.find_in(reader, StopSwitch, {"engaged": True})
        _refuse(_standing_against(engaged, agent_id, classes))

    async def require(
        self, agent_id: str | None = None, classes: Collection[ToolClass] = ()
    ) -> None:
        """Raise `Stopped` if a switch is on that concerns this."""
        _refuse(await self.stopping(agent_id, classes))

    async def _set(
        self, scope: StopScope, target: str | None, *, engaged: bool, reason: str | None
    ) -> StopSwitch:
        if (scope is StopScope.GLOBAL) != (target is None):
            raise CompanionInvalid("The switch for everything has no target; the others have one.")
        if scope is StopScope.TOOL_CLASS and target not in set(ToolClass):
            raise CompanionInvalid(f"There is no class of tools {target!a}.")
        switch = StopSwitch(
            id=stop_switch_id(scope, target),
            scope=scope,
            target=target,
            engaged=engaged,
            reason=reason,
            changed_at=self._store.clock.now(),
        )
        return await self._store.transaction(
            lambda tx: self._store.put_in(tx, switch), durability=Durability.TRUST
        )


def _standing_against(
    engaged: Collection[StopSwitch], agent_id: str | None, classes: Collection[ToolClass]
) -> StopSwitch | None:
    targets = {
        (StopScope.GLOBAL, None),
        (StopScope.COMPANION, agent_id),
        *((StopScope.TOOL_CLASS, str(each)) for each in classes),
    }
    return next((each for each in engaged if (each.scope, each.target) in targets), None)


def _refuse(switch: StopSwitch | None) -> None:
    if switch is not None:
        what = "everything" if switch.scope is StopScope.GLOBAL else str(switch.target)
        raise Stopped(f"The stop switch for {what} is on. Release it to go on.")
