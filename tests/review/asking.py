"""Everything that is asked of an owner who has a phone, a passkey and the vault, kind by kind."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from silas.approval import (
    ApprovalDecision,
    ApprovalScope,
    ApprovalStrength,
    ApprovalVerdict,
    DeviceStore,
    PasskeyStore,
    PublicKey,
)
from silas.approval.rules import digest
from silas.gates.risk import RiskLevel
from silas.kernel import TaintLevel
from silas.queue.store import QueueStore
from silas.review import (
    Approval,
    Card,
    CardStore,
    Decisions,
    OwnersProof,
    QuestionKind,
    ShownQuestion,
)
from silas.review.cards import batch_decision_bytes, batch_entry, decision_bytes
from silas.review.decisions import challenge_of
from silas.review.questions import (
    Question,
    QuestionChoice,
    QuestionContent,
    QuestionStore,
    answer_bytes,
)
from silas.storage import Durability
from silas.testing import FakePlan, MemoryVault
from tests.approval.authenticator import ORIGIN, Authenticator
from tests.approval.desk import Desk, open_desk

TAP, SLIDE, PASSKEY, VAULT = (
    ApprovalStrength.TAP,
    ApprovalStrength.SLIDE,
    ApprovalStrength.PASSKEY,
    ApprovalStrength.VAULT,
)
ENROL = b"e" * 32
YES, NO = ApprovalVerdict.APPROVED, ApprovalVerdict.DECLINED
BATCH = {
    "batch_id": "batch_1",
    "goal_id": "goal_1",
    "action": "archive",
    "connection": "conn_1",
    "tool": "mail_archive",
    "args": {},
    "ids": "mails",
    "item_ids": ["1.1<a@x>INBOX"],
    "states": [""],
    "lines": ["A, from x"],
    "state": None,
    "count": 1,
}
ASKED_WITH_TOKENS = {
    QuestionKind.COMPANION: {"action": {"operation_id": "op_1", "tool_name": "add"}},
    QuestionKind.MEMORY: {"memory": {"items": [{"memory_id": "mem_1", "content": "x"}]}},
    QuestionKind.SKILL: {"skill": {"version_id": "skill_greeting_1", "name": "greeting"}},
    QuestionKind.SKILL_SOURCE: {"fetch": {"fetch_id": "question_1", "url": "https://a.test/x"}},
    QuestionKind.TOOL_SERVER: {"server": {"start_id": "question_1", "name": "time"}},
    QuestionKind.GRANT: {"grant": {"grant_id": "question_1", "family": "mail_archive"}},
    QuestionKind.PROPOSAL: {"proposal": {"proposal_id": "question_1", "request": {"a": 1}}},
    QuestionKind.CONNECTION: {"connection": {"approval_id": "conn_1", "name": "Mail"}},
    QuestionKind.DOMAIN: {"crossing": {"approval_id": "crossing_1", "source": "personal"}},
    QuestionKind.ITEMS: {"batch": BATCH, "goal_id": "goal_1"},
    QuestionKind.TEACHING: {"options": {"approve": BATCH}, "goal_id": "goal_1"},
    QuestionKind.PERMISSION: {"approval_id": "perm_1", "permission": "act"},
    QuestionKind.AUTONOMY: {
        "proposal_id": "question_1",
        "scope_id": "owner",
        "goal_id": None,
        "changes": [
            {
                "key": "batch",
                "current_value": "1",
                "proposed_value": "2",
                "direction": "widen",
            }
        ],
        "sample_size": 3,
        "correction_rate": 0.5,
        "evidence_window": "all",
    },
}


@dataclass
class Place:
    """One data directory, what is asked in it, and what the owner can prove with."""

    desk: Desk
    decisions: Decisions
    cards: CardStore
    questions: QuestionStore
    devices: DeviceStore
    passkeys: PasskeyStore
    phone: Ed25519PrivateKey
    finger: Authenticator
    plans: dict[str, FakePlan] = field(default_factory=dict)

    @property
    def key_id(self) -> str:
        return PublicKey(self.phone.public_key().public_bytes_raw()).key_id

    def proof(self, statement: bytes, challenge: bytes, strength: ApprovalStrength) -> OwnersProof:
        """What shows a statement to be the owner's, so strongly and no more."""
        if strength is VAULT:
            return self.decisions.owner_proof(statement)
        signature, passkey = self.phone.sign(statement), None
        if strength is PASSKEY:
            self.finger.count += 1
            passkey = self.finger.assertion(challenge)
        return OwnersProof(self.key_id, signature, passkey, (ORIGIN,))

    def forged(self, statement: bytes) -> OwnersProof:
        """A signature of nobody's, under the phone's name."""
        return OwnersProof(self.key_id, Ed25519PrivateKey.generate().sign(statement))

    async def stored(self) -> list[Any]:
        """What there is of decisions: rows, tokens, events, entries."""
        counts = []
        for table in ("decisions", "approval_tokens", "approval_executions", "queue_messages"):
            row = await self.desk.database.fetch_one(f"SELECT count(*) FROM {table}")
            assert row is not None
            counts.append(row[0])
        decided = {"card_decided", "batch_decided", "question_answered", "call_decided"}
        return [*counts, sum(each in decided for each in self.desk.audit.events())]


async def open_place(path: Path, **policy: Any) -> Place:
    desk = await open_desk(path)
    if policy:
        desk.policy = type(desk.policy)(**policy)
    vault, engine = MemoryVault(), desk.engine
    devices = DeviceStore(desk.database, desk.keys, vault=vault, audit=desk.audit, clock=desk.clock)
    passkeys = PasskeyStore(
        desk.database, desk.keys, vault=vault, audit=desk.audit, clock=desk.clock
    )
    phone = Ed25519PrivateKey.generate()
    await devices.enrol(PublicKey(phone.public_key().public_bytes_raw()), name="A phone")
    finger = Authenticator(ec.generate_private_key(ec.SECP256R1()))
    await passkeys.enrol(
        finger.registration(ENROL), challenge=ENROL, origin=ORIGIN, name="A finger"
    )
    decisions = Decisions(
        desk.database,
        desk.keys,
        approvals=engine,
        audit=desk.audit,
        clock=desk.clock,
        devices=devices,
        passkeys=passkeys,
    )
    queue = QueueStore(desk.database, clock=desk.clock, ids=desk.ids)
    more: dict[str, Any] = {
        "decisions": decisions,
        "keys": desk.keys,
        "audit": desk.audit,
        "clock": desk.clock,
    }
    plans: dict[str, FakePlan] = {}

    async def plans_of(names: Sequence[str]) -> list[Approval]:
        return [Approval(plans[name], ApprovalScope.FULL_PLAN) for name in names if name in plans]

    cards = CardStore(desk.database, queue, plans=plans_of, **more)
    questions = QuestionStore(desk.database, queue, **more)
    return Place(desk, decisions, cards, questions, devices, passkeys, phone, finger, plans)


def decided(verdict: ApprovalVerdict, strength: ApprovalStrength) -> ApprovalDecision:
    return ApprovalDecision(verdict=verdict, approval_strength=strength)


async def ask_card(place: Place, risk: RiskLevel, *, name: str = "card_1") -> Card:
    plan = FakePlan(id=f"plan_{name}")
    place.plans[plan.id] = plan
    now = place.desk.clock.now()
    card = Card(
        card_id=name,
        scope_id="owner",
        connection_id="owner",
        channel="web",
        trace_id="trace_1",
        title="Do it",
        message="",
        risk=risk,
        taint=TaintLevel.OWNER,
        plan_hashes={plan.id: digest(plan.plan_bytes())},
        replaces=None,
        requested_by="planner",
        created_at=now,
        expires_at=now + timedelta(days=1),
        state="open",
    )
    await place.desk.database.transaction(lambda tx: place.cards.ask(tx, card))
    return await place.cards.get(name)


class PlanWay:
    """A plan, on its card."""

    table = "review_cards"

    async def ask(self, place: Place, risk: RiskLevel) -> Any:
        return await ask_card(place, risk)

    async def decide(
        self, place: Place, card: Card, verdict: ApprovalVerdict, strength: ApprovalStrength | None
    ) -> None:
        card = await place.cards.get(card.card_id)
        decision = decided(verdict, strength or TAP)
        statement = decision_bytes(card, decision)
        proof = place.forged(statement)
        if strength is not None:
            proof = place.proof(statement, challenge_of(card.plan_hashes), strength)
        await place.cards.decide(card.card_id, decision, proof)


class BatchWay:
    """Several plans at once."""

    table = "review_cards"

    async def ask(self, place: Place, risk: RiskLevel) -> Any:
        return [await ask_card(place, risk, name=f"card_{number}") for number in (1, 2)]

    async def decide(
        self,
        place: Place,
        cards: list[Card],
        verdict: ApprovalVerdict,
        strength: ApprovalStrength | None,
    ) -> None:
        cards = [await place.cards.get(card.card_id) for card in cards]
        content = {
            "item_ids": [card.card_id for card in cards],
            "items": [batch_entry(card) for card in cards],
        }
        decision = decided(verdict, strength or TAP)
        statement = batch_decision_bytes(content, decision)
        proof = place.forged(statement)
        if strength is not None:
            proof = place.proof(statement, bytes.fromhex(digest(statement)), strength)
        await place.cards.decide_batch(content, decision, proof)


class CallWay:
    """A call of running work, or a file beyond its plan: nothing but bytes, as others ask it."""

    table = ""

    async def ask(self, place: Place, risk: RiskLevel) -> Any:
        payload = FakePlan(id="call_1")
        question = ShownQuestion(
            kind=QuestionKind.CALL,
            question_id="call_1",
            hashes={payload.id: digest(payload.plan_bytes())},
            risk=risk,
            taint=TaintLevel.OWNER,
            scope=ApprovalScope.SINGLE_STEP,
            intact=True,
        )
        return question, payload

    async def decide(
        self,
        place: Place,
        asked: tuple[ShownQuestion, FakePlan],
        verdict: ApprovalVerdict,
        strength: ApprovalStrength | None,
    ) -> None:
        question, payload = asked
        decision = decided(verdict, strength or TAP)
        statement = question.statement(decision)
        proof = place.forged(statement)
        if strength is not None:
            proof = place.proof(statement, challenge_of(question.hashes), strength)
        await place.decisions.decide(
            question.asked(decision),
            proof,
            record=lambda tx, tokens: None,
            entries=[("call_decided", {"call": question.question_id})],
            approve=[Approval(payload, ApprovalScope.SINGLE_STEP, use_at_once=True)],
        )


@dataclass
class QuestionWay:
    """A question of one kind."""

    kind: QuestionKind
    table = "questions"

    async def ask(self, place: Place, risk: RiskLevel) -> Any:
        now = place.desk.clock.now()
        question = Question(
            question_id="question_1",
            scope_id="owner",
            trace_id="trace_1",
            about="something",
            content=QuestionContent(
                kind=self.kind,
                intent="Do it?",
                rationale="It helps.",
                risk=risk,
                taint=TaintLevel.OWNER,
                actions=[
                    QuestionChoice(value="approve", label="Yes"),
                    QuestionChoice(value="no", label="No"),
                ],
                body=ASKED_WITH_TOKENS.get(self.kind, {}),
            ),
            created_at=now,
            expires_at=now + timedelta(days=1),
        )
        await place.questions.ask(question)
        return await place.questions.get("question_1")

    async def decide(
        self,
        place: Place,
        question: Question,
        verdict: ApprovalVerdict,
        strength: ApprovalStrength | None,
    ) -> None:
        question = await place.questions.get(question.question_id)
        answer = {"verdict": "approve" if verdict is YES else "no"}
        gesture = strength or TAP
        statement = answer_bytes(question, answer, gesture=gesture)
        proof = place.forged(statement)
        if strength is not None:
            proof = place.proof(statement, bytes.fromhex(question.content_hash), strength)
        await place.questions.answer(question.question_id, answer, proof, gesture=gesture)


QUESTIONS = [
    kind
    for kind in QuestionKind
    if kind not in (QuestionKind.PLAN, QuestionKind.CALL, QuestionKind.BATCH)
]
WAYS: dict[str, Any] = {
    "plan": PlanWay(),
    "batch": BatchWay(),
    "call": CallWay(),
    **{kind.value: QuestionWay(kind) for kind in QUESTIONS},
}


async def forge_row(place: Place, table: str) -> None:
    """Whoever can write the database lowers the risk of what is asked."""
    column, value = ("risk", "low") if table == "review_cards" else ("about", "something else")
    await place.desk.database.transaction(
        lambda tx: tx.execute(f"UPDATE {table} SET {column} = ?", (value,)),
        durability=Durability.TRUST,
    )
