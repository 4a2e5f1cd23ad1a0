"""The line *turn*: the whole turn, durable, from a message to its answer, beside `Agent.run`."""

import asyncio
import base64
import contextlib
import secrets
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_ai.models.function import FunctionModel

from silas.app.context import open_context
from silas.app.ground import Ground, OnDemandVault, make_ground
from silas.app.memory import open_memory
from silas.app.personality import open_personality
from silas.app.settings import load_settings
from silas.app.stream import Minds, Rooms, Stream, open_queue, open_stream
from silas.approval import message_bytes
from silas.evals.bench.measure import Line, medians, milliseconds, per_second
from silas.evals.bench.turn_floor import answers, library_agent, proxy_of
from silas.memory.keeper import MemoryKeeper
from silas.queue import Consumer, Handled, Lease, QueueName
from silas.queue.models import AgentReply, UserMessage
from silas.stream.delivery import Deliveries
from silas.testing import MemoryVault

_TEXT = "Good morning! Is there anything that I should know before the meeting?"
_TURNS = 60
_SCOPES = 100
_EACH = 3
_ROUNDS = 5
_NO_LIMIT = {
    "SILAS_LIMITS__WS_MESSAGES_PER_MINUTE_PER_SCOPE": "1000000",
    "SILAS_LIMITS__LLM_CALLS_PER_MINUTE_PER_SCOPE": "1000000",
    "SILAS_BACKPRESSURE__MAX_PENDING_TURNS_TOTAL": "100000",
}


@dataclass(frozen=True)
class Parlour:
    """A conversation with everything that takes part in a turn, and a model that costs nothing."""

    ground: Ground
    stream: Stream
    waiting: dict[str, "asyncio.Future[None]"]

    async def turn(self, scope: str) -> float:
        """One turn from the signed message to its kept answer; returns the seconds."""
        message_id = self.ground.ids.new("msg")
        said = _signed(self.ground, scope)
        done = self.waiting[message_id] = asyncio.get_running_loop().create_future()
        begun = time.perf_counter()
        await self.stream.intake.accept(_TEXT, said, message_id=message_id)
        await done
        return time.perf_counter() - begun

    def in_turn(self, scope: str) -> Callable[[], Awaitable[float]]:
        """The turns of one conversation."""
        return lambda: self.turn(scope)


@contextlib.asynccontextmanager
async def open_parlour(folder: Path) -> AsyncIterator[Parlour]:
    """The house as `silas start` wires it, without the extra `vector` and without web page."""
    (folder / "data").mkdir()
    loaded = load_settings(
        data_dir=str(folder / "data"), config_file=None, environ=_NO_LIMIT, cwd=folder
    )
    vault: Any = MemoryVault()
    minds = Minds(proxy=proxy_of(FunctionModel(answers)))
    async with contextlib.AsyncExitStack() as stack:
        ground = await stack.enter_async_context(make_ground(loaded, OnDemandVault(lambda: vault)))
        ground.keys.generate_keypair()
        memory = await stack.enter_async_context(open_memory(ground, vectors=False))
        queue = open_queue(ground)
        rooms = Rooms(
            memory=MemoryKeeper(memory.memories, memory.retriever),
            context=open_context(ground, memory=memory),
            personality=open_personality(ground),
        )
        stream = await stack.enter_async_context(
            open_stream(ground, minds, rooms=rooms, queue=queue)
        )
        parlour = Parlour(ground, stream, {})
        deliver = _Telling(Deliveries(ground.database, ground.clock), parlour)
        channel = Consumer("channel", QueueName.CHANNEL, deliver, queue, concurrency=32)
        task = asyncio.create_task(channel.run())
        try:
            yield parlour
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


class _Telling:
    """Keeps the answer as the house does, and tells whoever waits for it."""

    def __init__(self, deliveries: Deliveries, parlour: Parlour) -> None:
        self._deliveries = deliveries
        self._parlour = parlour

    async def __call__(self, lease: Lease) -> Handled:
        reply = lease.message.payload
        if isinstance(reply, AgentReply) and reply.in_reply_to in self._parlour.waiting:
            self._parlour.waiting.pop(reply.in_reply_to).set_result(None)
        return await self._deliveries(lease)


def _signed(ground: Ground, scope: str) -> UserMessage:
    now, nonce = ground.clock.now(), secrets.token_hex(16)
    _, signature = ground.keys.sign(message_bytes(text=_TEXT, timestamp=now, nonce=nonce))
    return UserMessage(
        channel="bench",
        connection_id=scope,
        sender_id=scope,
        timestamp=now,
        signature=base64.b64encode(signature).decode(),
        nonce=nonce,
    )


async def measure(folder: Path) -> list[Line]:
    """The time of one turn, and how many a second a hundred conversations get."""
    agent = library_agent(FunctionModel(answers))
    numbers = iter(range(10_000_000))

    async def bare() -> float:
        begun = time.perf_counter()
        await agent.run(_TEXT)
        return time.perf_counter() - begun

    async with open_parlour(folder) as parlour:
        got = await medians(
            {
                "bare": lambda: _p50(bare),
                "ours": lambda: _p50(parlour.in_turn(f"one-{next(numbers)}")),
                "bare work": lambda: _work(bare),
                "our work": lambda: _work(parlour.in_turn(f"one-{next(numbers)}")),
                "bare rate": lambda: _rate(bare),
                "our rate": lambda: _rate(lambda: parlour.turn(f"many-{next(numbers) % _SCOPES}")),
            },
            repeat=_ROUNDS,
        )
    ratio = got["our rate"] / got["bare rate"]
    return [
        Line(
            "turn",
            "one turn, p50",
            milliseconds(got["ours"]),
            f"bare Agent.run {milliseconds(got['bare'])}",
            got["ours"] / got["bare"],
            1.2,
            at_least=False,
        ),
        Line(
            "turn",
            "one turn, CPU time of all threads",
            milliseconds(got["our work"]),
            f"bare Agent.run {milliseconds(got['bare work'])}",
            got["our work"] / got["bare work"],
            1.2,
            at_least=False,
        ),
        Line(
            "turn",
            f"{_SCOPES} conversations",
            per_second(got["our rate"]),
            f"bare Agent.run {per_second(got['bare rate'])}",
            ratio,
            0.85,
            at_least=True,
        ),
    ]


async def _p50(call: Callable[[], Awaitable[float]]) -> float:
    return statistics.median([await call() for _ in range(_TURNS)])


async def _work(call: Callable[[], Awaitable[float]]) -> float:
    """The time that the processor worked for one, which a busy machine changes little."""
    begun = time.process_time()
    for _ in range(_TURNS):
        await call()
    return (time.process_time() - begun) / _TURNS


async def _rate(call: Callable[[], Awaitable[float]]) -> float:
    async def talk() -> None:
        for _ in range(_EACH):
            await call()

    begun = time.perf_counter()
    await asyncio.gather(*(talk() for _ in range(_SCOPES)))
    return _SCOPES * _EACH / (time.perf_counter() - begun)
