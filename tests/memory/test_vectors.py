from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from silas.kernel import TaintLevel
from silas.memory.consolidator import MemoryConsolidator
from silas.memory.errors import EmbedderRefused
from silas.memory.forgetting import Forgetting, Selection
from silas.memory.minilm import DIMENSIONS, MiniLm, WordPieces
from silas.memory.models import MemoryQuery, MemoryQueryStrategy
from silas.memory.service import MemoryRetriever
from silas.memory.vectors import VectorIndex, open_vectors
from silas.testing.fakes import FakeEmbedder
from tests.memory.room import Room, a_memory

OWNER = TaintLevel.OWNER


@pytest.fixture
async def index(room: Room, tmp_path: Path) -> AsyncIterator[VectorIndex]:
    index = await open_vectors(tmp_path, room.memories, embedder=FakeEmbedder())
    yield index
    await index.close()


async def ask(room: Room, index: VectorIndex, question: str, scope: str = "owner") -> list[str]:
    query = MemoryQuery(query=question, strategy=MemoryQueryStrategy.SEMANTIC, max_results=3)
    found = await MemoryRetriever(room.memories, vectors=index).retrieve(query, scope)
    return [item.content for item in found]


async def test_new_memories_are_found_after_catching_up(room: Room, index: VectorIndex) -> None:
    await room.store.store_many([a_memory(text) for text in ("red car", "blue boat", "old house")])
    await room.store.store_raw(a_memory("red raw car"))
    assert await index.catch_up() == 3
    assert await index.catch_up() == 0
    assert (await ask(room, index, "blue boat"))[0] == "blue boat"
    assert (await ask(room, index, "red car"))[0] == "red car"


async def test_a_reworded_memory_gets_a_new_vector(room: Room, index: VectorIndex) -> None:
    item = a_memory("red car")
    await room.store.store_many([item, a_memory("blue boat")])
    await index.catch_up()
    await room.store.update(item.memory_id, taint=OWNER, content="green tree")
    assert (await MemoryConsolidator(room.memories, index=index).run_once())["reembedded"] == 1
    assert (await ask(room, index, "green tree"))[0] == "green tree"


async def test_one_scope_never_sees_the_vectors_of_another(room: Room, index: VectorIndex) -> None:
    for scope in ("a", "b", "c"):
        await room.memories.of(scope).store_many(
            [a_memory(f"{scope} red car {n}", scope_id=scope) for n in range(5)]
        )
    await index.catch_up()
    await index.reindex()
    await room.memories.of("b").store(a_memory("b red car 5", scope_id="b"))
    await index.catch_up()
    assert all(text.startswith("b ") for text in await ask(room, index, "a red car", "b"))
    lane = await room.memories.of("b").lane()
    assert len(await index.nearest(lane, ["red car"], 100)) == 6
    assert await ask(room, index, "a red car", "nobody") == []


async def test_the_mean_of_several_texts_is_looked_for(room: Room, index: VectorIndex) -> None:
    await room.store.store_many([a_memory(text) for text in ("red car", "blue boat", "old house")])
    await index.catch_up()
    lane = await room.store.lane()
    near = await index.nearest(lane, ["red car", "blue boat"], 3)
    assert list(near)[2] == lane.first + 3
    assert max(near.values()) <= 1.0 + 1e-3


async def test_in_its_context_an_answer_is_near_to_its_question(
    room: Room, index: VectorIndex
) -> None:
    texts = ("red car", "yes indeed", "old house", "blue boat", "green tree")
    await room.store.store_many([a_memory(text) for text in texts])
    await index.catch_up()
    lane = await room.store.lane()
    for _ in range(2):  # once among the recent vectors, once in the file
        alone = await index.nearest(lane, ["red car"], 5)
        beside = await index.nearest(lane, ["red car"], 5, context=0.5)
        assert set(alone) == set(beside) == {lane.first + number for number in range(1, 6)}
        assert beside[lane.first + 1] == pytest.approx(1.0, abs=0.01)
        assert beside[lane.first + 2] > alone[lane.first + 2] + 0.2
        await index.reindex()
    await index.forget([lane.first + 1])
    assert lane.first + 1 not in await index.nearest(lane, ["red car"], 9, context=0.5)


async def test_vectors_outlive_the_process(room: Room, tmp_path: Path) -> None:
    await room.store.store_many([a_memory(f"thing {number}") for number in range(20)])
    first = await open_vectors(tmp_path, room.memories, embedder=FakeEmbedder())
    await first.reindex()
    await room.store.store(a_memory("late arrival"))
    await first.catch_up()
    await first.close()
    embedder = FakeEmbedder()
    second = await open_vectors(tmp_path, room.memories, embedder=embedder)
    assert embedder.embedded == []
    assert (await ask(room, second, "late arrival"))[0] == "late arrival"
    assert (await ask(room, second, "thing 7"))[0] == "thing 7"
    await second.close()


async def test_another_model_means_all_new_vectors(room: Room, tmp_path: Path) -> None:
    await room.store.store_many([a_memory(f"thing {number}") for number in range(3)])
    first = await open_vectors(tmp_path, room.memories, embedder=FakeEmbedder("one"))
    await first.reindex()
    await first.close()
    second = await open_vectors(tmp_path, room.memories, embedder=FakeEmbedder("two"))
    assert await ask(room, second, "thing 1") == []
    assert await second.reindex() == {"embedded": 3, "removed": 0, "vectors": 3}
    assert (await ask(room, second, "thing 1"))[0] == "thing 1"
    await second.close()


async def test_a_damaged_matrix_is_made_anew(room: Room, tmp_path: Path) -> None:
    await room.store.store(a_memory("red car"))
    first = await open_vectors(tmp_path, room.memories, embedder=FakeEmbedder())
    await first.reindex()
    await first.close()
    (tmp_path / "embeddings.matrix").write_bytes(b"short")
    second = await open_vectors(tmp_path, room.memories, embedder=FakeEmbedder())
    assert await ask(room, second, "red car") == ["red car"]
    await second.close()


async def test_reindex_mends_everything_and_shows_progress(room: Room, index: VectorIndex) -> None:
    await room.store.store_many(
        [a_memory(f"thing {number}", memory_id=f"m{number}") for number in range(130)]
    )
    seen: list[tuple[int, int]] = []
    stats = await index.reindex(progress=lambda _what, done, total: seen.append((done, total)))
    assert stats == {"embedded": 130, "removed": 0, "vectors": 130}
    assert seen == [(64, 130), (128, 130), (130, 130)]
    await room.store.delete("m3", taint=OWNER)
    await room.desk.database.execute(
        "UPDATE memory_items SET content = 'odd', content_hash = x'00' WHERE memory_id = 'm4'"
    )
    assert await index.reindex() == {"embedded": 1, "removed": 1, "vectors": 129}


async def test_forgetting_erases_vectors_in_table_and_file(
    room: Room, index: VectorIndex, tmp_path: Path
) -> None:
    await room.store.store_many([a_memory("red car"), a_memory("blue boat")])
    await index.reindex()
    vector = np.asarray(FakeEmbedder().embed("red car"), "<f2")
    raw = vector.astype(np.float32).tobytes()
    assert raw in (tmp_path / "embeddings.matrix").read_bytes()
    done = await Forgetting(room.memories, "owner", index=index).forget(Selection(query="red car"))
    assert (done.memories, done.vectors) == (1, 1)
    assert await ask(room, index, "red car") == ["blue boat"]
    assert raw not in (tmp_path / "embeddings.matrix").read_bytes()
    await index.close()
    assert vector.tobytes() not in (tmp_path / "embeddings.db").read_bytes()


async def test_without_vectors_a_question_by_meaning_is_answered_by_words(room: Room) -> None:
    await room.store.store(a_memory("red car"))
    query = MemoryQuery(query="car", strategy=MemoryQueryStrategy.SEMANTIC)
    assert len(await MemoryRetriever(room.memories).retrieve(query, "owner")) == 1


def test_word_pieces_are_those_of_the_model() -> None:
    pieces = WordPieces(longest=12)
    assert pieces.numbers("Hello, world!") == [101, 7592, 1010, 2088, 999, 102]
    assert pieces.numbers("embeddings") == [101, 7861, 8270, 4667, 2015, 102]
    assert pieces.numbers("Café") == pieces.numbers("cafe")
    assert pieces.numbers("中文") == [101, 1746, 1861, 102]
    assert pieces.numbers("") == [101, 102]
    assert len(pieces.numbers("many words " * 50)) == 12
    assert pieces.numbers("\u2603" * 101 + " x")[1] == 100


def test_the_model_knows_what_belongs_together() -> None:
    model = MiniLm()
    cat, kitten, tax = np.asarray(
        model.embed_batch(["A cat sleeps.", "A kitten is napping.", "The tax return is due."])
    )
    assert cat @ kitten > 0.5 > cat @ tax
    assert np.allclose(np.linalg.norm([cat, kitten, tax], axis=1), 1, atol=1e-5)
    assert len(model.embed("one")) == DIMENSIONS
    assert np.allclose(model.embed("A cat sleeps."), cat, atol=1e-4)


def test_a_model_that_was_changed_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "model.onnx"
    other.write_bytes(b"something else")
    with pytest.raises(EmbedderRefused):
        MiniLm(other).embed("hello")


def test_long_texts_do_not_stay_in_memory() -> None:
    """What a batch of them takes for a moment is given back, and one vector is like another."""
    model = MiniLm()
    short = model.embed("red car")
    before = _resident()
    long = " ".join(f"word {number}" for number in range(300))
    vectors = model.embed_batch(["red car", *[long] * 12, "red car"])
    assert _resident() - before < 150 * 2**20
    assert vectors[1] == pytest.approx(vectors[12], abs=1e-3)
    for again in (vectors[0], vectors[13]):
        assert again == pytest.approx(short, abs=0.1), "filled up beside others, nearly the same"


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * 4096
