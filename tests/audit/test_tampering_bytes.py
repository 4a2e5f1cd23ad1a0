"""Every byte of every stored cell, changed in turn: each change is found and named."""

from collections.abc import Iterator

import pytest

from silas.audit import ProblemKind
from silas.audit.examination import Witness
from tests.audit.ledger import Copy, Ledger, prepared_copy

ENTRIES = 5
# One bit that makes another letter, one that makes the other case, one that is no UTF-8.
CHANGES = (0x01, 0x20, 0x80)


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """Five entries, a checkpoint after two, four and five of them."""

    async def fill(ledger: Ledger) -> None:
        for count in (2, 2, 1):
            await ledger.write(count, name="é")
            await ledger.log.write_checkpoint()

    return prepared_copy(tmp_path_factory.mktemp("log"), fill)


@pytest.fixture
def copy(untouched: Copy) -> Iterator[Copy]:
    with untouched.tampering():
        yield untouched


def changed_texts(text: str) -> Iterator[tuple[int, bytes]]:
    raw = text.encode()
    for place in range(len(raw)):
        for change in CHANGES:
            yield place, raw[:place] + bytes([raw[place] ^ change]) + raw[place + 1 :]


def test_every_byte_of_every_body(copy: Copy) -> None:
    for seq, body, _ in copy.entries():
        for place, changed in changed_texts(body):
            with copy.tampering():
                copy.run("UPDATE audit_log SET body = CAST(? AS TEXT) WHERE seq = ?", changed, seq)
                report = copy.examine()
            assert not report.ok, (seq, place, changed)
            assert report.problem_count == 1
            assert report.first_problem is not None
            assert report.first_problem.kind is ProblemKind.CHANGED
            assert report.first_problem.seq == seq
            assert report.first_problem.sentence == f"The content of entry {seq} was changed."


def test_every_byte_of_every_hash(copy: Copy) -> None:
    for seq, _, digest in copy.entries():
        for place, changed in changed_texts(digest):
            with copy.tampering():
                copy.run("UPDATE audit_log SET hash = CAST(? AS TEXT) WHERE seq = ?", changed, seq)
                report = copy.examine()
            assert not report.ok, (seq, place, changed)
            assert [(p.kind, p.seq) for p in report.problems] == [(ProblemKind.CHANGED, seq)]
            assert "its content is as it was" in report.problems[0].sentence


@pytest.mark.parametrize("column", ["checkpoint_id", "body", "key_id", "signature"])
def test_every_byte_of_every_checkpoint(copy: Copy, column: str) -> None:
    rows = copy.run(f"SELECT rowid, checkpoint_id, {column} FROM audit_checkpoints")
    for rowid, checkpoint_id, text in rows:
        for place, changed in changed_texts(text):
            with copy.tampering():
                copy.run(
                    f"UPDATE audit_checkpoints SET {column} = CAST(? AS TEXT) WHERE rowid = ?",
                    changed,
                    rowid,
                )
                report = copy.examine()
                in_part = copy.examine(from_checkpoint="latest")
            assert not report.ok, (checkpoint_id, place, changed)
            assert ProblemKind.CHECKPOINT_FORGED in {p.kind for p in report.problems}
            if rowid == rows[-1][0]:
                assert not in_part.ok


def test_every_number_of_every_checkpoint(copy: Copy) -> None:
    for rowid, seq in copy.run("SELECT rowid, seq FROM audit_checkpoints"):
        for other in {*range(-1, ENTRIES + 2), "x", 2.5} - {seq}:
            with copy.tampering():
                copy.run("UPDATE audit_checkpoints SET seq = ? WHERE rowid = ?", other, rowid)
                assert not copy.examine().ok, (seq, other)


@pytest.mark.parametrize("column", ["base_hash", "head_hash"])
def test_every_byte_of_the_state(copy: Copy, column: str) -> None:
    ((text,),) = copy.run(f"SELECT {column} FROM audit_state")
    for _, changed in changed_texts(text):
        with copy.tampering():
            copy.run(f"UPDATE audit_state SET {column} = CAST(? AS TEXT)", changed)
            report = copy.examine()
        assert not report.ok
        assert report.first_problem is not None
        assert report.first_problem.kind in (ProblemKind.STATE_MISMATCH, ProblemKind.BASE_UNPROVEN)


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ("head_seq = 4", ProblemKind.INSERTED),
        ("head_seq = 6", ProblemKind.TRUNCATED),
        ("head_seq = 0", ProblemKind.INSERTED),
        ("head_seq = -1", ProblemKind.INSERTED),
        ("head_seq = 'x'", ProblemKind.STATE_MISMATCH),
        ("head_seq = 5.5", ProblemKind.STATE_MISMATCH),
        ("base_seq = 2", ProblemKind.BASE_UNPROVEN),
        ("base_seq = -1", ProblemKind.BASE_UNPROVEN),
        (
            "base_seq = 2, base_hash = (SELECT hash FROM audit_log WHERE seq = 2)",
            ProblemKind.BASE_UNPROVEN,
        ),
        ("base_proof = 'x'", ProblemKind.BASE_UNPROVEN),
    ],
)
def test_the_numbers_of_the_state(copy: Copy, change: str, kind: ProblemKind) -> None:
    with copy.tampering():
        copy.run(f"UPDATE audit_state SET {change}")
        report = copy.examine()
    assert not report.ok
    assert kind in {problem.kind for problem in report.problems}


def test_the_state_removed_or_doubled(copy: Copy) -> None:
    with copy.tampering():
        copy.run("DELETE FROM audit_state")
        report = copy.examine()
        assert [problem.kind for problem in report.problems] == [ProblemKind.STATE_MISMATCH]
        assert report.entries == ENTRIES
    with copy.tampering():
        copy.run("PRAGMA ignore_check_constraints = ON")
        copy.run(
            "INSERT INTO audit_state SELECT 2, 0, base_hash, '', 0, base_hash FROM audit_state"
        )
        assert not copy.examine().ok
        copy.run("UPDATE audit_state SET id = 7 WHERE id = 1")
        copy.run("DELETE FROM audit_state WHERE id = 2")
        assert not copy.examine().ok


def test_every_byte_of_the_witness(copy: Copy) -> None:
    content = copy.witness.content
    assert content is not None
    for place in range(len(content)):
        for change in CHANGES:
            changed = content[:place] + bytes([content[place] ^ change]) + content[place + 1 :]
            report = copy.examine(witness=Witness(changed))
            assert [p.kind for p in report.problems] == [ProblemKind.WITNESS_DAMAGED], place
    for damaged in (b"", content[:-1], content + b"\n", b"{}\n", b"[]\n", b"null\n", b"\xff\n"):
        assert not copy.examine(witness=Witness(damaged)).ok


class TestIrrelevant:
    """What may be changed without being found, because nothing that was written is different."""

    def test_the_storage_class_of_a_cell(self, copy: Copy) -> None:
        """The same bytes as a blob are the same bytes."""
        with copy.tampering():
            copy.run("UPDATE audit_log SET body = CAST(body AS BLOB), hash = CAST(hash AS BLOB)")
            assert copy.examine().ok

    def test_the_order_in_which_rows_lie_on_the_disk(self, copy: Copy) -> None:
        with copy.tampering():
            copy.replace_entries(copy.entries()[::-1])
            assert copy.examine().ok

    def test_without_a_public_key_the_time_of_a_checkpoint(self, copy: Copy) -> None:
        """Only the signature covers it; the report says that signatures were not checked."""
        with copy.tampering():
            copy.run("UPDATE audit_checkpoints SET body = replace(body, '01T12', '01T11')")
            report = copy.examine(verifier=None, witness=None)
            assert report.ok
            assert report.signatures == "no public key"
            assert not copy.examine().ok


async def test_an_entry_that_is_no_text_does_not_hide_the_next(ledger: Ledger) -> None:
    await ledger.write(6)
    copy = ledger.copy()
    copy.run("UPDATE audit_log SET body = CAST(x'ff00' AS TEXT) WHERE seq IN (2, 3)")
    copy.run("UPDATE audit_log SET hash = CAST(x'ff' AS TEXT) WHERE seq = 3")
    copy.run("UPDATE audit_log SET body = 'gone' WHERE seq = 6")
    report = copy.examine()
    assert {problem.seq for problem in report.problems} >= {2, 3, 6}
    assert report.entries == 6
