"""Which status may follow which: one table per kind of work, and nothing beside it.

Tasks and projects end with `done`; only running work can become it. Goals never end: they are
`healthy` or they are not. `failed`, `stuck` and `blocked` can be taken up again by a new decision,
`done` cannot: more work is a follow-up.
"""

from collections.abc import Mapping

from silas.work.errors import IllegalTransition
from silas.work.models import WorkItemStatus, WorkItemType

_PENDING = WorkItemStatus.PENDING
_RUNNING = WorkItemStatus.RUNNING
_HEALTHY = WorkItemStatus.HEALTHY
_DONE = WorkItemStatus.DONE
_FAILED = WorkItemStatus.FAILED
_STUCK = WorkItemStatus.STUCK
_BLOCKED = WorkItemStatus.BLOCKED
_PAUSED = WorkItemStatus.PAUSED

Table = Mapping[WorkItemStatus, frozenset[WorkItemStatus]]

_BOUNDED: Table = {
    # Stuck at once: the last attempt that the budget allowed was interrupted by a crash.
    _PENDING: frozenset({_RUNNING, _BLOCKED, _PAUSED, _FAILED, _STUCK}),
    # Running again is the next attempt; pending again is what a crash in the middle leads to.
    _RUNNING: frozenset({_RUNNING, _DONE, _FAILED, _STUCK, _BLOCKED, _PAUSED, _PENDING}),
    _BLOCKED: frozenset({_PENDING, _RUNNING, _PAUSED, _FAILED}),
    _PAUSED: frozenset({_PENDING, _RUNNING, _BLOCKED, _FAILED}),
    _STUCK: frozenset({_PENDING, _RUNNING, _BLOCKED, _PAUSED, _FAILED}),
    _FAILED: frozenset({_PENDING}),
    _DONE: frozenset(),
    _HEALTHY: frozenset(),
}
_ENDLESS: Table = {
    _PENDING: frozenset({_RUNNING, _BLOCKED, _PAUSED, _FAILED}),
    _RUNNING: frozenset({_RUNNING, _HEALTHY, _FAILED, _STUCK, _BLOCKED, _PAUSED, _PENDING}),
    _HEALTHY: frozenset({_RUNNING, _BLOCKED, _PAUSED, _FAILED}),
    _BLOCKED: frozenset({_PENDING, _RUNNING, _PAUSED, _FAILED}),
    _PAUSED: frozenset({_PENDING, _RUNNING, _BLOCKED, _FAILED}),
    _STUCK: frozenset({_PENDING, _RUNNING, _BLOCKED, _PAUSED, _FAILED}),
    # A failed cycle is followed by the next one.
    _FAILED: frozenset({_PENDING, _RUNNING, _BLOCKED, _PAUSED}),
    _DONE: frozenset(),
}
TRANSITIONS: Mapping[WorkItemType, Table] = {
    WorkItemType.TASK: _BOUNDED,
    WorkItemType.PROJECT: _BOUNDED,
    WorkItemType.GOAL: _ENDLESS,
}


def may_follow(kind: WorkItemType, now: WorkItemStatus, then: WorkItemStatus) -> bool:
    """Whether a work item of this kind may change from the one status to the other."""
    return then in TRANSITIONS[kind][now]


def require_transition(
    work_item_id: str, kind: WorkItemType, *, now: WorkItemStatus, then: WorkItemStatus
) -> None:
    """Raise `IllegalTransition`, which says what would be possible, unless the table allows it."""
    if may_follow(kind, now, then):
        return
    possible = ", ".join(sorted(TRANSITIONS[kind][now])) or "nothing: it has ended"
    raise IllegalTransition(
        f"The {kind.value} {work_item_id} is {now.value} and cannot become {then.value}. "
        f"Possible from here: {possible}.",
        work_item=work_item_id,
        now=now.value,
        then=then.value,
    )
