"""The protocol: every message of the specification's tables is there, and has a schema."""

import json

from silas.web.wire import FROM_PAGE, TO_PAGE, wire_schema

FROM_PAGE_TYPES = {
    "auth",
    "message",
    "approval_response",
    "gate_response",
    "checkpoint",
    "batch_review_response",
    "draft_review_response",
    "decision_response",
    "suggestion_response",
    "autonomy_threshold_response",
    "secure_input_completed",
    "connection_setup_response",
    "permission_escalation_response",
    "connection_failure_response",
}
TO_PAGE_TYPES = {
    "message",
    "approval_request",
    "gate_approval",
    "checkpoint",
    "batch_review",
    "draft_review",
    "decision",
    "suggestion",
    "autonomy_threshold_review",
    "secure_input_request",
    "connection_setup_step",
    "permission_escalation",
    "connection_failure",
}


def test_every_message_of_the_tables_has_a_type() -> None:
    schema = wire_schema()
    assert schema["from_page"]["discriminator"]["mapping"].keys() >= FROM_PAGE_TYPES
    assert schema["to_page"]["discriminator"]["mapping"].keys() >= TO_PAGE_TYPES
    json.dumps(schema)


def test_a_secret_has_no_place_in_a_frame() -> None:
    completed = {"type": "secure_input_completed", "ref_id": "x", "success": True}
    FROM_PAGE.validate_python(completed)
    fields = TO_PAGE.json_schema()["$defs"]["SecureInputRequest"]["properties"].keys()
    assert fields == {"type", "ref_id", "label", "expires_at", "input_hint", "guidance"}
