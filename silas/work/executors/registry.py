"""Which tools there are, what arguments they take, and where they act."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

from silas.kernel.models import Data
from silas.work.execution_models import ExecutionEnvelope, ExecutionResult
from silas.work.executors.arguments import checked
from silas.work.executors.descriptions import DESCRIPTIONS
from silas.work.executors.edit_file import EditArguments, EditFileExecutor
from silas.work.executors.glob import GlobArguments, GlobExecutor
from silas.work.executors.grep import GrepArguments, GrepExecutor
from silas.work.executors.python_exec import PythonArguments, PythonExecutor
from silas.work.executors.read_file import ReadArguments, ReadFileExecutor
from silas.work.executors.search_providers import SearchProvider
from silas.work.executors.shell_exec import ShellArguments, ShellExecutor
from silas.work.executors.web_search import SearchArguments, SearchLimits, WebSearchExecutor
from silas.work.executors.write_file import WriteArguments, WriteFileExecutor
from silas.work.ports import EphemeralExecutor, SandboxRunner, ToolOffer

RESEARCH_TOOLS = frozenset({"read_file", "grep", "glob", "web_search", "memory_search"})
"""What a worker may use that only finds things out. Everything else does not exist for it."""


@dataclass(frozen=True)
class Tool:
    """One tool. `contained` means: it acts in the workspace and its sandbox, and nowhere else.

    `changes_state` means that the outside is different afterwards; a contained tool never does.
    `own_account` means that it only looks into an account of the owner's: what is in its arguments
    reaches nobody who would not know it anyway.
    """

    name: str
    arguments: type[Data]
    executor: EphemeralExecutor
    contained: bool
    changes_state: bool = False
    own_account: bool = False
    description: str = ""
    """For a model: what it does, and one example. Empty: what its arguments say of themselves."""

    @cached_property
    def offer(self) -> ToolOffer:
        """The tool as a worker sees it."""
        schema = _without_titles(self.arguments.model_json_schema())
        told = schema.pop("description", "")
        return ToolOffer(
            name=self.name,
            description=self.description or told,
            parameters=schema,
            contained=self.contained,
            changes_state=self.changes_state,
        )

    def check(self, args: Mapping[str, Any]) -> None:
        """Raise `ArgumentsRefused` unless the arguments fit."""
        checked(self.arguments, dict(args))

    async def execute(self, envelope: ExecutionEnvelope) -> ExecutionResult:
        return await self.executor.execute(envelope)


class ExecutorRegistry:
    """The tools of a runtime, by name."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self.tools: Mapping[str, Tool] = MappingProxyType({tool.name: tool for tool in tools})
        self.offers = tuple(tool.offer for tool in self.tools.values())

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
        _contained("shell_exec", ShellArguments, ShellExecutor(sandbox)),
        _contained("python_exec", PythonArguments, PythonExecutor(sandbox)),
        _contained("read_file", ReadArguments, ReadFileExecutor()),
        _contained("write_file", WriteArguments, WriteFileExecutor()),
        _contained("edit_file", EditArguments, EditFileExecutor()),
        _contained("grep", GrepArguments, GrepExecutor()),
        _contained("glob", GlobArguments, GlobExecutor()),
    ]
    if search is not None:
        searcher = WebSearchExecutor(search, search_limits)
        told = DESCRIPTIONS["web_search"]
        tools.append(
            Tool("web_search", SearchArguments, searcher, contained=False, description=told)
        )
    return tools


def _contained(name: str, arguments: type[Data], executor: EphemeralExecutor) -> Tool:
    return Tool(name, arguments, executor, contained=True, description=DESCRIPTIONS[name])


def _without_titles(schema: Any) -> Any:
    """The schema without pydantic's titles: they repeat the names, and a model pays for them."""
    if isinstance(schema, dict):
        return {
            key: {name: _without_titles(each) for name, each in value.items()}
            if key in ("properties", "$defs")
            else _without_titles(value)
            for key, value in schema.items()
            if key != "title"
        }
    if isinstance(schema, list):
        return [_without_titles(each) for each in schema]
    return schema
