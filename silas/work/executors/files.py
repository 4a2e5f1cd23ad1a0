"""What the file tools have in common: they run in Silas's own process, so they are narrow.

They open the workspace by descriptor (`tree.py`) and never follow a link. That needs no sandbox:
nothing of what they read is executed or interpreted, except a regular expression that cannot take
for ever.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from silas.sandbox.placeholders import PROTECTED
from silas.work.errors import FileRefused
from silas.work.execution_models import ExecutionEnvelope, ExecutionResult
from silas.work.executors.results import failed
from silas.work.tree import Tree, split_path

MAX_FILE_BYTES = 8 * 1024 * 1024
T = TypeVar("T")


async def in_workspace(
    envelope: ExecutionEnvelope, work: Callable[[Tree], ExecutionResult]
) -> ExecutionResult:
    """Do the work on the open workspace, off the event loop; a refusal becomes a result."""

    def inside() -> ExecutionResult:
        with Tree.open(Path(envelope.sandbox_config.work_dir)) as tree:
            return work(tree)

    try:
        return await asyncio.to_thread(inside)
    except FileRefused as error:
        return failed(envelope, error.message)


def require_writable(envelope: ExecutionEnvelope, name: str) -> None:
    """Refuse files that the approval covers, and names that make other programs run code."""
    parts = split_path(name)
    held = sorted(set(parts) & set(PROTECTED))
    if held:
        raise FileRefused(f"{name}: {held[0]} is protected, because other programs act on it.")
    target = f"{envelope.sandbox_config.work_dir}/{name}"
    if target in envelope.sandbox_config.filesystem_read:
        raise FileRefused(f"{name} is part of what was approved and cannot be changed.")


def read_text(tree: Tree, name: str) -> str:
    """A text file of the workspace."""
    raw = tree.read(name, limit=MAX_FILE_BYTES)
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise FileRefused(f"{name} is not UTF-8 text.") from error


def cut(text: str, envelope: ExecutionEnvelope) -> str:
    """The text, as long as the envelope allows."""
    if len(text) <= envelope.max_output_bytes:
        return text
    return text[: envelope.max_output_bytes] + "\n[the rest was dropped]"
