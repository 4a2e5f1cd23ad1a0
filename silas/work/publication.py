"""What passed the checks becomes the result: artifacts kept, changes taken over, once.

1. Artifacts are kept in the namespace of the attempt.
2. What is to be taken over is written down; from then on the attempt has succeeded.
3. What it replaces and removes is kept for undo (`before_images.py`); what cannot be kept is not
   touched. Then it is taken over. If that fails in the middle, what was written down is kept and
   completed later; if nothing has been taken over yet, it is dropped.
4. What was written down holds what the checks said and what was used: whoever completes it later
   has the whole record, and the attempt that passed is the one that counts.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from silas.audit.models import AuditTrail
from silas.sandbox.command_run import to_the_end
from silas.tools.tree import FileRefused, Tree
from silas.work.admission import Blocked, namespace_of
from silas.work.attempt_store import AttemptOutcome
from silas.work.before_images import BeforeImages
from silas.work.control import StoppedByOwner
from silas.work.delivery import CONFLICT, AttemptEnd
from silas.work.effects import FileChange
from silas.work.errors import PublicationConflict
from silas.work.execution_context import WorkRecords
from silas.work.models import (
    STOPPED_BY_OWNER,
    BudgetUsed,
    VerificationResult,
    WorkItem,
    WorkItemStatus,
)
from silas.work.ports import ProgressListener
from silas.work.wording import has_owners_files
from silas.work.workspaces import (
    AttemptWorkspace,
    Publication,
    WorkspaceKind,
    Workspaces,
    target_of,
)

_MAX_ARTIFACTS = 1000
_MAX_FILES_PER_ENTRY = 20  # a path has up to 1,024 bytes, an entry of the log up to 64 KB
_MAX_NAMES_LOGGED = 20
_MAX_ARTIFACTS_BYTES = 64 * 1024 * 1024


async def publish(ctx: WorkRecords, files: AttemptWorkspace, outcome: AttemptEnd) -> None:
    """Steps 2 and 3; raises `PublicationConflict`, `FileRefused` or `TargetMoved`."""
    if files.kind is WorkspaceKind.EMPTY and not outcome.acted_outside:
        return  # nobody would notice if it were done again
    if outcome.delivery is None:
        raise FileRefused("There is nothing that was checked, so nothing is taken over.")
    places, item = ctx.workspaces, files.item
    async with places.changing(item):
        await places.require_checked(files, outcome.delivery)
        prepared = await asyncio.to_thread(places.prepare, files, outcome.delivery)
        known = {"results": outcome.results, "budget_used": outcome.used, "left": outcome.left}
        publication = prepared.model_copy(update=known)
        if publication.target is not None:
            # Before anything of it is there: no file is a stranger's without being known as such.
            await ctx.origins.note_files(
                publication.target, publication.changes, outcome.read, work_item_id=item.id
            )
        await asyncio.to_thread(places.remember, files, publication)
        await _complete(ctx.images, ctx.workspaces, publication, item)
    await _log_note(ctx.progress, ctx.audit, item, await places.record(publication, item))


async def _complete(
    images: BeforeImages, workspaces: Workspaces, publication: Publication, item: WorkItem
) -> None:
    """Step 3, under the directory's lock. It can be repeated."""
    attempt = publication.attempt
    if publication.changes:
        with target_of(publication) as target:
            await images.keep(item.id, attempt, publication.changes, target)
    await images.left(item.id, attempt, publication.left)
    await asyncio.to_thread(workspaces.complete, publication, item)


async def keep_artifacts(ctx: WorkRecords, files: AttemptWorkspace, outcome: AttemptEnd) -> None:
    """Keep what the ledger says was made, as far as it still is what the ledger says.

    What was taken over from earlier work is passed on, so that the next task finds it here.
    """
    passed_on = files.base.digests if files.kind is WorkspaceKind.EMPTY else {}
    artifacts = {**passed_on, **outcome.passed_on}
    if not artifacts:
        return
    namespace = namespace_of(files.item, files.attempt)
    contents, left_out = await asyncio.to_thread(_read_artifacts, files, artifacts)
    for name, content in contents.items():
        await ctx.artifacts.keep(namespace, name, content)
    if left_out:
        await ctx.audit.log(
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
            content = tree.read(name, limit=_MAX_ARTIFACTS_BYTES)
            size += len(content)
            if len(kept) >= _MAX_ARTIFACTS or size > _MAX_ARTIFACTS_BYTES:
                left_out.append(name)
                continue
            kept[name] = content
    return kept, left_out


async def _log_note(
    progress: ProgressListener, audit: AuditTrail, item: WorkItem, note: str | None
) -> None:
    if note is not None:
        await audit.log("taken_over_with_a_note", work_item_id=item.id, note=note)
        progress(item.id, "note", note)


@dataclass(frozen=True)
class PassedAttempt:
    """An attempt that passed before its item was called done."""

    attempt: int
    used: BudgetUsed
    results: list[VerificationResult] = field(default_factory=list)
    """What its checks said, as far as the item does not know it yet."""
    changes: list[FileChange] = field(default_factory=list)
    left: list[FileChange] = field(default_factory=list)


async def passed_before(ctx: WorkRecords, item: WorkItem) -> PassedAttempt | None:
    """The attempt after which nothing is left to do, taken over by now; raises `Blocked`."""
    for attempt in await ctx.attempts.list_of(item.id):
        if attempt.outcome is AttemptOutcome.PASSED:  # just as the owner paused the item
            return PassedAttempt(attempt.attempt, item.budget_used)
    publication = await take_over_pending(ctx, item)
    if publication is None:
        return None
    return PassedAttempt(
        publication.attempt,
        publication.budget_used,
        publication.results,
        publication.changes,
        publication.left,
    )


async def take_over_pending(ctx: WorkRecords, item: WorkItem) -> Publication | None:
    """Complete what an earlier attempt had passed, if there is any; raises `Blocked`.

    What cannot be completed and has not begun is dropped; what has begun is kept for the owner.
    """
    publication = ctx.workspaces.pending(item, item.attempts)
    if publication is None:
        return None
    try:
        async with ctx.workspaces.changing(item):
            await _complete(ctx.images, ctx.workspaces, publication, item)
        await _log_note(
            ctx.progress, ctx.audit, item, await ctx.workspaces.record(publication, item)
        )
    except (FileRefused, PublicationConflict) as error:
        await ctx.audit.log("work_not_recovered", work_item_id=item.id, reason=error.message)
        if not await _drop_untouched(ctx.workspaces, item, publication):
            raise Blocked(CONFLICT, f"It is taken over in part: {error.message}") from error
        await ctx.images.forget(item.id, publication.attempt)
        return None
    return publication


async def left_alone(ctx: WorkRecords, item: WorkItem) -> bool:
    """Whether the owner has stopped the item before any file of it was taken over: none is, then.

    What waited for it is dropped if the item was cancelled, and kept if it is paused. What has
    begun is taken over to its end: half of it would be worse than late.
    """
    publication = ctx.workspaces.pending(item, item.attempts)
    if publication is None or not publication.changes or item.status not in STOPPED_BY_OWNER:
        return False
    try:
        if not await asyncio.to_thread(ctx.workspaces.is_untouched, publication):
            return False
    except (FileRefused, PublicationConflict):
        return False
    reason = f"It was {StoppedByOwner(item.status).verb} by the owner."
    await ctx.audit.log("work_not_recovered", work_item_id=item.id, reason=reason)
    if item.status is not WorkItemStatus.PAUSED:
        await discard_files(ctx.workspaces, ctx.audit, item)
        await ctx.images.forget(item.id, publication.attempt)
    return True


async def _drop_untouched(workspaces: Workspaces, item: WorkItem, publication: Publication) -> bool:
    try:
        untouched = await asyncio.to_thread(workspaces.is_untouched, publication)
    except (FileRefused, PublicationConflict):
        return False
    if untouched:
        await to_the_end(asyncio.to_thread(workspaces.discard, item))
    return untouched


async def clear_files(ctx: WorkRecords, item: WorkItem, *, passed: bool) -> None:
    """Remove the attempt's files, unless something of them still has to be taken over."""
    if not passed and (publication := ctx.workspaces.pending(item, item.attempts)):
        if not await _drop_untouched(ctx.workspaces, item, publication):
            return
        await ctx.images.forget(item.id, publication.attempt)
    await discard_files(ctx.workspaces, ctx.audit, item)


async def discard_files(workspaces: Workspaces, audit: AuditTrail, item: WorkItem) -> None:
    """Remove the files of an item's attempts; what stays is logged, and stops nothing."""
    left = await to_the_end(asyncio.to_thread(workspaces.discard, item))
    if left:
        await log_not_removed(audit, left, work_item_id=item.id)


async def log_not_removed(audit: AuditTrail, left: list[str], **about: str) -> None:
    """Say in the audit log what is left of attempts that ended; `silas doctor` says it too."""
    await audit.log("files_not_removed", **about, left=left[:_MAX_NAMES_LOGGED], count=len(left))


async def log_left_out(
    progress: ProgressListener, audit: AuditTrail, files: AttemptWorkspace
) -> None:
    """Say which files of the owner no worker sees, and that they stay as they are."""
    if not files.left_out:
        return
    names = list(files.left_out[:_MAX_NAMES_LOGGED])
    await audit.log("files_left_out", work_item_id=files.item.id, names=names)
    note = f"Left out, and left alone, because their names are not UTF-8: {', '.join(names)}."
    progress(files.item.id, "note", note)


async def log_files(
    audit: AuditTrail,
    item: WorkItem,
    event: str,
    taken: Sequence[FileChange],
    left: Sequence[FileChange],
    **details: Any,
) -> None:
    """Write an event with the owner's files that were changed, and with what was left.

    More than fit into one entry are written in several, so that none is cut.
    """
    files = [*(("changes", each) for each in taken), *(("left", each) for each in left)]
    files = files if has_owners_files(item) else []
    parts = [
        files[at : at + _MAX_FILES_PER_ENTRY] for at in range(0, len(files), _MAX_FILES_PER_ENTRY)
    ]
    for number, part in enumerate(parts or [[]]):
        entry: dict[str, Any] = {"changes": [], "left": []}
        for where, each in part:
            entry[where].append({**each.model_dump(mode="json"), "kind": each.kind.value})
        about = {"work_item_id": item.id, "attempt": item.attempts}
        if number == 0:
            await audit.log(event, **about, **details, **entry)
        else:
            await audit.log("work_files", **about, **entry)
