"""What can be done: each tool with its schema, effect, inverse and what executes it.

Tools are declared (`declaration.py`) and registered here, and nowhere else. An executor gets an
envelope and returns a result; it keeps nothing and knows nothing else. Commands run in the sandbox
alone; files are reached inside the workspace alone.
"""

from silas.sandbox.models import SandboxRunner
from silas.tools.commands import command_tools
from silas.tools.declaration import (
    ArgumentsRefused,
    Tool,
    ToolDeclaration,
    ToolOffer,
    ToolRegistry,
    checked,
)
from silas.tools.execution import (
    EphemeralExecutor,
    ExecutionEnvelope,
    ExecutionResult,
    ModelView,
    failed,
    succeeded,
)
from silas.tools.files import file_tools, restore_tool
from silas.tools.web_search import SearchLimits, SearchProvider, search_tool

__all__ = [
    "ATTACHMENT_TOOLS",
    "RESEARCH_TOOLS",
    "ArgumentsRefused",
    "EphemeralExecutor",
    "ExecutionEnvelope",
    "ExecutionResult",
    "ModelView",
    "Tool",
    "ToolDeclaration",
    "ToolOffer",
    "ToolRegistry",
    "checked",
    "core_tools",
    "failed",
    "restore_tool",
    "succeeded",
]

ATTACHMENT_TOOLS = frozenset({"read_attachment", "find_in_attachment"})
"""What reads on in texts that the owner attached (`silas.stream.attachment_reading`)."""
RESEARCH_TOOLS = ATTACHMENT_TOOLS | {"read_file", "grep", "glob", "web_search", "memory_search"}
"""What a worker may use that only finds things out. Everything else does not exist for it."""


def core_tools(
    sandbox: SandboxRunner,
    *,
    search: SearchProvider | None = None,
    search_limits: SearchLimits | None = None,
) -> list[Tool]:
    """The tools that every runtime has; `web_search` only if somebody can search."""
    found = [*command_tools(sandbox), *file_tools()]
    return found if search is None else [*found, search_tool(search, search_limits)]
