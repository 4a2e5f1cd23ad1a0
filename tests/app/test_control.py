"""The control socket: for its owner alone, with limits, and with answers to bad questions."""

import asyncio
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

from silas.app import control
from silas.app.control import ControlServer, SocketNotMade
from silas.app.instance import (
    MAX_MESSAGE,
    NotRunning,
    ServerRefused,
    ServerSilent,
    call_server,
    short_path,
)
from silas.app.paths import Paths
from silas.app.peers import peer_user
from silas.kernel import ApprovalError, ServerError

SECONDS = 30.0


async def echo(params: dict[str, Any]) -> Any:
    return params


async def refuse(params: dict[str, Any]) -> Any:
    raise ApprovalError("Not like this.", token="tok_1", **params)


async def crash(params: dict[str, Any]) -> Any:
    raise LookupError("a secret of the server's own")


async def unwritable(params: dict[str, Any]) -> Any:
    return object()


async def hang(params: dict[str, Any]) -> Any:
    await asyncio.Event().wait()


HANDLERS = {
    "echo": echo,
    "refuse": refuse,
    "crash": crash,
    "unwritable": unwritable,
    "hang": hang,
}


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(data_dir=tmp_path, config_file=tmp_path / "silas.yaml")


@pytest.fixture
async def server(paths: Paths) -> AsyncIterator[ControlServer]:
    server = ControlServer(HANDLERS, seconds=SECONDS)
    async with server.listening(paths.socket):
        yield server


async def call(paths: Paths, method: str, params: dict[str, Any] | None = None) -> Any:
    return await asyncio.to_thread(call_server, paths, method, params)


async def send_raw(paths: Paths, sent: bytes) -> list[dict[str, Any]]:
    """Send these bytes, say no more, and return all answers."""
    reader, writer = await asyncio.open_unix_connection(paths.socket)
    writer.write(sent)
    writer.write_eof()
    try:
        received = await reader.read()
    except ConnectionResetError:
        received = b""
    writer.close()
    return [json.loads(line) for line in received.splitlines()]


@pytest.mark.usefixtures("server")
async def test_a_question_and_its_answer(paths: Paths) -> None:
    params = {"text": "Grüße \U0001f600", "numbers": [1, 2.5, None, True]}
    assert await call(paths, "echo", params) == params
    assert await call(paths, "echo") == {}


@pytest.mark.usefixtures("server")
async def test_several_questions_on_one_connection(paths: Paths) -> None:
    line = b'{"method":"echo","params":{"n":%d}}\n'
    answers = await send_raw(paths, b"".join(line % n for n in range(5)))
    assert answers == [{"result": {"n": n}} for n in range(5)]


@pytest.mark.usefixtures("server")
async def test_many_callers_at_once(paths: Paths) -> None:
    answers = await asyncio.gather(*(call(paths, "echo", {"n": n}) for n in range(20)))
    assert answers == [{"n": n} for n in range(20)]


@pytest.mark.usefixtures("server")
async def test_a_refusal_keeps_its_code_and_its_words(paths: Paths) -> None:
    with pytest.raises(ServerRefused, match="Not like this") as caught:
        await call(paths, "refuse")
    answer = caught.value.details["answer"]
    assert answer["code"] == "E_APPROVAL_INVALID"
    assert answer["details"] == {"token": "tok_1"}


async def test_details_that_cannot_be_written_are_left_out(paths: Paths) -> None:
    async def refuse_oddly(params: dict[str, Any]) -> Any:
        raise ApprovalError("Not like this.", token=object())

    async with ControlServer({"refuse": refuse_oddly}).listening(paths.socket):
        with pytest.raises(ServerRefused, match="Not like this") as caught:
            await call(paths, "refuse")
    assert "details" not in caught.value.details["answer"]


@pytest.mark.parametrize("method", ["crash", "unwritable"])
@pytest.mark.usefixtures("server")
async def test_a_defect_is_answered_without_its_inner_life(paths: Paths, method: str) -> None:
    with pytest.raises(ServerRefused) as caught:
        await call(paths, method)
    answer = caught.value.details["answer"]
    assert answer["code"] == "E_INTERNAL"
    assert "secret" not in json.dumps(answer)
    assert await call(paths, "echo") == {}


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"hello",
        b"[]",
        b"{}",
        b'{"method":"echo"}',
        b'{"method":"echo","params":[]}',
        b'{"method":"echo","params":null}',
        b'{"method":"echo","params":{},"id":1}',
        b'{"method":"nothing","params":{}}',
        b'{"method":["echo"],"params":{}}',
        b'{"method":"echo","method":"echo","params":{}}',
        b'{"method":"echo","params":{"a":1,"a":2}}',
        b'{"method":"echo","params":{"n":NaN}}',
        b'{"method":"echo","params":{"n":1e999}}',
        b"\xff\xfe",
        b"[" * 5000,
    ],
)
@pytest.mark.usefixtures("server")
async def test_a_bad_request_gets_a_clear_answer_and_may_be_followed_by_a_good_one(
    paths: Paths, line: bytes
) -> None:
    bad, good = await send_raw(paths, line + b'\n{"method":"echo","params":{}}\n')
    assert bad["error"]["code"] == "E_SERVER_BAD_REQUEST"
    assert "one line of JSON with `method` and `params`" in bad["error"]["message"]
    assert good == {"result": {}}


@pytest.mark.usefixtures("server")
async def test_the_methods_are_named_to_whoever_asks_for_another(paths: Paths) -> None:
    with pytest.raises(ServerRefused, match="crash, echo, hang, refuse, unwritable"):
        await call(paths, "other")


@pytest.mark.usefixtures("server")
async def test_a_line_has_a_greatest_length(paths: Paths) -> None:
    (answer,) = await send_raw(paths, b"x" * (MAX_MESSAGE + 1000))
    assert answer["error"]["message"] == "The request is too long."
    fits = {"text": "x" * (MAX_MESSAGE - 1000)}
    assert await call(paths, "echo", fits) == fits


@pytest.mark.usefixtures("server")
async def test_half_a_line_gets_no_answer(paths: Paths) -> None:
    assert await send_raw(paths, b'{"method":"echo","params":{}}') == []
    assert await call(paths, "echo") == {}


async def test_a_request_has_a_greatest_duration(paths: Paths) -> None:
    for seconds in (0.01, 1, 10):
        async with ControlServer(HANDLERS, seconds=seconds).listening(paths.socket):
            with pytest.raises(ServerError) as ended:
                await call(paths, "hang")
        if ended.type is ServerRefused:  # else, on a busy machine, it was closed before it asked
            break
    assert "took too long" in str(ended.value)


async def test_a_silent_connection_is_closed(paths: Paths) -> None:
    async with ControlServer(HANDLERS, seconds=0.01).listening(paths.socket):
        reader, writer = await asyncio.open_unix_connection(paths.socket)
        assert await reader.read() == b""
        writer.close()


@pytest.mark.usefixtures("server")
async def test_there_is_a_greatest_number_of_connections(paths: Paths) -> None:
    connections = []
    line = b'{"method":"echo","params":{}}\n'
    answers = []
    for _ in range(33):
        reader, writer = await asyncio.open_unix_connection(paths.socket)
        connections.append(writer)
        writer.write(line)
        answers.append(json.loads(await reader.readline()))
    assert answers[:32] == [{"result": {}}] * 32
    assert answers[32]["error"]["code"] == "E_SERVER_CROWDED"
    for writer in connections:
        writer.close()


async def test_the_socket_is_the_owner_s_alone_and_goes_with_the_server(paths: Paths) -> None:
    before = os.umask(0)
    try:
        async with ControlServer(HANDLERS).listening(paths.socket):
            assert stat.S_IMODE(paths.socket.stat().st_mode) == 0o600
    finally:
        os.umask(before)
    assert not paths.socket.exists()
    with pytest.raises(NotRunning):
        await call(paths, "echo")


@pytest.mark.usefixtures("server")
async def test_a_caller_of_another_user_is_refused(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer of the operating system is replaced: a second user is not always at hand."""
    for stranger in (os.getuid() + 1, None):
        monkeypatch.setattr(control, "peer_user", lambda _connection, who=stranger: who)
        assert await send_raw(paths, b'{"method":"echo","params":{}}\n') == []
    monkeypatch.undo()
    assert await call(paths, "echo") == {}


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become another user")
@pytest.mark.usefixtures("server")
async def test_another_user_is_refused_even_where_the_files_let_him_in(
    paths: Paths, tmp_path: Path
) -> None:
    ask = (
        "import os, socket, sys\n"
        "s = socket.socket(socket.AF_UNIX); fd = os.open(sys.argv[1], os.O_PATH)\n"
        "os.setuid(65534)\n"
        "s.connect(f'/proc/self/fd/{fd}/silas.sock')\n"
        "try:\n"
        ' s.sendall(b\'{"method":"echo","params":{}}\\n\')\n'
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
    async with ControlServer(HANDLERS).listening(paths.socket):
        assert await call(paths, "echo") == {}


async def test_what_is_no_socket_is_left_alone(paths: Paths) -> None:
    paths.socket.write_text("precious")
    with pytest.raises(SocketNotMade, match="is no socket"):
        async with ControlServer(HANDLERS).listening(paths.socket):
            pass
    assert paths.socket.read_text() == "precious"


@pytest.mark.parametrize("length", [90, 200])
async def test_a_long_way_to_the_data_is_no_obstacle(tmp_path: Path, length: int) -> None:
    data_dir = tmp_path / ("x" * length) / ("y" * length)
    data_dir.mkdir(parents=True)
    paths = Paths(data_dir=data_dir, config_file=data_dir / "silas.yaml")
    async with ControlServer(HANDLERS).listening(paths.socket):
        assert await call(paths, "echo", {"n": 1}) == {"n": 1}
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


def test_without_a_server(paths: Paths) -> None:
    with pytest.raises(NotRunning, match="silas start"):
        call_server(paths, "echo")


@pytest.mark.parametrize(
    "answer", [b"", b"nonsense\n", b'{"result":1', b"[]\n", b"{}\n", b'{"error":1}\n']
)
async def test_a_server_that_makes_no_sense(paths: Paths, answer: bytes) -> None:
    async def mumble(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        writer.close()

    server = await asyncio.start_unix_server(mumble, paths.socket)
    with pytest.raises(ServerSilent):
        await call(paths, "echo")
    server.close()


async def test_a_server_that_says_nothing_is_not_waited_for_for_ever(paths: Paths) -> None:
    listening = socket.socket(socket.AF_UNIX)
    with listening:
        listening.bind(str(paths.socket))
        listening.listen()
        with pytest.raises(ServerSilent, match="timed out"):
            await asyncio.to_thread(call_server, paths, "echo", timeout=0.01)


async def test_at_the_end_open_connections_are_closed(paths: Paths) -> None:
    begun = asyncio.Event()

    async def hang_from_now_on(params: dict[str, Any]) -> Any:
        begun.set()
        await hang(params)

    handlers = {**HANDLERS, "hang": hang_from_now_on}
    async with ControlServer(handlers).listening(paths.socket):
        waiting = asyncio.create_task(call(paths, "hang"))
        await begun.wait()
        reader, writer = await asyncio.open_unix_connection(paths.socket)
        assert await call(paths, "echo") == {}
    assert await reader.read() == b""
    writer.close()
    with pytest.raises(ServerSilent):
        await waiting
