"""A call as its executor gets it: in the attempt's own sandbox, within what is left of the time."""

from typing import Any

from silas.sandbox.models import SandboxConfig
from silas.work.execution_models import ExecutionEnvelope
from silas.work.executors import Tool
from silas.work.workbench import Workbench
from silas.work.workspaces import AttemptWorkspace


def call_envelope(
    bench: Workbench,
    files: AttemptWorkspace,
    *,
    tool: Tool,
    args: dict[str, Any],
    seq: int,
    seconds_left: float,
) -> ExecutionEnvelope:
    """The envelope of the attempt's call number `seq`."""
    item, directory = files.item, str(files.directory)
    return ExecutionEnvelope(
        execution_id=f"{item.id}.{files.attempt}.{seq}",
        step_index=seq - 1,
        task_description=item.title,
        action=tool.name,
        args=args,
        timeout_seconds=max(1, min(bench.call_seconds, int(seconds_left) + 1)),
        sandbox_config=SandboxConfig(
            work_dir=directory,
            network_access=files.workspace.network,
            filesystem_read=[f"{directory}/{name}" for name in files.workspace.pinned],
            max_memory_mb=bench.memory_mb,
            max_cpu_seconds=bench.cpu_seconds,
            env=files.workspace.env,
        ),
    )
