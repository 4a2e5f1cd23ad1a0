"""Autonomy that is earned: proposed from what the owner decided, changed only by his approval.

1. The share of plans that were declined, edited or undone, over a window, with enough samples.
2. Below one threshold a larger batch is proposed, above a higher one a smaller: the two differ, so
   that proposals do not go to and fro. No proposal goes beyond the settings' cap.
3. A change is in force only by a token for exactly this proposal, verified when it was given and
   checked at every look. A row without one changes nothing. Taking it back needs no token.
4. Until when changes were taken back, or followed by another one, is kept in the vault: no row
   brings them back.
"""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from silas.approval import ApprovalEngine, ApprovalScope, ApprovalToken
from silas.approval.keys import EndedUntil
from silas.audit.models import AuditTrail
from silas.gates.risk import RiskLevel
from silas.kernel import ApprovalError, Clock, canonical_bytes, format_timestamp, strict_loads
from silas.kernel.models import Data
from silas.review.decisions import Decisions, QuestionKind
from silas.review.questions import (
    QUESTION,
    AnsweredQuestion,
    Question,
    QuestionChoice,
    QuestionContent,
    autonomy_payload,
)
from silas.storage import Database, Durability, Transaction
from silas.stream.turn_context import TurnContext

BATCH_SIZE = "batch_review.default_size"
LIFETIME = timedelta(days=7)
_JUST_BEFORE = timedelta(microseconds=1)
_ACCEPT = frozenset({ApprovalScope.AUTONOMY_THRESHOLD})


class AutonomyPolicy(Data):
    """The settings, as far as proposals are concerned."""

    enabled: bool = True
    min_samples: int = 30
    window_actions: int = 50
    window_days: int = 14
    widen_at_most: float = 0.05
    tighten_from: float = 0.20
    batch_size: int = 10
    batch_cap: int = 50


@dataclass(frozen=True)
class Evidence:
    """How often the owner corrected what was proposed."""

    samples: int
    corrections: int

    @property
    def rate(self) -> float:
        return round(self.corrections / self.samples, 4) if self.samples else 0.0


@dataclass(frozen=True)
class Autonomy:
    """The thresholds of one data directory."""

    database: Database
    approvals: ApprovalEngine
    decisions: Decisions
    policy: AutonomyPolicy
    clock: Clock
    ended: EndedUntil
    audit: AuditTrail

    async def batch_size(self) -> int:
        """How many plans one batch holds now (rule 3)."""
        rows = await self.database.fetch_all(
            "SELECT proposal_id, payload, token FROM autonomy_changes WHERE ended_at IS NULL "
            "ORDER BY changed_at DESC"
        )
        for name, payload, token in rows:
            size = await self._size_of(payload, token)
            if size is not None:
                return min(size, self.policy.batch_cap)
            await self._end(name)  # it is refused once, not at every look
        return self.policy.batch_size

    async def _size_of(self, kept: str, kept_token: str) -> int | None:
        try:
            payload = autonomy_payload(strict_loads(kept))
            token = ApprovalToken.model_validate_json(kept_token)
        except (ValueError, KeyError, TypeError):
            return None
        if await asyncio.to_thread(self.ended.covers, token.issued_at):
            return None
        if not (await self.approvals.check(token, payload, accept=_ACCEPT))[0]:
            return None
        sizes = [each for each in payload.changes if each.key == BATCH_SIZE]
        return int(sizes[0].proposed_value) if sizes else None

    async def evidence(self) -> Evidence:
        """Rule 1, from the cards that were decided."""
        since = format_timestamp(self.clock.now() - timedelta(days=self.policy.window_days))
        rows = await self.database.fetch_all(
            "SELECT state, requested_by FROM review_cards WHERE decided_at > ? AND state <> 'open' "
            "ORDER BY decided_at DESC LIMIT ?",
            (since, self.policy.window_actions),
        )
        plans = [state for state, asked_by in rows if asked_by != "undo"]
        undone = sum(asked_by == "undo" and state == "approved" for state, asked_by in rows)
        corrected = sum(state in ("declined", "edit_requested") for state in plans)
        return Evidence(len(plans), min(corrected + undone, len(plans)))

    async def proposal(self, room: TurnContext, scope_id: str) -> Question | None:
        """What to propose now (rule 2); None if there is no reason to."""
        policy, found, size = self.policy, await self.evidence(), await self.batch_size()
        if not policy.enabled or found.samples < policy.min_samples:
            return None
        if found.rate <= policy.widen_at_most and size < policy.batch_cap:
            return self._change(
                room, scope_id, found, sizes=(size, min(size * 2, policy.batch_cap))
            )
        if found.rate >= policy.tighten_from and size > policy.batch_size // 2:
            return self._change(room, scope_id, found, sizes=(size, max(size // 2, 1)))
        return None

    def _change(
        self, room: TurnContext, scope_id: str, found: Evidence, *, sizes: tuple[int, int]
    ) -> Question:
        (size, wanted), policy = sizes, self.policy
        wider, now, name = wanted > size, room.clock.now(), room.ids.new(QUESTION)
        change = {
            "key": BATCH_SIZE,
            "current_value": str(size),
            "proposed_value": str(wanted),
            "direction": "widen" if wider else "tighten",
        }
        share = f"{found.corrections} of the last {found.samples} plans"
        told = (
            f"You corrected {share}. More of them could be decided at once."
            if wider
            else f"You corrected {share}. Fewer at once would be easier to look at."
        )
        return Question(
            question_id=name,
            scope_id=scope_id,
            trace_id=f"trace_{name}",
            about=f"autonomy:{scope_id}",
            content=QuestionContent(
                kind=QuestionKind.AUTONOMY,
                intent=f"Decide up to {wanted} plans at once, instead of {size}",
                rationale=told,
                risk=RiskLevel.HIGH,
                actions=[
                    QuestionChoice(value="approve", label=f"Change it to {wanted}"),
                    QuestionChoice(
                        value="tighten_now", label=f"Tighten: back to {policy.batch_size}"
                    ),
                    QuestionChoice(value="decline", label="Leave it as it is"),
                ],
                body={
                    "proposal_id": name,
                    "scope_id": scope_id,
                    "goal_id": None,
                    "changes": [change],
                    "sample_size": found.samples,
                    "correction_rate": found.rate,
                    "evidence_window": f"last {policy.window_actions} decisions / "
                    f"{policy.window_days} days",
                },
            ),
            created_at=now,
            expires_at=now + LIFETIME,
        )

    async def apply(self, answered: AnsweredQuestion) -> None:
        """Rules 3 and 4; raises `ApprovalError`."""
        question = answered.question
        payload = autonomy_payload(question.content.body)
        token = await self.decisions.token_of(answered.decision, payload.id)
        if token is None:
            raise ApprovalError("Nothing was changed: it was decided too long ago.")
        valid, reason = await self.approvals.verify(token, payload, accept=_ACCEPT)
        if not valid:  # it may have been used up for this very change, just before a crash
            valid, _ = await self.approvals.check(token, payload, accept=_ACCEPT)
        if not valid:
            raise ApprovalError(f"Nothing was changed: {reason}.")
        await asyncio.to_thread(self.ended.end, token.issued_at - _JUST_BEFORE)
        values = (
            payload.proposal_id,
            canonical_bytes(question.content.body).decode(),
            token.model_dump_json(),
            format_timestamp(self.clock.now()),
        )

        def write(tx: Transaction) -> None:
            if tx.execute(
                "INSERT INTO autonomy_changes (proposal_id, payload, token, changed_at) "
                "VALUES (?, ?, ?, ?) ON CONFLICT (proposal_id) DO NOTHING",
                values,
            ):
                self._record(tx, payload.proposal_id, "approve")

        await self.database.transaction(write, durability=Durability.TRUST)

    async def tighten(self, proposal_id: str) -> None:
        """Back to the settings, at once."""
        now = self.clock.now()
        await asyncio.to_thread(self.ended.end, now)

        def write(tx: Transaction) -> None:
            tx.execute(
                "UPDATE autonomy_changes SET ended_at = ? WHERE ended_at IS NULL",
                (format_timestamp(now),),
            )
            self._record(tx, proposal_id, "tighten_now")

        await self.database.transaction(write, durability=Durability.TRUST)

    def _record(self, tx: Transaction, proposal_id: str, verdict: str) -> None:
        entry = {"proposal": proposal_id, "verdict": verdict}
        self.audit.append(tx, "autonomy_decided", entry)

    async def _end(self, proposal_id: str) -> None:
        await self.database.execute(
            "UPDATE autonomy_changes SET ended_at = ? WHERE proposal_id = ?",
            (format_timestamp(self.clock.now()), proposal_id),
        )
