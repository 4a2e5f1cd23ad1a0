"""Actions: fixed before they are carried out, recognised again, and written down with what came.

1. An action's stable id follows from what it is: the tool, the arguments, the scope, the targets.
   Its place in the answer of a model plays no part.
2. Its operation id follows from the run and the stable id. A retry has the same, so it does nothing
   twice; the same action named twice in one answer is one action.
3. The plan of a run is written once. Whoever runs it again reads it instead of asking again.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic_core import to_jsonable_python

from silas.companions.errors import InvalidArguments
from silas.companions.ids import action_stable_id, digest, operation_id, run_message_id
from silas.companions.models import (
    ActionPlan,
    AgentActionType,
    AgentLinkRelation,
    AgentMessageKind,
    AgentMessageMetadata,
    LinkDraft,
    MessageDraft,
    PlannedAction,
    WakeJob,
)
from silas.companions.proposals import CompanionProposal, ProposedAction
from silas.companions.tools.models import AgentToolCall, AgentToolResult
from silas.kernel import CanonicalError
from silas.kernel.models import Data

_TARGETS = ("_id", "_ids")


class Provenance(Data):
    """Which prompt and which model an entry of the log comes from."""

    prompt_id: str | None = None
    prompt_version: str | None = None
    model_id: str | None = None


def plan_key(run_key: str, number: int) -> str:
    """The key of the plan of one round of a run."""
    return run_key if number == 0 else f"{run_key}.{number}"


def make_plan(
    job: WakeJob,
    proposal: CompanionProposal,
    *,
    number: int,
    scope: Sequence[str],
    at: datetime,
) -> ActionPlan:
    """The plan of a proposal; each action once, in its order (rules 1 and 2)."""
    planned: dict[str, PlannedAction] = {}
    for action in proposal.actions:
        each = planned_action(job.run_key, action, scope=scope)
        planned.setdefault(each.operation_id, each)
    return ActionPlan(
        run_key=plan_key(job.run_key, number),
        agent_id=job.agent_id,
        actions=tuple(planned.values()),
        proposal=proposal.model_dump(mode="json"),
        created_at=at,
    )


def planned_action(run_key: str, action: ProposedAction, *, scope: Sequence[str]) -> PlannedAction:
    """The action with its ids; raises `InvalidArguments` if they have no canonical form."""
    arguments = _arguments(action)
    try:
        hashed = digest("arguments", arguments)
    except CanonicalError as error:
        raise InvalidArguments(f"These arguments cannot be written down: {error}.") from error
    targets = target_refs(arguments)
    name = action.tool_name or action.action_type.value
    stable = action_stable_id(name, hashed, scope=scope, target_refs=targets)
    return PlannedAction(
        action_stable_id=stable,
        operation_id=operation_id(run_key, stable),
        action_type=action.action_type,
        tool_name=action.tool_name,
        arguments=arguments,
        arguments_hash=hashed,
        scope_snapshot=tuple(sorted(scope)),
        target_refs=targets,
    )


def is_genuine(call: AgentToolCall) -> bool:
    """Whether the operation id of a call is that of this very action in this very run."""
    scope = sorted(call.scope.allowed_category_ids)
    action = ProposedAction(
        action_type=AgentActionType.TOOL_CALL, tool_name=call.tool_name, arguments=call.arguments
    )
    return planned_action(call.run_key, action, scope=scope).operation_id == call.operation_id


def target_refs(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """The ids that the arguments name, wherever they stand."""
    found: list[str] = []
    for key, value in sorted(arguments.items()):
        if key.endswith(_TARGETS) or key == "id":
            found += [str(each) for each in (value if isinstance(value, list) else [value]) if each]
        elif isinstance(value, list):
            for each in value:
                found += target_refs(each) if isinstance(each, dict) else ()
    return tuple(sorted(set(found)))


def action_draft(
    planned: PlannedAction, *, job: WakeJob, reason: str, provenance: Provenance
) -> MessageDraft:
    """The action as an entry of the log."""
    return MessageDraft(
        agent_id=job.agent_id,
        thread_id=job.thread_id,
        kind=AgentMessageKind.ACTION,
        message_id=action_message_id(job.run_key, planned.operation_id),
        trigger_source_id=job.reason_id,
        content={"arguments": planned.arguments, "reason": reason},
        metadata=AgentMessageMetadata(
            action_type=planned.action_type.value,
            tool_name=planned.tool_name,
            operation_id=planned.operation_id,
            arguments_hash=planned.arguments_hash,
            scope_snapshot=planned.scope_snapshot,
            **provenance.model_dump(),
        ),
    )


def result_draft(
    result: AgentToolResult,
    *,
    agent_id: str,
    thread_id: str,
    run_key: str,
    step: str = "first",
    provenance: Provenance | None = None,
) -> MessageDraft:
    """What came of an action, as an entry of the log; `step` tells a later one from the first."""
    return MessageDraft(
        agent_id=agent_id,
        thread_id=thread_id,
        kind=AgentMessageKind.TOOL_RESULT,
        message_id=run_message_id(run_key, f"result:{result.operation_id}:{step}"),
        content={"payload": result.payload},
        metadata=AgentMessageMetadata(
            action_type=AgentActionType.TOOL_CALL.value,
            tool_name=result.tool_name,
            action_ref_id=action_message_id(run_key, result.operation_id),
            operation_id=result.operation_id,
            changed_entity_ids=result.changed_entity_ids,
            changed_tokens=result.changed_tokens,
            status=result.status,
            error_code=result.error_code,
            error_message=result.error_message,
            **(provenance or Provenance()).model_dump(),
        ),
        links=tuple(
            LinkDraft(relation=AgentLinkRelation.TOOL_EFFECT, to_id=each)
            for each in result.changed_entity_ids
        ),
    )


def action_message_id(run_key: str, operation: str) -> str:
    """The id of the entry that holds an action."""
    return run_message_id(run_key, f"action:{operation}")


def _arguments(action: ProposedAction) -> dict[str, Any]:
    """The arguments in JSON's types; for what is no tool, what it asks or wants."""
    if action.action_type is AgentActionType.TOOL_CALL:
        given: Any = action.arguments
    elif action.question is not None:
        given = action.question.model_dump()
    else:
        given = {"sleep_until": action.sleep_until}
    plain: dict[str, Any] = to_jsonable_python(given)
    return plain
