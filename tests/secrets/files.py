"""Vault files that are quick to open, and documents that were changed by hand."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from silas.kernel import canonical_bytes
from silas.secrets import FileVault
from silas.secrets.key_material import Unlocking, typed_passphrase

FAST_N = 2**4
PASSPHRASE = "correct horse battery staple"
VAULT_ID = "0123456789abcdef0123456789abcdef"


def make_vault(path: Path, passphrase: str = PASSPHRASE) -> FileVault:
    return FileVault.create(
        path,
        typed_passphrase(passphrase),
        vault_id=VAULT_ID,
        unsafe_scrypt_n_for_tests=FAST_N,
    )


def reopen(path: Path, passphrase: str = PASSPHRASE) -> FileVault:
    return FileVault(path, unlocking=Unlocking(environ={}, passphrase=passphrase))


def forge(path: Path, content: dict[str, Any]) -> None:
    """Write what somebody would who knows the format and makes the digest fit."""
    body = {key: value for key, value in content.items() if key != "digest"}
    digest = hashlib.sha256(canonical_bytes(body)).hexdigest()
    path.write_bytes(canonical_bytes({**body, "digest": digest}) + b"\n")


def files_below(directory: Path) -> Iterator[Path]:
    return (path for path in directory.rglob("*") if path.is_file())
