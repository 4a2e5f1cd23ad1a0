"""The sockets of the web server, as the operating system sees them."""

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol

from silas.web.errors import CertificateUnusable
from silas.web.serving import Certificate, bound, serving
from tests.web.certificates import Authority

_seen: list[int] = []


class _Watched(H11Protocol):
    """Notes whether Nagle's algorithm is off for whoever connects."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        accepted = transport.get_extra_info("socket")
        _seen.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        super().connection_made(transport)


async def _app(_scope: object, _receive: object, send: object) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})  # type: ignore[operator]
    await send({"type": "http.response.body", "body": b""})  # type: ignore[operator]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_a_small_frame_waits_for_no_acknowledgement(host: str) -> None:
    _seen.clear()
    with contextlib.closing(bound(host, 0)) as listening:
        port = listening.getsockname()[1]
        async with serving(_app, listening, protocol=_Watched):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
            assert (await reader.read()).startswith(b"HTTP/1.1 204")
            writer.close()
            await writer.wait_closed()
    assert _seen == [1]


@contextlib.asynccontextmanager
async def serving_https(certificate: Certificate) -> AsyncIterator[int]:
    with contextlib.closing(bound("127.0.0.1", 0)) as listening:
        async with serving(_app, listening, certificate=certificate):
            yield listening.getsockname()[1]


async def shown_to(port: int, trusting: ssl.SSLContext) -> int:
    """The serial number of the certificate that a client accepts."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=trusting, server_hostname="silas.test"
    )
    shown = writer.get_extra_info("peercert")["serialNumber"]
    writer.write(b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 204")
    writer.close()
    return int(shown, 16)


class TestCertificates:
    async def test_a_client_that_knows_the_authority_is_answered(self, tmp_path: Path) -> None:
        authority = Authority()
        issued = authority.issue(tmp_path)
        async with serving_https(Certificate(issued.chain, issued.key)) as port:
            shown = await shown_to(port, authority.trusting())
            assert shown == issued.certificate.serial_number
            with pytest.raises(ssl.SSLCertVerificationError):
                await shown_to(port, Authority().trusting())

    async def test_http_is_not_answered(self, tmp_path: Path) -> None:
        issued = Authority().issue(tmp_path)
        async with serving_https(Certificate(issued.chain, issued.key)) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                assert not (await reader.read()).startswith(b"HTTP")
            writer.close()

    async def test_a_renewed_one_is_taken_over(self, tmp_path: Path) -> None:
        authority = Authority()
        issued = authority.issue(tmp_path)
        certificate = Certificate(issued.chain, issued.key)
        async with serving_https(certificate) as port:
            await shown_to(port, authority.trusting())
            renewed = authority.issue(tmp_path)
            os.utime(renewed.chain, ns=(1, 1))
            await certificate.renew()
            shown = await shown_to(port, authority.trusting())
        assert shown == renewed.certificate.serial_number

    async def test_half_a_renewal_changes_nothing(self, tmp_path: Path) -> None:
        authority = Authority()
        issued = authority.issue(tmp_path)
        certificate = Certificate(issued.chain, issued.key)
        async with serving_https(certificate) as port:
            kept = issued.key.read_bytes()
            authority.issue(tmp_path)
            issued.key.write_bytes(kept)
            os.utime(issued.chain, ns=(1, 1))
            await certificate.renew()
            shown = await shown_to(port, authority.trusting())
        assert shown == issued.certificate.serial_number

    @pytest.mark.parametrize(
        ("wrong", "said"),
        [
            ("missing", "cannot be read"),
            ("other key", "not a certificate and its key"),
            ("no certificate", "not a certificate and its key"),
            ("password", "the key has a password"),
            ("open to everyone", "chmod o-rw"),
        ],
    )
    def test_what_cannot_be_used_is_refused(self, tmp_path: Path, wrong: str, said: str) -> None:
        issued = Authority().issue(tmp_path, password="1234" if wrong == "password" else "")
        if wrong == "missing":
            issued.key.unlink()
        elif wrong == "other key":
            issued.key.write_bytes(Authority().issue(tmp_path, "other.test").key.read_bytes())
        elif wrong == "no certificate":
            issued.chain.write_text("Hello")
        elif wrong == "open to everyone":
            issued.key.chmod(0o644)
        with pytest.raises(CertificateUnusable, match=said):
            Certificate(issued.chain, issued.key)
