"""Admission to execution (step 0), and what is taken along (step 0.5).

0.   There is a token, and `check` says that exactly this plan was authorised. The skills are those
     that were approved. The files are compared when the attempt gets its copy of them. Before
     anything is done, the audit log has to bear it out (`borne_out`).
0.5  What the plan takes over from earlier work is there, unambiguous, and of work that is done.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from silas.approval import ApprovalScope, ApprovalToken
from silas.approval.engine import ApprovalEngine
from silas.audit.models import ExaminedLog
from silas.gates import Gate
from silas.work.artifacts import Artifact, ArtifactNamespace
from silas.work.attempt_store import AttemptOutcome, AttemptStore
from silas.work.binding import require_skills
from silas.work.errors import ArtifactRefused, BindingBroken
from silas.work.execution_context import ExecutionContext
from silas.work.models import ALL_ARTIFACTS, ENDED_WELL, WorkItem, WorkItemStatus, WorkItemType
from silas.work.spawning import is_spawned_from
from silas.work.store import WorkItemStore

NO_APPROVAL = "execution_blocked_no_approval"
CHANGED = "execution_blocked_changed"
LINKAGE = "execution_blocked_linkage"
GATE_BLOCKED = "execution_blocked_gate"


class Blocked(Exception):
    """The item cannot be executed as things are; carries the audit event and the reason."""

    def __init__(self, event: str, reason: str, *, gate: Gate | None = None) -> None:
        super().__init__(reason)
        self.event = event
        self.reason = reason
        self.gate = gate


async def require_entry(
    ctx: ExecutionContext, item: WorkItem, *, as_of: datetime | None = None
) -> None:
    """Step 0; raises `Blocked`. Work that goes on was begun `as_of` then (`begun_at`)."""
    token = item.approval_token
    if token is None:
        raise Blocked(NO_APPROVAL, "There is no approval.")
    if item.type is WorkItemType.GOAL:
        valid, reason = await ctx.approvals.check_goal(token, item)
    else:
        valid, reason = await ctx.approvals.check(token, item, as_of=as_of)
    if not valid:
        raise Blocked(NO_APPROVAL, reason)
    if token.scope is ApprovalScope.STANDING and item.type is not WorkItemType.GOAL:
        await _require_spawned(ctx.items, item, token)
    try:
        await require_skills(item, ctx.skills)
    except BindingBroken as error:
        raise Blocked(CHANGED, error.message) from error


async def require_unused(
    approvals: ApprovalEngine, item: WorkItem, *, most: int | None = None
) -> ExaminedLog | None:
    """Raise `Blocked` if this was carried out or taken back by the log, whatever the rows say.

    With `most`, also if the log knows of so many attempts. To be asked right behind
    `require_entry`; returns how far the log was examined, for the checkpoint that comes next.
    """
    token = item.approval_token
    if token is None:
        raise Blocked(NO_APPROVAL, "There is no approval.")
    found = await approvals.borne_out(token, item, most=most)
    if not found.valid:
        raise Blocked(NO_APPROVAL, found.reason)
    return found.examined


async def begun_at(ctx: ExecutionContext, names: Iterable[str]) -> datetime | None:
    """When a run of these items was begun that goes on now; None if none does.

    An approval lasts for minutes, a call waits for a day. So the approval has to have been in force
    when the run was begun, and the owner must have decided about a call of it just now. For both
    the owner's key vouches: with the seal of the run, and with the receipt of the decision.
    """
    if ctx.paused is None:
        return None
    found = [run for name in names if (run := await ctx.paused.of(name)) is not None]
    begun = []
    for run in found:
        decided = [await ctx.decisions.decided_at(call.id) for call in run.calls]
        if any(moment is not None and ctx.approvals.is_current(moment) for moment in decided):
            begun.append(run.scene.begun_at or run.paused_at)
    return min(begun, default=None)


async def _require_spawned(items: WorkItemStore, task: WorkItem, token: ApprovalToken) -> None:
    """A standing approval is of a goal. What runs under it was made from that goal, word by word.

    The record of its uses is a row like others, so it is not enough that it names this task.
    """
    goal = await items.get(token.work_item_id)
    if goal is None or goal.plan_hash != token.plan_hash or not is_spawned_from(goal, task):
        raise Blocked(NO_APPROVAL, "The task was not made from the goal that was approved.")


def require_same(approved: WorkItem, claimed: WorkItem) -> None:
    """Raise `Blocked` unless the item that was claimed is the one that was admitted.

    It was read again from its row in between, and for every further attempt.
    """
    if claimed.plan_bytes() != approved.plan_bytes():
        raise Blocked(CHANGED, "The plan is not the one that was approved.")


async def hydrate(ctx: ExecutionContext, item: WorkItem) -> dict[str, bytes]:
    """Step 0.5: the artifacts to start with, by name; raises `Blocked`."""
    if item.follow_up_of is not None:
        await _require_done(ctx.items, item, item.follow_up_of)
    if not item.input_artifacts_from:
        return {}
    sources = [item.follow_up_of] if item.follow_up_of else item.depends_on
    return await collect_artifacts_of(ctx, item, sources, item.input_artifacts_from)


async def collect_artifacts_of(
    ctx: ExecutionContext,
    item: WorkItem,
    sources: Sequence[str],
    wanted: Sequence[str] = (ALL_ARTIFACTS,),
) -> dict[str, bytes]:
    """What earlier items made, by name; raises `Blocked` if it is missing or ambiguous."""
    found: dict[str, tuple[ArtifactNamespace, Artifact]] = {}
    for source in sources:
        namespace = await _passed_attempt(
            ctx.attempts, await _require_done(ctx.items, item, source)
        )
        for artifact in await ctx.artifacts.list_in(namespace):
            other = found.setdefault(artifact.name, (namespace, artifact))
            if other[1].sha256 != artifact.sha256:
                raise Blocked(LINKAGE, f"Two tasks made different files named {artifact.name}.")
    names = sorted(found) if list(wanted) == [ALL_ARTIFACTS] else list(wanted)
    missing = [name for name in names if name not in found]
    if missing:
        where = ", ".join(sources)
        raise Blocked(LINKAGE, f"These artifacts are missing in {where}: {', '.join(missing)}.")
    try:
        return {name: await ctx.artifacts.read(found[name][0], name) for name in names}
    except ArtifactRefused as error:
        raise Blocked(LINKAGE, error.message) from error


async def _require_done(items: WorkItemStore, follower: WorkItem, work_item_id: str) -> WorkItem:
    item = await items.get(work_item_id)
    if item is None:
        raise Blocked(LINKAGE, f"There is no work item {work_item_id} to go on from.")
    if not is_good_enough(follower, item.status):
        raise Blocked(LINKAGE, not_good_enough(item))
    return item


def is_good_enough(follower: WorkItem, status: WorkItemStatus) -> bool:
    """Whether work that ended like this can be gone on from by this item, or repairs this goal."""
    accepted = ENDED_WELL if follower.accepts_unchecked else {WorkItemStatus.DONE}
    return status in accepted


def not_good_enough(item: WorkItem) -> str:
    """Why another item does not go on from this one."""
    if item.status is WorkItemStatus.UNCHECKED:
        return (
            f"{item.id} was done, but nothing has shown it. Give it a check that can fail, or say "
            "`accepts_unchecked: true` in the plan that goes on from it."
        )
    return f"{item.id} is {item.status.value}, not done."


async def _passed_attempt(attempts: AttemptStore, item: WorkItem) -> ArtifactNamespace:
    for attempt in reversed(await attempts.list_of(item.id)):
        if attempt.outcome is AttemptOutcome.PASSED:
            return namespace_of(item, attempt.attempt)
    raise Blocked(LINKAGE, f"No attempt at {item.id} has passed.")


def namespace_of(item: WorkItem, attempt: int) -> ArtifactNamespace:
    """Where the artifacts of an attempt are kept."""
    return ArtifactNamespace(plan=item.parent or item.id, task=item.id, attempt=attempt)
