"""Issued tokens, their uses, and nonces: what was used once is never accepted again.

The rows here, not a caller's copy, say how often a token was used.

The key of a nonce is `{domain}:{binding}`. For messages (`msg`) the binding is the nonce itself;
for executions (`exec`) it is `{token_id}:{content hash}:{nonce}`, so that a use of a token cannot
be replayed for another task.

A use of a token is also counted with the token, so its nonce need not be kept for long. What makes
a message old is the clock alone: one that is set ahead and then back makes it fresh again. So its
nonce is remembered long after it is stale, for as long as a clock may be wrong.

A backup that is brought back has forgotten what was consumed after it was written. The moment of a
restore is therefore kept here as well, for as long as the nonces of messages would have been.

What an approval was used for, by the audit log: rows that were put back do not make it unused.

1. A decision leads to one token, in the transaction that stores it (`silas.review.decisions`).
2. What was carried out is not carried out again, whichever token it was done under, and is not
   begun more often than was approved.
3. The log must also say that the token was issued, or the task authorised: what it does not know
   at all, nobody approved.
4. What the owner has taken back is not done. Standing approvals live long, so it is the vault that
   remembers which of them were taken back.
5. The tasks of a standing approval are sealed one by one, with the owner's key. A row that somebody
   has added authorises none, and the seal says since when the log has to be asked.

Entries that somebody has added to the log can only forbid (`silas.audit.log`): who can
write the database can always keep something from being done.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from pydantic import ValidationError

from silas.approval.errors import NonceUsed, TokenUnknown
from silas.approval.keys import KeyManager, Seal, Seals
from silas.approval.models import ApprovalScope, ApprovalToken
from silas.approval.rules import Refused
from silas.audit.models import AuditEntry, AuditTrail, ExaminedLog, Proven
from silas.kernel import AuditError, Clock, format_timestamp, parse_timestamp
from silas.storage import Database, Durability, Transaction

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
SELECT token, shown, spawn_policy, executions_used, void_reason FROM approval_tokens
WHERE token_id = ?
"""
_USES = "SELECT nonce FROM approval_executions WHERE token_id = ? ORDER BY executed_at, nonce"
_ANY = "SELECT 1 FROM approval_tokens WHERE work_item_id = ? LIMIT 1"
_NEWEST = "SELECT token_id FROM approval_tokens ORDER BY token_id DESC LIMIT ?"
_IN_FORCE = """
SELECT token_id FROM approval_tokens WHERE work_item_id = ? AND voided_at IS NULL ORDER BY token_id
"""
_VOID = """
UPDATE approval_tokens SET voided_at = ?, void_reason = ? WHERE token_id = ? AND voided_at IS NULL
"""
_SHOWN = "SELECT token_id, shown FROM approval_tokens WHERE shown <> ''"
# Without the bytes that were shown nothing can be approved, proven or carried out by it any more.
_FORGET_SHOWN = """
UPDATE approval_tokens SET shown = '', voided_at = COALESCE(voided_at, issued_at),
    void_reason = COALESCE(void_reason, ?)
WHERE token_id = ?
"""
_VOID_OPEN = "UPDATE approval_tokens SET voided_at = ?, void_reason = ? WHERE voided_at IS NULL"


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
    void_reason: str | None = None
    """Why it allows nothing any more, if something was done about it."""


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


def void_token(tx: Transaction, token_id: str, *, now: str, reason: str) -> bool:
    """Void one token; False if it was void already."""
    return bool(tx.execute(_VOID, (now, reason, token_id)))


def is_open_in(tx: Transaction, token_id: str) -> bool:
    """Whether a token is there and not void, as part of a transaction."""
    query = "SELECT 1 FROM approval_tokens WHERE token_id = ? AND voided_at IS NULL"
    return tx.fetch_one(query, (token_id,)) is not None


def void_open_tokens(tx: Transaction, *, now: str, reason: str) -> int:
    """Void every token that could still be used; returns how many there were."""
    return tx.execute(_VOID_OPEN, (now, reason))


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
            raise TokenUnknown(
                f"No approval has the id {token_id} here. `silas approvals list` shows them."
            )
        text, shown, spawn_policy, used, void_reason = row
        nonces = await self._database.fetch_all(_USES, (token_id,))
        counted = {"executions_used": used, "execution_nonces": [nonce for (nonce,) in nonces]}
        try:
            token = ApprovalToken.model_validate_json(text).model_copy(update=counted)
        except ValidationError as error:
            raise TokenUnknown(f"The approval {token_id} cannot be read any more.") from error
        policy = spawn_policy.encode() if spawn_policy is not None else None
        return IssuedToken(token, shown.encode(), policy, void_reason)

    async def forget_shown(self, fits: Callable[[str], bool], *, reason: str) -> int:
        """Erase the bytes that were shown where they are like that, and void these tokens.

        What was signed stays: it holds their hash. Returns how many there were.
        """

        def write(tx: Transaction) -> int:
            found = [name for name, shown in tx.fetch_all(_SHOWN) if fits(str(shown))]
            for token_id in found:
                tx.execute(_FORGET_SHOWN, (reason, token_id))
            return len(found)

        return await self._database.transaction(write, durability=Durability.TRUST)

    async def any_for(self, work_item_id: str) -> bool:
        """Whether a token was issued for this."""
        return await self._database.fetch_one(_ANY, (work_item_id,)) is not None

    async def in_force_for(self, work_item_id: str) -> list[str]:
        """The ids of the tokens for this that are not void, the oldest first."""
        rows = await self._database.fetch_all(_IN_FORCE, (work_item_id,))
        return [token_id for (token_id,) in rows]

    async def list_ids(self, *, limit: int = 50) -> list[str]:
        """The ids of the newest tokens, newest first."""
        rows = await self._database.fetch_all(_NEWEST, (limit,))
        return [token_id for (token_id,) in rows]


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


ISSUED, USED, BEGUN, DONE, WITHDRAWN = (
    "approval_issued",
    "approval_used",
    "approval_begun",
    "approval_done",
    "approval_withdrawn",
)
_SEALED = "approval_use"
TAKEN_BACK = "The owner has taken this approval back"
_INSERT_SEAL = """
INSERT INTO approval_use_seals (token_id, content_hash, used_at, key_id, signature)
VALUES (?, ?, ?, ?, ?)
ON CONFLICT (token_id, content_hash) DO NOTHING
"""
_SEAL_OF = """
SELECT used_at, key_id, signature FROM approval_use_seals WHERE token_id = ? AND content_hash = ?
"""


@dataclass(frozen=True)
class UseSeal:
    """The owner's word that a standing approval was used for this task, at this time."""

    token_id: str
    content_hash: str
    used_at: str
    seal: Seal

    def insert(self, tx: Transaction) -> None:
        """Keep it, in the transaction that uses the approval."""
        tx.execute(_INSERT_SEAL, (self.token_id, self.content_hash, self.used_at, *self.seal))


def done_entry(token_id: str, content_hash: str) -> Mapping[str, Any]:
    """What an entry about one content of an approval says: `BEGUN`, `DONE`, `WITHDRAWN`."""
    return {"token_id": token_id, "content_hash": content_hash}


class RecordedUses:
    """What the log knows about approvals. Everything here raises `Refused` if it is in doubt."""

    def __init__(self, database: Database, keys: KeyManager, audit: AuditTrail) -> None:
        self._database = database
        self._seals = Seals(keys)
        self._audit = audit

    async def require_left(self, token: ApprovalToken) -> None:
        """Rules 2 to 4 for an approval that is about to be used, for the first time or again."""
        asked = ISSUED, USED, DONE, WITHDRAWN
        proven = await self._proven(token.issued_at, *asked, about=token.token_id)
        entries = proven.entries
        self._require_known(entries, ISSUED, token, None)
        # A task of a goal is cancelled by itself; its goal's approval is in force then as before.
        ended = [each.data.get("content_hash") for each in entries if each.event == WITHDRAWN]
        if token.plan_hash in ended:
            raise Refused(TAKEN_BACK)
        used = sum(each.event == USED for each in entries)
        done = {each.data.get("content_hash") for each in entries if each.event == DONE}
        if max(used, len(done)) >= token.max_executions:
            raise Refused("The token has been used up")

    async def require_open(
        self, token: ApprovalToken, content_hash: str, *, most: int | None = None
    ) -> ExaminedLog | None:
        """Rules 2 and 3 at the door of execution; returns how far the log was examined."""
        since, anchor = token.issued_at, ISSUED
        if token.scope is ApprovalScope.STANDING:
            since, anchor = await self._sealed_since(token, content_hash), USED
        proven = await self._proven(since, anchor, BEGUN, DONE, WITHDRAWN, about=content_hash)
        entries = proven.entries
        self._require_known(entries, anchor, token, content_hash if anchor == USED else None)
        about = [each.event for each in entries if each.data.get("content_hash") == content_hash]
        if DONE in about:
            raise Refused("What was approved has been carried out")
        if any(
            each.event == WITHDRAWN and each.data.get("token_id") == token.token_id
            for each in entries
        ):
            raise Refused(TAKEN_BACK)
        if most is not None and about.count(BEGUN) >= most:
            raise Refused("What was approved has been tried as often as was approved")
        return proven.examined

    async def _proven(self, since: datetime, *events: str, about: str) -> Proven:
        try:
            return await self._audit.proven_since(since, events, about=about)
        except AuditError as error:
            raise Refused(error.message) from error

    def _require_known(
        self, entries: Sequence[AuditEntry], event: str, token: ApprovalToken, content: str | None
    ) -> None:
        for each in entries:
            if (
                each.event == event
                and each.data.get("token_id") == token.token_id
                and content in (None, each.data.get("content_hash"))
            ):
                return
        raise Refused("The audit log does not know this approval")

    def seal(self, token: ApprovalToken, content_hash: str, now: datetime) -> UseSeal:
        """Rule 5; asks the vault, so it does not belong on the event loop."""
        used_at = format_timestamp(now)
        seal = self._seals.sign(_SEALED, _sealed_fields(token.token_id, content_hash, used_at))
        return UseSeal(token.token_id, content_hash, used_at, seal)

    async def _sealed_since(self, token: ApprovalToken, content_hash: str) -> datetime:
        row = await self._database.fetch_one(_SEAL_OF, (token.token_id, content_hash))
        if row is None:
            raise Refused("The token was not used for this task")
        used_at, key_id, signature = row
        try:
            at = parse_timestamp(used_at)
        except (TypeError, ValueError) as error:
            raise Refused("The token was not used for this task") from error
        fields = _sealed_fields(token.token_id, content_hash, used_at)
        if not self._seals.holds(Seal(key_id, signature), _SEALED, fields, at=at):
            raise Refused("The token was not used for this task")
        return at


def _sealed_fields(token_id: str, content_hash: str, used_at: str) -> dict[str, str]:
    return {"token_id": token_id, "content_hash": content_hash, "used_at": used_at}
