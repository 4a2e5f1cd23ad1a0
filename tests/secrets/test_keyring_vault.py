"""The vault in a real GNOME keyring, and the keyrings that are refused."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import pytest
from keyring.backend import KeyringBackend
from keyring.backends import SecretService, chainer, fail, null

from silas.secrets import InvalidSecret, KeyringUnavailable, VaultTampered
from silas.secrets.keyring_vault import KeyringVault, require_secure
from tests.secrets.files import files_below
from tests.secrets.sessions import desktop_session

SECRET = b"\x00\xff binary and more \n"


@pytest.fixture
def vault(
    keyring_session: dict[str, str],
    vault_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> KeyringVault:
    for name, value in keyring_session.items():
        monkeypatch.setenv(name, value)
    return open_keyring_vault(vault_path, request.node.name)


def open_keyring_vault(path: Path, vault_id: str) -> KeyringVault:
    return KeyringVault(SecretService.Keyring(), vault_id=vault_id, path=path)


def test_it_keeps_what_it_is_given(vault: KeyringVault, vault_path: Path) -> None:
    assert vault.list() == []
    vault.set("b/binary", SECRET)
    vault.set("a", b"one")
    vault.set("a", b"two")
    again = open_keyring_vault(vault_path, "test_it_keeps_what_it_is_given")
    assert again.list() == ["a", "b/binary"]
    assert again.get("a") == b"two"
    assert again.get("b/binary") == SECRET
    assert again.get("c") is None


def test_it_forgets_what_it_is_told_to(vault: KeyringVault) -> None:
    vault.set("a", b"one")
    vault.set("b", b"two")
    assert vault.delete("a") is True
    assert vault.delete("a") is False
    assert vault.list() == ["b"]
    assert vault.get("a") is None


def test_two_data_directories_share_nothing(vault: KeyringVault, tmp_path: Path) -> None:
    other = open_keyring_vault(tmp_path / "other" / "vault.json", "another-id")
    vault.set("a", b"one")
    assert other.get("a") is None
    assert other.list() == []


def test_nothing_readable_reaches_the_disk(
    vault: KeyringVault, vault_path: Path, keyring_session: dict[str, str]
) -> None:
    vault.set("a", b"hunter2-in-the-keyring")
    files = [*files_below(vault_path.parent), *files_below(Path(keyring_session["XDG_DATA_HOME"]))]
    assert any(path.suffix == ".keyring" for path in files)
    for path in files:
        assert b"hunter2-in-the-keyring" not in path.read_bytes()
        assert b"aHVudGVyMi1pbi10aGUta2V5cmlu" not in path.read_bytes()


def test_writers_at_the_same_time_lose_no_name(vault: KeyringVault, vault_path: Path) -> None:
    handles = [
        open_keyring_vault(vault_path, "test_writers_at_the_same_time_lose_no_name")
        for _ in range(3)
    ]

    def write(number: int) -> None:
        for index in range(8):
            handles[number].set(f"{number}/{index}", b"x")

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, range(3)))
    assert len(vault.list()) == 24


def test_names_and_values_are_checked(vault: KeyringVault) -> None:
    for name in ("", ":names", "a b", "x" * 201):
        with pytest.raises(InvalidSecret):
            vault.set(name, b"x")
        with pytest.raises(InvalidSecret):
            vault.get(name)
    for value in (b"", b"x" * (64 * 1024 + 1)):
        with pytest.raises(InvalidSecret):
            vault.set("a", value)
    vault.set("a", b"x" * 64 * 1024)
    assert vault.get("a") == b"x" * 64 * 1024


@pytest.mark.parametrize("names", ["nonsense", '{"a":1}', "[1]", '["a","a"'])
def test_entries_that_somebody_changed_are_named(
    vault: KeyringVault, names: str, request: pytest.FixtureRequest
) -> None:
    service = f"silas:{request.node.name}"
    vault.set("a", b"x")
    SecretService.Keyring().set_password(service, "a", "not base64!")
    with pytest.raises(VaultTampered, match="entry a of silas:"):
        vault.get("a")
    SecretService.Keyring().set_password(service, ":names", names)
    with pytest.raises(VaultTampered, match="entry :names"):
        vault.list()


def test_a_name_whose_value_is_gone_can_be_cleaned_up(
    vault: KeyringVault, request: pytest.FixtureRequest
) -> None:
    vault.set("a", b"x")
    SecretService.Keyring().delete_password(f"silas:{request.node.name}", "a")
    assert vault.get("a") is None
    assert vault.delete("a") is False
    assert vault.list() == []


def test_a_keyring_that_loses_what_it_is_given_is_noticed(
    vault: KeyringVault, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SecretService.Keyring.set_password

    def store_half(keyring: KeyringBackend, service: str, name: str, password: str) -> None:
        store(keyring, service, name, password if name == ":names" else password[:-4])

    monkeypatch.setattr(SecretService.Keyring, "set_password", store_half)
    with pytest.raises(KeyringUnavailable, match="did not keep"):
        vault.set("a", b"something long enough")


def test_it_describes_itself(vault: KeyringVault) -> None:
    description = vault.describe()
    assert description.kind == "keyring"
    assert description.where == "Secret Service, service silas:test_it_describes_itself"
    assert description.warnings == ()


class PlainKeyring(KeyringBackend):
    """A backend that somebody installed and that keeps what it is given in the open."""

    priority = 0.5

    def get_password(self, service: str, username: str) -> str | None:
        return None

    def set_password(self, service: str, username: str, password: str) -> None:
        raise NotImplementedError


class DressedUpKeyring(SecretService.Keyring):
    """A backend that builds on a good one."""


# The library offers every class that exists; these are for this test alone.
KeyringBackend._classes -= {PlainKeyring, DressedUpKeyring}


@pytest.mark.parametrize(
    "backend", [null.Keyring(), fail.Keyring(), PlainKeyring(), DressedUpKeyring()]
)
def test_a_keyring_that_may_not_encrypt_is_refused(backend: KeyringBackend, tmp_path: Path) -> None:
    with pytest.raises(KeyringUnavailable):
        require_secure(backend)
    with pytest.raises(KeyringUnavailable):
        KeyringVault(backend, vault_id="x", path=tmp_path / "vault.json")


@pytest.mark.parametrize(
    ("members", "accepted"),
    [
        ((SecretService.Keyring, SecretService.Keyring), True),
        ((SecretService.Keyring, PlainKeyring), False),
        ((PlainKeyring,), False),
        ((), False),
    ],
)
def test_a_chain_is_as_good_as_its_worst_keyring(
    keyring_session: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    members: tuple[type[KeyringBackend], ...],
    accepted: bool,
) -> None:
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", keyring_session["DBUS_SESSION_BUS_ADDRESS"])
    monkeypatch.setattr("keyring.backend.get_all_keyring", lambda: [kind() for kind in members])
    with nullcontext() if accepted else pytest.raises(KeyringUnavailable):
        require_secure(chainer.ChainerBackend())


CREATE = """
import os, sys
from pathlib import Path
from silas.kernel import SilasError
from silas.secrets import create_vault, detect_keyring, open_vault
print(detect_keyring().model_dump_json())
path = Path(sys.argv[1])
try:
    vault = create_vault(path, environ=os.environ, choice=sys.argv[2], unsafe_scrypt_n_for_tests=16)
    vault.set("a", b"stored")
    print(open_vault(path, environ=os.environ).get("a"), vault.describe().kind)
except SilasError as error:
    print(error.code, error.message)
"""


def create_in(environ: dict[str, str], path: Path, choice: str = "auto") -> str:
    command = [sys.executable, "-c", CREATE, path, choice]
    run = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_a_real_keyring_is_found_and_used(
    keyring_session: dict[str, str], vault_path: Path
) -> None:
    out = create_in(keyring_session, vault_path)
    assert '"usable":true,"backend":"Secret Service"' in out
    assert "b'stored' keyring" in out
    assert b"silas-vault-pointer-v1" in vault_path.read_bytes()
    assert vault_path.stat().st_mode & 0o777 == 0o600
    assert create_in(keyring_session, vault_path).splitlines()[1].startswith("E_SECRETS_FAILED")


def test_the_probe_leaves_nothing_behind(keyring_session: dict[str, str], tmp_path: Path) -> None:
    create_in(keyring_session, tmp_path / "vault.json")
    code = """
import secretstorage
connection = secretstorage.dbus_init()
collection = secretstorage.get_default_collection(connection)
print(len(list(collection.search_items({"service": "silas:probe"}))))
connection.close()
"""
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, env=keyring_session, capture_output=True, text=True, check=True)
    assert run.stdout == "0\n"


def test_a_keyring_that_nobody_can_set_up_is_not_used(
    headless_session: dict[str, str], vault_path: Path
) -> None:
    out = create_in(headless_session, vault_path)
    assert '"usable":false' in out
    assert "Prompt dismissed" in out
    assert "b'stored' file" in out


def test_a_keyring_without_a_password_is_not_used(
    plaintext_session: dict[str, str], vault_path: Path
) -> None:
    assert "plain text" in create_in(plaintext_session, vault_path, "keyring").splitlines()[1]
    assert not vault_path.exists()
    out = create_in(plaintext_session, vault_path)
    assert '"usable":false' in out
    assert "Default.keyring" in out
    assert "b'stored' file" in out


@pytest.mark.parametrize(
    ("backend", "reason"),
    [
        ("keyring.backends.null.Keyring", "not one that is known to encrypt"),
        ("keyring.backends.fail.Keyring", "No keyring answers"),
        ("no.such.module.Keyring", "ModuleNotFoundError"),
    ],
)
def test_a_configured_keyring_is_checked_as_well(
    tmp_path: Path, vault_path: Path, backend: str, reason: str
) -> None:
    environ = {"PYTHON_KEYRING_BACKEND": backend, "HOME": str(tmp_path)}
    out = create_in(environ, vault_path, "keyring").splitlines()
    assert '"usable":false' in out[0]
    assert out[1].startswith("E_SECRETS_KEYRING")
    assert reason in out[0]
    assert reason in out[1]


def test_a_keyring_that_was_replaced_by_a_bad_one_is_refused(
    keyring_session: dict[str, str], vault_path: Path
) -> None:
    create_in(keyring_session, vault_path)
    code = """
import os, sys
from pathlib import Path
from silas.kernel import SilasError
from silas.secrets import open_vault
try:
    open_vault(Path(sys.argv[1]), environ=os.environ)
except SilasError as error:
    print(error.code)
"""
    environ = {**keyring_session, "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"}
    command = [sys.executable, "-c", code, vault_path]
    run = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert run.stdout == "E_SECRETS_KEYRING\n"


def test_a_locked_keyring_says_so(vault_path: Path) -> None:
    code = """
import os, sys
from pathlib import Path
import secretstorage
from silas.kernel import SilasError
from silas.secrets import create_vault
vault = create_vault(Path(sys.argv[1]), environ=os.environ, choice="keyring")
vault.set("a", b"x")
connection = secretstorage.dbus_init()
secretstorage.get_default_collection(connection).lock()
try:
    vault.get("a")
except SilasError as error:
    print(error.code, error.message)
"""
    with desktop_session(password="another password") as environ:
        command = [sys.executable, "-c", code, vault_path]
        run = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert run.stdout.startswith("E_SECRETS_LOCKED"), run.stdout + run.stderr
