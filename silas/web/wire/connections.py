"""What connections to other services ask of the owner, each followed by its answer."""

from typing import Any, Literal

from pydantic import Field

from silas.kernel.models import Data
from silas.web.wire.fields import Name
from silas.web.wire.questions import Answer, Asked


class SecureInputRequest(Data):
    """A secret is needed; it goes to `/secrets/{ref_id}`, never through here."""

    type: Literal["secure_input_request"] = "secure_input_request"
    ref_id: str
    label: str
    input_hint: str = ""
    guidance: dict[str, Any] = Field(default_factory=dict)


class SecureInputCompleted(Data):
    """A secret was stored through `/secrets/{ref_id}`. Its value never comes here."""

    type: Literal["secure_input_completed"] = "secure_input_completed"
    ref_id: Name
    success: bool


class ConnectionSetupStep(Asked):
    """A step of setting up a connection."""

    type: Literal["connection_setup_step"] = "connection_setup_step"
    step_type: str
    fields: dict[str, Any]


class ConnectionSetupResponse(Answer):
    """The answer to a step of setting up a connection."""

    type: Literal["connection_setup_response"] = "connection_setup_response"
    step_type: Name
    action: Literal["done", "cancel", "trouble", "retry"]


class PermissionEscalation(Asked):
    """A connection wants to do more."""

    type: Literal["permission_escalation"] = "permission_escalation"
    connection_name: str
    current_permissions: list[str]
    requested_permissions: list[str]
    reason: str


class PermissionEscalationResponse(Answer):
    """The answer to a connection that wants to do more."""

    type: Literal["permission_escalation_response"] = "permission_escalation_response"
    verdict: Literal["approve", "just_this_once", "deny"]


class ConnectionFailure(Asked):
    """A connection has failed."""

    type: Literal["connection_failure"] = "connection_failure"
    failure_type: str
    service: str
    message: str
    recovery_options: list[dict[str, Any]]


class ConnectionFailureResponse(Answer):
    """What to do about a connection that failed."""

    type: Literal["connection_failure_response"] = "connection_failure_response"
    selected_action: Name
