"""Names that tell what they hold: `password`, `X-API-Key`, `dbSecret2`, `--access-token`."""

import re
from enum import IntEnum
from functools import lru_cache


class Hides(IntEnum):
    """What must not be shown of the value under a name."""

    NOTHING = 0
    TEXT = 1
    """Numbers may stay: `tokens` are secrets in one place and a count in the other."""
    ALL = 2


_CAMEL_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SEPARATORS = re.compile(r"[^a-z0-9]+")
_TAIL = (
    r"(?:_?\d+|_(?:value|text|raw|plain|plaintext|string|str|old|new|current|confirm|confirmation"
    r"|again|repeat|b64|base64|hex|hash|bytes))*$"
)
_TELLING = re.compile(
    # Long words tell also at the end of another word; short ones stand alone.
    r"(?:(?:password|passphrase|passwd|passcode|secret|credential|apikey|authorization|cookie)s?|token"
    r"|(?:^|_)(?:pass|pwd|pw|auth|bearer|jwt|otp|totp|pin|psk|cvv|cvc|seed|mnemonic)"
    r"|(?:^|_)(?:api|access|private|signing|secret|encryption|decryption|master|shared|account|ssh|pgp"
    r"|gpg|hmac|aes|deploy|webhook|client|session|auth|bot|vault|root)_?keys?"
    r"|(?:^|_)(?:mfa|2fa|otp|auth|authorization|verification|security|recovery|backup|device)_?codes?"
    r"|(?:^|_)(?:recovery|seed|secret)_?(?:phrase|words?))" + _TAIL
)
_TELLING_TEXT = re.compile(r"tokens" + _TAIL)


@lru_cache(maxsize=4096)
def what_name_hides(name: str) -> Hides:
    """Whether a value under this name is a secret by its name alone."""
    plain = _SEPARATORS.sub("_", _CAMEL_BOUNDARY.sub("_", name).lower()).strip("_")
    if _TELLING.search(plain):
        return Hides.ALL
    return Hides.TEXT if _TELLING_TEXT.search(plain) else Hides.NOTHING
