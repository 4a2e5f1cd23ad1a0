"""Runs a command for an executor: in the sandbox, on the workspace, and nowhere else.

Of the workspace, what `filesystem_read` names is read-only. Which files the command left behind is
found out by looking, not by asking it.
"""

import asyncio
from pathlib import Path

from silas.kernel import SandboxError, TaintLevel
from silas.sandbox.models import (
    MEBIBYTE,
    Boundary,
    SandboxConfig,
    SandboxLimits,
    SandboxRequest,
    SandboxResult,
)
from silas.sandbox.placeholders import PROTECTED
from silas.work.errors import FileRefused
from silas.work.execution_models import ExecutionEnvelope, ExecutionResult
from silas.work.executors.results import failed
from silas.work.ports import SandboxRunner
from silas.work.tree import Listing, Tree

NOT_ARTIFACTS = frozenset(PROTECTED)
"""Names in which a worker cannot leave anything."""

MAX_FILES = 20_000
_INSIST = frozenset({Boundary.NETWORK, Boundary.FILESYSTEM})


async def run_contained(
    sandbox: SandboxRunner,
    envelope: ExecutionEnvelope,
    argv: tuple[str, ...],
    *,
    stdin: bytes = b"",
) -> ExecutionResult:
    """Run the command of an envelope and report output, exit code and new files."""
    directory = Path(envelope.sandbox_config.work_dir)
    try:
        before = await asyncio.to_thread(_list, directory)
        ran = await sandbox.run(_request(envelope, argv, stdin))
        artifacts = await asyncio.to_thread(_changed, directory, before)
    except (SandboxError, FileRefused) as error:
        return failed(envelope, error.message, metadata={"code": error.code})
    except ValueError as error:
        return failed(envelope, f"The command cannot be run as written: {error}")
    return _result(envelope, ran, artifacts)


def _request(envelope: ExecutionEnvelope, argv: tuple[str, ...], stdin: bytes) -> SandboxRequest:
    config = envelope.sandbox_config
    insist = _INSIST - {Boundary.NETWORK} if config.network_access else _INSIST
    return SandboxRequest(
        argv=argv,
        env=config.env,
        cwd=config.work_dir,
        read=tuple(config.filesystem_read),
        write=(config.work_dir, *config.filesystem_write),
        network=config.network_access,
        limits=_limits(envelope, config),
        stdin=stdin,
        require=insist,
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
    network = envelope.sandbox_config.network_access
    text = ran.stdout.decode(errors="replace") + ran.stderr.decode(errors="replace")
    if ran.stdout_truncated or ran.stderr_truncated:
        text += "\n[the rest of the output was dropped]"
    return ExecutionResult(
        execution_id=envelope.execution_id,
        step_index=envelope.step_index,
        success=ran.exit_code == 0 and ran.limit is None,
        return_value=text,
        metadata={
            "backend": ran.backend,
            "exit_code": ran.exit_code,
            "not_enforced": list(ran.not_enforced),
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


def _list(directory: Path) -> Listing:
    with Tree.open(directory) as tree:
        return tree.listing(skip=NOT_ARTIFACTS, limit=MAX_FILES)


def _changed(directory: Path, before: Listing) -> dict[str, str]:
    """The files that are new or different, with their hashes."""
    with Tree.open(directory) as tree:
        after = tree.listing(skip=NOT_ARTIFACTS, limit=MAX_FILES)
        names = [name for name, stamp in after.files.items() if before.files.get(name) != stamp]
        digests = {name: tree.digest(name) for name in names}
    return {name: digest for name, digest in digests.items() if digest is not None}
