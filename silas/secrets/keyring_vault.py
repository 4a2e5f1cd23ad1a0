"""The vault in the operating system's keyring.

Imported only when a keyring is asked for: the `keyring` package and its drivers are slow to load.

1. Only backends that are known to encrypt are accepted, by name. Whatever else is installed or
   configured (null, plain text, a file) is refused, also as a part of a chain. That a keyring works
   is found out by using it; that it encrypts, by looking for the test entry in its files.
2. A keyring cannot list. The names are kept in an entry of their own, which never lacks a name that
   has a value: it is written before a value is stored and after one is removed.
3. What was stored is read back before `set` returns.
"""

import base64
import binascii
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import keyring
import keyring.errors
from keyring.backend import KeyringBackend
from keyring.backends.chainer import ChainerBackend

from silas.kernel import CanonicalError, SilasError, canonical_bytes, strict_loads
from silas.secrets.documents import locked
from silas.secrets.errors import InvalidSecret, KeyringUnavailable, VaultLocked, VaultTampered
from silas.secrets.vault import KeyringState, Names, VaultDescription, check_name, check_value

_SECURE_BACKENDS = {
    "keyring.backends.SecretService.Keyring": "Secret Service",
    "keyring.backends.libsecret.Keyring": "Secret Service (libsecret)",
    "keyring.backends.kwallet.DBusKeyring": "KWallet",
    "keyring.backends.kwallet.DBusKeyringKWallet4": "KWallet 4",
    "keyring.backends.macOS.Keyring": "macOS Keychain",
    "keyring.backends.Windows.WinVaultKeyring": "Windows Credential Manager",
}
# Characters that one entry may have; the credential manager keeps 2560 bytes of UTF-16.
_ENTRY_LIMITS = {"keyring.backends.Windows.WinVaultKeyring": 1280}
_HOW_TO_CHOOSE = (
    "Name a secure one, such as PYTHON_KEYRING_BACKEND=keyring.backends.SecretService.Keyring."
)


def system_backend() -> KeyringBackend:
    """The keyring of this session, if it is one that encrypts."""
    with translated():
        backend = keyring.get_keyring()
    require_secure(backend)
    return backend


def require_secure(backend: KeyringBackend) -> None:
    """Refuse every backend that is not known to encrypt."""
    names = _parts(backend)
    if not names or names == ["keyring.backends.fail.Keyring"]:
        raise KeyringUnavailable(
            "No keyring answers in this session. Log in on a desktop, or use a vault file."
        )
    unknown = [name for name in names if name not in _SECURE_BACKENDS]
    if unknown:
        raise KeyringUnavailable(
            f"The keyring {', '.join(unknown)} is not one that is known to encrypt what it keeps. "
            f"{_HOW_TO_CHOOSE}"
        )


def describe_backend(backend: KeyringBackend) -> str:
    """The keyring's name for people."""
    return " + ".join(_SECURE_BACKENDS.get(name, name) for name in _parts(backend)) or "no keyring"


def entry_limit(backend: KeyringBackend) -> int | None:
    """How many characters one entry may have, where that is known."""
    return min(
        (_ENTRY_LIMITS[name] for name in _parts(backend) if name in _ENTRY_LIMITS), default=None
    )


def detect_keyring() -> KeyringState:
    """Find out by writing, reading and removing a test entry whether the keyring can be used."""
    name = "no keyring"
    try:
        with translated():
            backend = keyring.get_keyring()
        name = describe_backend(backend)
        require_secure(backend)
        _probe(backend)
    except SilasError as error:
        return KeyringState(usable=False, backend=name, reason=error.message)
    return KeyringState(usable=True, backend=name, reason="It keeps, gives back and forgets.")


def _probe(backend: KeyringBackend) -> None:
    entry, value = secrets.token_hex(8), secrets.token_hex(32)
    with translated():
        backend.set_password("silas:probe", entry, value)
        try:
            found = backend.get_password("silas:probe", entry)
            exposed = _file_that_shows(value)
        finally:
            backend.delete_password("silas:probe", entry)
        forgotten = backend.get_password("silas:probe", entry) is None
    if exposed:
        raise KeyringUnavailable(
            f"The keyring has no password: {exposed} holds its secrets as plain text. Set a "
            "password for it in your desktop's password program, or use a vault file."
        )
    if found != value or not forgotten:
        raise KeyringUnavailable("The keyring does not keep, give back and forget a test entry.")


def _file_that_shows(value: str) -> Path | None:
    """The GNOME keyring file that holds this value unencrypted, as one without a password does."""
    configured = Path(os.environ.get("XDG_DATA_HOME", ""))
    base = configured if configured.is_absolute() else Path.home() / ".local" / "share"
    for path in (base / "keyrings").glob("*.keyring"):
        if path.is_file() and value.encode() in path.read_bytes():
            return path
    return None


def _parts(backend: KeyringBackend) -> list[str]:
    """The names of the backends that this one consists of."""
    parts = backend.backends if type(backend) is ChainerBackend else [backend]
    return [f"{type(part).__module__}.{type(part).__qualname__}" for part in parts]


@contextmanager
def translated() -> Iterator[None]:
    """Let no driver's exception leave this package."""
    try:
        yield
    except SilasError:
        raise
    except keyring.errors.KeyringLocked as error:
        raise VaultLocked(
            "The system keyring is locked. Unlock it in your desktop's password program, or log "
            "in again, and repeat the command."
        ) from error
    except Exception as error:  # every backend raises whatever its own driver raises
        raise KeyringUnavailable(
            f"The system keyring did not do what was asked ({type(error).__name__}: {error}). "
            "Run `silas doctor` to see its state."
        ) from error


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
