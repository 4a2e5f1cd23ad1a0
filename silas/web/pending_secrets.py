"""Secrets that somebody has asked the owner for: only these can be written from the page.

What is waited for is on the disk, so that a card is there again after a restart: the name of the
secret and what it is called, never a value. It is withdrawn when it was typed or declined, and
after `_LIFETIME`; an open page knows when that is, and takes its card away by itself. A setup of a
connection waits here for its secret (`SecretRequests`).
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any

from silas.kernel import Clock, format_timestamp, parse_timestamp
from silas.secrets import InvalidSecret, check_name, is_internal
from silas.secrets.vault import Vault
from silas.storage import Database
from silas.web.wire import SecureInputRequest

_LIFETIME = timedelta(days=7)
_MAX_LABEL_CHARS = 200
_ASK = """
INSERT INTO asked_secrets (ref_id, label, told, asked_at) VALUES (?, ?, ?, ?)
ON CONFLICT (ref_id) DO UPDATE SET label = excluded.label, asked_at = excluded.asked_at,
    told = CASE WHEN excluded.told = '' THEN asked_secrets.told ELSE excluded.told END
"""
_OPEN = """
SELECT asked.ref_id, label, coalesce(input_hint, ''), coalesce(guidance, '{}'), asked_at
FROM asked_secrets AS asked LEFT JOIN secret_hints AS hint ON hint.ref_id = asked.ref_id
WHERE asked_at > ? ORDER BY asked_at, asked.ref_id
"""
_HINT = """
INSERT INTO secret_hints (ref_id, input_hint, guidance) VALUES (?, ?, ?)
ON CONFLICT (ref_id) DO UPDATE SET
    input_hint = excluded.input_hint, guidance = excluded.guidance
"""
_FIND = "SELECT told FROM asked_secrets WHERE ref_id = ? AND asked_at > ?"
_WITHDRAW = "DELETE FROM asked_secrets WHERE ref_id = ?"
_FORGET_OLD = "DELETE FROM asked_secrets WHERE asked_at <= ?"


class SecretState(StrEnum):
    """What became of a request."""

    UNKNOWN = "unknown"
    PENDING = "pending"
    FULFILLED = "fulfilled"


@dataclass
class PendingSecrets:
    """The requests of one data directory."""

    vault: Vault
    database: Database
    clock: Clock
    _fulfilled: set[str] = field(default_factory=set)
    """Those of this process, so that a second try is told that it is stored."""
    asked: set[Callable[[SecureInputRequest], None]] = field(default_factory=set)
    """Called when a setup asks for a secret."""
    closed: set[Callable[[str], None]] = field(default_factory=set)
    """Called when nobody waits for a secret any more."""
    _waiting: dict[str, asyncio.Future[bool]] = field(default_factory=dict)

    async def ask(
        self,
        ref_id: str,
        label: str,
        *,
        told: str = "",
        input_hint: str = "",
        guidance: dict[str, Any] | None = None,
    ) -> SecureInputRequest:
        """Let the owner type it, once; raises `InvalidSecret` for a name of Silas's own.

        `told` is what the owner called it in the conversation: that much is remembered.
        """
        check_name(ref_id)
        if is_internal(ref_id):
            raise InvalidSecret("This name belongs to Silas itself. Choose another one.")
        now = format_timestamp(self.clock.now())
        request = SecureInputRequest(
            ref_id=ref_id,
            label=label[:_MAX_LABEL_CHARS],
            input_hint=input_hint,
            guidance=guidance or {},
            expires_at=self.clock.now() + _LIFETIME,
        )
        await self.database.execute(_FORGET_OLD, (self._oldest(),))
        if input_hint or request.guidance:
            hint = (ref_id, input_hint, json.dumps(request.guidance))
            await self.database.execute(_HINT, hint)
        await self.database.execute(_ASK, (ref_id, request.label, told, now))
        self._fulfilled.discard(ref_id)
        return request

    async def collect(
        self, ref_id: str, label: str, *, input_hint: str, guidance: dict[str, Any]
    ) -> bool:
        """Ask for a secret and wait; whether it is in the vault then."""
        typed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting[ref_id] = typed
        try:
            request = await self.ask(ref_id, label, input_hint=input_hint, guidance=guidance)
            for hear in tuple(self.asked):
                hear(request)
            return await typed
        finally:
            del self._waiting[ref_id]

    async def holds(self, ref_id: str) -> bool:
        """Whether the vault has a secret under this name that the owner has put there."""
        return await asyncio.to_thread(self._own, ref_id) is not None

    async def copy(self, source: str, ref_id: str) -> bool:
        """Keep such a secret under a second name; False: there is none."""
        value = await asyncio.to_thread(self._own, source)
        if value is None:
            return False
        await asyncio.to_thread(self.vault.set, ref_id, value)
        return True

    def _own(self, ref_id: str) -> bytes | None:
        """None also for what belongs to Silas itself or to a connection: nobody else gets that."""
        if is_internal(ref_id) or ref_id.startswith("connections/"):
            return None
        check_name(ref_id)
        return self.vault.get(ref_id)

    async def forget(self, ref_id: str) -> None:
        """Withdraw a request, and remove what was typed."""
        await self.database.execute(_WITHDRAW, (ref_id,))
        await self.database.execute("DELETE FROM secret_hints WHERE ref_id = ?", (ref_id,))
        await asyncio.to_thread(self.vault.delete, ref_id)
        self._fulfilled.discard(ref_id)
        for hear in tuple(self.closed):
            hear(ref_id)

    async def fulfil(self, ref_id: str, value: str) -> tuple[SecretState, str]:
        """Keep the secret if it is waited for; it goes nowhere else.

        Returns how it was with it before, and what the owner called it, if told.
        """
        row = await self.database.fetch_one(_FIND, (ref_id, self._oldest()))
        if ref_id in self._fulfilled:
            return SecretState.FULFILLED, ""
        if row is None:
            return SecretState.UNKNOWN, ""
        self.vault.set(ref_id, value.encode())
        self._fulfilled.add(ref_id)
        await self.database.execute(_WITHDRAW, (ref_id,))
        self._settle(ref_id, stored=True)
        return SecretState.PENDING, str(row[0])

    async def decline(self, ref_id: str) -> bool:
        """The owner does not want to type it; False if nobody waits for it."""
        declined = await self.database.execute(_WITHDRAW, (ref_id,)) > 0
        self._settle(ref_id, stored=False)
        return declined

    async def open_requests(self) -> list[SecureInputRequest]:
        """What is waited for, oldest first."""
        rows = await self.database.fetch_all(_OPEN, (self._oldest(),))
        return [
            SecureInputRequest(
                ref_id=name,
                label=label,
                input_hint=hint,
                guidance=json.loads(guidance),
                expires_at=parse_timestamp(asked_at) + _LIFETIME,
            )
            for name, label, hint, guidance, asked_at in rows
        ]

    def _settle(self, ref_id: str, *, stored: bool) -> None:
        typed = self._waiting.get(ref_id)
        if typed is not None and not typed.done():
            typed.set_result(stored)

    def _oldest(self) -> str:
        return format_timestamp(self.clock.now() - _LIFETIME)
