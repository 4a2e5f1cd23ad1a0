"""The cryptography of the vault file: scrypt for the key, ChaCha20-Poly1305 for the secrets.

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
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from pydantic import ValidationError

from silas.kernel import CanonicalError, SecretsError, canonical_bytes, strict_loads
from silas.secrets.models import Cipher, Kdf, UnlockHint, VaultHeader

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
        plain = cipher.decrypt(nonce, sealed.ciphertext, _bound(sealed.header))
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
