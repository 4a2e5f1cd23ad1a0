"""Questions: sealed when they are asked, signed when they are answered; and who asks what."""

import hashlib
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from silas.approval import (
    ApprovalDecision,
    ApprovalVerdict,
    DecisionRefused,
    DeviceStore,
    PublicKey,
)
from silas.gates import ActionEnvelope, GateAction, GateLane, GateResult
from silas.gates.risk import EffectOf, RiskLevel
from silas.kernel import IdFactory, TaintLevel
from silas.proactive.calibrator import AutonomyCalibrator, AutonomyPolicy
from silas.proactive.grants import GrantPolicy, StandingGrants
from silas.proactive.outcomes import OutcomeStore
from silas.proactive.suggestions import (
    SuggestionEngine,
    SuggestionPolicy,
    card_of,
    from_habit,
    repeated_command,
)
from silas.queue import QueueName
from silas.review import Decisions, OwnersProof
from silas.review.cards import batch_decision_bytes
from silas.review.errors import CardNotOpen, CardUnknown, DecisionNotSigned, StrongerProofNeeded
from silas.review.questions import Question, QuestionStore, answer_bytes
from silas.review.unasked import UnaskedCards
from silas.storage import SqliteDatabase
from silas.stream.cards import PlanCards
from silas.stream.models import MAX_TEXT
from silas.stream.offers import (
    batch_of,
    draft_of,
    selection_of,
    summary_of,
    text_of,
    undo_item,
    with_text,
)
from silas.stream.ports import PlanReview
from silas.stream.review_service import GateQuestions, ReviewPolicy, ReviewService
from silas.stream.store import ConversationStore, WorkOrigin
from silas.testing import FakeClock, MemoryVault
from silas.testing.work import SENDS, declaring
from silas.tools.tree import Tree
from silas.work.before_images import BeforeImage, BeforeImages
from silas.work.effects import FileChange, Workspace
from silas.work.models import WorkItem, WorkItemResult, WorkItemStatus, WorkItemType
from silas.work.origins import OriginStore
from silas.work.plan import Plan, parse
from silas.work.script import RestoreStep, read_script
from silas.work.store import WorkItemStore
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


_EFFECTS = declaring(send=SENDS)


def calibrator_of(office: "Office", **policy: Any) -> AutonomyCalibrator:
    desk = office.desk
    limits = {"min_samples": 4, "batch_size": 10, "batch_cap": 15, **policy}
    return AutonomyCalibrator(
        desk.database,
        desk.engine,
        office.questions._decisions,
        AutonomyPolicy(**limits),
        OutcomeStore(desk.database, desk.clock),
        office.vault,
        desk.audit,
        desk.clock,
        office.room.ids,
    )


def suggestions_of(office: "Office", **policy: Any) -> SuggestionEngine:
    desk = office.desk

    async def taint_of(item: WorkItem) -> TaintLevel:
        return await ConversationStore(desk.database, desk.clock).taint_of(item)

    return SuggestionEngine(
        desk.database,
        desk.items,
        office.cards,
        office.questions,
        desk.clock,
        office.room.ids,
        SuggestionPolicy(**policy),
        taint_of,
    )


def unasked_of(office: "Office", a_day: int = 5) -> UnaskedCards:
    desk = office.desk
    zone = ZoneInfo("Europe/Vienna")
    return UnaskedCards(
        desk.database, office.questions, desk.clock, office.room.ids, zone, "owner", a_day
    )


def grants_of(office: "Office", effect_of: EffectOf = _EFFECTS, **policy: Any) -> StandingGrants:
    desk, calibrator = office.desk, calibrator_of(office)
    return StandingGrants(
        desk.database,
        desk.engine,
        office.questions._decisions,
        office.questions,
        calibrator.outcomes,
        calibrator,
        effect_of,
        desk.audit,
        desk.clock,
        office.room.ids,
        ZoneInfo("Europe/Vienna"),
        "owner",
        GrantPolicy(**policy),
    )


def desk_of(office: "Office", images: BeforeImages) -> ReviewService:
    grants = grants_of(office)
    return ReviewService(
        office.questions,
        office.cards,
        grants.calibrator,
        suggestions_of(office),
        grants,
        unasked_of(office),
        images,
        ReviewPolicy(),
    )


@dataclass
class Office:
    """Questions and cards on a real database, and one device of the owner's."""

    desk: Desk
    questions: QuestionStore
    cards: PlanCards
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
        await self.questions.answer(
            question.question_id, answer, OwnersProof(self.key_id, signature)
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
        if await self.desk.items.get(item.id) is None:
            await self.desk.items.save(item)
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
        await self.cards.decide_batch(body, decision, OwnersProof(self.key_id, signature))


@pytest.fixture
async def office(database: SqliteDatabase, clock: FakeClock) -> Office:
    desk = Desk(database, clock)
    devices = DeviceStore(database, desk.keys, vault=MemoryVault(), audit=desk.audit, clock=clock)
    private = Ed25519PrivateKey.generate()
    await devices.enrol(PublicKey(private.public_key().public_bytes_raw()), name="A phone")
    audit, keys = desk.audit, desk.keys
    decisions = Decisions(
        database, keys, approvals=desk.engine, audit=audit, clock=clock, devices=devices
    )
    more: dict[str, Any] = {"keys": keys, "decisions": decisions, "audit": audit, "clock": clock}
    return Office(
        desk,
        QuestionStore(database, desk.queue, **more),
        PlanCards(
            database,
            desk.queue,
            items=desk.items,
            effect_of=declaring(),
            origins=OriginStore(database, clock),
            **more,
        ),
        devices,
        private,
        room_of(clock),
    )


def habit(office: Office) -> Question:
    room = office.room
    return card_of(from_habit(room.ids, room.clock.now(), "make test", 3, scope_id="owner"))


class TestQuestions:
    async def test_asked_answered_and_followed_once(self, office: Office) -> None:
        question = await office.put(habit(office))
        assert [each.question_id for each in await office.questions.open()] == [
            question.question_id
        ]
        await office.answer(question, {"selected_value": "do_it"})
        found = await office.questions.answered(question.question_id)
        assert found is not None
        assert found.answer == {"selected_value": "do_it"}
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
        for forged in ("signature = 'x'", "statement = 'x'", "statement = '[]'"):
            await office.desk.database.execute(f"UPDATE decisions SET {forged}")
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
        await office.questions.answer_with_vault(first.question_id, {"selected_value": "do_it"})
        assert await office.questions.answered(first.question_id) is not None
        await office.answer(second, {"selected_value": "not_now"})
        assert await office.questions.answered(second.question_id) is not None

    async def test_the_owner_answers_with_his_own_key(self, office: Office) -> None:
        question = await office.put(habit(office))
        await office.questions.answer_with_vault(
            question.question_id, {"selected_value": "not_now"}
        )
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
                await office.questions.answer(
                    question.question_id,
                    {"selected_value": "do_it"},
                    OwnersProof(key_id, signature),
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
            await office.questions.answer_with_vault(
                question.question_id, {"selected_value": "do_it"}
            )

    async def test_an_answer_that_somebody_wrote_into_the_row(self, office: Office) -> None:
        question = await office.put(habit(office))
        await office.answer(question, {"selected_value": "not_now"})
        await office.desk.database.execute(
            "UPDATE decisions SET statement = replace(statement, 'not_now', 'do_it')"
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
        await office.cards.decide_with_vault("card_w2", NO)
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
    def images(self, path: str = "a.txt", *, was_there: bool = True) -> list[BeforeImage]:
        digest = "1" * 64 if was_there else None
        moment = FakeClock().now()
        return [BeforeImage(path=path, before=digest, after="2" * 64, created_at=moment)]

    def test_it_puts_back_what_was_there_and_checks_it(self) -> None:
        undo = undo_item(writing(), self.images(), title="One")
        assert undo is not None
        _, step = read_script(undo.body)
        assert step == RestoreStep("a.txt", "1" * 64, executable=False)
        assert undo.verify[0].name == "a.txt is as before"
        assert undo.workspace is not None
        assert undo.workspace.changes.change == ["a.txt"]
        assert undo.approval_token is None
        assert undo_item(undo, self.images(), title="One") is None, "no undo of an undo"

    @pytest.mark.parametrize("path", ["a\nb", "a*"])
    def test_what_a_plan_cannot_say_exactly_is_not_offered(self, path: str) -> None:
        assert undo_item(writing(), self.images(path, was_there=False), title="One") is None

    def test_many_files_are_compared_in_few_commands_of_bounded_length(self) -> None:
        images = [each for n in range(500) for each in self.images(f"{n}/{'x' * 200}")]
        undo = undo_item(writing(), images, title="One")
        assert undo is not None
        assert 2 < len(undo.verify) < 20
        assert max(len(check.run) for check in undo.verify) < 100_000
        assert undo_item(writing(), images + self.images(), title="One") is None, "too many to say"

    def test_only_where_something_was_left(self) -> None:
        assert undo_item(writing(), [], title="One") is None
        assert undo_item(writing(workspace=None), self.images(), title="One") is None
        for lost in ({"kept": False}, {"taken": False}):
            images = [each.model_copy(update=lost) for each in self.images()]
            assert undo_item(writing(), images, title="One") is None
        assert summary_of([*self.images(), *self.images(was_there=False)]) == (
            "1 file is put back, 1 new file is removed."
        )


class TestUndoOfMoreThanATask:
    async def desk(self, office: Office, tmp_path: Path) -> ReviewService:
        database, clock = office.desk.database, office.desk.clock
        room = office.room
        room.items, room.store = WorkItemStore(database, clock), ConversationStore(database, clock)
        room.reviews = office.cards
        images = BeforeImages(database, clock, tmp_path / "before")
        return desk_of(office, images)

    async def taken(
        self, desk: ReviewService, name: str, place: Path, *changes: FileChange
    ) -> None:
        with Tree.open(place) as target:
            await desk.images.keep(name, 1, changes, target)

    async def offered(
        self, desk: ReviewService, room: Any, item: WorkItem, status: str
    ) -> list[str]:
        """The bodies of the undo plans that are offered when this work has ended."""
        origin: Any = SimpleNamespace(
            scope_id="owner", trace_id="t", connection_id="owner", channel="web"
        )
        result = WorkItemResult(
            work_item_id=item.id, status=WorkItemStatus(status), summary="Done."
        )
        writes = await desk._undo(room, origin, item, result)
        for write in writes:
            await room.items._database.transaction(write)
        rows = await room.items._database.fetch_all(
            "SELECT work_item_id FROM conversation_work WHERE trace_id = 't' ORDER BY work_item_id"
        )
        plans = [await room.items.get(name) for (name,) in rows]
        return [plan.body for plan in plans if plan is not None] if writes else []

    async def test_what_all_tasks_of_a_project_did_is_undone_together(
        self, office: Office, tmp_path: Path
    ) -> None:
        desk, place = await self.desk(office, tmp_path), tmp_path / "site"
        place.mkdir()
        (place / "a.jpg").write_bytes(b"\xff1")
        first, second = (hashlib.sha256(each).hexdigest() for each in (b"\xff1", b"\xff2"))
        there = Workspace(path=str(place))
        project = writing("p", type=WorkItemType.PROJECT, workspace=None, tasks=["p1", "p2"])
        tasks = [writing(name, parent="p", workspace=there) for name in ("p1", "p2")]
        await office.room.items.save_plan(Plan(project, tuple(tasks)))
        change = FileChange(path="a.jpg", before=first, after=second)
        await self.taken(desk, "p1", place, change)
        (place / "a.jpg").write_bytes(b"\xff2")
        office.desk.clock.advance(seconds=1)
        change = FileChange(path="a.jpg", before=second, after=None)
        await self.taken(desk, "p2", place, change)
        (body,) = await self.offered(desk, office.room, project, "done")
        assert f"```restore path=a.jpg sha256={first} executable=no" in body
        assert second not in body
        assert await self.offered(desk, office.room, project, "done") == [], "once"

    async def test_what_the_last_repair_of_a_goal_did_is_undone(
        self, office: Office, tmp_path: Path
    ) -> None:
        desk, place = await self.desk(office, tmp_path), tmp_path / "site"
        place.mkdir()
        goal = writing("g", type=WorkItemType.GOAL, workspace=Workspace(path=str(place)))
        await office.room.items.save(goal)
        made = FileChange(path="new", before=None, after="1" * 64)
        for name in ("r1", "r2"):
            office.desk.clock.advance(seconds=1)
            repair = writing(name, parent="g", spawned_by="g", workspace=goal.workspace)
            done = repair.model_copy(update={"status": WorkItemStatus.UNCHECKED})
            await office.room.items.save(done)
        await self.taken(desk, "r2", place, made)
        assert await self.offered(desk, office.room, goal, "failed") == []
        (body,) = await self.offered(desk, office.room, goal, "healthy")
        assert "rm -- new" in body
        assert await self.offered(desk, office.room, goal, "healthy") == [], "once"


class TestSuggestions:
    def test_what_is_done_again_and_again(self) -> None:
        run = writing(body="```run\nmake test\n```")
        assert repeated_command([run, run]) is None
        assert repeated_command([run, run, run, writing()]) == ("make test", 3)

    @pytest.mark.parametrize("taint", TaintLevel)
    async def test_what_a_stranger_wanted_again_and_again_is_no_habit(
        self, office: Office, taint: TaintLevel, tmp_path: Path
    ) -> None:
        database, clock = office.desk.database, office.desk.clock
        room = office.room
        room.items, room.store = WorkItemStore(database, clock), ConversationStore(database, clock)
        for name in ("a", "b", "c"):
            done = {"body": "```run\nmake test\n```", "status": WorkItemStatus.DONE}
            await room.items.save(writing(name, **done))
            origin = WorkOrigin(work_item_id=name, trace_id="t", scope_id="owner", taint=taint)
            await database.transaction(partial(room.store.note_work, origin=origin))
        desk = desk_of(office, BeforeImages(database, clock, tmp_path / "before"))
        desk.attach(room)
        await desk.heartbeat()
        asked = [each.content.intent for each in await office.questions.open()]
        owners = ["Watch `make test` every day"]
        assert asked == (owners if taint is TaintLevel.OWNER else [])

    async def test_next_steps_keep_their_taint(self, office: Office) -> None:
        steps = ["Publish it", " ", "Tell Ann", "More"]
        result = WorkItemResult(
            work_item_id="w", status=WorkItemStatus.DONE, summary="Done.", next_steps=steps
        )
        asked = await suggestions_of(office).generate_post_execution(
            "owner", writing(), result, taint=TaintLevel.EXTERNAL
        )
        assert [each.intent for each in asked] == ["Publish it"]
        assert {card_of(each).content.taint for each in asked} == {TaintLevel.EXTERNAL}


class TestRevisions:
    @pytest.mark.parametrize("verdict", [ApprovalVerdict.EDIT_REQUESTED, ApprovalVerdict.DECLINED])
    async def test_only_what_was_made_from_a_plan_is_another_version_of_it(
        self, office: Office, verdict: ApprovalVerdict
    ) -> None:
        await office.ask_plan("card_1", writing("w1"))
        card = await office.cards.get("card_1")
        decision = ApprovalDecision(verdict=verdict)
        await office.cards.decide_with_vault("card_1", decision, shown=card.plan_hashes)
        # What comes next is about something else, or the same wish again: it is shown whole.
        await office.ask_plan("card_2", writing("w2"))
        assert (await office.cards.get("card_2")).replaces is None
        await office.ask_plan("card_3", writing("w3", title="Write w1"))
        assert (await office.cards.get("card_3")).replaces is None


class _SaysYes(GateQuestions):
    """The owner says yes to whatever he is shown; his answer is his signature."""

    async def _answer(self, question: Question) -> bool:
        await self.questions.answer_with_vault(question.question_id, {"verdict": "approve"})
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
