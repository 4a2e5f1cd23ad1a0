"""The code that lets the first passkey in: the owner's word, given at Silas's own machine.

A paired browser could otherwise enrol a passkey of its own making and decide everything alone.
"""

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from silas.approval.devices import OwnerKey
from silas.approval.errors import DecisionRefused
from silas.kernel import Clock, canonical_bytes, format_timestamp, parse_timestamp

CODE_LIFETIME = timedelta(minutes=10)
_MAX_GUESSES = 5


@dataclass(frozen=True)
class PasskeyCode:
    """What lets the first passkey in: the code for a person, the statement for the server."""

    code: str
    statement: dict[str, str]


def make_code(keys: OwnerKey, clock: Clock) -> PasskeyCode:
    """A code that the owner's key vouches for, so that asking for it takes the open vault."""
    code = f"{secrets.randbelow(10**10):010d}"
    until = format_timestamp(clock.now() + CODE_LIFETIME)
    digest = hashlib.sha256(code.encode()).hexdigest()
    key_id, signature = keys.sign(_code_bytes(digest, until))
    signed = base64.b64encode(signature).decode()
    return PasskeyCode(code, {"digest": digest, "until": until, "key_id": key_id, "signed": signed})


@dataclass
class PasskeyCodes:
    """The codes of this process; a restart ends them."""

    keys: OwnerKey
    clock: Clock
    _open: dict[str, datetime] = field(default_factory=dict)
    _taken: dict[str, datetime] = field(default_factory=dict)
    """Every statement that was taken, until it is too old anyway: none is taken twice."""
    _guesses: int = 0

    def allow(self, statement: dict[str, str]) -> None:
        """Take the owner's word for a code (rule 2); raises `DecisionRefused`."""
        try:
            digest, until = statement["digest"], parse_timestamp(statement["until"])
            signature = base64.b64decode(statement["signed"], validate=True)
            key_id = statement["key_id"]
        except (KeyError, ValueError, TypeError) as error:
            raise DecisionRefused("This is not the owner's word.") from error
        now = self.clock.now()
        payload = _code_bytes(digest, statement["until"])
        genuine = self.keys.vouches(key_id, payload, signature)
        if not genuine or not now < until <= now + CODE_LIFETIME:
            raise DecisionRefused("This is not the owner's word, or it is too old.")
        self._taken = {name: end for name, end in self._taken.items() if now < end}
        if digest in self._taken:
            raise DecisionRefused("This code was given out already. Ask for a new one.")
        self._taken[digest] = until
        self._open, self._guesses = {digest: until}, 0

    def redeem(self, code: str) -> None:
        """Use a code up; raises `DecisionRefused`. A few wrong ones void every code."""
        now, digest = self.clock.now(), hashlib.sha256(code.encode()).hexdigest()
        for known, until in tuple(self._open.items()):
            if hmac.compare_digest(known, digest) and now < until:
                del self._open[known]
                return
        self._guesses += 1
        if self._guesses >= _MAX_GUESSES:
            self._open = {}
        raise DecisionRefused(
            "The code is wrong, used or too old. Run `silas devices passkey` for a new one."
        )


def _code_bytes(digest: str, until: str) -> bytes:
    return canonical_bytes({"type": "passkey_code", "digest": digest, "until": until})
