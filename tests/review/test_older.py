"""Decisions that an older version has stored are found after the upgrade, and lead to no token."""

import hashlib
import json
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from silas.approval import ApprovalVerdict, DeviceStore, PublicKey
from silas.approval.keys import Seals, encode_signature
from silas.gates.risk import RiskLevel
from silas.kernel import IdFactory, TaintLevel, format_timestamp
from silas.queue.store import QueueStore
from silas.review import (
    CardStore,
    Decisions,
    Question,
    QuestionChoice,
    QuestionContent,
    QuestionKind,
)
from silas.review.cards import Card, decision_bytes
from silas.review.questions import QuestionStore, answer_bytes
from silas.storage import SqliteDatabase, load_migrations, migrate
from silas.testing import FakeClock, MemoryVault, RecordingAudit
from silas.testing.fakes import approval_engine, owners_keys
from tests.review.asking import TAP, YES, decided

BEFORE = 15
"""How many migrations there were before decisions got a table of their own."""


async def test_what_an_older_version_has_stored(tmp_path: Path) -> None:
    clock, vault, audit = FakeClock(), MemoryVault(), RecordingAudit()
    database = SqliteDatabase.open(tmp_path / "silas.db")
    await migrate(database, load_migrations("runtime")[:BEFORE], clock=clock)
    keys = owners_keys(vault, clock=clock)
    phone = Ed25519PrivateKey.generate()
    key = PublicKey(phone.public_key().public_bytes_raw())
    devices = DeviceStore(database, keys, vault=vault, audit=audit, clock=clock)
    await devices.enrol(key, name="A phone")
    now, later = clock.now(), clock.now().replace(year=2999)
    card = Card(
        card_id="card_1",
        scope_id="owner",
        connection_id="owner",
        channel="web",
        trace_id="t",
        title="Do it",
        message="",
        risk=RiskLevel.MEDIUM,
        taint=TaintLevel.OWNER,
        plan_hashes={"w1": "0" * 64},
        replaces=None,
        requested_by="planner",
        created_at=now,
        expires_at=later,
        state="approved",
    )
    question = Question(
        question_id="question_1",
        scope_id="owner",
        trace_id="t",
        about="something",
        content=QuestionContent(
            kind=QuestionKind.SUGGESTION,
            intent="Do it?",
            rationale="",
            risk=RiskLevel.LOW,
            taint=TaintLevel.OWNER,
            actions=[
                QuestionChoice(value="do_it", label="Yes"),
                QuestionChoice(value="no", label="No"),
            ],
        ),
        created_at=now,
        expires_at=later,
    )
    engine = approval_engine(database, keys, audit=audit, clock=clock, ids=IdFactory(clock))
    decisions = Decisions(
        database, keys, approvals=engine, audit=audit, clock=clock, devices=devices
    )
    queue = QueueStore(database, clock=clock, ids=IdFactory(clock))
    more = {"decisions": decisions, "keys": keys, "audit": audit, "clock": clock}
    cards = CardStore(database, queue, plans=lambda names: [], **more)  # type: ignore[arg-type]
    questions = QuestionStore(database, queue, **more)  # type: ignore[arg-type]
    await database.transaction(lambda tx: cards.ask(tx, card))
    await questions.ask(question)

    async def keep(table: str, column: str, name: str, statement: bytes, text: str) -> None:
        at, seals = format_timestamp(now), Seals(keys)
        digest = hashlib.sha256(statement).hexdigest()
        fields = {"card_id": name, "statement": digest, "decided_at": at}
        await database.execute(
            f"UPDATE {table} SET state = 'approved', {column} = ?, key_id = ?, signature = ?",
            (text, key.key_id, encode_signature(phone.sign(statement))),
        )
        await database.execute(
            "INSERT INTO decision_receipts (card_id, decided_at, key_id, signature)"
            " VALUES (?, ?, ?, ?)",
            (name, at, *seals.sign("decision_kept", fields)),
        )

    said = {"selected_value": "do_it"}
    statement = decision_bytes(card, decided(YES, TAP))
    await keep("review_cards", "decision", "card_1", statement, statement.decode())
    await keep("questions", "answer", "question_1", answer_bytes(question, said), json.dumps(said))

    await migrate(database, load_migrations("runtime"), clock=clock)
    found = await cards.decision("card_1")
    assert found is not None
    assert (found.decision.verdict, found.decided_at) == (ApprovalVerdict.APPROVED, now)
    assert found.tokens == {}, "it is asked for again"
    answered = await questions.answered("question_1")
    assert answered is not None
    assert (answered.value, answered.decision.decided_at) == ("do_it", now)
    await database.close()
