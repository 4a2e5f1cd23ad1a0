"""A real OpenID provider on loopback (oidc-provider, certified), and a person who signs in there.

    def test_it(oidc: OidcProvider) -> None:
        # device code: what a person does who was shown a code
        oidc.enter_code(user_code, login="me@example.org")
        # redirect: what a browser does; returns the address that it is sent back to
        oidc.sign_in(auth_url, login="me@example.org")

The client `silas-tests` is a public one, with redirects to `http://127.0.0.1:PORT/callback`.
"""

import contextlib
import html
import http.cookiejar
import json
import os
import re
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.servers.dovecot import free_ports

CLIENT = "silas-tests"
INSTALL = "needs an OpenID provider: npm ci --prefix tests/servers/node"
_NODE = Path(__file__).parent / "node"
_WAIT_SECONDS = 120


class _Browser:
    """A person's browser: it keeps cookies, and stays at a redirect to another place."""

    def __init__(self, home: str) -> None:
        self._home = home
        jar = http.cookiejar.CookieJar()
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),
            urllib.request.HTTPCookieProcessor(jar),
            _NoRedirect(),
        )

    def open(self, url: str, form: Mapping[str, str] | None = None) -> tuple[str, str]:
        """The page that it ends on, and where that is."""
        data = urllib.parse.urlencode(form).encode() if form is not None else None
        for _ in range(20):
            try:
                with self._opener.open(url, data, timeout=_WAIT_SECONDS) as answer:
                    return answer.read().decode(), url
            except urllib.error.HTTPError as answer:
                with answer:
                    if answer.code not in (302, 303):
                        return answer.read().decode(), url
                    url = urllib.parse.urljoin(url, answer.headers["Location"])
            data = None
            if not url.startswith(self._home):
                return "", url
        raise AssertionError("the provider redirects for ever")

    def submit(self, page: str, at: str, **typed: str) -> tuple[str, str]:
        """Fill in the form of a page and send it."""
        action = re.search(r'<form[^>]*action="([^"]+)"', page)
        assert action, page
        fields = {
            name: html.unescape(value)
            for name, value in re.findall(
                r'<input[^>]*type="hidden"[^>]*name="([^"]+)"[^>]*value="([^"]*)"', page
            )
        }
        where = urllib.parse.urljoin(at, html.unescape(action[1]))
        return self.open(where, {**fields, **typed})


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


class OidcProvider:
    """A running provider."""

    def __init__(self, *, access_seconds: int = 3600) -> None:
        [self.port] = free_ports(1)
        self.issuer = f"http://127.0.0.1:{self.port}"
        self._seconds = access_seconds
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        node = shutil.which("node")
        if node is None or not (_NODE / "node_modules" / "oidc-provider").is_dir():
            pytest.skip(INSTALL)
        self._process = subprocess.Popen(
            [node, _NODE / "provider.mjs"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={
                "PATH": os.environ["PATH"],
                "PORT": str(self.port),
                "ACCESS_SECONDS": str(self._seconds),
                "NODE_ENV": "test",
            },
        )
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        assert said == "ready\n", f"the provider ended with {self._process.poll()}"

    def close(self) -> None:
        """End it. It keeps everything in memory, so nothing is left."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=_WAIT_SECONDS)
            if self._process.stdout is not None:
                self._process.stdout.close()

    def metadata(self) -> dict[str, Any]:
        """What it says of itself (RFC 8414)."""
        url = f"{self.issuer}/.well-known/openid-configuration"
        with urllib.request.urlopen(url, timeout=_WAIT_SECONDS) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def post(self, path: str, **fields: str) -> tuple[int, dict[str, Any]]:
        """A request of the test's own, such as to `/token`."""
        data = urllib.parse.urlencode(fields).encode()
        try:
            with urllib.request.urlopen(
                f"{self.issuer}{path}", data, timeout=_WAIT_SECONDS
            ) as answer:
                return answer.status, json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as answer:
            with answer:
                return answer.code, json.loads(answer.read() or b"{}")

    def enter_code(self, user_code: str, *, login: str) -> None:
        """A person enters the code of a device, confirms it, and signs in."""
        browser = _Browser(self.issuer)
        page, at = browser.open(f"{self.issuer}/device")
        page, at = browser.submit(page, at, user_code=user_code)
        page, at = browser.submit(page, at)
        page, at = self._agree(browser, page, at, login)
        assert "Sign-in Success" in page, page

    def deny_code(self, user_code: str) -> None:
        """A person enters the code of a device, and does not go on."""
        browser = _Browser(self.issuer)
        page, at = browser.open(f"{self.issuer}/device")
        page, at = browser.submit(page, at, user_code=user_code)
        browser.submit(page, at, abort="yes")

    def sign_in(self, auth_url: str, *, login: str) -> str:
        """A person opens the page, signs in and agrees; where the browser is sent then."""
        browser = _Browser(self.issuer)
        page, at = browser.open(auth_url)
        _, at = self._agree(browser, page, at, login)
        return at

    def _agree(self, browser: _Browser, page: str, at: str, login: str) -> tuple[str, str]:
        for _ in range(5):
            if not at.startswith(f"{self.issuer}/interaction/"):
                break
            typed = {"login": login, "password": "any"} if 'name="login"' in page else {}
            page, at = browser.submit(page, at, **typed)
        return page, at


@pytest.fixture(scope="session")
def oidc() -> Iterator[OidcProvider]:
    """One provider for the whole session."""
    with contextlib.closing(OidcProvider()) as provider:
        provider.start()
        yield provider
