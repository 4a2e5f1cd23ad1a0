"""`silas secrets`, as people and scripts use it: a real process, a pipe or a terminal."""

import json
from pathlib import Path

import pytest

from silas.secrets import open_vault
from tests.cli.machine import Machine, failure_of, output_of
from tests.secrets.files import PASSPHRASE, reopen

VALUE = "sk-live-the-value-itself"


def test_a_value_from_a_pipe_is_stored_and_never_shown(machine: Machine) -> None:
    assert output_of(machine.run("secrets", "set", "mail", stdin=VALUE + "\n")) == "Stored mail.\n"
    assert reopen(machine.vault).get("mail") == VALUE.encode()
    again = machine.run("secrets", "set", "mail", "--stdin", "--json", stdin="other")
    assert json.loads(output_of(again)) == {"name": "mail", "stored": True, "replaced": True}
    assert reopen(machine.vault).get("mail") == b"other"


@pytest.mark.parametrize(
    ("given", "stored"), [(b"a\n\n", b"a\n"), (b"a\r\n", b"a\r"), (b"\xff\x00", b"\xff\x00")]
)
def test_only_one_newline_is_left_out(machine: Machine, given: bytes, stored: bytes) -> None:
    output_of(machine.run("secrets", "set", "a", stdin=given))
    assert reopen(machine.vault).get("a") == stored


def test_a_value_is_never_an_argument(machine: Machine) -> None:
    run = machine.run("secrets", "set", "mail", VALUE)
    assert run.returncode == 2
    assert reopen(machine.vault).list() == []


def test_names_are_listed_and_nothing_else(machine: Machine) -> None:
    assert "no secrets yet" in output_of(machine.run("secrets", "list"))
    vault = reopen(machine.vault)
    vault.set("mail", VALUE.encode())
    vault.set("silas/owner-keys", b"the owner's key")
    shown = output_of(machine.run("secrets", "list"))
    assert shown == "mail\nsilas/owner-keys  (internal)\n"
    assert json.loads(output_of(machine.run("secrets", "list", "--json"))) == {
        "secrets": [
            {"name": "mail", "internal": False},
            {"name": "silas/owner-keys", "internal": True},
        ]
    }


def test_a_secret_is_removed_only_when_that_was_meant(machine: Machine) -> None:
    reopen(machine.vault).set("mail", b"x")
    code, message = failure_of(machine.run("secrets", "rm", "mail", stdin="y\n"))
    assert (code, "--yes" in message) == (2, True)
    assert reopen(machine.vault).list() == ["mail"]
    removed = machine.run("secrets", "rm", "mail", "--yes", "--json")
    assert json.loads(output_of(removed)) == {"name": "mail", "removed": True}
    assert reopen(machine.vault).list() == []
    code, message = failure_of(machine.run("secrets", "rm", "mail", "--yes"))
    assert code == 30
    assert "E_SECRETS_UNKNOWN" in message


@pytest.mark.parametrize("name", ["silas/owner-keys", "SILAS/x", "silas/"])
def test_what_belongs_to_silas_is_not_changed_by_hand(machine: Machine, name: str) -> None:
    reopen(machine.vault).set("silas/owner-keys", b"the owner's key")
    for command in (["set", name], ["rm", name, "--yes"]):
        code, message = failure_of(machine.run("secrets", *command, stdin="x"))
        assert code == 30
        assert "belongs to Silas" in message
    assert reopen(machine.vault).get("silas/owner-keys") == b"the owner's key"


@pytest.mark.parametrize(
    ("name", "value"), [("a b", "x"), ("a\x1b[31m", "x"), ("a", ""), ("a", "x" * 70_000)]
)
def test_bad_names_and_values_are_refused(machine: Machine, name: str, value: str) -> None:
    code, message = failure_of(machine.run("secrets", "set", name, stdin=value))
    assert code == 30
    assert "\x1b" not in message
    assert reopen(machine.vault).list() == []


def test_each_trouble_has_its_own_exit_code(machine: Machine) -> None:
    reopen(machine.vault).set("a", b"x")
    stored = machine.vault.read_bytes()

    def exit_code(**environ: str) -> int:
        kept = {"SILAS_VAULT_PASSPHRASE": PASSPHRASE, **environ}
        run = Machine(machine.data_dir, machine.environ | kept).run("secrets", "list", "--json")
        error = json.loads(run.stdout)["error"]
        assert error["code"].startswith("E_SECRETS_")
        assert "Traceback" not in run.stderr.decode()
        return run.returncode

    assert exit_code(SILAS_VAULT_PASSPHRASE="wrong") == 30
    assert exit_code(SILAS_VAULT_PASSPHRASE="") == 30
    assert exit_code(SILAS_VAULT_PASSPHRASE="", SILAS_VAULT_KEY_FILE="/nonexistent") == 30
    machine.vault.write_bytes(stored[:-5])
    assert exit_code() == 30
    machine.vault.unlink()
    assert exit_code() == 30
    machine.vault.mkdir()
    assert exit_code() == 30


def test_the_passphrase_is_changed_from_a_pipe(machine: Machine) -> None:
    reopen(machine.vault).set("a", b"x")
    run = machine.run("secrets", "passphrase", "--stdin", stdin="a better passphrase\n")
    assert output_of(run) == "The vault now opens with passphrase.\n"
    assert machine.run("secrets", "list").returncode == 30
    machine.environ["SILAS_VAULT_PASSPHRASE"] = "a better passphrase"
    assert output_of(machine.run("secrets", "list")) == "a\n"
    code, message = failure_of(machine.run("secrets", "passphrase", stdin="short\n"))
    assert (code, "at least 8" in message) == (30, True)
    code, _ = failure_of(machine.run("secrets", "passphrase", stdin=b"\xff" * 20))
    assert code == 30
    assert output_of(machine.run("secrets", "list")) == "a\n"


def test_the_vault_is_given_a_key_file(machine: Machine, tmp_path: Path) -> None:
    reopen(machine.vault).set("a", b"x")
    key = tmp_path / "outside" / "my.key"
    run = machine.run("secrets", "passphrase", "--key-file", str(key), "--json")
    described = json.loads(output_of(run))["vault"]
    assert described["unlocked_by"] == f"key file {key}"
    assert str(key) in described["warnings"][0]
    assert key.stat().st_mode & 0o777 == 0o600
    assert open_vault(machine.vault, environ={}).get("a") == b"x"


def test_on_a_terminal_the_value_is_asked_for_twice_and_not_echoed(machine: Machine) -> None:
    answers = [("Value of mail: ", VALUE), ("Repeat for confirmation: ", VALUE)]
    code, shown = machine.type("secrets", "set", "mail", answers=answers)
    assert code == 0, shown
    assert "Stored mail." in shown
    assert VALUE not in shown
    assert reopen(machine.vault).get("mail") == VALUE.encode()


def test_on_a_terminal_a_slip_is_noticed(machine: Machine) -> None:
    answers = [
        ("Value of mail: ", VALUE),
        ("Repeat for confirmation: ", "something else"),
        ("Value of mail: ", VALUE),
        ("Repeat for confirmation: ", VALUE),
    ]
    code, shown = machine.type("secrets", "set", "mail", answers=answers)
    assert code == 0, shown
    assert "do not match" in shown


def test_on_a_terminal_the_passphrase_is_asked_for(machine: Machine) -> None:
    reopen(machine.vault).set("mail", b"x")
    del machine.environ["SILAS_VAULT_PASSPHRASE"]
    question = f"Passphrase of {machine.vault}: "
    answers = [(question, "wrong"), ("That was not it.", PASSPHRASE)]
    code, shown = machine.type("secrets", "list", answers=answers)
    assert code == 0, shown
    assert shown.rstrip().endswith("mail")
    assert PASSPHRASE not in shown
    code, shown = machine.type("secrets", "list", answers=[(question, "wrong")] * 3)
    assert code == 30
    assert "E_SECRETS_WRONG_KEY" in shown


def test_on_a_terminal_removal_is_confirmed(machine: Machine) -> None:
    reopen(machine.vault).set("mail", b"x")
    code, shown = machine.type("secrets", "rm", "mail", answers=[("for good? [y/N]: ", "n")])
    assert (code, "Stopped." in shown) == (130, True)
    assert reopen(machine.vault).list() == ["mail"]
    code, _ = machine.type("secrets", "rm", "mail", answers=[("for good? [y/N]: ", "y")])
    assert code == 0
    assert reopen(machine.vault).list() == []


def test_on_a_terminal_the_passphrase_is_changed(machine: Machine) -> None:
    answers = [("New passphrase: ", "a better one"), ("Repeat for confirmation: ", "a better one")]
    code, shown = machine.type("secrets", "passphrase", answers=answers)
    assert code == 0, shown
    assert reopen(machine.vault, "a better one").list() == []


def test_help_explains_itself(machine: Machine) -> None:
    shown = output_of(machine.run("secrets", "--help"))
    for command in ("set", "list", "rm", "passphrase"):
        assert f"  {command} " in shown


def test_a_value_is_printed_to_whoever_opens_the_vault(owner: Machine) -> None:
    output_of(owner.run("secrets", "set", "wifi-password", stdin=VALUE))
    assert output_of(owner.run("secrets", "show", "wifi-password")) == f"{VALUE}\n"
    code, message = failure_of(owner.run("secrets", "show", "silas/owner-keys"))
    assert "belongs to Silas itself" in message
    assert failure_of(owner.run("secrets", "show", "nothing"))[0] == code
    log = output_of(owner.run("audit", "tail", "--json"))
    assert "secret_shown" in log
    assert VALUE not in log
