"""What plans declare and what work came to, in the same words on every surface.

1. The card of a plan lists every path that it adds, changes and removes. A pattern is said in
   words, and a file that other programs execute is marked, and so is one that becomes a program.
2. Work is "done, and checked" only if a check has failed before it, passes after it and could not
   be influenced by the worker. Everything else that was carried out is "done, not checked", and the
   reason stands beside it.
3. What was made and not taken over is listed like what was taken over.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from silas.tools.tree import is_pattern
from silas.work.before_images import BeforeImages
from silas.work.effects import ChangeKind, DeclaredChanges, FileChange, executed_by
from silas.work.models import (
    ENDED_WELL,
    VerificationCheck,
    VerificationResult,
    WorkItem,
    WorkItemResult,
    WorkItemStatus,
    WorkItemType,
)

NO_CHANGES = "Changes no files of yours."
NO_PROOF = "Nothing will show that this is done."
DONE_AND_CHECKED = "Done, and checked."
DONE_NOT_CHECKED = "Done, not checked"
_VERBS = {
    ChangeKind.ADDED: "Adds",
    ChangeKind.CHANGED: "Changes",
    ChangeKind.REMOVED: "Removes",
}
_MAX_FILES_SHOWN = 50
_STATUS_WORDS = {
    WorkItemStatus.UNCHECKED: "done, not checked",
    WorkItemStatus.REPLACED: "replaced by another plan",
}
_NOT_BEGUN = {
    "declined": "declined",
    "edit_requested": "sent back for changes",
    "replaced": "replaced by another plan",
    "expired": "not decided in time",
    "withdrawn": "withdrawn",
}
"""How a plan ended that was never begun, by how its card ended."""


def verb_of(kind: ChangeKind) -> str:
    """What a plan does to a file of this kind: `Adds`, `Changes`, `Removes`."""
    return _VERBS[kind]


def declared_paths(changes: DeclaredChanges) -> Iterator[tuple[ChangeKind, str]]:
    """Every path and pattern that is declared, with what happens to it."""
    for kind, paths in (
        (ChangeKind.ADDED, changes.add),
        (ChangeKind.CHANGED, changes.change),
        (ChangeKind.REMOVED, changes.remove),
    ):
        yield from ((kind, path) for path in paths)


def path_notes(changes: DeclaredChanges) -> dict[str, str]:
    """What the owner should know of a path beside its name, for those that have such a thing."""
    notes = {path: _note(changes, path) for _, path in declared_paths(changes)}
    return {path: note for path, note in notes.items() if note}


def _note(changes: DeclaredChanges, path: str) -> str:
    if is_pattern(path):
        return f"{_pattern_in_words(path)} that no other program executes"
    said = ["becomes a program"] if path in changes.executable else []
    who = executed_by(path)
    return ", ".join([*said, f"{who} executes it"] if who else said)


def _pattern_in_words(pattern: str) -> str:
    directory, _, last = pattern.rpartition("/")
    if directory and not is_pattern(directory) and last in ("*", "**"):
        return f"every file {'below' if last == '**' else 'in'} {directory}/"
    deep = directory.removesuffix("**").removesuffix("/")
    if last == "*" and deep != directory and deep and not is_pattern(deep):
        return f"every file below {deep}/"
    return "every matching file"


def plan_lines(item: WorkItem) -> list[str]:
    """What a plan would change, and what would show that it is done (rule 1)."""
    if item.type is WorkItemType.PROJECT and not item.workspace:
        changes = []  # its tasks say it
    else:
        changes = _changes_lines(item.workspace.changes if item.workspace else DeclaredChanges())
    notes = [
        f"Check “{check.name}”: {note}" for check in item.verify if (note := check_note(check))
    ]
    return [*changes, *notes, *([] if has_proof(item) else [NO_PROOF])]


def _changes_lines(changes: DeclaredChanges) -> list[str]:
    notes = path_notes(changes)
    lines = [
        f"{verb_of(kind)} {path}{_in_brackets(notes.get(path, ''))}"
        for kind, path in declared_paths(changes)
    ]
    return lines or [NO_CHANGES]


def _in_brackets(text: str) -> str:
    return f" ({text})" if text else ""


def check_note(check: VerificationCheck) -> str:
    """Says so if the worker can influence a check."""
    written = ", ".join(check.influenced_by)
    return f"The worker can influence this check: it writes {written}." if written else ""


def has_proof(item: WorkItem) -> bool:
    """Whether the plan has a check that could show that the work is done.

    A goal is what its checks look at, and a project is done when its tasks are.
    """
    if item.type is not WorkItemType.TASK:
        return not item.without_proof
    return not item.without_proof and any(not check.influenced_by for check in item.verify)


def is_proven(item: WorkItem) -> bool:
    """Whether something has shown that an item is done (rule 2)."""
    if item.status is not WorkItemStatus.DONE:
        return False
    if item.type is WorkItemType.PROJECT:
        return True  # each of its tasks was, or a check of its own has shown it
    return any(result.proves for result in last_results(item))


def last_results(item: WorkItem) -> list[VerificationResult]:
    """The results of the last attempt: a work item keeps those of all, in order."""
    return item.verification_results[-len(item.verify) :] if item.verify else []


def ending_of(item: WorkItem) -> str:
    """How work that was carried out ended (rule 2); empty for every other status."""
    if item.status not in ENDED_WELL:
        return ""
    proven = WorkItemStatus.DONE if is_proven(item) else WorkItemStatus.UNCHECKED
    return describe_ending(proven, last_results(item))


def describe_ending(status: WorkItemStatus, results: Sequence[VerificationResult]) -> str:
    """What can be said of work that was carried out."""
    if status is WorkItemStatus.DONE:
        return DONE_AND_CHECKED
    return f"{DONE_NOT_CHECKED}: {why_unchecked(results)}."


def why_unchecked(results: Sequence[VerificationResult]) -> str:
    """Why none of these shows that the work is done."""
    if not results:
        return "the plan has no checks"
    reasons = {
        "the worker could influence the checks": any(each.influenced_by for each in results),
        "the checks passed before the work too": any(
            each.passed_before and not each.influenced_by for each in results
        ),
        "nobody looked whether the checks passed before the work": all(
            each.passed_before is None and not each.influenced_by for each in results
        ),
    }
    said = [reason for reason, holds in reasons.items() if holds]
    return ", or ".join(said) if said else "no check has shown it"


def outcome_of(result: VerificationResult) -> str:
    """What a check says about the work."""
    if not result.passed:
        return "failed"
    if result.influenced_by:
        return "passes; the worker could influence it"
    if result.passed_before is None:
        return "passes"
    return "still passes" if result.passed_before else "failed before, passes now"


def check_line(result: VerificationResult) -> str:
    """One check of a report."""
    why = "" if result.passed else _in_brackets(result.reason)
    return f"check {outcome_of(result)}: {result.name}{why}"


def counted(kinds: Iterable[ChangeKind]) -> str:
    """How many files were added, changed and removed: `2 added, 50 removed`."""
    found = Counter(kinds)
    return ", ".join(f"{found[kind]} {kind.value}" for kind in ChangeKind if found[kind])


def file_lines(taken: Sequence[FileChange], left: Sequence[FileChange]) -> list[str]:
    """What became of the owner's files, and what did not (rule 3); never more than a page.

    What is not named is counted by its kind: fifty removals are not "50 more files".
    """
    changes = [*taken, *left]
    lines = [f"{each.kind.value} {each.path}" for each in taken]
    lines += [f"not taken over: {each.kind.value} {each.path}" for each in left]
    if len(lines) <= _MAX_FILES_SHOWN:
        return lines
    rest = counted(each.kind for each in changes[_MAX_FILES_SHOWN:])
    more = f"and {len(lines) - _MAX_FILES_SHOWN} more files: {rest}"
    return [*lines[:_MAX_FILES_SHOWN], more]


async def taken_and_left(
    images: BeforeImages, work_item_id: str
) -> tuple[list[FileChange], list[FileChange]]:
    """What is written down of an item's changes: those that were taken over, and the others."""
    found = await images.of(work_item_id)
    return [each for each in found if each.taken], [each for each in found if not each.taken]


def has_owners_files(item: WorkItem) -> bool:
    """Whether the item works on the owner's files, not in a directory of its attempt's own."""
    return item.workspace is not None and item.workspace.path is not None


def kept_lines(result: WorkItemResult) -> list[str]:
    """What the work made and Silas keeps, beside the owner's files."""
    known = {each.path for each in (*result.changes, *result.left)}
    names = sorted(set(result.artifacts) - known)
    return [f"kept by Silas, not among your files: {name}" for name in names]


def status_words(status: WorkItemStatus) -> str:
    """A status as people say it."""
    return _STATUS_WORDS.get(status, status.value)


def status_of(item: WorkItem, ending: str | None = None) -> str:
    """Where an item stands, as people say it. `ending` is how its card ended, if not with a yes.

    Only the owner makes a task `failed`: work that was stopped did not fail, and a plan that was
    declined, replaced or never decided did not even begin.
    """
    stopped = item.is_cancelled or item.type is WorkItemType.TASK
    if item.status is not WorkItemStatus.FAILED or not stopped:
        return status_words(item.status)
    return "cancelled" if item.attempts or ending is None else _NOT_BEGUN.get(ending, "declined")


def attempts_of(item: WorkItem) -> str:
    """How often it was tried. A goal is looked at again and again: nobody limits how often."""
    count = item.attempts
    if item.type is WorkItemType.GOAL:
        return f"looked at {count} {'time' if count == 1 else 'times'}"
    if item.status is WorkItemStatus.RUNNING and 0 < count <= item.budget.max_attempts:
        return f"attempt {count} of {item.budget.max_attempts}"
    return "not begun" if not count else f"{count} attempt{'' if count == 1 else 's'}"


def beyond_line(args: Mapping[str, object]) -> str:
    """One file that work changed beyond its plan: what happened to it, and who executes it."""
    who, kind = args.get("executed_by"), str(args.get("kind", "changed"))
    said = [f"{who} executes it"] if who else []
    if args.get("executable"):
        said.append("it is a program")
    return f"{kind} {args.get('path', '')}{_in_brackets('; '.join(said))}"
