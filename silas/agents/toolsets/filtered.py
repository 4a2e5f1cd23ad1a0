"""Filter: what the access level does not allow, or what the mode rules out, does not exist."""

from pydantic_ai.tools import RunContext, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, FilteredToolset

from silas.agents.toolsets.modes import ToolMode
from silas.work.executors import RESEARCH_TOOLS


def filtered(
    inner: AbstractToolset[None], *, allowed: frozenset[str], mode: ToolMode
) -> FilteredToolset[None]:
    """Only tools that are named; in research only those that can change nothing."""

    def exists(_ctx: RunContext[None], tool: ToolDefinition) -> bool:
        if tool.name not in allowed:
            return False
        changes = (tool.metadata or {}).get("changes_state") is not False
        return mode is not ToolMode.RESEARCH or (tool.name in RESEARCH_TOOLS and not changes)

    return inner.filtered(exists)
