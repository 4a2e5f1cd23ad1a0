"""What a person or a file gives to open a vault: passphrases and key files, in this order.

1. A passphrase that the caller gave.
2. The passphrase that the process was given (`silas.kernel.process`).
3. A key file: `SILAS_VAULT_KEY_FILE`, else the path that the vault itself names.
4. A question to the person at the terminal, if there is one; three times at most.

The first that is there counts. If it does not fit, that is an error: trying the next one would hide
a mistake in the first.
"""

import os
import secrets
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from silas.kernel.process import PASSPHRASE_VARIABLE
from silas.secrets.documents import read_regular_file
from silas.secrets.errors import InvalidSecret, KeyFileRefused, VaultLocked
from silas.secrets.vault import UnlockHint
from silas.storage.files import PRIVATE_FILE, make_private_directory, sync_directory

MIN_PASSPHRASE_LENGTH = 8
_MIN_KEY_FILE_BYTES = 32
_MAX_KEY_FILE_BYTES = 1024 * 1024


@dataclass(frozen=True)
class KeyMaterial:
    """Bytes that may open a vault, and words that say where they came from."""

    origin: str
    hint: UnlockHint
    secret: bytes = field(repr=False)


def typed_passphrase(passphrase: str, *, origin: str = "the passphrase") -> KeyMaterial:
    """A passphrase as key material; however a keyboard composes its letters, the bytes agree."""
    normal = unicodedata.normalize("NFC", passphrase).encode("utf-8", "surrogateescape")
    return KeyMaterial(origin=origin, hint=UnlockHint(method="passphrase"), secret=normal)


def new_passphrase(passphrase: str, *, origin: str = "the passphrase") -> KeyMaterial:
    """A passphrase for a vault that is being made; one that is too short is refused."""
    if len(passphrase) < MIN_PASSPHRASE_LENGTH:
        raise InvalidSecret(
            f"A passphrase has at least {MIN_PASSPHRASE_LENGTH} characters. Choose a longer one; "
            "five random words are easy to remember and hard to guess."
        )
    return typed_passphrase(passphrase, origin=origin)


def read_key_file(path: Path) -> KeyMaterial:
    """The bytes of a key file that nobody else may read."""
    path = _absolute(path)
    try:
        content, state = read_regular_file(path, limit=_MAX_KEY_FILE_BYTES)
    except FileNotFoundError as error:
        raise _refused(path, "it is not there; put it back, or name another one") from error
    except OSError as error:
        raise _refused(path, error.strerror or "it cannot be read") from error
    if state.st_uid != os.geteuid():
        raise _refused(path, "it belongs to another user")
    if state.st_mode & 0o077:
        raise _refused(path, f"others may read or write it; run `chmod 600 {path}`")
    if not _MIN_KEY_FILE_BYTES <= len(content) <= _MAX_KEY_FILE_BYTES:
        raise _refused(path, "its size is not between 32 bytes and one megabyte")
    hint = UnlockHint(method="key_file", path=str(path))
    return KeyMaterial(origin=f"the key file {path}", hint=hint, secret=content)


def generate_key_file(path: Path) -> KeyMaterial:
    """Write a new random key file, never over an existing one."""
    path = _absolute(path)
    try:
        make_private_directory(path.parent)
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, PRIVATE_FILE), "wb") as file:
            # Hexadecimal, so that the key can also be kept on paper.
            file.write(secrets.token_hex(32).encode())
            file.flush()
            os.fsync(file.fileno())
        sync_directory(path.parent)
    except OSError as error:
        raise _refused(path, error.strerror or "it cannot be written") from error
    return read_key_file(path)


def key_from_file(path: Path) -> KeyMaterial:
    """The key file at this path, generated if there is none."""
    return read_key_file(path) if os.path.lexists(path.expanduser()) else generate_key_file(path)


def default_key_file(vault_id: str, environ: Mapping[str, str]) -> Path:
    """Where a generated key goes: outside the data directory, a copy of which is then useless."""
    configured = Path(environ.get("XDG_CONFIG_HOME", ""))
    home = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
    base = configured if configured.is_absolute() else home / ".config"
    return base / "silas" / f"vault-{vault_id}.key"


def _absolute(path: Path) -> Path:
    absolute = path.expanduser().absolute()
    try:
        str(absolute).encode()
    except UnicodeEncodeError as error:
        raise KeyFileRefused("The path of a key file must be valid UTF-8.") from error
    return absolute


def _refused(path: Path, why: str) -> KeyFileRefused:
    return KeyFileRefused(f"{path}: {KeyFileRefused.sentence()} ({why})", path=str(path))


KEY_FILE_VARIABLE = "SILAS_VAULT_KEY_FILE"
_QUESTIONS = 3

Prompt: TypeAlias = Callable[[str], str]
"""Shows a question and returns what was typed, unseen."""


@dataclass(frozen=True)
class Unlocking:
    """The ways to a key that this process has."""

    environ: Mapping[str, str] = field(repr=False)
    passphrase: str | None = field(default=None, repr=False)
    prompt: Prompt | None = None

    def candidates(self, hint: UnlockHint, *, where: Path) -> Iterator[KeyMaterial]:
        """What may open the vault, in order; raises `VaultLocked` if there is nothing."""
        given = self.given_passphrase() or self._key_file(hint)
        if given is not None:
            yield given
        elif self.prompt is None:
            raise VaultLocked(
                f"{where} is locked. Set {PASSPHRASE_VARIABLE} to its passphrase, "
                f"{PASSPHRASE_VARIABLE}_FD to a descriptor that it can be read from, or "
                f"{KEY_FILE_VARIABLE} to its key file, or run the command on a terminal, "
                "where it asks."
            )
        else:
            for again in ("", *["That was not it. "] * (_QUESTIONS - 1)):
                typed = self.prompt(f"{again}Passphrase of {where}")
                yield typed_passphrase(typed, origin="the passphrase that was typed")

    def given_passphrase(self) -> KeyMaterial | None:
        """The passphrase from the caller or the environment."""
        if self.passphrase is not None:
            return typed_passphrase(self.passphrase)
        from_environment = self.environ.get(PASSPHRASE_VARIABLE)
        if from_environment:
            return typed_passphrase(from_environment, origin=PASSPHRASE_VARIABLE)
        return None

    def named_key_file(self) -> Path | None:
        """The key file that the environment names."""
        named = self.environ.get(KEY_FILE_VARIABLE)
        return Path(named) if named else None

    def _key_file(self, hint: UnlockHint) -> KeyMaterial | None:
        path = self.named_key_file() or (Path(hint.path) if hint.path else None)
        return read_key_file(path) if path else None
