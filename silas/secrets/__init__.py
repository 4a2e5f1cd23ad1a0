"""The vault: passwords, tokens and the owner's key, by name, never in plain text on disk.

It lives in the system keyring, or in one encrypted file where there is none. Everybody else holds
names (`ref_id`), never values; nothing here logs, prints or caches a secret.
"""

from silas.secrets.errors import (
    InvalidSecret,
    KeyFileRefused,
    KeyringUnavailable,
    UnknownSecret,
    VaultLocked,
    VaultMissing,
    VaultTampered,
    VaultUnreachable,
    WrongKey,
)
from silas.secrets.file_vault import FileVault
from silas.secrets.key_material import key_from_file, new_passphrase
from silas.secrets.models import KeyringState, VaultDescription
from silas.secrets.open import VaultChoice, create_vault, detect_keyring, open_vault
from silas.secrets.unlock import Prompt
from silas.secrets.vault import INTERNAL_PREFIX, MAX_VALUE_BYTES, Vault, check_name, is_internal

__all__ = [
    "INTERNAL_PREFIX",
    "MAX_VALUE_BYTES",
    "FileVault",
    "InvalidSecret",
    "KeyFileRefused",
    "KeyringState",
    "KeyringUnavailable",
    "Prompt",
    "UnknownSecret",
    "Vault",
    "VaultChoice",
    "VaultDescription",
    "VaultLocked",
    "VaultMissing",
    "VaultTampered",
    "VaultUnreachable",
    "WrongKey",
    "check_name",
    "create_vault",
    "detect_keyring",
    "is_internal",
    "key_from_file",
    "new_passphrase",
    "open_vault",
]
