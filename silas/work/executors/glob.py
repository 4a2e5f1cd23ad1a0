"""`glob`: names of the workspace's files that match a pattern."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import Field

from silas.kernel.models import Data
from silas.work.execution_models import ExecutionEnvelope, ExecutionResult
from silas.work.executors.arguments import checked
from silas.work.executors.contained import MAX_FILES, NOT_ARTIFACTS
from silas.work.executors.files import cut, in_workspace
from silas.work.executors.results import succeeded
from silas.work.tree import Tree

_ANY_DIRECTORIES = "**"


class GlobArguments(Data):
    """`*` and `?` stay in one directory, `**` crosses them."""

    pattern: Annotated[str, Field(min_length=1, max_length=1000)]


class GlobExecutor:
    """Lists files."""

    async def execute(self, envelope: ExecutionEnvelope) -> ExecutionResult:
        args = checked(GlobArguments, envelope.args)

        def find(tree: Tree) -> ExecutionResult:
            names = tree.listing(skip=NOT_ARTIFACTS, limit=MAX_FILES).files
            return succeeded(envelope, cut("\n".join(matching(args.pattern, names)), envelope))

        return await in_workspace(envelope, find)


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """The names that match, in order."""
    wanted = pattern.split("/")
    return sorted(name for name in names if _matches(wanted, name.split("/")))


def _matches(wanted: Sequence[str], parts: Sequence[str]) -> bool:
    """Whether the parts match, part by part: linear in each, so that no pattern takes for ever."""
    reached = {0}
    for part in parts:
        following = set()
        for at in _past_empty(wanted, reached):
            if at < len(wanted) and wanted[at] == _ANY_DIRECTORIES:
                following.add(at)
            elif at < len(wanted) and fnmatchcase(part, wanted[at]):
                following.add(at + 1)
        reached = following
    return len(wanted) in _past_empty(wanted, reached)


def _past_empty(wanted: Sequence[str], reached: Iterable[int]) -> set[int]:
    """`**` also stands for no directory at all."""
    found = set()
    for start in reached:
        at = start
        found.add(at)
        while at < len(wanted) and wanted[at] == _ANY_DIRECTORIES:
            at += 1
            found.add(at)
    return found
