"""`silas init`: everything that is needed, once."""

import json
import subprocess
import threading
from pathlib import Path

import pytest

from silas.approval import PublicKeys
from silas.kernel.program import own_program
from tests.cli.machine import SILAS, Machine, output_of


def bare(machine: Machine) -> Machine:
    """The machine before anything was set up."""
    for path in machine.data_dir.iterdir():
        path.unlink()
    machine.data_dir.rmdir()
    return Machine(machine.data_dir, machine.environ)


def run_init(machine: Machine, *arguments: str) -> dict[str, object]:
    machine.data_dir.parent.mkdir(exist_ok=True)
    Path(machine.environ["HOME"]).mkdir(exist_ok=True)
    answer = machine.run("init", "--json", *arguments, cwd=machine.data_dir.parent)
    return json.loads(output_of(answer))


def test_it_makes_everything_and_only_the_owner_may_read_it(machine: Machine) -> None:
    fresh = bare(machine)
    report = run_init(fresh, "--yes")
    assert all(step["made"] for step in report["steps"])
    names = {path.name for path in fresh.data_dir.rglob("*")}
    assert {"silas.db", "vault.json", "owner.pub", "silas.yaml", "verify"} <= names
    for path in [fresh.data_dir, *fresh.data_dir.rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path


def test_the_owner_lives_in_the_time_zone_of_his_machine(machine: Machine) -> None:
    fresh = bare(machine)
    fresh.environ["TZ"] = "Asia/Tokyo"
    run_init(fresh, "--yes")
    shown = json.loads(output_of(fresh.run("config", "show", "--json")))
    assert "Asia/Tokyo" in json.dumps(shown)
    assert 'timezone: "Asia/Tokyo"' in (fresh.data_dir / "silas.yaml").read_text()


def test_what_comes_next_is_said(machine: Machine) -> None:
    fresh = bare(machine)
    fresh.data_dir.parent.mkdir(exist_ok=True)
    said = fresh.run("init", "--yes", cwd=fresh.data_dir.parent)
    assert "Next: `silas start` prints a link" in output_of(said)


def test_a_second_run_changes_nothing(owner: Machine) -> None:
    before = {path: path.read_bytes() for path in owner.data_dir.rglob("*.*") if path.is_file()}
    first = owner.run("init", "--json", "--yes")
    report = json.loads(output_of(first))
    assert not any(step["made"] for step in report["steps"])
    after = {path: path.read_bytes() for path in before if not path.name.startswith("silas.db")}
    assert all(before[path] == content for path, content in after.items())


def test_the_private_key_is_nowhere_in_the_open(owner: Machine) -> None:
    words = output_of(owner.run("init", "--yes")) + output_of(owner.run("keys", "show"))
    assert "seed" not in words
    for path in owner.data_dir.rglob("*"):
        if path.is_file():
            assert b'"seed"' not in path.read_bytes()


def test_owner_pub_names_the_key(owner: Machine) -> None:
    keys = PublicKeys.from_text((owner.data_dir / "owner.pub").read_text())
    assert keys.keys[0].hex in output_of(owner.run("init"))


def test_an_empty_directory_that_was_left_open_is_closed(machine: Machine) -> None:
    fresh = bare(machine)
    fresh.data_dir.mkdir(mode=0o755)
    run_init(fresh, "--yes")
    assert fresh.data_dir.stat().st_mode & 0o077 == 0


def test_without_a_terminal_and_a_passphrase_a_key_file_is_made(machine: Machine) -> None:
    fresh = bare(machine)
    del fresh.environ["SILAS_VAULT_PASSPHRASE"]
    report = run_init(fresh)
    assert "key file" in report["vault"]["unlocked_by"]
    key_files = list(Path(fresh.environ["HOME"]).rglob("*.key"))
    assert len(key_files) == 1
    assert key_files[0].stat().st_mode & 0o077 == 0
    assert fresh.data_dir not in key_files[0].parents


def test_the_config_can_be_named_alone_afterwards(machine: Machine) -> None:
    fresh = bare(machine)
    run_init(fresh, "--yes")
    config = fresh.data_dir / "silas.yaml"
    del fresh.environ["SILAS_DATA_DIR"]
    shown = fresh.run("--config", str(config), "keys", "show", cwd=fresh.data_dir.parent)
    assert "active" in output_of(shown)


@pytest.mark.parametrize("by_variable", [True, False])
def test_it_makes_the_configuration_that_is_named(machine: Machine, by_variable: bool) -> None:
    fresh = bare(machine)
    del fresh.environ["SILAS_DATA_DIR"]
    place = fresh.data_dir.parent / "elsewhere"
    place.mkdir()
    named: tuple[str, ...] = ("--config", "own/mine.yaml")
    if by_variable:
        fresh.environ["SILAS_CONFIG"], named = "own/mine.yaml", ()
    doctor = fresh.run(*named, "doctor", cwd=place)
    assert doctor.returncode == 1
    assert b"to mend it: silas --config own/mine.yaml init" in doctor.stdout
    output_of(fresh.run(*named, "init", "--yes", cwd=place))
    assert (place / "own" / "mine.yaml").exists()
    shown = json.loads(output_of(fresh.run(*named, "config", "show", "--json", cwd=place)))
    assert shown["data_dir"] == str(place / "own" / "data")
    assert (place / "own" / "data" / "silas.db").exists(), "where the made file says"


def test_it_is_recorded_and_signed(owner: Machine) -> None:
    tail = output_of(owner.run("audit", "tail", "--json"))
    assert "initialised" in tail
    verified = json.loads(output_of(owner.run("audit", "verify", "--json")))
    assert verified["ok"] is True


def test_on_a_terminal_it_explains_and_asks_for_a_passphrase(machine: Machine) -> None:
    fresh = bare(machine)
    del fresh.environ["SILAS_VAULT_PASSPHRASE"]
    fresh.data_dir.mkdir(mode=0o700)
    Path(fresh.environ["HOME"]).mkdir(exist_ok=True)
    phrase = "correct horse battery"
    code, shown = fresh.type(
        "init",
        answers=[
            ("(at least 8 characters): ", "123"),  # the rule stands in the question
            ("(at least 8 characters): ", phrase),
            ("Repeat for confirmation: ", phrase),
        ],
    )
    assert code == 0, shown
    assert "Choose a longer one" in shown
    assert "What opens your vault: your passphrase." in shown
    assert phrase not in shown


def _before_silas_is_set_up(machine: Machine) -> Machine:
    fresh = bare(machine)
    del fresh.environ["SILAS_VAULT_PASSPHRASE"]
    fresh.data_dir.mkdir(mode=0o700)
    Path(fresh.environ["HOME"]).mkdir(exist_ok=True)
    return fresh


def _fails(command: list[str], machine: Machine) -> bool:
    place = machine.data_dir
    run = subprocess.run(command, env=machine.environ, cwd=place, capture_output=True, check=False)
    return run.returncode != 0


def _started_and_stopped(machine: Machine, answers: list[tuple[str, str]]) -> tuple[int, str]:
    """`silas start --init` on a terminal, stopped from another one as soon as it can be."""
    over, command = threading.Event(), [*SILAS, "stop"]

    def stop() -> None:
        while not over.is_set() and _fails(command, machine):
            over.wait(0.2)

    stopping = threading.Thread(target=stop)
    stopping.start()
    try:
        return machine.type("start", "--init", "--no-open", answers=answers)
    finally:
        over.set()
        stopping.join()


def test_the_first_start_sets_up_and_asks_for_the_passphrase_once(machine: Machine) -> None:
    fresh = _before_silas_is_set_up(machine)
    phrase = "correct horse battery"
    code, shown = _started_and_stopped(fresh, [("New passphrase", phrase), ("Repeat", phrase)])
    assert code == 0, shown
    assert "Silas is set up." in shown
    assert "Next:" not in shown
    assert "Passphrase of" not in shown
    code, shown = _started_and_stopped(fresh, [("Passphrase of", phrase)])
    assert code == 0, shown
    assert shown.count("Passphrase of") == 1
    assert "Silas is set up" not in shown


class TestTheProgramOnThePath:
    def test_a_link_is_made_only_after_a_yes(self, machine: Machine) -> None:
        fresh = _before_silas_is_set_up(machine)
        fresh.environ["SILAS_VAULT_PASSPHRASE"] = "correct horse battery"
        place = Path(fresh.environ["HOME"]) / ".local" / "bin"
        place.mkdir(parents=True)
        fresh.environ["PATH"] = f"{place}:/usr/bin:/bin"
        _, shown = fresh.type("init", answers=[("so that you can type it anywhere?", "n")])
        assert not (place / "silas").exists()
        assert "wherever the documents say `silas`" in shown
        _, shown = fresh.type("init", answers=[("so that you can type it anywhere?", "y")])
        assert (place / "silas").resolve() == own_program().resolve()
        assert "can be typed anywhere" in shown
        code, shown = fresh.type("init", answers=[])
        assert code == 0
        assert "so that you can type it anywhere?" not in shown
        assert "wherever the documents say" not in shown

    def test_what_is_there_is_never_replaced(self, machine: Machine) -> None:
        fresh = _before_silas_is_set_up(machine)
        fresh.environ["SILAS_VAULT_PASSPHRASE"] = "correct horse battery"
        place = Path(fresh.environ["HOME"]) / ".local" / "bin"
        place.mkdir(parents=True)
        (place / "silas").write_text("another program")
        fresh.environ["PATH"] = f"{place}:/usr/bin:/bin"
        code, shown = fresh.type("init", answers=[])
        assert code == 0
        assert (place / "silas").read_text() == "another program"
        assert "wherever the documents say `silas`" in shown
