"""How executors say what came of it."""

from typing import Any

from silas.kernel import TaintLevel
from silas.work.execution_models import ExecutionEnvelope, ExecutionResult


def succeeded(envelope: ExecutionEnvelope, text: str, **more: Any) -> ExecutionResult:
    """A result of something that worked; `owner` taint means: nothing foreign was added here."""
    return ExecutionResult(
        execution_id=envelope.execution_id,
        step_index=envelope.step_index,
        success=True,
        return_value=text,
        **{"taint": TaintLevel.OWNER, **more},
    )


def failed(envelope: ExecutionEnvelope, reason: str, **more: Any) -> ExecutionResult:
    """A result of something that did not work."""
    return ExecutionResult(
        execution_id=envelope.execution_id,
        step_index=envelope.step_index,
        success=False,
        error=reason,
        **{"taint": TaintLevel.OWNER, **more},
    )
