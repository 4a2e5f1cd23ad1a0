"""The owner's conversations: each its own context, one person; begun, named, deleted, found."""

from pathlib import Path

import pytest

from silas.app.agents import Agents
from silas.app.context import open_search
from silas.approval import message_bytes
from silas.kernel import ChannelError, SystemClock, TaintLevel
from silas.kernel.ids import conversation_of, conversation_scope, person_of
from silas.stream.conversations import (
    ConversationDeleted,
    ConversationInUse,
    ConversationUnknown,
    title_from,
)
from silas.stream.errors import NotTaken
from silas.stream.models import AgentTurn, RouteDecision
from silas.stream.search import Search, Term, expression_of, snippet_of, terms_of
from silas.stream.store import WorkOrigin
from silas.testing.stream import FakeContext, FakeMemory, FakePersonality, FakeProxy, direct
from silas.work.ports import ToolCaller
from tests.stream.house import House, open_house

A, B = "conv_aaaaaaaa", "conv_bbbbbbbb"
SCOPE_A, SCOPE_B = f"owner#{A}", f"owner#{B}"


async def echo(turn: AgentTurn, _tools: ToolCaller) -> RouteDecision:
    return direct(f"heard: {turn.request}")


def test_scopes_are_named_after_their_person() -> None:
    assert conversation_scope("owner", None) == conversation_scope("owner", "first") == "owner"
    assert conversation_scope("owner", A) == SCOPE_A
    assert (person_of(SCOPE_A), person_of("owner"), person_of("visit_1")) == (
        "owner",
        "owner",
        "visit_1",
    )
    assert (conversation_of(SCOPE_A), conversation_of("owner")) == (A, "first")


def test_the_first_conversation_is_signed_as_it_always_was() -> None:
    now = SystemClock().now()
    old = message_bytes(text="x", timestamp=now, nonce="n")
    assert b"conversation" not in old
    assert message_bytes(text="x", timestamp=now, nonce="n", conversation=A) != old


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Plan the trip.", "Plan the trip"),
        ("  two\n lines ", "two lines"),
        ("", "A conversation"),
        ("word " * 30, f"{'word ' * 11}word…"),
    ],
)
def test_a_title_is_made_from_the_first_words(text: str, title: str) -> None:
    assert title_from(text) == title


async def test_each_has_its_context_and_all_have_one_memory(tmp_path: Path) -> None:
    context, memory, manner = FakeContext(), FakeMemory(SystemClock()), FakePersonality()
    memory.add("tea is green", scope_id="owner", taint=TaintLevel.OWNER)
    services = {"context": context, "memory": memory, "personality": manner}
    async with open_house(tmp_path, Agents(proxy=FakeProxy(echo)), **services) as house:
        first = await house.say("one tea")
        second = await house.say("two tea", conversation=A)
        assert (await house.answer_to(first)).scope_id == "owner"
        assert (await house.answer_to(second)).scope_id == SCOPE_A
        assert {entry.taint for entry in context.entries[SCOPE_A].values()} == {TaintLevel.OWNER}
        assert "one tea" not in " ".join(e.text for e in context.entries[SCOPE_A].values())
        assert context.memories[SCOPE_A] == context.memories["owner"]
        assert {scope for scope, _ in manner.events} == {"owner"}
        assert await house.stream.turns.store.turns(SCOPE_A) == 1


async def test_a_message_signed_for_one_is_refused_in_another(tmp_path: Path) -> None:
    context = FakeContext()
    async with open_house(tmp_path, Agents(proxy=FakeProxy(echo)), context=context) as house:
        said = house.spoken("pay the bill", connection="owner", signed=True, conversation=A)
        moved = said.model_copy(update={"conversation": B})
        answer = await house.answer_to(await house.stream.intake.accept("pay the bill", moved))
        assert "not signed by you for this conversation" in answer.content
        assert not context.entries[SCOPE_B]
        # Where it was signed for it is still good: nobody has used its nonce up.
        mine = await house.answer_to(await house.stream.intake.accept("pay the bill", said))
        assert "pay the bill" in mine.content
        # A copy in the first conversation is a stranger's there, as any unsigned text.
        stripped = said.model_copy(update={"conversation": None})
        asked = await house.stream.intake.accept("pay the bill", stripped)
        await house.answer_to(asked)
        known = await house.stream.turns.store.origin(asked.trace_id)
        assert known is not None
        assert known.taint is TaintLevel.EXTERNAL


async def test_a_row_of_the_bus_that_was_moved_is_not_answered(tmp_path: Path) -> None:
    async with open_house(tmp_path, Agents(proxy=FakeProxy(echo))) as house:
        said = house.spoken("hello", connection="owner", signed=True, conversation=A)
        made = await house.stream.intake.accept("hello", said, message_id="msg_original")
        await house.answer_to(made)
        forged = made.model_copy(
            update={"message_id": "msg_forged", "trace_id": "trace_forged", "scope_id": SCOPE_B}
        )
        await house.stream.queue.enqueue(forged)
        await house.idle()
        assert not any("heard" in each.content for each in house.answers(forged))
        assert len(await house.dead()) == 1


async def test_only_the_owner_has_several(tmp_path: Path) -> None:
    async with open_house(tmp_path, Agents(proxy=FakeProxy(echo))) as house:
        with pytest.raises(NotTaken):
            await house.say("me too", connection="guest", signed=False, conversation=A)


async def _said(house: House, search: Search, *lines: tuple[str, str | None]) -> None:
    for text, conversation in lines:
        await house.answer_to(
            await house.say(text, conversation=conversation, record=search.conversations.record)
        )
    await house.idle()


async def test_list_rename_archive(tmp_path: Path) -> None:
    async with open_house(tmp_path, Agents(proxy=FakeProxy(echo))) as house:
        search = open_search(house.core)
        known = search.conversations
        assert await known.list() == []
        assert await known.latest() == "first"
        await _said(house, search, ("Alpha", None), ("Beta", A), ("Gamma", B), ("again", A))
        assert [each.title for each in await known.list()] == ["Beta", "Gamma", "Alpha"]
        assert await known.latest() == A
        assert (await known.rename(B, " My  taxes\n")).title == "My taxes"
        assert (await known.find("my tax")).conversation == B
        assert (await known.find("first")).title == "Alpha"
        for bad in ("", " ", "nothing", "conv_never_made"):
            with pytest.raises(ConversationUnknown):
                await known.find(bad)
        with pytest.raises(ChannelError):
            await known.rename(B, "   ")
        with pytest.raises(ConversationUnknown):
            await known.rename("owner#x", "t")
        assert (await known.archive(B, archived=True)).archived
        await _said(house, search, ("back", B))
        assert not (await known.find(B)).archived
        await known.rename(A, "My taxes too")
        with pytest.raises(ConversationUnknown, match="Several"):
            await known.find("my tax")


async def test_deleting_removes_what_was_said_and_keeps_a_digest(tmp_path: Path) -> None:
    async with open_house(tmp_path, Agents(proxy=FakeProxy(echo)), memory=None) as house:
        search = open_search(house.core)
        known = search.conversations
        await _said(house, search, ("Alpha", None), ("secret of beta", A))
        gone = await known.delete(A)
        assert [each.title for each in await known.list()] == ["Alpha"]
        [entry] = await house.audited("conversation_deleted")
        assert gone.digest in entry
        assert "beta" not in entry
        for table in ("conversations", "said", "chronicle_entries", "said_scopes"):
            rows = await house.database.fetch_all(f"SELECT * FROM {table}")
            assert "secret of beta" not in str(rows)
        with pytest.raises(ConversationDeleted):
            await house.say("late", conversation=A, record=known.record)
        assert (await search.find("beta")).hits == []


async def test_the_first_one_can_be_begun_again(tmp_path: Path) -> None:
    async with open_house(tmp_path, Agents(proxy=FakeProxy(echo))) as house:
        search = open_search(house.core)
        await _said(house, search, ("Alpha", None))
        await search.conversations.delete("first")
        assert await search.conversations.list() == []
        await _said(house, search, ("Omega", None))
        assert [each.title for each in await search.conversations.list()] == ["Omega"]


async def test_one_in_which_something_waits_is_not_deleted(tmp_path: Path) -> None:
    async with open_house(tmp_path, Agents(proxy=FakeProxy(echo))) as house:
        search = open_search(house.core)
        await _said(house, search, ("Alpha", A))
        await house.stream.drain(5)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(house.stream.intake, "_open", True)
            await house.stream.intake.accept(
                "more", house.spoken("more", connection="owner", signed=True, conversation=A)
            )
        with pytest.raises(ConversationInUse, match="An answer is on its way"):
            await search.conversations.delete(A)


async def test_what_belongs_to_none_goes_where_it_was_made_or_to_the_latest(
    tmp_path: Path,
) -> None:
    async with open_house(tmp_path, Agents(proxy=FakeProxy(echo))) as house:
        search, store = open_search(house.core), house.stream.turns.store
        assert await store.latest_scope("owner") == "owner"
        await _said(house, search, ("Alpha", A), ("Beta", B))
        assert await store.latest_scope("owner") == SCOPE_B
        made = WorkOrigin(
            work_item_id="goal", trace_id="t", scope_id=SCOPE_A, taint=TaintLevel.OWNER
        )
        await store.write([lambda tx: store.note_work(tx, made)])
        assert await store.scope_of_work("goal", "owner") == SCOPE_A
        assert await store.scope_of_work("nobody's", "owner") == SCOPE_B
        await search.conversations.delete(A)
        assert await store.scope_of_work("goal", "owner") == SCOPE_B


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("green tea", [("green", False), ("tea", True)]),
        ('"green tea"', [("green tea", False)]),
        ('"green tea', [("green tea", False)]),
        ("gre* tea ", [("gre", True), ("tea", True)]),
        ("src/app.py", [("src/app.py", True)]),
        ('NEAR("a" OR', [("NEAR( a", False), ("OR", True)]),
        ("/// ***", []),
        ("", []),
    ],
)
def test_every_query_is_understood_somehow(query: str, terms: list[tuple[str, bool]]) -> None:
    assert terms_of(query) == [Term(*each) for each in terms]


def test_terms_are_quoted_for_the_index() -> None:
    assert expression_of([Term("a b", begins=False), Term("c", begins=True)]) == '"a b" AND "c"*'


def test_a_snippet_shows_no_fences() -> None:
    text = "Write the file.\n```file path=a.txt\nbuy milk\n```\n"
    shown = snippet_of(text, [Term("milk", begins=True)])
    assert shown == "Write the file. file path=a.txt buy milk"


def test_a_snippet_shows_the_place() -> None:
    text = f"{'before ' * 40}the NEEDLE here {'after ' * 40}"
    shown = snippet_of(text, [Term("needle", begins=True)])
    assert "the NEEDLE here" in shown
    assert shown.startswith("…")
    assert shown.endswith("…")
    assert len(shown) < 200
