"""What an executor receives and what it returns; it keeps nothing in between.

An envelope holds no conversation, memory, context or approval token. A result keeps two channels
apart: `return_value` and `content` may reach a model, `metadata` never does.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from pydantic import Field

from silas.kernel import TaintLevel
from silas.kernel.models import Data
from silas.sandbox.models import SandboxConfig

ACCOUNT_SOURCE = "account_source"
"""Where the metadata of a result say which account of the owner's was read."""
ACCOUNT_OF = "account of "
"""How the name of such a source begins."""
MetadataValue = str | int | float | bool | list[Any] | dict[str, Any]


class ExecutionEnvelope(Data):
    """Everything that one execution of one action may know."""

    execution_id: str
    step_index: int = Field(ge=0)
    task_description: str
    action: str
    args: dict[str, Any] = Field(default_factory=dict)
    input_artifacts: dict[str, str] = Field(default_factory=dict)
    credential_refs: dict[str, str] = Field(default_factory=dict)
    """Names of secrets in the vault, never their values."""
    permissions_once: tuple[str, ...] = ()
    """What the owner has granted the account for this call, and for no other one."""
    made_from: tuple[str, ...] = ()
    """The work that this follows from: what that has read of an account stays with this."""
    sources: tuple[str, ...] = ()
    """What the run has read of strangers until now."""
    timeout_seconds: int = Field(default=300, gt=0)
    max_output_bytes: int = Field(default=100_000, gt=0)
    sandbox_config: SandboxConfig = Field(default_factory=SandboxConfig)
    directory: str | None = None
    """The owner's directory that the workspace was made from, if any."""


class ModelView(Data):
    """The part of a result that a model may see, still subject to gates and taint."""

    success: bool
    return_value: str
    content: list[dict[str, Any]]
    error: str | None
    taint: TaintLevel
    sources: list[str] = Field(default_factory=list, exclude=True)
    """The strangers' texts in it, for the runtime alone."""


OUTCOME_UNKNOWN: Mapping[str, str] = {"kind": "unknown"}
"""In the metadata of a call whose answer was lost."""


class ExecutionResult(Data):
    """What one execution gave. Its output is untrusted unless it is known to be otherwise."""

    execution_id: str
    step_index: int = Field(ge=0)
    success: bool
    return_value: str = ""
    content: list[dict[str, Any]] = Field(default_factory=list)
    metadata: dict[str, MetadataValue] = Field(default_factory=dict, repr=False)
    """For the application alone: headers, diagnostics, raw protocol details."""
    artifacts: dict[str, str] = Field(default_factory=dict)
    taint: TaintLevel = TaintLevel.EXTERNAL
    error: str | None = None
    duration_seconds: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    tokens_used: int = Field(default=0, ge=0)
    cost_usd: float = Field(default=0.0, ge=0, allow_inf_nan=False)

    @property
    def was_lost(self) -> bool:
        """Whether nobody knows what it has done (`OUTCOME_UNKNOWN`)."""
        return all(self.metadata.get(name) == known for name, known in OUTCOME_UNKNOWN.items())

    def model_view(self) -> ModelView:
        """What may enter a model's context; whoever builds a context starts from this."""
        return ModelView(
            success=self.success,
            return_value=self.return_value,
            content=self.content,
            error=self.error,
            taint=self.taint,
        )


class EphemeralExecutor(Protocol):
    """One action, executed once; it keeps nothing."""

    async def execute(self, envelope: ExecutionEnvelope) -> ExecutionResult:
        """Do what the envelope says, and return what came of it."""
        ...


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
