"""What was said is kept, once, in order, scope by scope, until its time is over."""

import json
import stat
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from silas.context.chronicle import ArchivedEntry, ChronicleStore, FileArchive
from silas.context.models import ContextKind, SessionType
from silas.context.service import STREAM_ID, SessionStore
from silas.kernel import DatabaseError, IdFactory, TaintLevel
from silas.storage import SqliteDatabase, Transaction
from silas.testing import FakeClock
from tests.context.making import NOW, item


class TestChronicle:
    async def test_entries_come_back_as_they_were_in_their_order(
        self, database: SqliteDatabase
    ) -> None:
        store = ChronicleStore(database)
        said = [
            item(
                f"m{number}",
                f"said {number} ✓",
                turn_number=number,
                taint=taint,
                kind=kind,
                created_at=NOW + timedelta(seconds=number),
            )
            for number, (taint, kind) in enumerate(
                zip(TaintLevel, [ContextKind.MESSAGE] * 2 + [ContextKind.TOOL_RESULT], strict=True)
            )
        ]
        for each in said:
            await store.append("ann", each)
        assert (await store.recent_and_end("ann", 10))[0] == said
        assert (await store.recent_and_end("ann", 2))[0] == said[1:]
        for other in ("", "aaa", "an", "ann ", "bob", "ANN"):
            assert (await store.recent_and_end(other, 10))[0] == []
            assert await store.since(other, 0, limit=10) == []

    async def test_the_same_entry_again_is_the_same_entry(self, database: SqliteDatabase) -> None:
        store = ChronicleStore(database)
        first = await store.append("ann", item("m", "said"))
        again = await store.append("ann", item("m", "said otherwise"))
        assert first == (0, first.now)
        assert again == (first.now, first.now)
        assert [each.content for each in (await store.recent_and_end("ann", 9))[0]] == ["said"]

    async def test_two_scopes_may_use_the_same_id(self, database: SqliteDatabase) -> None:
        store = ChronicleStore(database)
        await store.append("ann", item("m", "ann's"))
        await store.append("bob", item("m", "bob's"))
        assert [each.content for each in (await store.recent_and_end("bob", 9))[0]] == ["bob's"]

    async def test_what_came_since(self, database: SqliteDatabase) -> None:
        store = ChronicleStore(database)
        place = await store.append("ann", item("a"))
        await store.append("bob", item("b"))
        await store.append("ann", item("c"))
        since = await store.since("ann", place.now, limit=9)
        assert [each.ctx_id for each in since] == ["c"]

    async def test_what_is_written_besides_is_written_with_it_or_not_at_all(
        self, database: SqliteDatabase
    ) -> None:
        store = ChronicleStore(database)

        def fails(tx: Transaction) -> None:
            store.append_in(tx, "ann", item("m"))
            raise DatabaseError

        with pytest.raises(DatabaseError):
            await database.transaction(fails)
        assert (await store.recent_and_end("ann", 9))[0] == []


class TestRetention:
    async def test_old_entries_go_to_the_archive_and_no_others(
        self, database: SqliteDatabase, tmp_path: Path, clock: FakeClock
    ) -> None:
        store = ChronicleStore(database, sink=FileArchive(tmp_path / "archive", clock=clock))
        for number in range(1203):
            at = NOW - timedelta(days=number)
            await store.append("ann", item(f"m{number}", f"said {number}", created_at=at))
        assert await store.prune_before(NOW - timedelta(days=90)) == 1203 - 91
        assert len((await store.recent_and_end("ann", 5000))[0]) == 91
        (path,) = (tmp_path / "archive").iterdir()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert {line["entry_id"] for line in lines} == {f"m{n}" for n in range(91, 1203)}
        assert {line["scope_id"] for line in lines} == {"ann"}
        assert await store.prune_before(NOW - timedelta(days=90)) == 0

    async def test_without_an_archive_they_are_deleted(self, database: SqliteDatabase) -> None:
        store = ChronicleStore(database)
        await store.append("ann", item("m", created_at=NOW - timedelta(days=2)))
        assert await store.prune_before(NOW - timedelta(days=1)) == 1

    async def test_nothing_is_deleted_that_could_not_be_archived(
        self, database: SqliteDatabase, tmp_path: Path, clock: FakeClock
    ) -> None:
        class Full(FileArchive):
            async def write(self, entries: Sequence[ArchivedEntry]) -> None:
                raise DatabaseError

        store = ChronicleStore(database, sink=Full(tmp_path, clock=clock))
        await store.append("ann", item("m", created_at=NOW - timedelta(days=2)))
        with pytest.raises(DatabaseError):
            await store.prune_before(NOW)
        assert len((await store.recent_and_end("ann", 9))[0]) == 1


class TestSessions:
    @pytest.fixture
    def sessions(self, database: SqliteDatabase, clock: FakeClock) -> SessionStore:
        return SessionStore(database, clock=clock, ids=IdFactory(clock))

    async def test_the_conversation_counts_its_turns_and_never_backwards(
        self, sessions: SessionStore, database: SqliteDatabase
    ) -> None:
        for turn in (1, 2, 2, 1):
            at = NOW + timedelta(minutes=turn)
            await database.transaction(
                lambda tx, turn=turn, at=at: sessions.note_turn(  # type: ignore[misc]
                    tx, "ann", turn_number=turn, at=at
                )
            )
        (stream,) = await sessions.of_scope("ann")
        assert (stream.session_id, stream.session_type) == (STREAM_ID, SessionType.STREAM)
        assert stream.turn_count == 2
        assert stream.last_active == NOW + timedelta(minutes=2)
        assert stream.created_at == NOW + timedelta(minutes=1)

    async def test_a_talk_ends_is_pruned_and_is_nobody_elses(
        self, sessions: SessionStore, database: SqliteDatabase, clock: FakeClock
    ) -> None:
        talk = await database.transaction(
            lambda tx: sessions.continue_talk(
                tx, "ann", turn_number=1, at=clock.now(), idle=timedelta(hours=1)
            )
        )
        (kept,) = await sessions.of_scope("ann")
        assert (kept.session_id, kept.turn_count, kept.active) == (talk, 1, True)
        assert await sessions.of_scope("bob") == []
        clock.advance(days=1)
        assert await sessions.prune_before(clock.now()) == 0, "it is still active"
        assert await sessions.end_idle(clock.now()) == 1
        assert await sessions.prune_before(clock.now()) == 1
        assert await sessions.of_scope("ann") == []
