"""Whose text a file is, and what a stranger's text has reached.

What is known, in this order; the first that says something decides:

1. Silas has delivered exactly this content to this place: it is what the run was that wrote it. A
   run that read nothing of a stranger's writes the owner's files: the owner approved its plan.
2. Silas has delivered this content elsewhere, from a stranger's text: a copy is a stranger's too.
3. The last content that Silas delivered to this place was made from a stranger's text, and somebody
   has changed it since: most of it may still be theirs.
4. The place says that others write there: a repository with a remote that the owner does not call
   their own, a directory of installed packages, the downloads, a file that a browser or a download
   has marked with its address, a file that belongs to another user of the machine.
5. Everything else in the owner's directories is the owner's: they put it there.

Nothing here becomes less foreign by being written down again: a row that says `external` stays.
"""

import asyncio
import hashlib
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from silas.kernel import (
    OWNERS,
    Clock,
    Provenance,
    TaintLevel,
    external,
    format_timestamp,
)
from silas.storage import Database, Reader, Row, Transaction
from silas.tools.execution import ACCOUNT_OF
from silas.work.effects import FileChange

_PACKAGES = frozenset({"node_modules", "site-packages", ".venv", "vendor", "third_party"})
_DOWNLOADS, _IN_DOWNLOADS = "Downloads", "in your downloads"
_ADDRESS = "user.xdg.origin.url"
_SCHEMES = frozenset({"https", "http", "ssh", "git", "git+ssh", "ssh+git"})
_HOST = re.compile(r"[^/?#\\]*")
_LEADS_ELSEWHERE = re.compile(r"(?:^|/)\.{1,2}(?:/|$)|[%\\?#\s]")
"""What a transport reads as another path than it looks like."""
_MAX_CONFIG_BYTES = 256 * 1024
_SAYS_LITTLE_BYTES = 32
"""A content that is shorter is equal to others by chance."""
_OF_DIRECTORY = """
SELECT path, digest, taint, sources FROM file_origins WHERE path >= ? AND path < ?
ORDER BY written_at, digest
"""
_FOREIGN_DIGESTS = "SELECT digest, sources FROM file_origins WHERE taint = 'external'"
_NOTE_FILE = """
INSERT INTO file_origins (path, digest, taint, sources, work_item_id, written_at)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (path, digest) DO UPDATE SET
    taint = CASE WHEN file_origins.taint = 'external' THEN 'external' ELSE excluded.taint END,
    sources = CASE WHEN file_origins.taint = 'external' THEN file_origins.sources
        ELSE excluded.sources END,
    work_item_id = excluded.work_item_id, written_at = excluded.written_at
"""
_OF_WORK = "SELECT taint, sources FROM work_origins WHERE work_item_id = ?"
_NOTE_WORK = """
INSERT INTO work_origins (work_item_id, taint, sources, noted_at) VALUES (?, ?, ?, ?)
ON CONFLICT (work_item_id) DO UPDATE SET
    taint = excluded.taint, sources = excluded.sources, noted_at = excluded.noted_at
"""


class OriginStore:
    """What Silas knows about whose text is whose, of one data directory.

    `own_repositories` are the beginnings of remotes that the owner calls their own, such as
    `github.com/me/`.
    """

    def __init__(
        self, database: Database, clock: Clock, *, own_repositories: Sequence[str] = ()
    ) -> None:
        self._database = database
        self._clock = clock
        self._own = tuple(_plain_address(each) for each in own_repositories)

    def note_work_in(self, tx: Transaction, work_item_id: str, found: Provenance) -> None:
        """Write down what a plan was made from, or what its run has read; it only grows."""
        known = _of_work(tx, work_item_id)
        joined = found if known is None else known.joined(found)
        if joined != known:
            now = format_timestamp(self._clock.now())
            sources = json.dumps(joined.sources)
            tx.execute(_NOTE_WORK, (work_item_id, joined.taint.value, sources, now))

    async def note_work(self, work_item_id: str, found: Provenance) -> None:
        """The same in a transaction of its own."""
        await self._database.transaction(lambda tx: self.note_work_in(tx, work_item_id, found))

    async def of_work(self, work_item_ids: Iterable[str]) -> Provenance:
        """What is written down about these items, joined; the owner's where nothing is."""
        names = list(work_item_ids)

        def read(reader: Reader) -> Provenance:
            return self.of_work_in(reader, names)

        return await self._database.snapshot(read)

    def of_work_in(self, reader: Reader, work_item_ids: Iterable[str]) -> Provenance:
        """The same in the caller's transaction."""
        found = [_of_work(reader, name) for name in work_item_ids]
        return OWNERS.joined(*(each for each in found if each is not None))

    async def note_files(
        self, directory: str, changes: Sequence[FileChange], found: Provenance, *, work_item_id: str
    ) -> None:
        """Write down what is about to be delivered to this directory, before it is."""
        now, sources = format_timestamp(self._clock.now()), json.dumps(found.sources)
        place = _one_name(directory)
        rows = [
            (f"{place}/{each.path}", each.after, found.taint.value, sources, work_item_id, now)
            for each in changes
            if each.after is not None
        ]
        await self._database.transaction(lambda tx: _write_all(tx, rows))

    async def foreign_files(
        self, directory: str, digests: Mapping[str, str], *, sizes: Mapping[str, int] | None = None
    ) -> dict[str, str]:
        """The files among these that are a stranger's, by name, each with its source.

        `sizes` are those of the contents with these digests, for whoever has just read them: by
        now something else may stand there.
        """
        place = _one_name(directory)
        low, high = f"{place}/", f"{place}0"

        def read(reader: Reader) -> tuple[list[Row], list[Row]]:
            return reader.fetch_all(_OF_DIRECTORY, (low, high)), reader.fetch_all(_FOREIGN_DIGESTS)

        delivered, elsewhere = await self._database.snapshot(read)
        known = _Delivered(delivered, elsewhere, place)
        return await asyncio.to_thread(_judge, Path(place), digests, known, self._own, sizes or {})

    async def of_content(self, directory: Path, name: str, content: bytes) -> Provenance:
        """Whose text one file below this directory is, which was just read."""
        digest = hashlib.sha256(content).hexdigest()
        found = await self.foreign_files(str(directory), {name: digest}, sizes={name: len(content)})
        return external(*found.values()) if found else OWNERS


class _Delivered:
    """What Silas has delivered: to this directory, and strangers' text elsewhere."""

    def __init__(self, here: Sequence[Row], foreign: Sequence[Row], directory: str) -> None:
        self._exact: dict[tuple[str, str], Row] = {}
        self._last: dict[str, Row] = {}
        for row in here:
            name = row[0][len(directory) + 1 :]
            self._exact[name, row[1]] = row
            self._last[name] = row
        self._foreign: dict[str, str] = dict(foreign)

    def says(self, name: str, digest: str, size: int) -> Provenance | None:
        """Rules 1 to 3; None if nothing is known."""
        exact = self._exact.get((name, digest))
        if exact is not None:
            return _provenance(exact[2], exact[3])
        if size >= _SAYS_LITTLE_BYTES and digest in self._foreign:
            return _provenance(TaintLevel.EXTERNAL, self._foreign[digest])
        last = self._last.get(name)
        if last is not None and last[2] == TaintLevel.EXTERNAL:
            return _provenance(last[2], last[3])
        return None


def _judge(
    directory: Path,
    digests: Mapping[str, str],
    known: _Delivered,
    own: Collection[str],
    sizes: Mapping[str, int],
) -> dict[str, str]:
    """The foreign files; whoever cannot be looked at is foreign too."""
    found: dict[str, str] = {}
    places = _Places(directory, own)
    for name, digest in digests.items():
        try:
            seen = _seen(directory / name)
            size = sizes.get(name, seen.st_size if seen else _SAYS_LITTLE_BYTES)
            said = known.says(name, digest, size)
            mark = places.mark_of(name, seen) if said is None else ""
        except OSError as error:
            said, mark = None, f"cannot be looked at: {error.strerror}"
        if said is not None and said.taint is TaintLevel.EXTERNAL:
            mark = made_from_words(said.sources) or "a stranger's text is in it"
        if mark:
            found[name] = f"the file {name} ({mark})"
    return found


def made_from_words(sources: Sequence[str]) -> str:
    """What a file was made from: its first source, or every account that was read for it.

    The domains of accounts follow from these words, so none may be left out.
    """
    told = [each for each in sources if ACCOUNT_OF in each] or sources[:1]
    return f"made from {', '.join(told)}" if told else ""


def _seen(path: Path) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


def _packages(folders: Iterable[str]) -> str:
    """What the first of these folders says that holds installed packages."""
    found = next((each for each in folders if each in _PACKAGES), None)
    return f"in {found}, where packages of others are" if found else ""


class _Places:
    """What the places of files say about who writes there (rule 4)."""

    def __init__(self, directory: Path, own: Collection[str]) -> None:
        self._directory = directory
        self._own = own
        self._users = {os.geteuid(), directory.stat().st_uid}
        self._repositories: dict[Path, str] = {}
        self._outer = _IN_DOWNLOADS if _DOWNLOADS in directory.parts else _packages(directory.parts)
        home = Path.home()
        for folder in (directory, *directory.parents):
            # The owner's home may be a repository itself, which holds little of what is below it.
            is_home = folder == home or folder in home.parents
            if not self._outer and (folder == directory or not is_home):
                self._outer = self._remote_at(folder)

    def mark_of(self, name: str, seen: os.stat_result | None) -> str:
        """Why this file is a stranger's; empty if nothing says so. It may be gone by now."""
        path = PurePosixPath(name)
        if packages := _packages(path.parts[:-1]):
            return packages
        if seen is not None and seen.st_uid not in self._users:
            return "it belongs to another user of this machine"
        return self._outer or self._inner(path.parent) or _address_of(self._directory / name)

    def _inner(self, folder: PurePosixPath) -> str:
        """What a repository or the downloads below the directory say."""
        parts = folder.parts
        if _DOWNLOADS in parts:
            return _IN_DOWNLOADS
        folders = (self._directory.joinpath(*parts[:depth]) for depth in range(1, len(parts) + 1))
        return next((mark for mark in map(self._remote_at, folders) if mark), "")

    def _remote_at(self, folder: Path) -> str:
        if folder not in self._repositories:
            foreign = [each for each in _remotes(folder) if not self._is_own(each)]
            self._repositories[folder] = f"in a copy of {foreign[0]}" if foreign else ""
        return self._repositories[folder]

    def _is_own(self, address: str) -> bool:
        plain = _plain_address(address)
        if _LEADS_ELSEWHERE.search(plain):
            return False
        return any(plain == each or plain.startswith(f"{each}/") for each in self._own if each)


def _remotes(folder: Path) -> list[str]:
    """The remotes of the repository in this folder; nothing of it is executed."""
    place = folder / ".git"
    try:
        if place.is_file():
            place = _linked(folder, place)
        if not place.is_dir():
            return []
        return _urls_in(_read_text(place / "config"))
    except (OSError, ValueError):
        return ["a repository whose configuration cannot be read"]


def _linked(folder: Path, link: Path) -> Path:
    """Where the repository of a worktree or a submodule is."""
    named = _read_text(link).removeprefix("gitdir:").strip()
    place = (folder / named).resolve()
    shared = place / "commondir"
    return (place / _read_text(shared).strip()).resolve() if shared.is_file() else place


def _read_text(path: Path) -> str:
    with path.open("rb") as opened:
        return opened.read(_MAX_CONFIG_BYTES).decode("utf-8", "replace")


def _urls_in(text: str) -> list[str]:
    urls, remote = [], False
    for line in map(str.strip, text.splitlines()):
        said = line
        if line.startswith("["):
            header, _, said = line.partition("]")
            remote = header.lower().startswith("[remote")
        key, _, value = said.partition("=")
        if remote and key.strip().lower() == "url" and value.strip():
            urls.append(_without_credentials(value.strip()))
    return urls


def _without_credentials(address: str) -> str:
    parts = urlsplit(address)
    if parts.scheme and "@" in parts.netloc:
        return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return address


def _plain_address(address: str) -> str:
    """`https://github.com/me/x`, `git@github.com:me/x` and `github.com/me/x.git` as one spelling.

    The host ends where git and its transports end it: an `@` further on belongs to the path.
    """
    plain = address.strip()
    scheme, found, rest = plain.partition("://")
    if found and scheme.lower() in _SCHEMES:
        plain = rest
    host = _HOST.match(plain)
    end = host.end() if host else 0
    where = plain[:end].rpartition("@")[2].replace(":", "/", 1)
    return f"{where}{plain[end:]}".lower().rstrip("/").removesuffix(".git")


def _address_of(path: Path) -> str:
    """The address that a browser or a download has written beside the file."""
    read: Callable[..., bytes] | None = getattr(os, "getxattr", None)
    if read is None:
        return ""
    try:
        return f"from {read(path, _ADDRESS, follow_symlinks=False).decode('utf-8', 'replace')}"
    except OSError:
        return ""


def _one_name(directory: str) -> str:
    """One spelling for each directory, so that a link to it is not another place."""
    return os.path.realpath(directory)


def _write_all(tx: Transaction, rows: Sequence[tuple[str | None, ...]]) -> None:
    for row in rows:
        tx.execute(_NOTE_FILE, row)


def _of_work(reader: Reader, work_item_id: str) -> Provenance | None:
    row = reader.fetch_one(_OF_WORK, (work_item_id,))
    return _provenance(*row) if row else None


def _provenance(taint: str, sources: str) -> Provenance:
    return Provenance(TaintLevel(taint), tuple(json.loads(sources)))
