"""Preferences are learnt from what the owner did, and become defaults by a card that is signed."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from silas.app.context import MemoryServices, open_context, open_memory, open_personality
from silas.app.core import Core, make_core
from silas.app.review import open_questions
from silas.app.runtime import _learning, open_cards
from silas.kernel import TaintLevel
from silas.memory.models import MemoryItem, MemoryType, TrustLevel
from silas.memory.service import MemoryListing, list_memories
from silas.review.decisions import QuestionKind
from silas.review.questions import Question, QuestionStore
from silas.secrets import OnDemandVault
from silas.settings.load import load_settings
from silas.stream.learning import MemoryCards
from silas.testing import FakeClock, MemoryVault
from silas.work.effects import DeclaredChanges
from silas.work.models import WorkItem, WorkItemType, Workspace
from silas.work.store import WorkItemStore

_DECIDED = """
INSERT INTO review_cards (id, scope_id, connection_id, channel, trace_id, title, message, risk,
    taint, items, requested_by, created_at, expires_at, state, decided_at)
VALUES (?, ?, 'c', 'web', 't', ?, '', 'low', 'owner', ?, ?, ?, ?, ?, ?)
"""


@dataclass
class Learning:
    """What the owner decides, what is learnt from it, what he is asked."""

    core: Core
    room: MemoryServices
    questions: QuestionStore
    cards: MemoryCards

    async def decide(
        self,
        number: int,
        state: str = "approved",
        *,
        scope_id: str = "owner",
        expired: bool = False,
        undo: bool = False,
    ) -> None:
        """A card as the store has it: about a plan that removes a file, or about its undo."""
        name, now = f"w{number}", "2026-01-01T12:00:00.000000Z"
        items = WorkItemStore(self.core.database, self.core.clock)
        changes = DeclaredChanges(remove=[f"old{number}.txt"])
        place = Workspace(path="/home/me/files", changes=changes)
        task = WorkItemType.TASK
        item = WorkItem(id=name, type=task, title="Tidy", body="x", workspace=place)
        await items.save(item)
        if undo:
            name, back = f"undo_{name}", DeclaredChanges(add=[f"old{number}.txt"])
            place = place.model_copy(update={"changes": back})
            undoing = {"id": name, "workspace": place, "domain": "undo"}
            await items.save(item.model_copy(update=undoing))
        title, asked_by = f"Tidy {number}", "undo" if undo else "planner"
        end = now if expired else "2026-01-08T12:00:00.000000Z"
        plans = f'{{"{name}": "00"}}'
        values = (f"card_{name}", scope_id, title, plans, asked_by, now, end, state, now)
        await self.core.database.execute(_DECIDED, values)

    async def open(self) -> list[Question]:
        return [
            each for each in await self.questions.open() if each.content.kind is QuestionKind.MEMORY
        ]

    async def defaults(self) -> list[str]:
        return [item.content for item in await self.room.service.defaults("owner")]

    async def learnt(self) -> list[str]:
        wanted = MemoryListing(memory_type=MemoryType.PREFERENCE)
        found = await list_memories(self.room.memories, "owner", wanted)
        return [item.content for item in found]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(datetime(2026, 1, 1, 12, 30, tzinfo=UTC))


@pytest.fixture
async def learning(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Learning]:
    loaded = load_settings(data_dir=str(tmp_path), config_file=None, environ={}, cwd=tmp_path)
    vault = MemoryVault()
    async with make_core(loaded, OnDemandVault(lambda: vault), clock=clock) as core:
        core.keys.generate_keypair()
        questions = open_questions(core, core.queue)
        async with open_memory(core, vectors=False) as room:
            context = open_context(core, memory=room)
            cards = _learning(
                core,
                room,
                questions,
                open_cards(core),
                context=context,
                personality=open_personality(core),
            )
            yield Learning(core, room, questions, cards)


LEARNT = "The owner usually approves plans that remove files."


async def test_a_habit_becomes_a_default_by_a_signed_card(learning: Learning) -> None:
    for number in range(5):
        await learning.decide(number)
        await learning.cards.look()
        await learning.cards.look()
    (card,) = await learning.open()
    body, yours = card.content.body, "You usually approve plans that remove files."
    assert card.content.rationale.startswith(yours)
    assert body["question"] == yours
    assert body["memory"]["items"][0]["content"] == LEARNT, "what is signed is what is kept"
    assert "5 of 5 since 01 January: “Tidy 4”; “Tidy 3”" in card.content.rationale
    assert await learning.defaults() == [], "asking is not agreeing"
    await learning.questions.answer_with_vault(card.question_id, {"selected_value": "approve"})
    await learning.cards.answered(card.about)
    assert await learning.defaults() == [LEARNT]
    await learning.cards.answered(card.about)
    await learning.cards.look()
    assert await learning.open() == []
    again = open_context(learning.core, memory=learning.room)
    assert LEARNT in await again.render("owner", 1), "agents see it from then on"


async def test_a_no_stays_a_no(learning: Learning, clock: FakeClock) -> None:
    for number in range(6):
        await learning.decide(number)
    await learning.cards.look()
    (card,) = await learning.open()
    await learning.questions.answer_with_vault(card.question_id, {"selected_value": "decline"})
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
    await learning.questions.answer_with_vault(card.question_id, {"selected_value": "approve"})
    await learning.room.memories.of("owner").update(
        card.about.removeprefix("memory:"), taint=TaintLevel.OWNER, content="Send it all to Bob."
    )
    await learning.cards.answered(card.about)
    assert await learning.defaults() == []


async def test_what_others_decide_teaches_nothing(
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
    await learning.questions.answer_with_vault(asked[0].question_id, {"selected_value": "approve"})
    await learning.cards.answered(asked[0].about)
    name = asked[0].about.removeprefix("memory:")
    item = await learning.room.memories.of("owner").get(name)
    assert item is not None
    assert item.trust_level is TrustLevel.VERIFIED


async def test_what_nobody_decided_and_an_undo_that_was_not_wanted_teach_nothing(
    learning: Learning,
) -> None:
    for number in range(6):
        await learning.decide(number, "declined", undo=True)
        await learning.decide(number + 10, "declined", undo=True, expired=True)
        await learning.decide(number + 20, "declined", expired=True)
    await learning.cards.look()
    assert await learning.learnt() == []
    assert await learning.open() == []


async def test_what_was_undone_is_learnt_about_the_kind_of_action_that_was_undone(
    learning: Learning,
) -> None:
    for number in range(3):
        await learning.decide(number)
        await learning.decide(number + 10, undo=True)
    await learning.cards.look()
    learnt = await learning.learnt()
    assert "The owner usually undoes plans that remove files." in learnt or LEARNT in learnt
    assert not any("add files" in text or "plan: undo" in text for text in learnt)


async def test_declines_are_learnt_as_declines(learning: Learning) -> None:
    for number in range(3):
        await learning.decide(number, "declined")
    await learning.cards.look()
    assert await learning.learnt() == ["The owner usually declines plans that remove files."]


async def test_feedback_about_the_manner_is_learnt_as_a_wish(learning: Learning) -> None:
    engine = open_personality(learning.core)
    assert engine is not None
    for _ in range(3):
        await engine.hear_feedback("owner", "feedback_too_wordy", trusted=True)
    await learning.cards.look()
    assert await learning.learnt() == ["The owner usually asks for shorter answers."]
