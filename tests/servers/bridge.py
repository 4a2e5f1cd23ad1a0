"""Stands where the broker stands, for tests of scripts alone: an account that is signed in already.

It checks nothing. What the broker lets through is tested with the broker.
"""

import contextlib
import functools
import http.client
import http.server
import json
import re
import smtplib
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from silas.skills.format import parse_sidecar
from silas.skills.sidecar import AccountLimits
from tests.servers.dovecot import MailAccount
from tests.servers.smtp import SmtpServer

_SECONDS = 120
# A script finds the broker on ports that are the same in every sandbox. Without one, two tests
# would share them, so the modules are told other ports before the script is run.
_RUN = """
import importlib, json, pathlib, resource, runpy, sys
resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
script, ports, words = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3:]
sys.path.insert(0, script.rpartition("/")[0])
for name, port in ports.items():
    module, _, constant = name.partition(".")
    setattr(importlib.import_module(module), constant, ("127.0.0.1", port))
sys.argv = [script, *words]
main = sys.modules.get(pathlib.Path(script).stem)
sys.exit(main.main()) if main else runpy.run_path(script, run_name="__main__")
"""


@dataclass(frozen=True)
class SignedIn:
    """Ports of an account that is signed in."""

    account: MailAccount
    imap_port: int
    smtp_port: int
    commands: list[str]
    """The IMAP commands that were asked for, in order; `UID X` is X."""

    def environment(self, imap_host: str = "imap.example.org") -> dict[str, str]:
        """What Silas says of the account."""
        said = {
            "username": self.account.address,
            "endpoints": [{"kind": "imap", "host": imap_host, "port": 993}],
        }
        return {"SILAS_ACCOUNT": json.dumps(said)}


@contextlib.contextmanager
def signed_in(account: MailAccount, smtp: SmtpServer) -> Iterator[SignedIn]:
    """A way to one account, for as long as the test needs it."""
    commands: list[str] = []
    with contextlib.ExitStack() as stack:
        imap_port = stack.enter_context(_listening(lambda: _imap(account), commands))
        smtp_port = stack.enter_context(_listening(lambda: _smtp(account, smtp), []))
        yield SignedIn(account, imap_port, smtp_port, commands)


@functools.cache
def declared_uses(script: Path, word: str) -> AccountLimits:
    """What this command of a connection says that it uses of its account."""
    sidecar = parse_sidecar((script.parent.parent / "silas.yaml").read_text())
    return sidecar.scripts[f"scripts/{script.name} {word}"].uses


def run_script(
    script: Path,
    *words: str,
    stdin: str,
    ports: Mapping[str, int],
    environment: Mapping[str, str],
    memory: int = 512 * 1024 * 1024,
) -> subprocess.CompletedProcess[str]:
    """Run a script of a skill with the ports of its modules' constants, such as `mail.RELAY`.

    It has no more address space than `memory` bytes.
    """
    program = _RUN.replace("BYTES", str(memory))
    return subprocess.run(
        [sys.executable, "-B", "-c", program, str(script), json.dumps(dict(ports)), *words],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
        env={"PYTHONUTF8": "1", **environment},
    )


def _imap(account: MailAccount) -> tuple[socket.socket, bytes]:
    server = socket.create_connection(("127.0.0.1", account.server.imap_port), timeout=_SECONDS)
    _line(server)
    server.sendall(f'b0 LOGIN "{account.address}" "{account.password}"\r\n'.encode())
    while not (said := _line(server)).startswith(b"b0 "):
        pass
    if not said.startswith(b"b0 OK"):
        server.close()
        raise ConnectionError(said.decode())
    return server, b"* PREAUTH ready\r\n"


def _smtp(account: MailAccount, smtp: SmtpServer) -> tuple[socket.socket, bytes]:
    client = smtplib.SMTP("127.0.0.1", smtp.plain_port, timeout=_SECONDS)
    client.login(account.address, account.password)
    assert client.sock is not None
    return client.sock, b"220 ready\r\n"


def _line(connection: socket.socket) -> bytes:
    said = b""
    while not said.endswith(b"\r\n"):
        said += connection.recv(1) or b"\r\n"
    return said


@contextlib.contextmanager
def _listening(connect: Any, commands: list[str]) -> Iterator[int]:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                server, greeting = connect()
            except (ConnectionError, OSError, smtplib.SMTPException):
                client.sendall(b"* BYE [AUTHENTICATIONFAILED] The password was refused.\r\n")
                client.close()
                continue
            client.sendall(greeting)
            for way in ((client, server, commands), (server, client, [])):
                threading.Thread(target=_pump, args=way, daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(_SECONDS)


def _pump(source: socket.socket, target: socket.socket, commands: list[str]) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            # As imaplib writes them: each by itself, behind a tag of its own form.
            if command := re.match(rb"[A-P]{4}[0-9]+ (?:UID )?([A-Z]+)", data):
                commands.append(command[1].decode())
            target.sendall(data)
    for each in (source, target):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
            each.close()


@contextlib.contextmanager
def http_bridge(
    host: str, port: int, authorization: str, asked: list[tuple[str, str]] | None = None
) -> Iterator[int]:
    """A proxy that takes plain requests for `host`, and passes them on with this header.

    `asked` gets the method and the path of each.
    """
    requests = [] if asked is None else asked

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            requests.append((self.command, parts.path))
            if parts.netloc != host:
                self.send_error(403)
                return
            sent = {
                name: value
                for name, value in self.headers.items()
                if name.lower() not in ("host", "authorization", "connection", "proxy-connection")
            }
            way = http.client.HTTPConnection("127.0.0.1", port, timeout=_SECONDS)
            target = parts.path + (f"?{parts.query}" if parts.query else "")
            way.request(
                self.command, target, body, {**sent, "Host": host, "Authorization": authorization}
            )
            got = way.getresponse()
            content = got.read()
            self.send_response_only(got.status)
            for name, value in got.getheaders():
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)
            way.close()

        def log_message(self, *_: Any) -> None:
            pass

    for method in (
        "GET",
        "HEAD",
        "PUT",
        "POST",
        "PATCH",
        "DELETE",
        "OPTIONS",
        "PROPFIND",
        "REPORT",
    ):
        setattr(Handler, f"do_{method}", Handler.answer)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join(_SECONDS)
