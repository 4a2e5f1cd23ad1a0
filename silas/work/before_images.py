"""What files were before Silas changed them, kept for as long as it can be undone.

Only text is kept, and only so much of it: work whose changes do not fit is not undone here, and
nobody is told that it could be.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from silas.kernel import Clock, format_timestamp
from silas.kernel.models import Data
from silas.storage import Database, Transaction
from silas.work.attempt_files import FileChange
from silas.work.errors import FileRefused
from silas.work.tree import Tree

MAX_FILES = 50
MAX_BYTES = 128 * 1024
_INSERT = """
INSERT INTO before_images (work_item_id, attempt, path, before, after, content, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (work_item_id, attempt, path) DO NOTHING
"""


class BeforeImage(Data):
    """One file that was changed; `before` and `after` are hashes, None if it was not there."""

    path: str
    before: str | None
    after: str | None
    content: str | None = None
    """What it held, if it was there."""


def take_images(target: Tree, changes: Sequence[FileChange]) -> list[BeforeImage]:
    """The files as they are, before the changes are taken over; empty if they cannot be kept."""
    images, size = [], 0
    if len(changes) > MAX_FILES:
        return []
    for change in changes:
        content = None
        if change.before is not None:
            text = _text(target, change)
            if text is None:
                return []
            content, size = text, size + len(text)
        if size > MAX_BYTES:
            return []
        images.append(
            BeforeImage(path=change.path, before=change.before, after=change.after, content=content)
        )
    return images


def _text(target: Tree, change: FileChange) -> str | None:
    try:
        if target.digest(change.path) != change.before or target.is_executable(change.path):
            return None
        return target.read(change.path, limit=MAX_BYTES).decode("utf-8")
    except (FileRefused, UnicodeDecodeError):
        return None


@dataclass(frozen=True)
class BeforeImages:
    """The images of one data directory."""

    database: Database
    clock: Clock

    async def keep(self, work_item_id: str, attempt: int, images: Sequence[BeforeImage]) -> None:
        """Keep them."""
        now = format_timestamp(self.clock.now())

        def write(tx: Transaction) -> None:
            for image in images:
                values = (image.path, image.before, image.after, image.content, now)
                tx.execute(_INSERT, (work_item_id, attempt, *values))

        if images:
            await self.database.transaction(write)

    async def of(self, work_item_id: str) -> list[BeforeImage]:
        """Those of the item's last attempt that changed anything."""
        rows = await self.database.fetch_all(
            "SELECT path, before, after, content FROM before_images WHERE work_item_id = ? AND "
            "attempt = (SELECT max(attempt) FROM before_images WHERE work_item_id = ?) "
            "ORDER BY path",
            (work_item_id, work_item_id),
        )
        return [
            BeforeImage(path=row[0], before=row[1], after=row[2], content=row[3]) for row in rows
        ]

    async def prune(self, keep: timedelta) -> int:
        """Forget what can no longer be undone."""
        before = format_timestamp(self.clock.now() - keep)
        return await self.database.execute(
            "DELETE FROM before_images WHERE created_at < ?", (before,)
        )
