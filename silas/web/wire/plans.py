"""Plans and calls on their cards, the owner's decision about them, and how far the work is."""

from typing import Any, Literal

from pydantic import Field

from silas.approval import Assertion, Base64Bytes
from silas.gates.risk import RiskLevel, Step
from silas.kernel.models import Data, UtcDatetime
from silas.web.wire.fields import Name


class PlanShown(Data):
    """One work item of a plan: the very bytes whose hash is signed."""

    id: str
    plan: str
    plan_hash: str


class ApprovalRequest(Data):
    """A plan or a call that waits for the owner's decision, or has got one (`state`)."""

    type: Literal["approval_request"] = "approval_request"
    kind: Literal["plan", "call", "result"] = "plan"
    """`result`: the work is done, and this is the plan that undoes it."""
    request_id: str
    title: str
    body: str
    """What the planner says about it."""
    risk_level: RiskLevel
    rationale: str
    steps: tuple[Step, ...]
    details_expanded: bool
    consequences: dict[str, str]
    """What each button does, by its verdict, in the order of the buttons."""
    items: list[PlanShown]
    budget: dict[str, Any]
    verify: list[dict[str, Any]]
    taint: str
    trace_id: str
    state: str
    created_at: UtcDatetime
    expires_at: UtcDatetime
    refusal: str = ""
    """Why it can only be declined, if so."""
    replaces: str | None = None
    """The work item that this plan is another version of, or that it undoes."""


class ApprovalResponse(Data):
    """The owner's decision about a plan, signed over what the card shows."""

    type: Literal["approval_response"] = "approval_response"
    request_id: Name
    verdict: Literal["approved", "declined", "edit_requested"]
    signature: Base64Bytes
    passkey: Assertion | None = None
    """For what cannot be undone: its challenge is the plan's hash."""
    chosen: list[Name] | None = Field(default=None, min_length=1, max_length=1000)
    """On a card with several calls: those that are meant. None: all of them."""


class CardClosed(Data):
    """A card was decided, here or elsewhere."""

    type: Literal["card_closed"] = "card_closed"
    request_id: str
    state: str


class Attention(Data):
    """Cues about deciding: many decisions wait, or they are made faster than they can be read.

    They are shown and nothing else: no decision is delayed or made harder.
    """

    type: Literal["attention"] = "attention"
    crowded: bool = False
    hasty: bool = False


class CheckShown(Data):
    """One check and what came of it; `passed` is None until it has run."""

    name: str
    passed: bool | None
    reason: str = ""


class Work(Data):
    """How far a work item is."""

    type: Literal["work"] = "work"
    trace_id: str
    work_item_id: str
    title: str
    status: str
    attempts: int
    checks: list[CheckShown]
    budget: dict[str, Any]
    budget_used: dict[str, Any]
