"""The owner's socket: for its owner alone, with limits, and with answers to bad questions."""

import asyncio
import contextlib
import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from silas.app import client
from silas.app.client import NotRunning, ServerRefused, ServerSilent, call_server
from silas.kernel import ApprovalError, JournalError, ServerError, SilasError
from silas.settings.paths import Paths
from silas.web import owner_socket as served
from silas.web.api import CommandGroup, ProcessApi
from silas.web.commands import ApiCommand
from silas.web.errors import (
    InvalidRequest,
    RequestTimedOut,
    SocketNotMade,
    TooManyConnections,
)
from silas.web.owner_socket import owner_socket
from silas.web.peers import peer_user, short_path


class Target:
    """What the commands of these tests are done with."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()

    async def echo(self, text: str = "", numbers: tuple[float | None, ...] = ()) -> dict[str, Any]:
        return {"text": text, "numbers": numbers}

    async def refuse(self, why: str) -> None:
        raise ApprovalError(why, token="tok_1")

    async def refuse_oddly(self) -> None:
        raise ApprovalError("Not like this.", token=object())

    async def crash(self) -> None:
        raise LookupError("a secret of the server's own")

    async def hang(self) -> None:
        self.begun.set()
        await asyncio.Event().wait()


COMMANDS = tuple(
    ApiCommand(each)
    for each in (Target.echo, Target.refuse, Target.refuse_oddly, Target.crash, Target.hang)
)


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(data_dir=tmp_path, config_file=tmp_path / "silas.yaml")


@contextlib.asynccontextmanager
async def listening(paths: Paths, **more: Any) -> AsyncIterator[Target]:
    api, target = ProcessApi(), Target()
    api.add(CommandGroup("/api/test", COMMANDS, target))
    async with owner_socket(api, paths.socket, **more):
        yield target


@pytest_asyncio.fixture(loop_scope="session")
async def target(paths: Paths) -> AsyncIterator[Target]:
    async with listening(paths) as target:
        yield target


async def call(paths: Paths, name: str, /, **body: Any) -> Any:
    return await asyncio.to_thread(call_server, paths, f"/api/test/{name}", body)


async def send_raw(paths: Paths, sent: bytes) -> bytes:
    """Send these bytes and return all that comes until the other side closes."""
    with short_path(paths.socket) as address:
        reader, writer = await asyncio.open_unix_connection(address)
    try:
        writer.write(sent)
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


def request(body: bytes, *, length: int | None = None, name: str = "echo") -> bytes:
    head = f"POST /api/test/{name} HTTP/1.1\r\nHost: silas\r\nConnection: close\r\n"
    size = len(body) if length is None else length
    return f"{head}Content-Length: {size}\r\nContent-Type: application/json\r\n\r\n".encode() + body


@pytest.mark.usefixtures("target")
async def test_a_question_and_its_answer(paths: Paths) -> None:
    asked = {"text": "Grüße \U0001f600", "numbers": [1, 2.5, None]}
    assert await call(paths, "echo", **asked) == asked
    answers = await asyncio.gather(*(call(paths, "echo", text=str(n)) for n in range(20)))
    assert [each["text"] for each in answers] == [str(n) for n in range(20)]


@pytest.mark.usefixtures("target")
async def test_an_error_comes_out_as_it_was(paths: Paths) -> None:
    with pytest.raises(ApprovalError, match=r"^Not like this\.$") as caught:
        await call(paths, "refuse", why="Not like this.")
    assert (caught.value.exit_code, caught.value.details) == (40, {"token": "tok_1"})
    with pytest.raises(ApprovalError, match=r"^Not like this\.$") as caught:
        await call(paths, "refuse_oddly")
    assert caught.value.details == {}


@pytest.mark.usefixtures("target")
async def test_an_error_that_nobody_here_knows_is_told_in_its_words(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_kinds", dict)
    with pytest.raises(ServerRefused, match="Not like this") as caught:
        await call(paths, "refuse", why="Not like this.")
    assert caught.value.details["answer"]["code"] == "E_APPROVAL_INVALID"


def test_every_error_with_a_code_of_its_own_can_be_made_again() -> None:
    for kind in client._kinds().values():
        again = client._as_it_was({"detail": "So it is.", "code": kind.code, "details": {"a": 1}})
        assert (type(again), again.message, again.details) == (kind, "So it is.", {"a": 1})
    assert {JournalError, ServerError} <= set(client._kinds().values())


@pytest.mark.usefixtures("target")
async def test_a_defect_is_answered_without_its_inner_life(paths: Paths) -> None:
    with pytest.raises(ServerRefused) as caught:
        await call(paths, "crash")
    assert caught.value.details["answer"]["code"] == SilasError.code
    assert "secret" not in json.dumps(caught.value.details["answer"])
    assert (await call(paths, "echo"))["text"] == ""


BAD_BODIES = {
    "nothing": b"",
    "no JSON": b"hello",
    "a list": b"[]",
    "null": b"null",
    "an unknown argument": b'{"loud":true}',
    "text that is a number": b'{"text":1}',
    "numbers that are text": b'{"numbers":"12"}',
    "a number that is text": b'{"numbers":["1"]}',
    "half of an object": b'{"text":',
    "no text at all": b"\xff\xfe",
    "half of a character": b'{"text":"\\ud800"}',
}


@pytest.mark.parametrize("case", BAD_BODIES)
@pytest.mark.usefixtures("target")
async def test_a_bad_request_gets_a_clear_answer(paths: Paths, case: str) -> None:
    answer = await send_raw(paths, request(BAD_BODIES[case]))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 422 ")
    assert json.loads(body)["code"] == InvalidRequest.code


@pytest.mark.usefixtures("target")
async def test_until_silas_is_open_everything_else_is_asked_too_early(paths: Paths) -> None:
    with pytest.raises(ServerError, match="just starting or stopping"):
        await asyncio.to_thread(call_server, paths, "/api/companions/list")
    with pytest.raises(ServerError, match="just starting or stopping"):
        await call(paths, "nothing")


@pytest.mark.usefixtures("target")
async def test_a_request_has_a_greatest_length(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "MAX_BODY_BYTES", 1000)
    with pytest.raises(InvalidRequest, match=r"^The request is too long\.$"):
        await call(paths, "echo", text="x" * 2000)
    assert b"too long" in await send_raw(paths, request(b"", length=10**12))
    assert len((await call(paths, "echo", text="x" * 900))["text"]) == 900


async def test_a_request_has_a_greatest_duration(paths: Paths) -> None:
    async with listening(paths, seconds=0.05):
        with pytest.raises(RequestTimedOut, match="took too long"):
            await call(paths, "hang")


async def test_there_is_a_greatest_number_of_requests(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "_MAX_REQUESTS", 1)
    async with listening(paths) as target:
        waiting = asyncio.create_task(call(paths, "hang"))
        await target.begun.wait()
        with pytest.raises(TooManyConnections):
            await call(paths, "echo")
    with pytest.raises(ServerSilent):
        await waiting


async def test_the_socket_is_the_owner_s_alone_and_goes_with_the_server(paths: Paths) -> None:
    before = os.umask(0)
    try:
        async with listening(paths):
            assert stat.S_IMODE(paths.socket.stat().st_mode) == 0o600
    finally:
        os.umask(before)
    assert not paths.socket.exists()
    with pytest.raises(NotRunning, match="silas start"):
        await call(paths, "echo")


@pytest.mark.usefixtures("target")
async def test_a_caller_of_another_user_is_refused(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer of the operating system is replaced: a second user is not always at hand."""
    for stranger in (os.getuid() + 1, None):
        monkeypatch.setattr(served, "peer_user", lambda _connection, who=stranger: who)
        assert await send_raw(paths, request(b"{}")) == b""
    monkeypatch.undo()
    assert (await call(paths, "echo"))["text"] == ""


@pytest.mark.usefixtures("target")
async def test_nothing_is_sent_to_a_server_of_another_user(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "peer_user", lambda _connection: None)
    with pytest.raises(ServerError, match="Nothing was sent"):
        await call(paths, "echo")


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become another user")
@pytest.mark.usefixtures("target")
async def test_another_user_is_refused_even_where_the_files_let_him_in(
    paths: Paths, tmp_path: Path
) -> None:
    ask = (
        "import os, socket, sys\n"
        "s = socket.socket(socket.AF_UNIX); fd = os.open(sys.argv[1], os.O_PATH)\n"
        "os.setuid(65534)\n"
        "s.connect(f'/proc/self/fd/{fd}/silas.sock')\n"
        "try:\n"
        " s.sendall(b'POST /api/test/echo HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n')\n"
        " print(s.recv(100))\n"
        "except ConnectionError:\n"
        " print(b'')\n"
    )
    paths.socket.chmod(0o777)
    paths.data_dir.chmod(0o755)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", ask, str(tmp_path), stdout=subprocess.PIPE
    )
    said, _ = await process.communicate()
    assert said == b"b''\n"


def test_the_system_says_who_is_at_the_other_end() -> None:
    one, other = socket.socketpair(socket.AF_UNIX)
    with one, other:
        assert peer_user(one) == os.getuid()
    assert peer_user(one) is None
    with socket.socket(socket.AF_INET) as unconnected:
        assert peer_user(unconnected) in {None, os.getuid(), 2**32 - 1, -1}


async def test_a_stale_socket_is_replaced(paths: Paths) -> None:
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(paths.socket))
    with pytest.raises(NotRunning):
        await call(paths, "echo")
    async with listening(paths):
        assert (await call(paths, "echo"))["text"] == ""


async def test_what_is_no_socket_is_left_alone(paths: Paths) -> None:
    paths.socket.write_text("precious")
    with pytest.raises(SocketNotMade, match="is no socket"):
        async with listening(paths):
            pass
    assert paths.socket.read_text() == "precious"


@pytest.mark.parametrize("length", [90, 200])
async def test_a_long_way_to_the_data_is_no_obstacle(tmp_path: Path, length: int) -> None:
    data_dir = tmp_path / ("x" * length) / ("y" * length)
    data_dir.mkdir(parents=True)
    paths = Paths(data_dir=data_dir, config_file=data_dir / "silas.yaml")
    async with listening(paths):
        assert (await call(paths, "echo", text="1"))["text"] == "1"
        assert stat.S_IMODE(paths.socket.stat().st_mode) == 0o600
    assert list(data_dir.iterdir()) == []


def test_elsewhere_a_long_way_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with (
        pytest.raises(ServerError, match="shorter `--data-dir`"),
        short_path(tmp_path / ("x" * 99)),
    ):
        pass


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"nonsense\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{",
        b"HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 404 No\r\nContent-Length: 12\r\n\r\n{\"detail\":1}",
    ],
)  # fmt: skip
async def test_a_server_that_makes_no_sense(paths: Paths, answer: bytes) -> None:
    async def mumble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_unix_server(mumble, paths.socket)
    with pytest.raises(ServerSilent):
        await call(paths, "echo")
    server.close()


async def test_a_server_that_says_nothing_is_not_waited_for_for_ever(paths: Paths) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(paths.socket))
        silent.listen()
        with pytest.raises(ServerSilent, match="It timed out"):
            await asyncio.to_thread(call_server, paths, "/api/test/echo", timeout=0.01)
