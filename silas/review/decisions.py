"""The one rule for proof: what shows that the owner decided, and how strongly.

Plans, calls of running work, files beyond a plan, questions, memories and companions' actions are
all decided by `Decisions.decide`. In order:

1. The statement is signed: by a device of the owner's that is trusted now, or by the owner's own
   key from the vault. What a caller says about who decided counts for nothing.
2. A yes is to what was asked: a question whose row was changed since can only be refused.
3. A yes is proven as strongly as its risk needs (`PROOF_FOR`), and as the settings demand for its
   scope (`approval.scope_min_strength`). The gesture that a device signs is believed up to a slide.
   Only the assertion of a passkey over the very hashes that were shown is more, and only the
   owner's own key is more than that.
4. Statement, signature, assertion, strength, what the decision changes, its entries in the audit
   log and its tokens are written in one transaction: what is reported as failed has not happened.
   The use of a passkey is counted in it. A plan's token is used up and attached to its work item
   in it as well; the owner's key then vouches for it when the work begins, before anything is done.
   Everything else that is approved is vouched for at once.
5. The owner's key vouches for when the decision was made (its receipt). What a device has signed
   has no time in it and stays valid for ever; a yes is followed for a while only (`is_current`).
6. Whoever follows a decision asks `Decisions.proven`, which checks all of this again: a row that
   somebody wrote into the database decides nothing, nor does a device that was revoked in between.
"""

import asyncio
import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from pydantic import ValidationError

from silas.approval import (
    Approvable,
    ApprovalDecision,
    ApprovalEngine,
    ApprovalScope,
    ApprovalStrength,
    ApprovalToken,
    ApprovalVerdict,
    Assertion,
    DecisionRefused,
    DeviceStore,
    PasskeyStore,
    Use,
)
from silas.approval.engine import PreparedToken
from silas.approval.keys import (
    Seal,
    Seals,
    decode_signature,
    encode_signature,
)
from silas.audit.models import AuditTrail, OwnerKey
from silas.gates.risk import RiskLevel
from silas.kernel import (
    CanonicalError,
    Clock,
    TaintLevel,
    canonical_bytes,
    format_timestamp,
    parse_timestamp,
    strict_loads,
)
from silas.kernel.models import Data
from silas.review.errors import DecisionNotSigned, StrongerProofNeeded
from silas.storage import Database, Durability, Transaction

Step = Literal["tap", "confirm", "slide", "strong_auth"]
Entry = tuple[str, Mapping[str, Any]]
"""An entry of the audit log: the event, and its details."""

UNSEALED = (
    "This card is not as it was asked, or it is older than its seal. It can only be declined: "
    "ask for it again."
)
NOT_OFFERED = (
    "A yes with conditions is not offered: nothing here could enforce them. Approve it as it is, "
    "decline it, or ask for changes."
)
_RECEIPT = "decision_kept"
_INSERT = """
INSERT INTO decisions (question_id, kind, statement, strength, key_id, signature, assertion, tokens,
    decided_at, receipt_key_id, receipt)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (question_id) DO UPDATE SET
    kind = excluded.kind, statement = excluded.statement, strength = excluded.strength,
    key_id = excluded.key_id, signature = excluded.signature, assertion = excluded.assertion,
    tokens = excluded.tokens, decided_at = excluded.decided_at,
    receipt_key_id = excluded.receipt_key_id, receipt = excluded.receipt
"""
_SELECT = """
SELECT kind, statement, strength, key_id, signature, assertion, tokens, decided_at, receipt_key_id,
    receipt
FROM decisions WHERE question_id = ?
"""
_LED_TO = """
SELECT d.kind, d.statement, d.strength, d.key_id, d.signature, d.assertion, d.tokens, d.decided_at,
    d.receipt_key_id, d.receipt, q.content
FROM decisions AS d LEFT JOIN questions AS q ON q.id = d.question_id
WHERE d.tokens LIKE ? ESCAPE '!'
"""


class QuestionKind(StrEnum):
    """What the owner is asked about."""

    PLAN = "plan"
    CALL = "call"
    """Calls of work that is under way, and files that it changed beyond its plan."""
    BATCH = "batch"
    DRAFT = "draft"
    DECISION = "decision"
    SUGGESTION = "suggestion"
    AUTONOMY = "autonomy"
    GATE = "gate"
    CONNECTION = "connection"
    """An account that would be connected."""
    CONNECTION_SETUP = "connection_setup"
    PERMISSION = "permission"
    CONNECTION_FAILURE = "connection_failure"
    DOMAIN = "domain"
    """What was read of one domain would be used in another."""
    COMPANION = "companion"
    MEMORY = "memory"
    RECORD = "record"
    """Changes of the memory or the journal that an agent wishes for."""
    VISITOR = "visitor"
    """A conversation with a visitor that needs a person."""
    PLACE = "place"
    """A folder or a file that Silas would read."""
    SKILL = "skill"
    """A version of a skill that would be installed."""
    SKILL_SOURCE = "skill_source"
    """A repository that a skill would be fetched from."""
    ITEMS = "items"
    """One action on several items of an account."""
    TEACHING = "teaching"
    """What to do with one item that no rule fits."""
    RULE = "rule"
    """What fits such items from now on."""
    GRANT = "grant"
    """Calls of one kind that would be made without asking, for a while."""
    TOOL_SERVER = "tool_server"
    """A tool server that would be started, to read which tools it has."""
    PROPOSAL = "proposal"
    """What another program would do, if the owner lets it."""


class Requirement(Data):
    """What a yes takes: how strongly it is proven, and what the owner does on a page for that."""

    strength: ApprovalStrength
    steps: tuple[Step, ...]
    details_expanded: bool


PROOF_FOR: Mapping[RiskLevel, Requirement] = MappingProxyType(
    {
        RiskLevel.LOW: Requirement(
            strength=ApprovalStrength.TAP, steps=("tap",), details_expanded=False
        ),
        RiskLevel.MEDIUM: Requirement(
            strength=ApprovalStrength.TAP, steps=("tap", "confirm"), details_expanded=False
        ),
        RiskLevel.HIGH: Requirement(
            strength=ApprovalStrength.SLIDE, steps=("tap", "slide"), details_expanded=True
        ),
        RiskLevel.IRREVERSIBLE: Requirement(
            strength=ApprovalStrength.PASSKEY,
            steps=("tap", "slide", "strong_auth"),
            details_expanded=True,
        ),
    }
)
"""The one table from risk to proof. The vault's own key is enough for everything."""


@dataclass(frozen=True)
class OwnersProof:
    """What somebody shows to have decided. Nothing of it is believed before it was checked."""

    key_id: str
    signature: bytes
    """Over the statement, by that key."""
    passkey: Assertion | None = None
    origins: Collection[str] = ()
    """The pages on which the passkey may have been used."""


@dataclass(frozen=True)
class DecisionSubject:
    """What a decision is about, as far as its proof is concerned."""

    kind: QuestionKind
    ids: tuple[str, ...]
    """The decision is stored under each of these: a card, or the calls that were decided."""
    statement: bytes
    """What is signed: the question, what it showed, and what was decided."""
    challenge: bytes
    """What a passkey signs: the hash of what was shown."""
    risk: RiskLevel
    scope: ApprovalScope | None
    """What a yes gives an approval for; None if it gives none."""
    grants: bool
    """Whether it is a yes, or anything else that lets more happen than before."""
    intact: bool
    """Whether the question was found as it was asked, by its seal."""


@dataclass(frozen=True)
class ShownQuestion:
    """Something before the owner, as far as a decision about it is concerned: hashes and risk."""

    kind: QuestionKind
    question_id: str
    hashes: Mapping[str, str]
    """The hash of everything that is shown, by its id."""
    risk: RiskLevel
    taint: TaintLevel
    scope: ApprovalScope
    intact: bool
    """Whether it is as it was asked."""

    def statement(self, decision: ApprovalDecision) -> bytes:
        """What is signed: the question, what it showed, and what was decided.

        Risk and taint decide which proof is needed, so they are part of it, but for calls: theirs
        follow from the very content that is hashed.
        """
        fields: dict[str, Any] = {
            "card_id": self.question_id,
            "plan_hashes": dict(self.hashes),
            "decision": decision.model_dump(mode="json"),
        }
        if self.kind is QuestionKind.CALL:
            return canonical_bytes({"type": "call_decision", **fields})
        level = {"risk": self.risk.value, "taint": self.taint.value}
        return canonical_bytes({"type": "card_decision", **fields, **level})

    def asked(
        self, decision: ApprovalDecision, *, ids: Sequence[str] = (), statement: bytes | None = None
    ) -> DecisionSubject:
        """What the decision is about; stored under these ids, if not under the question's own."""
        return DecisionSubject(
            kind=self.kind,
            ids=tuple(ids) or (self.question_id,),
            statement=statement or self.statement(decision),
            challenge=challenge_of(self.hashes),
            risk=self.risk,
            scope=self.scope,
            grants=is_yes(decision),
            intact=self.intact,
        )


class OwnersWord(NamedTuple):
    """A decision, and what shows that it is the owner's."""

    decision: ApprovalDecision
    proof: OwnersProof


@dataclass(frozen=True)
class Approval:
    """What a yes approves: a token is issued for exactly these bytes."""

    payload: Approvable
    scope: ApprovalScope
    ttl: timedelta | None = None
    conditions: Mapping[str, Any] = field(default_factory=dict)
    use_at_once: bool = False
    """Use the token up in the decision's own transaction: nobody else is going to."""
    attach: Callable[[Transaction, ApprovalToken], None] | None = None
    """Stores the token with the work that it is for, in that transaction; raises if that work is
    not what was shown any more."""

    @property
    def begins_work(self) -> bool:
        """Whether work begins with it: then it is vouched for together with the beginning."""
        return self.use_at_once and self.attach is not None


Tokens = Mapping[str, ApprovalToken]
"""The tokens of one decision, by the id of what each is for."""


@dataclass(frozen=True)
class ProvenDecision:
    """A decision that was stored, found to be the owner's."""

    statement: Mapping[str, Any]
    strength: ApprovalStrength
    decided_at: datetime | None
    """When it was made; None if nobody vouches for that. Then it leads to no approval."""
    tokens: Mapping[str, str] = field(default_factory=dict)
    """The ids of its tokens, by what each is for."""


class DecisionRow(NamedTuple):
    """A stored decision, as it lies in the database."""

    kind: str
    statement: str | None
    """None for an answer to a question that an older version has stored."""
    strength: str
    key_id: str
    signature: str
    assertion: str | None
    tokens: str
    decided_at: str | None
    receipt_key_id: str | None
    receipt: str | None

    def fields(self) -> dict[str, Any]:
        """The statement; empty if it cannot be read."""
        return statement_fields((self.statement or "").encode())


class UsedPasskey(Data):
    """The passkey's part of a decision, as it is stored."""

    assertion: Assertion
    origin: str


class Decisions:
    """Takes the owner's decisions of one data directory, and vouches for those that it has taken.

    Without devices or passkeys, what they would prove is not proven.
    """

    def __init__(
        self,
        database: Database,
        keys: OwnerKey,
        *,
        approvals: ApprovalEngine,
        audit: AuditTrail,
        clock: Clock,
        devices: DeviceStore | None = None,
        passkeys: PasskeyStore | None = None,
    ) -> None:
        self._database = database
        self._keys = keys
        self._seals = Seals(keys)
        self._approvals = approvals
        self._audit = audit
        self._clock = clock
        self._devices = devices
        self._passkeys = passkeys

    def requirement(self, risk: RiskLevel, scope: ApprovalScope | None) -> Requirement:
        """What a yes takes (rule 3): as much as the risk, or more if the settings demand it."""
        minimum = self._approvals.minimum_strength(scope) if scope else ApprovalStrength.TAP
        ladder = tuple(RiskLevel)
        for level in ladder[ladder.index(risk) :]:
            if PROOF_FOR[level].strength.rank >= minimum.rank:
                return PROOF_FOR[level]
        return PROOF_FOR[RiskLevel.IRREVERSIBLE].model_copy(update={"strength": minimum})

    def owner_proof(self, statement: bytes) -> OwnersProof:
        """The proof of whoever has the vault open: the owner's own key signs the statement."""
        key_id, signature = self._keys.sign(statement)
        return OwnersProof(key_id, signature)

    def owners_word(self, question: ShownQuestion, decision: ApprovalDecision) -> OwnersWord:
        """The decision of whoever has the vault open, with its proof."""
        strong = {"approval_strength": ApprovalStrength.VAULT}
        decided = decision.model_copy(update=strong)
        return OwnersWord(decided, self.owner_proof(question.statement(decided)))

    async def decide(
        self,
        asked: DecisionSubject,
        proof: OwnersProof,
        *,
        record: Callable[[Transaction, Tokens], None],
        entries: Sequence[Entry],
        approve: Sequence[Approval] = (),
    ) -> Tokens:
        """Check the proof, and store the decision with everything that it means (rules 1 to 5).

        `record` writes what the decision changes; it raises if that is not to be decided any more.
        `approve` is what a yes approves. Raises `DecisionNotSigned`, `StrongerProofNeeded` or
        `DecisionRefused`.
        """
        strength, use = await self._require_proof(asked, proof)
        approve = approve if asked.grants else ()
        prepared = [await self._prepared(each, strength) for each in approve]
        tokens = {each.token.work_item_id: each.token for each in prepared}
        now = format_timestamp(self._clock.now())
        rows = await asyncio.to_thread(
            self._rows, asked, proof, strength=strength, use=use, tokens=tokens, now=now
        )

        def write(tx: Transaction) -> None:
            record(tx, tokens)
            for name, row in rows.items():
                tx.execute(_INSERT, (name, *row))
            if use is not None and proof.passkey is not None and self._passkeys is not None:
                self._passkeys.count_in(tx, proof.passkey.credential_id, use)
            for issued, meant in zip(prepared, approve, strict=True):
                self._approvals.issue_in(tx, issued)
                if meant.use_at_once:
                    self._approvals.use_in(tx, issued.token, meant.payload, meant.scope)
                if meant.attach is not None:
                    meant.attach(tx, issued.token)
            for event, data in entries:
                self._audit.append(tx, event, {**data, "strength": strength.value})

        await self._database.transaction(write, durability=Durability.TRUST)
        if not all(each.begins_work for each in approve):
            # What is not vouched for could be cut off the end of the log unnoticed.
            await self._approvals.vouch()
        return tokens

    async def _prepared(self, approval: Approval, strength: ApprovalStrength) -> PreparedToken:
        yes = ApprovalDecision(
            verdict=ApprovalVerdict.APPROVED,
            approval_strength=strength,
            conditions=dict(approval.conditions),
        )
        return await self._approvals.prepare(
            approval.payload, yes, approval.scope, ttl=approval.ttl
        )

    async def require_signed(self, asked: DecisionSubject, proof: OwnersProof) -> ApprovalStrength:
        """Rule 1 alone: how strong the signature is; raises `DecisionNotSigned`."""
        signed = await self._signed_with(asked, proof)
        if signed is None or not asked.ids:
            event = _UNSIGNED.get(asked.kind, "answer_unsigned")
            await self._audit.log(event, card_id=",".join(asked.ids), key_id=proof.key_id)
            raise DecisionNotSigned
        return signed

    async def _require_proof(
        self, asked: DecisionSubject, proof: OwnersProof
    ) -> tuple[ApprovalStrength, Use | None]:
        signed = await self.require_signed(asked, proof)  # 1
        if not asked.grants:
            return signed, None
        if _verdict(statement_fields(asked.statement)) == ApprovalVerdict.CONDITIONAL:
            raise DecisionRefused(NOT_OFFERED)
        if not asked.intact:  # 2
            await self._audit.log("card_changed", card_id=asked.ids[0])
            raise DecisionRefused(UNSEALED)
        required, use = self.requirement(asked.risk, asked.scope).strength, None  # 3
        if signed is not ApprovalStrength.VAULT and proof.passkey is not None:
            signed, use = ApprovalStrength.PASSKEY, await self._used(asked, proof)
        if signed.rank < required.rank:
            raise StrongerProofNeeded
        return signed, use

    async def _signed_with(
        self, asked: DecisionSubject, proof: OwnersProof
    ) -> ApprovalStrength | None:
        """How strong the signature alone is; None if it is nobody's."""
        now = self._clock.now()
        if self._keys.verify(proof.key_id, asked.statement, proof.signature, at=now):
            return ApprovalStrength.VAULT
        if self._devices is None or not await self._devices.verify(
            proof.key_id, asked.statement, proof.signature
        ):
            return None
        slid = gesture_of(statement_fields(asked.statement)).rank >= ApprovalStrength.SLIDE.rank
        return ApprovalStrength.SLIDE if slid else ApprovalStrength.TAP

    async def _used(self, asked: DecisionSubject, proof: OwnersProof) -> Use:
        if self._passkeys is None or proof.passkey is None:
            raise StrongerProofNeeded
        return await self._passkeys.verify(proof.passkey, asked.challenge, origins=proof.origins)

    def _rows(
        self,
        asked: DecisionSubject,
        proof: OwnersProof,
        *,
        strength: ApprovalStrength,
        use: Use | None,
        tokens: Tokens,
        now: str,
    ) -> dict[str, DecisionRow]:
        """What is stored under each id (rules 4 and 5)."""
        passkey = None
        if use is not None and proof.passkey is not None:
            passkey = UsedPasskey(assertion=proof.passkey, origin=use.origin).model_dump_json()
        rows = {}
        for name in asked.ids:
            fields = _receipt_fields(name, asked.statement, now)
            rows[name] = DecisionRow(
                asked.kind.value,
                asked.statement.decode(),
                strength.value,
                proof.key_id,
                encode_signature(proof.signature),
                passkey,
                json.dumps({each: token.token_id for each, token in tokens.items()}),
                now,
                *self._seals.sign(_RECEIPT, fields),
            )
        return rows

    async def row(self, question_id: str) -> DecisionRow | None:
        """What is stored about a question; nothing of it is checked."""
        row = await self._database.fetch_one(_SELECT, (question_id,))
        return DecisionRow(*row) if row else None

    async def row_of_token(self, token_id: str) -> tuple[DecisionRow, str | None] | None:
        """The stored decision that led to a token, with the content of its question if it was an
        answer; nothing of it is checked."""
        literal = token_id.replace("!", "!!").replace("_", "!_").replace("%", "!%")
        found = await self._database.fetch_one(_LED_TO, (f'%"{literal}"%',))
        return (DecisionRow(*found[:-1]), found[-1]) if found else None

    async def decided_at(self, question_id: str) -> datetime | None:
        """When a question was decided, as the owner's key vouches (rule 5); None if it was not."""
        row = await self.row(question_id)
        if row is None or row.statement is None:
            return None
        return self._decided_at(question_id, row.statement.encode(), row)

    async def proven(self, asked: DecisionSubject, row: DecisionRow) -> ProvenDecision | None:
        """The stored decision if it is the owner's, with all that it needs (rule 6)."""
        [name] = asked.ids
        try:
            used = UsedPasskey.model_validate_json(row.assertion) if row.assertion else None
        except ValidationError:
            return None
        proof = OwnersProof(
            row.key_id,
            decode_signature(row.signature),
            passkey=used.assertion if used else None,
            origins=(used.origin,) if used else (),
        )
        strength = await self._proven_strength(asked, proof)
        if strength is None:
            return None
        return ProvenDecision(
            row.fields(),
            strength,
            self._decided_at(name, asked.statement, row),
            _tokens(row.tokens),
        )

    async def _proven_strength(
        self, asked: DecisionSubject, proof: OwnersProof
    ) -> ApprovalStrength | None:
        signed = await self._signed_with(asked, proof)
        if signed is None or not asked.grants:
            return signed
        try:
            if proof.passkey is not None and signed is not ApprovalStrength.VAULT:
                await self._used(asked, proof)
                signed = ApprovalStrength.PASSKEY
        except (DecisionRefused, StrongerProofNeeded):
            return None
        required = self.requirement(asked.risk, asked.scope).strength
        return signed if asked.intact and signed.rank >= required.rank else None

    def _decided_at(self, name: str, statement: bytes, row: DecisionRow) -> datetime | None:
        """Rule 5."""
        try:
            moment = parse_timestamp(str(row.decided_at))
        except ValueError:
            return None
        fields = _receipt_fields(name, statement, str(row.decided_at))
        seal = Seal(row.receipt_key_id, row.receipt)
        return moment if self._seals.holds(seal, _RECEIPT, fields, at=moment) else None

    async def token_of(self, decision: ProvenDecision, payload_id: str) -> ApprovalToken | None:
        """The one token that a decision has led to, while it may still be followed.

        None if nobody vouches for when it was made, or if that is too long ago.
        """
        decided_at, token_id = decision.decided_at, decision.tokens.get(payload_id)
        if decided_at is None or token_id is None or not self._approvals.is_current(decided_at):
            return None
        return (await self._approvals.tokens.load(token_id)).token


_UNSIGNED = {
    QuestionKind.PLAN: "card_decision_unsigned",
    QuestionKind.BATCH: "card_decision_unsigned",
    QuestionKind.CALL: "card_decision_unsigned",
}


_GRANTS = frozenset({ApprovalVerdict.APPROVED, ApprovalVerdict.CONDITIONAL})


def is_yes(decision: ApprovalDecision) -> bool:
    """Whether a decision lets anything happen."""
    return decision.verdict in _GRANTS


def challenge_of(hashes: Mapping[str, str]) -> bytes:
    """What a passkey signs: the hash of what was shown; of several, the hash of their hashes."""
    if len(hashes) == 1:
        return bytes.fromhex(next(iter(hashes.values())))
    return hashlib.sha256(canonical_bytes(dict(hashes))).digest()


def _receipt_fields(question_id: str, statement: bytes, decided_at: str) -> dict[str, str]:
    return {
        "card_id": question_id,
        "statement": hashlib.sha256(statement).hexdigest(),
        "decided_at": decided_at,
    }


def statement_fields(statement: bytes) -> dict[str, Any]:
    """What a statement says; nothing if it cannot be read."""
    try:
        fields = strict_loads(statement)
    except CanonicalError:
        return {}
    return fields if isinstance(fields, dict) else {}


def _verdict(fields: Mapping[str, Any]) -> object:
    """What the statement says about the verdict; None for an answer to a question."""
    decision = fields.get("decision")
    return decision.get("verdict") if isinstance(decision, Mapping) else None


def gesture_of(fields: Mapping[str, Any]) -> ApprovalStrength:
    """What the signed statement says about the gesture."""
    decision = fields.get("decision")
    where = decision if isinstance(decision, Mapping) else fields
    try:
        return ApprovalStrength(str(where.get("approval_strength")))
    except ValueError:
        return ApprovalStrength.TAP


def _tokens(text: str) -> dict[str, str]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return {str(name): str(each) for name, each in found.items()} if isinstance(found, dict) else {}
