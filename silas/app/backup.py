"""Backups, wired: what goes in, what must hold before one is used, what may not come back.

A backup brings back an old state, in which approvals that were used up since are unused again. So
every approval that a backup holds is voided before the data takes its place, and the audit log that
comes back says so. Signed messages that may have been used since are not accepted either. The
journal goes on under a new name in vector clocks: its old one may have counted further elsewhere.
"""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import silas
from silas.app.instance import InstanceLock
from silas.app.journal import renew_host
from silas.approval import NonceStore
from silas.approval.keys import PublicKeys
from silas.approval.store import void_open_tokens
from silas.audit import AuditBroken, AuditLog
from silas.kernel import Clock, IdFactory, format_timestamp
from silas.settings.paths import Paths
from silas.storage import (
    DatabaseFromTheFuture,
    Durability,
    SqliteDatabase,
    Transaction,
    load_migrations,
    migrate,
)
from silas.storage.archive import TREES, Manifest, unpack_tree
from silas.storage.backup import BackupSource, BackupStamp, write_backup
from silas.storage.errors import BackupRefused, translated
from silas.storage.files import write_private_file
from silas.storage.migrations import applied_in, check_applied
from silas.storage.ports import Progress
from silas.storage.restore import Restored, restore_backup

_DERIVED = {"embeddings.db"}
_MIGRATIONS = {"silas.db": "runtime", "journal.db": "journal", "agent.db": "agent"}
_CONFIG_ELSEWHERE = "config.backup.yaml"


@dataclass(frozen=True)
class RestoreReport:
    """What a restore did."""

    manifest: Manifest
    set_aside: Path | None
    voided_approvals: int
    config_file: Path | None
    """Where the configuration of the backup now is, if it had one from outside the directory."""


def back_up(
    paths: Paths, target: Path, *, clock: Clock, replace: bool, progress: Progress
) -> Manifest:
    """Write everything that matters to one verified file, while others go on working."""
    paths.require_initialised()
    return write_backup(
        target,
        _source(paths),
        stamp=BackupStamp(moment=clock.now(), silas_version=silas.__version__),
        replace=replace,
        check=lambda folder: asyncio.run(_check_audit(_inside(folder), clock)),
        progress=progress,
    )


def bring_back(
    paths: Paths, archive: Path, *, clock: Clock, replace: bool, progress: Progress
) -> RestoreReport:
    """Put the data of a backup in the place of the data directory."""
    voided: list[int] = []
    with _nobody_else(paths, clock):
        restored = restore_backup(
            archive,
            paths.data_dir,
            moment=clock.now(),
            replace=replace,
            prepare=lambda folder: voided.append(asyncio.run(_prepare(_inside(folder), clock))),
            progress=progress,
        )
    return RestoreReport(
        manifest=restored.manifest,
        set_aside=restored.set_aside,
        voided_approvals=sum(voided),
        config_file=_place_config(paths, restored),
    )


def _source(paths: Paths) -> BackupSource:
    """All databases but the derived ones, keys, settings. Never a key file, lock or socket."""
    databases = sorted(path for path in paths.data_dir.glob("*.db") if path.is_file())
    steady = {path.name: path for path in (paths.vault, paths.public_key) if path.exists()}
    if paths.config_file.exists():
        inside = paths.config_file.parent.resolve() == paths.data_dir.resolve()
        steady[paths.config_file.name if inside else _CONFIG_ELSEWHERE] = paths.config_file
    witness = paths.audit_witness
    return BackupSource(
        databases={path.name: path for path in databases if path.name not in _DERIVED},
        steady_files=steady,
        leading_files={witness.name: witness} if witness.exists() else {},
        following_files=lambda: {
            f"{paths.archive.name}/{path.name}": path for path in paths.archive.glob("*.jsonl")
        },
        trees={
            f"{name}.tar": paths.data_dir / name
            for name in TREES
            if (paths.data_dir / name).is_dir()
        },
    )


def _inside(folder: Path) -> Paths:
    return Paths(data_dir=folder, config_file=folder / _CONFIG_ELSEWHERE)


@contextmanager
def _nobody_else(paths: Paths, clock: Clock) -> Iterator[None]:
    """No server may run on data that is about to be replaced, or start on it meanwhile."""
    with ExitStack() as stack:
        if paths.data_dir.is_dir():
            stack.enter_context(InstanceLock(paths.lock, clock=clock, command="silas restore"))
        yield


async def _prepare(inside: Paths, clock: Clock) -> int:
    """Check versions and the audit log, void what was approved; returns how many that were."""
    _check_versions(inside.data_dir)
    if not inside.database.exists():
        raise BackupRefused(f"{BackupRefused.sentence()} ({inside.database.name} is missing)")
    await _check_audit(inside, clock)
    for name in TREES:
        packed = inside.data_dir / f"{name}.tar"
        if packed.exists():
            unpack_tree(packed, inside.data_dir / name)
            packed.unlink()
    await renew_host(inside, clock=clock)
    database = SqliteDatabase.open(inside.database)
    try:
        await migrate(database, load_migrations("runtime"), clock=clock)
        audit = _audit_log(database, inside, clock)
        nonces = NonceStore(database, clock=clock)
        now = format_timestamp(clock.now())

        def void(tx: Transaction) -> int:
            voided = void_open_tokens(tx, now=now, reason="restored from a backup")
            nonces.note_restore_in(tx)
            audit.append(tx, "backup_restored", {"voided_approvals": voided})
            return voided

        return await database.transaction(void, durability=Durability.TRUST)
    finally:
        await database.close()


def _check_versions(folder: Path) -> None:
    """A database that only a newer Silas knows, or has changed, is left alone."""
    for path in sorted(folder.glob("*.db")):
        applied, name = applied_in(path), _MIGRATIONS.get(path.name)
        if applied and name is None:
            raise DatabaseFromTheFuture(f"{path.name}: {DatabaseFromTheFuture.sentence()}")
        check_applied(applied, load_migrations(name) if name else [])


async def _check_audit(inside: Paths, clock: Clock) -> None:
    database = SqliteDatabase.open(inside.database)
    try:
        report = await _audit_log(database, inside, clock).examine()
    finally:
        await database.close()
    if report.first_problem:
        raise AuditBroken(f"{AuditBroken.sentence()} ({report.first_problem.sentence})")


def _audit_log(database: SqliteDatabase, inside: Paths, clock: Clock) -> AuditLog:
    keys = inside.public_key
    return AuditLog(
        database,
        clock=clock,
        ids=IdFactory(clock),
        verifier=PublicKeys.from_text(keys.read_text()) if keys.exists() else None,
        witness=inside.audit_witness,
    )


def _place_config(paths: Paths, restored: Restored) -> Path | None:
    """A configuration from elsewhere goes back to where it is looked for, unless one is there."""
    kept = paths.data_dir / _CONFIG_ELSEWHERE
    if not any(entry.name == _CONFIG_ELSEWHERE for entry in restored.manifest.files):
        return None
    if paths.config_file.exists():
        return kept
    with translated(str(paths.config_file)):
        paths.config_file.parent.mkdir(parents=True, exist_ok=True)
        write_private_file(paths.config_file, kept.read_bytes())
        kept.unlink()
    return paths.config_file
