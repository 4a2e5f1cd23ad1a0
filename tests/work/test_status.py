"""Which status may follow which: the whole table, both ways."""

import itertools

import pytest

from silas.work import (
    TRANSITIONS,
    IllegalTransition,
    WorkItemStatus,
    WorkItemType,
    may_follow,
    require_transition,
)

S = WorkItemStatus
ALL = list(itertools.product(WorkItemType, WorkItemStatus, WorkItemStatus))


def test_every_type_and_status_has_its_line() -> None:
    assert set(TRANSITIONS) == set(WorkItemType)
    for table in TRANSITIONS.values():
        assert set(table) == set(WorkItemStatus)


@pytest.mark.parametrize(("kind", "now", "then"), ALL)
def test_the_table_is_the_only_word(
    kind: WorkItemType, now: WorkItemStatus, then: WorkItemStatus
) -> None:
    if may_follow(kind, now, then):
        require_transition("a", kind, now=now, then=then)
    else:
        with pytest.raises(IllegalTransition, match=f"is {now.value} and cannot become"):
            require_transition("a", kind, now=now, then=then)


def test_only_running_work_becomes_done_and_what_is_done_stays_done() -> None:
    before_done = {
        (kind, now) for kind, now, then in ALL if then is S.DONE and may_follow(kind, now, then)
    }
    assert before_done == {(WorkItemType.TASK, S.RUNNING), (WorkItemType.PROJECT, S.RUNNING)}
    assert not any(may_follow(kind, S.DONE, then) for kind, _, then in ALL)


def test_only_goals_are_healthy_and_goals_are_never_done() -> None:
    assert all(
        kind is WorkItemType.GOAL
        for kind, now, then in ALL
        if then is S.HEALTHY and may_follow(kind, now, then)
    )
    assert not any(may_follow(WorkItemType.GOAL, now, S.DONE) for now in S)


def test_the_owner_can_always_stop_what_has_not_ended() -> None:
    for kind, now in itertools.product(WorkItemType, WorkItemStatus):
        ended = now in (S.DONE, S.UNCHECKED, S.FAILED, S.REPLACED) or (
            now is S.HEALTHY and kind is not WorkItemType.GOAL
        )
        assert may_follow(kind, now, S.FAILED) is not ended


def test_the_error_says_what_is_possible() -> None:
    with pytest.raises(IllegalTransition) as caught:
        require_transition("fix-1", WorkItemType.TASK, now=S.DONE, then=S.RUNNING)
    assert caught.value.message == (
        "The task fix-1 is done and cannot become running. "
        "Possible from here: nothing: it has ended."
    )
    assert caught.value.explain()["details"] == {
        "work_item": "fix-1",
        "now": "done",
        "then": "running",
    }
