"""Tools under observation: the budget is looked at before each call, and what was seen is noted."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from silas.agents.metering import Meter
from silas.gates.guards.echoes import ForeignTexts
from silas.kernel import TaintLevel, join_taint
from silas.work.execution_models import ModelView
from silas.work.ports import ToolCaller, ToolOffer


@dataclass
class WatchedTools:
    """`ToolCaller` that remembers the taint of everything that came through it."""

    tools: ToolCaller
    meter: Meter
    taint: TaintLevel
    foreign: ForeignTexts = field(default_factory=ForeignTexts)
    """What came from outside: an answer does not repeat what was ordered there."""
    _seen: set[TaintLevel] = field(default_factory=set)

    @property
    def names(self) -> tuple[str, ...]:
        return self.tools.names

    @property
    def offers(self) -> tuple[ToolOffer, ...]:
        return self.tools.offers

    @property
    def joined(self) -> TaintLevel:
        """The taint of what is made from all that was seen."""
        return join_taint(self.taint, *self._seen)

    async def call(self, tool: str, args: Mapping[str, Any]) -> ModelView:
        # Between two requests of an agent there is always a call, so no budget is overrun unseen.
        self.meter.check()
        view = await self.tools.call(tool, args)
        self._seen.add(view.taint)
        if view.taint is TaintLevel.EXTERNAL:
            self.foreign.saw(view.return_value)
        return view
