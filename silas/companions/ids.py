"""Ids that follow from what they name, so that doing a thing again finds what is there.

Each is the SHA-256 of the canonical JSON of its parts, the first of which says what it names.
"""

import hashlib
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

from silas.kernel import canonical_bytes


def digest(*parts: Any) -> str:
    """The hex SHA-256 of these parts."""
    return hashlib.sha256(canonical_bytes(list(parts))).hexdigest()


def subscription_run_key(agent_id: str, subscription_id: str, logical_change_key: str) -> str:
    """The run that a change wants through a subscription; the same on every device."""
    return digest("subscription", agent_id, subscription_id, logical_change_key)


def timer_run_key(agent_id: str, timer_id: str, scheduled_at: datetime) -> str:
    """The run of a timer at a due time, whether it is on time or made up for later."""
    return digest("timer", agent_id, timer_id, scheduled_at)


def user_run_key(agent_id: str, session_id: str, turn_id: str) -> str:
    """The run that answers one thing that the owner has said."""
    return digest("user_initiated", agent_id, session_id, turn_id)


def manual_run_key(agent_id: str, request_id: str) -> str:
    """The run that the owner has asked for without saying anything."""
    return digest("manual", agent_id, request_id)


def catch_up_run_key(agent_id: str, missed_run_key: str) -> str:
    """The run that makes up for all that was missed, up to this wake."""
    return digest("missed", agent_id, missed_run_key)


def run_thread(agent_id: str, run_key: str) -> str:
    """The thread of a run that nobody speaks in."""
    return f"{agent_id}:run:{run_key}"


def session_thread(agent_id: str, session_id: str) -> str:
    """The thread of a conversation."""
    return f"{agent_id}:session:{session_id}"


def action_stable_id(
    tool_name: str, arguments_hash: str, *, scope: Sequence[str], target_refs: Sequence[str] = ()
) -> str:
    """What an action is, whatever its place in the plan."""
    return digest("action", tool_name, arguments_hash, sorted(scope), list(target_refs))


def operation_id(run_key: str, action_stable_id: str) -> str:
    """The idempotency key of an action of a run."""
    return digest("operation", run_key, action_stable_id)


def run_message_id(run_key: str, place: int | str) -> str:
    """A message of a run; a retry gives it the same id."""
    return digest("message", run_key, place)


def payload_id(message_id: str) -> str:
    """The content of a message. It begins like its message: what is read together lies together."""
    return f"{message_id}.payload"


def link_id(relation: str, from_id: str, to_id: str) -> str:
    """An edge; drawing it again is the same edge."""
    return digest("link", relation, from_id, to_id)


def head_link_id(agent_id: str, thread_id: str) -> str:
    """The edge to the newest message of a thread, which moves."""
    return digest("head", agent_id, thread_id)


def summary_id(
    agent_id: str,
    thread_id: str,
    *,
    start_message_id: str,
    end_message_id: str,
    depth: int,
    contract_version: str,
) -> str:
    """The summary of a span under one contract of the summariser."""
    span = (start_message_id, end_message_id, depth)
    return digest("summary", agent_id, thread_id, span, contract_version)


def compaction_job_id(agent_id: str, thread_id: str, *, start: str, end: str, depth: int) -> str:
    """The wish to compact a span."""
    return digest("compaction", agent_id, thread_id, start, end, depth)


def state_id(agent_id: str) -> str:
    """The one state of a companion."""
    return digest("state", agent_id)


def report_head_id(agent_id: str, scope: str) -> str:
    """The pointer to the newest report of a scope."""
    return digest("report_head", agent_id, scope)


def source_ref_id(report_id: str, claim_id: str, source_type: str, source_locator: str) -> str:
    """One source of one claim."""
    return digest("source_ref", report_id, claim_id, source_type, source_locator)


def persona_head_id(agent_id: str) -> str:
    """The pointer to the persona in use."""
    return digest("persona_head", agent_id)


def prompt_response_id(
    prompt_item_id: str, *, response: dict[str, Any], response_entry_ref: str | None = None
) -> str:
    """An answer: the entry that holds it, or what it says."""
    return digest("prompt_response", prompt_item_id, response_entry_ref or digest(response))


def budget_window_id(agent_id: str, local_date: date) -> str:
    """The budget of a companion on a local day."""
    return digest("budget_window", agent_id, local_date.isoformat())


def model_grant_id(agent_id: str, provider: str, model: str, policy_version: str) -> str:
    """The owner's yes to a model for a companion, under one version of its terms; readable."""
    return f"{agent_id}:{provider}:{model}:{policy_version}"


def privacy_policy_id(provider: str, model: str, address: str) -> str:
    """What a provider says about a model at an address."""
    return digest("privacy_policy", provider, model, address)


def projection_policy_id(boundary_type: str, operation_key: str) -> str:
    """What may cross a border for an operation."""
    return digest("projection_policy", boundary_type, operation_key)


def stop_switch_id(scope: str, target: str | None = None) -> str:
    """A stop switch, readable."""
    return f"{scope}:{target}" if target else scope


def model_rule_id(scope: str, target: str) -> str:
    """The id of the owner's rule about the models of a category or a kind."""
    return f"{scope}:{target}"
