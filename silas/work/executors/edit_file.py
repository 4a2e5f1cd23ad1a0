"""`edit_file`: one passage of a file replaced by another; it must be there exactly once."""

import hashlib
from typing import Annotated

from pydantic import Field

from silas.kernel.models import Data
from silas.work.execution_models import ExecutionEnvelope, ExecutionResult
from silas.work.executors.arguments import Path, checked
from silas.work.executors.files import (
    MAX_FILE_BYTES,
    in_workspace,
    read_text,
    require_writable,
)
from silas.work.executors.results import failed, succeeded
from silas.work.tree import Tree


class EditArguments(Data):
    """Which file, which passage, and what is to stand there instead."""

    path: Path
    old: Annotated[str, Field(min_length=1, max_length=MAX_FILE_BYTES)]
    new: str = Field(max_length=MAX_FILE_BYTES)


class EditFileExecutor:
    """Changes a file."""

    async def execute(self, envelope: ExecutionEnvelope) -> ExecutionResult:
        args = checked(EditArguments, envelope.args)

        def edit(tree: Tree) -> ExecutionResult:
            require_writable(envelope, args.path)
            text = read_text(tree, args.path)
            found = text.count(args.old)
            if found != 1:
                return failed(envelope, f"The passage is there {found} times; it must be unique.")
            content = text.replace(args.old, args.new).encode()
            tree.write(args.path, content)
            digest = hashlib.sha256(content).hexdigest()
            return succeeded(envelope, f"Changed {args.path}.", artifacts={args.path: digest})

        return await in_workspace(envelope, edit)
