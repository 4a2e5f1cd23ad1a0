"""From what a worker did to what is taken over: the end of an attempt (steps e and f).

1. What the worker changed is held against what the plan declares.
2. The tree that will be published is put together: the owner's files as they are now, with the
   declared changes and nothing else of the worker's. The checks run on exactly this tree, so
   whatever the plan does not declare has its old content in front of them.
3. What goes beyond the declaration waits on a second card, file by file, with its differences.
   Nobody is asked if the checks fail even with all of it, or if it is too much to be looked at;
   nor about files that the approval names with their hashes, which stay what they are.
4. What the owner then took is part of the tree, and the checks run again. A check that runs or
   obeys such a file shows nothing any more.
5. The checks have also run before the work, on the untouched copy. Only one that failed then,
   passes now and could not be influenced by the worker shows that the work is done.
"""

import asyncio
import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from silas.approval import ApprovalVerdict
from silas.kernel import ApprovalError, Provenance, TaintLevel
from silas.storage.trees import shown
from silas.tools.tree import FileRefused, Tree
from silas.work.admission import CHANGED, Blocked
from silas.work.attempt_store import AttemptOutcome
from silas.work.authorisation import TAKE_OVER, decide_call_now, require_decided
from silas.work.check_influences import influences
from silas.work.effects import DeclaredChanges, FileChange, executed_by, split_changes
from silas.work.errors import BindingBroken, PublicationConflict
from silas.work.execution_context import ExecutionContext
from silas.work.models import (
    BudgetUsed,
    VerificationCheck,
    VerificationReport,
    VerificationResult,
    WorkItemStatus,
)
from silas.work.paused import KeptRun, Scene
from silas.work.ports import PausedCall, PausedRun, ProgressListener, WaitingCall
from silas.work.verification import VerificationRunner
from silas.work.workspaces import AttemptWorkspace, CheckedTree, WorkspaceKind

CONFLICT = "execution_blocked_conflict"
_BEYOND = "The plan does not declare this change."
_NEEDED = "The plan does not declare this change, and the checks fail without some such changes."
_NOT_WITH_THESE = (
    "With what you took over and what you left, nothing can be delivered. Ask for another plan, or "
    "resume this one for a fresh attempt."
)
_MAX_FILES_ASKED = 50
_UNKNOWN = Provenance(TaintLevel.EXTERNAL)
_MAX_DIFF_CHARS = 64 * 1024


@dataclass(frozen=True)
class AttemptEnd:
    """How an attempt ended, before anything of it is taken over."""

    outcome: AttemptOutcome
    used: BudgetUsed
    summary: str = ""
    error: str | None = None
    cause: str = ""
    """The audit event that says why it is blocked, if it is."""
    results: list[VerificationResult] = field(default_factory=list)
    artifacts: dict[str, str] = field(default_factory=dict)
    next_steps: list[str] = field(default_factory=list)
    acted_outside: bool = False
    """Whether a call had effects beyond the attempt's own files."""
    guidance: str | None = None
    taken: list[FileChange] = field(default_factory=list)
    """What is taken over of the worker's changes."""
    left: list[FileChange] = field(default_factory=list)
    """What the worker changed besides, and is not taken over."""
    before: Sequence[VerificationResult] = ()
    """What the checks gave before the work."""
    delivery: CheckedTree | None = None
    """The tree that the checks saw."""
    read: Provenance = _UNKNOWN
    """What the worker had read when it wrote its changes."""

    @property
    def passed_on(self) -> dict[str, str]:
        """The artifacts for the report and for further work: without what is not taken over."""
        left = {change.path for change in self.left}
        return {name: digest for name, digest in self.artifacts.items() if name not in left}

    @property
    def ends_as(self) -> WorkItemStatus:
        """What work is that ended like this and was taken over."""
        return ended_as(self.results)


def ended_as(results: Sequence[VerificationResult]) -> WorkItemStatus:
    """Rule 5: done, if a check has shown it."""
    proven = any(result.proves for result in results) and all(each.passed for each in results)
    return WorkItemStatus.DONE if proven else WorkItemStatus.UNCHECKED


class AttemptPaused(Exception):
    """The run waits for the owner; carries everything to go on with it."""

    def __init__(self, run: PausedRun, scene: Scene, used: BudgetUsed) -> None:
        super().__init__(run.calls[0].call.reasons[0])
        self.run = run
        self.scene = scene
        self.used = used


async def check_before(
    progress: ProgressListener, verification: VerificationRunner, files: AttemptWorkspace
) -> list[VerificationResult]:
    """Run the checks on the untouched copy: what fails now is what the work has to change."""
    if not files.item.verify:
        return []
    progress(files.item.id, "checking before the work")
    checks = files.item.verify
    return (await verification.run_checks(checks, artifacts=files.directory)).results


async def deliver(
    ctx: ExecutionContext, files: AttemptWorkspace, outcome: AttemptEnd, scene: Scene
) -> AttemptEnd:
    """Rules 1 to 3; raises `Blocked` or `AttemptPaused`."""
    try:
        changes = await asyncio.to_thread(files.changes)
    except FileRefused as error:
        return replace(outcome, outcome=AttemptOutcome.FAILED, error=error.message)
    declared, beyond = _split(files, changes)
    outcome = replace(outcome, before=scene.before, taken=declared, left=beyond)
    judged = await judge(ctx, files, outcome)
    asked = [change for change in beyond if change.path not in files.workspace.pinned]
    passed = judged.outcome is AttemptOutcome.PASSED
    if beyond and not passed and not await _would_pass(ctx, files, _with(outcome, asked)):
        return replace(judged, error=f"{judged.error} {_left_out_sentence(beyond)}")
    if not asked:
        return judged
    try:
        calls = await asyncio.to_thread(_calls, files, asked, scene, needed=not passed)
    except FileRefused as error:
        # Without them it is good all the same: whoever floods the owner gets nothing taken over.
        return judged if passed else replace(judged, error=error.message)
    accepted = await _ask(ctx, calls, scene, outcome)
    if not accepted and not passed:
        return judged
    return await judge(ctx, files, _with(outcome, accepted)) if accepted else judged


async def _would_pass(ctx: ExecutionContext, files: AttemptWorkspace, outcome: AttemptEnd) -> bool:
    """Whether the checks would pass if the owner took all of it."""
    try:
        judged = await judge(ctx, files, outcome)
    except Blocked:
        return False  # It cannot be put together, and nobody wants to know why.
    return judged.outcome is AttemptOutcome.PASSED


async def deliver_decided(
    ctx: ExecutionContext, files: AttemptWorkspace, outcome: AttemptEnd, kept: KeptRun
) -> AttemptEnd:
    """Rule 4: the same, after the owner has decided about what goes beyond the declaration."""
    accepted = []
    for decided in kept.approved():
        try:
            await require_decided(ctx, decided)
        except ApprovalError as error:
            await ctx.audit.log(
                "take_over_refused", work_item_id=files.item.id, reason=error.message
            )
            continue
        accepted.append(_change_of(decided.call.args))
    try:
        changes = await asyncio.to_thread(files.changes)
    except FileRefused as error:
        return replace(outcome, outcome=AttemptOutcome.FAILED, error=error.message)
    declared, beyond = _split(files, changes)
    outcome = replace(outcome, before=kept.scene.before, taken=declared, left=beyond)
    pinned = files.workspace.pinned
    taken = [each for each in beyond if each in accepted and each.path not in pinned]
    judged = await judge(ctx, files, _with(outcome, taken))
    if judged.outcome is not AttemptOutcome.PASSED:
        # A further attempt would ask the owner the same again, and again.
        raise Blocked(CONFLICT, f"{judged.error} {_NOT_WITH_THESE}")
    return judged


def is_take_over(kept: KeptRun) -> bool:
    """Whether a run waits for nothing but what is taken over."""
    return all(each.call.tool == TAKE_OVER for each in kept.calls)


async def judge(ctx: ExecutionContext, files: AttemptWorkspace, outcome: AttemptEnd) -> AttemptEnd:
    """Rule 2: put the tree together that would be published, and run the checks on it."""
    try:
        await files.require_unchanged()
        delivery = await ctx.workspaces.deliver(files, outcome.taken)
    except BindingBroken as error:
        raise Blocked(CHANGED, error.message) from error
    except PublicationConflict as error:
        raise Blocked(CONFLICT, error.message) from error
    except FileRefused as error:
        return replace(outcome, outcome=AttemptOutcome.FAILED, error=error.message)
    outcome = replace(outcome, delivery=delivery)
    if not files.item.verify:
        return replace(outcome, outcome=AttemptOutcome.PASSED, error=None)
    report = await _check(ctx.progress, ctx.verification, files, delivery, outcome)
    if report.all_passed:
        passed = AttemptOutcome.PASSED
        return replace(outcome, outcome=passed, results=report.results, error=None)
    return replace(
        outcome,
        outcome=AttemptOutcome.FAILED,
        error="The checks did not pass.",
        results=report.results,
    )


async def _check(
    progress: ProgressListener,
    verification: VerificationRunner,
    files: AttemptWorkspace,
    delivery: CheckedTree,
    outcome: AttemptEnd,
) -> VerificationReport:
    item = files.item
    progress(item.id, "verifying")
    report = await verification.run_checks(item.verify, artifacts=delivery.directory)
    earlier = {result.name: result.passed for result in outcome.before}
    checks = await asyncio.to_thread(_influenced_too, files, delivery, outcome.taken)
    results = report.compared(earlier, checks)
    for result in results:
        what = "passed" if result.passed else "failed"
        progress(item.id, what, f"{result.name}: {result.reason}")
    return report.model_copy(update={"results": results})


def _influenced_too(
    files: AttemptWorkspace, delivery: CheckedTree, taken: Sequence[FileChange]
) -> list[VerificationCheck]:
    """Rule 4: the checks, with what influences them of the files that nobody declared."""
    more = [change.path for change in _split(files, taken)[1]]
    if not more:
        return files.item.verify
    written = DeclaredChanges.model_construct(change=more)
    with Tree.open(delivery.directory) as tree:
        found = {check.name: influences(check, tree, written) for check in files.item.verify}
    return [
        check.model_copy(
            update={"influenced_by": sorted({*check.influenced_by, *found[check.name]})}
        )
        for check in files.item.verify
    ]


def _split(
    files: AttemptWorkspace, changes: Sequence[FileChange]
) -> tuple[list[FileChange], list[FileChange]]:
    """Rule 1. A directory that is nobody's but the attempt's needs no declaration."""
    if files.kind is WorkspaceKind.EMPTY:
        return [*changes], []
    return split_changes(files.workspace.changes, changes)


def _with(outcome: AttemptEnd, more: Sequence[FileChange]) -> AttemptEnd:
    paths = {each.path for each in more}
    left = [each for each in outcome.left if each.path not in paths]
    return replace(outcome, taken=[*outcome.taken, *more], left=left)


async def _ask(
    ctx: ExecutionContext, calls: list[PausedCall], scene: Scene, outcome: AttemptEnd
) -> list[FileChange]:
    """What the owner takes, if somebody can be asked at once; raises `AttemptPaused` if later."""
    if ctx.approver is None:
        return []
    taken = []
    for call in calls:
        decided = await decide_call_now(ctx, call)
        if decided is None:
            if ctx.paused is None:
                return []
            raise AttemptPaused(_waiting(calls), scene, outcome.used)
        if decided is ApprovalVerdict.APPROVED:
            taken.append(_change_of(call.args))
    return taken


def _waiting(calls: Sequence[PausedCall]) -> PausedRun:
    return PausedRun(
        history="",
        calls=tuple(
            WaitingCall(call_id=f"{TAKE_OVER}.{number}", call=call)
            for number, call in enumerate(calls, 1)
        ),
    )


def _calls(
    files: AttemptWorkspace, beyond: Sequence[FileChange], scene: Scene, *, needed: bool
) -> list[PausedCall]:
    """One question for each file, with everything that there is to see of it."""
    if len(beyond) > _MAX_FILES_ASKED:
        raise FileRefused(
            f"The work changed {len(beyond)} files that the plan does not declare, more than "
            f"{_MAX_FILES_ASKED} that can be asked about. Declare their directory in the plan."
        )
    with Tree.open(files.directory) as work:
        return [
            PausedCall(
                work_item_id=files.item.id,
                attempt=files.attempt,
                tool=TAKE_OVER,
                args=_shown_change(files, work, change),
                reasons=[_NEEDED if needed else _BEYOND],
                taint=scene.taint,
                taint_sources=scene.taint_sources,
            )
            for change in beyond
        ]


def _shown_change(files: AttemptWorkspace, work: Tree, change: FileChange) -> dict[str, Any]:
    return {
        **change.model_dump(mode="json"),
        "kind": change.kind.value,
        "executed_by": executed_by(change.path),
        "diff": _difference(files, work, change),
    }


def _change_of(args: dict[str, Any]) -> FileChange:
    return FileChange.model_validate({name: args[name] for name in FileChange.model_fields})


def _difference(files: AttemptWorkspace, work: Tree, change: FileChange) -> str:
    """The differences as text; raises `FileRefused` where they cannot be shown whole."""
    with Tree.open(Path(files.workspace.path or "")) as owners:
        old = _read(owners, change.path) if change.before else b""
    new = _read(work, change.path) if change.after else b""
    try:
        before, after = old.decode("utf-8"), new.decode("utf-8")
    except UnicodeDecodeError:
        return f"(not text: {len(old)} bytes before, {len(new)} bytes after)"
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), "before", "after", lineterm=""
    )
    text = "\n".join(lines)
    if len(text) > _MAX_DIFF_CHARS:
        raise FileRefused(
            f"The work changed {shown(change.path)} beyond the plan, by more than can be shown. "
            "Declare it in the plan."
        )
    return text


def _read(tree: Tree, name: str) -> bytes:
    return tree.read(name, limit=64 * 1024 * 1024) if tree.exists(name) else b""


def _left_out_sentence(beyond: Sequence[FileChange]) -> str:
    names = ", ".join(shown(change.path) for change in beyond[:10])
    more = f" and {len(beyond) - 10} more" if len(beyond) > 10 else ""
    return f"Changes that the plan does not declare were left out: {names}{more}."
