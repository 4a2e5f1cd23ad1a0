"""The vault as its users see it: names, values, what it says about itself, its file's open part."""

import re
from collections.abc import Callable
from typing import Annotated, Literal, Protocol, Self, TypeAlias

from pydantic import Field, StringConstraints, model_validator

from silas.kernel.models import Data
from silas.secrets.errors import InvalidSecret

MAX_SCRYPT_MEMORY = 1024**3

Hex = Annotated[str, StringConstraints(pattern=r"^(?:[0-9a-f]{2})+$")]
Key32 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
VaultId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]


class VaultDescription(Data):
    """Which vault is in use, in words for `silas init` and `silas doctor`."""

    kind: Literal["keyring", "file"]
    where: str
    unlocked_by: str
    warnings: tuple[str, ...] = ()


class KeyringState(Data):
    """Whether the system keyring can be trusted with secrets, and why not."""

    usable: bool
    backend: str
    reason: str


class Kdf(Data):
    """How a passphrase becomes a key; bounded, so that a hostile file cannot ask for the moon."""

    name: Literal["scrypt"] = "scrypt"
    n: int = Field(ge=2, le=2**20)
    r: int = Field(ge=1, le=32)
    p: int = Field(ge=1, le=4)
    salt: Annotated[Hex, StringConstraints(min_length=32, max_length=128)]

    @model_validator(mode="after")
    def _within_bounds(self) -> Self:
        if self.n & (self.n - 1):
            raise ValueError("n must be a power of two")
        if self.memory > MAX_SCRYPT_MEMORY:
            raise ValueError(f"would need {self.memory} bytes of memory")
        return self

    @property
    def memory(self) -> int:
        """The bytes of memory that one derivation takes."""
        return 128 * self.n * self.r


class Cipher(Data):
    """How the secrets are encrypted; the nonce is new with every write."""

    name: Literal["chacha20-poly1305"] = "chacha20-poly1305"
    nonce: Annotated[Hex, StringConstraints(min_length=24, max_length=24)]


class UnlockHint(Data):
    """What opens this vault, so that nobody has to guess. It is a hint, not a permission."""

    method: Literal["passphrase", "key_file"]
    path: str | None = None


class VaultHeader(Data):
    """A vault file without its ciphertext; all of it is authenticated with the secrets."""

    format: Literal["silas-vault-v1"] = "silas-vault-v1"
    id: VaultId
    kdf: Kdf
    cipher: Cipher
    key_check: Key32
    unlock: UnlockHint


class KeyringPointer(Data):
    """The vault file of a keyring vault: it says under which id the keyring holds the secrets.

    The id is random and lives in the data directory: two directories never share secrets, and a
    directory that is moved keeps its own.
    """

    format: Literal["silas-vault-pointer-v1"] = "silas-vault-pointer-v1"
    kind: Literal["keyring"] = "keyring"
    id: VaultId


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


class OnDemandVault:
    """The vault, opened when it is first needed: most commands never need it."""

    def __init__(self, open_it: Callable[[], Vault]) -> None:
        self._open = open_it
        self._opened: Vault | None = None
        self._seen: frozenset[str] = frozenset()

    @property
    def opened(self) -> Vault:
        """The vault; a locked one may still ask for its passphrase."""
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def use(self, vault: Vault) -> None:
        """Go on with this one, which somebody has unlocked."""
        self._opened = vault

    def get(self, ref_id: str) -> bytes | None:
        value = self.opened.get(ref_id)
        self._remember(ref_id, value)
        return value

    def set(self, ref_id: str, value: bytes) -> None:
        self._remember(ref_id, value)
        self.opened.set(ref_id, value)

    def delete(self, ref_id: str) -> bool:
        return self.opened.delete(ref_id)

    def describe(self) -> VaultDescription:
        return self.opened.describe()

    def list(self) -> Names:
        return self.opened.list()

    def seen(self) -> frozenset[str]:
        """The secrets that passed through this process: what must never reach the audit log."""
        return self._seen

    def _remember(self, ref_id: str, value: bytes | None) -> None:
        if value is not None and not is_internal(ref_id):
            self._seen |= {value.decode("utf-8", "replace")}
