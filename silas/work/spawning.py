"""The fix task that a goal spawns when its checks fail.

The task is made by the runtime from the goal alone: briefing from `failure_context`, and the same
skills, gates, checks, escalations and envelopes. So it follows the spawn policy that a standing
approval is bound to, and can do no more than the goal's owner saw.
"""

from silas.work.checks import VerificationResult
from silas.work.models import WorkItem, WorkItemType

_PLACEHOLDER = "$failed_checks"


def spawn_task(goal: WorkItem, failed: list[VerificationResult], *, task_id: str) -> WorkItem:
    """A task that repairs what the failed checks found; its id must be fresh."""
    template = goal.failure_context or _PLACEHOLDER
    return WorkItem(
        id=task_id,
        type=WorkItemType.TASK,
        title=f"Fix: {goal.title}"[:200],
        parent=goal.id,
        spawned_by=goal.id,
        domain=goal.domain,
        budget=goal.budget,
        body=template.replace(_PLACEHOLDER, describe_failures(failed)),
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
    )


def describe_failures(failed: list[VerificationResult]) -> str:
    """The failed checks as text for a briefing: name, reason, and the output indented.

    The output comes from the checked system and may hold anything, also instructions. It is set
    apart here and stays external text for whoever reads it.
    """
    return "\n".join(
        "\n".join(
            [f"- {result.name}: {result.reason}"]
            + [f"      {line}" for line in result.output.splitlines()]
        )
        for result in failed
    )
