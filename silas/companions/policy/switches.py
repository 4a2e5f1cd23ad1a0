"""Stop switches: everything, one companion, or a class of tools. Kept on disk, asked at every door.

1. Whoever stops is obeyed at once: no wake, no question to a model, no write begins after it.
2. A switch stays as it is until the owner releases it, also across a restart.
3. What was in flight ends at its next door: what the journal has already is written down, and
   nothing follows.
"""

from collections.abc import Collection

from silas.companions.errors import CompanionInvalid, Stopped
from silas.companions.ids import stop_switch_id
from silas.companions.models import StopScope, StopSwitch
from silas.companions.store import CompanionStore
from silas.companions.tools.models import ToolClass
from silas.storage import Durability


class StopSwitches:
    """The switches of this device."""

    def __init__(self, store: CompanionStore) -> None:
        self._store = store

    async def engage(
        self, scope: StopScope, target: str | None = None, *, reason: str | None = None
    ) -> StopSwitch:
        """Stop; doing it again changes nothing."""
        return await self._set(scope, target, engaged=True, reason=reason)

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
        for switch in await self.engaged():
            everything = switch.scope is StopScope.GLOBAL
            companion = switch.scope is StopScope.COMPANION and switch.target == agent_id
            tools = switch.scope is StopScope.TOOL_CLASS and switch.target in set(classes)
            if everything or companion or tools:
                return switch
        return None

    async def require(
        self, agent_id: str | None = None, classes: Collection[ToolClass] = ()
    ) -> None:
        """Raise `Stopped` if a switch is on that concerns this."""
        switch = await self.stopping(agent_id, classes)
        if switch is not None:
            what = "everything" if switch.scope is StopScope.GLOBAL else str(switch.target)
            raise Stopped(f"The stop switch for {what} is on. Release it to go on.")

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
