"""Undo: offered only where the work has left what it takes, and done by a plan of its own.

The plan puts back what the files held, if they still are what the work has made of them, and its
checks compare the result. It is approved, executed and checked like any other.
"""

import shlex
from collections.abc import Sequence
from datetime import timedelta

from silas.stream.decisions import UNDO
from silas.stream.turn_context import TurnContext
from silas.work.before_images import BeforeImage
from silas.work.checks import VerificationCheck
from silas.work.models import WorkItem, WorkItemType
from silas.work.offline_script import FileStep, RunStep, ScriptInvalid, Step, read_script

WINDOW = timedelta(minutes=5)


def is_undo(item: WorkItem) -> bool:
    """Whether this is itself an undo; that is not undone again."""
    return item.domain == UNDO


def undo_item(room: TurnContext, item: WorkItem, images: Sequence[BeforeImage]) -> WorkItem | None:
    """The plan that takes an item's changes back; None if there is none that surely would."""
    workspace = item.workspace
    if workspace is None or workspace.path is None or not images or is_undo(item):
        return None
    steps = [step for image in images for step in _steps(image)]
    body = "\n\n".join(
        [
            "# What to do",
            "Put back what was there before.",
            *map(_block, (_unchanged(images), *steps)),
        ]
    )
    try:
        if read_script(body) != [_unchanged(images), *steps]:
            return None
    except ScriptInvalid:
        return None
    return WorkItem(
        id=room.ids.new(UNDO),
        type=WorkItemType.TASK,
        title=f"Undo: {item.title}"[:200],
        domain=UNDO,
        budget=item.budget,
        body=f"{body}\n",
        verify=[_check(image) for image in images],
        workspace=workspace.model_copy(update={"files": {}, "env": {}, "network": False}),
        on_stuck="report",
    )


def summary_of(images: Sequence[BeforeImage]) -> str:
    """What would be taken back, in words."""
    made = sum(image.before is None for image in images)
    changed = len(images) - made
    parts = [
        _counted(changed, "file is", "files are", "put back"),
        _counted(made, "new file is", "new files are", "removed"),
    ]
    return ", ".join(part for part in parts if part) + "."


def _counted(count: int, one: str, more: str, what: str) -> str:
    return f"{count} {one if count == 1 else more} {what}" if count else ""


def _unchanged(images: Sequence[BeforeImage]) -> RunStep:
    """Whoever has changed a file since keeps it: then nothing at all is undone."""
    tests = [_test(image.path, image.after) for image in images]
    return RunStep(("sh", "-c", " && ".join(tests)))


def _test(path: str, digest: str | None) -> str:
    quoted = shlex.quote(path)
    if digest is None:
        return f"test ! -e {quoted}"
    return f'test "$(sha256sum < {quoted})" = "{digest}  -"'


def _steps(image: BeforeImage) -> list[Step]:
    if image.content is None:
        return [RunStep(("rm", "--", image.path))]
    return [FileStep(image.path, image.content)]


def _check(image: BeforeImage) -> VerificationCheck:
    name = f"{image.path} is as before"[:200]
    run = _test(image.path, image.before)
    return VerificationCheck.model_validate({"name": name, "run": run, "expect": {"exit_code": 0}})


def _block(step: Step) -> str:
    if isinstance(step, FileStep):
        ticks = "````" if "```" in step.content else "```"
        return f"{ticks}file path={step.path}\n{step.content}{ticks}"
    argv = step.argv if isinstance(step, RunStep) else ()
    return f"```run\n{shlex.join(argv)}\n```"
