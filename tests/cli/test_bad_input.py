"""Bad luck and bad input: one clear sentence, an exit code of its own, nothing lost."""

import subprocess
from pathlib import Path

import apsw
import pytest

from tests.cli.machine import Machine, output_of
from tests.tiny_disk import fill, make_read_only, tiny_disk


def one_sentence(run: subprocess.CompletedProcess[bytes]) -> tuple[int, str]:
    """The exit code and the only line that was said; a traceback would be more than one."""
    said = run.stderr.decode()
    assert run.returncode != 0
    assert run.returncode != 70, said
    assert "Traceback" not in said
    assert said.startswith("silas: ")
    return run.returncode, said


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith(("-wal", "-shm"))
    }


def test_broken_yaml(owner: Machine) -> None:
    (owner.data_dir / "silas.yaml").write_text("silas: [unclosed\n  x: 1\n")
    code, said = one_sentence(owner.run("keys", "show"))
    assert code == 10
    assert "silas.yaml" in said


def test_a_directory_where_the_config_should_be(owner: Machine) -> None:
    (owner.data_dir / "silas.yaml").unlink()
    (owner.data_dir / "silas.yaml").mkdir()
    assert one_sentence(owner.run("keys", "show"))[0] == 10


def test_a_directory_where_the_database_should_be(owner: Machine) -> None:
    for path in owner.data_dir.glob("silas.db*"):
        path.unlink()
    (owner.data_dir / "silas.db").mkdir()
    assert one_sentence(owner.run("audit", "verify"))[0] == 20


def test_a_file_where_the_data_directory_should_be(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    machine.environ["SILAS_DATA_DIR"] = str(tmp_path / "file")
    one_sentence(machine.run("init", "--yes"))
    assert (tmp_path / "file").read_text() == "mine"


def test_a_database_that_is_none(owner: Machine) -> None:
    for path in owner.data_dir.glob("silas.db*"):
        path.unlink()
    (owner.data_dir / "silas.db").write_bytes(b"x" * 8192)
    assert one_sentence(owner.run("audit", "verify"))[0] == 20


def test_data_from_the_future(owner: Machine) -> None:
    connection = apsw.Connection(str(owner.data_dir / "silas.db"))
    connection.execute("INSERT INTO applied_migrations VALUES ('999_later', 'x', 'x')")
    connection.close()
    before = files_of(owner.data_dir)
    code, said = one_sentence(owner.run("keys", "show"))
    assert code == 20
    assert "newer Silas" in said
    assert files_of(owner.data_dir) == before


def test_a_changed_migration(owner: Machine) -> None:
    connection = apsw.Connection(str(owner.data_dir / "silas.db"))
    connection.execute("UPDATE applied_migrations SET checksum = 'other'")
    connection.close()
    assert one_sentence(owner.run("keys", "show"))[0] == 20


def test_a_vault_with_the_wrong_key(owner: Machine) -> None:
    owner.environ["SILAS_VAULT_PASSPHRASE"] = "not the passphrase"
    before = files_of(owner.data_dir)
    assert one_sentence(owner.run("keys", "rotate", "--yes"))[0] == 30
    assert files_of(owner.data_dir)["vault.json"] == before["vault.json"]


def test_a_tampered_vault(owner: Machine) -> None:
    vault = owner.data_dir / "vault.json"
    content = bytearray(vault.read_bytes())
    content[len(content) // 2] ^= 1
    vault.write_bytes(content)
    assert one_sentence(owner.run("keys", "show"))[0] == 30


def test_a_vault_that_is_gone(owner: Machine) -> None:
    (owner.data_dir / "vault.json").unlink()
    assert one_sentence(owner.run("keys", "show"))[0] == 30


def test_nothing_set_up(machine: Machine) -> None:
    (machine.data_dir / "silas.db").unlink()
    code, said = one_sentence(machine.run("keys", "show"))
    assert code == 10
    assert "silas init" in said


@pytest.mark.parametrize("arguments", [("keys", "rotate", "--yes"), ("secrets", "set", "x")])
def test_a_full_disk(owner: Machine, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    with tiny_disk(tmp_path / "disk", kilobytes=4096) as disk:
        full = owner.moved_to(disk / "data")
        keys = output_of(full.run("keys", "show"))
        ballast = fill(disk)
        code, said = one_sentence(full.run(*arguments, stdin="value"))
        assert code == 20, said
        ballast.unlink()
        assert output_of(full.run("keys", "show")) == keys, "nothing was lost"
        assert b"ok" in full.run("audit", "verify", "--json").stdout


def test_a_read_only_disk(owner: Machine, tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disk", kilobytes=4096) as disk:
        frozen = owner.moved_to(disk / "data")
        make_read_only(disk)
        code, said = one_sentence(frozen.run("secrets", "set", "x", stdin="value"))
        assert code == 20, said


def test_as_json_the_error_is_data(machine: Machine) -> None:
    (machine.data_dir / "silas.db").unlink()
    answer = machine.run("keys", "show", "--json")
    assert answer.returncode == 10
    assert b'"E_CFG_NOT_INITIALISED"' in answer.stdout
    assert answer.stderr == b""


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["reviev"], "silas review"),
        (["review", "lsit"], "silas review list"),
        (["companons"], "silas companions"),
        (["companions", "lst"], "silas companions list"),
        (["journal", "tsk"], "silas journal task"),
        (["config", "chek"], "silas config check"),
    ],
)
def test_a_mistyped_command_is_answered_with_the_one_that_was_meant(
    machine: Machine, typed: list[str], meant: str
) -> None:
    run = machine.run(*typed)
    assert run.returncode == 2
    assert f"Did you mean `{meant}`?" in run.stderr.decode()


def test_what_resembles_no_command_is_answered_without_a_guess(machine: Machine) -> None:
    run = machine.run("xyzzy")
    assert run.returncode == 2
    assert "Did you mean" not in run.stderr.decode()


def test_a_missing_proof_is_said_to_be_missing_before_anything_is_asked_for(
    machine: Machine,
) -> None:
    _, said = one_sentence(machine.run("verify", "nowhere.json"))
    assert "nowhere.json: No such file" in said
    (machine.data_dir / "proof.json").write_text("{}")
    run = machine.run("verify", "proof.json")
    assert (run.returncode, "--public-key" in run.stderr.decode()) == (2, True)
