"""A disk that fails on purpose: writes and syncs of SQLite go through it, and it keeps the books.

It is an APSW virtual file system above the machine's own. What was written is in the real file at
once; what was not synced yet is remembered beside it. So it can be decided afterwards what a death
leaves behind: everything, if only the process died; of what was not synced, any part, if the power
went.

    disk = FaultyDisk(lambda touch: Fault.FULL if touch.number == 7 else Fault.NONE)
    database = SqliteDatabase.open(path, vfs=disk.name)
"""

import contextlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from random import Random
from typing import Literal

import apsw

SECTOR = 512
_below = itertools.count(1)


class Fault(Enum):
    """What happens to one write or sync."""

    NONE = auto()
    IO_ERROR = auto()
    FULL = auto()
    TORN = auto()
    """A part of it arrives, and then the power is gone."""
    LOST_POWER = auto()
    KILLED = auto()
    """The process is dead; the machine goes on, and keeps what it was given."""


@dataclass(frozen=True)
class Touch:
    """One time that SQLite touches the disk."""

    kind: Literal["write", "sync", "truncate", "delete"]
    file: str
    number: int
    """Counted over all files and kinds, from 1."""
    of_kind: int


Plan = Callable[[Touch], Fault]


class PowerGone(apsw.IOError):
    """Nothing reaches this disk any more, until it is started again."""


@dataclass
class _Book:
    """What was written to one file since its last sync, and what was there before."""

    entries: list[tuple[int, bytes, bytes, int]] = field(default_factory=list)
    """Offset, new bytes, old bytes, old size; a truncation has no bytes and its size as offset."""


class FaultyDisk:
    """A disk under the control of a plan. Register it once, and `close` it at the end."""

    def __init__(self, plan: Plan, *, chance: Random | None = None) -> None:
        self.plan = plan
        self.name = f"faulty-{next(_below)}"
        self.dead = False
        self.lost_power = False
        self.on_death: Callable[[], None] = lambda: None
        self.touches = 0
        self.syncs: dict[str, int] = {}
        """How often each file was synced."""
        self._chance = chance or Random(0)  # noqa: S311 - not for secrets
        self._kinds: dict[str, int] = {}
        self._books: dict[str, _Book] = {}
        self._images: dict[str, bytes | None] = {}
        self._system = _FaultySystem(self)

    def close(self) -> None:
        """The disk is not needed any more; nothing may be open on it."""
        self._system.unregister()

    def die(self, *, power: bool) -> None:
        """From now on nothing is written. What is there then is decided now."""
        if self.dead:
            return
        for name in sorted(self._books):
            path = Path(name)
            content = path.read_bytes() if path.exists() else None
            if content is not None and power:
                content = self._after_power_cut(content, self._books[name].entries)
            self._images[name] = content
        self.dead, self.lost_power = True, power
        self.on_death()

    def restart(self) -> None:
        """The machine is there again, with what the death has left. Close all connections first."""
        for name, content in self._images.items():
            Path(f"{name.removesuffix('-wal')}-shm").unlink(missing_ok=True)
            if content is None:
                Path(name).unlink(missing_ok=True)
            else:
                Path(name).write_bytes(content)
        self._images.clear()
        self._books.clear()
        self.dead = False

    def drop_connections(self) -> None:
        """What the operating system does with the files of a process that is gone."""
        for connection in apsw.connections():
            if connection.open_vfs == self.name:
                with contextlib.suppress(apsw.Error):
                    connection.close(True)

    def touch(self, kind: Literal["write", "sync", "truncate", "delete"], name: str) -> Fault:
        """Count it, and ask the plan what is to happen; raises if it is to fail."""
        if self.dead:
            raise PowerGone("the power is gone")
        self.touches += 1
        self._kinds[kind] = self._kinds.get(kind, 0) + 1
        fault = self.plan(Touch(kind, Path(name).name, self.touches, self._kinds[kind]))
        if fault is Fault.IO_ERROR:
            raise apsw.IOError(f"the disk could not {kind}")
        if fault is Fault.FULL:
            raise apsw.FullError("there is no room left")
        if fault in (Fault.LOST_POWER, Fault.KILLED):
            self.die(power=fault is Fault.LOST_POWER)
            raise PowerGone("the power is gone")
        return fault

    def book(self, name: str) -> _Book:
        """What is not synced of a file."""
        return self._books.setdefault(name, _Book())

    def synced(self, name: str) -> None:
        """Everything of the file is safe."""
        self.book(name).entries.clear()
        short = Path(name).name
        self.syncs[short] = self.syncs.get(short, 0) + 1

    def torn(self, size: int) -> int:
        """How much of a write arrives: whole sectors, and not all of them."""
        return min(SECTOR * self._chance.randint(0, max(size - 1, 0) // SECTOR), size)

    def _after_power_cut(
        self, content: bytes, entries: list[tuple[int, bytes, bytes, int]]
    ) -> bytes:
        """The file with any part of what was not synced: a disk may write in any order."""
        data = bytearray(content)
        for offset, _, old, size in reversed(entries):
            data.extend(b"\0" * (size - len(data)))
            data[offset : offset + len(old)] = old
            del data[size:]
        share = self._chance.choice((0.0, 0.5, 1.0))
        for offset, new, _old, _size in entries:
            if self._chance.random() >= share:
                continue
            if not new:
                del data[offset:]
                continue
            data.extend(b"\0" * (offset - len(data)))
            data[offset : offset + len(new)] = new
        return bytes(data)


class _FaultySystem(apsw.VFS):
    def __init__(self, disk: FaultyDisk) -> None:
        self._disk = disk
        self._base = apsw.vfs_names()[0]
        super().__init__(disk.name, self._base)

    def xOpen(  # noqa: N802 - SQLite's name
        self, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> "_FaultyFile":
        return _FaultyFile(self._disk, self._base, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802 - SQLite's name
        self._disk.touch("delete", filename)
        super().xDelete(filename, syncdir)
        self._disk.synced(filename)


class _FaultyFile(apsw.VFSFile):
    def __init__(
        self,
        disk: FaultyDisk,
        base: str,
        name: str | apsw.URIFilename | None,
        flags: list[int],
    ) -> None:
        super().__init__(base, name, flags)
        self._disk = disk
        self._name = name.filename() if isinstance(name, apsw.URIFilename) else name or ""

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        if not self._name:  # a scratch file, which nobody ever finds again
            super().xWrite(data, offset)
            return
        whole = bytes(data)
        fault = self._disk.touch("write", self._name)
        if fault is Fault.TORN:
            whole = whole[: self._disk.torn(len(whole))]
        size = self.xFileSize()
        kept = max(min(size - offset, len(whole)), 0)
        old = self.xRead(kept, offset) if kept else b""
        super().xWrite(whole, offset)
        self._disk.book(self._name).entries.append((offset, whole, old, size))
        if fault is Fault.TORN:
            self._disk.die(power=True)
            raise PowerGone("the power went in the middle of a write")

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
        if not self._name:
            return
        self._disk.touch("sync", self._name)
        # The books say what is safe; the real disk below need not be waited for.
        self._disk.synced(self._name)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 - SQLite's name
        if not self._name:
            super().xTruncate(newsize)
            return
        self._disk.touch("truncate", self._name)
        size = self.xFileSize()
        old = self.xRead(size - newsize, newsize) if newsize < size else b""
        super().xTruncate(newsize)
        self._disk.book(self._name).entries.append((newsize, b"", old, size))
