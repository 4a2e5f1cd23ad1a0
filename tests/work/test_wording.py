"""What plans declare and what work came to, in words: true on every path, or not said."""

from datetime import UTC, datetime
from typing import Any

import pytest

from silas.work.before_images import BeforeImage, BeforeImages
from silas.work.effects import DeclaredChanges, FileChange, Workspace
from silas.work.models import (
    VerificationCheck,
    VerificationResult,
    WorkItem,
    WorkItemResult,
    WorkItemStatus,
    WorkItemType,
)
from silas.work.wording import (
    NO_CHANGES,
    NO_PROOF,
    attempts_of,
    beyond_line,
    check_line,
    ending_of,
    file_lines,
    has_proof,
    is_proven,
    kept_lines,
    outcome_of,
    path_notes,
    plan_lines,
    status_of,
    taken_and_left,
)

CHECK: dict[str, Any] = {"name": "it is there", "run": "cat a.txt", "expect": {"contains": "x"}}


def check(**more: Any) -> VerificationCheck:
    return VerificationCheck.model_validate({**CHECK, **more})


def item(*checks: VerificationCheck, changes: Any = None, **more: Any) -> WorkItem:
    workspace = Workspace(path="/w", changes=DeclaredChanges(**changes)) if changes else None
    fields: dict[str, Any] = {"id": "t", "type": WorkItemType.TASK, "title": "T", "body": "Do it."}
    return WorkItem(**{**fields, "verify": list(checks), "workspace": workspace, **more})


def result(*, passed: bool = True, before: bool | None = False, **more: Any) -> VerificationResult:
    return VerificationResult(
        name="it is there", passed=passed, reason="Because.", passed_before=before, **more
    )


def changed(path: str, before: str | None, after: str | None) -> FileChange:
    return FileChange(path=path, before=before, after=after)


def test_every_declared_path_is_said_with_what_happens_to_it() -> None:
    changes = {
        "add": ["notes/a.txt", "tool"],
        "change": ["Makefile"],
        "remove": ["old.txt", "conftest.py"],
        "executable": ["tool"],
    }
    assert plan_lines(item(check(), changes=changes)) == [
        "Adds notes/a.txt",
        "Adds tool (becomes a program)",
        "Changes Makefile (a build executes it)",
        "Removes old.txt",
        "Removes conftest.py (a test run executes it)",
    ]


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("build/**", "every file below build/"),
        ("build/out/*", "every file in build/out/"),
        ("build/**/*", "every file below build/"),
        ("src/**/*.py", "every matching file"),
        ("docs/*.md", "every matching file"),
    ],
)
def test_a_pattern_is_said_in_words(pattern: str, words: str) -> None:
    declared = DeclaredChanges(change=[pattern])
    assert path_notes(declared) == {pattern: f"{words} that no other program executes"}


@pytest.mark.parametrize("workspace", [None, Workspace(path="/w")])
def test_a_plan_that_declares_nothing_changes_nothing(workspace: Workspace | None) -> None:
    assert plan_lines(item(check(), workspace=workspace)) == [NO_CHANGES]


def test_a_check_that_the_worker_can_influence_is_named() -> None:
    influenced = check(name="tests", influenced_by=["test_a.py", "conftest.py"])
    assert plan_lines(item(check(), influenced)) == [
        NO_CHANGES,
        "Check “tests”: The worker can influence this check: it writes test_a.py, conftest.py.",
    ]
    assert plan_lines(item(influenced))[-1] == NO_PROOF


def test_work_that_nothing_will_show_says_so() -> None:
    assert NO_PROOF in plan_lines(item())
    assert NO_PROOF in plan_lines(item(check(), without_proof=True))
    assert NO_PROOF not in plan_lines(item(check()))


def test_a_goal_is_what_its_checks_look_at_and_a_project_is_its_tasks() -> None:
    goal = item(check(), type=WorkItemType.GOAL, schedule="0 8 * * *")
    project = item(type=WorkItemType.PROJECT, tasks=["a"])
    assert has_proof(goal)
    assert has_proof(project)
    assert plan_lines(project) == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (result(passed=False), "failed"),
        (result(), "failed before, passes now"),
        (result(before=True), "still passes"),
        (result(before=None), "passes"),
        (result(influenced_by=["a.py"]), "passes; the worker could influence it"),
    ],
)
def test_what_a_check_says_about_the_work(given: VerificationResult, words: str) -> None:
    assert outcome_of(given) == words
    reason = " (Because.)" if not given.passed else ""
    assert check_line(given) == f"check {words}: it is there{reason}"


@pytest.mark.parametrize(
    ("results", "ending"),
    [
        ([result()], "Done, and checked."),
        ([result(before=True), result()], "Done, and checked."),
        ([result(before=True)], "Done, not checked: the checks passed before the work too."),
        (
            [result(influenced_by=["a.py"])],
            "Done, not checked: the worker could influence the checks.",
        ),
        (
            [result(influenced_by=["a.py"]), result(before=True)],
            (
                "Done, not checked: the worker could influence the checks, "
                "or the checks passed before the work too."
            ),
        ),
        (
            [result(before=None)],
            "Done, not checked: nobody looked whether the checks passed before the work.",
        ),
        ([], "Done, not checked: the plan has no checks."),
    ],
)
@pytest.mark.parametrize("status", [WorkItemStatus.DONE, WorkItemStatus.UNCHECKED])
def test_done_and_checked_is_said_only_with_a_proof(
    results: list[VerificationResult], ending: str, status: WorkItemStatus
) -> None:
    checks = [check(name=f"check {number}") for number in range(len(results))]
    ended = item(*checks, verification_results=results, status=status)
    if status is WorkItemStatus.UNCHECKED and "and checked" in ending:
        ending = "Done, not checked: no check has shown it."
        assert not is_proven(ended)
        if len(results) > 1:
            ending = "Done, not checked: the checks passed before the work too."
    assert ending_of(ended) == ending


def test_what_an_earlier_attempt_showed_counts_no_more() -> None:
    ended = item(
        check(), verification_results=[result(), result(before=True)], status=WorkItemStatus.DONE
    )
    assert not is_proven(ended)


@pytest.mark.parametrize("status", sorted(set(WorkItemStatus) - {"done", "unchecked"}))
def test_nothing_else_is_called_done(status: WorkItemStatus) -> None:
    assert ending_of(item(check(), verification_results=[result()], status=status)) == ""


def test_files_are_listed_taken_and_left() -> None:
    taken = [changed("a", None, "1"), changed("b", "1", "2"), changed("c", "1", None)]
    assert file_lines(taken, [changed("d", None, "1")]) == [
        "added a",
        "changed b",
        "removed c",
        "not taken over: added d",
    ]
    many = [changed(str(number), None, "1") for number in range(60)]
    assert file_lines(many, [])[-1] == "and 10 more files: 10 added"
    gone = [changed(f"gone-{number}", "1", None) for number in range(50)]
    assert file_lines([*many[:5], *gone], [])[-1] == "and 5 more files: 5 removed"


def test_an_artifact_is_not_called_the_owners_file() -> None:
    ended = WorkItemResult(
        work_item_id="t",
        status=WorkItemStatus.DONE,
        summary="",
        artifacts={"a": "1", "b": "2"},
        changes=[changed("a", None, "1")],
    )
    assert kept_lines(ended) == ["kept by Silas, not among your files: b"]


def test_a_file_beyond_the_plan_says_who_executes_it() -> None:
    args = {"kind": "added", "path": "Makefile", "executed_by": "a build", "executable": True}
    assert beyond_line(args) == "added Makefile (a build executes it; it is a program)"
    assert beyond_line({"kind": "removed", "path": "a.txt"}) == "removed a.txt"


class Images(BeforeImages):
    def __init__(self) -> None:
        """Nothing is read from a disk here."""

    async def of(self, work_item_id: str) -> list[BeforeImage]:
        now = datetime(2026, 1, 1, tzinfo=UTC)
        return [
            BeforeImage(path=name, before=None, after="1", taken=taken, created_at=now)
            for name, taken in (("a", True), ("b", False))
        ]


async def test_what_was_left_is_not_listed_as_taken_over() -> None:
    taken, left = await taken_and_left(Images(), "t")
    assert file_lines(taken, left) == ["added a", "not taken over: added b"]


@pytest.mark.parametrize(
    ("status", "attempts", "ending", "words"),
    [
        ("failed", 0, "declined", "declined"),
        ("failed", 0, "edit_requested", "sent back for changes"),
        ("failed", 0, "expired", "not decided in time"),
        ("failed", 0, "replaced", "replaced by another plan"),
        ("failed", 2, "declined", "cancelled"),
        ("failed", 1, None, "cancelled"),
        ("replaced", 0, None, "replaced by another plan"),
        ("unchecked", 1, None, "done, not checked"),
    ],
)
def test_what_never_ran_did_not_fail(
    status: str, attempts: int, ending: str | None, words: str
) -> None:
    made = WorkItem.model_validate(
        {"id": "a", "type": "task", "title": "T", "status": status, "attempts": attempts}
    )
    assert status_of(made, ending) == words


@pytest.mark.parametrize(
    ("kind", "status", "attempts", "words"),
    [
        ("task", "running", 2, "attempt 2 of 2"),
        ("task", "running", 5, "5 attempts"),
        ("task", "stuck", 1, "1 attempt"),
        ("task", "pending", 0, "not begun"),
        ("goal", "running", 5, "looked at 5 times"),
    ],
)
def test_nothing_is_the_fifth_attempt_of_two(
    kind: str, status: str, attempts: int, words: str
) -> None:
    made = {"id": "a", "type": kind, "title": "T", "status": status, "attempts": attempts}
    item = WorkItem.model_validate({**made, "budget": {"max_attempts": 2}})
    assert attempts_of(item) == words
