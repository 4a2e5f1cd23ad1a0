"""The fix task that a goal spawns when its checks fail.

The task is made by the runtime from the goal alone: briefing from `failure_context`, and the same
skills, gates, checks, escalations and envelopes. So it follows the spawn policy that a standing
approval is bound to, and can do no more than the goal's owner saw.
"""

import re

from silas.work.models import VerificationResult, WorkItem, WorkItemType
from silas.work.script import would_execute

PLACEHOLDER = "$failed_checks"
_INDENT = "      "
_DESCRIBED = re.compile(rf"- .*|{_INDENT}.*")


def spawn_task(goal: WorkItem, failed: list[VerificationResult], *, task_id: str) -> WorkItem:
    """A task that repairs what the failed checks found; its id must be fresh."""
    template = goal.failure_context or PLACEHOLDER
    return WorkItem(
        id=task_id,
        type=WorkItemType.TASK,
        title=f"Fix: {goal.title}"[:200],
        parent=goal.id,
        spawned_by=goal.id,
        domain=goal.domain,
        budget=goal.budget,
        body=template.replace(PLACEHOLDER, describe_failures(failed)),
        interaction_mode=goal.interaction_mode,
        verify=goal.verify,
        gates=goal.gates,
        skills=goal.skills,
        escalation=goal.escalation,
        approvals=goal.approvals,
        workspace=goal.workspace,
        skill_hashes=goal.skill_hashes,
        on_failure=goal.on_failure,
        on_stuck=goal.on_stuck,
        failure_context=goal.failure_context,
        without_proof=goal.without_proof,
        accepts_unchecked=goal.accepts_unchecked,
    )


def is_spawned_from(goal: WorkItem, task: WorkItem) -> bool:
    """Whether the runtime could have made this task from this goal.

    Only the description of the failures is free, and that cannot hold a block to be executed.
    """
    made = spawn_task(goal, [], task_id=task.id).model_copy(update={"body": task.body})
    if made.plan_bytes() != task.plan_bytes():
        return False
    template = goal.failure_context or PLACEHOLDER
    if would_execute(template, PLACEHOLDER):
        return False
    parts = template.split(PLACEHOLDER)
    places = len(parts) - 1
    length = (len(task.body) - sum(map(len, parts))) // max(1, places)
    described = task.body[len(parts[0]) :][: max(0, length)] if places else ""
    return described.join(parts) == task.body and all(
        _DESCRIBED.fullmatch(line) for line in described.splitlines()
    )


def describe_failures(failed: list[VerificationResult]) -> str:
    """The failed checks as text for a briefing: name, reason, and the output indented.

    The output comes from the checked system and may hold anything, also instructions. It is set
    apart here and stays external text for whoever reads it.
    """
    return "\n".join(
        "\n".join(
            [f"- {_one_line(result.name)}: {_one_line(result.reason)}"]
            + [f"{_INDENT}{line}" for line in result.output.splitlines()]
        )
        for result in failed
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())
