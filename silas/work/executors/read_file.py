"""`read_file`: the text of one file of the workspace."""

from pydantic import Field

from silas.kernel.models import Data
from silas.work.execution_models import ExecutionEnvelope, ExecutionResult
from silas.work.executors.arguments import Path, checked
from silas.work.executors.files import cut, in_workspace, read_text
from silas.work.executors.results import succeeded


class ReadArguments(Data):
    """Which file, and which lines of it (counted from 1)."""

    path: Path
    first_line: int = Field(default=1, ge=1)
    max_lines: int = Field(default=5000, ge=1, le=100_000)


class ReadFileExecutor:
    """Reads a file."""

    async def execute(self, envelope: ExecutionEnvelope) -> ExecutionResult:
        args = checked(ReadArguments, envelope.args)
        first, last = args.first_line - 1, args.first_line - 1 + args.max_lines
        return await in_workspace(
            envelope,
            lambda tree: succeeded(
                envelope,
                cut("".join(read_text(tree, args.path).splitlines(True)[first:last]), envelope),
            ),
        )
