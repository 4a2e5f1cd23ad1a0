"""Exported files: complete, verifiable alone, and no byte of them can be changed."""

import asyncio
import hashlib
import json
import stat
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from silas.audit import (
    GENESIS,
    AuditBroken,
    AuditFileExists,
    AuditFileInvalid,
    AuditFileNotWritten,
    AuditReport,
    AuditStateDamaged,
    ChainPosition,
    NothingToArchive,
    ProblemKind,
    Signatures,
    ends_of,
    examination,
    examine_file,
    export,
    write_new_file,
)
from silas.audit.examination import Witness, read_witness
from silas.audit.models import SignedStatement, base_statement
from silas.kernel import AuditError, strict_loads
from tests.audit.ledger import Ledger, make_keys, open_ledger

Exported = tuple[Path, Ledger]


@pytest.fixture
async def exported(tmp_path: Path) -> AsyncIterator[Exported]:
    """Six entries, checkpoints after two and five."""
    ledger = await open_ledger(tmp_path)
    await ledger.write(2, name="é")
    await ledger.log.write_checkpoint()
    await ledger.write(3)
    await ledger.log.write_checkpoint()
    await ledger.write(1)
    file = tmp_path / "log.jsonl"
    report = await ledger.log.export_file(file)
    assert report.ok
    yield file, ledger
    await ledger.database.close()


def kinds(report: AuditReport) -> set[ProblemKind]:
    return {problem.kind for problem in report.problems}


class TestExport:
    async def test_every_line_is_json(self, exported: Exported) -> None:
        file, ledger = exported
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        assert lines[0] == {
            "format": "silas-audit-export-v1",
            "base": {"seq": 0, "hash": GENESIS},
            "base_proof": "",
            "head": {"seq": 6, "hash": lines[6]["hash"]},
            "checkpoints": 2,
            "key_ids": [ledger.keys.public.keys[0].key_id],
        }
        assert [line["entry"]["seq"] for line in lines[1:7]] == [1, 2, 3, 4, 5, 6]
        assert [json.loads(line["statement"])["seq"] for line in lines[7:]] == [2, 5]

    async def test_the_bytes_are_those_that_were_hashed(self, exported: Exported) -> None:
        file, ledger = exported
        rows = await ledger.database.fetch_all("SELECT body FROM audit_log ORDER BY seq")
        content = file.read_text()
        assert all(body in content for (body,) in rows)

    async def test_it_can_be_verified_alone(self, exported: Exported) -> None:
        file, ledger = exported
        report = examine_file(file, verifier=ledger.keys.public)
        assert (report.ok, report.entries, report.checkpoints) == (True, 6, 2)
        assert (report.vouched_seq, report.signatures) == (5, Signatures.CHECKED)

    async def test_with_a_witness(self, exported: Exported) -> None:
        file, ledger = exported
        witness = read_witness(ledger.witness)
        assert examine_file(file, verifier=ledger.keys, witness=witness).ok
        await ledger.log.write_checkpoint()
        newer = read_witness(ledger.witness)
        assert kinds(examine_file(file, witness=newer)) == {ProblemKind.CHECKPOINT_MISSING}

    async def test_with_a_witness_that_is_missing(self, exported: Exported) -> None:
        file, _ = exported
        (problem,) = examine_file(file, witness=Witness(None)).problems
        assert (problem.kind, problem.seq) == (ProblemKind.WITNESS_DAMAGED, 5)
        assert problem.sentence == (
            "The witness file, which holds a copy of the newest checkpoint, is missing."
        )

    async def test_without_a_key(self, exported: Exported) -> None:
        report = examine_file(exported[0])
        assert (report.ok, report.signatures) == (True, Signatures.NO_PUBLIC_KEY)

    async def test_with_a_foreign_key(self, exported: Exported) -> None:
        report = examine_file(exported[0], verifier=make_keys())
        assert kinds(report) == {ProblemKind.CHECKPOINT_FORGED}

    async def test_only_its_owner_may_read_it(self, exported: Exported) -> None:
        assert stat.S_IMODE(exported[0].stat().st_mode) == 0o600

    async def test_an_empty_log(self, ledger: Ledger) -> None:
        report = await ledger.log.export_file(ledger.folder / "x")
        assert (report.ok, report.entries) == (True, 0)

    async def test_progress_and_other_places(self, ledger: Ledger) -> None:
        await ledger.write(2)
        pieces: list[bytes] = []
        state = await ledger.log.export(pieces.append)
        assert state.head.seq == 2
        assert len(pieces) == 3

    async def test_progress_is_told(self, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
        """Counted from where the log starts, which need not be its beginning."""
        monkeypatch.setattr(export, "_PROGRESS_EVERY", 3)
        monkeypatch.setattr(examination, "_PROGRESS_EVERY", 3)
        await ledger.write(2)
        await ledger.log.write_checkpoint()
        ledger.clock.advance(days=1)
        told: list[tuple[int, int]] = []
        await ledger.log.archive(
            ledger.folder / "a",
            before=ledger.clock.now(),
            progress=lambda done, total: told.append((done, total)),
        )
        assert told[-1] == (2, 2)
        await ledger.write(5)
        expected = [(1, 6), (4, 6)]
        for write_it in (
            lambda tell: ledger.log.export(lambda _piece: None, progress=tell),
            lambda tell: ledger.log.export_file(ledger.folder / "b", progress=tell),
        ):
            told.clear()
            await write_it(lambda done, total: told.append((done, total)))
            assert told == expected

    @pytest.mark.parametrize("place", ["missing/x", "."])
    async def test_where_nothing_can_be_written(self, ledger: Ledger, place: str) -> None:
        with pytest.raises(AuditFileNotWritten):
            await ledger.log.export_file(ledger.folder / place)
        assert not [path for path in ledger.folder.iterdir() if "partial" in path.name]

    async def test_a_log_without_its_state(self, ledger: Ledger) -> None:
        await ledger.database.execute("DELETE FROM audit_state")
        with pytest.raises(AuditStateDamaged):
            await ledger.log.export_file(ledger.folder / "x")
        assert not (ledger.folder / "x").exists()

    @pytest.mark.parametrize(
        "damage",
        [
            "UPDATE audit_log SET body = 'x' || body WHERE seq = 3",
            "UPDATE audit_log SET body = body || char(10) WHERE seq = 3",
            "UPDATE audit_log SET body = CAST(x'ff' AS TEXT) WHERE seq = 3",
            "UPDATE audit_log SET hash = 'x' WHERE seq = 3",
            "DELETE FROM audit_log WHERE seq = 3",
            "UPDATE audit_checkpoints SET signature = 'x'",
        ],
    )
    async def test_evidence_is_exported_as_it_is(self, exported: Exported, damage: str) -> None:
        _, ledger = exported
        await ledger.database.execute(damage)
        in_place = await ledger.log.examine()
        report = await ledger.log.export_file(ledger.folder / "evidence")
        assert not report.ok
        assert kinds(report) == kinds(in_place)

    async def test_what_only_the_table_says_is_not_exported(self, exported: Exported) -> None:
        """The statement itself is whole, so the file holds."""
        _, ledger = exported
        await ledger.database.execute("UPDATE audit_checkpoints SET seq = 'x' WHERE seq = 5")
        assert not (await ledger.log.examine()).ok
        assert (await ledger.log.export_file(ledger.folder / "evidence")).ok


class TestTampering:
    async def test_every_byte(self, exported: Exported) -> None:
        file, ledger = exported
        content = file.read_bytes()
        target = file.with_name("tampered")
        for place in range(len(content)):
            # Another letter, and where there is one, the same letter in the other case.
            change = 0x20 if place % 3 == 0 and content[place : place + 1].isalpha() else 0x01
            changed = bytes([content[place] ^ change])
            target.write_bytes(content[:place] + changed + content[place + 1 :])
            try:
                report = examine_file(target, verifier=ledger.keys)
            except AuditFileInvalid:
                continue
            assert not report.ok, (place, content[max(0, place - 20) : place + 20])

    async def test_every_line_removed_doubled_and_moved(self, exported: Exported) -> None:
        file, ledger = exported
        lines = file.read_bytes().splitlines(keepends=True)
        target = file.with_name("tampered")
        for place in range(len(lines)):
            without = lines[:place] + lines[place + 1 :]
            forgeries = [without, lines[: place + 1] + lines[place:]]
            forgeries += [[*without[:to], lines[place], *without[to:]] for to in range(len(lines))]
            for forged in forgeries:
                if forged == lines:
                    continue
                target.write_bytes(b"".join(forged))
                try:
                    report = examine_file(target, verifier=ledger.keys)
                except AuditFileInvalid:
                    continue
                assert not report.ok

    async def test_cut_off_anywhere(self, exported: Exported) -> None:
        file, ledger = exported
        content = file.read_bytes()
        target = file.with_name("tampered")
        for length in range(len(content)):
            target.write_bytes(content[:length])
            try:
                report = examine_file(target, verifier=ledger.keys)
            except AuditFileInvalid:
                continue
            assert not report.ok

    async def test_a_line_without_end(self, exported: Exported) -> None:
        file, _ = exported
        with file.open("ab") as stream:
            stream.write(b"x" * 3_000_000)
        assert not examine_file(file).ok

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"\n",
            b"text\n",
            b"{}\n",
            b"[]\n",
            b"null\n",
            b"\xff\n",
            b'{"format":"silas-audit-export-v2"}\n',
            b'{"format":"silas-audit-export-v1","base":1,"head":2,"base_proof":"","key_ids":[]}\n',
        ],
    )
    def test_what_is_no_export(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "x").write_bytes(content)
        with pytest.raises(AuditFileInvalid):
            examine_file(tmp_path / "x")

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("base_proof", 5),
            ("key_ids", [5]),
            ("checkpoints", "2"),
            ("key_ids", 5),
            ("head", {"seq": "6", "hash": "x"}),
        ],
    )
    async def test_odd_headers(self, exported: Exported, field: str, value: object) -> None:
        file, _ = exported
        first, _, rest = file.read_bytes().partition(b"\n")
        header = {**strict_loads(first), field: value}
        file.write_bytes(
            json.dumps(header, sort_keys=True, separators=(",", ":")).encode() + b"\n" + rest
        )
        with pytest.raises(AuditFileInvalid):
            examine_file(file)

    @pytest.mark.parametrize("name", ["missing", "."])
    def test_what_is_no_file(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(AuditFileInvalid):
            examine_file(tmp_path / name)


async def aged(tmp_path: Path, **options: object) -> Ledger:
    """Three days with four entries each, and a checkpoint every evening."""
    ledger = await open_ledger(tmp_path, **options)
    for day in (1, 2, 3):
        ledger.clock.set(datetime(2026, 1, day, 12, tzinfo=UTC))
        await ledger.write(4)
        await ledger.log.write_checkpoint()
    return ledger


def day(number: int) -> datetime:
    return datetime(2026, 1, number, tzinfo=UTC)


class TestArchive:
    async def test_the_old_part_moves_and_both_parts_hold(self, tmp_path: Path) -> None:
        ledger = await aged(tmp_path)
        whole = await ledger.log.tail(100)
        file = tmp_path / "2026.jsonl"
        archived = await ledger.log.archive(file, before=day(3))
        assert (archived.base.seq, archived.head.seq) == (0, 8)

        report = examine_file(file, verifier=ledger.keys)
        assert (report.ok, report.entries, report.vouched_seq) == (True, 8, 8)
        rest = await ledger.log.examine()
        assert (rest.ok, rest.start_seq, rest.entries, rest.vouched_seq) == (True, 8, 5, 13)

        state = await ledger.database.fetch_one("SELECT base_seq, base_hash FROM audit_state")
        assert state is not None
        assert ends_of(file)[1] == ChainPosition(*state) == archived.head
        kept = await ledger.log.tail(100)
        assert [entry.seq for entry in kept] == [9, 10, 11, 12, 13]
        assert kept[:4] == whole[8:]
        await ledger.database.close()

    async def test_the_log_says_what_was_archived(self, tmp_path: Path) -> None:
        ledger = await aged(tmp_path)
        file = tmp_path / "a.jsonl"
        archived = await ledger.log.archive(file, before=day(2))
        (entry,) = await ledger.log.tail(1, event="audit_archived")
        assert entry.data == {
            "file": "a.jsonl",
            "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
            "first_seq": 1,
            "last_seq": 4,
            "last_hash": archived.head.hash,
        }
        await ledger.database.close()

    async def test_again_and_again(self, tmp_path: Path) -> None:
        ledger = await aged(tmp_path)
        files = [tmp_path / f"{number}.jsonl" for number in (2, 3)]
        for number, file in zip((2, 3), files, strict=True):
            await ledger.log.archive(file, before=day(number))
        await ledger.log.export_file(tmp_path / "rest.jsonl")
        parts = [*files, tmp_path / "rest.jsonl"]
        assert [examine_file(part, verifier=ledger.keys).ok for part in parts] == [True] * 3
        ends = [ends_of(part) for part in parts]
        assert ends[0][1] == ends[1][0]
        assert ends[1][1] == ends[2][0]
        assert (await ledger.log.examine()).ok
        await ledger.write(3)
        assert (await ledger.log.examine(from_checkpoint="latest")).ok
        await ledger.database.close()

    async def test_everything_may_go(self, tmp_path: Path) -> None:
        ledger = await aged(tmp_path)
        await ledger.log.archive(tmp_path / "a", before=day(9))
        assert [entry.event for entry in await ledger.log.tail(100)] == ["audit_archived"]
        assert (await ledger.log.examine()).ok
        await ledger.database.close()

    @pytest.mark.parametrize("before", [day(1), datetime(2026, 1, 1, 12, 0, 3, tzinfo=UTC)])
    async def test_nothing_lies_before_that_date(self, tmp_path: Path, before: datetime) -> None:
        """Of the first day's entries only some are old enough; no checkpoint lies between."""
        ledger = await aged(tmp_path)
        with pytest.raises(NothingToArchive):
            await ledger.log.archive(tmp_path / "a", before=before)
        assert not (tmp_path / "a").exists()
        await ledger.database.close()

    async def test_twice_the_same(self, tmp_path: Path) -> None:
        ledger = await aged(tmp_path)
        await ledger.log.archive(tmp_path / "a", before=day(2))
        with pytest.raises(NothingToArchive):
            await ledger.log.archive(tmp_path / "b", before=day(2))
        await ledger.database.close()

    async def test_a_broken_log_stays_where_it_is(self, tmp_path: Path) -> None:
        ledger = await aged(tmp_path)
        await ledger.database.execute("UPDATE audit_log SET body = 'x' WHERE seq = 2")
        with pytest.raises(AuditBroken) as caught:
            await ledger.log.archive(tmp_path / "a", before=day(2))
        assert str(caught.value) == (
            "The audit log: The content of entry 2 was changed. Nothing was removed."
        )
        assert len(await ledger.database.fetch_all("SELECT 1 FROM audit_log")) == 12
        await ledger.database.close()

    async def test_a_file_that_is_something_else(self, tmp_path: Path) -> None:
        ledger = await aged(tmp_path)
        file = tmp_path / "a"
        file.write_bytes(b"precious")
        with pytest.raises(AuditFileInvalid):
            await ledger.log.archive(file, before=day(2))
        assert file.read_bytes() == b"precious"
        await ledger.log.export_file(tmp_path / "b")
        with pytest.raises(AuditFileExists) as caught:
            await ledger.log.archive(tmp_path / "b", before=day(2))
        assert str(caught.value) == f"{tmp_path / 'b'}: {AuditFileExists.sentence()}"
        assert (await ledger.log.examine()).entries == 12
        await ledger.database.close()

    async def test_where_nothing_can_be_written(self, tmp_path: Path) -> None:
        ledger = await aged(tmp_path)
        with pytest.raises(AuditFileNotWritten):
            await ledger.log.archive(tmp_path / "missing" / "a", before=day(2))
        assert (await ledger.log.examine()).entries == 12
        await ledger.database.close()

    async def test_interrupted_after_the_file_was_written(self, tmp_path: Path) -> None:
        """Nothing is lost, and the same command goes on where it stopped."""
        ledger = await aged(tmp_path)
        file = tmp_path / "a"

        class Interrupted:
            def sign(self, payload: bytes) -> tuple[str, bytes]:
                raise ConnectionResetError

        stopped = await open_ledger(tmp_path, keys=ledger.keys, signer=Interrupted())
        with pytest.raises(ConnectionResetError):
            await stopped.log.archive(file, before=day(2))
        assert file.exists()
        assert (await ledger.log.examine()).entries == 12
        archived = await ledger.log.archive(file, before=day(2))
        assert archived.head.seq == 4
        assert (await ledger.log.examine()).ok
        await stopped.database.close()
        await ledger.database.close()

    async def test_interrupted_before_the_last_checkpoint(self, tmp_path: Path) -> None:
        """The witness is then older than the start of the log, which has a proof of its own."""
        ledger = await aged(tmp_path)
        older = ledger.witness.read_bytes()
        await ledger.log.archive(tmp_path / "a", before=day(9))
        ledger.witness.write_bytes(older)
        await ledger.database.execute("DELETE FROM audit_checkpoints WHERE seq > 12")
        assert (await ledger.log.examine()).ok
        first = await open_ledger(tmp_path, keys=ledger.keys)
        await first.write(2)
        await first.log.write_checkpoint()
        await first.log.archive(tmp_path / "b", before=day(9))
        ledger.witness.write_bytes(older)
        assert (await first.log.examine()).ok
        await first.database.close()
        await ledger.database.close()

    async def test_two_at_once(self, tmp_path: Path) -> None:
        ledger = await aged(tmp_path)
        keys = ledger.keys

        loop = asyncio.get_running_loop()

        class Overtaken:
            """While one archive is signed, another is made whole."""

            def sign(self, payload: bytes) -> tuple[str, bytes]:
                other = ledger.log.archive(tmp_path / "b", before=day(3))
                asyncio.run_coroutine_threadsafe(other, loop).result()
                return keys.sign(payload)

        slow = await open_ledger(tmp_path, keys=keys, signer=Overtaken())
        with pytest.raises(AuditError) as caught:
            await slow.log.archive(tmp_path / "a", before=day(2))
        assert str(caught.value) == "Somebody else is archiving at the same time. Try again."
        assert (await ledger.log.examine()).ok
        await slow.database.close()
        await ledger.database.close()

    @pytest.mark.parametrize("by_another_key", [True, False])
    async def test_a_file_that_only_looks_like_it(
        self, tmp_path: Path, by_another_key: bool
    ) -> None:
        """It starts and ends where it should. What lies between is examined all the same."""
        ledger = await aged(tmp_path)
        file = tmp_path / "a"
        row = await ledger.database.fetch_one("SELECT seq, hash FROM audit_log WHERE seq = 4")
        assert row is not None
        end = ChainPosition(*row)
        await ledger.database.snapshot(
            lambda reader: write_new_file(
                file, lambda write: export.export_log(reader, write, up_to=end)
            )
        )
        lines = file.read_bytes().splitlines(keepends=True)
        if by_another_key:
            signed = SignedStatement.from_bytes(lines[-1][:-1])
            assert signed is not None
            stranger = make_keys()
            forged = SignedStatement.sign(strict_loads(signed.body), stranger)
            lines[-1] = forged.to_bytes() + b"\n"
            lines[0] = lines[0].replace(signed.key_id.encode(), forged.key_id.encode())
            problem = f"is not signed by a key that is trusted here; it names {forged.key_id}."
        else:
            lines[2] = lines[2].replace(b"thing", b"THING")
            problem = "The content of entry 2 was changed."
        file.write_bytes(b"".join(lines))
        with pytest.raises(AuditBroken) as caught:
            await ledger.log.archive(file, before=day(2))
        said = str(caught.value)
        assert said.startswith(f"{file}: ")
        assert said.endswith(f"{problem} Nothing was removed.")
        assert (await ledger.log.examine()).entries == 12
        await ledger.database.close()


class TestTheStartOfTheLog:
    async def archived(self, tmp_path: Path) -> Ledger:
        ledger = await aged(tmp_path)
        await ledger.log.archive(tmp_path / "a", before=day(3))
        return ledger

    async def test_every_byte_of_its_proof(self, tmp_path: Path) -> None:
        ledger = await self.archived(tmp_path)
        await ledger.database.close()
        copy = ledger.copy()
        assert copy.examine().ok
        ((proof, digest),) = copy.run("SELECT base_proof, base_hash FROM audit_state")
        for column, text in (("base_proof", proof), ("base_hash", digest)):
            raw = text.encode()
            for place in range(len(raw)):
                changed = raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]
                with copy.tampering():
                    copy.run(f"UPDATE audit_state SET {column} = CAST(? AS TEXT)", changed)
                    report = copy.examine()
                assert ProblemKind.BASE_UNPROVEN in kinds(report), place

    @pytest.mark.parametrize("seq", [0, 4, 7, 9, 12])
    async def test_it_cannot_be_moved(self, tmp_path: Path, seq: int) -> None:
        ledger = await self.archived(tmp_path)
        await ledger.database.execute("UPDATE audit_state SET base_seq = ?", (seq,))
        assert ProblemKind.BASE_UNPROVEN in kinds(await ledger.log.examine())
        await ledger.database.close()

    async def test_a_permission_by_another_key(self, tmp_path: Path) -> None:
        ledger = await self.archived(tmp_path)
        row = await ledger.database.fetch_one("SELECT base_seq, base_hash FROM audit_state")
        assert row is not None
        forged = base_statement(ChainPosition(*row), at="x", archive_sha256="x", signer=make_keys())
        await ledger.database.execute(
            "UPDATE audit_state SET base_proof = ?", (forged.to_bytes().decode(),)
        )
        report = await ledger.log.examine()
        sentence = (
            "The log starts at entry 8; the permission for that is not signed by a key that is "
            f"trusted here, it names {forged.key_id}."
        )
        assert [(p.kind, p.seq, p.sentence) for p in report.problems] == [
            (ProblemKind.BASE_UNPROVEN, 0, sentence)
        ]
        await ledger.database.close()

    async def test_a_checkpoint_is_no_permission(self, tmp_path: Path) -> None:
        ledger = await self.archived(tmp_path)
        ((body, key_id, signature),) = await ledger.database.fetch_all(
            "SELECT body, key_id, signature FROM audit_checkpoints WHERE seq = 8"
        )
        proof = SignedStatement(body, key_id, signature).to_bytes().decode()
        await ledger.database.execute("UPDATE audit_state SET base_proof = ?", (proof,))
        assert ProblemKind.BASE_UNPROVEN in kinds(await ledger.log.examine())
        await ledger.database.close()

    async def test_its_checkpoint_belongs_to_it(self, tmp_path: Path) -> None:
        ledger = await self.archived(tmp_path)
        await ledger.database.execute("DELETE FROM audit_checkpoints WHERE seq = 8")
        assert ProblemKind.CHECKPOINT_MISSING in kinds(await ledger.log.examine())
        await ledger.database.close()

    async def test_entries_put_back_before_it(self, tmp_path: Path) -> None:
        ledger = await self.archived(tmp_path)
        await ledger.database.execute("INSERT INTO audit_log VALUES (3, 'x', 'y')")
        report = await ledger.log.examine()
        assert [(p.kind, p.seq) for p in report.problems] == [(ProblemKind.INSERTED, 3)]
        await ledger.database.close()

    async def test_an_export_carries_its_proof(self, tmp_path: Path) -> None:
        ledger = await self.archived(tmp_path)
        report = await ledger.log.export_file(tmp_path / "rest")
        assert (report.ok, report.start_seq) == (True, 8)
        assert examine_file(tmp_path / "rest", verifier=ledger.keys).ok
        assert not examine_file(tmp_path / "rest", verifier=make_keys()).ok
        await ledger.database.close()
