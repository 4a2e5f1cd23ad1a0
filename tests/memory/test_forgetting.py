from datetime import timedelta

import pytest

from silas.kernel import TaintLevel
from silas.memory.errors import MemoryInvalid, TrustRefused
from silas.memory.forgetting import Forgetting, Selection
from silas.memory.models import TrustLevel
from tests.memory.room import NOON, Room, a_memory

MARK = "xyzzyplugh"


def bytes_of(room: Room) -> bytes:
    path = room.desk.database._path
    return b"".join(file.read_bytes() for file in path.parent.glob("silas.db*"))


async def seven(room: Room) -> None:
    for day in range(5):
        await room.store.store(
            a_memory(
                f"{MARK} on day {day}",
                memory_id=f"m{day}",
                created_at=NOON + timedelta(days=day),
                source_kind="mail" if day % 2 else "chat",
                entity_refs=[MARK],
                causal_refs=[f"m{day - 1}"] if day else [],
                temporal_prev=f"m{day - 1}" if day else None,
            )
        )
    await room.store.store_raw(a_memory(f"raw {MARK}", memory_id="raw"))
    await room.store.store(a_memory("something else", memory_id="other", causal_refs=["m1", "x"]))


@pytest.mark.parametrize(
    ("selection", "left"),
    [
        (Selection(ids=("m1", "nothing")), {"m0", "m2", "m3", "m4", "raw", "other"}),
        (Selection(query=f"{MARK} day"), {"raw", "other"}),
        (Selection(query=MARK), {"other"}),
        (Selection(source="mail"), {"m0", "m2", "m4", "raw", "other"}),
        (Selection(since=NOON + timedelta(days=2)), {"m0", "m1", "raw", "other"}),
        (Selection(until=NOON + timedelta(days=1), query=MARK), {"m1", "m2", "m3", "m4", "other"}),
        (Selection(query=MARK, source="mail"), {"m0", "m2", "m4", "raw", "other"}),
    ],
)
async def test_what_is_chosen_goes_and_the_rest_stays(room: Room, selection, left) -> None:
    await seven(room)
    chosen = {
        item.memory_id for item in await Forgetting(room.memories, "owner").preview(selection)
    }
    done = await Forgetting(room.memories, "owner").forget(selection)
    rows = await room.desk.database.fetch_all("SELECT memory_id FROM memory_items")
    assert {name for (name,) in rows} == left
    assert done.memories == len(chosen) == 7 - len(left)


async def test_nothing_of_it_is_left_anywhere(room: Room) -> None:
    await seven(room)
    await room.memories.access.count([1, 2])
    done = await Forgetting(room.memories, "owner").forget(Selection(query=MARK))
    assert done.links == 1
    assert await room.store.search_keyword(MARK, 9) == []
    assert await room.store.search_raw(MARK, 9) == []
    assert await room.store.search_entity(MARK, 9) == []
    other = await room.store.get("other")
    assert other is not None
    assert other.causal_refs == ["x"]
    event, data = room.desk.audit.entries[-1]
    assert event == "memory_forgotten"
    assert MARK not in str(data)
    assert data["memories"] == 6
    await room.desk.database.close()
    # The word index holds stems in small letters; the text and the stem are the same here.
    assert MARK.encode() not in bytes_of(room)


async def test_what_is_trusted_goes_only_with_a_confirmation(room: Room) -> None:
    item = a_memory(f"{MARK} is my bank", trust_level=TrustLevel.VERIFIED)
    await room.store.store(item, token=await room.confirm("store", item))
    forgetting = Forgetting(room.memories, "owner")
    done = await forgetting.forget(Selection(query=MARK))
    assert (done.memories, done.kept) == (0, (item.memory_id,))
    with pytest.raises(TrustRefused):
        await forgetting.forget(Selection(query=MARK), token=await room.confirm("delete", item))
    done = await forgetting.forget(Selection(query=MARK), token=await room.confirm("forget", item))
    assert done.memories == 1


@pytest.mark.parametrize("selection", [Selection(), Selection(query="!!")])
async def test_nothing_chosen_is_an_error_not_everything(room: Room, selection) -> None:
    await seven(room)
    with pytest.raises(MemoryInvalid):
        await Forgetting(room.memories, "owner").forget(selection)
    assert await room.count("memory_items") == 7


async def test_copies_that_earlier_changes_left_go_too(room: Room) -> None:
    long = " ".join(f"{MARK} number {number}" for number in range(2000))
    await room.store.store_many([a_memory(long, memory_id="long"), a_memory(MARK, memory_id="b")])
    await room.store.store_many([a_memory(f"something else {number}") for number in range(50)])
    for count in range(3):
        await room.store.update("b", taint=TaintLevel.OWNER, content=f"{MARK} again {count}" * 20)
    await room.store.delete("long", taint=TaintLevel.OWNER)
    await Forgetting(room.memories, "owner").forget(Selection(ids=("b",)))
    assert await room.count("memory_items") == 50
    await room.desk.database.close()
    assert MARK.encode() not in bytes_of(room)
