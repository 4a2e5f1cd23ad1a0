"""Work that cannot go on by itself: the owner chooses what becomes of it."""

from datetime import timedelta

from silas.gates.risk import RiskLevel
from silas.kernel import TaintLevel
from silas.stream.review.models import QUESTION, Action, Content, Kind, Question
from silas.stream.store import Origin
from silas.stream.turn_context import TurnContext
from silas.work.models import WorkItem, WorkItemResult, WorkItemStatus, WorkItemType

AGAIN, ANOTHER_WAY, LEAVE = "again", "another_way", "leave"
LIFETIME = timedelta(days=7)
_STOPPED = (WorkItemStatus.STUCK, WorkItemStatus.BLOCKED)
_LONGEST = 500


def question_about(
    room: TurnContext, origin: Origin, item: WorkItem, result: WorkItemResult, *, taint: TaintLevel
) -> Question | None:
    """What to ask; None for work that is done, cancelled or paused."""
    if result.status not in _STOPPED or item.type is not WorkItemType.TASK:
        return None
    failed = [check.name for check in result.verification_results if not check.passed]
    why = (result.last_error or ", ".join(failed) or result.summary)[:_LONGEST]
    now = room.clock.now()
    return Question(
        question_id=room.ids.new(QUESTION),
        scope_id=origin.scope_id,
        trace_id=origin.trace_id,
        about=f"stuck:{item.id}:{item.attempts}",
        content=Content(
            kind=Kind.DECISION,
            intent=f"What shall become of “{item.title}”?",
            rationale="It did not work, and everything that I may try by myself was tried.",
            risk=RiskLevel.LOW,
            taint=taint,
            actions=[
                Action(value=AGAIN, label="Ask me for it again"),
                Action(value=ANOTHER_WAY, label="Plan another way"),
                Action(value=LEAVE, label="Leave it"),
            ],
            body={
                "question": why,
                "work_item_id": item.id,
                "failed_checks": failed,
                "allow_freetext": True,
            },
        ),
        created_at=now,
        expires_at=now + LIFETIME,
    )
