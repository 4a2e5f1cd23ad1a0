"""What is said about checkpoints, the log's own notes, the witness and files, word for word.

The log has eight entries and a checkpoint after every second one.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from silas.audit import (
    AuditBroken,
    AuditFileInvalid,
    AuditFileNotWritten,
    ChainPosition,
    examine_file,
)
from silas.audit.examination import Witness
from silas.audit.models import Checkpoint, SignedStatement
from silas.kernel import strict_loads
from tests.audit.ledger import Copy, Ledger, make_keys, prepared_copy

Said = list[str]


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    async def fill(ledger: Ledger) -> None:
        for _ in range(4):
            await ledger.write(2)
            await ledger.log.write_checkpoint()

    return prepared_copy(tmp_path_factory.mktemp("log"), fill)


@pytest.fixture
def copy(untouched: Copy) -> Iterator[Copy]:
    with untouched.tampering():
        yield untouched


def told(copy: Copy, **options: Any) -> Said:
    report = copy.examine(**options)
    assert report.problem_count == len(report.problems)
    return [f"{each.kind.value} {each.seq}: {each.sentence}" for each in report.problems]


def named(copy: Copy, seq: int) -> str:
    """Id and time, as sentences name a checkpoint."""
    ((body,),) = copy.run("SELECT body FROM audit_checkpoints WHERE seq = ?", seq)
    said = strict_loads(body)
    return f"{said['checkpoint_id']} of {said['at']}"


def id_of(copy: Copy, seq: int) -> str:
    return named(copy, seq).split()[0]


def resign(copy: Copy, seq: int, signer: Any = None, **changes: Any) -> str:
    """Sign a changed checkpoint in place of the one there; returns the key's id."""
    ((body,),) = copy.run("SELECT body FROM audit_checkpoints WHERE seq = ?", seq)
    signed = SignedStatement.sign({**strict_loads(body), **changes}, signer or copy.keys)
    copy.run(
        "UPDATE audit_checkpoints SET body = ?, key_id = ?, signature = ? WHERE seq = ?",
        signed.body,
        signed.key_id,
        signed.signature,
        seq,
    )
    return signed.key_id


class TestCheckpoints:
    def test_what_an_intact_log_reports(self, copy: Copy) -> None:
        report = copy.examine()
        assert (report.ok, report.entries, report.start_seq, report.head_seq) == (True, 8, 0, 8)
        assert (report.checkpoints, report.vouched_seq, report.problem_count) == (4, 8, 0)
        assert report.head_hash == copy.entries()[-1][2]
        assert report.key_ids == (copy.keys.public.keys[0].key_id,)
        part = copy.examine(from_checkpoint=id_of(copy, 4))
        assert (part.ok, part.entries, part.start_seq, part.head_seq) == (True, 4, 4, 8)
        assert (part.checkpoints, part.vouched_seq) == (3, 8)
        assert part.key_ids == report.key_ids
        latest = copy.examine(from_checkpoint="latest")
        assert (latest.entries, latest.start_seq, latest.checkpoints) == (0, 8, 1)
        assert latest.vouched_seq == 8

    def test_the_first_is_missing(self, copy: Copy) -> None:
        first, second = id_of(copy, 2), named(copy, 4)
        copy.run("DELETE FROM audit_checkpoints WHERE seq = 2")
        assert told(copy) == [
            (
                f"checkpoint_missing 4: Checkpoint {first} is missing: Checkpoint {second} "
                "was made after it."
            )
        ]

    def test_one_that_claims_to_be_the_first(self, copy: Copy) -> None:
        resign(copy, 4, previous=None)
        assert told(copy) == [
            (
                "checkpoint_missing 4: Checkpoint number one is missing: "
                f"Checkpoint {named(copy, 4)} was made after it."
            )
        ]

    def test_another_key(self, copy: Copy) -> None:
        key_id = resign(copy, 4, make_keys())
        assert told(copy) == [
            (
                f"checkpoint_forged 2: Checkpoint {id_of(copy, 4)} is not signed by a key that is "
                f"trusted here; it names {key_id}."
            )
        ]
        assert copy.examine().vouched_seq == 8
        assert copy.examine().key_ids == (copy.keys.public.keys[0].key_id, key_id)

    @pytest.mark.parametrize("start", ["latest", "named"])
    def test_nothing_is_built_on_it(self, copy: Copy, start: str) -> None:
        resign(copy, 8, make_keys())
        name = id_of(copy, 8)
        report = copy.examine(from_checkpoint="latest" if start == "latest" else name, witness=None)
        (problem,) = report.problems
        assert (problem.kind.value, problem.seq) == ("checkpoint_forged", 8)
        assert problem.sentence == (
            f"Checkpoint {name} is damaged or not signed by a key that is trusted here, so nothing "
            "can be built on it."
        )
        assert (report.entries, report.checkpoints, report.vouched_seq) == (0, 0, 0)
        assert (report.signatures.value, report.key_ids) == ("no checkpoint", ())

    def test_nor_on_what_is_none(self, copy: Copy) -> None:
        copy.run("UPDATE audit_checkpoints SET body = 'x' WHERE seq = 8")
        assert told(copy, from_checkpoint="latest", witness=None) == [
            (
                "checkpoint_forged 0: Checkpoint without a name is damaged or not signed by a key "
                "that is trusted here, so nothing can be built on it."
            )
        ]

    def test_it_is_there_twice(self, copy: Copy) -> None:
        name = id_of(copy, 4)
        copy.run("DROP TABLE IF EXISTS twice")
        copy.run("CREATE TABLE twice AS SELECT * FROM audit_checkpoints")
        copy.run("DROP TABLE audit_checkpoints")
        copy.run("ALTER TABLE twice RENAME TO audit_checkpoints")
        copy.run("INSERT INTO audit_checkpoints SELECT * FROM audit_checkpoints WHERE seq = 4")
        assert told(copy) == [f"checkpoint_forged 4: Checkpoint {name} is there twice."]

    def test_it_is_damaged(self, copy: Copy) -> None:
        name = id_of(copy, 4)
        copy.run("UPDATE audit_checkpoints SET body = 'x' WHERE seq = 4")
        assert told(copy) == [
            f"checkpoint_forged 2: Checkpoint {name} is damaged: it does not say what was signed."
        ]

    def test_it_is_no_text(self, copy: Copy) -> None:
        """The driver stops there, so those behind it are not seen; the witness tells that."""
        copy.run("UPDATE audit_checkpoints SET body = CAST(x'ff' AS TEXT) WHERE seq = 4")
        assert told(copy, witness=None) == [
            (
                "checkpoint_forged 2: Checkpoint without a name is damaged: it does not say what "
                "was signed."
            )
        ]

    @pytest.mark.parametrize("seq", [3, "x"])
    def test_it_is_filed_under_another_entry(self, copy: Copy, seq: object) -> None:
        name = id_of(copy, 4)
        copy.run("UPDATE audit_checkpoints SET seq = ? WHERE seq = 4", seq)
        (sentence,) = {line.split(": ", 1)[1] for line in told(copy) if "forged" in line}
        assert sentence == f"Checkpoint {name} is damaged: it does not say what was signed."

    def test_it_vouches_for_something_else(self, copy: Copy) -> None:
        resign(copy, 4, hash="0" * 64)
        assert told(copy) == [
            (
                "checkpoint_mismatch 3: Entries 3 to 4 are not what Checkpoint "
                f"{named(copy, 4)} vouches for: the chain was rewritten."
            )
        ]

    def test_for_a_single_entry(self, copy: Copy) -> None:
        ((body,),) = copy.run("SELECT body FROM audit_checkpoints WHERE seq = 4")
        said = strict_loads(body)
        extra = Checkpoint.make(
            "ckp_x",
            ChainPosition(3, "0" * 64),
            at=said["at"],
            previous=said["previous"],
            signer=copy.keys,
        )
        copy.run(
            "INSERT INTO audit_checkpoints VALUES ('ckp_x', 3, ?, ?, ?)",
            extra.signed.body,
            extra.signed.key_id,
            extra.signed.signature,
        )
        assert (
            "checkpoint_mismatch 3: Entry 3 is not what Checkpoint ckp_x of "
            f"{said['at']} vouches for: the chain was rewritten."
        ) in told(copy)

    def test_its_entry_is_missing(self, copy: Copy) -> None:
        copy.run("DELETE FROM audit_log WHERE seq = 4")
        assert told(copy) == [
            "removed 4: Entry 4 is missing.",
            (
                f"checkpoint_mismatch 4: Checkpoint {named(copy, 4)} vouches for entry 4, which is "
                "not there."
            ),
        ]

    def test_the_end_is_missing(self, copy: Copy) -> None:
        copy.run("DELETE FROM audit_log WHERE seq > 5")
        assert told(copy) == [
            (
                "truncated 6: Entry 6 at the end of the log is missing: "
                f"Checkpoint {named(copy, 6)} vouches for entry 6."
            ),
            (
                "truncated 6: Entries 6 to 8 at the end of the log are missing: "
                f"Checkpoint {named(copy, 8)} vouches for entry 8."
            ),
            "truncated 6: Entries 6 to 8 at the end of the log are missing.",
        ]

    def test_the_last_entry_is_missing(self, copy: Copy) -> None:
        copy.run("DELETE FROM audit_checkpoints")
        copy.run("DELETE FROM audit_log WHERE seq = 8")
        assert told(copy, witness=None) == [
            "truncated 8: Entry 8 at the end of the log is missing."
        ]


class TestTheStartAndTheEnd:
    @pytest.mark.parametrize(
        ("change", "expected"),
        [
            (
                "DELETE FROM audit_state",
                "state_mismatch 0: The log's note of its start and end was destroyed.",
            ),
            (
                "UPDATE audit_state SET head_hash = 'x'",
                "state_mismatch 8: The log's note of its end has another hash for entry 8.",
            ),
            (
                "UPDATE audit_state SET base_proof = 'x'",
                "base_unproven 0: The log has a proof of a later start that it does not need.",
            ),
            (
                "UPDATE audit_state SET base_seq = 4",
                "base_unproven 0: The log claims to start at entry 4, without a proof.",
            ),
            (
                "INSERT INTO audit_log VALUES (0, 'x', 'y')",
                "inserted 0: The entry at place 0 lies before the start of the log.",
            ),
        ],
    )
    def test_each(self, copy: Copy, change: str, expected: str) -> None:
        copy.run(change)
        assert told(copy) == [expected]

    def test_what_cannot_be_read_is_not_the_state(self, copy: Copy) -> None:
        copy.run("UPDATE audit_state SET head_hash = CAST(x'ff' AS TEXT)")
        assert told(copy) == [
            "state_mismatch 0: The log's note of its start and end was destroyed."
        ]


class TestTheWitness:
    def test_it_is_damaged(self, copy: Copy) -> None:
        assert told(copy, witness=Witness(b"x")) == [
            (
                "witness_damaged 0: The witness file is damaged, or not signed by a key that is "
                "trusted here."
            )
        ]

    def test_it_is_missing(self, copy: Copy) -> None:
        assert told(copy, witness=Witness(None)) == [
            (
                "witness_damaged 8: The witness file, which holds a copy of the newest checkpoint, "
                "is missing."
            )
        ]

    def test_the_log_is_older(self, copy: Copy) -> None:
        at = named(copy, 8).split()[-1]
        digest = copy.entries()[5][2]
        copy.run("DELETE FROM audit_log WHERE seq > 6")
        copy.run("DELETE FROM audit_checkpoints WHERE seq > 6")
        copy.run("UPDATE audit_state SET head_seq = 6, head_hash = ?", digest)
        assert told(copy) == [
            (
                "truncated 7: The log ends at entry 6, but the witness file vouches for entry 8 "
                f"(on {at}): an older copy of the log was put in its place."
            )
        ]

    def test_a_log_of_the_same_length(self, copy: Copy) -> None:
        name = named(copy, 8)
        copy.run("DELETE FROM audit_checkpoints WHERE seq = 8")
        assert told(copy) == [
            (
                f"checkpoint_missing 8: Checkpoint {name}, which the witness file holds, is not in "
                "the log."
            )
        ]


class TestErrors:
    async def test_no_checkpoint_of_a_tampered_log(self, ledger: Ledger) -> None:
        await ledger.write(3)
        await ledger.database.execute("UPDATE audit_log SET body = 'x' WHERE seq = 2")
        with pytest.raises(AuditBroken) as caught:
            await ledger.log.write_checkpoint()
        assert str(caught.value) == (
            "No checkpoint is made of a log that was tampered with. The content of entry 2 was "
            "changed. Run `silas audit verify`."
        )

    async def test_a_witness_that_cannot_be_written(self, ledger: Ledger) -> None:
        ledger.witness.mkdir()
        with pytest.raises(AuditFileNotWritten) as caught:
            await ledger.log.write_checkpoint()
        assert str(caught.value) == (
            f"The checkpoint was made, but its witness {ledger.witness} could not be written: "
            "Is a directory. Make room for it, and run the command again."
        )

    async def test_an_export_that_cannot_be_written(self, ledger: Ledger) -> None:
        file = ledger.folder / "missing" / "x"
        with pytest.raises(AuditFileNotWritten) as caught:
            await ledger.log.export_file(file)
        assert str(caught.value) == (
            f"{file} could not be written: No such file or directory. Nothing was removed: choose "
            "another place and try again."
        )

    def test_a_file_that_cannot_be_read(self, tmp_path: Path) -> None:
        with pytest.raises(AuditFileInvalid) as caught:
            examine_file(tmp_path / "missing")
        assert str(caught.value) == (
            f"{tmp_path / 'missing'} cannot be read: No such file or directory. Check the name of "
            "the file."
        )
