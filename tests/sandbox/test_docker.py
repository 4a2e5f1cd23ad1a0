"""What is special about containers."""

import asyncio
import json
import subprocess
import sys
from contextlib import asynccontextmanager

import pytest

from silas.sandbox import BackendUnavailable, ContainerEngineFailed, Limit, SandboxLimits
from silas.sandbox.docker import DockerBackend
from silas.sandbox.engine import Engine, find_socket
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
    for network, mode in ((False, "none"), (True, "bridge")):
        made = docker._container(shell("true", network=network), [])
        assert made["HostConfig"]["NetworkMode"] == mode


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
