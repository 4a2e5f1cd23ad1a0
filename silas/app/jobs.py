"""The housekeeping of the ground floor, at the intervals of the settings."""

import contextlib
from datetime import timedelta
from functools import partial

from silas.app.allocator import TRIM_EVERY, give_back
from silas.app.ground import Ground
from silas.app.housekeeping import PeriodicJob
from silas.audit import NothingToArchive
from silas.storage.files import make_private_directory


def ground_jobs(ground: Ground) -> list[PeriodicJob]:
    """What the server does again and again for approvals and the audit log."""
    nonces = ground.settings.nonce_store
    often = timedelta(minutes=nonces.prune_interval_minutes)

    async def prune_nonces() -> None:
        too_old = ground.clock.now() - timedelta(minutes=nonces.ttl_minutes)
        await ground.nonces.prune_expired(too_old)

    jobs = [
        PeriodicJob("prune nonces", often, prune_nonces),
        PeriodicJob("checkpoint the audit log", often, ground.audit.checkpoint_if_due),
        PeriodicJob("give free memory back", TRIM_EVERY, give_back),
    ]
    days = ground.settings.audit.retention_days
    if days is not None:
        retain = partial(archive_old_entries, ground, keep=timedelta(days=days))
        jobs.append(PeriodicJob("archive the audit log", timedelta(days=1), retain))
    return jobs


async def archive_old_entries(ground: Ground, *, keep: timedelta) -> None:
    """Move entries that are older than this to a file in the data directory; nothing is lost."""
    before = ground.clock.now() - keep
    folder = ground.paths.archive
    make_private_directory(folder)
    with contextlib.suppress(NothingToArchive):
        await ground.audit.archive(folder / f"audit-before-{before:%Y-%m-%d}.jsonl", before=before)
