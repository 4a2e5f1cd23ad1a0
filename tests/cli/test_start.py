"""`silas start`, `status` and `stop`, as real processes."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from tests.cli.machine import SILAS, Machine, Running, failure_of, output_of


@contextmanager
def running(machine: Machine, *options: str) -> Iterator[Running]:
    """A server that has said that it is up."""
    with machine.start("start", *options) as server:
        first = server.stdout.readline()
        assert first, server.stderr.read()
        yield server


def status_of(machine: Machine) -> dict[str, object]:
    answer: dict[str, object] = json.loads(output_of(machine.run("status", "--json")))
    return answer


def test_start_status_stop(owner: Machine) -> None:
    with running(owner) as server:
        found = status_of(owner)
        assert found["running"] is True
        assert found["holder"]["pid"] == server.pid  # type: ignore[index]
        assert found["server"]["pid"] == server.pid  # type: ignore[index]
        assert found["server"]["schema"] == found["schema"]  # type: ignore[index]
        assert str(found["schema"])[:3].isdigit()
        said = output_of(owner.run("status"))
        assert f"Silas is running (process {server.pid}, since " in said
        assert output_of(owner.run("stop")) == "Silas has stopped.\n"
        assert server.wait() == 0
        assert server.stderr.read() == ""
    assert not (owner.data_dir / "silas.sock").exists()
    assert status_of(owner)["running"] is False


def test_only_one_at_a_time(owner: Machine) -> None:
    with running(owner) as server:
        code, said = failure_of(owner.run("start"))
        assert code == 20
        assert "E_DB_LOCKED" in said
        assert f"process {server.pid}, `silas start`, since 20" in said
        assert status_of(owner)["server"] is not None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_in_an_orderly_way(owner: Machine, number: signal.Signals) -> None:
    with running(owner) as server:
        os.kill(server.pid, number)
        assert server.wait() == 0
        assert server.stderr.read() == ""
    assert not (owner.data_dir / "silas.sock").exists()
    assert (owner.data_dir / "silas.lock").read_bytes() == b""
    assert not (owner.data_dir / "silas.db-wal").exists()


def test_after_a_crash_it_starts_again(owner: Machine) -> None:
    with running(owner) as server:
        os.kill(server.pid, signal.SIGKILL)
        server.wait()
    assert (owner.data_dir / "silas.sock").exists()
    assert status_of(owner)["running"] is False
    assert failure_of(owner.run("stop"))[0] == 210
    with running(owner):
        assert status_of(owner)["running"] is True


def test_a_server_that_does_not_answer_can_be_ended(owner: Machine) -> None:
    with running(owner) as server:
        os.kill(server.pid, signal.SIGSTOP)
        (owner.data_dir / "silas.sock").unlink()
        assert f"Silas does not answer (process {server.pid}" in output_of(owner.run("status"))
        assert failure_of(owner.run("stop"))[0] == 210
        assert output_of(owner.run("stop", "--kill")) == "Silas has stopped.\n"
        assert server.wait() == -signal.SIGKILL


def test_it_answers_in_json(owner: Machine) -> None:
    with running(owner, "--json") as server:
        owner.run("stop")
        answer = json.loads("{" + server.stdout.read())
        assert answer["pid"] == server.pid
        assert server.wait() == 0


def test_housekeeping_runs(owner: Machine) -> None:
    database = apsw.Connection(str(owner.data_dir / "silas.db"))
    database.execute("INSERT INTO nonces VALUES ('msg:old', '2020-01-01T00:00:00.000000Z')")
    database.execute("INSERT INTO nonces VALUES ('msg:new', '2999-01-01T00:00:00.000000Z')")
    with running(owner):
        jobs: list[dict[str, object]] = []
        while not all(job["ran_at"] for job in jobs) or not jobs:
            jobs = status_of(owner)["server"]["housekeeping"]  # type: ignore[index]
    assert {"prune nonces", "checkpoint the audit log"} <= {job["name"] for job in jobs}
    assert [job["problem"] for job in jobs] == [None] * len(jobs)
    assert database.execute("SELECT nonce_key FROM nonces").fetchall() == [("msg:new",)]
    database.close()


def test_where_there_is_no_silas(machine: Machine) -> None:
    (machine.data_dir / "silas.db").unlink()
    before = sorted(path.name for path in machine.data_dir.iterdir())
    code, said = failure_of(machine.run("start"))
    assert (code, "silas init" in said) == (10, True)
    assert "There is no Silas in it yet" in output_of(machine.run("status"))
    assert sorted(path.name for path in machine.data_dir.iterdir()) == before
    nowhere = str(machine.data_dir / "nowhere")
    assert failure_of(machine.run("--data-dir", nowhere, "start"))[0] == 10
    assert failure_of(machine.run("--data-dir", nowhere, "stop"))[0] == 210
    assert "Silas is not running" in output_of(machine.run("--data-dir", nowhere, "status"))
    assert not Path(nowhere).exists()


def test_data_from_the_future_is_not_touched(owner: Machine) -> None:
    database = apsw.Connection(str(owner.data_dir / "silas.db"))
    database.execute("INSERT INTO applied_migrations VALUES ('999_future', 'x', 'y')")
    database.close()
    code, said = failure_of(owner.run("start"))
    assert (code, "999_future" in said) == (20, True)
    assert status_of(owner)["schema"] == "999_future"


def test_without_a_server_status_looks_at_the_files(owner: Machine) -> None:
    found = status_of(owner)
    assert (found["running"], found["holder"], found["server"]) == (False, None, None)
    assert found["sizes"]["silas.db"] == (owner.data_dir / "silas.db").stat().st_size  # type: ignore[index]
    said = output_of(owner.run("status"))
    assert said.startswith("Silas is not running.\n")
    assert f"Data:    {owner.data_dir}" in said


def test_status_finds_the_directory_through_the_configuration(
    owner: Machine, tmp_path: Path
) -> None:
    config = tmp_path / "other.yaml"
    config.write_text(f"silas:\n  data_dir: {owner.data_dir}\n")
    del owner.environ["SILAS_DATA_DIR"]
    found = json.loads(output_of(owner.run("--config", str(config), "status", "--json")))
    assert found["data_dir"] == str(owner.data_dir)


def test_a_long_way_to_the_data(owner: Machine, tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120)
    owner.data_dir.rename(deep)
    moved = Machine(deep, {**owner.environ, "SILAS_DATA_DIR": str(deep)})
    with running(moved) as server:
        assert status_of(moved)["server"]["pid"] == server.pid  # type: ignore[index]
        assert output_of(moved.run("stop")) == "Silas has stopped.\n"


@pytest.mark.parametrize("command", [["status"], ["audit", "tail"]])
def test_what_only_looks_loads_nothing_heavy(owner: Machine, command: list[str]) -> None:
    look = (
        "import sys\nfrom silas.cli.main import cli\n"
        f"cli.main({command}, standalone_mode=False)\n"
        "print([name for name in ('pydantic', 'cryptography', 'yaml') if name in sys.modules])"
    )
    run = subprocess.run(
        [SILAS[0], "-c", look], env=owner.environ, capture_output=True, text=True, check=True
    )
    assert run.stdout.endswith("[]\n")


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_a_server_that_was_given_the_passphrase_by_a_variable_does_not_keep_it(
    owner: Machine,
) -> None:
    command = [*SILAS, "start", "--no-open", "--json"]
    with subprocess.Popen(
        command, env=owner.environ, cwd=owner.data_dir, stdout=subprocess.PIPE
    ) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == b"{\n", "it does not run"
            shown = Path(f"/proc/{server.pid}/environ").read_bytes()
            limits = Path(f"/proc/{server.pid}/limits").read_text()
        finally:
            server.terminate()
            server.stdout.read()
    assert owner.environ["SILAS_VAULT_PASSPHRASE"].encode() not in shown
    [core] = [line.split()[4:6] for line in limits.splitlines() if "core file" in line]
    assert core == ["0", "0"]
    assert server.returncode == 0


def test_a_silas_whose_vault_is_locked_does_not_say_that_it_runs(owner: Machine) -> None:
    environ = {k: v for k, v in owner.environ.items() if not k.startswith("SILAS_VAULT")}
    locked = Machine(owner.data_dir, environ)
    with running(locked) as server:
        said = "".join(server.stdout.readline() for _ in range(3))
        assert "Type the passphrase in the page, within ten minutes: http://127.0.0.1:" in said
        assert "silas unlock" in said
        assert "Silas is locked (process" in output_of(locked.run("status"))
        for command in (["chat"], ["ask", "hello"]):
            code, complaint = failure_of(locked.run(*command))
            assert code != 0
            assert "Traceback" not in complaint
        assert "127.0.0.1" in output_of(locked.run("devices", "pair"))
        wrong = Machine(owner.data_dir, {**environ, "SILAS_VAULT_PASSPHRASE": "wrong wrong"})
        assert "not the passphrase" in failure_of(wrong.run("unlock"))[1]
        assert "Nobody can be asked here" in failure_of(locked.run("unlock"))[1]
        assert "Silas is starting" in output_of(owner.run("unlock"))
        assert server.stdout.readline() == f"Silas is running (process {server.pid}).\n"
        assert "Silas is running" in output_of(owner.run("status"))
        assert "is not locked" in output_of(owner.run("unlock"))
        assert output_of(owner.run("stop")) == "Silas has stopped.\n"
        assert server.wait() == 0
        assert "Traceback" not in server.stderr.read()


def test_a_locked_silas_can_be_stopped(owner: Machine) -> None:
    environ = {k: v for k, v in owner.environ.items() if not k.startswith("SILAS_VAULT")}
    locked = Machine(owner.data_dir, environ)
    with running(locked) as server:
        assert output_of(locked.run("stop")) == "Silas has stopped.\n"
        assert server.wait() == 0
        assert "is running" not in server.stdout.read()
        assert server.stderr.read() == ""
    code, said = failure_of(locked.run("unlock"))
    assert (code, "No Silas is running" in said) == (210, True)


def test_how_silas_speaks_is_shown_and_changed(owner: Machine) -> None:
    with running(owner):
        shown = json.loads(output_of(owner.run("persona", "show", "--json")))
        assert shown["preset"] == "default"
        assert {"work", "chill"} <= {*shown["presets"]}
        assert "From now on: chill." in output_of(owner.run("persona", "preset", "chill"))
        assert "a little playful" in output_of(owner.run("persona", "show"))
        assert "shorter answers" in output_of(owner.run("persona", "feedback", "too_wordy"))
        assert "until Silas is started" in output_of(owner.run("persona", "tune", "warmth", "0.1"))
        code, said = failure_of(owner.run("persona", "preset", "nobody"))
        assert code != 0
        assert "There is no preset 'nobody'. There are: " in said
