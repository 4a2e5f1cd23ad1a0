"""The housekeeping of the ground floor, at the intervals of the settings."""

from datetime import timedelta

from silas.app.ground import Ground
from silas.app.housekeeping import PeriodicJob


def ground_jobs(ground: Ground) -> list[PeriodicJob]:
    """What the server does again and again for approvals and the audit log."""
    nonces = ground.settings.nonce_store
    often = timedelta(minutes=nonces.prune_interval_minutes)

    async def prune_nonces() -> None:
        too_old = ground.clock.now() - timedelta(minutes=nonces.ttl_minutes)
        await ground.nonces.prune_expired(too_old)

    return [
        PeriodicJob("prune nonces", often, prune_nonces),
        PeriodicJob("checkpoint the audit log", often, ground.audit.checkpoint_if_due),
    ]
