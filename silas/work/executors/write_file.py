"""`write_file`: a file of the workspace, as a whole."""

import hashlib

from pydantic import Field

from silas.kernel.models import Data
from silas.work.execution_models import ExecutionEnvelope, ExecutionResult
from silas.work.executors.arguments import Path, checked
from silas.work.executors.files import MAX_FILE_BYTES, in_workspace, require_writable
from silas.work.executors.results import succeeded
from silas.work.tree import Tree


class WriteArguments(Data):
    """Which file, and what it is to hold."""

    path: Path
    content: str = Field(max_length=MAX_FILE_BYTES)
    executable: bool | None = None


class WriteFileExecutor:
    """Writes a file."""

    async def execute(self, envelope: ExecutionEnvelope) -> ExecutionResult:
        args = checked(WriteArguments, envelope.args)

        def write(tree: Tree) -> ExecutionResult:
            require_writable(envelope, args.path)
            content = args.content.encode()
            tree.write(args.path, content, executable=args.executable)
            digest = hashlib.sha256(content).hexdigest()
            told = f"Wrote {len(content)} bytes to {args.path}."
            return succeeded(envelope, told, artifacts={args.path: digest})

        return await in_workspace(envelope, write)
