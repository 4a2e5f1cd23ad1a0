"""Questions: sealed when they are asked, signed when they are answered; and who asks what."""

from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from silas.approval import (
    ApprovalDecision,
    ApprovalEngine,
    ApprovalPolicy,
    ApprovalVerdict,
    DecisionRefused,
    DeviceStore,
    NonceStore,
    PublicKey,
)
from silas.approval.revoked import EndedUntil
from silas.gates import ActionEnvelope, GateAction, GateLane, GateResult
from silas.gates.risk import RiskLevel
from silas.kernel import IdFactory, TaintLevel
from silas.queue import QueueName
from silas.storage import SqliteDatabase
from silas.stream.card_statements import batch_decision_bytes
from silas.stream.cards import CardStore
from silas.stream.errors import (
    CardNotOpen,
    CardUnknown,
    DecisionNotSigned,
    StrongerProofNeeded,
)
from silas.stream.gating import MAX_TEXT
from silas.stream.ports import PlanReview
from silas.stream.review.autonomy import Autonomy, AutonomyPolicy, Evidence
from silas.stream.review.batches import batch_of, selection_of
from silas.stream.review.desk import DeskPolicy, ReviewDesk
from silas.stream.review.drafts import draft_of, text_of, with_text
from silas.stream.review.gate_desk import QuestionGateDesk
from silas.stream.review.models import Question, answer_bytes
from silas.stream.review.store import QuestionStore
from silas.stream.review.suggestions import from_habit, from_next_steps, repeated_command
from silas.stream.review.undoing import summary_of, undo_item
from silas.stream.store import ConversationStore, WorkOrigin
from silas.testing import FakeClock, MemoryVault
from silas.work.before_images import BeforeImage, BeforeImages
from silas.work.models import WorkItem, WorkItemStatus
from silas.work.offline_script import read_script
from silas.work.plan import parse
from silas.work.store import WorkItemStore
from silas.work.workspace import Workspace
from tests.stream.test_cards import Desk

YES = ApprovalDecision(verdict=ApprovalVerdict.APPROVED)
NO = ApprovalDecision(verdict=ApprovalVerdict.DECLINED)
WRITES = """---
id: {name}
type: task
title: Write {name}
verify:
  - name: as wished
    run: cat a.txt
    expect: {{equals: "hello\\n"}}
---
Write it.

```file path=a.txt
hello
```
"""


def writing(name: str = "one", **changes: Any) -> WorkItem:
    item = parse(WRITES.format(name=name))
    return item.model_copy(update={"workspace": Workspace(path="/home/me"), **changes})


def room_of(clock: FakeClock) -> Any:
    """As much of a conversation as asking needs."""
    return SimpleNamespace(
        ids=IdFactory(clock), clock=clock, policy=SimpleNamespace(owner_id="owner")
    )


@dataclass
class Office:
    """Questions and cards on a real database, and one device of the owner's."""

    desk: Desk
    questions: QuestionStore
    cards: CardStore
    devices: DeviceStore
    private: Ed25519PrivateKey
    room: Any
    vault: MemoryVault = field(default_factory=MemoryVault)

    @property
    def key_id(self) -> str:
        return PublicKey(self.private.public_key().public_bytes_raw()).key_id

    async def put(self, question: Question) -> Question:
        await self.questions.ask(question)
        return question

    async def answer(self, question: Question, answer: dict[str, Any]) -> None:
        signature = self.private.sign(answer_bytes(question, answer))
        await self.questions.answer_signed(
            question.question_id, answer, key_id=self.key_id, signature=signature
        )

    async def ask_plan(self, card_id: str, item: WorkItem, **more: Any) -> None:
        review = PlanReview(
            card_id=card_id,
            items=[item],
            scope_id="owner",
            connection_id="owner",
            channel="web",
            trace_id=f"trace_{card_id}",
            message="",
            **{"taint": TaintLevel.OWNER, **more},
        )
        await self.desk.database.transaction(lambda tx: self.cards.ask_plan(tx, review))

    async def batch(self, *items: WorkItem) -> Question:
        pairs = []
        for item in items:
            await self.ask_plan(f"card_{item.id}", item)
            pairs.append((await self.cards.get(f"card_{item.id}"), item))
        question = batch_of(self.room, pairs, most=10)
        assert question is not None
        return question

    async def decide(self, body: dict[str, Any], decision: ApprovalDecision = YES) -> None:
        signature = self.private.sign(batch_decision_bytes(body, decision))
        await self.cards.decide_batch(body, decision, key_id=self.key_id, signature=signature)


@pytest.fixture
async def office(database: SqliteDatabase, clock: FakeClock) -> Office:
    desk = Desk(database, clock)
    devices = DeviceStore(database, desk.keys, vault=MemoryVault(), audit=desk.audit, clock=clock)
    private = Ed25519PrivateKey.generate()
    await devices.enrol(PublicKey(private.public_key().public_bytes_raw()), name="A phone")
    more: dict[str, Any] = {"signer": desk.keys, "devices": devices, "audit": desk.audit}
    return Office(
        desk,
        QuestionStore(database, desk.queue, clock=clock, **more),
        CardStore(database, desk.queue, clock=clock, **more),
        devices,
        private,
        room_of(clock),
    )


def habit(office: Office) -> Question:
    return from_habit(office.room, "make test", 3, scope_id="owner")


class TestQuestions:
    async def test_asked_answered_and_followed_once(self, office: Office) -> None:
        question = await office.put(habit(office))
        assert [each.question_id for each in await office.questions.open()] == [
            question.question_id
        ]
        await office.answer(question, {"selected_value": "do_it"})
        found = await office.questions.answered(question.question_id)
        assert found is not None
        assert found[1] == {"selected_value": "do_it"}
        lease = await office.desk.queue.lease(QueueName.RUNTIME, consumer="test")
        assert lease is not None
        with pytest.raises(CardNotOpen):
            await office.answer(question, {"selected_value": "not_now"})

    @pytest.mark.parametrize("forged", ["seal = 'x'", "content = 'x'", "content = '{}'"])
    async def test_a_row_that_is_garbage_hides_no_other_question(
        self, office: Office, forged: str
    ) -> None:
        broken, whole = await office.put(habit(office)), await office.put(habit(office))
        await office.desk.database.execute(
            f"UPDATE questions SET {forged} WHERE id = ?", (broken.question_id,)
        )
        found = [each.question_id for each in await office.questions.open()]
        assert found == [whole.question_id]

    async def test_an_answer_that_is_garbage_is_none(self, office: Office) -> None:
        question = await office.put(habit(office))
        await office.answer(question, {"selected_value": "do_it"})
        for forged in ("signature = 'x'", "answer = 'x'", "answer = '[]'"):
            await office.desk.database.execute(f"UPDATE questions SET {forged}")
            assert await office.questions.answered(question.question_id) is None

    async def test_what_cannot_be_undone_is_at_most_refused_on_a_device(
        self, office: Office
    ) -> None:
        final = {"risk": RiskLevel.IRREVERSIBLE}
        first, second = habit(office), habit(office)
        first = first.model_copy(update={"content": first.content.model_copy(update=final)})
        second = second.model_copy(update={"content": second.content.model_copy(update=final)})
        await office.put(first)
        await office.put(second)
        with pytest.raises(StrongerProofNeeded):
            await office.answer(first, {"selected_value": "do_it"})
        await office.questions.answer(first.question_id, {"selected_value": "do_it"})
        assert await office.questions.answered(first.question_id) is not None
        await office.answer(second, {"selected_value": "not_now"})
        assert await office.questions.answered(second.question_id) is not None

    async def test_the_owner_answers_with_his_own_key(self, office: Office) -> None:
        question = await office.put(habit(office))
        await office.questions.answer(question.question_id, {"selected_value": "not_now"})
        assert await office.questions.answered(question.question_id) is not None

    async def test_a_stranger_and_an_answer_to_something_else(self, office: Office) -> None:
        question, other = await office.put(habit(office)), habit(office)
        signed = office.private.sign(answer_bytes(other, {"selected_value": "do_it"}))
        for key_id, signature in (
            (office.key_id, signed),
            ("key_0000000000000000", signed),
            (office.key_id, b""),
        ):
            with pytest.raises(DecisionNotSigned):
                await office.questions.answer_signed(
                    question.question_id,
                    {"selected_value": "do_it"},
                    key_id=key_id,
                    signature=signature,
                )
        with pytest.raises(CardUnknown):
            await office.questions.get("question_9")

    @pytest.mark.parametrize("column", ["content", "about", "scope_id", "trace_id", "seal"])
    async def test_a_changed_row_is_nobodys_question(self, office: Office, column: str) -> None:
        question = await office.put(habit(office))
        value = {
            "content": question.content.to_bytes().decode().replace("make test", "rm -rf"),
            "seal": "AAAA",
        }.get(column, "other")
        await office.desk.database.execute(f"UPDATE questions SET {column} = ?", (value,))
        assert await office.questions.open() == []
        with pytest.raises(DecisionNotSigned):
            await office.answer(
                await office.questions.get(question.question_id), {"selected_value": "do_it"}
            )
        with pytest.raises(DecisionNotSigned):
            await office.questions.answer(question.question_id, {"selected_value": "do_it"})

    async def test_an_answer_that_somebody_wrote_into_the_row(self, office: Office) -> None:
        question = await office.put(habit(office))
        await office.answer(question, {"selected_value": "not_now"})
        await office.desk.database.execute(
            'UPDATE questions SET answer = \'{"selected_value": "do_it"}\''
        )
        assert await office.questions.answered(question.question_id) is None
        assert "answer_forged" in office.desk.audit.events()

    async def test_revoked_in_between(self, office: Office) -> None:
        question = await office.put(habit(office))
        await office.answer(question, {"selected_value": "do_it"})
        await office.devices.revoke(office.key_id)
        assert await office.questions.answered(question.question_id) is None

    async def test_too_late(self, office: Office) -> None:
        question = await office.put(habit(office))
        office.desk.clock.advance(days=4)
        assert await office.questions.open() == []
        with pytest.raises(CardNotOpen):
            await office.answer(question, {"selected_value": "do_it"})
        assert await office.questions.end_expired() == 1
        assert (await office.questions.get(question.question_id)).state == "expired"


class TestBatches:
    async def test_one_signature_decides_all_of_them(self, office: Office) -> None:
        question = await office.batch(*(writing(f"w{number}") for number in range(4)))
        await office.decide(question.content.body)
        for number in range(4):
            found = await office.cards.decision(f"card_w{number}")
            assert found is not None
            assert found.decision == YES

    async def test_all_or_none(self, office: Office) -> None:
        question = await office.batch(*(writing(f"w{number}") for number in range(3)))
        await office.cards.decide("card_w2", NO)
        with pytest.raises(CardNotOpen):
            await office.decide(question.content.body)
        assert (await office.cards.get("card_w0")).state == "open"

    async def test_another_selection_is_another_question(self, office: Office) -> None:
        question = await office.batch(*(writing(f"w{number}") for number in range(4)))
        smaller = selection_of(office.room, question, ["card_w3", "card_w1"])
        assert smaller is not None
        assert smaller.content.body["item_ids"] == ["card_w1", "card_w3"], "in their order"
        for wrong in ([], ["card_9"], question.content.body["item_ids"]):
            assert selection_of(office.room, question, wrong) is None

    @pytest.mark.parametrize("field", ["risk", "taint", "plan_hashes"])
    async def test_a_batch_that_says_something_else_about_a_card(
        self, office: Office, field: str
    ) -> None:
        question = await office.batch(*(writing(f"w{number}") for number in range(3)))
        body = question.model_copy(deep=True).content.body
        body["items"][0][field] = {"risk": "low", "taint": "auth", "plan_hashes": {}}[field]
        with pytest.raises(DecisionRefused):
            await office.decide(body)

    async def test_what_is_risky_is_decided_by_itself(self, office: Office) -> None:
        risky = writing("risky", approvals=[ActionEnvelope(tool="send_mail")])
        await office.ask_plan("card_risky", risky)
        pairs = [(await office.cards.get("card_risky"), risky)] * 3
        assert batch_of(office.room, pairs, most=10) is None
        card = await office.cards.get("card_risky")
        entry = {"card_id": "card_risky", "plan_hashes": card.plan_hashes, "risk": "high"}
        body = {"item_ids": ["card_risky"], "items": [{**entry, "taint": "owner"}]}
        with pytest.raises(DecisionRefused):
            await office.decide(body)

    async def test_a_statement_about_others_decides_nothing(self, office: Office) -> None:
        question = await office.batch(*(writing(f"w{number}") for number in range(3)))
        await office.decide(question.content.body)
        await office.ask_plan("card_4", writing("w4"))
        await office.desk.database.execute(
            "UPDATE review_cards SET state = 'approved', (decision, key_id, signature) ="
            " (SELECT decision, key_id, signature FROM review_cards WHERE id = 'card_w0')"
            " WHERE id = 'card_4'"
        )
        assert await office.cards.decision("card_4") is None

    async def test_what_is_unlike_the_others_is_flagged(self, office: Office) -> None:
        odd = writing("odd", workspace=Workspace(path="/elsewhere"))
        question = await office.batch(writing("a"), writing("b"), odd)
        flags = [entry["anomaly"] for entry in question.content.body["items"]]
        assert flags[:2] == ["", ""]
        assert "/elsewhere" in flags[2]


class TestDrafts:
    @given(st.text(alphabet="ab `\n#$", max_size=30))
    def test_an_edited_text_is_exactly_what_the_plan_writes(self, text: str) -> None:
        changed = with_text(writing(), text)
        if changed is None:
            return
        wanted = text if text.endswith("\n") else f"{text}\n"
        found = text_of(changed)
        assert found is not None
        assert found.content == wanted
        assert changed.verify[0].expect.equals == wanted

    def test_a_plan_without_a_text_is_no_draft(self, clock: FakeClock) -> None:
        item = writing(body="```run\ntrue\n```")
        origin: Any = SimpleNamespace(scope_id="owner", trace_id="t")
        assert draft_of(room_of(clock), origin, item, TaintLevel.OWNER) is None
        assert draft_of(room_of(clock), origin, writing(), TaintLevel.OWNER) is not None


class TestUndo:
    def images(self, content: str | None = "before\n") -> list[BeforeImage]:
        digest = None if content is None else "1" * 64
        return [BeforeImage(path="a.txt", before=digest, after="2" * 64, content=content)]

    def test_it_puts_back_what_was_there_and_checks_it(self, clock: FakeClock) -> None:
        undo = undo_item(room_of(clock), writing(), self.images())
        assert undo is not None
        assert len(read_script(undo.body)) == 2
        assert undo.verify[0].name == "a.txt is as before"
        assert undo.approval_token is None
        assert undo_item(room_of(clock), undo, self.images()) is None, "no undo of an undo"

    @pytest.mark.parametrize("content", ["no newline at its end", "a\r\nb\n", "```\nfence\n````\n"])
    def test_what_a_plan_cannot_say_exactly_is_not_offered(
        self, clock: FakeClock, content: str
    ) -> None:
        assert undo_item(room_of(clock), writing(), self.images(content)) is None

    def test_only_where_something_was_left(self, clock: FakeClock) -> None:
        assert undo_item(room_of(clock), writing(), []) is None
        assert undo_item(room_of(clock), writing(workspace=None), self.images()) is None
        assert summary_of([*self.images(), *self.images(None)]) == (
            "1 file is put back, 1 new file is removed."
        )

    async def test_images_are_forgotten(self, office: Office) -> None:
        images = BeforeImages(office.desk.database, office.desk.clock)
        await images.keep("one", 1, self.images())
        await images.keep("one", 2, self.images(None))
        assert [each.before for each in await images.of("one")] == [None]
        office.desk.clock.advance(minutes=20)
        assert await images.prune(timedelta(minutes=10)) == 2
        assert await images.of("one") == []


class TestSuggestions:
    def test_what_is_done_again_and_again(self) -> None:
        run = writing(body="```run\nmake test\n```")
        assert repeated_command([run, run]) is None
        assert repeated_command([run, run, run, writing()]) == ("make test", 3)

    @pytest.mark.parametrize("taint", TaintLevel)
    async def test_what_a_stranger_wanted_again_and_again_is_no_habit(
        self, office: Office, taint: TaintLevel
    ) -> None:
        database, clock = office.desk.database, office.desk.clock
        room = office.room
        room.items, room.store = WorkItemStore(database, clock), ConversationStore(database, clock)
        for name in ("a", "b", "c"):
            done = {"body": "```run\nmake test\n```", "status": WorkItemStatus.DONE}
            await room.items.save(writing(name, **done))
            origin = WorkOrigin(work_item_id=name, trace_id="t", scope_id="owner", taint=taint)
            await database.transaction(partial(room.store.note_work, origin=origin))
        autonomy = TestAutonomy().autonomy(office)
        images, policy = BeforeImages(database, clock), DeskPolicy()
        desk = ReviewDesk(office.questions, office.cards, autonomy, images, policy)
        desk.attach(room)
        await desk.heartbeat()
        asked = [each.content.intent for each in await office.questions.open()]
        owners = ["Watch `make test` every day"]
        assert asked == (owners if taint is TaintLevel.OWNER else [])

    def test_next_steps_keep_their_taint(self, clock: FakeClock) -> None:
        steps = ["Publish it", " ", "Tell Ann", "More"]
        asked = from_next_steps(
            room_of(clock), writing(), steps, scope_id="owner", taint=TaintLevel.EXTERNAL
        )
        assert [each.content.intent for each in asked] == ["Publish it"]
        assert {each.content.taint for each in asked} == {TaintLevel.EXTERNAL}


class TestAutonomy:
    def autonomy(self, office: Office, **policy: Any) -> Autonomy:
        desk = office.desk
        engine = ApprovalEngine(
            desk.database,
            desk.keys,
            nonces=NonceStore(desk.database, clock=desk.clock),
            audit=desk.audit,
            clock=desk.clock,
            ids=IdFactory(desk.clock),
            policy=ApprovalPolicy(),
        )
        limits = AutonomyPolicy(**{"min_samples": 4, "batch_size": 10, "batch_cap": 15, **policy})
        return Autonomy(desk.database, engine, limits, desk.clock, self.ended(office))

    def ended(self, office: Office) -> EndedUntil:
        return EndedUntil(office.vault, "silas/ended-autonomy")

    async def widened(self, office: Office) -> Autonomy:
        """A change that the owner has approved, and that is in force."""
        autonomy = self.autonomy(office)
        await self.decided(office, 5, 0)
        question = await autonomy.proposal(office.room, "owner")
        assert question is not None
        await autonomy.apply(question, YES, decided_at=office.desk.clock.now())
        assert await autonomy.batch_size() == 15
        return autonomy

    async def test_what_was_taken_back_does_not_live_again(self, office: Office) -> None:
        autonomy = await self.widened(office)
        hidden = "UPDATE autonomy_changes SET ended_at = "
        await office.desk.database.execute(f"{hidden} '2026'")
        await autonomy.tighten()
        await office.desk.database.execute(f"{hidden} NULL")
        assert await autonomy.batch_size() == 10

    async def test_what_another_change_followed_does_not_live_again(self, office: Office) -> None:
        autonomy, database = await self.widened(office), office.desk.database
        office.desk.clock.advance(minutes=1)
        narrower = autonomy._change(office.room, "owner", Evidence(9, 9), sizes=(15, 7))
        await autonomy.apply(narrower, YES, decided_at=office.desk.clock.now())
        assert await autonomy.batch_size() == 7
        await database.execute(
            "DELETE FROM autonomy_changes WHERE proposal_id = ?", (narrower.question_id,)
        )
        await database.execute("UPDATE autonomy_changes SET ended_at = NULL")
        assert await autonomy.batch_size() == 10, "what the settings say"

    async def decided(self, office: Office, yes: int, no: int) -> None:
        for number in range(yes + no):
            await office.ask_plan(f"card_{number}", writing(f"w{number}"))
            card = await office.cards.get(f"card_{number}")
            verdict = YES if number < yes else NO
            await office.cards.decide(card.card_id, verdict, shown=card.plan_hashes)

    async def test_nothing_is_proposed_without_enough_to_go_by(self, office: Office) -> None:
        await self.decided(office, 3, 0)
        assert await self.autonomy(office).proposal(office.room, "owner") is None

    async def test_wider_up_to_the_cap_and_only_by_a_token(self, office: Office) -> None:
        autonomy = self.autonomy(office)
        await self.decided(office, 5, 0)
        question = await autonomy.proposal(office.room, "owner")
        assert question is not None
        [change] = question.content.body["changes"]
        assert (change["proposed_value"], change["direction"]) == ("15", "widen")
        assert await autonomy.batch_size() == 10, "a proposal changes nothing"
        await autonomy.apply(question, YES, decided_at=office.desk.clock.now())
        assert await autonomy.batch_size() == 15
        assert await autonomy.proposal(office.room, "owner") is None, "the cap"
        await autonomy.tighten()
        assert await autonomy.batch_size() == 10

    async def test_a_row_without_its_token_widens_nothing(self, office: Office) -> None:
        autonomy = self.autonomy(office)
        await self.decided(office, 5, 0)
        question = await autonomy.proposal(office.room, "owner")
        assert question is not None
        await autonomy.apply(question, YES, decided_at=office.desk.clock.now())
        for column, value in (("payload", "'{}'"), ("token", "'{}'")):
            await office.desk.database.execute(f"UPDATE autonomy_changes SET {column} = {value}")
            assert await autonomy.batch_size() == 10

    async def test_narrower_when_much_is_corrected(self, office: Office) -> None:
        await self.decided(office, 3, 2)
        question = await self.autonomy(office).proposal(office.room, "owner")
        assert question is not None
        [change] = question.content.body["changes"]
        assert (change["proposed_value"], change["direction"]) == ("5", "tighten")

    async def test_in_between_nothing_moves(self, office: Office) -> None:
        await self.decided(office, 9, 1)
        assert await self.autonomy(office).proposal(office.room, "owner") is None


class TestRevisions:
    async def test_the_next_plan_is_another_version_of_what_was_sent_back(
        self, office: Office
    ) -> None:
        await office.ask_plan("card_1", writing("w1"))
        card = await office.cards.get("card_1")
        edit = ApprovalDecision(verdict=ApprovalVerdict.EDIT_REQUESTED)
        await office.cards.decide("card_1", edit, shown=card.plan_hashes)
        await office.ask_plan("card_2", writing("w2"))
        assert (await office.cards.get("card_2")).replaces == "w1"
        office.desk.clock.advance(hours=1)
        await office.ask_plan("card_3", writing("w3"))
        assert (await office.cards.get("card_3")).replaces is None

    async def test_a_no_counts_only_for_the_same_thing(self, office: Office) -> None:
        await office.ask_plan("card_1", writing("w1"))
        await office.cards.decide("card_1", NO)
        await office.ask_plan("card_2", writing("w2"))
        assert (await office.cards.get("card_2")).replaces is None
        await office.ask_plan("card_3", writing("w3", title="Write w1"))
        assert (await office.cards.get("card_3")).replaces == "w1"


class _SaysYes(QuestionGateDesk):
    """The owner says yes to whatever he is shown; his answer is his signature."""

    async def _answer(self, question: Question) -> bool:
        await self.questions.answer(question.question_id, {"verdict": "approve"})
        return await super()._answer(question)


class TestGates:
    async def passed(self, office: Office, **context: str) -> tuple[bool, list[str]]:
        """Whether it went through, and what was shown for it."""
        asks = GateResult(
            gate_name="money",
            lane=GateLane.POLICY,
            action=GateAction.REQUIRE_APPROVAL,
            reason="An amount.",
        )
        gates = _SaysYes(
            questions=office.questions,
            audit=office.desk.audit,
            clock=office.desk.clock,
            ids=office.room.ids,
            owner_id="owner",
            is_watched=lambda: True,
        )
        passed = await gates.approve_gate(asks, connection_id="guest", context=context)
        rows = await office.desk.database.fetch_all("SELECT id FROM questions")
        shown = [(await office.questions.get(row[0])).content.body["value"] for row in rows]
        return passed, shown

    async def test_of_an_answer_the_answer_is_shown(self, office: Office) -> None:
        found = await self.passed(office, response="Your PIN is 1234.", message="How are you?")
        assert found == (True, ["Your PIN is 1234."])

    async def test_the_end_of_a_long_text_is_shown_too(self, office: Office) -> None:
        text = "Nice weather. " * 500 + "Pay 900 to eve."
        assert await self.passed(office, message=text) == (True, [text])

    async def test_what_cannot_be_shown_whole_is_not_let_through(self, office: Office) -> None:
        assert await self.passed(office, message="a" * (MAX_TEXT + 1)) == (False, [])
