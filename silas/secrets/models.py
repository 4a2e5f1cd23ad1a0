"""What the vault says about itself, and the open part of a vault file."""

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from silas.kernel.models import Data

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
