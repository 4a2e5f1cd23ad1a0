"""Certificates for tests: an authority of their own, and what it signs."""

import base64
import hashlib
import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)

_PEM, _NO_PASSWORD = serialization.Encoding.PEM, serialization.NoEncryption()


def _new_key() -> EllipticCurvePrivateKey:
    return generate_private_key(SECP256R1())


def _pem(key: EllipticCurvePrivateKey, password: str = "") -> bytes:
    kept: serialization.KeySerializationEncryption = _NO_PASSWORD
    if password:
        kept = serialization.BestAvailableEncryption(password.encode())
    return key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, kept)


@dataclass
class Authority:
    """Who signs, known to nobody but the test."""

    key: EllipticCurvePrivateKey = field(default_factory=_new_key)

    @property
    def certificate(self) -> x509.Certificate:
        return self._signed("A test authority", self.key, timedelta(days=365), is_authority=True)

    def trusting(self) -> ssl.SSLContext:
        """What a client uses that trusts this authority, and no other."""
        return ssl.create_default_context(cadata=self.certificate.public_bytes(_PEM).decode())

    def issue(
        self, directory: Path, name: str = "silas.test", *, days: int = 90, password: str = ""
    ) -> "Issued":
        key = _new_key()
        made = self._signed(name, key, timedelta(days=days))
        issued = Issued(directory / f"{name}.pem", directory / f"{name}.key", made)
        issued.chain.write_bytes(made.public_bytes(_PEM))
        issued.key.touch(mode=0o600)
        issued.key.write_bytes(_pem(key, password))
        return issued

    def _signed(
        self,
        name: str,
        key: EllipticCurvePrivateKey,
        lifetime: timedelta,
        *,
        is_authority: bool = False,
    ) -> x509.Certificate:
        called = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        by = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "A test authority")])
        now = datetime.now(UTC)
        own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        theirs = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        made = x509.CertificateBuilder(
            issuer_name=by,
            subject_name=called,
            public_key=key.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=min(now, now + lifetime) - timedelta(days=1),
            not_valid_after=now + lifetime,
        ).add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        made = made.add_extension(own, critical=False).add_extension(theirs, critical=False)
        if not is_authority:
            names = x509.SubjectAlternativeName([x509.DNSName(name)])
            made = made.add_extension(names, critical=False)
        return made.sign(self.key, hashes.SHA256())


@dataclass(frozen=True)
class Issued:
    """A certificate and its key, as files."""

    chain: Path
    key: Path
    certificate: x509.Certificate

    @property
    def spki(self) -> str:
        """How Chromium is told to accept this one although it does not know the authority."""
        public = self.certificate.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return base64.b64encode(hashlib.sha256(public).digest()).decode()
