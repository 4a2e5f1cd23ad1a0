"""Nonces: what was used once is never accepted again.

The key of a record is `{domain}:{binding}`. For messages (`msg`) the binding is the nonce itself;
for executions (`exec`) it is `{token_id}:{content hash}:{nonce}`, so that a use of a token cannot
be replayed for another task.

A use of a token is also counted with the token, so its nonce need not be kept for long. What makes
a message old is the clock alone: one that is set ahead and then back makes it fresh again. So its
nonce is remembered long after it is stale, for as long as a clock may be wrong.

A backup that is brought back has forgotten what was consumed after it was written. The moment of a
restore is therefore kept here as well, for as long as the nonces of messages would have been.
"""

from datetime import datetime, timedelta

from silas.approval.errors import NonceUsed
from silas.kernel import Clock, format_timestamp, parse_timestamp
from silas.storage import Database, Durability, Transaction

MESSAGE = "msg"
EXECUTION = "exec"
_RESTORED = "restored:"
_RECORD = "INSERT INTO nonces (nonce_key, recorded_at) VALUES (?, ?) ON CONFLICT DO NOTHING"
_RECORD_AGAIN = """
INSERT INTO nonces (nonce_key, recorded_at) VALUES (?, ?)
ON CONFLICT (nonce_key) DO UPDATE SET recorded_at = excluded.recorded_at
"""
_RECORDED_AT = "SELECT recorded_at FROM nonces WHERE nonce_key = ?"
_FORGET = """
DELETE FROM nonces WHERE recorded_at < ?
    AND (recorded_at < ? OR (nonce_key >= 'exec:' AND nonce_key < 'exec;'))
"""
WRONG_CLOCK = timedelta(days=400)
"""How far ahead a clock may have been when old nonces were forgotten."""


class NonceStore:
    """The nonces of one data directory, shared by all its processes."""

    def __init__(self, database: Database, *, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def is_used(self, domain: str, nonce: str) -> bool:
        """Whether the nonce was consumed in this domain."""
        row = await self._database.fetch_one(_RECORDED_AT, (f"{domain}:{nonce}",))
        return row is not None

    async def record(self, domain: str, nonce: str) -> None:
        """Consume the nonce; raises `NonceUsed` if anyone, in any process, was first."""
        await self._database.transaction(
            lambda tx: self.record_in(tx, domain, nonce), durability=Durability.TRUST
        )

    def record_in(self, tx: Transaction, domain: str, nonce: str) -> None:
        """Consume the nonce as part of a larger transaction."""
        recorded = tx.execute(
            _RECORD,
            (f"{domain}:{nonce}", format_timestamp(self._clock.now())),
        )
        if not recorded:
            raise NonceUsed

    def note_restore_in(self, tx: Transaction) -> None:
        """Remember that nonces which were consumed until now may have been forgotten."""
        tx.execute(
            _RECORD_AGAIN,
            (_RESTORED, format_timestamp(self._clock.now())),
        )

    def restored_at_in(self, tx: Transaction) -> datetime | None:
        """When a backup was last brought back; None if that is too long ago to matter."""
        row = tx.fetch_one(_RECORDED_AT, (_RESTORED,))
        return parse_timestamp(row[0]) if row else None

    async def prune_expired(self, older_than: datetime) -> int:
        """Forget nonces that are too old to be accepted anyway; returns how many.

        Those of messages are kept longer by `WRONG_CLOCK`.
        """
        long_ago = older_than - WRONG_CLOCK
        times = (format_timestamp(older_than), format_timestamp(long_ago))
        return await self._database.execute(_FORGET, times)
