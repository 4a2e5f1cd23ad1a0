"""Checkpoints: made in time, signed, linked, witnessed, and refused where they would be a lie."""

import asyncio
import stat
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from silas.approval import KeyManager
from silas.approval.keys import OWNER_KEYS_REF
from silas.audit import (
    AuditBroken,
    AuditFileNotWritten,
    AuditLog,
    CheckpointNotWritten,
    ProblemKind,
    Signatures,
)
from silas.audit.examination import Witness, read_witness
from silas.audit.models import Checkpoint, SignedStatement
from silas.kernel import IdFactory, SecretsError, canonical_bytes, strict_loads
from silas.testing import MemoryVault
from tests.audit.ledger import Ledger, make_keys, open_ledger


async def checkpoints(ledger: Ledger) -> list[dict[str, Any]]:
    rows = await ledger.database.fetch_all("SELECT body FROM audit_checkpoints ORDER BY seq")
    return [strict_loads(body) for (body,) in rows]


def kinds(report: Any) -> set[ProblemKind]:
    return {problem.kind for problem in report.problems}


async def test_what_a_checkpoint_says(ledger: Ledger) -> None:
    await ledger.write(3)
    first = await ledger.log.write_checkpoint()
    await ledger.write(1)
    second = await ledger.log.write_checkpoint()
    rows = await ledger.database.fetch_all("SELECT seq, hash FROM audit_log")
    hashes = dict(rows)
    assert await checkpoints(ledger) == [
        {
            "format": "silas-audit-checkpoint-v1",
            "checkpoint_id": first,
            "at": "2026-01-01T12:00:03.000000Z",
            "seq": 3,
            "hash": hashes[3],
            "previous": None,
        },
        {
            "format": "silas-audit-checkpoint-v1",
            "checkpoint_id": second,
            "at": "2026-01-01T12:00:04.000000Z",
            "seq": 4,
            "hash": hashes[4],
            "previous": first,
        },
    ]
    assert first.startswith("ckp_")


async def test_the_owners_key_has_signed_its_bytes(ledger: Ledger) -> None:
    await ledger.log.write_checkpoint()
    ((body, key_id, signature),) = await ledger.database.fetch_all(
        "SELECT body, key_id, signature FROM audit_checkpoints"
    )
    signed = SignedStatement(body, key_id, signature)
    assert signed.signed_by(ledger.keys)
    assert not signed.signed_by(make_keys())
    assert not SignedStatement(body + " ", key_id, signature).signed_by(ledger.keys)


async def test_an_empty_log_can_be_vouched_for(ledger: Ledger) -> None:
    await ledger.log.write_checkpoint()
    report = await ledger.log.examine()
    assert report.ok
    assert (report.entries, report.checkpoints, report.vouched_seq) == (0, 1, 0)


async def test_the_same_end_is_vouched_for_once(ledger: Ledger) -> None:
    await ledger.write(2)
    assert await ledger.log.write_checkpoint() == await ledger.log.write_checkpoint()
    assert len(await checkpoints(ledger)) == 1


class TestInTime:
    async def test_every_so_many_entries(self, tmp_path: Path) -> None:
        ledger = await open_ledger(tmp_path, checkpoint_every=4)
        await ledger.write(11)
        assert [each["seq"] for each in await checkpoints(ledger)] == [4, 8]
        assert await ledger.log.checkpoint_if_due() is None
        await ledger.database.close()

    async def test_also_after_a_restart(self, tmp_path: Path) -> None:
        first = await open_ledger(tmp_path, checkpoint_every=4)
        await first.write(6)
        await first.database.close()
        second = await open_ledger(tmp_path, keys=first.keys, checkpoint_every=4)
        assert await second.log.checkpoint_if_due() is None
        await second.write(1)
        assert [each["seq"] for each in await checkpoints(second)] == [4]
        await second.write(1)
        assert [each["seq"] for each in await checkpoints(second)] == [4, 8]
        await second.database.close()

    async def test_also_when_others_write_in_their_own_transactions(self, tmp_path: Path) -> None:
        ledger = await open_ledger(tmp_path, checkpoint_every=4)
        for _ in range(6):
            await ledger.database.transaction(lambda tx: ledger.log.append(tx, "x", {}))
        assert await checkpoints(ledger) == []
        assert await ledger.log.checkpoint_if_due() is not None
        assert [each["seq"] for each in await checkpoints(ledger)] == [6]
        await ledger.database.close()

    async def test_two_logs_on_one_file_do_not_double_them(self, tmp_path: Path) -> None:
        first = await open_ledger(tmp_path, checkpoint_every=4)
        second = await open_ledger(tmp_path, keys=first.keys, checkpoint_every=4)
        for _ in range(10):
            await first.write(1)
            await second.write(1)
        assert [each["seq"] for each in await checkpoints(first)] == [4, 8, 12, 16, 20]
        assert (await first.log.examine()).ok
        await first.database.close()
        await second.database.close()

    async def test_many_at_once(self, tmp_path: Path) -> None:
        ledger = await open_ledger(tmp_path, checkpoint_every=16)
        await asyncio.gather(*(ledger.log.log("x") for _ in range(200)))
        assert (await ledger.log.examine()).ok
        assert await checkpoints(ledger)
        await ledger.database.close()


class Refusing:
    """A signer whose vault is locked."""

    def sign(self, payload: bytes) -> tuple[str, bytes]:
        raise SecretsError("The vault is locked.")


class TestFailures:
    async def test_logging_goes_on_and_the_log_says_so(self, tmp_path: Path) -> None:
        ledger = await open_ledger(tmp_path, signer=Refusing(), checkpoint_every=4)
        await ledger.write(9)
        failed = await ledger.log.tail(10, event="audit_checkpoint_failed")
        assert [entry.seq for entry in failed] == [5, 9]
        assert failed[0].data["error"]["code"] == "E_SECRETS_FAILED"
        assert (await ledger.log.examine()).ok
        with pytest.raises(SecretsError):
            await ledger.log.write_checkpoint()
        await ledger.database.close()

    async def test_a_tampered_log_is_not_signed(self, ledger: Ledger) -> None:
        await ledger.write(3)
        await ledger.log.write_checkpoint()
        await ledger.write(3)
        await ledger.database.execute("UPDATE audit_log SET body = 'x' WHERE seq = 5")
        with pytest.raises(AuditBroken, match="The content of entry 5 was changed"):
            await ledger.log.write_checkpoint()
        assert len(await checkpoints(ledger)) == 1

    async def test_nothing_is_built_on_a_forged_checkpoint(self, ledger: Ledger) -> None:
        await ledger.write(3)
        await ledger.log.write_checkpoint()
        await ledger.database.execute("UPDATE audit_checkpoints SET body = replace(body, '3', '2')")
        with pytest.raises(AuditBroken, match="nothing can be built on it"):
            await ledger.log.write_checkpoint()

    async def test_nor_on_one_that_cannot_be_read(self, ledger: Ledger) -> None:
        await ledger.write(3)
        await ledger.log.write_checkpoint()
        await ledger.database.execute(
            "UPDATE audit_checkpoints SET body = CAST(x'ff' AS TEXT), key_id = CAST(x'ff' AS TEXT)"
        )
        with pytest.raises(AuditBroken):
            await ledger.log.write_checkpoint()
        assert not (await ledger.log.examine()).ok
        assert not (await ledger.log.verify_from_checkpoint())[0]

    async def test_others_are_always_faster(self, ledger: Ledger) -> None:
        """A checkpoint that does not follow the newest one is not written."""
        other = AuditLog(
            ledger.database, clock=ledger.clock, ids=IdFactory(ledger.clock), signer=ledger.keys
        )

        class Overtaken:
            def __init__(self) -> None:
                self.loop = asyncio.get_running_loop()

            def sign(self, payload: bytes) -> tuple[str, bytes]:
                asyncio.run_coroutine_threadsafe(self.overtake(), self.loop).result()
                return ledger.keys.sign(payload)

            async def overtake(self) -> None:
                await other.log("x")
                await other.write_checkpoint()
                await other.log("x")

        slow = AuditLog(
            ledger.database, clock=ledger.clock, ids=IdFactory(ledger.clock), signer=Overtaken()
        )
        with pytest.raises(CheckpointNotWritten):
            await slow.write_checkpoint()
        assert (await ledger.log.examine()).ok is False  # the witness was not kept up to date
        assert kinds(await ledger.log.examine()) == {ProblemKind.WITNESS_DAMAGED}


class TestRemoved:
    async def make(self, ledger: Ledger) -> None:
        for _ in range(4):
            await ledger.write(2)
            await ledger.log.write_checkpoint()

    @pytest.mark.parametrize("seq", [2, 4, 6])
    async def test_one_in_the_middle(self, ledger: Ledger, seq: int) -> None:
        await self.make(ledger)
        await ledger.database.execute("DELETE FROM audit_checkpoints WHERE seq = ?", (seq,))
        report = await ledger.log.examine()
        assert [(p.kind, p.seq) for p in report.problems] == [
            (ProblemKind.CHECKPOINT_MISSING, seq + 2)
        ]

    async def test_the_newest(self, ledger: Ledger) -> None:
        await self.make(ledger)
        await ledger.database.execute("DELETE FROM audit_checkpoints WHERE seq = 8")
        for start in (None, "latest"):
            report = await ledger.log.examine(from_checkpoint=start)
            assert [(p.kind, p.seq) for p in report.problems] == [
                (ProblemKind.CHECKPOINT_MISSING, 8)
            ]

    async def test_all_of_them(self, ledger: Ledger) -> None:
        await self.make(ledger)
        await ledger.database.execute("DELETE FROM audit_checkpoints")
        assert kinds(await ledger.log.examine()) == {ProblemKind.CHECKPOINT_MISSING}

    async def test_all_of_them_and_the_witness(self, ledger: Ledger) -> None:
        """Then nothing vouches for the log, and the report says that."""
        await self.make(ledger)
        await ledger.database.execute("DELETE FROM audit_checkpoints")
        ledger.witness.unlink()
        report = await ledger.log.examine()
        assert report.ok
        assert report.signatures is Signatures.NO_CHECKPOINT
        assert report.vouched_seq == 0


class TestInserted:
    async def test_one_by_another_key(self, ledger: Ledger) -> None:
        await ledger.write(4)
        await ledger.log.write_checkpoint()
        (statement,) = await checkpoints(ledger)
        forged = SignedStatement.sign(
            {**statement, "seq": 2, "checkpoint_id": "ckp_0", "previous": None}, make_keys()
        )
        await ledger.database.execute(
            "INSERT INTO audit_checkpoints VALUES ('ckp_0', 2, ?, ?, ?)",
            (forged.body, forged.key_id, forged.signature),
        )
        report = await ledger.log.examine()
        assert kinds(report) == {ProblemKind.CHECKPOINT_FORGED}
        assert "is not signed by a key that is trusted here" in report.problems[0].sentence
        assert forged.key_id in report.key_ids

    async def test_a_signature_for_another_purpose(self, ledger: Ledger) -> None:
        """The owner's key signs other things as well; none of them is a checkpoint."""
        await ledger.write(4)
        await ledger.log.write_checkpoint()
        (statement,) = await checkpoints(ledger)
        for content in (
            {**statement, "format": "silas-audit-base-v1"},
            {**statement, "extra": 1},
            {name: value for name, value in statement.items() if name != "previous"},
            {**statement, "seq": True},
            {**statement, "seq": "4"},
        ):
            assert Checkpoint.read(SignedStatement.sign(content, ledger.keys)) is None

    def test_a_statement_that_is_not_canonical(self) -> None:
        keys = make_keys()
        body = '{"b":1, "a":2}'
        key_id, _ = keys.sign(b"")
        assert SignedStatement(body, key_id, "").content(a=int, b=int) is None
        for text in ("[]", "", "{", '{"a":1,"a":2}', "\ud800"):
            assert SignedStatement(text, key_id, "").content(a=int) is None


class TestWitness:
    async def test_it_holds_the_newest_checkpoint(self, ledger: Ledger) -> None:
        for _ in range(2):
            await ledger.write(1)
            newest = await ledger.log.write_checkpoint()
        content = ledger.witness.read_bytes()
        assert strict_loads(strict_loads(content)["statement"])["checkpoint_id"] == newest
        assert stat.S_IMODE(ledger.witness.stat().st_mode) == 0o600

    async def test_it_is_missing(self, ledger: Ledger) -> None:
        for _ in range(2):
            await ledger.write(1)
            await ledger.log.write_checkpoint()
        ledger.witness.unlink()
        report = await ledger.log.examine()
        assert kinds(report) == {ProblemKind.WITNESS_DAMAGED}

    async def test_it_is_missing_after_the_very_first_checkpoint(self, ledger: Ledger) -> None:
        """As after a crash between the two; an attacker gains nothing by it."""
        await ledger.write(1)
        await ledger.log.write_checkpoint()
        ledger.witness.unlink()
        assert (await ledger.log.examine()).ok

    async def test_it_catches_up_before_the_next_checkpoint(self, ledger: Ledger) -> None:
        """So that two runs that were killed do not look like an attack."""
        await ledger.write(1)
        first = await ledger.log.write_checkpoint()
        ledger.witness.unlink()
        await ledger.write(1)
        seen: list[bytes] = []

        class Looking:
            def sign(self, payload: bytes) -> tuple[str, bytes]:
                seen.append(ledger.witness.read_bytes())
                return ledger.keys.sign(payload)

        other = await open_ledger(ledger.folder, keys=ledger.keys, signer=Looking())
        await other.log.write_checkpoint()
        assert strict_loads(strict_loads(seen[0])["statement"])["checkpoint_id"] == first
        await other.database.close()

    async def test_it_may_be_older(self, ledger: Ledger) -> None:
        """As after a crash between the two."""
        await ledger.write(1)
        await ledger.log.write_checkpoint()
        older = ledger.witness.read_bytes()
        await ledger.write(1)
        await ledger.log.write_checkpoint()
        ledger.witness.write_bytes(older)
        assert (await ledger.log.examine()).ok

    async def test_another_owners(self, ledger: Ledger, tmp_path_factory: Any) -> None:
        other = await open_ledger(tmp_path_factory.mktemp("other"))
        for each in (ledger, other):
            await each.write(1)
            await each.log.write_checkpoint()
        ledger.witness.write_bytes(other.witness.read_bytes())
        assert kinds(await ledger.log.examine()) == {ProblemKind.WITNESS_DAMAGED}
        await other.database.close()

    async def test_another_statement_under_the_same_name(self, ledger: Ledger) -> None:
        await ledger.write(2)
        await ledger.log.write_checkpoint()
        (statement,) = await checkpoints(ledger)
        twin = SignedStatement.sign({**statement, "hash": "0" * 64}, ledger.keys)
        ledger.witness.write_bytes(twin.to_bytes() + b"\n")
        (problem,) = (await ledger.log.examine()).problems
        assert (problem.kind, problem.seq) == (ProblemKind.CHECKPOINT_MISSING, 2)
        assert problem.sentence == (
            f"Checkpoint {statement['checkpoint_id']} of 2026-01-01T12:00:02.000000Z, which the "
            "witness file holds, is not in the log."
        )

    async def test_what_was_archived_need_not_be_there(self, ledger: Ledger) -> None:
        """But the checkpoint at the very start of the log has to be."""
        noted = []
        for _ in range(2):
            await ledger.write(2)
            await ledger.log.write_checkpoint()
            noted.append(ledger.witness.read_bytes())
        ledger.clock.advance(days=1)
        await ledger.log.archive(ledger.folder / "old", before=ledger.clock.now())
        await ledger.database.execute("DELETE FROM audit_checkpoints WHERE seq = 4")
        copy = ledger.copy()
        sentence = "which the witness file holds, is not in the log."
        for content, is_missed in zip(noted, (False, True), strict=True):
            problems = copy.examine(witness=Witness(content)).problems
            assert any(sentence in problem.sentence for problem in problems) is is_missed

    async def test_a_directory_in_its_place(self, ledger: Ledger) -> None:
        await ledger.write(1)
        ledger.witness.mkdir()
        assert read_witness(ledger.witness) == Witness(b"")
        assert kinds(await ledger.log.examine()) == {ProblemKind.WITNESS_DAMAGED}
        with pytest.raises(AuditFileNotWritten, match="witness"):
            await ledger.log.write_checkpoint()

    async def test_an_older_copy_of_the_database(self, tmp_path: Path) -> None:
        """Before the file is written anew, the log keeps what it showed."""
        ledger = await open_ledger(tmp_path)
        await ledger.write(3)
        await ledger.log.write_checkpoint()
        await ledger.database.close()
        older = ledger.path.read_bytes()
        again = await open_ledger(tmp_path, keys=ledger.keys)
        await again.write(3)
        await again.log.write_checkpoint()
        await again.database.close()

        ledger.path.write_bytes(older)
        rolled_back = await open_ledger(tmp_path, keys=ledger.keys)
        report = await rolled_back.log.examine(from_checkpoint="latest")
        assert [(p.kind, p.seq) for p in report.problems] == [(ProblemKind.TRUNCATED, 4)]
        assert "an older copy of the log was put in its place" in report.problems[0].sentence

        await rolled_back.log.write_checkpoint()
        (entry,) = await rolled_back.log.tail(1)
        assert entry.event == "audit_witness_problem"
        assert "an older copy" in entry.data["problem"]
        assert (await rolled_back.log.examine()).ok
        await rolled_back.database.close()

    def test_statements_are_read_as_they_were_written(self) -> None:
        signed = SignedStatement.sign({"a": 1}, make_keys())
        line = signed.to_bytes()
        assert SignedStatement.from_bytes(line) == signed
        for other in (line + b" ", b" " + line, b"[]", b"{}", b"", b"\xff", b"null"):
            assert SignedStatement.from_bytes(other) is None
        spaced = canonical_bytes({"x": 1})
        assert SignedStatement.from_bytes(spaced) is None


class TestFromACheckpoint:
    async def test_only_what_came_after_it_is_hashed(self, ledger: Ledger) -> None:
        ids = []
        for _ in range(3):
            await ledger.write(10)
            ids.append(await ledger.log.write_checkpoint())
        await ledger.write(4)
        assert await ledger.log.verify_from_checkpoint() == (True, 4)
        for checkpoint_id, count in zip(ids, (24, 14, 4), strict=True):
            assert await ledger.log.verify_from_checkpoint(checkpoint_id) == (True, count)
        assert await ledger.log.verify_chain() == (True, 34)

    async def test_without_any_the_whole_log_is_hashed(self, ledger: Ledger) -> None:
        await ledger.write(5)
        assert await ledger.log.verify_from_checkpoint() == (True, 5)

    async def test_one_that_is_not_there(self, ledger: Ledger) -> None:
        await ledger.write(5)
        assert await ledger.log.verify_from_checkpoint("ckp_x") == (False, 0)
        report = await ledger.log.examine(from_checkpoint="ckp_x")
        (problem,) = report.problems
        assert (problem.kind, problem.seq) == (ProblemKind.CHECKPOINT_MISSING, 0)
        assert problem.sentence == "There is no checkpoint ckp_x."

    @pytest.mark.parametrize("seq", range(1, 9))
    async def test_what_lies_before_it_is_not_looked_at(self, ledger: Ledger, seq: int) -> None:
        await ledger.write(4)
        await ledger.log.write_checkpoint()
        await ledger.write(4)
        await ledger.database.execute("UPDATE audit_log SET body = 'x' WHERE seq = ?", (seq,))
        ok, _ = await ledger.log.verify_from_checkpoint()
        assert ok == (seq <= 4)
        assert not (await ledger.log.verify_chain())[0]

    async def test_a_rewritten_past_is_found_where_it_meets_the_checkpoint(
        self, ledger: Ledger
    ) -> None:
        """The first entry after the checkpoint no longer follows from what is vouched for."""
        await ledger.write(4)
        await ledger.log.write_checkpoint()
        await ledger.write(4)
        copy = ledger.copy()
        copy.run("UPDATE audit_log SET hash = '0' WHERE seq = 4")
        assert copy.examine(from_checkpoint="latest").ok
        assert not copy.examine().ok

    async def test_later_checkpoints_are_compared_as_well(self, ledger: Ledger) -> None:
        first = None
        for _ in range(3):
            await ledger.write(2)
            first = first or await ledger.log.write_checkpoint()
            await ledger.log.write_checkpoint()
        report = await ledger.log.examine(from_checkpoint=first)
        assert (report.ok, report.entries, report.checkpoints) == (True, 4, 3)
        await ledger.database.execute("DELETE FROM audit_checkpoints WHERE seq = 4")
        report = await ledger.log.examine(from_checkpoint=first)
        assert kinds(report) == {ProblemKind.CHECKPOINT_MISSING}


class TestSignatures:
    async def test_without_a_public_key_the_report_says_so(self, ledger: Ledger) -> None:
        await ledger.write(2)
        await ledger.log.write_checkpoint()
        clock = ledger.clock
        log = AuditLog(ledger.database, clock=clock, ids=IdFactory(clock))
        report = await log.examine()
        assert report.ok
        assert report.signatures is Signatures.NO_PUBLIC_KEY
        report = await log.examine(verifier=ledger.keys)
        assert report.signatures is Signatures.CHECKED

    async def test_a_foreign_key(self, ledger: Ledger) -> None:
        await ledger.write(2)
        await ledger.log.write_checkpoint()
        for start in (None, "latest"):
            report = await ledger.log.examine(verifier=make_keys(), from_checkpoint=start)
            assert kinds(report) == {ProblemKind.CHECKPOINT_FORGED}

    async def test_after_a_rotation_both_keys_count(self, ledger: Ledger) -> None:
        await ledger.write(2)
        await ledger.log.write_checkpoint()
        rotation = ledger.keys.rotate()
        await ledger.write(2)
        await ledger.log.write_checkpoint()
        report = await ledger.log.examine()
        assert report.ok
        assert report.key_ids == (rotation["old_key_id"], rotation["new_key_id"])

    @pytest.mark.parametrize(
        ("late", "is_trusted"), [(timedelta(seconds=-9), True), (timedelta(minutes=2), False)]
    )
    async def test_a_retired_key_vouches_for_nothing_later(
        self, ledger: Ledger, late: timedelta, is_trusted: bool
    ) -> None:
        """Whoever has stolen an old key cannot go on with it."""
        vault = MemoryVault()
        keys = KeyManager(vault, clock=ledger.clock)
        keys.generate_keypair()
        stolen = MemoryVault()
        stolen.set(OWNER_KEYS_REF, vault.get(OWNER_KEYS_REF) or b"")
        thief = KeyManager(stolen, clock=ledger.clock)
        await ledger.write(2)
        ledger.clock.advance(hours=1)
        keys.rotate()
        ledger.clock.advance(seconds=late.total_seconds())
        log = AuditLog(
            ledger.database, clock=ledger.clock, ids=IdFactory(ledger.clock), signer=thief
        )
        await log.write_checkpoint()
        for start in (None, "latest"):
            for verifier in (keys, keys.public):
                report = await log.examine(from_checkpoint=start, verifier=verifier)
                assert report.ok is is_trusted
                if not is_trusted:
                    assert kinds(report) == {ProblemKind.CHECKPOINT_FORGED}

    @pytest.mark.parametrize("at", ["yesterday", "", None, 5])
    async def test_without_a_time_a_signature_is_worth_nothing(self, at: object) -> None:
        keys = make_keys()
        assert SignedStatement.sign({"at": "2026-01-01T12:00:00.000000Z"}, keys).signed_by(keys)
        assert not SignedStatement.sign({"at": at}, keys).signed_by(keys)
        assert not SignedStatement.sign({}, keys).signed_by(keys)
        assert not SignedStatement.sign({"at": at}, keys).signed_by(keys.public)


async def test_progress_is_told(ledger: Ledger) -> None:
    await ledger.write(5)
    told: list[tuple[int, int]] = []
    await ledger.log.examine(progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (5, 5)


async def test_long_logs_keep_few_of_many_problems(ledger: Ledger) -> None:
    await asyncio.gather(*(ledger.log.log("x") for _ in range(600)))
    await ledger.database.execute("UPDATE audit_log SET body = 'x' || body")
    report = await ledger.log.examine()
    assert report.problem_count >= 600
    assert len(report.problems) == 200
    assert report.entries == 600
