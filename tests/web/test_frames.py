"""Ten thousand frames that make no sense, over real sockets: each gets a clear answer, none stays.

`SILAS_FUZZ_FRAMES` says how many.
"""

import asyncio
import gc
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from silas.web.wire import FROM_PAGE
from tests.web.place import Place, TestDevice

pytestmark = pytest.mark.slow
FRAMES = int(os.environ.get("SILAS_FUZZ_FRAMES", "10000"))
AT_ONCE = 20
"""So many, and the conversation ends."""
TYPES = sorted(FROM_PAGE.json_schema()["discriminator"]["mapping"])
ODD: list[Any] = [
    None, True, -1, 2**80, 1e308, "", "x" * 5000, "\u0000", "\u202e", [], {}, [[[[]]]],
    {"type": "ping"}, "NaN", "../../etc/passwd", "'; DROP TABLE said; --", "<script>",
]  # fmt: skip


def nonsense(chance: random.Random) -> str | bytes:
    """One frame that is no frame."""
    kind = chance.choice(TYPES)
    fields = {name: chance.choice(ODD) for name in chance.sample(["text", "nonce", "x"], 2)}
    whole = json.dumps({"type": kind, "request_id": chance.choice(ODD), "unknown": 1, **fields})
    made: list[str | bytes] = [
        whole,
        whole[: chance.randrange(1, len(whole))],
        whole + whole,
        whole.replace('"type"', '"type": 1, "type"', 1),
        "[" * chance.randrange(1, 5000),
        '{"a":' * chance.randrange(1, 3000),
        chance.choice(["", " ", "null", "[]", "1e999", "NaN", '"ping"', "\ufeff{}", "{}\n{}"]),
        json.dumps({"type": chance.choice(ODD)}),
        "".join(chr(chance.randrange(32, 0x2FFF)) for _ in range(chance.randrange(200))),
        chance.randbytes(chance.randrange(200)),
        whole.encode(),
    ]
    return chance.choice(made)


async def one_conversation(device: TestDevice, frames: list[str | bytes]) -> None:
    async with device.socket() as socket:
        hello = json.loads(await socket.recv())
        await socket.send(json.dumps(device.auth(hello["challenge"])))
        while json.loads(await socket.recv())["type"] != "attention":
            pass
        for frame in frames:
            await socket.send(frame)
        for frame in frames:
            answer = json.loads(await socket.recv())
            assert (answer["type"], answer["code"]) == ("error", "E_CHANNEL_FRAME"), frame
            assert answer["message"] == "This frame is not part of the protocol."
        with pytest.raises(ConnectionClosed):
            await socket.recv()
        assert socket.close_code == 1008


def running() -> int:
    return len(asyncio.all_tasks())


def memory() -> int:
    """What this process holds, in bytes."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


async def test_every_one_is_answered_and_nothing_is_left(place: Place, device: TestDevice) -> None:
    chance = random.Random(20_260_101)
    await one_conversation(device, [nonsense(chance) for _ in range(AT_ONCE)])
    tasks, before = running(), memory()
    for _ in range(0, FRAMES, 4 * AT_ONCE):
        lots = [[nonsense(chance) for _ in range(AT_ONCE)] for _ in range(4)]
        await asyncio.gather(*(one_conversation(device, lot) for lot in lots))
    async with asyncio.timeout(60):  # no page and no task stays behind
        while place.web.hub.pages or running() > tasks + 4:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
    assert memory() - before < 48 * 2**20, "no frame stays behind"
    async with device.conversation() as line:
        await line.send({"type": "ping"})
        await line.until("pong")


@pytest.mark.parametrize("first", ["", "{}", "null", '{"type":"message"}', b"\xff\xfe", "[" * 9000])
async def test_nonsense_instead_of_a_signature_is_sent_away(
    place: Place, first: str | bytes
) -> None:
    async with TestDevice(place.address).socket() as socket:
        await socket.recv()
        await socket.send(first)
        with pytest.raises(ConnectionClosed):
            await socket.recv()
        assert socket.close_code == 4001


async def test_a_frame_that_is_too_long_ends_the_conversation(device: TestDevice) -> None:
    async with device.conversation() as line:
        await line.socket.send("x" * 300_000)
        await line.socket.wait_closed()
        assert line.socket.close_code == 1009
