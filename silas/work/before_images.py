"""What files were before Silas changed them: written down, and kept, before they are touched.

1. Every file that is taken over is written down with its hashes before and after, and so is every
   file that the work changed and that was left.
2. What a changed or removed file held is kept whole, whatever its type, in a private file named by
   its SHA-256: the same content is kept once. It is on the disk before its row is written, and its
   row is written before the owner's file is touched.
3. What cannot be kept is neither changed nor removed: the whole take-over is refused.
4. Keeping can be repeated. After a crash in the middle of a take-over, files that are already what
   they were to become are not looked at again.
5. Rows are forgotten when they are old, and contents when no row speaks of them any more. Whoever
   keeps holds a lock meanwhile, so that nothing is forgotten between its content and its row.
"""

import asyncio
import fcntl
import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO

from silas.kernel import Clock, format_timestamp, parse_timestamp
from silas.storage import Database, Durability, Transaction
from silas.storage.files import PRIVATE_DIRECTORY, PRIVATE_FILE, make_private_directory
from silas.tools.tree import READ, FileRefused, Tree, descend, put_stream
from silas.work.attempt_files import MAX_BYTES, require_no_conflict
from silas.work.effects import FileChange
from silas.work.errors import PublicationConflict

_DIGEST = re.compile(r"[0-9a-f]{64}")
_LOCK = "lock"
_LOCK_WAIT_SECONDS = 0.05
_COLUMNS = (
    "path, before, after, executable, was_executable, taken, work_item_id, directory, created_at"
)
# What was left and is taken after all is taken; what was written down as taken stays as it was.
_INSERT = f"""
INSERT INTO file_changes (attempt, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (work_item_id, attempt, path) DO UPDATE SET
    before = excluded.before, after = excluded.after, executable = excluded.executable,
    was_executable = excluded.was_executable, taken = excluded.taken,
    directory = excluded.directory
WHERE file_changes.taken = 0
"""  # noqa: S608 - names of columns
_OF = f"""
SELECT {_COLUMNS}, content IS NOT NULL FROM file_changes WHERE work_item_id = ?
AND attempt = (SELECT max(attempt) FROM file_changes WHERE work_item_id = ?) ORDER BY path
"""  # noqa: S608 - names of columns
_KEPT_FOR = "SELECT 1 FROM file_changes WHERE before = ? AND directory = ? AND taken = 1 LIMIT 1"
_REFERRED_TO = "SELECT 1 FROM file_changes WHERE before = ? AND taken = 1 LIMIT 1"
_TEXT = "SELECT content FROM file_changes WHERE before = ? AND content IS NOT NULL LIMIT 1"


class BeforeImage(FileChange):
    """One file that work has changed: what it was, what it became, and whether it can be had."""

    taken: bool = True
    """Whether the change was taken over; what was made and left did not touch the owner's files."""
    kept: bool = True
    """Whether what it held is still there, if it held anything."""
    work_item_id: str = ""
    directory: str = ""
    """Whose file it is: the owner's directory."""
    created_at: datetime


@dataclass(frozen=True)
class BeforeImages:
    """What was kept in one data directory: rows in its database, contents below `directory`."""

    database: Database
    clock: Clock
    directory: Path

    async def keep(
        self, work_item_id: str, attempt: int, changes: Sequence[FileChange], target: Tree
    ) -> None:
        """Keep what the changes will replace and remove; call it before they are made.

        Raises `PublicationConflict` if a file is not what it was, and `FileRefused` if one cannot
        be kept: then nothing may be changed.
        """
        if not changes:
            return
        lock = await self._shared_lock()
        try:
            modes = await asyncio.to_thread(self._contents.keep_all, target, changes)
            rows = [
                change.model_copy(update={"was_executable": modes.get(change.path, False)})
                for change in changes
            ]
            where = str(target.path)
            await self._write_down(work_item_id, attempt, rows, directory=where, taken=True)
        finally:
            os.close(lock)

    async def _shared_lock(self) -> int:
        # Whoever waited for it in a thread could keep the one who has it from going on.
        while (lock := self._contents.lock(fcntl.LOCK_SH)) is None:  # noqa: ASYNC110 - or a process
            await asyncio.sleep(_LOCK_WAIT_SECONDS)
        return lock

    async def left(self, work_item_id: str, attempt: int, changes: Sequence[FileChange]) -> None:
        """Write down what the work changed and nobody took over; nothing is kept of it."""
        await self._write_down(work_item_id, attempt, changes, directory="", taken=False)

    async def _write_down(
        self,
        work_item_id: str,
        attempt: int,
        changes: Sequence[FileChange],
        *,
        directory: str,
        taken: bool,
    ) -> None:
        now = format_timestamp(self.clock.now())

        def write(tx: Transaction) -> None:
            for each in changes:
                modes = (int(each.executable), int(each.was_executable), int(taken))
                known = (attempt, each.path, each.before, each.after, *modes)
                tx.execute(_INSERT, (*known, work_item_id, directory, now))

        if changes:
            await self.database.transaction(write, durability=Durability.TRUST)

    async def of(self, work_item_id: str) -> list[BeforeImage]:
        """The changes of the item's last attempt that made any: those taken over, those left."""
        rows = await self.database.fetch_all(_OF, (work_item_id, work_item_id))
        return await asyncio.to_thread(lambda: [self._image(row) for row in rows])

    def _image(self, row: Sequence[Any]) -> BeforeImage:
        path, before, after, executable, was_executable, taken, item, directory, at, text = row
        return BeforeImage(
            path=path,
            before=before,
            after=after,
            executable=bool(executable),
            was_executable=bool(was_executable),
            taken=bool(taken),
            kept=before is None or bool(text) or self._contents.has(before),
            work_item_id=item,
            directory=directory,
            created_at=parse_timestamp(at),
        )

    async def content(self, digest: str) -> bytes | None:
        """What a file with this SHA-256 held; None if it is not kept, or not whole."""
        found = await asyncio.to_thread(self._contents.read, digest)
        if found is None:
            row = await self.database.fetch_one(_TEXT, (digest,))
            found = str(row[0]).encode() if row else None
        return found if found is not None and _hash(found) == digest else None

    async def content_for(self, directory: str, digest: str) -> bytes | None:
        """The same, if it was in this directory: what was elsewhere is not brought here."""
        if await self.database.fetch_one(_KEPT_FOR, (digest, directory)) is None:
            return None
        return await self.content(digest)

    async def forget(self, work_item_id: str, attempt: int) -> None:
        """Forget a take-over that was dropped before anything was touched."""
        await self.database.execute(
            "DELETE FROM file_changes WHERE work_item_id = ? AND attempt = ?",
            (work_item_id, attempt),
        )

    async def prune(self, keep: timedelta) -> int:
        """Forget what is older, and every content that no row speaks of; returns how many rows."""
        before = format_timestamp(self.clock.now() - keep)
        gone = await self.database.execute(
            "DELETE FROM file_changes WHERE created_at < ?", (before,)
        )
        lock = self._contents.lock(fcntl.LOCK_EX)
        if lock is None:
            return gone  # somebody keeps something just now; the next time will do
        try:
            for digest in await asyncio.to_thread(self._contents.digests):
                if await self.database.fetch_one(_REFERRED_TO, (digest,)) is None:
                    await asyncio.to_thread(self._contents.remove, digest)
        finally:
            os.close(lock)
        return gone

    @property
    def _contents(self) -> "_Contents":
        return _Contents(self.directory)


@dataclass(frozen=True)
class _Contents:
    """Private files named by what they hold: `ab/cdef…`."""

    root: Path

    def lock(self, how: int) -> int | None:
        """A descriptor that holds the lock until it is closed; None if somebody else has it."""
        try:
            make_private_directory(self.root)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(self.root / _LOCK, flags, PRIVATE_FILE)
        except OSError as error:
            raise FileRefused(_unkept("What is to be changed", self.root, error)) from error
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor

    def keep_all(self, target: Tree, changes: Sequence[FileChange]) -> dict[str, bool]:
        """Keep what is there; returns which of the files that were there are executable."""
        for change in changes:
            _require_text(change.path)
        require_no_conflict(target, [*changes])
        modes: dict[str, bool] = {}
        left = MAX_BYTES
        for change in changes:
            if change.before is None or target.digest(change.path) != change.before:
                continue  # rule 4
            modes[change.path] = target.is_executable(change.path)
            left -= self._keep(target, change.path, change.before, limit=left)
        return modes

    def _keep(self, target: Tree, name: str, digest: str, *, limit: int) -> int:
        """Keep one file; returns its size."""
        size = target.size(name)
        if size > limit:
            raise FileRefused(
                f"{name} cannot be kept for undo: all that the work replaces and removes has more "
                f"than {MAX_BYTES} bytes. Nothing was changed. Do it in several plans."
            )

        def copy(file: BinaryIO) -> None:
            if target.copy_to(name, file) != digest:
                raise PublicationConflict(f"{name} was changed just now.", files=[name])

        try:
            with descend(self.root, [digest[:2]], make=_make) as directory:
                if _digest_in(directory, digest[2:]) != digest:
                    put_stream(directory, digest[2:], copy, mode=PRIVATE_FILE)
                    os.fsync(directory)
        except (OSError, FileRefused) as error:
            raise FileRefused(_unkept(name, self.root, error)) from error
        return size

    def has(self, digest: str) -> bool:
        return _DIGEST.fullmatch(digest) is not None and self._path(digest).is_file()

    def read(self, digest: str) -> bytes | None:
        if not self.has(digest):
            return None
        try:
            with (
                descend(self.root, [digest[:2]]) as directory,
                os.fdopen(os.open(digest[2:], READ, dir_fd=directory), "rb") as file,
            ):
                return file.read()
        except OSError:
            return None

    def digests(self) -> list[str]:
        """Everything that is kept; what a crash left half written is removed on the way."""
        found = []
        for path in self.root.glob("??/*"):
            digest = path.parent.name + path.name
            if _DIGEST.fullmatch(digest):
                found.append(digest)
            else:
                path.unlink(missing_ok=True)
        return found

    def remove(self, digest: str) -> None:
        path = self._path(digest)
        path.unlink(missing_ok=True)
        with suppress(OSError):  # it holds others
            path.parent.rmdir()

    def _path(self, digest: str) -> Path:
        return self.root / digest[:2] / digest[2:]


def net_changes(images: Iterable[BeforeImage]) -> list[BeforeImage] | None:
    """What several works together have changed in one directory: from the first to the last.

    None if somebody else has changed a file in between: nobody knows what that was.
    """
    first: dict[str, BeforeImage] = {}
    for image in sorted(images, key=lambda each: each.created_at):
        earlier = first.get(image.path)
        if earlier is None:
            first[image.path] = image
        elif (earlier.after, earlier.executable) == (image.before, image.was_executable):
            update = {"after": image.after, "executable": image.executable}
            first[image.path] = earlier.model_copy(update=update)
        else:
            return None
    return [
        image
        for _, image in sorted(first.items())
        if (image.before, image.was_executable) != (image.after, image.executable)
    ]


def _unkept(name: str, root: Path, error: OSError | FileRefused) -> str:
    cause = error if isinstance(error, OSError) else error.__cause__
    reason = cause.strerror if isinstance(cause, OSError) else str(error).rstrip(".")
    return (
        f"{name} cannot be kept for undo ({reason}). Nothing was changed. Make room in {root}, "
        "then resume the work."
    )


def _require_text(path: str) -> None:
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise FileRefused(f"{path!a} is not a name in UTF-8 and cannot be written down.") from error


def _digest_in(directory: int, name: str) -> str | None:
    """What is kept under this name already: a file that is not whole is written anew."""
    try:
        with os.fdopen(os.open(name, READ, dir_fd=directory), "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None


def _make(part: str, directory: int) -> None:
    try:
        os.mkdir(part, PRIVATE_DIRECTORY, dir_fd=directory)
    except FileExistsError:
        return
    os.fsync(directory)


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
