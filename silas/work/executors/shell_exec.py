"""`shell_exec`: one command as a list of arguments, in the sandbox. There is no shell in it."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from silas.kernel.models import Data
from silas.work.execution_models import ExecutionEnvelope, ExecutionResult
from silas.work.executors.arguments import checked
from silas.work.executors.contained import run_contained
from silas.work.ports import SandboxRunner


def _not_a_string(value: Any) -> Any:
    if isinstance(value, str):
        raise ValueError(  # noqa: TRY004 - pydantic's own
            "must be a list of arguments such as ['ls', '-l'], not one string: no shell reads it"
        )
    return value


class ShellArguments(Data):
    """A program and its arguments."""

    argv: Annotated[
        list[Annotated[str, Field(max_length=100_000)]],
        BeforeValidator(_not_a_string),
        Field(min_length=1, max_length=1000),
    ]
    stdin: str = Field(default="", max_length=1_000_000)


class ShellExecutor:
    """Runs a program of the sandbox."""

    def __init__(self, sandbox: SandboxRunner) -> None:
        self._sandbox = sandbox

    async def execute(self, envelope: ExecutionEnvelope) -> ExecutionResult:
        args = checked(ShellArguments, envelope.args)
        return await run_contained(
            self._sandbox, envelope, tuple(args.argv), stdin=args.stdin.encode()
        )
