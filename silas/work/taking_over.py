"""What passed the checks becomes the result: artifacts kept, changes taken over, once.

1. Artifacts are kept in the namespace of the attempt.
2. What is to be taken over is written down; from then on the attempt has succeeded.
3. It is taken over. If that fails in the middle, what was written down is kept and completed later;
   if nothing has been taken over yet, it is dropped.
4. What was written down holds what the checks said and what was used: whoever completes it later
   has the whole record, and the attempt that passed is the one that counts.
"""

import asyncio
from dataclasses import dataclass, field

from silas.work.attempt import Outcome
from silas.work.attempts import AttemptOutcome
from silas.work.before_images import BeforeImage
from silas.work.budget import BudgetUsed
from silas.work.checks import VerificationResult
from silas.work.door import Blocked, namespace_of
from silas.work.errors import FileRefused, PublicationConflict
from silas.work.models import WorkItem
from silas.work.tree import Tree
from silas.work.workbench import Workbench
from silas.work.workspaces import AttemptWorkspace, Publication, WorkspaceKind

CONFLICT = "execution_blocked_conflict"
_MAX_KEPT = 1000
_MAX_KEPT_BYTES = 64 * 1024 * 1024


async def publish(bench: Workbench, files: AttemptWorkspace, outcome: Outcome) -> None:
    """Steps 2 and 3; raises `PublicationConflict` or `FileRefused`."""
    if files.kind is WorkspaceKind.EMPTY and not outcome.acted_outside:
        return  # nobody would notice if it were done again
    note, images = await asyncio.to_thread(_publish, bench, files, outcome)
    if bench.images is not None:
        await bench.images.keep(files.item.id, files.attempt, images)
    await _tell(bench, files.item, note)


async def keep_artifacts(bench: Workbench, files: AttemptWorkspace, outcome: Outcome) -> None:
    """Keep what the ledger says was made, as far as it still is what the ledger says.

    What was taken over from earlier work is passed on, so that the next task finds it here.
    """
    passed_on = files.base.digests if files.kind is WorkspaceKind.EMPTY else {}
    artifacts = {**passed_on, **outcome.artifacts}
    if not artifacts:
        return
    namespace = namespace_of(files.item, files.attempt)
    contents, left_out = await asyncio.to_thread(_read_artifacts, files, artifacts)
    for name, content in contents.items():
        await bench.artifacts.keep(namespace, name, content)
    if left_out:
        await bench.audit.log(
            "artifacts_not_kept",
            work_item_id=files.item.id,
            attempt=files.attempt,
            names=left_out[:100],
        )


def _read_artifacts(
    files: AttemptWorkspace, artifacts: dict[str, str]
) -> tuple[dict[str, bytes], list[str]]:
    kept: dict[str, bytes] = {}
    left_out: list[str] = []
    size = 0
    with Tree.open(files.directory) as tree:
        for name, digest in sorted(artifacts.items()):
            if tree.digest(name) != digest:
                left_out.append(name)  # removed again, or changed by nobody that we know
                continue
            content = tree.read(name, limit=_MAX_KEPT_BYTES)
            size += len(content)
            if len(kept) >= _MAX_KEPT or size > _MAX_KEPT_BYTES:
                left_out.append(name)
                continue
            kept[name] = content
    return kept, left_out


def _publish(
    bench: Workbench, files: AttemptWorkspace, outcome: Outcome
) -> tuple[str | None, list[BeforeImage]]:
    with bench.workspaces.changing(files.item):
        publication = bench.workspaces.prepare(files).model_copy(
            update={"results": outcome.results, "budget_used": outcome.used}
        )
        bench.workspaces.remember(files, publication)
        images = bench.workspaces.images_of(publication)
        return bench.workspaces.complete(publication, files.item), images


async def _tell(bench: Workbench, item: WorkItem, note: str | None) -> None:
    if note is not None:
        await bench.audit.log("taken_over_with_a_note", work_item_id=item.id, note=note)
        bench.progress(item.id, "note", note)


@dataclass(frozen=True)
class Passed:
    """An attempt that passed before its item was called done."""

    attempt: int
    used: BudgetUsed
    results: list[VerificationResult] = field(default_factory=list)
    """What its checks said, as far as the item does not know it yet."""


async def passed_before(bench: Workbench, item: WorkItem) -> Passed | None:
    """The attempt after which nothing is left to do, taken over by now; raises `Blocked`."""
    for attempt in await bench.attempts.list_of(item.id):
        if attempt.outcome is AttemptOutcome.PASSED:  # just as the owner paused the item
            return Passed(attempt.attempt, item.budget_used)
    publication = await take_over_pending(bench, item)
    if publication is None:
        return None
    return Passed(publication.attempt, publication.budget_used, publication.results)


async def take_over_pending(bench: Workbench, item: WorkItem) -> Publication | None:
    """Complete what an earlier attempt had passed, if there is any; raises `Blocked`.

    What cannot be completed and has not begun is dropped; what has begun is kept for the owner.
    """
    publication = bench.workspaces.pending(item, item.attempts)
    if publication is None:
        return None
    try:
        await _tell(bench, item, await asyncio.to_thread(_complete, bench, item, publication))
    except (FileRefused, PublicationConflict) as error:
        await bench.audit.log("work_not_recovered", work_item_id=item.id, reason=error.message)
        if not await asyncio.to_thread(_drop_untouched, bench, item, publication):
            raise Blocked(CONFLICT, f"It is taken over in part: {error.message}") from error
        return None
    return publication


def _complete(bench: Workbench, item: WorkItem, publication: Publication) -> str | None:
    with bench.workspaces.changing(item):
        return bench.workspaces.complete(publication, item)


def _drop_untouched(bench: Workbench, item: WorkItem, publication: Publication) -> bool:
    try:
        untouched = bench.workspaces.is_untouched(publication)
    except (FileRefused, PublicationConflict):
        return False
    if untouched:
        bench.workspaces.discard(item)
    return untouched


def clear_files(bench: Workbench, item: WorkItem, *, passed: bool) -> None:
    """Remove the attempt's files, unless something of them still has to be taken over."""
    if not passed:
        publication = bench.workspaces.pending(item, item.attempts)
        if publication and not _drop_untouched(bench, item, publication):
            return
    bench.workspaces.discard(item)
