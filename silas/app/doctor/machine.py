"""What the machine itself offers: SQLite, disk, permissions, port, clock."""

import errno
import shutil
import socket
import stat
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import apsw

from silas.app.doctor.findings import Finding, ok, problem, warning
from silas.kernel import Clock

_NEEDED_OPTIONS = ("ENABLE_FTS5",)
_FIXED_WAL_RACE = (3, 51, 3)
_LITTLE_SPACE = 1024**3
_NO_SPACE = 50 * 1024**2
_BUILT = datetime(2026, 1, 1, tzinfo=UTC)


def python() -> Finding:
    """The interpreter."""
    return ok("python", f"Python {sys.version.split()[0]}.")


def sqlite() -> Finding:
    """The SQLite that comes with APSW, and what it was built with."""
    version = apsw.sqlite_lib_version()
    missing = [name for name in _NEEDED_OPTIONS if name not in apsw.compile_options]
    if missing:
        return problem(
            "sqlite",
            f"SQLite {version} lacks {', '.join(missing)}.",
            fix="pip install --force-reinstall apsw",
        )
    if tuple(int(part) for part in version.split(".")) < _FIXED_WAL_RACE:
        return warning(
            "sqlite",
            f"SQLite {version} has a known race in its write-ahead log.",
            fix="pip install --upgrade apsw",
        )
    return ok("sqlite", f"SQLite {version} with full-text search, through APSW.")


def disk(data_dir: Path) -> Finding:
    """The space that is left where the data is."""
    place = _existing(data_dir)
    free = shutil.disk_usage(place).free
    words = f"{free / 1024**3:.1f} GB free on the disk of {data_dir}."
    if free < _NO_SPACE:
        return problem("disk", words, fix=f"free some space on the disk of {place}")
    if free < _LITTLE_SPACE:
        return warning("disk", words, fix=f"free some space on the disk of {place}")
    return ok("disk", words)


def permissions(data_dir: Path) -> Finding:
    """Whether anybody but the owner may look into the data directory."""
    open_paths = list(_open_to_others(data_dir))
    if open_paths:
        shown = ", ".join(str(path) for path in open_paths[:3])
        more = f" and {len(open_paths) - 3} more" if len(open_paths) > 3 else ""
        return problem(
            "permissions",
            f"Others on this machine may read {shown}{more}.",
            fix=f"chmod -R go-rwx {data_dir}",
        )
    return ok("permissions", f"Only you may read {data_dir}.")


def port(host: str, number: int, *, running: bool = False) -> Finding:
    """Whether the web app's address is free; Silas is allowed to be the one who has it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, number))
        except OSError as error:
            if running and error.errno == errno.EADDRINUSE:
                return ok("port", f"{host} port {number} is in use: Silas is running.")
            reason = (
                "is taken by another program" if error.errno == errno.EADDRINUSE else str(error)
            )
            return warning(
                "port",
                f"{host} port {number} {reason}.",
                fix=f"SILAS_CHANNELS__WEB__PORT={number + 1} silas start",
            )
    return ok("port", f"{host} port {number} is free.")


def clock_is_sane(clock: Clock, newest_entry: datetime | None, *, zone: str) -> Finding:
    """Whether this machine's time can be true."""
    now = clock.now()
    if now < _BUILT:
        return problem("clock", f"The clock says {now:%Y-%m-%d}.", fix="timedatectl set-ntp true")
    if newest_entry is not None and now < newest_entry:
        return problem(
            "clock",
            f"The clock says {now:%Y-%m-%d %H:%M} UTC, but the audit log already has an entry of "
            f"{newest_entry:%Y-%m-%d %H:%M}.",
            fix="timedatectl set-ntp true",
        )
    return ok("clock", f"{now:%Y-%m-%d %H:%M} UTC. You live in {zone} (`scheduler.timezone`).")


def _open_to_others(data_dir: Path) -> Iterator[Path]:
    for path in [data_dir, *data_dir.rglob("*")]:
        mode = path.lstat().st_mode
        if not stat.S_ISLNK(mode) and mode & 0o077:
            yield path


def _existing(path: Path) -> Path:
    return next(place for place in (path, *path.absolute().parents) if place.exists())
