"""The door of execution (step 0), and what is carried through it (step 0.5).

0.   There is a token, and `check` says that exactly this plan was authorised. The skills are those
     that were approved. The files are compared when the attempt gets its copy of them. Before
     anything is done, the audit log has to bear it out (`enter`).
0.5  What the plan takes over from earlier work is there, unambiguous, and of work that is done.
"""

from collections.abc import Sequence

from silas.approval import ApprovalScope, ApprovalToken
from silas.work.artifacts import Artifact, ArtifactNamespace
from silas.work.attempts import AttemptOutcome
from silas.work.binding import require_skills
from silas.work.errors import ArtifactRefused, BindingBroken
from silas.work.models import ALL_ARTIFACTS, WorkItem, WorkItemStatus, WorkItemType
from silas.work.spawning import is_spawned_from
from silas.work.workbench import Workbench

NO_APPROVAL = "execution_blocked_no_approval"
CHANGED = "execution_blocked_changed"
LINKAGE = "execution_blocked_linkage"


class Blocked(Exception):
    """The item cannot be executed as things are; carries the audit event and the reason."""

    def __init__(self, event: str, reason: str) -> None:
        super().__init__(reason)
        self.event = event
        self.reason = reason


async def require_entry(bench: Workbench, item: WorkItem) -> None:
    """Step 0; raises `Blocked`."""
    token = item.approval_token
    if token is None:
        raise Blocked(NO_APPROVAL, "There is no approval.")
    if item.type is WorkItemType.GOAL:
        valid, reason = await bench.approvals.check_goal(token, item)
    else:
        valid, reason = await bench.approvals.check(token, item)
    if not valid:
        raise Blocked(NO_APPROVAL, reason)
    if token.scope is ApprovalScope.STANDING and item.type is not WorkItemType.GOAL:
        await _require_spawned(bench, item, token)
    try:
        await require_skills(item, bench.skills)
    except BindingBroken as error:
        raise Blocked(CHANGED, error.message) from error


async def require_unused(bench: Workbench, item: WorkItem, *, most: int | None = None) -> None:
    """Raise `Blocked` if this was carried out or taken back by the log, whatever the rows say.

    With `most`, also if the log knows of so many attempts.
    """
    token = item.approval_token
    if token is None:
        raise Blocked(NO_APPROVAL, "There is no approval.")
    valid, reason = await bench.approvals.enter(token, item, most=most)
    if not valid:
        raise Blocked(NO_APPROVAL, reason)


async def _require_spawned(bench: Workbench, task: WorkItem, token: ApprovalToken) -> None:
    """A standing approval is of a goal. What runs under it was made from that goal, word by word.

    The record of its uses is a row like others, so it is not enough that it names this task.
    """
    goal = await bench.items.get(token.work_item_id)
    if goal is None or goal.plan_hash != token.plan_hash or not is_spawned_from(goal, task):
        raise Blocked(NO_APPROVAL, "The task was not made from the goal that was approved.")


def require_same(approved: WorkItem, claimed: WorkItem) -> None:
    """Raise `Blocked` unless the item that was claimed is the one that came through the door.

    It was read again from its row in between, and for every further attempt.
    """
    if claimed.plan_bytes() != approved.plan_bytes():
        raise Blocked(CHANGED, "The plan is not the one that was approved.")


async def hydrate(bench: Workbench, item: WorkItem) -> dict[str, bytes]:
    """Step 0.5: the artifacts to start with, by name; raises `Blocked`."""
    if item.follow_up_of is not None:
        await _require_done(bench, item.follow_up_of)
    if not item.input_artifacts_from:
        return {}
    sources = [item.follow_up_of] if item.follow_up_of else item.depends_on
    return await collect_artifacts_of(bench, sources, item.input_artifacts_from)


async def collect_artifacts_of(
    bench: Workbench, sources: Sequence[str], wanted: Sequence[str] = (ALL_ARTIFACTS,)
) -> dict[str, bytes]:
    """What earlier items made, by name; raises `Blocked` if it is missing or ambiguous."""
    found: dict[str, tuple[ArtifactNamespace, Artifact]] = {}
    for source in sources:
        namespace = await _passed_attempt(bench, await _require_done(bench, source))
        for artifact in await bench.artifacts.list_in(namespace):
            other = found.setdefault(artifact.name, (namespace, artifact))
            if other[1].sha256 != artifact.sha256:
                raise Blocked(LINKAGE, f"Two tasks made different files named {artifact.name}.")
    names = sorted(found) if list(wanted) == [ALL_ARTIFACTS] else list(wanted)
    missing = [name for name in names if name not in found]
    if missing:
        where = ", ".join(sources)
        raise Blocked(LINKAGE, f"These artifacts are missing in {where}: {', '.join(missing)}.")
    try:
        return {name: await bench.artifacts.read(found[name][0], name) for name in names}
    except ArtifactRefused as error:
        raise Blocked(LINKAGE, error.message) from error


async def _require_done(bench: Workbench, work_item_id: str) -> WorkItem:
    item = await bench.items.get(work_item_id)
    if item is None:
        raise Blocked(LINKAGE, f"There is no work item {work_item_id} to go on from.")
    if item.status is not WorkItemStatus.DONE:
        raise Blocked(LINKAGE, f"{work_item_id} is {item.status.value}, not done.")
    return item


async def _passed_attempt(bench: Workbench, item: WorkItem) -> ArtifactNamespace:
    for attempt in reversed(await bench.attempts.list_of(item.id)):
        if attempt.outcome is AttemptOutcome.PASSED:
            return namespace_of(item, attempt.attempt)
    raise Blocked(LINKAGE, f"No attempt at {item.id} has passed.")


def namespace_of(item: WorkItem, attempt: int) -> ArtifactNamespace:
    """Where the artifacts of an attempt are kept."""
    return ArtifactNamespace(plan=item.parent or item.id, task=item.id, attempt=attempt)
