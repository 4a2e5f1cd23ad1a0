"""The vault as its users see it, and the names and values that it takes."""

import re
from typing import Protocol, TypeAlias

from silas.secrets.errors import InvalidSecret
from silas.secrets.models import VaultDescription

INTERNAL_PREFIX = "silas/"
MAX_VALUE_BYTES = 64 * 1024
_NAME = re.compile(r"[A-Za-z0-9._/-]{1,200}")

# Inside a class with a method `list`, the type of the same name is out of reach.
Names: TypeAlias = list[str]


class Vault(Protocol):
    """Where secrets are kept. Calls may block on the disk, a key derivation or a person."""

    def get(self, ref_id: str) -> bytes | None:
        """The secret of this name, or None."""
        ...

    def set(self, ref_id: str, value: bytes) -> None:
        """Store the secret, replacing one of the same name."""
        ...

    def delete(self, ref_id: str) -> bool:
        """Remove the secret; says whether there was one."""
        ...

    def describe(self) -> VaultDescription:
        """Which vault this is; works while it is locked."""
        ...

    def list(self) -> Names:
        """The names of all secrets, sorted."""
        ...


def check_name(ref_id: str) -> None:
    """Refuse a name that a keyring, a file or a terminal could read in another way."""
    if not _NAME.fullmatch(ref_id):
        raise InvalidSecret(
            "The name of a secret has 1 to 200 letters, digits and the characters . _ / - "
            "and nothing else. Choose another name."
        )


def check_value(value: bytes) -> None:
    """Refuse a value that is empty or too large to be a secret."""
    if not value:
        raise InvalidSecret("The value is empty. Nothing was stored.")
    if len(value) > MAX_VALUE_BYTES:
        raise InvalidSecret(
            f"The value has {len(value)} bytes and the vault takes at most {MAX_VALUE_BYTES}. "
            "Nothing was stored."
        )


def is_internal(ref_id: str) -> bool:
    """Whether the name belongs to Silas itself, such as the owner's signing key."""
    return ref_id.lower().startswith(INTERNAL_PREFIX)
