"""What a plan would write, compared with the owner's files, before anybody approves it.

1. It is known where no model does the work and the plan's own blocks say the contents: `file`,
   `edit` and `append` blocks, one after the other, on the files as they are now.
2. What a command does is not known before it runs, and what a model writes is not known before it
   has written it. Then that is said, in one sentence, and nothing is guessed.
3. It is shown, and decides nothing: what is approved is the plan. A file that is changed meanwhile
   gives another difference, and a passage that is not there any more fails.
"""

import asyncio
import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import Field

from silas.kernel.models import Data
from silas.tools.tree import FileRefused, Tree
from silas.work.effects import ChangeKind
from silas.work.models import WorkItem
from silas.work.repository import Repository
from silas.work.script import (
    AppendStep,
    AttachmentStep,
    EditStep,
    FileStep,
    RestoreStep,
    RunStep,
    ScriptInvalid,
    Step,
    read_script,
)

BY_A_MODEL = (
    "A model writes these files after your yes, so what will be in them is not known yet. "
    "The result shows the difference."
)
COMMITS = (
    "Silas also commits what changes, on the branch {}, in your name. Your own branch stays as it "
    "is."
)
BY_COMMANDS = "What the commands of this plan write is not known before they run."
_MAX_FILES = 20
_MAX_FILE_BYTES = 256 * 1024
_MAX_DIFF_LINES = 400
_UNREADABLE = "It cannot be compared with what is there now."
_NO_PASSAGE = "The passage to replace is not there exactly once: this step would fail."
_ATTACHED = "It would hold the attached file, byte by byte."
_EMPTY, _SAME = "It is empty.", "No line of it changes."
_TOO_LONG = "The difference is too long to be shown here. The whole text is in the plan."


class FilePreview(Data):
    """One file as the plan would leave it."""

    path: str
    kind: ChangeKind
    lines: list[str] = Field(default_factory=list)
    """A unified difference without its head: each line begins with `+`, `-`, a space or `@`."""
    added: int = 0
    removed: int = 0
    note: str = ""
    """Why there is no difference, if there is none."""


class PlanPreview(Data):
    """What is known of the files of a plan before the work."""

    files: list[FilePreview] = Field(default_factory=list)
    note: str = ""
    """What is not known, and why, and what else happens; empty if there is nothing to say."""


async def preview_plan(items: Sequence[WorkItem], *, scripted: bool) -> PlanPreview:
    """The preview of the plans of one card; `scripted`: there is no model to do the work."""
    return await asyncio.to_thread(_preview, items, scripted)


def _preview(items: Sequence[WorkItem], scripted: bool) -> PlanPreview:
    folders: dict[str, _Folder] = {}
    unknown: set[str] = set()
    commits: list[str] = []
    for item in items:
        if item.workspace is None or item.workspace.path is None:
            continue
        declares = bool(item.workspace.changes)
        if declares and Repository.is_at(Path(item.workspace.path)):
            commits.append(COMMITS.format(f"silas/{item.id}"))
        if not (scripted or item.script):
            unknown |= {BY_A_MODEL} if declares else set()
            continue
        folder = folders.setdefault(item.workspace.path, _Folder(Path(item.workspace.path)))
        if folder.follow(_steps(item)) and declares:
            unknown.add(BY_COMMANDS)
    files = [each for folder in folders.values() for each in folder.previews()]
    return PlanPreview(files=files[:_MAX_FILES], note=" ".join([*sorted(unknown), *commits]))


def _steps(item: WorkItem) -> list[Step]:
    try:
        return read_script(item.body)
    except ScriptInvalid:
        return []


@dataclass
class _Folder:
    """The owner's files with what the steps so far would have made of them."""

    directory: Path
    before: dict[str, str | None] = field(default_factory=dict)
    """What is there now; None: nothing."""
    after: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    def follow(self, steps: Sequence[Step]) -> bool:
        """Take the steps one after the other; returns whether one is a command."""
        for step in steps:
            match step:
                case FileStep(path, content):
                    self._is_known(path)
                    self.after[path] = content
                case AppendStep(path, content) if self._is_known(path):
                    self.after[path] = (self._now(path) or "") + content
                case EditStep(path, old, new) if self._is_known(path):
                    self._edit(path, old, new)
                case AttachmentStep(path):
                    self._is_known(path)
                    self.notes[path] = _ATTACHED
                case RestoreStep(path):
                    self.notes[path] = _UNREADABLE
                case _:
                    pass
        return any(isinstance(step, RunStep) for step in steps)

    def previews(self) -> list[FilePreview]:
        """One for each file that the steps name."""
        return [self._file(path) for path in {**self.before, **self.notes}]

    def _file(self, path: str) -> FilePreview:
        before, after = self.before.get(path), self.after.get(path)
        kind = ChangeKind.ADDED if before is None and path in self.before else ChangeKind.CHANGED
        note = self.notes.get(path, "")
        if note or after is None:
            return FilePreview(path=path, kind=kind, note=note or _UNREADABLE)
        lines = list(
            difflib.unified_diff((before or "").splitlines(), after.splitlines(), lineterm="")
        )[2:]
        added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
        if len(lines) > _MAX_DIFF_LINES:
            lines, note = [], _TOO_LONG
        elif not lines:
            note = _SAME if before else _EMPTY
        return FilePreview(
            path=path, kind=kind, lines=lines, added=added, removed=removed, note=note
        )

    def _edit(self, path: str, old: str, new: str) -> None:
        text = self._now(path) or ""
        if text.count(old) != 1:
            self.notes[path] = _NO_PASSAGE
        self.after[path] = text.replace(old, new, 1)

    def _now(self, path: str) -> str | None:
        return self.after.get(path, self.before.get(path))

    def _is_known(self, path: str) -> bool:
        """Read what is there now, once; False if it cannot be compared."""
        if path not in self.before and path not in self.notes:
            try:
                with Tree.open(self.directory) as tree:
                    known = tree.exists(path)
                    content = tree.read(path, limit=_MAX_FILE_BYTES) if known else None
                self.before[path] = None if content is None else content.decode()
            except (FileRefused, OSError, UnicodeDecodeError):
                self.notes[path] = _UNREADABLE
        return path in self.before
