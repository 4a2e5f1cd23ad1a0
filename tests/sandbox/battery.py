"""The escape battery: attempts by family, the host that they attack, the table in the docs."""

import ast
import contextlib
import ctypes
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent / "attempts"
DOCUMENT = Path(__file__).parents[2] / "docs" / "sandbox.md"
FAMILIES = (
    *("network", "unix", "read", "write", "process", "environment"),
    *("privilege", "kernel", "resource"),
)
BEGIN, END = "<!-- battery: begin -->", "<!-- battery: end -->"
CONTAINED, NOT_CONTAINED, NOT_RUN = "contained", "**not contained**", "not run"


@dataclass(frozen=True)
class Attempt:
    """One line of the battery."""

    family: str
    name: str
    label: str

    def __str__(self) -> str:
        return f"{self.family}-{self.name}"


def _attempts() -> Iterator[Attempt]:
    for family in FAMILIES:
        for node in ast.parse((HERE / f"{family}.py").read_text()).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                yield Attempt(family, node.name, ast.get_docstring(node) or node.name)


ATTEMPTS = tuple(_attempts())


def program(family: str) -> str:
    """What runs inside: one family's attempts and the driver, in one piece."""
    return (HERE / f"{family}.py").read_text() + (HERE / "driver.py").read_text()


def verdicts(output: str) -> dict[str, str]:
    """What came of each attempt that was alive: `ESCAPED`, `CONTAINED` or, so far, `ALIVE`."""
    found: dict[str, str] = {}
    for line in output.splitlines():
        word, _, rest = line.partition(" ")
        name = rest.split(" ")[0]
        if word == "ALIVE" or (word in {"ESCAPED", "CONTAINED"} and name in found):
            found[name] = word
    return found


@contextlib.contextmanager
def host(directory: Path) -> Iterator[dict[str, object]]:
    """A host with something to steal: services, secrets, a victim. What attempts need to know."""
    secret = f"secret-{uuid.uuid4().hex}"
    with contextlib.ExitStack() as stack:
        world: dict[str, object] = {
            "secret": secret,
            "orphan_marker": f"orphan-{uuid.uuid4().hex}",
            "victim_marker": f"victim-{uuid.uuid4().hex}",
            "abstract_socket": f"silas-{uuid.uuid4().hex}",
            "shared_memory_key": int.from_bytes(os.urandom(3)) + 1,
        }
        world |= _files(directory, secret, stack)
        world["tcp_port"], world["udp_port"] = _services(secret, stack)
        for name in ("hidden_socket", "visible_socket"):
            _unix_service(str(world[name]), secret, stack)
        _unix_service("\0" + str(world["abstract_socket"]), secret, stack)
        world["victim_pid"] = _victim(str(world["victim_marker"]), secret, stack)
        _shared_memory(int(str(world["shared_memory_key"])), stack)
        yield world


def _files(directory: Path, secret: str, stack: contextlib.ExitStack) -> dict[str, object]:
    home, data, workspace = directory / "home", directory / "data", directory / "workspace"
    bare = directory / "bare"
    for path in (home / ".ssh", data):
        path.mkdir(parents=True)
    (home / ".ssh" / "id_ed25519").write_text(secret)
    (data / "vault.json").write_text(secret)
    other = Path(f"/tmp/silas-other-{secret}")
    other.write_text(secret)
    stack.callback(other.unlink)
    # A Unix socket's path has to be short.
    hidden = Path(f"/tmp/silas-{secret[-8:]}.sock")
    visible = Path(f"/tmp/silas-{secret[-8:]}") / "visible.sock"
    visible.parent.mkdir()
    stack.callback(visible.parent.rmdir)
    for path in (hidden, visible):
        stack.callback(path.unlink, missing_ok=True)
    found: dict[str, object] = {
        "home": str(home),
        "data_dir": str(data),
        "workspace": str(workspace),
        "bare_workspace": str(bare),
        "other_file": str(other),
        "hidden_socket": str(hidden),
        "visible_socket": str(visible),
        "socket_directory": str(visible.parent),
    }
    furnish(found)
    return found


def furnish(world: dict[str, object]) -> None:
    """Make the workspaces anew, so that no attempt finds what an earlier one left."""
    home, workspace, bare = (
        Path(str(world[key])) for key in ("home", "workspace", "bare_workspace")
    )
    for path in (workspace, bare):
        shutil.rmtree(path, ignore_errors=True)
    for path in (workspace / ".git" / "hooks", workspace / ".silas", workspace / ".vscode", bare):
        path.mkdir(parents=True)
    (workspace / ".mcp.json").write_text("{}")
    (workspace / ".git" / "config").write_text("[core]\n")
    (workspace / "link-to-secret").symlink_to(home / ".ssh" / "id_ed25519")
    (workspace / "link-to-home").symlink_to(home)


def _services(secret: str, stack: contextlib.ExitStack) -> tuple[int, int]:
    tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    udp.bind(("127.0.0.1", 0))

    def echo() -> None:
        with contextlib.suppress(OSError, TypeError):  # closed: there is nobody to answer
            while True:
                udp.sendto(secret.encode(), udp.recvfrom(100)[1])

    _greet(tcp, secret, stack)
    threading.Thread(target=echo, daemon=True).start()
    stack.callback(_close, udp)
    return tcp.getsockname()[1], udp.getsockname()[1]


def _unix_service(address: str, secret: str, stack: contextlib.ExitStack) -> None:
    server = stack.enter_context(socket.socket(socket.AF_UNIX))
    server.bind(address)
    server.listen()
    _greet(server, secret, stack)


def _greet(server: socket.socket, secret: str, stack: contextlib.ExitStack) -> None:
    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                with connection:
                    connection.sendall(secret.encode())

    threading.Thread(target=serve, daemon=True).start()
    stack.callback(_close, server)


def _close(server: socket.socket) -> None:
    with contextlib.suppress(OSError):
        server.shutdown(socket.SHUT_RDWR)


def _victim(marker: str, secret: str, stack: contextlib.ExitStack) -> int:
    victim = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)", marker], env={"TOKEN": secret}
    )
    stack.callback(victim.wait)
    stack.callback(victim.kill)
    return victim.pid


def _shared_memory(key: int, stack: contextlib.ExitStack) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    segment = libc.shmget(key, 4096, 0o1000 | 0o666)
    stack.callback(libc.shmctl, segment, 0, None)


def documented() -> dict[tuple[str, str], dict[str, str]]:
    """The table's claims: by family and attempt, what each backend does."""
    text = DOCUMENT.read_text()
    rows = text[text.index(BEGIN) : text.index(END)].splitlines()
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows if row[:1] == "|"]
    header = cells[0][2:]
    return {(row[0], row[1]): dict(zip(header, row[2:], strict=True)) for row in cells[2:]}


def write_table(results: dict[tuple[str, str, str], str], backends: tuple[str, ...]) -> None:
    """Put what was found into the document; a backend that did not run keeps its column."""
    text = DOCUMENT.read_text()
    before = documented()
    lines = [f"| family | attempt | {' | '.join(backends)} |", "|---|---|" + "---|" * len(backends)]
    for attempt in ATTEMPTS:
        old = before.get((attempt.family, attempt.label), {})
        cells = [
            results.get((attempt.family, attempt.label, name), old.get(name, NOT_RUN))
            for name in backends
        ]
        lines.append(f"| {attempt.family} | {attempt.label} | {' | '.join(cells)} |")
    start, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    DOCUMENT.write_text(text[:start] + "\n" + "\n".join(lines) + "\n" + text[end:])


def as_argument(world: dict[str, object]) -> str:
    return json.dumps(world)
