"""A data directory of version 0.1.0 opens: nothing in it is lost, and what was signed still holds.

It was made by that version's own commands: a plan that was approved, carried out and checked, a
plan that waits, two memories, two tasks of the journal and a companion.
"""

import json
import os
import tarfile
from pathlib import Path

import pytest

from tests.cli.machine import Machine, free_port, output_of
from tests.cli.test_start import running

ARCHIVE = Path(__file__).parent / "old_directory" / "version-0.1.0.tar.xz"
DONE = "task_01m7mse2tkhqpzfwjh3jspqnfc"


@pytest.fixture
def old(tmp_path: Path) -> Machine:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    data = tmp_path / "data"
    data.chmod(0o700)
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "SILAS_DATA_DIR": str(data),
        "SILAS_VAULT_PASSPHRASE": "an-old-passphrase",
        "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
        "SILAS_CHANNELS__WEB__PORT": str(free_port()),
    }
    return Machine(data, environ)


@pytest.mark.slow
def test_everything_is_still_there(old: Machine) -> None:
    output_of(old.run("init"))  # brings the tables up to date
    assert "examined, from 1 to" in output_of(old.run("audit", "verify"))
    memories = json.loads(output_of(old.run("memory", "list", "--json")))
    assert "I am allergic to penicillin" in json.dumps(memories)
    [first] = json.loads(output_of(old.run("conversations", "list", "--json")))["conversations"]
    assert first["conversation"] == "first"
    assert first["title"]
    found = json.loads(output_of(old.run("search", "penicillin", "--json")))["hits"]
    assert {"first"} == {hit["conversation"] for hit in found if hit["kind"] == "message"}
    items = json.loads(output_of(old.run("work", "list", "--json")))
    assert {"id": DONE, "status": "done"}.items() <= _named(items, DONE).items()
    tasks = output_of(old.run("journal", "task", "list", "--all"))
    assert "Squats" in tasks
    assert "Write the letter" in tasks
    proof = old.data_dir.parent / "proof.json"
    public = old.data_dir / "owner.pub"
    output_of(old.run("verify", str(proof), "--public-key", str(public)))


@pytest.mark.slow
def test_it_starts_and_goes_on(old: Machine) -> None:
    output_of(old.run("init"))
    with running(old):
        assert "Planner" in output_of(old.run("companions", "list"))
        assert "penicillin" in output_of(old.run("ask", "What do you remember about penicillin?"))
    assert "examined, from 1 to" in output_of(old.run("audit", "verify"))


def _named(items: object, item_id: str) -> dict[str, object]:
    found = items["items"] if isinstance(items, dict) else items
    assert isinstance(found, list)
    [item] = [each for each in found if each["id"] == item_id]
    return dict(item)
