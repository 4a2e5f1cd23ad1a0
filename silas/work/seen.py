"""What has entered a run: its taint, where that came from, and what was read in it.

The runtime writes it down as it sees it happen. Nothing of it comes from the worker.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from silas.gates.envelope_rules import lookups_in
from silas.gates.guards.echoes import ForeignTexts
from silas.kernel import TaintLevel, join_taint
from silas.work.execution_models import ExecutionResult
from silas.work.executors import Tool
from silas.work.models import WorkItem
from silas.work.provenance import Provenance


@dataclass
class Seen:
    """What the run of this item has seen so far."""

    item: WorkItem
    taint: TaintLevel = TaintLevel.OWNER
    taint_sources: list[str] = field(default_factory=list)

    @cached_property
    def foreign(self) -> ForeignTexts:
        """What the worker read from outside: its report does not repeat what was ordered there."""
        return ForeignTexts(self._provenance.approved)

    @cached_property
    def _provenance(self) -> Provenance:
        # Nobody was shown the body of a spawned task: what checks printed stands in it.
        spawned = self.item.spawned_by is not None
        return Provenance("" if spawned else self.item.body)

    def add_text(
        self, name: str, tool: Tool | None, args: dict[str, Any], result: ExecutionResult
    ) -> None:
        """Remember what a call of this tool gave; `tool` is None if it is not there any more."""
        if tool is not None and not tool.contained:
            self._provenance.saw(name, args, result.return_value)
        if result.taint is TaintLevel.EXTERNAL:
            self.foreign.saw(result.return_value)

    def add_taint(self, tool: Tool, result: ExecutionResult, *, foreign_files: bool) -> TaintLevel:
        """The taint of the run after this call; it only ever grows."""
        found = [self.taint, result.taint]
        if result.taint is TaintLevel.EXTERNAL:
            self._came_from(f"tool:{tool.name}")
        if foreign_files:
            found.append(TaintLevel.EXTERNAL)
            self._came_from("files of the workspace")
        self.taint = join_taint(*found)
        return self.taint

    def _came_from(self, source: str) -> None:
        if source not in self.taint_sources:
            self.taint_sources.append(source)

    def sources_of(self, args: dict[str, Any]) -> dict[str, tuple[str, ...]]:
        """Where each argument of a call can have come from."""
        return self._provenance.of_arguments(args, lookups=lookups_in(self.item.approvals))

    def tells_nobody(self, tool: Tool, args: dict[str, Any]) -> bool:
        """Whether the call gives away nothing that the owner did not say himself."""
        return tool.own_account or self._provenance.are_owners_words(args)
