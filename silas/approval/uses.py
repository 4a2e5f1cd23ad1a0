"""What an approval was used for, by the audit log: rows that were put back do not make it unused.

1. A decision leads to one token. If the log says that one was issued for this since the decision
   was made, that one is meant.
2. What was carried out is not carried out again, whichever token it was done under, and is not
   begun more often than was approved.
3. The log must also say that the token was issued, or the task authorised: what it does not know
   at all, nobody approved.
4. What the owner has taken back is not done. Standing approvals live long, so it is the vault that
   remembers which of them were taken back.
5. The tasks of a standing approval are sealed one by one, with the owner's key. A row that somebody
   has added authorises none, and the seal says since when the log has to be asked.

Entries that somebody has added to the log can only forbid (`silas.audit.proving`): who can write
the database can always keep something from being done.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from silas.approval.keys import KeyManager
from silas.approval.models import ApprovalScope, ApprovalToken
from silas.approval.ports import AuditTrail, Recorded
from silas.approval.rules import Refused
from silas.kernel import AuditError, canonical_bytes, format_timestamp, parse_timestamp
from silas.storage import Database, Transaction

ISSUED, USED, BEGUN, DONE, WITHDRAWN = (
    "approval_issued",
    "approval_used",
    "approval_begun",
    "approval_done",
    "approval_withdrawn",
)
TAKEN_BACK = "The owner has taken this approval back"
_SEAL = """
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
    key_id: str
    signature: bytes

    def insert(self, tx: Transaction) -> None:
        """Keep it, in the transaction that uses the approval."""
        values = (self.token_id, self.content_hash, self.used_at, self.key_id)
        tx.execute(_SEAL, (*values, self.signature.hex()))


def done_entry(token_id: str, content_hash: str) -> Mapping[str, Any]:
    """What an entry about one content of an approval says: `BEGUN`, `DONE`, `WITHDRAWN`."""
    return {"token_id": token_id, "content_hash": content_hash}


class RecordedUses:
    """What the log knows about approvals. Everything here raises `Refused` if it is in doubt."""

    def __init__(self, database: Database, keys: KeyManager, audit: AuditTrail) -> None:
        self._database = database
        self._keys = keys
        self._audit = audit

    async def issued_for(self, plan_hash: str, since: datetime) -> str | None:
        """Rule 1: the id of the token, or None."""
        entries = await self._entries(since, ISSUED, about=plan_hash)
        found = [each.data for each in entries if each.data.get("plan_hash") == plan_hash]
        return str(found[0].get("token_id")) if found else None

    async def require_left(self, token: ApprovalToken) -> None:
        """Rule 2 for a standing approval that is about to be used once more."""
        entries = await self._entries(token.issued_at, ISSUED, USED, DONE, about=token.token_id)
        self._require_known(entries, ISSUED, token, None)
        used = sum(each.event == USED for each in entries)
        done = {each.data.get("content_hash") for each in entries if each.event == DONE}
        if max(used, len(done)) >= token.max_executions:
            raise Refused("The token has been used up")

    async def require_open(
        self, token: ApprovalToken, content_hash: str, *, most: int | None = None
    ) -> None:
        """Rules 2 and 3 at the door of execution."""
        since, anchor = token.issued_at, ISSUED
        if token.scope is ApprovalScope.STANDING:
            since, anchor = await self._sealed_since(token, content_hash), USED
        entries = await self._entries(since, anchor, BEGUN, DONE, WITHDRAWN, about=content_hash)
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

    async def _entries(self, since: datetime, *events: str, about: str) -> Sequence[Recorded]:
        try:
            return await self._audit.proven_since(since, events, about=about)
        except AuditError as error:
            raise Refused(error.message) from error

    def _require_known(
        self, entries: Sequence[Recorded], event: str, token: ApprovalToken, content: str | None
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
        key_id, signature = self._keys.sign(_seal_bytes(token.token_id, content_hash, used_at))
        return UseSeal(token.token_id, content_hash, used_at, key_id, signature)

    async def _sealed_since(self, token: ApprovalToken, content_hash: str) -> datetime:
        row = await self._database.fetch_one(_SEAL_OF, (token.token_id, content_hash))
        if row is None:
            raise Refused("The token was not used for this task")
        used_at, key_id, signature = row
        try:
            at, made = parse_timestamp(used_at), bytes.fromhex(signature)
        except (TypeError, ValueError) as error:
            raise Refused("The token was not used for this task") from error
        payload = _seal_bytes(token.token_id, content_hash, used_at)
        if not self._keys.public.verify(key_id, payload, made, at=at):
            raise Refused("The token was not used for this task")
        return at


def _seal_bytes(token_id: str, content_hash: str, used_at: str) -> bytes:
    return canonical_bytes(
        {
            "type": "approval_use",
            "token_id": token_id,
            "content_hash": content_hash,
            "used_at": used_at,
        }
    )
