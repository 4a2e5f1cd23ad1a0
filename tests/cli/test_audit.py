"""`silas audit` as a person and as a script use it."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest

from silas.approval import KeyManager
from silas.cli.commands import moment
from silas.kernel import SystemClock
from silas.testing import MemoryVault
from tests.cli.machine import Machine, failure_of, output_of

BROKEN = 50


def tamper(machine: Machine, sql: str, *params: object) -> None:
    with apsw.Connection(str(machine.data_dir / "silas.db")) as connection:
        connection.execute(sql, params)
    connection.close()


def foreign_key() -> str:
    return KeyManager(MemoryVault(), clock=SystemClock()).generate_keypair()


class TestTail:
    def test_what_happened(self, owner: Machine) -> None:
        shown = output_of(owner.run("audit", "tail"))
        assert "initialised" in shown
        assert "key_id=key_" in shown
        now = datetime.now(UTC)  # and midnight may have been a moment ago
        assert any(f"{day:%Y-%m-%d}" in shown for day in (now, now - timedelta(minutes=5)))

    def test_as_json_lines(self, owner: Machine) -> None:
        output_of(owner.run("keys", "rotate", "--yes"))
        lines = output_of(owner.run("audit", "tail", "--json")).splitlines()
        entries = [json.loads(line) for line in lines]
        assert [entry["seq"] for entry in entries] == list(range(1, len(entries) + 1))
        assert entries[-1]["event"] == "key_rotated"

    def test_the_last_ones_and_some_events(self, owner: Machine) -> None:
        output_of(owner.run("keys", "rotate", "--yes"))
        assert len(output_of(owner.run("audit", "tail", "-n", "1")).splitlines()) == 1
        shown = output_of(owner.run("audit", "tail", "--event", "key_*"))
        assert [line.split()[2] for line in shown.splitlines()] == [
            "key_rotation_started",
            "key_rotated",
        ]

    @pytest.mark.parametrize(("since", "count"), [("1h", 1), ("2099-01-01", 0)])
    def test_since(self, owner: Machine, since: str, count: int) -> None:
        shown = output_of(owner.run("audit", "tail", "--since", since))
        assert len(shown.splitlines()) == count

    def test_a_time_that_is_none(self, owner: Machine) -> None:
        code, said = failure_of(owner.run("audit", "tail", "--since", "tomorrowish"))
        assert code == 2
        assert "is not a time" in said

    def test_nothing_in_an_entry_is_obeyed_by_the_terminal(self, owner: Machine) -> None:
        tamper(
            owner,
            "UPDATE audit_log SET body = replace(body, 'initialised', ?)",
            "a\\u001b[2J\\nb",
        )
        shown = output_of(owner.run("audit", "tail"))
        assert "\x1b" not in shown
        assert len(shown.splitlines()) == 1
        assert r"a\x1b[2J\nb" in shown

    def test_long_data_is_cut(self, owner: Machine) -> None:
        tamper(
            owner, "UPDATE audit_log SET body = replace(body, '\"data\":{', ?)",
            '"data":{"aaa":"' + "x" * 5000 + '",',
        )  # fmt: skip
        (line,) = output_of(owner.run("audit", "tail")).splitlines()
        assert len(line) < 250
        assert line.endswith("…")

    def test_an_entry_that_cannot_be_read(self, owner: Machine) -> None:
        tamper(owner, "UPDATE audit_log SET body = 'x'")
        shown = output_of(owner.run("audit", "tail"))
        assert "entry 1 cannot be read: run `silas audit verify`" in shown

    def test_without_a_silas(self, tmp_path: Path) -> None:
        code, said = failure_of(Machine(tmp_path).run("--data-dir", str(tmp_path), "audit", "tail"))
        assert code == 10
        assert "silas init" in said

    def test_following(self, owner: Machine) -> None:
        follow = ("audit", "tail", "--follow", "--json", "--event", "key_rotat*")
        with owner.start(*follow) as following:
            output_of(owner.run("keys", "rotate", "--yes"))
            seen = [json.loads(following.stdout.readline())["event"] for _ in range(2)]
        assert seen == ["key_rotation_started", "key_rotated"]


class TestVerify:
    def test_a_whole_log(self, owner: Machine) -> None:
        shown = output_of(owner.run("audit", "verify"))
        assert "The audit log is as it was written." in shown
        assert "1 checkpoint, by key_" in shown
        assert "not examined" not in shown

    def test_the_short_form_claims_only_what_it_examined(self, owner: Machine) -> None:
        shown = output_of(owner.run("audit", "verify", "--since-checkpoint"))
        assert "The audit log is as it was written." not in shown
        assert "The audit log, from entry 2 on, is as it was written." in shown
        assert "What is before entry 2 was not examined." in shown

    def test_in_json(self, owner: Machine) -> None:
        found = json.loads(output_of(owner.run("audit", "verify", "--json")))
        assert found["ok"] is True
        (report,) = found["reports"]
        assert (report["entries"], report["signatures"]) == (1, "checked")

    def test_a_changed_entry_is_named(self, owner: Machine) -> None:
        tamper(owner, "UPDATE audit_log SET body = replace(body, 'initialised', 'x')")
        run = owner.run("audit", "verify")
        assert run.returncode == BROKEN
        assert "The audit log is NOT as it was written." in run.stdout.decode()
        assert "problem  The content of entry 1 was changed." in run.stdout.decode()

    def test_in_json_with_the_same_exit_code(self, owner: Machine) -> None:
        tamper(owner, "DELETE FROM audit_log")
        run = owner.run("audit", "verify", "--json")
        assert run.returncode == BROKEN
        (report,) = json.loads(run.stdout)["reports"]
        assert {problem["kind"] for problem in report["problems"]} == {"truncated"}

    def test_names_that_somebody_made_up_are_not_obeyed(self, owner: Machine) -> None:
        tamper(owner, "UPDATE audit_checkpoints SET checkpoint_id = ?", "\x1b[31mfine")
        run = owner.run("audit", "verify")
        assert run.returncode == BROKEN
        assert b"\x1b" not in run.stdout

    def test_the_owners_public_key(self, owner: Machine) -> None:
        key = str(owner.data_dir / "owner.pub")
        assert output_of(owner.run("audit", "verify", "--public-key", key))

    def test_a_foreign_public_key(self, owner: Machine) -> None:
        run = owner.run("audit", "verify", "--public-key", foreign_key())
        assert run.returncode == BROKEN
        shown = run.stdout.decode()
        assert "The audit log is not vouched for by the key that you gave." in shown
        assert "is not the key that you gave (key_" in shown

    def test_a_witness_that_was_kept_elsewhere(self, owner: Machine) -> None:
        """It shows that the log, its own witness included, is an older copy."""
        folder = owner.data_dir.parent
        names = ("silas.db", "audit.checkpoint")
        older = {name: (owner.data_dir / name).read_bytes() for name in names}
        output_of(owner.run("audit", "export", str(folder / "older.jsonl")))
        output_of(owner.run("keys", "rotate", "--yes"))
        kept = folder / "kept"
        kept.write_bytes((owner.data_dir / "audit.checkpoint").read_bytes())
        for name, content in older.items():
            (owner.data_dir / name).write_bytes(content)
        output_of(owner.run("audit", "verify"))
        for source in ([], ["--file", str(folder / "older.jsonl")]):
            run = owner.run("audit", "verify", *source, "--witness", str(kept))
            assert run.returncode == BROKEN
            assert "an older copy of the log was put in its place" in run.stdout.decode()

    def test_what_is_no_key(self, owner: Machine) -> None:
        code, said = failure_of(owner.run("audit", "verify", "--public-key", "abc"))
        assert code == 40
        assert "neither a file here nor a public key" in said

    def test_entries_that_no_checkpoint_vouches_for_yet(self, owner: Machine) -> None:
        output_of(owner.run("secrets", "set", "x", stdin="value\n"))
        shown = output_of(owner.run("audit", "verify"))
        assert "No checkpoint vouches for the last" in shown


class TestFiles:
    def exported(self, owner: Machine) -> Path:
        file = owner.data_dir.parent / "log.jsonl"
        shown = output_of(owner.run("audit", "export", str(file)))
        assert "and verified it" in shown
        return file

    def test_on_another_machine(self, owner: Machine, tmp_path: Path) -> None:
        file = self.exported(owner)
        key = (owner.data_dir / "owner.pub").read_text().splitlines()[1].split()[0]
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        other = Machine(elsewhere, {"PATH": owner.environ["PATH"], "HOME": str(elsewhere)})
        command = ("audit", "verify", "--file", str(file))
        shown = output_of(other.run(*command, "--public-key", key))
        assert f"{file} is as it was written." in shown
        assert "1 checkpoint, by key_" in shown
        assert list(elsewhere.iterdir()) == []

        without_key = output_of(other.run(*command))
        assert "because no public key is at hand" in without_key

        foreign = other.run(*command, "--public-key", foreign_key())
        assert foreign.returncode == BROKEN
        assert "is not vouched for by the key that you gave" in foreign.stdout.decode()

    def test_a_changed_file(self, owner: Machine) -> None:
        file = self.exported(owner)
        file.write_bytes(file.read_bytes().replace(b"initialised", b"initialized"))
        run = owner.run("audit", "verify", "--file", str(file))
        assert run.returncode == BROKEN
        assert "The content of entry 1 was changed." in run.stdout.decode()

    def test_what_is_no_export(self, owner: Machine) -> None:
        code, said = failure_of(owner.run("audit", "verify", "--file", "silas.db"))
        assert code == 50
        assert "silas audit export" in said

    def test_to_the_standard_output(self, owner: Machine) -> None:
        lines = output_of(owner.run("audit", "export", "-")).splitlines()
        assert json.loads(lines[0])["format"] == "silas-audit-export-v1"
        assert json.loads(lines[1])["entry"]["event"] == "initialised"

    def test_nothing_is_overwritten_by_accident(self, owner: Machine) -> None:
        file = self.exported(owner)
        code, said = failure_of(owner.run("audit", "export", str(file)))
        assert code == 50
        assert "--force" in said
        output_of(owner.run("audit", "export", str(file), "--force", "--json"))

    def test_the_export_of_a_broken_log_is_evidence(self, owner: Machine) -> None:
        tamper(owner, "UPDATE audit_log SET body = 'x'")
        file = owner.data_dir.parent / "evidence"
        code, said = failure_of(owner.run("audit", "export", str(file)))
        assert code == BROKEN
        assert "The content of entry 1 was changed." in said
        assert file.exists()


class TestArchive:
    def test_archive_and_rest_fit_together(self, owner: Machine) -> None:
        folder = owner.data_dir.parent
        old, rest = folder / "old.jsonl", folder / "rest.jsonl"
        shown = output_of(owner.run("audit", "archive", str(old), "--before", "0s", "--yes"))
        assert "Moved entries 1 to 1" in shown
        output_of(owner.run("audit", "verify"))
        output_of(owner.run("audit", "export", str(rest)))
        key = str(owner.data_dir / "owner.pub")
        both = ("--file", str(old), "--file", str(rest), "--public-key", key)
        output_of(owner.run("audit", "verify", *both))

        swapped = owner.run("audit", "verify", "--file", str(rest), "--file", str(old))
        assert swapped.returncode == BROKEN
        assert "does not begin where" in swapped.stdout.decode()

    def test_somebody_must_agree(self, owner: Machine) -> None:
        run = owner.run("audit", "archive", "x", "--before", "0s")
        assert run.returncode == 2
        assert "--yes" in run.stderr.decode()

    def test_nothing_is_that_old(self, owner: Machine) -> None:
        code, said = failure_of(owner.run("audit", "archive", "x", "--before", "1d", "--yes"))
        assert code == 50
        assert "Choose a later date" in said

    def test_in_json(self, owner: Machine) -> None:
        run = owner.run("audit", "archive", "old", "--before", "0s", "--yes", "--json")
        found = json.loads(output_of(run))
        assert (found["first_seq"], found["last_seq"]) == (1, 1)


class TestHelp:
    @pytest.mark.parametrize("command", ["tail", "verify", "export", "archive"])
    def test_every_command_explains_itself(self, machine: Machine, command: str) -> None:
        assert command in output_of(machine.run("audit", "--help"))
        assert "--json" in output_of(machine.run("audit", command, "--help"))


class TestMoments:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("2026-03-01", datetime(2026, 3, 1, tzinfo=UTC)),
            (" 2026-03-01T08:30 ", datetime(2026, 3, 1, 8, 30, tzinfo=UTC)),
            ("2026-03-01T08:30+02:00", datetime(2026, 3, 1, 6, 30, tzinfo=UTC)),
        ],
    )
    def test_dates(self, text: str, expected: datetime) -> None:
        assert moment(text) == expected

    @pytest.mark.parametrize(
        ("text", "ago"),
        [
            ("90s", timedelta(seconds=90)),
            ("5m", timedelta(minutes=5)),
            ("36h", timedelta(hours=36)),
            ("7 d", timedelta(days=7)),
            ("2w", timedelta(weeks=2)),
        ],
    )
    def test_ago(self, text: str, ago: timedelta) -> None:
        assert abs(datetime.now(UTC) - ago - moment(text)) < timedelta(minutes=1)

    @pytest.mark.parametrize("text", ["", "x", "7", "d7", "999999w", "2026-13-01", "1.5h"])
    def test_what_is_no_time(self, text: str) -> None:
        with pytest.raises(Exception, match="is not a time"):
            moment(text)
