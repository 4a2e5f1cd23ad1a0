"""`grep`: lines of the workspace's text files that match a regular expression."""

import re
from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from silas.gates.expectations import SafeRegex
from silas.kernel.models import Data
from silas.work.errors import FileRefused
from silas.work.execution_models import ExecutionEnvelope, ExecutionResult
from silas.work.executors.arguments import checked
from silas.work.executors.contained import MAX_FILES, NOT_ARTIFACTS
from silas.work.executors.files import cut, in_workspace, read_text
from silas.work.executors.glob import matching
from silas.work.executors.results import succeeded
from silas.work.tree import Tree

_MAX_LINE = 500


class GrepArguments(Data):
    """What to look for, in which files, and how many lines to show."""

    pattern: Annotated[SafeRegex, Field(max_length=1000)]
    glob: Annotated[str, Field(min_length=1, max_length=1000)] = "**"
    max_matches: int = Field(default=200, ge=1, le=5000)


class GrepExecutor:
    """Searches files."""

    async def execute(self, envelope: ExecutionEnvelope) -> ExecutionResult:
        args = checked(GrepArguments, envelope.args)

        def search(tree: Tree) -> ExecutionResult:
            lines: list[str] = []
            for line in _matches(tree, args):
                if len(lines) == args.max_matches:
                    lines.append("[there are more]")
                    break
                lines.append(line)
            return succeeded(envelope, cut("\n".join(lines), envelope))

        return await in_workspace(envelope, search)


def _matches(tree: Tree, args: GrepArguments) -> Iterator[str]:
    pattern = re.compile(args.pattern)
    names = tree.listing(skip=NOT_ARTIFACTS, limit=MAX_FILES).files
    for name in matching(args.glob, names):
        try:
            text = read_text(tree, name)
        except FileRefused:
            continue  # binary or too large: nothing to show a line of
        for number, line in enumerate(text.splitlines(), 1):
            if pattern.search(line):
                yield f"{name}:{number}: {line[:_MAX_LINE]}"
