"""Artifacts: what an attempt left behind, in a namespace `{plan}/{task}/{attempt}` of its own.

The file is written first and recorded afterwards with its hash; a file without a record does not
exist. What is given out has the recorded hash, or is refused.

Names come from what a sandboxed command wrote, so they are not trusted: every part is opened
relative to the directory before it, and a symbolic link, a device or a pipe in the way is refused.
"""

import asyncio
import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pydantic import Field

from silas.kernel import Clock, format_timestamp
from silas.kernel.models import Data
from silas.storage import Database, Durability
from silas.storage.files import PRIVATE_DIRECTORY, PRIVATE_FILE, make_private_directory
from silas.tools.tree import READ, descend, put_file
from silas.work.errors import ArtifactRefused
from silas.work.models import ALL_ARTIFACTS, WorkItemId

_MAX_PART_BYTES = 200
_MAX_PARTS = 32


def split_name(name: str) -> list[str]:
    """The parts of an artifact's name; raises `ArtifactRefused` unless each is a plain one."""
    parts = name.split("/")
    if len(parts) > _MAX_PARTS or not all(_is_plain(part) for part in parts):
        raise ArtifactRefused(
            f"{name[:200]!a} cannot be the name of an artifact: it must be a relative path without "
            "`.`, `..`, empty parts or control characters."
        )
    return parts


def write_file(root: Path, parts: Sequence[str], content: bytes) -> None:
    """Write the file as a whole, creating the directories above it."""
    with _refusing(parts):
        make_private_directory(root)
    with _refusing(parts), descend(root, parts[:-1], make=_make) as directory:
        put_file(directory, parts[-1], content, mode=PRIVATE_FILE)
        os.fsync(directory)


def read_file(root: Path, parts: Sequence[str], *, size: int) -> bytes:
    """The content of a regular file of exactly this size."""
    with _refusing(parts), descend(root, parts[:-1]) as directory:
        descriptor = os.open(parts[-1], READ, dir_fd=directory)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size != size:
                raise ArtifactRefused(f"{'/'.join(parts)} is not the file that was kept here.")
            return file.read(size)


def _make(part: str, directory: int) -> None:
    try:
        os.mkdir(part, PRIVATE_DIRECTORY, dir_fd=directory)
    except FileExistsError:
        return
    os.fsync(directory)


@contextmanager
def _refusing(parts: Sequence[str]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ArtifactRefused(
            f"{'/'.join(parts)} cannot be kept or read: {error.strerror}."
        ) from error


def _is_plain(part: str) -> bool:
    hidden = any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 for char in part)
    if part in ("", ".", "..") or hidden:
        return False
    try:
        return len(part.encode("utf-8")) <= _MAX_PART_BYTES
    except UnicodeEncodeError:
        return False


MAX_ARTIFACT_BYTES = 64 * 1024 * 1024

_RECORD = """
INSERT INTO work_artifacts (plan_id, task_id, attempt, name, sha256, size, kept_at)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (plan_id, task_id, attempt, name)
DO UPDATE SET sha256 = excluded.sha256, size = excluded.size, kept_at = excluded.kept_at
"""
_LIST = """
SELECT name, sha256, size FROM work_artifacts
WHERE plan_id = ? AND task_id = ? AND attempt = ? ORDER BY name
"""


class ArtifactNamespace(Data):
    """The attempt that artifacts belong to. A task that is a plan of its own is its own plan."""

    plan: WorkItemId
    task: WorkItemId
    attempt: int = Field(ge=1)

    @property
    def parts(self) -> list[str]:
        return [self.plan, self.task, str(self.attempt)]


class Artifact(Data):
    """One kept file."""

    name: str
    sha256: str
    size: int


class ArtifactStore:
    """The artifacts of one data directory, below `root`."""

    def __init__(self, database: Database, root: Path, *, clock: Clock) -> None:
        self._database = database
        self._root = root
        self._clock = clock

    async def keep(self, namespace: ArtifactNamespace, name: str, content: bytes) -> Artifact:
        """Keep a file; one with the same name in the same attempt is replaced."""
        if len(content) > MAX_ARTIFACT_BYTES:
            raise ArtifactRefused(f"An artifact may have at most {MAX_ARTIFACT_BYTES} bytes.")
        parts = [*namespace.parts, *split_name(name)]
        artifact = Artifact(
            name=name, sha256=hashlib.sha256(content).hexdigest(), size=len(content)
        )
        await asyncio.to_thread(write_file, self._root, parts, content)
        await self._database.execute(
            _RECORD,
            (
                *(namespace.plan, namespace.task, namespace.attempt),
                *(artifact.name, artifact.sha256, artifact.size),
                format_timestamp(self._clock.now()),
            ),
            durability=Durability.TRUST,
        )
        return artifact

    async def list_in(self, namespace: ArtifactNamespace) -> list[Artifact]:
        """The artifacts of an attempt, by name."""
        values = (namespace.plan, namespace.task, namespace.attempt)
        rows = await self._database.fetch_all(_LIST, values)
        return [Artifact(name=name, sha256=sha256, size=size) for name, sha256, size in rows]

    async def read(self, namespace: ArtifactNamespace, name: str) -> bytes:
        """The content of an artifact, exactly as it was kept."""
        kept = {artifact.name: artifact for artifact in await self.list_in(namespace)}
        if name not in kept:
            raise ArtifactRefused(f"There is no artifact {name!a} in {'/'.join(namespace.parts)}.")
        parts = [*namespace.parts, *split_name(name)]
        content = await asyncio.to_thread(read_file, self._root, parts, size=kept[name].size)
        if hashlib.sha256(content).hexdigest() != kept[name].sha256:
            raise ArtifactRefused(f"{'/'.join(parts)} is not the file that was kept here.")
        return content

    async def choose(self, namespace: ArtifactNamespace, wanted: list[str]) -> list[Artifact]:
        """The artifacts that a follow-up imports; `["*"]` means all, a missing one is refused."""
        kept = await self.list_in(namespace)
        if wanted == [ALL_ARTIFACTS]:
            return kept
        missing = sorted(set(wanted) - {artifact.name for artifact in kept})
        if missing:
            where = "/".join(namespace.parts)
            raise ArtifactRefused(f"These artifacts are not in {where}: {', '.join(missing)}.")
        return [artifact for artifact in kept if artifact.name in wanted]
