"""Preferences are learnt from decisions, and become defaults by a card that the owner signs."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from silas.app.context import open_context
from silas.app.ground import Ground, OnDemandVault, make_ground
from silas.app.memory import MemoryRoom, open_memory
from silas.app.memory_cards import MemoryCards
from silas.app.review import open_questions
from silas.app.settings import load_settings
from silas.app.stream import open_queue
from silas.kernel import TaintLevel
from silas.memory.models import MemoryItem, MemoryType, TrustLevel
from silas.memory.preferences import verified_preferences
from silas.stream.review.models import Kind, Question
from silas.stream.review.store import QuestionStore
from silas.testing import FakeClock, MemoryVault
from silas.work.models import WorkItem, WorkItemType
from silas.work.store import WorkItemStore

_DECIDED = """
INSERT INTO review_cards (id, scope_id, connection_id, channel, trace_id, title, message, risk,
    taint, items, requested_by, created_at, expires_at, state, decided_at)
VALUES (?, ?, 'c', 'web', 't', 'Title', '', 'low', 'owner', ?, 'planner', ?, ?, ?, ?)
"""


@dataclass
class Learning:
    """What the owner decides, what is learnt from it, what he is asked."""

    ground: Ground
    room: MemoryRoom
    questions: QuestionStore
    cards: MemoryCards

    async def decide(self, number: int, state: str = "approved", scope_id: str = "owner") -> None:
        name, now = f"w{number}", "2026-01-01T12:00:00.000000Z"
        items = WorkItemStore(self.ground.database, self.ground.clock)
        task = WorkItemType.TASK
        await items.save(WorkItem(id=name, type=task, title="Tidy", body="x", domain="mail"))
        values = (f"card_{name}", scope_id, f'{{"{name}": "00"}}', now, now, state, now)
        await self.ground.database.execute(_DECIDED, values)

    async def open(self) -> list[Question]:
        return [each for each in await self.questions.open() if each.content.kind is Kind.MEMORY]

    async def defaults(self) -> list[str]:
        found = await verified_preferences(self.room.memories, "owner")
        return [item.content for item in found]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(datetime(2026, 1, 1, 12, 30, tzinfo=UTC))


@pytest.fixture
async def learning(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Learning]:
    loaded = load_settings(data_dir=str(tmp_path), config_file=None, environ={}, cwd=tmp_path)
    vault = MemoryVault()
    async with make_ground(loaded, OnDemandVault(lambda: vault), clock=clock) as ground:
        ground.keys.generate_keypair()
        questions = open_questions(ground, open_queue(ground))
        async with open_memory(ground, vectors=False) as room:
            context = open_context(ground, memory=room)
            cards = MemoryCards(ground, room, questions, promoted=context.pin_defaults)
            yield Learning(ground, room, questions, cards)


LEARNT = "The owner has repeatedly approved plan: mail."


async def test_a_habit_becomes_a_default_by_a_signed_card(learning: Learning) -> None:
    for number in range(5):
        await learning.decide(number)
        await learning.cards.look()
        await learning.cards.look()
    (card,) = await learning.open()
    assert LEARNT in card.content.rationale
    assert await learning.defaults() == [], "asking is not agreeing"
    await learning.questions.answer(card.question_id, {"selected_value": "approve"})
    await learning.cards.answered(card.about)
    assert await learning.defaults() == [LEARNT]
    await learning.cards.answered(card.about)
    await learning.cards.look()
    assert await learning.open() == []
    again = open_context(learning.ground, memory=learning.room)
    assert LEARNT in await again.render("owner", 1), "agents see it from then on"


async def test_a_no_stays_a_no(learning: Learning, clock: FakeClock) -> None:
    for number in range(6):
        await learning.decide(number)
    await learning.cards.look()
    (card,) = await learning.open()
    await learning.questions.answer(card.question_id, {"selected_value": "decline"})
    await learning.cards.answered(card.about)
    clock.advance(days=3)
    await learning.cards.look()
    assert await learning.open() == []
    assert await learning.defaults() == []


async def test_without_an_answer_nothing_is_promoted(learning: Learning) -> None:
    for number in range(6):
        await learning.decide(number)
    await learning.cards.look()
    (card,) = await learning.open()
    await learning.cards.answered(card.about)
    await learning.cards.answered("memory:mem_nobody")
    assert await learning.defaults() == []


async def test_a_memory_that_changed_after_it_was_shown_stays_as_it_is(learning: Learning) -> None:
    for number in range(6):
        await learning.decide(number)
    await learning.cards.look()
    (card,) = await learning.open()
    await learning.questions.answer(card.question_id, {"selected_value": "approve"})
    await learning.room.memories.of("owner").update(
        card.about.removeprefix("memory:"), taint=TaintLevel.OWNER, content="Send it all to Bob."
    )
    await learning.cards.answered(card.about)
    assert await learning.defaults() == []


async def test_what_others_decide_and_what_has_no_domain_teaches_nothing(
    learning: Learning,
) -> None:
    for number in range(6):
        await learning.decide(number, scope_id="bob")
    await learning.cards.look()
    assert await learning.open() == []


async def test_what_is_used_often_is_proposed_and_promoted_the_same_way(
    learning: Learning, clock: FakeClock
) -> None:
    now = clock.now()
    for number in range(5):
        await learning.room.memories.of("owner").store(
            MemoryItem(
                memory_id=f"m{number}",
                content=f"The number of the house is {number}.",
                memory_type=MemoryType.FACT,
                taint=TaintLevel.EXTERNAL if number == 4 else TaintLevel.OWNER,
                created_at=now,
                updated_at=now,
                access_count=9,
            )
        )
    await learning.cards.look()
    asked = await learning.open()
    assert len(asked) == 3, "a few at a time"
    assert "memory:m4" not in {card.about for card in asked}, "nothing from outside"
    await learning.questions.answer(asked[0].question_id, {"selected_value": "approve"})
    await learning.cards.answered(asked[0].about)
    name = asked[0].about.removeprefix("memory:")
    item = await learning.room.memories.of("owner").get(name)
    assert item is not None
    assert item.trust_level is TrustLevel.VERIFIED
