"""What can go wrong with the vault, in words that tell wrong key, damage and absence apart."""

from silas.kernel import SecretsError


class WrongKey(SecretsError):
    """This passphrase or key file does not open the vault. Check which one belongs to it."""

    code = "E_SECRETS_WRONG_KEY"
    exit_code = 31


class VaultTampered(SecretsError):
    """The vault was damaged or changed from outside. Keep the file and bring back a backup."""

    code = "E_SECRETS_TAMPERED"
    exit_code = 32


class VaultLocked(SecretsError):
    """The vault is locked and nothing here can open it. Give its passphrase or its key file."""

    code = "E_SECRETS_LOCKED"
    exit_code = 33


class VaultMissing(SecretsError):
    """There is no vault here yet. Run `silas init`, or name another `--data-dir`."""

    code = "E_SECRETS_MISSING"
    exit_code = 34


class KeyFileRefused(SecretsError):
    """The key file cannot be used. It must be a file of 32 bytes or more that only you may read."""

    code = "E_SECRETS_KEY_FILE"
    exit_code = 35


class KeyringUnavailable(SecretsError):
    """The system keyring cannot be used. Run `silas doctor` to see why."""

    code = "E_SECRETS_KEYRING"
    exit_code = 36


class InvalidSecret(SecretsError):
    """The vault does not take this name or value. Nothing was stored."""

    code = "E_SECRETS_INVALID"
    exit_code = 37


class VaultUnreachable(SecretsError):
    """The vault file cannot be read or written. Check the path and its permissions."""

    code = "E_SECRETS_FILE"
    exit_code = 38


class UnknownSecret(SecretsError):
    """There is no secret of this name. Run `silas secrets list` to see the names."""

    code = "E_SECRETS_UNKNOWN"
    exit_code = 39
