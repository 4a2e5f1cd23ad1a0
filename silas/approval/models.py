"""The words of approval: scopes, verdicts, decisions, tokens."""

import base64
import binascii
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, PlainSerializer, PlainValidator

from silas.kernel.canonical import canonical_bytes
from silas.kernel.clock import format_timestamp
from silas.kernel.models import Data, UtcDatetime


class ApprovalScope(StrEnum):
    """What an approval is for."""

    FULL_PLAN = "full_plan"
    SINGLE_STEP = "single_step"
    STEP_RANGE = "step_range"
    TOOL_TYPE = "tool_type"
    SKILL_INSTALL = "skill_install"
    CREDENTIAL_USE = "credential_use"
    BUDGET = "budget"
    SELF_UPDATE = "self_update"
    CONNECTION_ACT = "connection_act"
    CONNECTION_MANAGE = "connection_manage"
    AUTONOMY_THRESHOLD = "autonomy_threshold"
    STANDING = "standing"


EXECUTION_SCOPES = frozenset({ApprovalScope.FULL_PLAN, ApprovalScope.STANDING})
"""The scopes that let a work item run. A token for anything else never does."""


class ApprovalVerdict(StrEnum):
    """What the owner decided."""

    APPROVED = "approved"
    DECLINED = "declined"
    EDIT_REQUESTED = "edit_requested"
    CONDITIONAL = "conditional"


class ApprovalStrength(StrEnum):
    """How the owner was recognised when deciding, from weakest to strongest."""

    TAP = "tap"
    BIOMETRIC = "biometric"
    BIOMETRIC_CONFIRM = "biometric_confirm"

    @property
    def rank(self) -> int:
        return list(ApprovalStrength).index(self)


def _bytes_from_base64(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise ValueError("expected base64 text")  # noqa: TRY004 - pydantic turns it into its own error
    try:
        raw = base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise ValueError(f"not base64: {error}") from error
    if base64.b64encode(raw).decode() != value:
        raise ValueError("not canonical base64: unused bits are set")
    return raw


def _bytes_to_base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


Base64Bytes = Annotated[
    bytes,
    PlainValidator(_bytes_from_base64, json_schema_input_type=str),
    PlainSerializer(_bytes_to_base64, return_type=str, when_used="json"),
]
"""Raw bytes in memory, canonical base64 in JSON: one value, one spelling."""


class ApprovalDecision(Data):
    """What the owner decided on a card, before a token exists."""

    verdict: ApprovalVerdict
    approval_strength: ApprovalStrength = ApprovalStrength.TAP
    conditions: dict[str, Any] = Field(default_factory=dict)


class ApprovalToken(Data):
    """The owner's signed decision about exactly one payload.

    `executions_used` and `execution_nonces` are a copy of what the store knew when this value was
    loaded. They are not signed and decide nothing: the store's own counters do.
    """

    token_id: str
    plan_hash: str
    work_item_id: str
    scope: ApprovalScope
    verdict: ApprovalVerdict
    signature: Base64Bytes
    issued_at: UtcDatetime
    expires_at: UtcDatetime
    nonce: str
    approval_strength: ApprovalStrength
    conditions: dict[str, Any] = Field(default_factory=dict)
    executions_used: int = Field(default=0, ge=0)
    max_executions: int = Field(default=1, ge=1)
    execution_nonces: list[str] = Field(default_factory=list)

    def canonical_bytes(self) -> bytes:
        """The bytes that the owner's key signs: every field that decides anything."""
        return canonical_bytes(
            {
                "plan_hash": self.plan_hash,
                "work_item_id": self.work_item_id,
                "scope": self.scope.value,
                "verdict": self.verdict.value,
                "nonce": self.nonce,
                "approval_strength": self.approval_strength.value,
                "issued_at": format_timestamp(self.issued_at),
                "expires_at": format_timestamp(self.expires_at),
                "max_executions": self.max_executions,
                "conditions": self.conditions,
            }
        )
