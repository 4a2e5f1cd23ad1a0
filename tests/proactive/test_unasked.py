"""Cards that nobody asked for: few a day, the rest in one digest; and "not now" means it."""

from functools import partial

import pytest

from silas.kernel import TaintLevel
from silas.proactive.suggestions import (
    REVIEWS,
    SuggestionProposal,
    card_of,
    propose,
)
from silas.review.questions import Question
from silas.review.unasked import is_digest
from silas.stream.store import ConversationStore, WorkOrigin
from silas.work.models import WorkItem, WorkItemStatus, WorkItemType
from tests.stream.test_review import Office, office, suggestions_of, unasked_of, writing

__all__ = ["office"]


def suggested(office: Office, key: str, **more: object) -> SuggestionProposal:
    fields = {"scope_id": "owner", "source": "idle_heartbeat", "intent": f"Do {key}"}
    fields |= {"rationale": "Because.", "key": key, "request": key}
    fields |= {"taint": TaintLevel.OWNER, **more}
    return propose(office.room.ids, office.desk.clock.now(), **fields)  # type: ignore[arg-type]


async def open_of(office: Office) -> list[Question]:
    return await office.questions.open()


async def digest_of(office: Office) -> Question:
    [found] = [each for each in await open_of(office) if is_digest(each)]
    return found


class TestBudget:
    async def asked(self, office: Office, count: int, a_day: int = 5) -> list[bool]:
        unasked = unasked_of(office, a_day)
        return [await unasked.ask(card_of(suggested(office, f"thing {at}"))) for at in range(count)]

    async def test_five_a_day_and_the_rest_in_one_digest(self, office: Office) -> None:
        assert await self.asked(office, 8) == [True] * 5 + [False] * 3
        found = await open_of(office)
        assert len(found) == 6
        digest = await digest_of(office)
        assert digest.content.body["lines"] == ["Do thing 5", "Do thing 6", "Do thing 7"]
        assert await unasked_of(office).left_today() == 0

    async def test_the_next_day_has_room_again(self, office: Office) -> None:
        await self.asked(office, 6)
        office.desk.clock.advance(days=1)
        assert await unasked_of(office).left_today() == 5

    async def test_a_yes_to_the_digest_asks_what_is_held(self, office: Office) -> None:
        await self.asked(office, 7)
        digest = await digest_of(office)
        await office.answer(digest, {"selected_value": "do_it"})
        assert await unasked_of(office).follow(digest, "do_it") == 2
        found = {each.content.intent for each in await open_of(office)}
        assert {"Do thing 5", "Do thing 6"} <= found

    async def test_a_no_drops_it_and_the_next_digest_comes_on_another_day(
        self, office: Office
    ) -> None:
        await self.asked(office, 7)
        digest, unasked = await digest_of(office), unasked_of(office)
        await office.answer(digest, {"selected_value": "not_now"})
        await unasked.follow(digest, "not_now")
        assert len(await open_of(office)) == 5
        await unasked.ask(card_of(suggested(office, "later")))
        assert not any(map(is_digest, await open_of(office))), "one digest a day"
        office.desk.clock.advance(days=1)
        await unasked.renew_digest()
        assert (await digest_of(office)).content.body["lines"] == ["Do later"]

    async def test_what_is_held_is_sealed_like_what_is_asked(self, office: Office) -> None:
        """Whoever writes into the database gets nothing asked in Silas' name."""
        await self.asked(office, 6)
        await office.desk.database.execute(
            "UPDATE questions SET content = replace(content, 'thing 5', 'evil 5') "
            "WHERE state = 'held'"
        )
        assert await office.questions.held() == []
        digest = await digest_of(office)
        await unasked_of(office).follow(digest, "do_it")
        assert not any("evil" in each.content.intent for each in await open_of(office))

    async def test_a_digest_is_as_foreign_as_what_it_names(self, office: Office) -> None:
        unasked = unasked_of(office, 1)
        await unasked.ask(card_of(suggested(office, "mine")))
        await unasked.ask(card_of(suggested(office, "theirs", taint=TaintLevel.EXTERNAL)))
        assert (await digest_of(office)).content.taint is TaintLevel.EXTERNAL

    async def test_what_is_held_cannot_be_answered(self, office: Office) -> None:
        await self.asked(office, 6)
        [held] = await office.questions.held()
        with pytest.raises(Exception, match="waits for no answer"):
            await office.answer(held, {"selected_value": "do_it"})


class TestSuggestions:
    async def fits(self, office: Office, *keys: str, **policy: object) -> list[str]:
        engine = suggestions_of(office, **policy)
        found = [suggested(office, key) for key in keys]
        fitting = await engine.fitting(found, office.desk.clock.now())
        return [each.intent for each in fitting]

    async def answer(self, office: Office, key: str, said: str) -> None:
        question = await office.put(card_of(suggested(office, key)))
        await office.answer(question, {"selected_value": said})

    async def test_not_now_means_it_for_a_month(self, office: Office) -> None:
        await self.answer(office, "one", "not_now")
        office.desk.clock.advance(days=20)
        assert await self.fits(office, "one", "two") == ["Do two"]
        office.desk.clock.advance(days=11)
        assert await self.fits(office, "one") == ["Do one"]

    async def test_a_source_that_is_never_wanted_rests(self, office: Office) -> None:
        for key in ("one", "two", "three"):
            await self.answer(office, key, "not_now")
        office.desk.clock.advance(days=1)
        assert await self.fits(office, "four") == []
        await self.answer(office, "five", "do_it")
        assert await self.fits(office, "four") == ["Do four"]

    async def test_so_many_wait_and_so_many_an_hour(self, office: Office) -> None:
        keys = [f"k{at}" for at in range(9)]
        assert len(await self.fits(office, *keys, most_waiting=3)) == 3
        for key in keys[:4]:
            await self.answer(office, key, "do_it")
        assert len(await self.fits(office, *keys[4:], an_hour=6)) == 2
        office.desk.clock.advance(hours=2)
        assert len(await self.fits(office, *keys[4:], an_hour=6)) == 5

    async def test_switched_off(self, office: Office) -> None:
        assert await self.fits(office, "one", enabled=False) == []

    async def test_cards_that_end_undecided_and_goals_that_do_not_get_on(
        self, office: Office
    ) -> None:
        await office.ask_plan("card_w1", writing("w1"))
        office.desk.clock.advance(days=6, hours=12)
        engine, now = suggestions_of(office), office.desk.clock.now()
        [found] = await engine.generate_idle("owner", now)
        assert found.source == REVIEWS
        assert "“Write w1”" in found.tells
        await office.put(card_of(found))
        office.desk.clock.advance(hours=1)
        assert await engine.generate_idle("owner", office.desk.clock.now()) == [], "cooldown"
        office.desk.clock.advance(days=2)
        goal = WorkItem(
            id="g",
            type=WorkItemType.GOAL,
            title="Keep it well",
            body="Look.",
            status=WorkItemStatus.STUCK,
        )
        await office.desk.items.save(goal)
        origin = WorkOrigin(
            work_item_id="g", trace_id="t", scope_id="owner", taint=TaintLevel.EXTERNAL
        )
        store = office.desk.database
        room = ConversationStore(store, office.desk.clock)
        await store.transaction(partial(room.note_work, origin=origin))
        [found] = await engine.generate_idle("owner", office.desk.clock.now())
        assert found.source == "goal_monitor"
        assert found.taint is TaintLevel.EXTERNAL, "a stranger's part in it is not forgotten"

    async def test_the_outcome_is_recorded(self, office: Office) -> None:
        question = await office.put(card_of(suggested(office, "one")))
        engine = suggestions_of(office)
        await engine.mark_handled("owner", question, "deferred")
        await engine.mark_handled("owner", question, "dismissed")
        rows = await office.desk.database.fetch_all("SELECT family, outcome FROM action_outcomes")
        assert rows == [("suggestion:idle_heartbeat", "dismissed")]
