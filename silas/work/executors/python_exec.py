"""`python_exec`: a Python script of the workspace, or a text as one, in the sandbox."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from silas.kernel.models import Data
from silas.sandbox.runtime import python_executable
from silas.work.execution_models import ExecutionEnvelope, ExecutionResult
from silas.work.executors.arguments import Path, checked
from silas.work.executors.contained import run_contained
from silas.work.ports import SandboxRunner

# Isolated from user directories and variables; `-` reads the program from standard input.
_OPTIONS = ("-I", "-B", "-X", "utf8")


class PythonArguments(Data):
    """Either `script`, a path in the workspace, or `code`; and arguments for it."""

    script: Path | None = None
    code: Annotated[str, Field(min_length=1, max_length=1_000_000)] | None = None
    args: Annotated[list[str], Field(max_length=1000)] = Field(default_factory=list)

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.script is None) == (self.code is None):
            raise ValueError("give either script or code")
        if self.script is not None and self.script.startswith("-"):
            raise ValueError("script must be a path, not an option")
        return self


class PythonExecutor:
    """Runs Python."""

    def __init__(self, sandbox: SandboxRunner) -> None:
        self._sandbox = sandbox

    async def execute(self, envelope: ExecutionEnvelope) -> ExecutionResult:
        args = checked(PythonArguments, envelope.args)
        argv = (python_executable(), *_OPTIONS, args.script or "-", *args.args)
        return await run_contained(self._sandbox, envelope, argv, stdin=(args.code or "").encode())
