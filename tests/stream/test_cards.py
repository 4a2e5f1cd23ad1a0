"""Cards: decided once, by a signature, and followed only then; deliveries: kept in order."""

import asyncio
import base64
import json
from datetime import timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from silas.approval import (
    ApprovalDecision,
    ApprovalStrength,
    ApprovalVerdict,
    DecisionRefused,
    DeviceStore,
    KeyManager,
    PublicKey,
)
from silas.gates import ActionEnvelope
from silas.kernel import IdFactory, TaintLevel
from silas.queue import QueueName, QueueStore
from silas.queue.models import Agent, AgentReply, MessageKind, QueueMessage
from silas.review import Decisions, OwnersProof
from silas.review.cards import decision_bytes
from silas.review.errors import CardNotOpen, CardUnknown, DecisionNotSigned, StrongerProofNeeded
from silas.storage import SqliteDatabase
from silas.stream.cards import PlanCards, require_shown
from silas.stream.delivery import Deliveries
from silas.stream.ports import PlanReview
from silas.testing import FakeClock, MemoryVault, RecordingAudit
from silas.testing.fakes import approval_engine
from silas.testing.work import DESTROYS, declaring
from silas.work.models import WorkItem
from silas.work.origins import OriginStore
from silas.work.plan import parse
from silas.work.store import WorkItemStore

YES = ApprovalDecision(verdict=ApprovalVerdict.APPROVED)
NO = ApprovalDecision(verdict=ApprovalVerdict.DECLINED)
ITEM = parse("---\nid: one\ntype: task\ntitle: One\n---\nDo it.\n")
SHOWN = {"one": ITEM.plan_hash}
FINAL = ITEM.model_copy(update={"id": "two", "approvals": [ActionEnvelope(tool="drop_table")]})
"""It destroys something outside of the sandbox."""


class Desk:
    """Cards on a real database, with a real key."""

    def __init__(self, database: SqliteDatabase, clock: FakeClock) -> None:
        self.database, self.clock = database, clock
        self.keys = KeyManager(MemoryVault(), clock=clock)
        self.keys.generate_keypair()
        self.audit = RecordingAudit()
        self.queue = QueueStore(database, clock=clock, ids=IdFactory(clock))
        self.engine = approval_engine(
            database, self.keys, audit=self.audit, clock=clock, ids=IdFactory(clock)
        )
        self.items = WorkItemStore(database, clock)
        self.cards = self.cards_with()

    def cards_with(self, devices: DeviceStore | None = None) -> PlanCards:
        return PlanCards(
            self.database,
            self.queue,
            decisions=Decisions(
                self.database,
                self.keys,
                approvals=self.engine,
                audit=self.audit,
                clock=self.clock,
                devices=devices,
            ),
            items=self.items,
            effect_of=declaring(drop_table=DESTROYS),
            origins=OriginStore(self.database, self.clock),
            keys=self.keys,
            audit=self.audit,
            clock=self.clock,
        )

    async def ask(self, card_id: str = "card_1", item: WorkItem = ITEM) -> None:
        review = PlanReview(
            card_id=card_id,
            items=[item],
            scope_id="owner",
            connection_id="owner",
            channel="cli",
            trace_id="trace_1",
            message="Shall I?",
            taint=TaintLevel.OWNER,
        )
        if await self.items.get(item.id) is None:
            await self.items.save(item)
        await self.database.transaction(lambda tx: self.cards.ask_plan(tx, review))


async def write_decision(
    desk: Desk, card_id: str, statement: str, key_id: str, signature: str
) -> None:
    """What whoever can write the database could write into it."""
    await desk.database.execute(
        "INSERT INTO decisions (question_id, kind, statement, strength, key_id, signature, tokens)"
        " VALUES (?, 'plan', ?, 'passkey', ?, ?, '{}')",
        (card_id, statement, key_id, signature),
    )


@pytest.fixture
async def desk(database: SqliteDatabase, clock: FakeClock) -> Desk:
    desk = Desk(database, clock)
    await desk.ask()
    return desk


class TestCards:
    async def test_a_card_shows_exactly_its_plan(self, desk: Desk) -> None:
        [card] = await desk.cards.open_cards()
        assert card.plan_hashes == {"one": ITEM.plan_hash}
        assert (card.state, card.risk.value) == ("open", "medium")
        assert await desk.cards.decision(card.card_id) is None

    async def test_a_decision_is_kept_and_followed(self, desk: Desk) -> None:
        card = await desk.cards.decide_with_vault("card_1", YES, shown=SHOWN)
        assert card.state == "approved"
        decided = await desk.cards.decision("card_1")
        assert decided is not None
        with_vault = YES.model_copy(update={"approval_strength": ApprovalStrength.VAULT})
        assert (decided.decision, decided.plan_hashes) == (with_vault, {"one": ITEM.plan_hash})
        token = (await desk.engine.tokens.load(decided.tokens["one"])).token
        assert (token.plan_hash, token.approval_strength.value) == (ITEM.plan_hash, "vault")
        lease = await desk.queue.lease(QueueName.RUNTIME, consumer="test")
        assert lease is not None
        assert lease.message.trace_id == "trace_1"

    async def test_it_is_decided_once(self, desk: Desk) -> None:
        results = await asyncio.gather(
            *(desk.cards.decide_with_vault("card_1", each, shown=SHOWN) for each in (YES, NO, YES)),
            return_exceptions=True,
        )
        refused = [str(each) for each in results if isinstance(each, CardNotOpen)]
        assert len(refused) == 2
        assert not any("card_" in each for each in refused)

    async def test_after_its_time_a_card_is_a_no(self, desk: Desk) -> None:
        desk.clock.advance(days=8)
        with pytest.raises(CardNotOpen, match=r"^This card has expired: nobody decided it in time"):
            await desk.cards.decide_with_vault("card_1", YES, shown=SHOWN)
        assert (await desk.cards.get("card_1")).state == "declined"
        decided = await desk.cards.decision("card_1")
        assert decided is not None
        assert decided.expired, "nobody has said no"
        await desk.ask("card_2")
        desk.clock.advance(days=8)
        assert await desk.cards.decline_expired() == 1
        assert (await desk.cards.get("card_2")).state == "declined"
        assert desk.audit.events() == ["card_expired"] * 2

    async def test_who_lets_a_result_stand_has_declined_nothing(self, desk: Desk) -> None:
        await desk.database.execute("UPDATE review_cards SET requested_by = 'undo'")
        await desk.cards.decide_with_vault("card_1", NO)
        assert desk.audit.events() == ["undo_not_wanted"]
        decided = await desk.cards.decision("card_1")
        assert decided is not None
        assert not decided.expired

    async def test_an_unknown_card(self, desk: Desk) -> None:
        with pytest.raises(CardUnknown, match="silas review list"):
            await desk.cards.decide_with_vault("card_9", YES, shown=SHOWN)


class TestForgery:
    """Whoever can write the database cannot decide."""

    async def write(self, desk: Desk, **columns: str) -> None:
        names = ", ".join(f"{name} = ?" for name in columns)
        await desk.database.execute(f"UPDATE review_cards SET {names}", tuple(columns.values()))

    async def test_a_decision_without_a_signature(self, desk: Desk) -> None:
        said = {"type": "card_decision", "decision": YES.model_dump(mode="json")}
        await self.write(desk, state="approved")
        await write_decision(desk, "card_1", json.dumps(said), "k", "")
        assert await desk.cards.decision("card_1") is None
        assert "card_decision_forged" in desk.audit.events()

    async def test_a_card_that_is_changed_while_the_owner_reads_it(self, desk: Desk) -> None:
        shown = await desk.cards.get("card_1")
        await self.write(desk, items=json.dumps({"one": "0" * 64}))
        with pytest.raises(DecisionRefused):
            await desk.cards.decide_with_vault("card_1", YES, shown=shown.plan_hashes)
        with pytest.raises(DecisionRefused):
            await desk.cards.decide_with_vault("card_1", YES)
        assert (await desk.cards.get("card_1")).state == "open"
        assert (await desk.cards.decide_with_vault("card_1", NO)).state == "declined"

    async def test_a_card_whose_items_are_not_its_own_is_not_shown(self, desk: Desk) -> None:
        card = await desk.cards.get("card_1")
        assert require_shown(card, [ITEM]) == [ITEM]
        other = ITEM.model_copy(update={"body": "Do something else."})
        for items in ([other], [None], [], [ITEM, other.model_copy(update={"id": "two"})]):
            with pytest.raises(DecisionRefused):
                require_shown(card, items)

    async def test_a_no_turned_into_a_yes(self, desk: Desk) -> None:
        await desk.cards.decide_with_vault("card_1", NO)
        await self.write(desk, state="approved")
        await desk.database.execute(
            "UPDATE decisions SET statement = replace(statement, 'declined', 'approved')"
        )
        assert await desk.cards.decision("card_1") is None

    async def test_a_yes_moved_to_another_plan(self, desk: Desk) -> None:
        await desk.cards.decide_with_vault("card_1", YES, shown=SHOWN)
        await self.write(desk, items=json.dumps({"two": "0" * 64}))
        assert await desk.cards.decision("card_1") is None

    @pytest.mark.parametrize(
        "changed",
        [
            {"risk": "low"},
            {"taint": "auth"},
            {"requested_by": "goal"},
            {"expires_at": "2999-01-01T00:00:00.000000Z"},
            {"scope_id": "somebody"},
        ],
        ids=str,
    )
    async def test_a_row_that_was_changed_is_as_risky_as_can_be(
        self, desk: Desk, changed: dict[str, str]
    ) -> None:
        await self.write(desk, **changed)
        card = await desk.cards.get("card_1")
        assert (card.sealed, card.risk.value, card.taint.value) == (
            False,
            "irreversible",
            "external",
        )
        with pytest.raises(DecisionRefused, match="only be declined"):
            await desk.cards.decide_with_vault("card_1", YES, shown=SHOWN)
        assert (await desk.cards.decide_with_vault("card_1", NO)).state == "declined"

    @pytest.mark.parametrize("column", ["risk", "taint"])
    async def test_a_yes_on_a_ladder_that_is_lowered_afterwards(
        self, desk: Desk, column: str
    ) -> None:
        await desk.cards.decide_with_vault("card_1", YES, shown=SHOWN)
        await self.write(desk, **{column: {"risk": "low", "taint": "auth"}[column]})
        assert await desk.cards.decision("card_1") is None

    async def test_a_seal_that_is_garbage_is_none_and_hides_no_other_card(self, desk: Desk) -> None:
        await desk.ask("card_2")
        await desk.database.execute(
            "UPDATE card_seals SET signature = 'x' WHERE card_id = 'card_1'"
        )
        assert [card.sealed for card in await desk.cards.open_cards()] == [False, True]
        no = ApprovalDecision(verdict=ApprovalVerdict.DECLINED)
        assert (await desk.cards.decide_with_vault("card_1", no)).state == "declined"

    @pytest.mark.parametrize(
        "forged",
        ["signature = 'x'", "statement = 'x'", "statement = '[]'", "statement = '{}'"],
    )
    async def test_a_decision_that_is_garbage_is_none(self, desk: Desk, forged: str) -> None:
        await desk.cards.decide_with_vault("card_1", YES, shown=SHOWN)
        await desk.database.execute(f"UPDATE decisions SET {forged}")
        assert await desk.cards.decision("card_1") is None

    async def test_a_card_without_a_seal_or_with_that_of_another(self, desk: Desk) -> None:
        await desk.ask("card_2")
        await desk.database.execute(
            "UPDATE card_seals SET signature = (SELECT signature FROM card_seals WHERE card_id ="
            " 'card_1') WHERE card_id = 'card_2'"
        )
        await desk.database.execute("DELETE FROM card_seals WHERE card_id = 'card_1'")
        assert [card.sealed for card in await desk.cards.open_cards()] == [False, False]

    async def test_a_yes_moved_to_another_card(self, desk: Desk) -> None:
        await desk.ask("card_2")
        await desk.cards.decide_with_vault("card_1", YES, shown=SHOWN)
        await desk.database.execute("UPDATE review_cards SET state = 'approved'")
        await desk.database.execute("UPDATE decisions SET question_id = 'card_2'")
        assert await desk.cards.decision("card_2") is None


def reply(number: int, clock: FakeClock, connection: str = "owner") -> QueueMessage:
    return QueueMessage(
        message_id=f"m{number}",
        trace_id="trace",
        content=f"answer {number}",
        sender=Agent.PROXY,
        message_kind=MessageKind.AGENT_RESPONSE,
        scope_id=connection,
        taint=TaintLevel.OWNER,
        created_at=clock.now(),
        payload=AgentReply(connection_id=connection, channel="cli"),
    )


class TestDeliveries:
    async def deliver(self, desk: Desk, deliveries: Deliveries, *messages: QueueMessage) -> None:
        for message in messages:
            await desk.queue.enqueue(message)
            lease = await desk.queue.lease(QueueName.CHANNEL, consumer="channel")
            assert lease is not None
            handled = await deliveries(lease)
            for write in handled.writes:
                await desk.database.transaction(write)
                await desk.database.transaction(write)  # a repetition changes nothing
            await desk.queue.ack(lease)

    async def test_in_order_and_once(self, desk: Desk) -> None:
        deliveries = Deliveries(desk.database, desk.clock)
        await self.deliver(desk, deliveries, *(reply(number, desk.clock) for number in range(3)))
        await self.deliver(desk, deliveries, reply(9, desk.clock, "guest"))
        found = await deliveries.after("owner", 0)
        assert [each.message.content for each in found] == ["answer 0", "answer 1", "answer 2"]
        assert await deliveries.after("owner", found[-1].number) == []
        assert await deliveries.last("owner") == found[-1].number
        assert await deliveries.last("nobody") == 0

    async def test_following_brings_what_comes_later(self, desk: Desk) -> None:
        deliveries = Deliveries(desk.database, desk.clock)
        following = deliveries.follow("owner", 0)
        first = asyncio.create_task(anext(following))
        await self.deliver(desk, deliveries, reply(1, desk.clock))
        assert (await asyncio.wait_for(first, 120)).message.content == "answer 1"
        await following.aclose()  # type: ignore[attr-defined]

    async def test_a_damaged_row_is_told_of_and_ends_nothing(self, desk: Desk) -> None:
        deliveries = Deliveries(desk.database, desk.clock)
        await self.deliver(desk, deliveries, *(reply(number, desk.clock) for number in range(3)))
        await desk.database.execute(
            "UPDATE deliveries SET message = '{' WHERE message_id = ?", ("m1",)
        )
        await desk.database.execute(
            "UPDATE deliveries SET message = replace(message, 'agent_response', 'x') "
            "WHERE message_id = ?",
            ("m2",),
        )
        await self.deliver(desk, deliveries, reply(7, desk.clock))
        following = deliveries.follow("owner", 0)
        heard = [await anext(following) for _ in range(4)]
        await following.aclose()  # type: ignore[attr-defined]
        assert [each.number for each in heard] == sorted(each.number for each in heard)
        told = [each.message.content[:17] for each in heard]
        assert told == ["answer 0", "A message to you ", "A message to you ", "answer 7"]
        assert {each.reply.surface for each in heard[1:3]} == {"activity"}

    async def test_old_ones_are_removed(self, desk: Desk) -> None:
        deliveries = Deliveries(desk.database, desk.clock)
        await self.deliver(desk, deliveries, reply(1, desk.clock))
        desk.clock.advance(days=10)
        await self.deliver(desk, deliveries, reply(2, desk.clock))
        assert await deliveries.prune(timedelta(days=5)) == 1
        assert [each.message.message_id for each in await deliveries.after("owner", 0)] == ["m2"]


class TestDecidedOnADevice:
    async def on_device(self, desk: Desk) -> tuple[PlanCards, DeviceStore, Ed25519PrivateKey]:
        devices = DeviceStore(
            desk.database, desk.keys, vault=MemoryVault(), audit=desk.audit, clock=desk.clock
        )
        private = Ed25519PrivateKey.generate()
        key = PublicKey(private.public_key().public_bytes_raw())
        await devices.enrol(key, name="A phone")
        return desk.cards_with(devices), devices, private

    async def decide(
        self,
        cards: PlanCards,
        private: Ed25519PrivateKey,
        decision: ApprovalDecision = YES,
        card_id: str = "card_1",
    ) -> None:
        card = await cards.get(card_id)
        key_id = PublicKey(private.public_key().public_bytes_raw()).key_id
        signature = private.sign(decision_bytes(card, decision))
        await cards.decide(card_id, decision, OwnersProof(key_id, signature))

    async def test_it_is_kept_and_followed(self, desk: Desk) -> None:
        cards, _, private = await self.on_device(desk)
        await self.decide(cards, private)
        decided = await cards.decision("card_1")
        assert decided is not None
        assert decided.decision == YES
        with pytest.raises(CardNotOpen):
            await self.decide(cards, private, NO)

    async def test_a_stranger_decides_nothing(self, desk: Desk) -> None:
        cards, _, _ = await self.on_device(desk)
        with pytest.raises(DecisionNotSigned):
            await self.decide(cards, Ed25519PrivateKey.generate())
        assert (await cards.get("card_1")).state == "open"

    async def test_where_there_are_no_devices_nobody_decides(self, desk: Desk) -> None:
        _, _, private = await self.on_device(desk)
        with pytest.raises(DecisionNotSigned):
            await self.decide(desk.cards, private)

    async def test_revoked_in_between_the_decision_is_not_followed(self, desk: Desk) -> None:
        cards, devices, private = await self.on_device(desk)
        await self.decide(cards, private)
        [device] = await devices.list()
        await devices.revoke(device.device_id)
        assert await cards.decision("card_1") is None
        assert "card_decision_forged" in desk.audit.events()

    async def test_what_cannot_be_undone_takes_more(self, desk: Desk) -> None:
        cards, _, private = await self.on_device(desk)
        await desk.ask("card_2", FINAL)
        with pytest.raises(StrongerProofNeeded):
            await self.decide(cards, private, card_id="card_2")
        await self.decide(cards, private, NO, card_id="card_2")
        assert (await cards.get("card_2")).state == "declined"

    async def test_a_device_cannot_slip_past_the_passkey_by_writing_the_decision_itself(
        self, desk: Desk
    ) -> None:
        cards, _, private = await self.on_device(desk)
        await desk.ask("card_2", FINAL)
        card = await cards.get("card_2")
        statement = decision_bytes(card, YES)
        key_id = PublicKey(private.public_key().public_bytes_raw()).key_id
        made = base64.b64encode(private.sign(statement)).decode()
        await desk.database.execute("UPDATE review_cards SET state = 'approved'")
        await write_decision(desk, "card_2", statement.decode(), key_id, made)
        assert await cards.decision("card_2") is None

    async def test_too_late_is_no(self, desk: Desk) -> None:
        cards, _, private = await self.on_device(desk)
        desk.clock.advance(seconds=timedelta(days=8).total_seconds())
        with pytest.raises(CardNotOpen, match="expired"):
            await self.decide(cards, private)
        assert (await cards.get("card_1")).state == "declined"
