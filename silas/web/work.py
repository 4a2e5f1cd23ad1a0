"""`/api/work/*`: everything about one work item, for whoever opens it from an answer.

Reading needs the session of a paired device. What was done in accounts is taken back
(`silas.work.undo_calls`) by a request that the device has signed; nothing else here changes
anything. A file can be
opened if the work item itself has changed it (`silas.work.report`); the path is compared with what
was written down, and is never one to look for.
"""

from pydantic import Field

from silas.kernel.models import Data
from silas.web.access import page
from silas.web.command_routes import Routes
from silas.web.commands import Body, PageAccess
from silas.work.effects import ChangeKind
from silas.work.errors import ArtifactRefused
from silas.work.execution_context import ExecutionContext
from silas.work.output import CallOutput, ends_of, readable
from silas.work.report import MAX_CALL_CHARS, FileView, WorkReport, file_view, report_of
from silas.work.undo_calls import UndoneCall, UndoOffer, undo_calls
from silas.work.wording import attempts_of, ending_of, outcome_of, status_of


class CheckDetails(Data):
    """One check of the last attempt, with what it printed."""

    name: str
    passed: bool
    outcome: str
    reason: str
    output: str


class FileLine(Data):
    """One file that the work changed."""

    kind: ChangeKind
    path: str
    taken: bool
    among_yours: bool


class WorkDetails(Data):
    """One work item: how it stands, what its last attempt did and printed, its checks and files."""

    work_item_id: str
    title: str
    status: str
    attempts: str
    attempt: int
    calls: list[CallOutput]
    """Of the last attempt; what one printed is cut in the middle if it is long."""
    cut: list[int]
    """The numbers of the calls that are cut: `/output/{attempt}/{seq}` has each whole."""
    checks: list[CheckDetails]
    files: list[FileLine]
    undos: list[UndoOffer]
    """Its calls in accounts, and what takes each back."""


class UndoWanted(Body):
    """Which calls are to be taken back."""

    calls: list[int] | None = Field(default=None, max_length=1000)
    """Their numbers in an attempt; None: all."""
    attempt: int | None = Field(default=None, ge=1)
    """Of which attempt; None: of the only one that has such numbers."""


class UndoDone(Data):
    """What became of each call, the last one first."""

    calls: list[UndoneCall]


def work_routes(ctx: ExecutionContext) -> Routes:
    """The routes."""
    routes = Routes("/api/work")

    @routes.get("/{work_item_id}")
    @page(PageAccess.SESSION)
    async def details(work_item_id: str) -> WorkDetails:
        return _details(await report_of(ctx, work_item_id))

    @routes.get("/{work_item_id}/file/{path:path}")
    @page(PageAccess.SESSION)
    async def file(work_item_id: str, path: str) -> FileView:
        return await file_view(ctx, work_item_id, path)

    @routes.post("/{work_item_id}/undo")
    @page(PageAccess.SIGNED)
    async def undo(work_item_id: str, wanted: UndoWanted) -> UndoDone:
        done = await undo_calls(ctx, work_item_id, wanted.calls, attempt=wanted.attempt)
        return UndoDone(calls=done)

    @routes.get("/{work_item_id}/output/{attempt}/{seq}")
    @page(PageAccess.SESSION)
    async def output(work_item_id: str, attempt: int, seq: int) -> CallOutput:
        tried = (await report_of(ctx, work_item_id)).attempts
        for each in (each for each in tried if each.attempt == attempt):
            for call in (call for call in each.calls if call.seq == seq):
                return call
        raise ArtifactRefused("There is no such call of this work.")

    return routes


def _details(report: WorkReport) -> WorkDetails:
    item, last = report.item, report.attempts[-1] if report.attempts else None
    calls = last.calls if last else []
    return WorkDetails(
        work_item_id=item.id,
        title=item.title,
        status=ending_of(item) or status_of(item),
        attempts=attempts_of(item),
        attempt=last.attempt if last else 0,
        calls=[
            each.model_copy(update={"text": ends_of(each.text, most=MAX_CALL_CHARS)})
            for each in calls
        ],
        cut=[each.seq for each in calls if len(each.text) > MAX_CALL_CHARS],
        checks=[
            CheckDetails(
                name=each.name,
                passed=each.passed,
                outcome=outcome_of(each),
                reason=each.reason,
                output=readable(each.output),
            )
            for each in report.checks
        ],
        files=[
            FileLine(kind=each.kind, path=each.path, taken=each.taken, among_yours=each.among_yours)
            for each in report.files
        ],
        undos=report.undos,
    )
