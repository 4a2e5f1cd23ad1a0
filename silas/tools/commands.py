"""The command tools: `shell_exec` and `python_exec`. They run in the sandbox, on the workspace.

Of the workspace, what `filesystem_read` names is read-only. Which files the command left behind is
found out by looking, not by asking it. No shell reads the command: it is a list of arguments.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from silas.gates.risk import ActionKind, DeclaredEffect, Reversibility
from silas.kernel import SandboxError, TaintLevel
from silas.kernel.models import Data
from silas.sandbox.environment import python_executable
from silas.sandbox.models import (
    MEBIBYTE,
    SandboxConfig,
    SandboxLimits,
    SandboxRequest,
    SandboxResult,
    SandboxRunner,
)
from silas.tools.declaration import Tool, checked
from silas.tools.execution import ExecutionEnvelope, ExecutionResult, failed
from silas.tools.files import MAX_FILES, NOT_ARTIFACTS, WorkspacePath
from silas.tools.tree import FileRefused, Listing, Tree, require_readable

# A command can do more than write files as soon as its sandbox has a network.
_RUNS = DeclaredEffect(action=ActionKind.CHANGE, reversibility=Reversibility.HARD)


# Isolated from user directories and variables; `-` reads the program from standard input.
_OPTIONS = ("-I", "-B", "-u", "-X", "utf8")


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


class PythonArguments(Data):
    """Either `script`, a path in the workspace, or `code`; and arguments for it."""

    script: WorkspacePath | None = None
    code: Annotated[str, Field(min_length=1, max_length=1_000_000)] | None = None
    args: Annotated[list[str], Field(max_length=1000)] = Field(default_factory=list)

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.script is None) == (self.code is None):
            raise ValueError("give either script or code")
        if self.script is not None and self.script.startswith("-"):
            raise ValueError("script must be a path, not an option")
        return self


def command_tools(sandbox: SandboxRunner) -> list[Tool]:
    """The tools that run programs in this sandbox."""
    return [
        Tool(
            "shell_exec",
            ShellArguments,
            ShellExecutor(sandbox),
            contained=True,
            effect=_RUNS,
            description=(
                "Run one program in the workspace, inside the sandbox. Give the program and its "
                "arguments as a list: no shell reads them, so pipes, `&&` and `*` do not work. "
                "Returns what it printed; a program that fails is reported with its exit code. "
                'Example: {"argv": ["python3", "-m", "unittest", "-v"]}'
            ),
        ),
        Tool(
            "python_exec",
            PythonArguments,
            PythonExecutor(sandbox),
            contained=True,
            effect=_RUNS,
            description=(
                "Run Python in the workspace, inside the sandbox: either `code`, or `script`, the "
                "path of a file in the workspace. Print what you want to see. "
                'Example: {"code": "print(sum(range(10)))"}'
            ),
        ),
    ]


@dataclass(frozen=True)
class ShellExecutor:
    """Runs a program of the sandbox."""

    sandbox: SandboxRunner

    async def execute(self, envelope: ExecutionEnvelope) -> ExecutionResult:
        args = checked(ShellArguments, envelope.args)
        return await run_command(
            self.sandbox, envelope, tuple(args.argv), stdin=args.stdin.encode()
        )


@dataclass(frozen=True)
class PythonExecutor:
    """Runs Python."""

    sandbox: SandboxRunner

    async def execute(self, envelope: ExecutionEnvelope) -> ExecutionResult:
        args = checked(PythonArguments, envelope.args)
        argv = (python_executable(), *_OPTIONS, args.script or "-", *args.args)
        return await run_command(self.sandbox, envelope, argv, stdin=(args.code or "").encode())


async def run_command(
    sandbox: SandboxRunner,
    envelope: ExecutionEnvelope,
    argv: tuple[str, ...],
    *,
    stdin: bytes = b"",
) -> ExecutionResult:
    """Run the command of an envelope and report output, exit code and new files."""
    directory = Path(envelope.sandbox_config.work_dir)
    try:
        before = await asyncio.to_thread(list_workspace, directory)
        ran = await sandbox.run(_request(envelope, argv, stdin))
        artifacts = await asyncio.to_thread(changed_files, directory, before)
    except (SandboxError, FileRefused) as error:
        return failed(envelope, error.message, metadata={"code": error.code})
    except ValueError as error:
        return failed(envelope, f"The command cannot be run as written: {error}")
    return _result(envelope, ran, artifacts)


def _request(envelope: ExecutionEnvelope, argv: tuple[str, ...], stdin: bytes) -> SandboxRequest:
    config = envelope.sandbox_config
    return SandboxRequest(
        argv=argv,
        # Python keeps lines back where nobody watches, and would change their order.
        env={"PYTHONUNBUFFERED": "1", **config.env},
        cwd=config.work_dir,
        read=tuple(config.filesystem_read),
        write=(config.work_dir, *config.filesystem_write),
        network=config.network_hosts,
        accounts=config.accounts,
        limits=_limits(envelope, config),
        stdin=stdin,
        one_stream=True,
    )


def _limits(envelope: ExecutionEnvelope, config: SandboxConfig) -> SandboxLimits:
    return SandboxLimits(
        wall_seconds=envelope.timeout_seconds,
        cpu_seconds=config.max_cpu_seconds,
        memory_bytes=config.max_memory_mb * MEBIBYTE,
        output_bytes=envelope.max_output_bytes,
    )


def _result(
    envelope: ExecutionEnvelope, ran: SandboxResult, artifacts: dict[str, str]
) -> ExecutionResult:
    network = envelope.sandbox_config.network_hosts
    return ExecutionResult(
        execution_id=envelope.execution_id,
        step_index=envelope.step_index,
        success=ran.exit_code == 0 and ran.limit is None,
        return_value=ran.text,
        metadata={
            "backend": ran.backend,
            "exit_code": ran.exit_code,
            "not_enforced": list(ran.not_enforced),
            "network": [use.model_dump(mode="json") for use in ran.network],
        },
        artifacts=artifacts,
        taint=TaintLevel.EXTERNAL if network else TaintLevel.OWNER,
        error=_error(ran, envelope),
        duration_seconds=ran.duration_seconds,
    )


def _error(ran: SandboxResult, envelope: ExecutionEnvelope) -> str | None:
    if ran.timed_out:
        return f"Timeout after {envelope.timeout_seconds}s"
    if ran.limit is not None:
        return f"Stopped: the limit for {ran.limit.value} was reached"
    return f"The command ended with exit code {ran.exit_code}" if ran.exit_code else None


def list_workspace(directory: Path) -> Listing:
    """What lies in a workspace now, to be compared with afterwards."""
    with Tree.open(directory) as tree:
        return tree.listing(skip=NOT_ARTIFACTS, limit=MAX_FILES)


def changed_files(directory: Path, before: Listing) -> dict[str, str]:
    """The files that are new or different, with their hashes."""
    with Tree.open(directory) as tree:
        after = tree.listing(skip=NOT_ARTIFACTS, limit=MAX_FILES)
        require_readable(after, before)
        names = [name for name, stamp in after.files.items() if before.files.get(name) != stamp]
        digests = {name: tree.digest(name) for name in names}
    return {name: digest for name, digest in digests.items() if digest is not None}
