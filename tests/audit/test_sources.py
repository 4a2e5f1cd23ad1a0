"""A database and a file exported from it are the same chain to whoever examines it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from silas.audit import examine_file
from silas.audit.examination import examine_chain
from silas.audit.export import FileSource
from silas.audit.store import ChainSource, DatabaseSource
from tests.audit.ledger import Ledger, open_ledger


@pytest.fixture
async def filled(tmp_path: Path) -> Any:
    """Six entries, checkpoints at two, five and six; the first two are archived."""
    ledger = await open_ledger(tmp_path)
    await ledger.write(2)
    await ledger.log.write_checkpoint()
    ledger.clock.advance(days=1)
    await ledger.log.archive(tmp_path / "old", before=ledger.clock.now())
    await ledger.write(2)
    await ledger.log.write_checkpoint()
    await ledger.write(1)
    await ledger.log.write_checkpoint()
    await ledger.log.export_file(tmp_path / "log.jsonl")
    yield ledger
    await ledger.database.close()


async def both(ledger: Ledger, look: Callable[[ChainSource], Any]) -> Any:
    """What both answer, which must be the same."""
    answer = await ledger.database.snapshot(lambda reader: look(DatabaseSource(reader)))
    assert look(FileSource(ledger.folder / "log.jsonl")) == answer
    return answer


async def test_where_it_starts_and_ends(filled: Ledger) -> None:
    state = await both(filled, lambda source: source.state())
    assert (state.base.seq, state.head.seq) == (2, 6)


@pytest.mark.parametrize(("after", "numbers"), [(2, [3, 4, 5, 6]), (4, [5, 6]), (6, [])])
async def test_its_entries(filled: Ledger, after: int, numbers: list[int]) -> None:
    rows = await both(filled, lambda source: list(source.entries(after)))
    assert [row[0] for row in rows] == numbers


@pytest.mark.parametrize(
    ("from_seq", "numbers"), [(-(2**63), [2, 3, 5, 6]), (3, [3, 5, 6]), (4, [5, 6]), (7, [])]
)
async def test_its_checkpoints(filled: Ledger, from_seq: int, numbers: list[int]) -> None:
    stored = await both(filled, lambda source: list(source.checkpoints(from_seq)))
    assert [each.seq for each in stored] == numbers


async def test_its_newest_checkpoint(filled: Ledger) -> None:
    newest = await both(filled, lambda source: source.newest_checkpoint())
    assert newest.seq == 6
    found = await both(filled, lambda source: source.checkpoint(newest.checkpoint_id))
    assert found == newest
    assert await both(filled, lambda source: source.checkpoint("ckp_x")) is None


async def test_that_nothing_lies_before_it(filled: Ledger) -> None:
    assert await both(filled, lambda source: source.strays(2)) == []


async def test_what_an_examination_says(filled: Ledger) -> None:
    for start in (None, "latest"):
        report = await both(
            filled,
            lambda source, start=start: examine_chain(  # type: ignore[misc]
                source, from_checkpoint=start, verifier=filled.keys
            ),
        )
        assert report.ok


async def test_without_any_checkpoint(ledger: Ledger) -> None:
    await ledger.write(2)
    await ledger.log.export_file(ledger.folder / "log.jsonl")
    assert await both(ledger, lambda source: source.newest_checkpoint()) is None
    assert await both(ledger, lambda source: list(source.checkpoints(0))) == []


async def test_a_destroyed_checkpoint_is_not_the_newest(filled: Ledger) -> None:
    file = filled.folder / "log.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    lines[-2] = lines[-2][:-20] + b'"}\n'
    file.write_bytes(b"".join(lines))
    newest = FileSource(file).newest_checkpoint()
    assert newest is not None
    assert newest.seq == 6
    assert [each.checkpoint_id is None for each in FileSource(file).checkpoints(0)] == [
        False,
        False,
        True,
        False,
    ]


async def test_a_destroyed_line_is_one_entry(filled: Ledger) -> None:
    """The others are still examined, each under its own number."""
    file = filled.folder / "log.jsonl"
    whole = file.read_bytes().splitlines(keepends=True)
    for damaged in (b"nonsense\n", b'{"damaged_entry":5}\n', b'{"damaged_entry":\n', b"\xff\n"):
        lines = [*whole]
        lines[2] = damaged
        file.write_bytes(b"".join(lines))
        report = examine_file(file, verifier=filled.keys)
        assert [(each.kind.value, each.seq) for each in report.problems] == [
            ("changed", 4),
            ("unproven", 5),
        ]
        assert (report.entries, report.head_seq, report.checkpoints) == (4, 6, 4)


async def test_a_header_that_speaks_of_other_checkpoints(filled: Ledger) -> None:
    file = filled.folder / "log.jsonl"
    content = file.read_bytes()
    file.write_bytes(content.replace(b'"checkpoints":4', b'"checkpoints":5', 1))
    report = examine_file(file, verifier=filled.keys)
    assert (report.ok, report.problem_count) == (False, 1)
    (problem,) = report.problems
    assert (problem.kind.value, problem.seq) == ("state_mismatch", 0)
    assert problem.sentence == "The header speaks of other checkpoints than there are."
    # With something else wrong as well, both are told.
    file.write_bytes(
        content.replace(b'"checkpoints":4', b'"checkpoints":5', 1).replace(b"thing", b"thong", 1)
    )
    report = examine_file(file, verifier=filled.keys)
    assert report.problem_count == 2
    assert [each.kind.value for each in report.problems] == ["state_mismatch", "changed"]


async def test_progress_with_a_file(filled: Ledger) -> None:
    told: list[tuple[int, int]] = []
    examine_file(
        filled.folder / "log.jsonl", progress=lambda done, total: told.append((done, total))
    )
    assert told[-1] == (4, 4)
