"""`silas doctor`: the truth about this machine, line by line."""

import json
import socket

import pytest

from silas.app.instance import InstanceLock
from silas.kernel import SystemClock
from silas.storage.trees import remove_tree
from tests.cli.machine import Machine, output_of
from tests.storage.nasty_trees import nest


def findings(machine: Machine, *, code: int = 0) -> dict[str, dict[str, str]]:
    answer = machine.run("doctor", "--json")
    assert answer.returncode == code, answer.stdout.decode() + answer.stderr.decode()
    return {finding["topic"]: finding for finding in json.loads(answer.stdout)["findings"]}


def test_a_sound_machine(owner: Machine) -> None:
    found = findings(owner)
    assert found.keys() >= {
        "python",
        "sqlite",
        "configuration",
        "disk",
        "keyring",
        "permissions",
        "database",
        "journal",
        "companions",
        "vault",
        "owner key",
        "audit",
        "clock",
        "sandbox",
        "port",
        "model",
    }
    for topic in ("sqlite", "permissions", "database", "owner key", "audit", "clock", "model"):
        assert found[topic]["status"] == "ok", found[topic]


def test_as_text_it_has_a_line_for_each(owner: Machine) -> None:
    words = output_of(owner.run("doctor"))
    assert "ok       database" in words
    assert words.splitlines()[-1].startswith(("Silas works", "Everything"))


def test_nothing_set_up(machine: Machine) -> None:
    (machine.data_dir / "silas.db").unlink()
    found = findings(machine, code=1)
    assert found["data directory"]["status"] == "problem"
    assert found["data directory"]["fix"] == "silas init"


def test_every_finding_that_is_not_ok_says_what_to_do(machine: Machine) -> None:
    (machine.data_dir / "silas.db").unlink()
    for finding in findings(machine, code=1).values():
        assert (finding["status"] == "ok") == (finding["fix"] is None)


@pytest.mark.parametrize("name", ["vault.json", "silas.db", "owner.pub"])
def test_files_that_others_may_read(owner: Machine, name: str) -> None:
    (owner.data_dir / name).chmod(0o644)
    found = findings(owner, code=1)
    assert name in found["permissions"]["sentence"]
    assert "chmod" in found["permissions"]["fix"]


def test_a_locked_vault(owner: Machine) -> None:
    del owner.environ["SILAS_VAULT_PASSPHRASE"]
    found = findings(owner, code=1)
    assert found["owner key"]["status"] == "problem"
    assert "SILAS_VAULT_PASSPHRASE" in found["owner key"]["fix"]
    assert found["audit"]["status"] == "ok", "the log can be read all the same"


def test_a_wrong_passphrase(owner: Machine) -> None:
    owner.environ["SILAS_VAULT_PASSPHRASE"] = "not the passphrase"
    assert findings(owner, code=1)["owner key"]["status"] == "problem"


def test_an_owner_pub_of_somebody_else(owner: Machine) -> None:
    (owner.data_dir / "owner.pub").write_text("d75a980182b10ab7d54bfed3c964073a" + "0" * 32)
    assert findings(owner)["owner key"]["fix"] == "silas init"


def test_a_tampered_log(owner: Machine) -> None:
    import apsw

    connection = apsw.Connection(str(owner.data_dir / "silas.db"))
    connection.execute("UPDATE audit_log SET body = replace(body, 'vault', 'fault')")
    connection.execute("DELETE FROM audit_checkpoints")
    connection.close()
    found = findings(owner, code=1)
    assert found["audit"]["status"] == "problem"


def test_a_database_that_is_none(owner: Machine) -> None:
    for path in owner.data_dir.glob("silas.db*"):
        path.unlink()
    (owner.data_dir / "silas.db").write_bytes(b"not a database at all" * 100)
    (owner.data_dir / "silas.db").chmod(0o600)
    assert findings(owner, code=1)["data directory"]["fix"] == "silas restore FILE"


def test_a_port_that_is_taken(owner: Machine) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        owner.environ["SILAS_CHANNELS__WEB__PORT"] = str(taken.getsockname()[1])
        assert findings(owner)["port"]["status"] == "warning"
        lock = InstanceLock(
            owner.data_dir / "silas.lock", clock=SystemClock(), command="silas start"
        )
        with lock:
            assert findings(owner)["port"]["status"] == "ok"


def test_a_model_without_its_key(owner: Machine) -> None:
    owner.environ["SILAS_MODELS__PROXY"] = "openrouter:some/model"
    assert "OPENROUTER_API_KEY" in findings(owner)["model"]["sentence"]
    owner.environ["OPENROUTER_API_KEY"] = "x"
    assert findings(owner)["model"]["status"] == "ok"


def test_a_configuration_that_cannot_be_used(owner: Machine) -> None:
    (owner.data_dir / "silas.yaml").write_text("silas:\n  owner_idd: x\n")
    found = findings(owner, code=1)
    assert list(found) == ["configuration"]
    assert "owner_id" in found["configuration"]["sentence"]


def test_what_is_left_of_attempts_is_named_however_deep_it_is(owner: Machine) -> None:
    plan = owner.data_dir / "work" / "attempts" / "t1"
    aside = plan / ".removed-0123"
    aside.mkdir(parents=True, mode=0o700)
    for path in (owner.data_dir / "work", plan.parent, plan):
        path.chmod(0o700)
    nest(aside, ["d"] * 3000, content=b"x")
    found = findings(owner)
    assert found["permissions"]["status"] == "ok", found["permissions"]
    assert found["leftovers"]["status"] == "warning"
    assert str(aside) in found["leftovers"]["sentence"]
    assert found["leftovers"]["fix"] == f"sudo rm -rf -- {aside}"
    assert remove_tree(aside) == []
    assert findings(owner)["leftovers"]["status"] == "ok"
