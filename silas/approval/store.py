"""Issued tokens and their uses. The rows here, not a caller's copy, say how often one was used."""

from dataclasses import dataclass
from typing import NamedTuple

from pydantic import ValidationError

from silas.approval.errors import TokenUnknown
from silas.approval.models import ApprovalToken
from silas.kernel import format_timestamp
from silas.storage import Database, Transaction

_INSERT = """
INSERT INTO approval_tokens
    (token_id, work_item_id, token, signature, shown, spawn_policy, issued_at, expires_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
# The counter must agree with the recorded uses: turning one of them back does not revive a token.
_CONSUME = """
UPDATE approval_tokens SET executions_used = executions_used + 1
WHERE token_id = ? AND signature = ? AND voided_at IS NULL AND executions_used < ?
    AND executions_used = (SELECT COUNT(*) FROM approval_executions AS use
                           WHERE use.token_id = approval_tokens.token_id)
"""
_STATE = """
SELECT signature, executions_used, void_reason,
    EXISTS (SELECT 1 FROM approval_executions AS use
            WHERE use.token_id = issued.token_id AND use.content_hash = ?),
    EXISTS (SELECT 1 FROM approval_completions AS done
            WHERE done.token_id = issued.token_id AND done.content_hash = ?)
FROM approval_tokens AS issued WHERE issued.token_id = ?
"""
_COMPLETE = """
INSERT INTO approval_completions (token_id, content_hash, completed_at) VALUES (?, ?, ?)
ON CONFLICT (token_id, content_hash) DO NOTHING
"""
_INSERT_USE = """
INSERT INTO approval_executions (token_id, content_hash, nonce, executed_at) VALUES (?, ?, ?, ?)
"""
_ISSUED = """
SELECT token, shown, spawn_policy, executions_used FROM approval_tokens WHERE token_id = ?
"""
_USES = "SELECT nonce FROM approval_executions WHERE token_id = ? ORDER BY executed_at, nonce"
_ANY = "SELECT 1 FROM approval_tokens WHERE work_item_id = ? LIMIT 1"
_NEWEST = "SELECT token_id FROM approval_tokens ORDER BY token_id DESC LIMIT ?"


class TokenState(NamedTuple):
    """What the store knows about a token right now."""

    signature: str
    executions_used: int
    void_reason: str | None
    used_for_content: bool
    completed: bool
    """What was authorised has been carried out."""


@dataclass(frozen=True)
class IssuedToken:
    """A token with the exact bytes that the owner saw when deciding."""

    token: ApprovalToken
    shown: bytes
    spawn_policy: bytes | None


def insert_token(
    tx: Transaction, token: ApprovalToken, *, shown: bytes, spawn_policy: bytes | None
) -> None:
    """Remember a freshly issued token."""
    tx.execute(
        _INSERT,
        (
            token.token_id,
            token.work_item_id,
            token.model_dump_json(),
            token.signature.hex(),
            shown.decode(),
            spawn_policy.decode() if spawn_policy is not None else None,
            format_timestamp(token.issued_at),
            format_timestamp(token.expires_at),
        ),
    )


def consume_token(
    tx: Transaction, token: ApprovalToken, *, content_hash: str, nonce: str, now: str
) -> bool:
    """Use the token once for this content; False if it is void, unknown or used up."""
    consumed = tx.execute(_CONSUME, (token.token_id, token.signature.hex(), token.max_executions))
    if consumed:
        tx.execute(
            _INSERT_USE,
            (token.token_id, content_hash, nonce, now),
        )
    return bool(consumed)


def complete_token(tx: Transaction, token_id: str, *, content_hash: str, now: str) -> None:
    """Remember that this content was carried out: its approval opens no door any more."""
    tx.execute(_COMPLETE, (token_id, content_hash, now))


class TokenStore:
    """Reads of issued tokens."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def state(self, token_id: str, content_hash: str) -> TokenState | None:
        """The counters of a token, and whether one of its uses was for this content."""
        asked = (content_hash, content_hash, token_id)
        row = await self._database.fetch_one(_STATE, asked)
        return TokenState(*row) if row else None

    async def load(self, token_id: str) -> IssuedToken:
        """The token as issued, with its current counters."""
        row = await self._database.fetch_one(_ISSUED, (token_id,))
        if row is None:
            raise TokenUnknown(f"No approval with the id {token_id} was given here.")
        text, shown, spawn_policy, used = row
        nonces = await self._database.fetch_all(_USES, (token_id,))
        counted = {"executions_used": used, "execution_nonces": [nonce for (nonce,) in nonces]}
        try:
            token = ApprovalToken.model_validate_json(text).model_copy(update=counted)
        except ValidationError as error:
            raise TokenUnknown(f"The approval {token_id} cannot be read any more.") from error
        policy = spawn_policy.encode() if spawn_policy is not None else None
        return IssuedToken(token, shown.encode(), policy)

    async def any_for(self, work_item_id: str) -> bool:
        """Whether a token was issued for this."""
        return await self._database.fetch_one(_ANY, (work_item_id,)) is not None

    async def list_ids(self, *, limit: int = 50) -> list[str]:
        """The ids of the newest tokens, newest first."""
        rows = await self._database.fetch_all(_NEWEST, (limit,))
        return [token_id for (token_id,) in rows]
