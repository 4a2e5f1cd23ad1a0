"""Which tools there are, what arguments they take, and where they act."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from silas.kernel.models import Data
from silas.work.execution_models import ExecutionEnvelope, ExecutionResult
from silas.work.executors.arguments import checked
from silas.work.executors.edit_file import EditArguments, EditFileExecutor
from silas.work.executors.glob import GlobArguments, GlobExecutor
from silas.work.executors.grep import GrepArguments, GrepExecutor
from silas.work.executors.python_exec import PythonArguments, PythonExecutor
from silas.work.executors.read_file import ReadArguments, ReadFileExecutor
from silas.work.executors.search_providers import SearchProvider
from silas.work.executors.shell_exec import ShellArguments, ShellExecutor
from silas.work.executors.web_search import SearchArguments, SearchLimits, WebSearchExecutor
from silas.work.executors.write_file import WriteArguments, WriteFileExecutor
from silas.work.ports import EphemeralExecutor, SandboxRunner


@dataclass(frozen=True)
class Tool:
    """One tool. `contained` means: it acts in the workspace and its sandbox, and nowhere else.

    `changes_state` means that the outside is different afterwards; a contained tool never does.
    """

    name: str
    arguments: type[Data]
    executor: EphemeralExecutor
    contained: bool
    changes_state: bool = False

    def check(self, args: Mapping[str, Any]) -> None:
        """Raise `ArgumentsRefused` unless the arguments fit."""
        checked(self.arguments, dict(args))

    async def execute(self, envelope: ExecutionEnvelope) -> ExecutionResult:
        return await self.executor.execute(envelope)


class ExecutorRegistry:
    """The tools of a runtime, by name."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self.tools: Mapping[str, Tool] = MappingProxyType({tool.name: tool for tool in tools})

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.tools)

    def get(self, name: str) -> Tool | None:
        """The tool with exactly this name."""
        return self.tools.get(name)


def core_tools(
    sandbox: SandboxRunner,
    *,
    search: SearchProvider | None = None,
    search_limits: SearchLimits | None = None,
) -> list[Tool]:
    """The tools that every runtime has; `web_search` only if somebody can search."""
    tools = [
        Tool("shell_exec", ShellArguments, ShellExecutor(sandbox), contained=True),
        Tool("python_exec", PythonArguments, PythonExecutor(sandbox), contained=True),
        Tool("read_file", ReadArguments, ReadFileExecutor(), contained=True),
        Tool("write_file", WriteArguments, WriteFileExecutor(), contained=True),
        Tool("edit_file", EditArguments, EditFileExecutor(), contained=True),
        Tool("grep", GrepArguments, GrepExecutor(), contained=True),
        Tool("glob", GlobArguments, GlobExecutor(), contained=True),
    ]
    if search is not None:
        searcher = WebSearchExecutor(search, search_limits)
        tools.append(Tool("web_search", SearchArguments, searcher, contained=False))
    return tools
