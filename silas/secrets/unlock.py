"""The order in which a vault file is unlocked.

1. A passphrase that the caller gave.
2. `SILAS_VAULT_PASSPHRASE`.
3. A key file: `SILAS_VAULT_KEY_FILE`, else the path that the vault itself names.
4. A question to the person at the terminal, if there is one; three times at most.

The first that is there counts. If it does not fit, that is an error: trying the next one would hide
a mistake in the first.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from silas.secrets.errors import VaultLocked
from silas.secrets.key_material import KeyMaterial, read_key_file, typed_passphrase
from silas.secrets.models import UnlockHint

PASSPHRASE_VARIABLE = "SILAS_VAULT_PASSPHRASE"  # noqa: S105 - the name of a variable
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
                f"{where} is locked. Set {PASSPHRASE_VARIABLE} to its passphrase or "
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
