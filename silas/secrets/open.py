"""Which vault there is, and which one to make.

The keyring's modules are imported by name, when they are needed: `keyring` and its drivers are slow
to load, and a machine with a vault file never needs them.
"""

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import ValidationError

from silas.kernel.process import PASSPHRASE_VARIABLE
from silas.secrets.documents import (
    create_document,
    read_document,
    refuse_existing,
    tampered,
    writing,
)
from silas.secrets.errors import KeyringUnavailable, VaultLocked
from silas.secrets.file_vault import SCRYPT_N, FileVault
from silas.secrets.key_material import (
    KeyMaterial,
    Prompt,
    Unlocking,
    default_key_file,
    key_from_file,
    new_passphrase,
)
from silas.secrets.vault import KeyringPointer, KeyringState, Vault
from silas.storage.errors import DatabaseFromTheFuture
from silas.storage.files import make_private_directory

VaultChoice: TypeAlias = Literal["auto", "keyring", "passphrase", "key_file"]
_FILE_FORMAT = "silas-vault-v1"
_POINTER_FORMAT = "silas-vault-pointer-v1"


def open_vault(
    path: Path,
    *,
    environ: Mapping[str, str],
    passphrase: str | None = None,
    prompt: Prompt | None = None,
) -> Vault:
    """The vault of this data directory; a locked one is unlocked when it is first used."""
    content = read_document(path)
    form = content.get("format")
    if form == _FILE_FORMAT:
        return FileVault(path, unlocking=Unlocking(environ, passphrase, prompt))
    if form == _POINTER_FORMAT:
        return _keyring_vault(path, _pointer(path, content))
    if isinstance(form, str) and form.startswith("silas-vault-"):
        raise DatabaseFromTheFuture(f"{path}: {DatabaseFromTheFuture.sentence()}")
    raise tampered(path, "it is not a vault")


def create_vault(
    path: Path,
    *,
    environ: Mapping[str, str],
    choice: VaultChoice = "auto",
    passphrase: str | None = None,
    key_file: Path | None = None,
    prompt: Prompt | None = None,
    unsafe_scrypt_n_for_tests: int = SCRYPT_N,
) -> Vault:
    """Make an empty vault where there is none.

    `auto` takes the keyring if it works, else a passphrase if one is given or can be asked for,
    else a key file, which is generated if it is not there. `prompt` is asked for a new passphrase;
    it asks twice if it wants to be sure.
    """
    refuse_existing(path)
    with writing(path):
        make_private_directory(path.parent)
    vault_id = secrets.token_hex(16)
    if choice in ("auto", "keyring"):
        state = detect_keyring()
        if state.usable:
            return _create_keyring_vault(path, vault_id)
        if choice == "keyring":
            raise KeyringUnavailable(state.reason)
    ways = Unlocking(environ, passphrase, prompt)
    material = _new_key(ways, choice, vault_id=vault_id, key_file=key_file)
    return FileVault.create(
        path, material, vault_id=vault_id, unsafe_scrypt_n_for_tests=unsafe_scrypt_n_for_tests
    )


def detect_keyring() -> KeyringState:
    """Whether this session has a keyring that works and encrypts; a test entry is written to it."""
    # Imported here: the keyring's library is slow to load, and an encrypted file needs none of it.
    from silas.secrets.keyring_vault import detect_keyring as detect  # noqa: PLC0415

    return detect()


def _new_key(
    ways: Unlocking, choice: VaultChoice, *, vault_id: str, key_file: Path | None
) -> KeyMaterial:
    named = key_file or ways.named_key_file()
    if choice != "key_file":
        passphrase = _new_passphrase(ways, ask=choice == "passphrase" or named is None)
        if passphrase is not None:
            return passphrase
        if choice == "passphrase":
            raise VaultLocked(
                f"There is no passphrase for the new vault. Set {PASSPHRASE_VARIABLE}, or run the "
                "command on a terminal, where it asks."
            )
    return key_from_file(named or default_key_file(vault_id, ways.environ))


def _new_passphrase(ways: Unlocking, *, ask: bool) -> KeyMaterial | None:
    given = ways.passphrase or ways.environ.get(PASSPHRASE_VARIABLE)
    if given:
        return new_passphrase(given)
    if ask and ways.prompt is not None:
        return new_passphrase(ways.prompt("New passphrase for the vault"))
    return None


def _create_keyring_vault(path: Path, vault_id: str) -> Vault:
    pointer = KeyringPointer(id=vault_id)
    create_document(path, pointer.model_dump(mode="json"))
    return _keyring_vault(path, pointer)


def _pointer(path: Path, content: dict[str, Any]) -> KeyringPointer:
    try:
        return KeyringPointer.model_validate(content, strict=True)
    except ValidationError as error:
        raise tampered(path, "it names no keyring entry") from error


def _keyring_vault(path: Path, pointer: KeyringPointer) -> Vault:
    # Imported here, as above.
    from silas.secrets.keyring_vault import KeyringVault, system_backend  # noqa: PLC0415

    return KeyringVault(system_backend(), vault_id=pointer.id, path=path)
