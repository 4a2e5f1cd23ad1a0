"""A certificate authority that the tests alone trust, and one server certificate of it."""

import datetime as dt
import functools
import ipaddress
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

NAMES = (
    *("*.example.org", "example.org", "localhost"),
    # Where the servers of a mailbox are asked for.
    *("autoconfig.thunderbird.net", "cloudflare-dns.com"),
)


@dataclass(frozen=True)
class Certificates:
    """Files in PEM: the authority, and a server's chain and key for `*.example.org`."""

    authority: Path
    chain: Path
    key: Path

    def server_context(self) -> ssl.SSLContext:
        """For a server of the tests."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.chain, self.key)
        return context

    def client_context(self) -> ssl.SSLContext:
        """For a client that trusts this authority, and no other."""
        return ssl.create_default_context(cafile=str(self.authority))


@functools.cache
def certificates() -> Certificates:
    """One authority for the whole session."""
    home = Path(tempfile.mkdtemp(prefix="silas-certificates-"))
    home.chmod(0o755)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _signed("Tests of Silas", authority_key, None, authority_key)
    key = ec.generate_private_key(ec.SECP256R1())
    server = _signed("example.org", key, authority, authority_key)
    made = Certificates(home / "authority.pem", home / "chain.pem", home / "key.pem")
    made.authority.write_bytes(_pem(authority))
    made.chain.write_bytes(_pem(server) + _pem(authority))
    made.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    # A server that runs as another user reads it; it guards nothing but these tests.
    made.key.chmod(0o644)
    return made


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _signed(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Certificate | None,
    issuer_key: ec.EllipticCurvePrivateKey,
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=30))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
        .add_extension(_usage(authority=issuer is None), critical=True)
    )
    if issuer is not None:
        builder = builder.add_extension(
            x509.SubjectAlternativeName(
                [
                    *(x509.DNSName(each) for each in NAMES),
                    x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
                ]
            ),
            critical=False,
        ).add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )
