"""The vault: passwords, tokens and the owner's key, by name, never in plain text on disk.

It lives in the system keyring, or in one encrypted file where there is none. Everybody else holds
names (`ref_id`), never values; nothing here logs, prints or caches a secret. `OnDemandVault` knows
which values passed through this process, so that they can be taken out of every text.
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
from silas.secrets.key_material import Prompt, key_from_file, new_passphrase
from silas.secrets.open import VaultChoice, create_vault, detect_keyring, open_vault
from silas.secrets.vault import (
    INTERNAL_PREFIX,
    MAX_VALUE_BYTES,
    KeyringState,
    OnDemandVault,
    Vault,
    VaultDescription,
    check_name,
    is_internal,
)

__all__ = [
    "INTERNAL_PREFIX",
    "MAX_VALUE_BYTES",
    "FileVault",
    "InvalidSecret",
    "KeyFileRefused",
    "KeyringState",
    "KeyringUnavailable",
    "OnDemandVault",
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
