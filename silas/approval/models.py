"""What is approved and by what: scopes, verdicts, decisions, tokens, payloads that are no plans.

`Approvable` is whatever can be put before the owner. Plans are; what is none (a batch, a change of
autonomy) is wrapped here, so that the same hash, signature and checks apply.
"""

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Protocol

from pydantic import Field, PlainSerializer, PlainValidator

from silas.kernel import canonical_bytes, format_timestamp
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
    """How the owner was recognised when deciding.

    A passkey is used after the gesture, so that it is as much as both biometric ones of the specs.
    """

    TAP = "tap"
    SLIDE = "slide"
    BIOMETRIC = "biometric"
    BIOMETRIC_CONFIRM = "biometric_confirm"
    PASSKEY = "passkey"
    VAULT = "vault"
    """The owner's own key, on Silas's machine."""

    @property
    def rank(self) -> int:
        """What is stronger has a higher rank."""
        return _RANKS[self]


_RANKS = {
    ApprovalStrength.TAP: 0,
    ApprovalStrength.SLIDE: 1,
    ApprovalStrength.BIOMETRIC: 2,
    ApprovalStrength.BIOMETRIC_CONFIRM: 3,
    ApprovalStrength.PASSKEY: 3,
    ApprovalStrength.VAULT: 4,
}


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


@dataclass(frozen=True)
class BatchPayload:
    """One action on exactly these items of an account, in this order, as they were shown.

    An approval is for all of it: the goal, the connection, the tool with its arguments, each item
    with the state that it was in, the lines that were shown, and how many there are. The batch's id
    names the token and authorises nothing.
    """

    batch_id: str
    goal_id: str
    action: str
    connection: str
    tool: str
    args: Mapping[str, str | bool | int | float]
    ids: str
    """The argument that takes the ids."""
    item_ids: tuple[str, ...]
    states: tuple[str, ...]
    """What each item was like; empty where its id says that already."""
    lines: tuple[str, ...]
    """What was shown of each item."""
    state: str | None = None
    """The argument that takes an item's state, if there is one."""

    def __post_init__(self) -> None:
        count = len(self.item_ids)
        whole = count and {len(self.states), len(self.lines)} == {count}
        if not whole or len(set(self.item_ids)) != count:
            raise ValueError("a batch names each of its items once, with its state and its line")

    @classmethod
    def read(cls, shown: Mapping[str, Any]) -> "BatchPayload":
        """What a card shows; raises `KeyError`, `TypeError` or `ValueError`."""
        fields = dict(shown)
        count = fields.pop("count")
        for name in ("item_ids", "states", "lines"):
            if not isinstance(fields[name], list) or count != len(fields[name]):
                raise ValueError(f"{name}: not as many as the card says")
            fields[name] = tuple(map(str, fields[name]))
        return cls(**fields)

    @property
    def id(self) -> str:
        return self.batch_id

    @property
    def parent(self) -> str | None:
        return None

    def shown(self) -> dict[str, Any]:
        """Everything that is approved, as a card holds it."""
        lists = {name: list(getattr(self, name)) for name in ("item_ids", "states", "lines")}
        return {**vars(self), "args": dict(self.args), **lists, "count": len(self.item_ids)}

    def plan_bytes(self) -> bytes:
        return canonical_bytes(self.shown())

    def spawn_policy_bytes(self) -> bytes:
        return b""


@dataclass(frozen=True)
class ThresholdChange:
    """One autonomy setting, from what to what."""

    key: str
    current_value: str
    proposed_value: str
    direction: str


@dataclass(frozen=True)
class AutonomyPayload:
    """A change of autonomy thresholds together with the evidence that it was proposed on."""

    proposal_id: str
    scope_id: str
    goal_id: str | None
    changes: tuple[ThresholdChange, ...]
    sample_size: int
    correction_rate: float
    evidence_window: str

    @property
    def id(self) -> str:
        return self.proposal_id

    @property
    def parent(self) -> str | None:
        return None

    def plan_bytes(self) -> bytes:
        changes: list[dict[str, Any]] = [vars(change) for change in self.changes]
        return canonical_bytes(
            {
                "scope_id": self.scope_id,
                "goal_id": self.goal_id,
                "changes": changes,
                "sample_size": self.sample_size,
                "correction_rate": self.correction_rate,
                "evidence_window": self.evidence_window,
            }
        )

    def spawn_policy_bytes(self) -> bytes:
        return b""


class Approvable(Protocol):
    """Something that can be put before the owner: canonical bytes, and how it is named."""

    @property
    def id(self) -> str:
        """The id that the token will carry."""
        ...

    @property
    def parent(self) -> str | None:
        """The goal that this was spawned from, if any."""
        ...

    def plan_bytes(self) -> bytes:
        """The canonical JSON of everything that is approved: what is shown and what is hashed."""
        ...

    def spawn_policy_bytes(self) -> bytes:
        """The canonical JSON of what tasks spawned under a standing approval must be like."""
        ...


ConditionCheck = Callable[[Any, Approvable], bool]
"""Whether a condition that the owner put on an approval holds for what is about to be executed."""
