"""The backends that work on this machine; what is missing says how to install it."""

import contextlib
import http.client
import io
import json
import shutil
import socket
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path

import pytest

from silas.sandbox import SandboxBackend
from silas.sandbox.bubblewrap import BubblewrapBackend, SubprocessBackend
from silas.sandbox.docker import DockerBackend
from silas.sandbox.environment import python_prefix

BACKENDS = ("bubblewrap", "subprocess", "docker")
INSTALL = {
    "bubblewrap": "apt install bubblewrap",
    "subprocess": "a kernel that allows user namespaces",
    "docker": "apt install podman runc",
}


@pytest.fixture(scope="session")
def container_socket():
    """Podman's own API service, with its storage in a temporary directory."""
    if shutil.which("podman") is None:
        pytest.skip(INSTALL["docker"])
    with contextlib.ExitStack() as stack:
        # A socket's path has to be short. Every room that imports this has a service of its own.
        home = Path(tempfile.mkdtemp(prefix="silas-podman-", dir="/tmp"))
        stack.callback(shutil.rmtree, home, ignore_errors=True)
        listening = home / "api.sock"
        service = subprocess.Popen(
            [
                *("podman", "--root", home / "root", "--runroot", home / "run"),
                *("--storage-driver", "vfs", "--cgroup-manager", "cgroupfs"),
                *("--events-backend", "file", "--runtime", "runc"),
                *("system", "service", "--time", "0", f"unix://{listening}"),
            ],
            # Where memory runs out, its monitor leaves a file `oom` in the current directory.
            cwd=home,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        stack.callback(service.wait)
        stack.callback(service.terminate)
        for _ in range(2400):
            if _listens(listening) or service.poll() is not None:
                break
            time.sleep(0.05)
        if not _listens(listening):
            pytest.skip(f"podman cannot serve its API here: {INSTALL['docker']}")
        yield str(listening)


def _listens(path: Path) -> bool:
    """Whether somebody answers there: a socket has its name before anyone listens to it."""
    with socket.socket(socket.AF_UNIX) as knocking:
        try:
            knocking.connect(str(path))
        except OSError:
            return False
    return True


@pytest.fixture(scope="session")
def container_image(container_socket) -> str:
    """An image with nothing in it: programs come from the host's /usr, read-only."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name in ("usr", "proc", "sys", "dev", "etc", "tmp", "run"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        for name in ("bin", "lib", "lib64", "sbin"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, f"usr/{name}"
            tar.addfile(entry)
    _ask(container_socket, "POST", "/images/create?fromSrc=-&repo=silas-tests", archive.getvalue())
    return json.loads(_ask(container_socket, "GET", "/images/json"))[0]["Id"]


def _ask(path: str, method: str, target: str, body: bytes = b"") -> bytes:
    connection = http.client.HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(path)
    headers = {"Content-Type": "application/x-tar", "Connection": "close"}
    connection.request(method, f"/v1.41{target}", body, headers)
    answer = connection.getresponse().read()
    connection.close()
    return answer


def make_backend(name: str, request: pytest.FixtureRequest) -> SandboxBackend:
    if name == "bubblewrap":
        return BubblewrapBackend()
    if name == "subprocess":
        return SubprocessBackend()
    return DockerBackend(
        socket=request.getfixturevalue("container_socket"),
        image=request.getfixturevalue("container_image"),
        shared=("/usr", *python_prefix()),
    )


_works: dict[str, str] = {}


async def require_backend(name: str, request: pytest.FixtureRequest) -> SandboxBackend:
    """The backend, or a skip with one line that says how to get it."""
    backend = make_backend(name, request)
    if name not in _works:
        report = await backend.probe()
        _works[name] = "" if report.available else report.reason
    if _works[name]:
        pytest.skip(f"{name}: {_works[name]} To have it: {INSTALL[name]}")
    return backend
