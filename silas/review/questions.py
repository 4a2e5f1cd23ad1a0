"""Questions: what the owner is asked besides plans, in one shape for all kinds, stored durably.

1. A question is sealed with the owner's key when it is asked. A row that was changed afterwards is
   nobody's question, and cannot be answered.
2. It is answered once, while it is open and its time is not over, by a signature over the whole
   content and the answer.
3. The last of its choices refuses, and some take rights away: these need no more than a signature.
   Every other answer is proven as its risk needs (`silas.review.decisions`).
4. A yes to a companion's action, a memory, an autonomy threshold, a standing grant, a skill, a
   fetch, the start of a tool server, a connection, items of an account or another program's request
   gets a token, in the transaction that stores the answer, for bytes that stand in the content:
   nothing that was not shown. The token of a skill, a fetch, a start, a connection or items is used
   up in it.
5. The event that lets the answer be followed is sent in that transaction.
6. A yes that holds until it is taken back (a rule, a place) is ended in the vault when it is: no
   row that is put back brings it into force again.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from pydantic import Field, ValidationError

from silas.approval import (
    ApprovalScope,
    ApprovalStrength,
    AutonomyPayload,
    BatchPayload,
    DecisionRefused,
    ThresholdChange,
)
from silas.approval.keys import KeyManager, Seal, Seals
from silas.approval.rules import digest
from silas.audit.models import AuditTrail
from silas.gates.risk import RiskLevel
from silas.kernel import (
    Clock,
    TaintLevel,
    canonical_bytes,
    format_timestamp,
    parse_timestamp,
)
from silas.kernel.models import Data, UtcDatetime
from silas.queue.store import QueueStore
from silas.review.cards import decision_made
from silas.review.decision_log import answered_entry
from silas.review.decisions import (
    Approval,
    Decisions,
    DecisionSubject,
    OwnersProof,
    ProvenDecision,
    QuestionKind,
    Tokens,
)
from silas.review.errors import CardNotOpen, CardUnknown, DecisionNotSigned
from silas.storage import Database, Transaction

QUESTION = "question"
"""How the ids of questions begin; cards of plans begin otherwise."""
YES = "approve"
ONCE = "just_this_once"
"""A yes to more permission for a connection that is good for one call."""
BLOCK = "block"
GRANT, RULES = "grant", "rules"
"""What another program's proposal is that the owner makes himself: what it may from now on."""
GRANT_DAYS = 30
"""How long a standing grant of another program is in force at the most."""
AUTONOMY_TTL = timedelta(days=90)
"""How long a changed threshold is in force."""
_ANSWERS = ("verdict", "selected_value", "action", "selected_action")
"""Where the answers of the different kinds have their value."""
HELD = "held"
"""The state of a question that is kept and not asked yet."""
GRANT_TTL = timedelta(days=90)
"""How long a standing grant could hold at the most, however it was widened."""
_TAKES_RIGHTS_AWAY = frozenset({"tighten_now"})
_USED_AT_ONCE = frozenset(
    {
        QuestionKind.SKILL,
        QuestionKind.SKILL_SOURCE,
        QuestionKind.TOOL_SERVER,
        QuestionKind.CONNECTION,
        QuestionKind.PERMISSION,
        QuestionKind.DOMAIN,
    }
)
_ONE_STEP = frozenset(
    {
        QuestionKind.COMPANION,
        QuestionKind.MEMORY,
        QuestionKind.SKILL_SOURCE,
        QuestionKind.TOOL_SERVER,
        QuestionKind.PROPOSAL,
    }
)
_OF_ITEMS = frozenset({QuestionKind.ITEMS, QuestionKind.TEACHING})
_HOLDS_ON = frozenset({QuestionKind.RULE, QuestionKind.PLACE})
"""What holds until it is taken back (rule 6)."""
_SEALED = "question_seal"
_INSERT = """
INSERT INTO questions (id, kind, scope_id, trace_id, about, content, seal_key_id, seal, created_at,
    expires_at, state)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'open')
ON CONFLICT (id) DO NOTHING
"""
_SELECT = """
SELECT id, scope_id, trace_id, about, content, created_at, expires_at, state, seal_key_id, seal,
    answer
FROM questions
"""
_CONTENTS = "SELECT id, content FROM questions WHERE about >= ? AND about < ?"
_BEHIND_ALL = "\U0010ffff"
_ANSWER = "UPDATE questions SET state = ?, answered_at = ? WHERE id = ? AND state = 'open'"

TAKEN_BACK = "taken_back"
"""The state of a yes that the owner has taken back."""
_NO_ANSWERS = f"('open', 'expired', 'outdated', '{TAKEN_BACK}')"
_TAKE_BACK = f"""
UPDATE questions SET state = '{TAKEN_BACK}' WHERE id = ? AND kind = ? AND state NOT IN {_NO_ANSWERS}
"""  # noqa: S608 - names of states


class QuestionChoice(Data):
    """One button: what it answers, and what then happens."""

    value: str
    label: str


class QuestionContent(Data):
    """Everything that a question shows: the recommended choice first, the refusing one last."""

    kind: QuestionKind
    intent: str
    rationale: str
    risk: RiskLevel
    taint: TaintLevel
    actions: list[QuestionChoice] = Field(min_length=1)
    body: dict[str, Any] = Field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """What is sealed, shown and signed."""
        return canonical_bytes(self.model_dump(mode="json"))


class Question(Data):
    """One question, as it is stored."""

    question_id: str
    scope_id: str
    trace_id: str
    about: str
    """Equal for questions that are the same; asked again only after a while."""
    content: QuestionContent
    created_at: UtcDatetime
    expires_at: UtcDatetime
    state: str = "open"
    """`open`, or what was answered; `expired` and `outdated` if nobody did."""
    sealed: bool = False
    """Whether the row was found as the owner's key has sealed it."""

    @property
    def content_hash(self) -> str:
        return digest(self.content.to_bytes())

    @property
    def values(self) -> frozenset[str]:
        """What can be answered."""
        return frozenset(action.value for action in self.content.actions)

    @property
    def approval_scope(self) -> ApprovalScope | None:
        """What a yes gives an approval for, if it gives one."""
        kind = self.content.kind
        if kind is QuestionKind.AUTONOMY:
            return ApprovalScope.AUTONOMY_THRESHOLD
        if kind is QuestionKind.SKILL:
            return ApprovalScope.SKILL_INSTALL
        if kind is QuestionKind.GRANT or _is_programs_grant(self.content):
            return ApprovalScope.TOOL_TYPE
        if kind in (QuestionKind.CONNECTION, QuestionKind.PERMISSION, QuestionKind.DOMAIN):
            return ApprovalScope.CONNECTION_MANAGE
        if kind in _OF_ITEMS:
            return ApprovalScope.CONNECTION_ACT
        return ApprovalScope.SINGLE_STEP if kind in _ONE_STEP else None


class AnsweredQuestion(NamedTuple):
    """A question, and the answer that the owner has proven to have given."""

    question: Question
    answer: dict[str, Any]
    decision: ProvenDecision

    @property
    def value(self) -> str | None:
        """Which of the choices it was; None if it was given in words alone."""
        return value_of(self.answer)


@dataclass(frozen=True)
class ShownPayload:
    """`Approvable`: a part of what a question shows."""

    id: str
    content: Mapping[str, Any]
    parent: str | None = None

    def plan_bytes(self) -> bytes:
        return canonical_bytes(dict(self.content))

    def spawn_policy_bytes(self) -> bytes:
        return b""


class _QuestionRow(NamedTuple):
    """What `_SELECT` gives."""

    question_id: str
    scope_id: str
    trace_id: str
    about: str
    content: str
    created_at: str
    expires_at: str
    state: str
    seal_key_id: str
    seal: str
    answer: str | None
    """What an older version has stored."""

    def question(self) -> Question:
        """The question as the row has it; raises `CardUnknown` if it cannot be read."""
        try:
            content = QuestionContent.model_validate_json(self.content)
        except ValidationError as error:
            raise CardUnknown(f"The question {self.question_id!a} cannot be read.") from error
        return Question(
            question_id=self.question_id,
            scope_id=self.scope_id,
            trace_id=self.trace_id,
            about=self.about,
            content=content,
            created_at=parse_timestamp(self.created_at),
            expires_at=parse_timestamp(self.expires_at),
            state=self.state,
        )


class QuestionStore:
    """The questions of one data directory."""

    def __init__(
        self,
        database: Database,
        queue: QueueStore,
        *,
        decisions: Decisions,
        keys: KeyManager,
        audit: AuditTrail,
        clock: Clock,
    ) -> None:
        self._database = database
        self._queue = queue
        self._decisions = decisions
        self._seals = Seals(keys)
        self._ended = keys.ended
        self._audit = audit
        self._clock = clock
        self.news: set[Callable[[], None]] = set()
        """Called when there is a question more or less."""

    def ask_in(self, tx: Transaction, question: Question) -> None:
        """Ask, as part of a transaction (rule 1)."""
        content = question.content
        tx.execute(
            _INSERT,
            (
                question.question_id,
                content.kind.value,
                question.scope_id,
                question.trace_id,
                question.about,
                content.to_bytes().decode(),
                *self._seals.sign(_SEALED, _sealed_fields(question)),
                format_timestamp(question.created_at),
                format_timestamp(question.expires_at),
            ),
        )

    async def ask(self, question: Question) -> None:
        """The same as a transaction of its own."""
        await self._database.transaction(lambda tx: self.ask_in(tx, question))
        self.tell()

    def hold_in(self, tx: Transaction, question: Question) -> None:
        """Keep a question that is not asked yet, sealed like any, as part of a transaction."""
        self.ask_in(tx, question)
        tx.execute(
            "UPDATE questions SET state = ? WHERE id = ? AND state = 'open'",
            (HELD, question.question_id),
        )

    async def held(self) -> list[Question]:
        """What is kept and not asked yet, oldest first; rows that were changed are left out."""
        now = self._clock.now()
        found = await self._sealed(f"{_SELECT} WHERE state = '{HELD}' ORDER BY created_at, id")
        return [each for each in found if now < each.expires_at]

    async def release(self, question_ids: Sequence[str]) -> int:
        """Ask what was held; returns how many that are."""
        return await self._end_held(question_ids, "open")

    async def drop_held(self, question_ids: Sequence[str]) -> int:
        """Ask nothing of what was held."""
        return await self._end_held(question_ids, "outdated")

    async def _end_held(self, question_ids: Sequence[str], state: str) -> int:
        def write(tx: Transaction) -> int:
            return sum(
                tx.execute(
                    "UPDATE questions SET state = ? WHERE id = ? AND state = ?", (state, name, HELD)
                )
                for name in question_ids
            )

        count = await self._database.transaction(write)
        self.tell()
        return count

    async def get(self, question_id: str) -> Question:
        """One question; raises `CardUnknown`."""
        return self._question(await self._row(question_id))

    async def ended(self, question_id: str) -> tuple[str, datetime | None] | None:
        """How a question was answered or ended, and when it was answered; None while it waits.

        It is for showing alone: nothing of it is checked, so that it needs no vault.
        """
        row = await self._database.fetch_one(
            "SELECT state, answered_at, expires_at FROM questions WHERE id = ?", (question_id,)
        )
        state, at, until = row or ("outdated", None, None)
        if state != "open":
            return str(state), parse_timestamp(str(at)) if at else None
        return ("expired", None) if self._clock.now() >= parse_timestamp(str(until)) else None

    async def open(self) -> list[Question]:
        """What waits, oldest first. Skips rows that do not parse, and those that were changed."""
        now = self._clock.now()
        found = await self._sealed(f"{_SELECT} WHERE state = 'open' ORDER BY created_at, id")
        return [each for each in found if now < each.expires_at]

    async def was_asked(self, about: str, *, since: datetime) -> bool:
        """Whether this was asked not long ago, or still waits."""
        row = await self._database.fetch_one(
            "SELECT 1 FROM questions WHERE about = ? AND (created_at > ? OR state = 'open') "
            "AND state <> 'outdated'",
            (about, format_timestamp(since)),
        )
        return row is not None

    async def asked_about(self, about: str) -> list[Question]:
        """What was asked about this, in whatever state, newest first; only what is as it was."""
        return await self._sealed(
            f"{_SELECT} WHERE about = ? ORDER BY created_at DESC, id DESC", about
        )

    async def answered_since(self, kind: QuestionKind, since: datetime) -> list[Question]:
        """What the owner has answered of this kind, each with the answer as its state."""
        return await self._sealed(
            f"{_SELECT} WHERE kind = ? AND answered_at > ? AND state NOT IN {_NO_ANSWERS} "
            "ORDER BY answered_at, id",
            kind.value,
            format_timestamp(since),
        )

    async def _sealed(self, query: str, *values: str) -> list[Question]:
        """Skips rows that do not parse, and those that were changed."""
        found = []
        for row in await self._database.fetch_all(query, values):
            with contextlib.suppress(CardUnknown):
                found.append(self._question(_QuestionRow(*row)))
        return [each for each in found if each.sealed]

    async def count_since(self, kind: str, since: datetime) -> int:
        """How many of this kind were asked."""
        row = await self._database.fetch_one(
            "SELECT count(*) FROM questions WHERE kind = ? AND created_at > ? AND state <> 'held' "
            "AND about NOT LIKE 'digest:%'",
            (kind, format_timestamp(since)),
        )
        return int(row[0]) if row else 0

    async def answer(
        self,
        question_id: str,
        answer: Mapping[str, Any],
        proof: OwnersProof,
        *,
        gesture: ApprovalStrength = ApprovalStrength.TAP,
    ) -> Question:
        """Store an answer with a proof from one of the owner's devices (rules 1 to 5).

        `gesture` is what the page says was done, as it stands in what the device has signed. Raises
        `DecisionNotSigned`, `StrongerProofNeeded`, `DecisionRefused` or `CardNotOpen`.
        """
        question = await self.get(question_id)
        statement = answer_bytes(question, answer, gesture=gesture)
        return await self._answer(question, answer, statement, proof)

    async def answer_with_vault(self, question_id: str, answer: Mapping[str, Any]) -> Question:
        """The same with the owner's own key: at Silas's machine, with the vault open."""
        question = await self.get(question_id)
        statement = answer_bytes(question, answer, gesture=ApprovalStrength.VAULT)
        return await self._answer(
            question, answer, statement, self._decisions.owner_proof(statement)
        )

    async def _answer(
        self, question: Question, answer: Mapping[str, Any], statement: bytes, proof: OwnersProof
    ) -> Question:
        name, now = question.question_id, self._clock.now()
        if len({str(answer[each]) for each in _ANSWERS if answer.get(each)}) > 1:
            raise DecisionRefused("This answer says two things at once, so nothing was decided.")
        asked = _asked(question, answer, statement)
        await self._decisions.require_signed(asked, proof)
        if not question.sealed:
            await self._audit.log("answer_unsigned", card_id=name, key_id=proof.key_id)
            raise DecisionNotSigned
        if now >= question.expires_at:
            raise CardNotOpen("This card has expired: nobody answered it in time.")
        value = value_of(answer) or "answered"
        event = decision_made(
            name, trace_id=question.trace_id, scope_id=question.scope_id, clock=self._clock
        )

        def record(tx: Transaction, _tokens: Tokens) -> None:
            if tx.execute(_ANSWER, (value, format_timestamp(now), name)) != 1:
                raise CardNotOpen("This card waits for no answer any more.")
            self._queue.enqueue_in(tx, event)

        risk, since = question.content.risk.value, question.created_at
        entries = [
            ("question_answered", {"card_id": name, "answer": value}),
            answered_entry(name, verdict=value, risk=risk, asked_at=since),
        ]
        approve = _approvals(question, value)
        await self._decisions.decide(asked, proof, record=record, entries=entries, approve=approve)
        self._queue.bus.notify_of([event])
        self.tell()
        return question.model_copy(update={"state": value})

    async def answered(self, question_id: str) -> AnsweredQuestion | None:
        """The answer, if there is one that is proven to be the owner's."""
        row, decision = await self._row(question_id), await self._decisions.row(question_id)
        question = self._question(row)
        if decision is None or not question.sealed or await self._has_ended(question):
            return None
        if decision.statement is None:  # of an older version
            answer = _read(row.answer)
            statement = answer_bytes(question, answer, gesture=ApprovalStrength.TAP)
        else:
            statement, fields = decision.statement.encode(), decision.fields().get("answer")
            answer = fields if isinstance(fields, dict) else {}
        found = None
        if _is_about(question, answer, statement):
            found = await self._decisions.proven(_asked(question, answer, statement), decision)
        if found is None:
            await self._audit.log("answer_forged", card_id=question_id)
            return None
        return AnsweredQuestion(question, answer, found)

    async def close(self, question_id: str, state: str) -> bool:
        """End a question without an answer."""
        values = (state, format_timestamp(self._clock.now()), question_id)
        closed = await self._database.execute(_ANSWER, values) == 1
        if closed:
            self.tell()
        return closed

    def close_in(self, tx: Transaction, question_id: str, state: str) -> None:
        """The same as part of a transaction; `tell` belongs after it."""
        tx.execute(_ANSWER, (state, format_timestamp(self._clock.now()), question_id))

    async def end_expired(self) -> int:
        """Nobody answered in time: nothing follows from it."""
        return await self._database.execute(
            "UPDATE questions SET state = 'expired' "
            "WHERE state IN ('open', 'held') AND expires_at <= ?",
            (format_timestamp(self._clock.now()),),
        )

    async def forget(self, about: str, fits: Callable[[str], bool]) -> int:
        """Erase the questions about this whose content is like that; returns how many.

        An answer that was signed stays as it was signed: it names the content by its hash.
        """

        def write(tx: Transaction) -> int:
            rows = tx.fetch_all(_CONTENTS, (about, f"{about}{_BEHIND_ALL}"))
            found = [name for name, content in rows if fits(str(content))]
            for name in found:
                tx.execute("DELETE FROM questions WHERE id = ?", (name,))
            return len(found)

        count = await self._database.transaction(write)
        self.tell()
        return count

    async def take_back(self, question_id: str, kind: QuestionKind) -> bool:
        """Let a yes of this kind be in force no longer; False if there is no such yes (rule 6)."""
        values = (question_id, kind.value)
        if await self._database.execute(_TAKE_BACK, values) != 1:
            return False
        await asyncio.to_thread(self._ended.end, [question_id], self._clock.now())
        return True

    async def _has_ended(self, question: Question) -> bool:
        if question.content.kind not in _HOLDS_ON:
            return False
        # An id is given once, so what has ended under it has ended for good, whatever the time.
        return await asyncio.to_thread(self._ended.until, question.question_id) is not None

    def tell(self) -> None:
        """Let whoever shows questions look again."""
        for hear in tuple(self.news):
            hear()

    def _question(self, row: _QuestionRow) -> Question:
        question, seal = row.question(), Seal(row.seal_key_id, row.seal)
        sealed = self._seals.holds(seal, _SEALED, _sealed_fields(question), at=self._clock.now())
        return question.model_copy(update={"sealed": sealed})

    async def _row(self, question_id: str) -> _QuestionRow:
        row = await self._database.fetch_one(f"{_SELECT} WHERE id = ?", (question_id,))
        if row is None:
            raise CardUnknown(f"There is no card {question_id!a}. `silas review list` shows them.")
        return _QuestionRow(*row)


def answer_bytes(
    question: Question,
    answer: Mapping[str, Any],
    *,
    gesture: ApprovalStrength = ApprovalStrength.TAP,
) -> bytes:
    """What the owner signs when answering. A tap is not named, as in what older pages sign."""
    fields: dict[str, Any] = {
        "type": "answer",
        "card_id": question.question_id,
        "content_hash": question.content_hash,
        "answer": dict(answer),
    }
    if gesture is not ApprovalStrength.TAP:
        fields["approval_strength"] = gesture.value
    return canonical_bytes(fields)


def value_of(answer: Mapping[str, Any]) -> str | None:
    """Which of the choices an answer names, if it names one."""
    return next((str(answer[name]) for name in _ANSWERS if answer.get(name)), None)


def _approvals(question: Question, value: str) -> list[Approval]:
    """What this answer approves by itself (rule 4); raises `DecisionRefused`."""
    content, scope = question.content, question.approval_scope
    if scope is None or not (value in (YES, ONCE) or content.kind is QuestionKind.TEACHING):
        return []
    try:
        if content.kind in _OF_ITEMS:
            batch = batch_payload(content.body, value)
            return [Approval(batch, scope, use_at_once=True)] if batch else []
        if content.kind in (QuestionKind.GRANT, QuestionKind.PROPOSAL):
            return _request_approvals(question, scope)
        if content.kind in _USED_AT_ONCE:
            return [Approval(_payload_of(question), scope, use_at_once=True)]
        if content.kind in _ONE_STEP:
            return [Approval(_payload_of(question), scope)]
        return [Approval(autonomy_payload(content.body), scope, ttl=AUTONOMY_TTL)]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise DecisionRefused("This question does not show what it asks for.") from error


_SHOWN_PARTS = {
    QuestionKind.COMPANION: ("action", "operation_id"),
    QuestionKind.SKILL: ("skill", "version_id"),
    QuestionKind.SKILL_SOURCE: ("fetch", "fetch_id"),
    QuestionKind.TOOL_SERVER: ("server", "start_id"),
    QuestionKind.GRANT: ("grant", "grant_id"),
    QuestionKind.PROPOSAL: ("proposal", "proposal_id"),
}
"""Which part of the body a yes approves, and where its id stands in it."""


def _request_approvals(question: Question, scope: ApprovalScope) -> list[Approval]:
    """A yes to a request is good once, to a grant for its days; rules are their signed answer."""
    payload = _payload_of(question)
    if question.content.kind is QuestionKind.GRANT:
        return [Approval(payload, scope, ttl=GRANT_TTL)]
    if _proposed(question.content) == RULES:
        return []
    if _is_programs_grant(question.content):
        days = min(int(payload.content["request"]["days"]), GRANT_DAYS)
        return [Approval(payload, scope, ttl=timedelta(days=days), use_at_once=True)]
    return [Approval(payload, scope)]


def _is_programs_grant(content: QuestionContent) -> bool:
    return content.kind is QuestionKind.PROPOSAL and _proposed(content) == GRANT


def _proposed(content: QuestionContent) -> object:
    """What kind of proposal a question shows."""
    proposal = content.body.get("proposal")
    return proposal.get("kind") if isinstance(proposal, Mapping) else None


def _payload_of(question: Question) -> ShownPayload:
    body, kind = question.content.body, question.content.kind
    if kind is QuestionKind.MEMORY:
        memory = body["memory"]
        return ShownPayload(str(memory["items"][0]["memory_id"]), memory)
    if kind in _SHOWN_PARTS:
        part, name = _SHOWN_PARTS[kind]
        return ShownPayload(str(body[part][name]), body[part])
    return connection_payload(question)


def connection_payload(question: Question) -> ShownPayload:
    """What a yes to a connection, to more for it, or to a crossing approves; raises `KeyError`."""
    body = question.content.body
    inside = {QuestionKind.CONNECTION: "connection", QuestionKind.DOMAIN: "crossing"}
    name = inside.get(question.content.kind)
    shown = body if name is None else body[name]
    return ShownPayload(str(shown["approval_id"]), shown)


def batch_payload(body: Mapping[str, Any], value: str) -> BatchPayload | None:
    """What this answer does with items of an account; None if nothing.

    Raises `KeyError`, `TypeError` or `ValueError`.
    """
    batches = body["options"] if "options" in body else {YES: body["batch"]}
    shown = batches.get(value)
    return BatchPayload.read(shown) if shown is not None else None


def proposal_payload(question: Question) -> ShownPayload:
    """What a yes to another program's request approves; raises `KeyError`."""
    return _payload_of(question)


def autonomy_payload(body: Mapping[str, object]) -> AutonomyPayload:
    """The change of a threshold that a question shows; raises `KeyError` or `TypeError`."""
    changes, goal = body["changes"], body.get("goal_id")
    if not isinstance(changes, list):
        raise TypeError("changes")
    return AutonomyPayload(
        proposal_id=str(body["proposal_id"]),
        scope_id=str(body["scope_id"]),
        goal_id=None if goal is None else str(goal),
        changes=tuple(ThresholdChange(**each) for each in changes),
        sample_size=int(str(body["sample_size"])),
        correction_rate=float(str(body["correction_rate"])),
        evidence_window=str(body["evidence_window"]),
    )


def _asked(question: Question, answer: Mapping[str, Any], statement: bytes) -> DecisionSubject:
    value, refusing = value_of(answer), question.content.actions[-1].value
    return DecisionSubject(
        kind=question.content.kind,
        ids=(question.question_id,),
        statement=statement,
        challenge=bytes.fromhex(question.content_hash),
        risk=question.content.risk,
        scope=question.approval_scope,
        grants=value != refusing and value not in _TAKES_RIGHTS_AWAY,
        intact=question.sealed,
    )


def _is_about(question: Question, answer: Mapping[str, Any], statement: bytes) -> bool:
    """Whether a stored statement is this answer to this question, and says nothing else."""
    return statement in [
        answer_bytes(question, answer, gesture=gesture) for gesture in ApprovalStrength
    ]


def _sealed_fields(question: Question) -> dict[str, str]:
    return {
        "question_id": question.question_id,
        "scope_id": question.scope_id,
        "trace_id": question.trace_id,
        "about": question.about,
        "content_hash": question.content_hash,
    }


def _read(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
