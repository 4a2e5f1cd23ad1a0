"""The vault in the operating system's keyring.

Imported only when a keyring is asked for: the `keyring` package and its drivers are slow to load.

1. Only backends that encrypt are accepted.
2. A keyring cannot list. The names are kept in an entry of their own, which never lacks a name that
   has a value: it is written before a value is stored and after one is removed.
3. What was stored is read back before `set` returns.
"""

import base64
import binascii
from collections.abc import Iterable
from pathlib import Path

from keyring.backend import KeyringBackend

from silas.kernel import CanonicalError, canonical_bytes, strict_loads
from silas.secrets.documents import locked
from silas.secrets.errors import InvalidSecret, KeyringUnavailable, VaultTampered
from silas.secrets.keyring_backends import (
    describe_backend,
    entry_limit,
    require_secure,
    translated,
)
from silas.secrets.models import VaultDescription
from silas.secrets.vault import Names, check_name, check_value

_NAMES_ENTRY = ":names"  # the colon keeps it apart from every valid name


class KeyringVault:
    """`Vault` in the system keyring, under a service name that belongs to one data directory."""

    def __init__(self, backend: KeyringBackend, *, vault_id: str, path: Path) -> None:
        require_secure(backend)
        self._backend = backend
        self._service = f"silas:{vault_id}"
        self._path = path

    def get(self, ref_id: str) -> bytes | None:
        check_name(ref_id)
        encoded = self._read(ref_id)
        if encoded is None:
            return None
        try:
            return base64.b64decode(encoded, validate=True)
        except binascii.Error as error:
            raise self._changed_outside(ref_id) from error

    def set(self, ref_id: str, value: bytes) -> None:
        check_name(ref_id)
        check_value(value)
        self._names()  # a locked keyring asks its user here, while nobody waits for the lock
        with locked(self._path):
            self._write_names({*self._names(), ref_id})
            self._write(ref_id, base64.b64encode(value).decode())

    def delete(self, ref_id: str) -> bool:
        check_name(ref_id)
        self._names()
        with locked(self._path):
            names = self._names()
            existed = self._read(ref_id) is not None
            if existed:
                with translated():
                    self._backend.delete_password(self._service, ref_id)
            if ref_id in names:
                self._write_names(names - {ref_id})
            return existed

    def describe(self) -> VaultDescription:
        return VaultDescription(
            kind="keyring",
            where=f"{describe_backend(self._backend)}, service {self._service}",
            unlocked_by="your login session",
        )

    def list(self) -> Names:
        return sorted(self._names())

    def _names(self) -> frozenset[str]:
        encoded = self._read(_NAMES_ENTRY)
        if encoded is None:
            return frozenset()
        try:
            names = strict_loads(encoded)
        except CanonicalError as error:
            raise self._changed_outside(_NAMES_ENTRY) from error
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise self._changed_outside(_NAMES_ENTRY)
        return frozenset(names)

    def _write_names(self, names: Iterable[str]) -> None:
        self._write(_NAMES_ENTRY, canonical_bytes(sorted(names)).decode())

    def _read(self, entry: str) -> str | None:
        with translated():
            return self._backend.get_password(self._service, entry)

    def _write(self, entry: str, text: str) -> None:
        limit = entry_limit(self._backend)
        if limit is not None and len(text) > limit:
            raise InvalidSecret(
                f"{describe_backend(self._backend)} keeps at most {limit} characters in one entry "
                f"and this needs {len(text)}. Nothing was stored."
            )
        with translated():
            self._backend.set_password(self._service, entry, text)
        if self._read(entry) != text:
            raise KeyringUnavailable(
                f"{describe_backend(self._backend)} did not keep what was stored under {entry}. "
                "Run `silas doctor` to see its state."
            )

    def _changed_outside(self, entry: str) -> VaultTampered:
        return VaultTampered(
            f"The entry {entry} of {self._service} in {describe_backend(self._backend)} is not as "
            "Silas wrote it. Remove the entry there and store the secret again."
        )
