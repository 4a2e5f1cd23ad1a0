"""What can go wrong with the vault, in words that tell wrong key, damage and absence apart."""

from silas.kernel import SecretsError


class WrongKey(SecretsError):
    """This passphrase or key file does not open the vault. Check which one belongs to it."""

    code = "E_SECRETS_WRONG_KEY"


class VaultTampered(SecretsError):
    """The vault was damaged or changed from outside. Keep the file and bring back a backup."""

    code = "E_SECRETS_TAMPERED"


class VaultLocked(SecretsError):
    """The vault is locked and nothing here can open it. Give its passphrase or its key file."""

    code = "E_SECRETS_LOCKED"


class VaultMissing(SecretsError):
    """There is no vault here yet. Run `silas init`, or name another `--data-dir`."""

    code = "E_SECRETS_MISSING"


class KeyFileRefused(SecretsError):
    """The key file cannot be used. It must be a file of 32 bytes or more that only you may read."""

    code = "E_SECRETS_KEY_FILE"


class KeyringUnavailable(SecretsError):
    """The system keyring cannot be used. Run `silas doctor` to see why."""

    code = "E_SECRETS_KEYRING"


class InvalidSecret(SecretsError):
    """The vault does not take this name or value. Nothing was stored."""

    code = "E_SECRETS_INVALID"


class VaultUnreachable(SecretsError):
    """The vault file cannot be read or written. Check the path and its permissions."""

    code = "E_SECRETS_FILE"


class UnknownSecret(SecretsError):
    """There is no secret of this name. Run `silas secrets list` to see the names."""

    code = "E_SECRETS_UNKNOWN"
