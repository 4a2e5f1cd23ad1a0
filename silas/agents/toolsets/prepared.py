"""Preparation: each tool is described for the role and the work that it is offered to."""

from dataclasses import replace

from pydantic_ai.tools import RunContext, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, PreparedToolset

from silas.agents.toolsets.modes import ToolMode

_ASKS = "It acts outside of the sandbox: the owner may be asked first, and may say no."


def prepared(inner: AbstractToolset[None], *, mode: ToolMode) -> PreparedToolset[None]:
    """The tools with what this run has to know about them."""
    # Every step of a run asks again, and the answer is the same as long as the tools are.
    told: dict[str, tuple[ToolDefinition, ToolDefinition]] = {}

    def prepare(_ctx: RunContext[None], tools: list[ToolDefinition]) -> list[ToolDefinition]:
        for tool in tools:
            known = told.get(tool.name)
            if known is None or known[0] is not tool:
                told[tool.name] = (tool, _described(tool, mode))
        return [told[tool.name][1] for tool in tools]

    return inner.prepared(prepare)


def _described(tool: ToolDefinition, mode: ToolMode) -> ToolDefinition:
    known = tool.metadata or {}
    if mode is not ToolMode.EXECUTION or known.get("contained") is True:
        return tool
    return replace(tool, description=f"{tool.description} {_ASKS}")
