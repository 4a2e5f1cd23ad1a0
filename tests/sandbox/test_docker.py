"""What is special about containers."""

import asyncio
import json
import subprocess
import sys
from contextlib import asynccontextmanager

import pytest
from pydantic import ValidationError

from silas.sandbox import (
    BackendUnavailable,
    CannotContain,
    ContainerEngineFailed,
    Limit,
    SandboxLimits,
    SandboxRequest,
)
from silas.sandbox.docker import DockerBackend, Engine, find_socket
from tests.sandbox.installed import require_backend
from tests.sandbox.test_backends import python, shell, until


@pytest.fixture
async def docker(request) -> DockerBackend:
    return await require_backend("docker", request)


async def containers(socket: str) -> list[dict]:
    return await Engine(socket).expect("GET", "/containers/json", all=1)


async def test_no_container_is_left(docker, container_socket):
    await docker.run(shell("true"))
    await docker.run(shell("exec sleep 100", limits=SandboxLimits(wall_seconds=0.3)))
    assert await containers(container_socket) == []


async def test_memory_is_limited(docker):
    limits = SandboxLimits(wall_seconds=120, memory_bytes=64 << 20)
    result = await docker.run(python("x = bytearray(b'x') * (200 << 20)", limits=limits))
    # Not every engine tells afterwards that it was the memory.
    assert result.exit_code == 137
    assert result.limit in {None, Limit.MEMORY}


async def test_a_request_cannot_name_a_network(docker, monkeypatch):
    """`network=container:` joins another container's network (CVE-2026-32038)."""
    made = docker._container(shell("true", network=("example.org",)), [])
    assert made["HostConfig"]["NetworkMode"] == "none"
    with pytest.raises(ValidationError):
        shell("true", network=("container:x",))


async def test_hosts_are_refused_by_an_engine_that_cannot_keep_to_them():
    with pytest.raises(CannotContain, match="listed hosts"):
        await DockerBackend().run(shell("true", network=("example.org",)))


async def test_containers_of_a_killed_silas_go_when_silas_starts_again(
    docker, container_socket, container_image, workspace
):
    program = (
        "import asyncio, json, sys\n"
        "from silas.sandbox import SandboxRequest\n"
        "from silas.sandbox.docker import DockerBackend\n"
        "fields, workspace = json.loads(sys.argv[1]), sys.argv[2]\n"
        "backend = DockerBackend(**fields)\n"
        "argv = ('sh', '-c', 'touch started; exec sleep 1000')\n"
        "request = SandboxRequest(argv=argv, cwd=workspace, write=(workspace,))\n"
        "asyncio.run(backend.run(request))\n"
    )
    fields = {"socket": container_socket, "image": container_image, "shared": docker._shared}
    silas = subprocess.Popen(  # noqa: ASYNC220 - it returns at once
        [sys.executable, "-c", program, json.dumps(fields), str(workspace)]
    )
    try:
        await until((workspace / "started").exists)
    finally:
        silas.kill()
        silas.wait()
    assert len(await containers(container_socket)) == 1
    again = DockerBackend(**fields)
    await again.run(shell("true"))
    assert await containers(container_socket) == []


async def test_an_image_that_is_not_there_is_an_error(docker, container_socket):
    backend = DockerBackend(socket=container_socket, image="silas-no-such-image")
    with pytest.raises(ContainerEngineFailed, match="silas-no-such-image"):
        await backend.run(shell("true"))


def test_the_socket_is_found(tmp_path):
    assert find_socket({"DOCKER_HOST": "unix:///x/y.sock"}) == "/x/y.sock"
    with pytest.raises(BackendUnavailable, match="only Unix sockets"):
        find_socket({"DOCKER_HOST": "tcp://127.0.0.1:2375"})


@asynccontextmanager
async def engine_that_says(answer: bytes, directory):
    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()
        await writer.wait_closed()

    # A socket's path has to be short.
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        async with await asyncio.start_unix_server(serve, "s"):
            yield Engine("s")


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n[1,2,3]", [1, 2, 3]),
        (
            CHUNKED + b"3\r\n[1,\r\n2\r\n2]\r\n0\r\n\r\n",
            [1, 2],
        ),
        (b"HTTP/1.1 200 OK\r\n\r\n{}", {}),
        (b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", None),
    ],
)
async def test_answers_are_understood(tmp_path, answer, expected):
    async with engine_that_says(answer, tmp_path) as engine:
        assert await engine.expect("GET", "/x") == expected


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"garbage\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
        CHUNKED + b"zz\r\n",
        b'HTTP/1.1 500 Oops\r\nContent-Length: 17\r\n\r\n{"message":"bad"}',
    ],
)
async def test_a_broken_engine_is_our_error(tmp_path, answer):
    async with engine_that_says(answer, tmp_path) as engine:
        with pytest.raises(ContainerEngineFailed):
            await engine.expect("GET", "/x")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nX-Long: " + b"a" * 70_000 + b"\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\n" + b"X-Many: a\r\n" * 10_000 + b"\r\n{}",
        b"a" * 200_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 70_000,
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nnot JSON!",
    ],
    ids=["one header", "many headers", "no end", "chunk", "not json"],
)
async def test_an_answer_beyond_all_limits_is_our_error(tmp_path, answer):
    async with engine_that_says(answer, tmp_path) as engine:
        with pytest.raises(ContainerEngineFailed):
            await engine.expect("GET", "/info")


async def test_headers_without_an_end_are_our_error_when_attaching(tmp_path):
    async with engine_that_says(b"a" * 200_000, tmp_path) as engine:
        with pytest.raises(ContainerEngineFailed, match="headers are too long"):
            await engine.attach("x", stdin=True)


def _framed(data: bytes) -> bytes:
    return b"\x01\0\0\0" + len(data).to_bytes(4) + data


class EngineWithOneContainer:
    """Speaks the engine's protocol; its container does with its streams what `talk` does."""

    def __init__(self, talk) -> None:
        self._talk = talk
        self._replies = {
            "/info": b"{}",
            "/containers/json": b"[]",
            "/containers/create": b"{}",
            "/wait": b"{}",
            "/json": b'{"State": {"ExitCode": 0}}',
        }

    async def serve(self, reader, writer):
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            path = head.split(b" ")[1].partition(b"?")[0].decode()
            if path.endswith("/attach"):
                writer.write(b"HTTP/1.1 101 UPGRADED\r\n\r\n")
                await self._talk(reader, writer)
            else:
                ending = [each for each in self._replies if path.endswith(each)]
                body = self._replies[ending[0]] if ending else b""
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


async def _run_with(talk, directory, *, stdin: bytes):
    limits = SandboxLimits(wall_seconds=5)
    request = SandboxRequest(
        argv=("cat",), cwd=str(directory), stdin=stdin, write=(str(directory),), limits=limits
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        serve = EngineWithOneContainer(talk).serve
        async with await asyncio.start_unix_server(serve, "s"):
            return await DockerBackend(socket="s").run(request)


async def test_a_command_that_echoes_much_input_does_not_stand_still(tmp_path):
    """It writes while it reads, as `cat` does: a client that sends first waits for ever."""

    async def echo(reader, writer):
        while data := await reader.read(65_536):
            writer.write(_framed(data))
            await writer.drain()

    text = b"0123456789abcdef" * 65_536
    result = await _run_with(echo, tmp_path, stdin=text)
    assert (result.exit_code, result.limit) == (0, None)
    assert result.stdout
    assert text.startswith(result.stdout)


async def test_a_command_that_reads_nothing_ends_all_the_same(tmp_path):
    async def says_one_thing(_reader, writer):
        writer.write(_framed(b"done"))

    result = await _run_with(says_one_thing, tmp_path, stdin=b"x" * 1_000_000)
    assert (result.exit_code, result.limit, result.stdout) == (0, None, b"done")
