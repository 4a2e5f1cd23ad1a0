"""The vault for machines without a keyring: one encrypted file.

scrypt makes the key, and ChaCha20-Poly1305 encrypts the secrets:

1. scrypt gives 64 bytes: the cipher key, and a check value that is stored. The halves are
   independent, so the check value says "right key" and nothing more about it.
2. Every write takes a new random nonce.
3. The whole header is authenticated: salt, parameters, nonce, check value and hint cannot be
   exchanged without the secrets failing to open.
"""

import base64
import binascii
import hmac
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from pydantic import ValidationError

from silas.kernel import CanonicalError, SecretsError, canonical_bytes, strict_loads
from silas.secrets.documents import (
    FileVersion,
    create_document,
    locked,
    read_version,
    tampered,
    write_document,
)
from silas.secrets.errors import VaultLocked, WrongKey
from silas.secrets.key_material import KeyMaterial, Unlocking
from silas.secrets.vault import (
    Cipher,
    Kdf,
    Names,
    UnlockHint,
    VaultDescription,
    VaultHeader,
    check_name,
    check_value,
)

SCRYPT_N = 2**17
_SCRYPT_R = 8
_SCRYPT_P = 1


class SealBroken(Exception):
    """The document does not hold what it claims; callers name the file in their own error."""


@dataclass(frozen=True)
class SealingKey:
    """A key derived once, with the parameters that it belongs to."""

    kdf: Kdf
    cipher_key: bytes = field(repr=False)
    check: str

    def opens(self, header: VaultHeader) -> bool:
        """Whether this is the key of that header."""
        return hmac.compare_digest(self.check, header.key_check)


@dataclass(frozen=True)
class SealedVault:
    """A vault file, taken apart but not opened."""

    header: VaultHeader
    ciphertext: bytes

    @cached_property
    def bound(self) -> bytes:
        """What the ciphertext is bound to: the header, every bit of it."""
        return _bound(self.header)

    @classmethod
    def from_document(cls, content: Mapping[str, Any]) -> "SealedVault":
        """Read a document; raises `SealBroken` if it is not one that this Silas writes."""
        fields = dict(content)
        try:
            ciphertext = base64.b64decode(fields.pop("ciphertext"), validate=True)
            sealed = cls(VaultHeader.model_validate(fields, strict=True), ciphertext)
        except ValidationError as error:
            raise SealBroken(_first_problem(error)) from error
        except (KeyError, TypeError, binascii.Error) as error:
            raise SealBroken("there is no ciphertext") from error
        if sealed.to_document() != content:
            raise SealBroken("it is not written as Silas writes it")
        return sealed

    def to_document(self) -> dict[str, Any]:
        """The content to write."""
        return {
            **self.header.model_dump(mode="json"),
            "ciphertext": base64.b64encode(self.ciphertext).decode(),
        }


def new_kdf(*, n: int = SCRYPT_N) -> Kdf:
    """Parameters with a fresh salt."""
    return Kdf(n=n, r=_SCRYPT_R, p=_SCRYPT_P, salt=os.urandom(32).hex())


def derive_key(material: bytes, kdf: Kdf) -> SealingKey:
    """The key for this passphrase or key file; slow and large on purpose."""
    scrypt = Scrypt(salt=bytes.fromhex(kdf.salt), length=64, n=kdf.n, r=kdf.r, p=kdf.p)
    try:
        derived = scrypt.derive(material)
    except MemoryError as error:
        raise SecretsError(
            f"Opening the vault needs {kdf.memory // 2**20} MB of memory, which this machine "
            "does not have free. End other programs and try again."
        ) from error
    return SealingKey(kdf=kdf, cipher_key=derived[:32], check=derived[32:].hex())


def seal(
    secrets: Mapping[str, bytes], key: SealingKey, *, vault_id: str, unlock: UnlockHint
) -> SealedVault:
    """Encrypt the secrets under a header with a fresh nonce."""
    nonce = os.urandom(12)
    header = VaultHeader(
        id=vault_id,
        kdf=key.kdf,
        cipher=Cipher(nonce=nonce.hex()),
        key_check=key.check,
        unlock=unlock,
    )
    plain = canonical_bytes({name: _b64(value) for name, value in secrets.items()})
    return SealedVault(
        header, ChaCha20Poly1305(key.cipher_key).encrypt(nonce, plain, _bound(header))
    )


def unseal(sealed: SealedVault, key: SealingKey) -> dict[str, bytes]:
    """Decrypt the secrets; raises `SealBroken` if anything was changed since they were sealed."""
    nonce = bytes.fromhex(sealed.header.cipher.nonce)
    try:
        cipher = ChaCha20Poly1305(key.cipher_key)
        plain = cipher.decrypt(nonce, sealed.ciphertext, sealed.bound)
        return {
            name: base64.b64decode(value, validate=True)
            for name, value in strict_loads(plain).items()
        }
    except (InvalidTag, CanonicalError, binascii.Error) as error:
        raise SealBroken("its seal is broken") from error


def _bound(header: VaultHeader) -> bytes:
    return canonical_bytes(header.model_dump(mode="json"))


def _b64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _first_problem(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


class FileVault:
    """`Vault` in one owner-only file; the key is derived on first use, and only once.

    Every call looks at the file, so that processes see each other's changes. As long as it is the
    same version, the document is remembered, still sealed: no secret is kept in memory.
    """

    def __init__(
        self, path: Path, *, unlocking: Unlocking | None = None, key: SealingKey | None = None
    ) -> None:
        self._path = path
        self._unlocking = unlocking
        self._key = key
        self._deriving = threading.Lock()
        self._read: tuple[FileVersion, SealedVault] | None = None

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
        known = self._read
        if known is not None and FileVersion.of(self._path) == known[0]:
            return known[1]
        content, version = read_version(self._path)
        try:
            sealed = SealedVault.from_document(content)
        except SealBroken as error:
            raise tampered(self._path, str(error)) from error
        self._read = (version, sealed) if version is not None else None
        return sealed

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
