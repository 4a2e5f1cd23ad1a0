"""The record of a work item as a person reads it: one section for each thing one wants to know.

Words of commands, checks and plans are quoted, so that no line of them can be taken for one of
Silas' own.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from silas.cli.approver import in_quotes
from silas.kernel import visible
from silas.review.cards import Card
from silas.tools.tree import FileRefused
from silas.work import VerificationResult, WorkItem, WorkItemStatus
from silas.work.output import CallOutput, ends_of, readable
from silas.work.report import (
    MAX_CALL_CHARS,
    AttemptReport,
    FileView,
    WorkReport,
    report_file_lines,
)
from silas.work.undo_calls import NOTHING_UNDOES, UndoOffer
from silas.work.wording import attempts_of, check_line, ending_of, status_of

_MAX_BODY_LINES = 30
_MAX_CALLS_SHOWN = 5
_GO_ON = (WorkItemStatus.STUCK, WorkItemStatus.BLOCKED, WorkItemStatus.PAUSED)


def report_data(report: WorkReport, views: Sequence[FileView]) -> dict[str, Any]:
    """The report for programs."""
    files = [each for each in report.files if each.among_yours]
    return {
        "item": report.item.model_dump(mode="json"),
        "attempts": [
            each.model_dump(mode="json") | {"work_item_id": report.item.id}
            for each in report.attempts
        ],
        "below": [{"id": each.id, "status": each.status.value} for each in report.below],
        "changes": [each.model_dump(mode="json") for each in files if each.taken],
        "left": [each.model_dump(mode="json") for each in files if not each.taken],
        "kept": [each.path for each in report.files if not each.among_yours],
        "undos": [each.model_dump(mode="json") for each in report.undos],
        "shown": [each.model_dump(mode="json") for each in views],
    }


class CardsAbout(NamedTuple):
    """What the owner was asked about a work item."""

    endings: dict[str, str]
    """How its card ended, if not with a yes."""
    undo: Card | None
    """What undoes it, as long as that is offered."""
    open: Card | None
    """Where it waits for the owner's decision."""


def report_lines(report: WorkReport, about: CardsAbout) -> list[str]:
    """The sections of a report; one that has nothing to say is left out."""
    item, endings = report.item, about.endings
    sections = {
        "Asked for": _asked_lines(item),
        "Done": _done_lines(report),
        "Checks": [line for each in report.checks for line in _check_lines(each)],
        "Files": [f"  {visible(each, keep_newlines=False)}" for each in report_file_lines(report)],
        "In accounts": undo_lines(report),
        "Parts": [f"  {item_line(each, endings)}" for each in report.below],
        "Next": [f"  {line}" for line in _next_lines(report, about)],
    }
    lines = [visible(item.title, keep_newlines=False), f"  {_state(item, endings)}"]
    for name, section in sections.items():
        lines += ["", name, *section] if section else []
    return lines


def _state(item: WorkItem, endings: Mapping[str, str]) -> str:
    ending = ending_of(item) or f"{status_of(item, endings.get(item.id)).capitalize()}."
    return f"{ending} {attempts_of(item).capitalize()}. ({item.type.value} {item.id})"


def _asked_lines(item: WorkItem) -> list[str]:
    lines = item.body.strip().splitlines()
    more = [f"  [… {len(lines) - _MAX_BODY_LINES} more lines; --json has them all …]"]
    shown = [in_quotes("\n".join(lines[:_MAX_BODY_LINES]))] if lines else []
    where = item.workspace.path if item.workspace else None
    place = f"  In {where}" if where else "  In a private directory, not among your files"
    return [*shown, *(more if len(lines) > _MAX_BODY_LINES else []), visible(place)]


def _done_lines(report: WorkReport) -> list[str]:
    lines = [attempt_line(report, attempt) for attempt in report.attempts]
    last = report.attempts[-1].calls if report.attempts else []
    for call in last[-_MAX_CALLS_SHOWN:]:
        lines += _call_lines(call)
    if len(last) > _MAX_CALLS_SHOWN:
        lines.append(f"  Before these, {len(last) - _MAX_CALLS_SHOWN} other calls were made.")
    return lines


def _going_on(report: WorkReport) -> str:
    """Where an attempt is that has not ended."""
    if report.expired:
        return "rests: nobody decided in time what it waited for"
    return "waits for you: silas work waiting" if report.waits else "going on"


def _call_lines(call: CallOutput) -> list[str]:
    title = visible(call.title, keep_newlines=False)
    if call.success is None:
        return [f"  {title}: nobody knows how it ended"]
    how = "" if call.success else f"  ({visible(call.error or 'did not work')})"
    text = ends_of(call.text.rstrip(), most=MAX_CALL_CHARS)
    return [f"  {title}{how}", *([in_quotes(text)] if text else [])]


def _check_lines(result: VerificationResult) -> list[str]:
    line = f"  {visible(check_line(result), keep_newlines=False)}"
    failed = not result.passed and result.output.strip()
    return [line, *([in_quotes(readable(result.output).rstrip())] if failed else [])]


def _next_lines(report: WorkReport, about: CardsAbout) -> list[str]:
    name, lines = report.item.id, []
    if about.open is not None:
        lines.append(f"To decide it: silas review show {about.open.card_id}")
    if report.waits:
        lines.append("To see what it waits for: silas work waiting")
    if report.files:
        lines.append(f"What changed, line by line: silas work show {name} --diff")
    if any(call.text for attempt in report.attempts for call in attempt.calls):
        lines.append(f"Everything that was printed: silas work show {name} --output")
    if report.item.status in _GO_ON and not report.waits:
        lines.append(f"To try again: silas work resume {name}")
    if about.undo is not None:
        until = f"{about.undo.expires_at:%H:%M} UTC"
        lines.append(f"To undo it, until {until}: silas review approve {about.undo.card_id}")
    if any(not each.told for each in report.undos):
        lines.append(f"To take back what was done in accounts: silas work undo {name}")
    return lines


def undo_lines(report: WorkReport) -> list[str]:
    """What was done in accounts, and what takes it back."""
    return [f"  call {each.seq}, {each.tool}: {_undone_by(each)}" for each in report.undos]


def _undone_by(offer: UndoOffer) -> str:
    if offer.told or offer.until is None:
        return visible(offer.told or NOTHING_UNDOES, keep_newlines=False)
    return f"{offer.inverse} takes it back, with one command until {offer.until:%H:%M:%S} UTC"


def outputs(report: WorkReport) -> str:
    """Everything that the last attempt and the last checks printed."""
    calls = report.attempts[-1].calls if report.attempts else []
    parts = [f"$ {call.title}\n{call.text.rstrip()}" for call in calls]
    parts += [
        f"Check {each.name}: {each.reason}\n{readable(each.output).rstrip()}"
        for each in report.checks
    ]
    return "\n\n".join(parts) or "Nothing was printed."


def diffs(report: WorkReport, views: Sequence[FileView]) -> str:
    """What changed in these files."""
    if not views:
        return "It changed no files."
    parts = [f"{each.kind.value} {each.path}\n{each.diff or each.note}" for each in views]
    more = len(report.files) - len(views)
    return "\n\n".join([*parts, *([f"and {more} more files"] if more else [])])


def write_new(target: Path, text: str) -> None:
    """Write a text to a file that does not exist yet; raises `FileRefused`."""
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(f"{text}\n" if not text.endswith("\n") else text)
    except OSError as error:
        raise FileRefused(f"{target} cannot be written: {error.strerror}.") from error


def item_line(item: WorkItem, endings: Mapping[str, str]) -> str:
    """One work item in a list."""
    title = visible(item.title, keep_newlines=False)
    status = f"{status_of(item, endings.get(item.id))}, {attempts_of(item)}"
    return f"{item.id} ({item.type.value}): {status}  {title}"


def attempt_line(report: WorkReport, attempt: AttemptReport) -> str:
    """One attempt of a report."""
    ended = attempt.outcome or _going_on(report)
    detail = f": {visible(attempt.detail, keep_newlines=False)}" if attempt.detail else ""
    begun = f"{attempt.started_at:%Y-%m-%d %H:%M:%S} UTC"
    return f"  attempt {attempt.attempt}, {begun}: {ended}{detail}"
