"""The record of one work item, for people: what was asked, done, printed, checked and changed.

1. It is read from what was written down while it happened, never from what a worker says.
2. A file can be opened if the work item itself has changed it, under exactly the path that was
   written down; no other path leads anywhere. It is read by descriptor, following no link.
3. What is shown of a file is what the work made of it: the content with the recorded hash, from the
   artifacts or from the owner's directory. A file that is something else by now is not shown.
4. What is too long for a page is cut in the middle and says so; what is not text is not shown.
"""

import asyncio
import difflib
import hashlib
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from pydantic import Field

from silas.approval.rules import digest
from silas.kernel.models import Data, UtcDatetime
from silas.review.attestations import RunAttempt, RunCall, RunCheck, RunFile, RunPredicate
from silas.tools.tree import FileRefused, Tree
from silas.work.admission import namespace_of
from silas.work.artifacts import Artifact
from silas.work.attempt_store import WAITING, Attempt
from silas.work.before_images import BeforeImage
from silas.work.effects import ChangeKind, FileChange
from silas.work.errors import ArtifactRefused
from silas.work.execution_context import ExecutionContext
from silas.work.models import ENDED_WELL, VerificationResult, WorkItem
from silas.work.output import CallOutput, ends_of, every_output
from silas.work.store import require_item
from silas.work.undo_calls import UndoOffer, undo_offers
from silas.work.wording import counted, file_lines, last_results

MAX_TEXT_CHARS = 200_000
MAX_CALL_CHARS = 20_000
_MAX_DIFF_CHARS = 64_000
_MAX_FILE_BYTES = 8 * 1024 * 1024
_MAX_NAMES = 20
_MAX_COMPARED_CHARS = 1_000_000
_FILE_FIELDS = (*FileChange.model_fields, "taken")
_GONE = "It is not what the work made of it any more, or was removed since: open it where it is."
_NOT_TEXT = "It is not text, so it is not shown."
_TOO_LARGE = f"It has more than {_MAX_FILE_BYTES} bytes, so it is not shown."
_CUT = "It is long: its beginning and its end are shown."


class AttemptReport(Data):
    """One attempt, with every call that it made and what each printed."""

    attempt: int
    started_at: UtcDatetime
    ended_at: UtcDatetime | None
    outcome: str
    """Empty while it goes on."""
    detail: str
    calls: list[CallOutput]


class FileReport(FileChange):
    """One file that the work changed."""

    taken: bool
    """Whether it is so in the owner's files."""
    among_yours: bool = True
    """False: Silas keeps it, because the work had no directory of the owner's."""


class FileView(Data):
    """What the work made of one file."""

    path: str
    kind: ChangeKind
    text: str | None = None
    """None if it was removed, or if `note` says why it is not shown."""
    diff: str | None = None
    note: str = ""


class WorkReport(Data):
    """Everything about one work item."""

    item: WorkItem
    attempts: list[AttemptReport]
    checks: list[VerificationResult]
    files: list[FileReport]
    below: list[WorkItem]
    waits: bool
    """Whether the last attempt waits for a decision."""
    expired: bool = False
    """Whether it has waited, and nobody decided in time."""
    undos: list[UndoOffer] = Field(default_factory=list)
    """Its calls in accounts, and what takes each back."""


async def report_of(ctx: ExecutionContext, work_item_id: str) -> WorkReport:
    """The record of an item; raises `WorkItemUnknown`."""
    item = await require_item(ctx.items, work_item_id)
    tried = await ctx.attempts.list_of(work_item_id)
    attempts = [await _attempt(ctx, each) for each in tried]
    open_waiting = bool(tried) and tried[-1].runner == WAITING and tried[-1].outcome is None
    kept = await ctx.paused.of(work_item_id) if open_waiting and ctx.paused else None
    expired = kept is not None and bool(kept.overdue(ctx.clock.now()))
    return WorkReport(
        item=item,
        attempts=attempts,
        checks=last_results(item),
        files=await files_of(ctx, item),
        below=await ctx.items.list_by_parent(work_item_id),
        waits=open_waiting and not expired,
        expired=expired,
        undos=await undo_offers(ctx, work_item_id),
    )


def run_predicate(report: WorkReport, *, now: datetime) -> RunPredicate:
    """The record as other people's verifiers read it; what was printed is named by its digest."""
    item = report.item
    return RunPredicate(
        exported_at=now,
        work_item_id=item.id,
        title=item.title,
        plan_sha256=item.plan_hash,
        status=item.status.value,
        approval=item.approval_token.token_id if item.approval_token else None,
        verifier="silas",
        attempts=[
            RunAttempt(
                attempt=each.attempt,
                started_at=each.started_at,
                ended_at=each.ended_at,
                outcome=each.outcome,
                calls=[
                    RunCall(
                        tool=call.tool,
                        title=call.title,
                        success=call.success,
                        output_sha256=digest(call.text.encode()),
                    )
                    for call in each.calls
                ],
            )
            for each in report.attempts
        ],
        checks=[
            RunCheck(
                name=each.name,
                passed=each.passed,
                passed_before=each.passed_before,
                influenced_by=each.influenced_by,
                proves=each.proves,
                exit_code=each.exit_code,
                output_sha256=digest(each.output.encode()),
            )
            for each in report.checks
        ],
        checked=item.status in ENDED_WELL and any(each.proves for each in report.checks),
        files=[
            RunFile(path=each.path, before=each.before, after=each.after, taken=each.taken)
            for each in report.files
        ],
    )


async def _attempt(ctx: ExecutionContext, attempt: Attempt) -> AttemptReport:
    entries = await ctx.ledger.entries(attempt.work_item_id, attempt.attempt)
    return AttemptReport(
        attempt=attempt.attempt,
        started_at=attempt.started_at,
        ended_at=attempt.ended_at,
        outcome=attempt.outcome.value if attempt.outcome else "",
        detail=attempt.detail or "",
        calls=every_output(entries),
    )


async def files_of(ctx: ExecutionContext, item: WorkItem) -> list[FileReport]:
    """The files that the item changed: the owner's, and those that Silas keeps for want of any."""
    images = await ctx.images.of(item.id)
    found = [
        FileReport.model_validate({name: getattr(each, name) for name in _FILE_FIELDS})
        for each in images
    ]
    if item.workspace is not None and item.workspace.path is not None:
        return found
    known = {each.path for each in images}
    kept = await _artifacts(ctx, item)
    return found + [
        FileReport(path=name, before=None, after=made.sha256, taken=False, among_yours=False)
        for name, made in kept.items()
        if name not in known
    ]


async def file_view(ctx: ExecutionContext, work_item_id: str, path: str) -> FileView:
    """What the work made of one of its files (rules 2 to 4); raises `ArtifactRefused`."""
    item = await require_item(ctx.items, work_item_id)
    images = {each.path: each for each in await ctx.images.of(item.id)}
    artifacts = await _artifacts(ctx, item)
    if (image := images.get(path)) is not None:
        after = await _after(ctx, item, image, artifacts)
        before = await ctx.images.content(image.before) if image.before else b""
        return await asyncio.to_thread(_view, image, before, after)
    if path in artifacts:
        content = await ctx.artifacts.read(namespace_of(item, item.attempts), path)
        made = FileChange(path=path, before=None, after=artifacts[path].sha256)
        return _view(made, b"", content)
    raise ArtifactRefused(_unknown(path, [*images, *artifacts]))


def report_file_lines(report: WorkReport) -> list[str]:
    """What became of files, in words: how many of each kind, then each."""
    yours = [each for each in report.files if each.among_yours]
    taken, left = [e for e in yours if e.taken], [e for e in yours if not e.taken]
    kept = [f"kept by Silas: {each.path}" for each in report.files if not each.among_yours]
    head = [f"{counted(each.kind for each in taken)}:"] if len(taken) > 1 else []
    return [*head, *file_lines(taken, left), *kept]


async def _artifacts(ctx: ExecutionContext, item: WorkItem) -> dict[str, Artifact]:
    if not item.attempts:
        return {}
    kept = await ctx.artifacts.list_in(namespace_of(item, item.attempts))
    return {each.name: each for each in kept}


async def _after(
    ctx: ExecutionContext, item: WorkItem, image: BeforeImage, artifacts: dict[str, Artifact]
) -> bytes | None:
    """The content with the recorded hash, wherever it still is (rule 3); None if nowhere."""
    if image.after is None:
        return b""
    kept = artifacts.get(image.path)
    if kept is not None and kept.sha256 == image.after:
        return await ctx.artifacts.read(namespace_of(item, item.attempts), image.path)
    if not image.taken or not image.directory:
        return None
    return await asyncio.to_thread(_read_if_same, Path(image.directory), image.path, image.after)


def _read_if_same(directory: Path, path: str, digest: str) -> bytes | None:
    try:
        with Tree.open(directory) as tree:
            content = tree.read(path, limit=_MAX_FILE_BYTES)
    except FileRefused:
        return None
    return content if hashlib.sha256(content).hexdigest() == digest else None


def _view(change: FileChange, before: bytes | None, after: bytes | None) -> FileView:
    view = FileView(path=change.path, kind=change.kind)
    if after is None:
        return view.model_copy(update={"note": _GONE})
    if max(len(after), len(before or b"")) > _MAX_FILE_BYTES:
        return view.model_copy(update={"note": _TOO_LARGE})
    try:
        now, old = after.decode(), None if before is None else before.decode()
    except UnicodeDecodeError:
        return view.model_copy(update={"note": f"{_NOT_TEXT} ({len(after)} bytes)"})
    text = None if change.after is None else ends_of(now, most=MAX_TEXT_CHARS)
    short = old is not None and len(old) + len(now) <= _MAX_COMPARED_CHARS
    diff = _difference(old, now) if short and old is not None else None
    note = _CUT if len(now) > MAX_TEXT_CHARS else ""
    return view.model_copy(update={"text": text, "diff": diff, "note": note})


def _difference(before: str, after: str) -> str:
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), "before", "after", lineterm=""
    )
    return ends_of("\n".join(lines), most=_MAX_DIFF_CHARS)


def _unknown(path: str, names: Sequence[str]) -> str:
    known = ", ".join(names[:_MAX_NAMES])
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    has = f"It has: {known}{more}." if names else "It has changed none."
    return f"{path[:200]!a} is no file that this work has changed. {has}"
