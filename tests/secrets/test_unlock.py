"""What opens a vault file, in which order, and what is refused."""

import os
from pathlib import Path

import pytest

from silas.secrets import (
    FileVault,
    InvalidSecret,
    KeyFileRefused,
    Prompt,
    VaultLocked,
    WrongKey,
    key_from_file,
    new_passphrase,
)
from silas.secrets.key_material import Unlocking, generate_key_file, read_key_file
from tests.secrets.files import FAST_N, PASSPHRASE, VAULT_ID, make_vault


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "keys" / "vault.key"
    generate_key_file(path)
    return path


def make_with_key_file(path: Path, key_file: Path) -> None:
    FileVault.create(
        path, read_key_file(key_file), vault_id=VAULT_ID, unsafe_scrypt_n_for_tests=FAST_N
    )


def names(path: Path, environ: dict[str, str], **ways: object) -> list[str]:
    return FileVault(path, unlocking=Unlocking(environ, **ways)).list()


def typing(*answers: str) -> tuple[Prompt, list[str]]:
    questions: list[str] = []

    def prompt(question: str) -> str:
        questions.append(question)
        return answers[len(questions) - 1]

    return prompt, questions


def test_the_callers_passphrase_comes_first(vault_path: Path) -> None:
    make_vault(vault_path)
    assert names(vault_path, {"SILAS_VAULT_PASSPHRASE": "wrong"}, passphrase=PASSPHRASE) == []
    with pytest.raises(WrongKey, match="The passphrase does not open"):
        names(vault_path, {"SILAS_VAULT_PASSPHRASE": PASSPHRASE}, passphrase="wrong")


def test_the_environment_comes_before_key_file_and_question(
    vault_path: Path, key_file: Path
) -> None:
    make_vault(vault_path)
    prompt, questions = typing(PASSPHRASE)
    environ = {"SILAS_VAULT_PASSPHRASE": PASSPHRASE, "SILAS_VAULT_KEY_FILE": str(key_file)}
    assert names(vault_path, environ, prompt=prompt) == []
    with pytest.raises(WrongKey, match=r"SILAS_VAULT_PASSPHRASE does not open .* a passphrase"):
        names(vault_path, {"SILAS_VAULT_PASSPHRASE": "wrong"}, prompt=prompt)
    assert questions == []


def test_an_empty_variable_counts_as_none(vault_path: Path) -> None:
    make_vault(vault_path)
    with pytest.raises(VaultLocked):
        names(vault_path, {"SILAS_VAULT_PASSPHRASE": "", "SILAS_VAULT_KEY_FILE": ""})


def test_the_vault_names_its_own_key_file(vault_path: Path, key_file: Path) -> None:
    make_with_key_file(vault_path, key_file)
    assert names(vault_path, {}) == []


def test_the_environment_names_a_key_file_that_was_moved(
    vault_path: Path, key_file: Path, tmp_path: Path
) -> None:
    make_with_key_file(vault_path, key_file)
    moved = key_file.rename(tmp_path / "moved.key")
    prompt, questions = typing()
    with pytest.raises(KeyFileRefused, match="not there"):
        names(vault_path, {}, prompt=prompt)
    assert questions == []
    assert names(vault_path, {"SILAS_VAULT_KEY_FILE": str(moved)}) == []


def test_another_key_file_is_a_wrong_key(vault_path: Path, key_file: Path, tmp_path: Path) -> None:
    make_with_key_file(vault_path, key_file)
    generate_key_file(tmp_path / "other.key")
    with pytest.raises(WrongKey, match=r"other\.key does not open .*vault\.key"):
        names(vault_path, {"SILAS_VAULT_KEY_FILE": str(tmp_path / "other.key")})


def test_a_person_is_asked_last_and_three_times_at_most(vault_path: Path) -> None:
    make_vault(vault_path)
    prompt, questions = typing("wrong", "also wrong", PASSPHRASE)
    assert names(vault_path, {}, prompt=prompt) == []
    assert len(questions) == 3
    assert str(vault_path) in questions[0]
    assert questions[1].startswith("That was not it.")
    prompt, questions = typing("wrong", "also wrong", "wrong again", PASSPHRASE)
    with pytest.raises(WrongKey, match="typed"):
        names(vault_path, {}, prompt=prompt)
    assert len(questions) == 3


def test_without_any_way_the_error_names_all_of_them(vault_path: Path) -> None:
    make_vault(vault_path)
    with pytest.raises(VaultLocked) as caught:
        names(vault_path, {})
    for way in ("SILAS_VAULT_PASSPHRASE", "SILAS_VAULT_KEY_FILE", "terminal", str(vault_path)):
        assert way in caught.value.message


def test_a_generated_key_file_is_private_random_and_never_overwritten(tmp_path: Path) -> None:
    one, other = generate_key_file(tmp_path / "a" / "1"), generate_key_file(tmp_path / "a" / "2")
    assert one.secret != other.secret
    assert len(one.secret) == 64
    assert (tmp_path / "a" / "1").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700
    with pytest.raises(KeyFileRefused):
        generate_key_file(tmp_path / "a" / "1")
    assert key_from_file(tmp_path / "a" / "1") == one
    assert key_from_file(tmp_path / "a" / "3").hint.path == str(tmp_path / "a" / "3")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601])
def test_a_key_file_that_others_may_use_is_refused(key_file: Path, mode: int) -> None:
    key_file.chmod(mode)
    with pytest.raises(KeyFileRefused, match="chmod 600"):
        read_key_file(key_file)


@pytest.mark.parametrize("size", [0, 31, 1024 * 1024 + 1])
def test_a_key_file_of_an_odd_size_is_refused(key_file: Path, size: int) -> None:
    key_file.write_bytes(b"k" * size)
    with pytest.raises(KeyFileRefused, match="size"):
        read_key_file(key_file)
    key_file.write_bytes(b"k" * 32)
    assert read_key_file(key_file).secret == b"k" * 32


def test_what_is_not_a_file_is_no_key_file(tmp_path: Path) -> None:
    with pytest.raises(KeyFileRefused):
        read_key_file(tmp_path)
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(KeyFileRefused, match="regular"):
        read_key_file(tmp_path / "pipe")
    with pytest.raises(KeyFileRefused, match="not there"):
        read_key_file(tmp_path / "absent")
    with pytest.raises(KeyFileRefused):
        key_from_file(tmp_path / "\udcff.key")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away: run as root")
def test_a_key_file_of_somebody_else_is_refused(key_file: Path) -> None:
    os.chown(key_file, 12345, -1)
    with pytest.raises(KeyFileRefused, match="another user"):
        read_key_file(key_file)


def test_a_dangling_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(KeyFileRefused):
        key_from_file(tmp_path / "link")
    assert not (tmp_path / "target").exists()


def test_a_new_passphrase_must_be_long_enough() -> None:
    with pytest.raises(InvalidSecret, match="at least 8"):
        new_passphrase("1234567")
    assert new_passphrase("12345678").secret == b"12345678"


def test_no_representation_shows_a_key(key_file: Path) -> None:
    shown = [
        repr(new_passphrase("the passphrase itself")),
        repr(Unlocking({"SILAS_VAULT_PASSPHRASE": "the env"}, passphrase="the given one")),
        repr(read_key_file(key_file)),
    ]
    for secret in ("itself", "the env", "the given one", key_file.read_text()):
        assert all(secret not in text for text in shown)


def test_the_environment_of_another_locale_is_taken_as_it_is(vault_path: Path) -> None:
    make_vault(vault_path, "latin \udce9\udce8 bytes")
    assert names(vault_path, {"SILAS_VAULT_PASSPHRASE": "latin \udce9\udce8 bytes"}) == []
