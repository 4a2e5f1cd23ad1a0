"""Which vault is made, and that whatever was made is opened again."""

import subprocess
import sys
from pathlib import Path

import pytest

from silas.kernel import SecretsError
from silas.secrets import (
    FileVault,
    InvalidSecret,
    KeyringUnavailable,
    Vault,
    VaultLocked,
    VaultMissing,
    create_vault,
    detect_keyring,
    open_vault,
)
from silas.storage.errors import DatabaseReadOnly
from tests.secrets.files import FAST_N, PASSPHRASE


@pytest.fixture(autouse=True)
def no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests never reach the keyring of whoever runs them."""
    monkeypatch.setattr("keyring.core._keyring_backend", None)
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path / "config")}


def create(path: Path, environ: dict[str, str], **options: object) -> Vault:
    return create_vault(path, environ=environ, unsafe_scrypt_n_for_tests=FAST_N, **options)


def test_without_keyring_and_person_a_key_file_is_made(
    vault_path: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    vault = create(vault_path, environ)
    vault.set("a", b"x")
    description = vault.describe()
    [key] = (tmp_path / "config" / "silas").iterdir()
    assert key.name.startswith("vault-")
    assert key.suffix == ".key"
    assert key.stat().st_mode & 0o777 == 0o600
    assert description.kind == "file"
    assert description.unlocked_by == f"key file {key}"
    assert f"read both {vault_path} and {key}" in description.warnings[0]
    assert open_vault(vault_path, environ={}).get("a") == b"x"


@pytest.mark.parametrize("config_home", ["", "relative/path"])
def test_the_key_file_goes_below_home_by_default(
    vault_path: Path, environ: dict[str, str], tmp_path: Path, config_home: str
) -> None:
    create(vault_path, {**environ, "XDG_CONFIG_HOME": config_home})
    assert len(list((tmp_path / "home" / ".config" / "silas").iterdir())) == 1


def test_two_data_directories_have_two_keys(tmp_path: Path, environ: dict[str, str]) -> None:
    for name in ("one", "two"):
        create(tmp_path / name / "vault.json", environ)
    assert len(list((tmp_path / "config" / "silas").iterdir())) == 2
    assert (tmp_path / "one").stat().st_mode & 0o777 == 0o700


def test_a_passphrase_is_taken_from_caller_or_environment(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    given = create(tmp_path / "1.json", environ, passphrase=PASSPHRASE)
    named = create(tmp_path / "2.json", {**environ, "SILAS_VAULT_PASSPHRASE": PASSPHRASE})
    for vault in (given, named):
        assert vault.describe().unlocked_by == "passphrase"
    assert open_vault(tmp_path / "1.json", environ={}, passphrase=PASSPHRASE).list() == []
    assert open_vault(tmp_path / "2.json", environ={}, passphrase=PASSPHRASE).list() == []


def test_a_person_is_asked_for_a_passphrase(vault_path: Path, environ: dict[str, str]) -> None:
    create(vault_path, environ, prompt=lambda _question: PASSPHRASE)
    with pytest.raises(VaultLocked):
        open_vault(vault_path, environ=environ).list()
    assert open_vault(vault_path, environ=environ, prompt=lambda _: PASSPHRASE).list() == []


def test_a_named_key_file_spares_the_question(
    vault_path: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    key = tmp_path / "my.key"
    environ["SILAS_VAULT_KEY_FILE"] = str(key)
    vault = create(vault_path, environ, prompt=lambda _question: pytest.fail("asked"))
    assert vault.describe().unlocked_by == f"key file {key}"
    assert open_vault(vault_path, environ={}).list() == []


def test_a_choice_is_kept_to(tmp_path: Path, environ: dict[str, str]) -> None:
    with pytest.raises(KeyringUnavailable, match="No keyring answers"):
        create(tmp_path / "1.json", environ, choice="keyring")
    with pytest.raises(VaultLocked, match="SILAS_VAULT_PASSPHRASE"):
        create(tmp_path / "1.json", environ, choice="passphrase")
    assert not (tmp_path / "1.json").exists()
    environ["SILAS_VAULT_PASSPHRASE"] = PASSPHRASE
    chosen = create(tmp_path / "1.json", environ, choice="key_file", key_file=tmp_path / "k")
    assert chosen.describe().unlocked_by == f"key file {tmp_path / 'k'}"


def test_a_key_beside_the_vault_is_warned_about(vault_path: Path, environ: dict[str, str]) -> None:
    vault = create(vault_path, environ, choice="key_file", key_file=vault_path.parent / "k")
    assert any("lies in the data directory" in warning for warning in vault.describe().warnings)


def test_a_short_passphrase_makes_no_vault(vault_path: Path, environ: dict[str, str]) -> None:
    with pytest.raises(InvalidSecret):
        create(vault_path, environ, passphrase="short")
    assert not vault_path.exists()


def test_an_existing_vault_stays_and_nobody_is_asked(
    vault_path: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    create(vault_path, environ, passphrase=PASSPHRASE).set("a", b"x")
    before = vault_path.read_bytes()
    with pytest.raises(SecretsError, match="already a vault"):
        create(vault_path, environ, prompt=lambda _question: pytest.fail("asked"))
    assert vault_path.read_bytes() == before
    assert not (tmp_path / "config").exists()


def test_a_dangling_link_counts_as_a_vault(vault_path: Path, environ: dict[str, str]) -> None:
    vault_path.symlink_to("nowhere")
    with pytest.raises(SecretsError, match="already a vault"):
        create(vault_path, environ)


def test_no_vault_is_an_error_of_its_own(vault_path: Path) -> None:
    with pytest.raises(VaultMissing):
        open_vault(vault_path, environ={})


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path, environ: dict[str, str]) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SecretsError, match="file"):
        create(tmp_path / "file" / "vault.json", environ)
    with pytest.raises((SecretsError, DatabaseReadOnly)):
        create(Path("/proc/silas/vault.json"), environ)


def test_the_vault_moves_with_its_directory(
    vault_path: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    create(vault_path, environ).set("a", b"x")
    moved = vault_path.parent.rename(tmp_path / "moved")
    assert open_vault(moved / "vault.json", environ={}).get("a") == b"x"


def test_no_keyring_is_said_in_words() -> None:
    state = detect_keyring()
    assert state.usable is False
    assert "No keyring answers" in state.reason


def test_opening_a_vault_file_does_not_load_the_keyring(
    vault_path: Path, environ: dict[str, str]
) -> None:
    vault = create(vault_path, environ)
    assert isinstance(vault, FileVault)
    code = f"""
import sys
from pathlib import Path
from silas.secrets import open_vault
open_vault(Path({str(vault_path)!r}), environ={{}}).list()
print(sorted({{"keyring", "secretstorage", "jeepney"}} & set(sys.modules)))
"""
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
