"""An authenticator in software: the bytes that a passkey gives, right or wrong in one place."""

import base64
import hashlib
import json
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

from silas.approval import Assertion, Registration

ORIGIN = "http://localhost:8420"
_MAKE = bytes(range(1, 17))
Private = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey


def unpadded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def client_data(kind: str, challenge: bytes, /, **changes: Any) -> bytes:
    said = {
        "type": kind,
        "challenge": unpadded(challenge),
        "origin": ORIGIN,
        "crossOrigin": False,
        **changes,
    }
    return json.dumps(said).encode()


@dataclass
class Authenticator:
    """One credential."""

    private: Private
    credential: bytes = b"credential-1"
    count: int = 0
    rp_id: str = "localhost"
    flags: int = 0x05

    @property
    def cose(self) -> bytes:
        match self.private.public_key():
            case ec.EllipticCurvePublicKey() as public:
                numbers = public.public_numbers()
                x, y = numbers.x.to_bytes(32, "big"), numbers.y.to_bytes(32, "big")
                return bytes.fromhex("a5010203262001215820") + x + bytes.fromhex("225820") + y
            case ed25519.Ed25519PublicKey() as public:
                return bytes.fromhex("a4010103272006215820") + public.public_bytes_raw()
            case rsa.RSAPublicKey() as public:
                modulus = public.public_numbers().n.to_bytes(256, "big")
                start, end = "a401030339010020590100", "2143010001"
                return bytes.fromhex(start) + modulus + bytes.fromhex(end)
        raise TypeError

    def head(self, more: int = 0) -> bytes:
        name = hashlib.sha256(self.rp_id.encode()).digest()
        return name + bytes([self.flags | more]) + self.count.to_bytes(4, "big")

    def registration(
        self,
        challenge: bytes,
        /,
        *,
        cose: bytes | None = None,
        more: bytes = b"",
        flags: int = 0x40,
        **said: Any,
    ) -> Registration:
        size = len(self.credential).to_bytes(2, "big")
        key = self.cose if cose is None else cose
        data = self.head(flags) + _MAKE + size + self.credential + key + more
        return Registration(
            credential_id=unpadded(self.credential),
            client_data=client_data("webauthn.create", challenge, **said),
            authenticator_data=data,
        )

    def assertion(self, challenge: bytes, /, *, short: int = 0, **said: Any) -> Assertion:
        data, told = self.head(), client_data("webauthn.get", challenge, **said)
        data = data[: len(data) - short]
        return Assertion(
            credential_id=unpadded(self.credential),
            client_data=told,
            authenticator_data=data,
            signature=self._sign(data + hashlib.sha256(told).digest()),
        )

    def _sign(self, payload: bytes) -> bytes:
        match self.private:
            case ec.EllipticCurvePrivateKey():
                return self.private.sign(payload, ec.ECDSA(SHA256()))
            case ed25519.Ed25519PrivateKey():
                return self.private.sign(payload)
            case rsa.RSAPrivateKey():
                return self.private.sign(payload, padding.PKCS1v15(), SHA256())
