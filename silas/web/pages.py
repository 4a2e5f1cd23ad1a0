"""The page itself: files that are read once, and a policy that lets nothing else run."""

import hashlib
import secrets
from collections.abc import Awaitable, Callable, Mapping
from importlib import resources
from pathlib import PurePosixPath

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

Endpoint = Callable[[Request], Awaitable[Response]]
_INDEX = "index.html"
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
    files[_WORKER] = _worker(files)
    index = files.pop(_INDEX).decode()
    return [
        Route("/", _index(index)),
        *(Route(f"/{name}", _static(name, content)) for name, content in sorted(files.items())),
    ]


def _worker(files: Mapping[str, bytes]) -> bytes:
    """The service worker, told which files to keep; other files are another shell."""
    kept = [name for name in sorted(files) if name.endswith(_KEPT_OFFLINE) and name != _WORKER]
    whole = hashlib.sha256(b"".join(files[name] for name in sorted(files))).hexdigest()
    text = files[_WORKER].decode().replace("__SHELL__", f"silas-{whole[:16]}")
    return text.replace("__FILES__", " ".join(["/", *(f"/{name}" for name in kept)])).encode()


def _index(text: str) -> Endpoint:
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
