"""Which of the system's keyrings may be trusted, and whether it works.

Only backends that are known to encrypt are accepted, by name. Whatever else is installed or
configured (null, plain text, a file) is refused, also as a part of a chain. That a keyring works is
found out by using it; that it encrypts, by looking for the test entry in its files.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import keyring
import keyring.errors
from keyring.backend import KeyringBackend
from keyring.backends.chainer import ChainerBackend

from silas.kernel import SilasError
from silas.secrets.errors import KeyringUnavailable, VaultLocked
from silas.secrets.models import KeyringState

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
    """Let no driver's exception leave this room."""
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
