"""The vault for machines without a keyring: one encrypted file."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from silas.secrets.documents import create_document, locked, read_document, tampered, write_document
from silas.secrets.errors import VaultLocked, WrongKey
from silas.secrets.key_material import KeyMaterial
from silas.secrets.models import UnlockHint, VaultDescription, VaultHeader
from silas.secrets.sealing import (
    SCRYPT_N,
    SealBroken,
    SealedVault,
    SealingKey,
    derive_key,
    new_kdf,
    seal,
    unseal,
)
from silas.secrets.unlock import Unlocking
from silas.secrets.vault import Names, check_name, check_value


class FileVault:
    """`Vault` in one owner-only file; the key is derived on first use, and only once.

    Every call reads the file again, so that processes see each other's changes.
    """

    def __init__(
        self, path: Path, *, unlocking: Unlocking | None = None, key: SealingKey | None = None
    ) -> None:
        self._path = path
        self._unlocking = unlocking
        self._key = key
        self._deriving = threading.Lock()

    @classmethod
    def create(
        cls,
        path: Path,
        material: KeyMaterial,
        *,
        vault_id: str,
        unsafe_scrypt_n_for_tests: int = SCRYPT_N,
    ) -> "FileVault":
        """Make an empty vault; an existing one is never replaced."""
        key = derive_key(material.secret, new_kdf(n=unsafe_scrypt_n_for_tests))
        sealed = seal({}, key, vault_id=vault_id, unlock=material.hint)
        create_document(path, sealed.to_document())
        return cls(path, key=key)

    def get(self, ref_id: str) -> bytes | None:
        check_name(ref_id)
        return self._secrets().get(ref_id)

    def set(self, ref_id: str, value: bytes) -> None:
        check_name(ref_id)
        check_value(value)
        with self._changing() as secrets:
            secrets[ref_id] = value

    def delete(self, ref_id: str) -> bool:
        check_name(ref_id)
        with self._changing() as secrets:
            return secrets.pop(ref_id, None) is not None

    def change_key(
        self, material: KeyMaterial, *, unsafe_scrypt_n_for_tests: int = SCRYPT_N
    ) -> None:
        """Encrypt everything anew, so that only the new passphrase or key file opens it."""
        self._secrets()
        key = derive_key(material.secret, new_kdf(n=unsafe_scrypt_n_for_tests))
        with locked(self._path):
            sealed = self._load()
            self._store(self._unseal(sealed), key, sealed.header.id, material.hint)
        self._key = key

    def describe(self) -> VaultDescription:
        header = self._load().header
        by_file = header.unlock.method == "key_file"
        return VaultDescription(
            kind="file",
            where=str(self._path),
            unlocked_by=f"key file {header.unlock.path}" if by_file else "passphrase",
            warnings=tuple(_warnings(self._path, header)),
        )

    def list(self) -> Names:
        return sorted(self._secrets())

    def _secrets(self) -> dict[str, bytes]:
        return self._unseal(self._load())

    @contextmanager
    def _changing(self) -> Iterator[dict[str, bytes]]:
        """The secrets, to be changed in place and written back, while other writers wait."""
        # Finding the key may take a second or ask a person: nobody should wait for that.
        self._key_for(self._load())
        with locked(self._path):
            sealed = self._load()
            before = self._unseal(sealed)
            after = dict(before)
            yield after
            if after != before:
                self._store(after, self._key_for(sealed), sealed.header.id, sealed.header.unlock)

    def _load(self) -> SealedVault:
        content = read_document(self._path)
        try:
            return SealedVault.from_document(content)
        except SealBroken as error:
            raise tampered(self._path, str(error)) from error

    def _unseal(self, sealed: SealedVault) -> dict[str, bytes]:
        try:
            return unseal(sealed, self._key_for(sealed))
        except SealBroken as error:
            raise tampered(self._path, str(error)) from error

    def _store(
        self, secrets: dict[str, bytes], key: SealingKey, vault_id: str, unlock: UnlockHint
    ) -> None:
        sealed = seal(secrets, key, vault_id=vault_id, unlock=unlock)
        write_document(self._path, sealed.to_document())

    def _key_for(self, sealed: SealedVault) -> SealingKey:
        with self._deriving:
            if self._key is None:
                self._key = self._find_key(sealed.header)
                self._unlocking = None  # the passphrase is not kept
            if not self._key.opens(sealed.header):
                raise VaultLocked(
                    f"{self._path} was given another passphrase or key file while this process "
                    "was running. Start it again."
                )
            return self._key

    def _find_key(self, header: VaultHeader) -> SealingKey:
        origin = "nothing"
        ways = self._unlocking or Unlocking(environ={})
        for material in ways.candidates(header.unlock, where=self._path):
            key = derive_key(material.secret, header.kdf)
            if key.opens(header):
                return key
            origin = material.origin
        made_with = "a passphrase" if header.unlock.path is None else header.unlock.path
        raise WrongKey(
            f"{origin[0].upper()}{origin[1:]} does not open {self._path}, which was locked with "
            f"{made_with}. Nothing was changed; try again with the right one."
        )


def _warnings(path: Path, header: VaultHeader) -> Iterator[str]:
    if header.unlock.path is not None:
        yield (
            f"Whoever can read both {path} and {header.unlock.path} can open the vault. Keep a "
            "copy of the key file in a safe place: without it nothing in the vault can be read."
        )
        if path.absolute().parent in Path(header.unlock.path).parents:
            yield (
                "The key file lies in the data directory: a copy of the directory is a copy of "
                "the secrets. Move the key elsewhere with `silas secrets passphrase --key-file`."
            )
    if header.kdf.n < SCRYPT_N:
        yield (
            "The vault was made with weak parameters, which make its passphrase easier to guess. "
            "Run `silas secrets passphrase`."
        )
    if path.stat().st_mode & 0o077:
        yield f"Other users may read or write {path}. Run `chmod 600 {path}`."
