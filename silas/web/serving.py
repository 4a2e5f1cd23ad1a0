"""The HTTP server in this process, and the files of the page that it serves.

1. A socket is bound before anybody is told about it.
2. With a certificate, https is all there is: nothing falls back to http. A certificate that was
   renewed is taken over without a restart; one that cannot be used is not.
3. The files of the page are read once. What is not listed is not there, and a policy lets nothing
   run but the scripts of the very answer that brought the page.
"""

import asyncio
import contextlib
import hashlib
import logging
import secrets
import socket
import ssl
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from importlib import resources
from pathlib import Path, PurePosixPath

import uvicorn
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from silas.web.errors import CannotListen, CertificateUnusable

_MAX_FRAME = 256 * 1024
_GRACE_SECONDS = 3
_RENEWAL_SECONDS = 60
Endpoint = Callable[[Request], Awaitable[Response]]
_INDEX = "index.html"
VISITORS_FILES = ("visit.html", "visit.css", "visit.js")
_WORKER = "sw.js"
_NONCE = "__NONCE__"
_KEPT_OFFLINE = (".css", ".js", ".json", ".svg")
_KINDS = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/manifest+json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}


_log = logging.getLogger(__name__)


@dataclass
class Certificate:
    """The certificate that the owner brought, and its key; raises `CertificateUnusable`."""

    chain: Path
    key: Path
    context: ssl.SSLContext = field(init=False)
    _seen: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        self._seen = self._stamps()
        self.context = self._load()

    async def renew(self) -> None:
        """Take over what the files hold by now; what cannot be used changes nothing."""
        try:
            stamps = self._stamps()
            if stamps == self._seen:
                return
            self._seen = stamps
            self._load()  # apart, so that half a renewal leaves the old pair in use
            self.context.load_cert_chain(self.chain, self.key)
        except (CertificateUnusable, OSError) as error:
            _log.warning("The old certificate stays in use. %s", error)
        else:
            _log.info("The certificate was read anew: %s", self.chain)

    def expires_at(self) -> datetime:
        """When browsers stop accepting it."""
        # Imported here: the server itself needs nothing of it.
        from cryptography import x509  # noqa: PLC0415

        try:
            return x509.load_pem_x509_certificate(self.chain.read_bytes()).not_valid_after_utc
        except (OSError, ValueError) as error:
            raise CertificateUnusable(f"{self.chain}: {error}") from error

    def _stamps(self) -> tuple[int, ...]:
        """When the files were written; refuses a key that everyone on the machine can read."""
        try:
            chain, key = self.chain.stat(), self.key.stat()
        except OSError as error:
            raise CertificateUnusable(
                f"{error.filename} cannot be read ({error.strerror}). Correct "
                "channels.web.tls_certificate and channels.web.tls_key."
            ) from error
        if key.st_mode & (stat.S_IROTH | stat.S_IWOTH):
            raise CertificateUnusable(
                f"{self.key}: everyone on this machine can read this key or replace it. Run "
                f"`chmod o-rw {self.key}`."
            )
        return chain.st_mtime_ns, chain.st_size, key.st_mtime_ns, key.st_size

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2

        def no_password() -> str:
            # Else OpenSSL would ask at the terminal, and the server would wait for ever.
            raise CertificateUnusable(
                f"{self.key}: the key has a password. Save it without one, readable for you alone."
            )

        try:
            context.load_cert_chain(self.chain, self.key, password=no_password)
        except ssl.SSLError as error:
            raise CertificateUnusable(
                f"{self.chain} and {self.key} are not a certificate and its key "
                f"({error.reason or error}). Both are PEM files; the certificate comes before "
                "those that signed it."
            ) from error
        except OSError as error:
            raise CertificateUnusable(
                f"{self.chain} or {self.key} cannot be read ({error.strerror})."
            ) from error
        return context


class _QuietServer(uvicorn.Server):
    """The signals are `silas start`'s own business."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_up.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bound(host: str, port: int) -> socket.socket:
    """A socket at this address; raises `CannotListen`. Port 0 is any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio turns Nagle's algorithm off for whoever connects. Otherwise
    # the second small frame of an answer waits 40 ms until the other side acknowledges the first.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        told = f"{host}:{port}: {CannotListen.sentence()} ({error.strerror})"
        raise CannotListen(told) from error
    return listening


@contextlib.asynccontextmanager
async def serving(
    app: ASGIApp,
    listening: socket.socket,
    *,
    protocol: type[asyncio.Protocol] | None = None,
    grace_seconds: int = _GRACE_SECONDS,
    certificate: Certificate | None = None,
) -> AsyncIterator[None]:
    """Serve until the end of the block, over this protocol, or over what fits best.

    With a certificate, https alone is answered.
    """
    config = uvicorn.Config(
        app,
        interface="asgi3",
        http=protocol or "auto",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        ws="websockets-sansio",
        ws_max_size=_MAX_FRAME,
        proxy_headers=False,  # who is on the other side is never read from a header
        timeout_graceful_shutdown=grace_seconds,
        callback_notify=certificate.renew if certificate else None,
        timeout_notify=_RENEWAL_SECONDS,
    )
    if certificate is not None:
        config.load()
        config.ssl = certificate.context
    server = _QuietServer(config)
    task = asyncio.create_task(server.serve(sockets=[listening]), name="web")
    try:
        await server.is_up.wait()
        yield
    finally:
        server.should_exit = True
        await task


def page_policy(nonce: str) -> str:
    """The content security policy of the page: scripts of this very answer, and nothing inline."""
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src 'nonce-{nonce}'",
            "style-src 'self'",
            "img-src 'self'",
            "font-src 'self'",
            "connect-src 'self'",
            "manifest-src 'self'",
            "worker-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types silas",
        ]
    )


def page_routes() -> list[Route]:
    """One route for each file, read now: what is not listed here is not there."""
    files = {
        each.name: each.read_bytes()
        for each in resources.files("silas.web").joinpath("static").iterdir()
        if PurePosixPath(each.name).suffix in _KINDS
    }
    for name in VISITORS_FILES:
        del files[name]  # they are served below /visit
    files[_WORKER] = _worker(files)
    index = files.pop(_INDEX).decode()
    return [
        Route("/", page_answer(index)),
        *(Route(f"/{name}", _static(name, content)) for name, content in sorted(files.items())),
    ]


def _worker(files: Mapping[str, bytes]) -> bytes:
    """The service worker, told which files to keep; other files are another shell."""
    kept = [name for name in sorted(files) if name.endswith(_KEPT_OFFLINE) and name != _WORKER]
    whole = hashlib.sha256(b"".join(files[name] for name in sorted(files))).hexdigest()
    text = files[_WORKER].decode().replace("__SHELL__", f"silas-{whole[:16]}")
    return text.replace("__FILES__", " ".join(["/", *(f"/{name}" for name in kept)])).encode()


def page_answer(text: str) -> Endpoint:
    """A page whose scripts run with this answer alone."""

    async def answer(_request: Request) -> Response:
        nonce = secrets.token_urlsafe(18)
        headers = {"Content-Security-Policy": page_policy(nonce)}
        page = text.replace(_NONCE, nonce)
        return Response(page, media_type=_KINDS[".html"], headers=headers)

    return answer


def _static(name: str, content: bytes) -> Endpoint:
    kind = _KINDS[PurePosixPath(name).suffix]

    async def answer(_request: Request) -> Response:
        return Response(content, media_type=kind)

    return answer
