"""The lines *turn floor*, *turn* and *decision*.

*turn floor* is what asking a model costs before the model itself, beside the library; *turn* is the
whole turn, durable, from a message to its answer, beside `Agent.run`; *decision* is what follows
from the owner's word, with much in the audit log beside little.
"""

import asyncio
import base64
import contextlib
import gc
import json
import secrets
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_ai import Agent, NativeOutput
from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.toolsets import FunctionToolset
from pydantic_ai.usage import RequestUsage

from evals.bench.measure import Line, medians, milliseconds, per_second
from silas.agents.models.choices import OutputMode, Role
from silas.agents.models.factory import RoleModel
from silas.agents.proxy import ProxyAgent
from silas.app.agents import Agents
from silas.app.context import open_context, open_memory, open_personality
from silas.app.conversation import Stream, TurnServices, open_stream
from silas.app.core import Core, make_core
from silas.app.runtime import Runtime, open_runtime
from silas.approval import ApprovalDecision, ApprovalVerdict, message_bytes
from silas.kernel import TaintLevel
from silas.memory.service import MemoryService
from silas.queue import QueueMessage, QueueName
from silas.queue.models import AgentReply, UserMessage
from silas.secrets import OnDemandVault
from silas.settings.load import load_settings
from silas.stream.delivery import Deliveries
from silas.stream.models import AgentTurn, RouteDecision
from silas.testing import MemoryVault
from silas.tools.declaration import ToolOffer
from silas.tools.execution import ModelView

_CALLS = 40
_TOOL = "memory_search"
_ANSWER_TEXT = "Good morning."
_ANSWER = json.dumps(
    {
        "reason": "a greeting",
        "route": "direct",
        "interaction_register": "status",
        "interaction_mode": "default_and_offer",
        "context_profile": "conversation",
        "continuation_of": None,
        "response": {"message": _ANSWER_TEXT},
    }
)
_USAGE = RequestUsage(input_tokens=1000, output_tokens=100)
_TURN = AgentTurn(
    scope_id="owner",
    trace_id="trace",
    request="Good morning!",
    taint=TaintLevel.OWNER,
    max_tokens=100_000,
    max_cost_usd=1.0,
)
_COMPARED = (
    ("proxy, no tools", "proxy", "direct", "direct.model_request", 6.0),
    ("proxy, no tools", "proxy", "agent", "Agent.run, structured", 0.25),
    ("proxy, tools on offer", "offered", "agent", "Agent.run, structured", 0.4),
    ("proxy, one tool call", "proxy_tool", "agent_tool", "Agent.run + a tool", 1.25),
)


class _Tools:
    """`ToolCaller` with one tool that finds nothing."""

    reviewer = None

    def __init__(self, *names: str) -> None:
        self.names = names
        self.offers = tuple(
            ToolOffer(
                name=name,
                description="Looks something up.",
                parameters={"type": "object", "properties": {"query": {"type": "string"}}},
                contained=True,
                changes_state=False,
            )
            for name in names
        )

    async def call(self, tool: str, args: Mapping[str, Any]) -> ModelView:
        return ModelView(
            success=True, return_value="nothing", content=[], error=None, taint=TaintLevel.OWNER
        )


async def answers(_messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
    """A model that costs nothing, says good morning, and says what it used."""
    return ModelResponse(parts=[TextPart(_ANSWER)], usage=_USAGE)


async def _looks_first(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
    if len(messages) == 1:
        return ModelResponse(parts=[ToolCallPart(_TOOL, {"query": "x"})])
    return ModelResponse(parts=[TextPart(_ANSWER)])


async def memory_search(query: str) -> str:
    """Look something up."""
    return f"nothing about {query}"


async def measure_turn_floor(_folder: Path) -> list[Line]:
    """Our proxy beside the library's agent: no tools, tools on offer, and one tool call."""
    says, looks = FunctionModel(answers), FunctionModel(_looks_first)
    plain = library_agent(says)
    tooled = library_agent(looks, FunctionToolset([memory_search]))
    ours, ours_looking = proxy_of(says), proxy_of(looks)
    request = [ModelRequest.user_text_prompt("Good morning!")]
    none, one = _Tools(), _Tools(_TOOL)
    got = await medians(
        {
            "direct": lambda: _timed(lambda: model_request(says, request)),
            "agent": lambda: _timed(lambda: plain.run("Good morning!")),
            "proxy": lambda: _timed(lambda: ours.route(_TURN, none)),
            "offered": lambda: _timed(lambda: ours.route(_TURN, one)),
            "agent_tool": lambda: _timed(lambda: tooled.run("Good morning!")),
            "proxy_tool": lambda: _timed(lambda: ours_looking.route(_TURN, one)),
        }
    )
    return [
        Line(
            "turn floor",
            what,
            milliseconds(got[mine]),
            f"{named} {milliseconds(got[other])}",
            got[mine] / got[other],
            goal,
            at_least=False,
        )
        for what, mine, other, named, goal in _COMPARED
    ]


def library_agent(model: FunctionModel, *toolsets: FunctionToolset[None]) -> Agent[None, Any]:
    """The library's own agent for the same decision."""
    return Agent(
        model,
        output_type=NativeOutput(RouteDecision),
        instructions="Decide who answers.",
        toolsets=[*toolsets],
    )


def proxy_of(model: FunctionModel) -> ProxyAgent:
    """Our proxy with this model."""
    player = RoleModel(
        role=Role.PROXY,
        model=model,
        settings=ModelSettings(),
        output_mode=OutputMode.NATIVE,
        name="function",
    )
    return ProxyAgent(player, profiles=("conversation",), default_profile="conversation")


async def _timed(call: Callable[[], Awaitable[object]]) -> float:
    begun = time.perf_counter()
    for _ in range(_CALLS):
        await call()
    return (time.perf_counter() - begun) / _CALLS


_TEXT = "Good morning! Is there anything that I should know before the meeting?"
_TURNS = 60
_LONG = 1000
"""With those before them, more than a conversation had when its answers ended, once."""
_DECISIONS = 12
_BUSY_DAY = 20_000
_SCOPES = 100
_EACH = 3
_ROUNDS = 5
_NO_LIMIT = {
    "SILAS_LIMITS__WS_MESSAGES_PER_MINUTE_PER_SCOPE": "1000000",
    "SILAS_LIMITS__MESSAGES_PER_MINUTE_PER_SENDER": "1000000",
    "SILAS_LIMITS__LLM_CALLS_PER_MINUTE_PER_SCOPE": "1000000",
    "SILAS_BACKPRESSURE__MAX_PENDING_TURNS_TOTAL": "100000",
}


@dataclass(frozen=True)
class BenchStream:
    """Conversations with everything that takes part in a turn, and a model that costs nothing."""

    core: Core
    stream: Stream
    waiting: dict[str, "asyncio.Future[str]"]

    async def turn(self, scope: str) -> float:
        """One turn from the signed message to its stored answer; returns the seconds."""
        message_id = self.core.ids.new("msg")
        message = _signed(self.core, scope)
        done = self.waiting[message_id] = asyncio.get_running_loop().create_future()
        begun = time.perf_counter()
        await self.stream.intake.accept(_TEXT, message, message_id=message_id)
        answer = await done
        took = time.perf_counter() - begun
        if answer != _ANSWER_TEXT:
            raise RuntimeError(f"The model was not asked: {answer}")
        return took

    def in_turn(self, scope: str) -> Callable[[], Awaitable[float]]:
        """The turns of one conversation."""
        return lambda: self.turn(scope)

    def answered(self, message: QueueMessage) -> None:
        """An answer was committed."""
        reply = message.payload
        if isinstance(reply, AgentReply) and reply.in_reply_to in self.waiting:
            self.waiting.pop(reply.in_reply_to).set_result(message.content)


@contextlib.asynccontextmanager
async def open_conversations(folder: Path) -> AsyncIterator[BenchStream]:
    """The application as `silas start` wires it, without vectors and web page."""
    (folder / "data").mkdir()
    loaded = load_settings(
        data_dir=str(folder / "data"), config_file=None, environ=_NO_LIMIT, cwd=folder
    )
    vault: Any = MemoryVault()
    agents = Agents(proxy=proxy_of(FunctionModel(answers)))
    async with contextlib.AsyncExitStack() as stack:
        core = await stack.enter_async_context(make_core(loaded, OnDemandVault(lambda: vault)))
        core.keys.generate_keypair()
        memory = await stack.enter_async_context(open_memory(core, vectors=False))
        services = TurnServices(
            memory=MemoryService(memory.memories, memory.retriever),
            context=open_context(core, memory=memory),
            personality=open_personality(core),
        )
        stream = await stack.enter_async_context(open_stream(core, agents, services=services))
        opened = BenchStream(core, stream, {})
        deliveries = Deliveries(core.database, core.clock)
        core.queue.deliver_directly(QueueName.CHANNEL, deliveries.write, tell=opened.answered)
        gc.freeze()  # as `silas start` does
        yield opened


def _signed(core: Core, scope: str, text: str = _TEXT) -> UserMessage:
    now, nonce = core.clock.now(), secrets.token_hex(16)
    _, signature = core.keys.sign(message_bytes(text=text, timestamp=now, nonce=nonce))
    return UserMessage(
        channel="bench",
        connection_id=scope,
        sender_id=scope,
        timestamp=now,
        signature=base64.b64encode(signature).decode(),
        nonce=nonce,
    )


async def measure_turn(folder: Path) -> list[Line]:
    """The owner's turn, a hundred conversations at once, and a turn of a long conversation."""
    agent = library_agent(FunctionModel(answers))
    numbers = iter(range(10_000_000))

    async def bare() -> float:
        begun = time.perf_counter()
        await agent.run(_TEXT)
        return time.perf_counter() - begun

    async with open_conversations(folder) as ours:
        owner = ours.in_turn(ours.core.settings.owner_id)
        got = await medians(
            {
                "bare": lambda: _p50(bare),
                "owner": lambda: _p50(owner),
                "bare work": lambda: _work(bare),
                "owner work": lambda: _work(owner),
                "visitor work": lambda: _work(ours.in_turn(f"one-{next(numbers)}")),
                "bare rate": lambda: _rate(bare),
                "our rate": lambda: _rate(lambda: ours.turn(f"many-{next(numbers) % _SCOPES}")),
            },
            repeat=_ROUNDS,
        )
        for _ in range(_LONG):
            await owner()
        long = await medians({"work": lambda: _work(owner)}, repeat=3)
    floors = {"owner": got["bare"], "owner work": got["bare work"]}
    floors["visitor work"] = got["bare work"]
    what = {
        "owner": "the owner's signed turn, p50",
        "owner work": "the same, CPU time of all threads",
        "visitor work": "a visitor's turn, CPU time of all threads",
    }
    return [
        *(
            _at_most(what[name], got[name], "bare Agent.run", floor)
            for name, floor in floors.items()
        ),
        Line(
            "turn",
            f"{_SCOPES} conversations",
            per_second(got["our rate"]),
            f"bare Agent.run {per_second(got['bare rate'])}",
            got["our rate"] / got["bare rate"],
            0.85,
            at_least=True,
        ),
        _at_most(
            f"after {_LONG} turns more, CPU time",
            long["work"],
            "the same before",
            got["owner work"],
            goal=2.0,
        ),
    ]


def _at_most(what: str, ours: float, other: str, floor: float, *, goal: float = 1.2) -> Line:
    compared = f"{other} {milliseconds(floor)}"
    return Line("turn", what, milliseconds(ours), compared, ours / floor, goal, at_least=False)


async def measure_decision(folder: Path) -> list[Line]:
    """From the owner's no to the answer that says so, before and after a busy day."""
    (folder / "data").mkdir()
    with tempfile.TemporaryDirectory() as home:  # beside the sources nothing may work
        quiet, busy = await _quiet_and_busy(folder, Path(home))
    return [
        Line(
            "decision",
            f"followed after a day of {_BUSY_DAY} entries, p50",
            milliseconds(busy),
            f"on a quiet day {milliseconds(quiet)}",
            busy / quiet,
            1.5,
            at_least=False,
        )
    ]


async def _quiet_and_busy(folder: Path, home: Path) -> tuple[float, float]:
    loaded = load_settings(
        data_dir=str(folder / "data"),
        config_file=None,
        environ={**_NO_LIMIT, "HOME": str(home)},
        cwd=folder,
    )
    vault: Any = MemoryVault()
    async with make_core(loaded, OnDemandVault(lambda: vault)) as core:
        core.keys.generate_keypair()
        async with open_runtime(core, environ={}, home=home) as runtime:
            quiet = statistics.median([await _decline(runtime) for _ in range(_DECISIONS)])
            for _ in range(_BUSY_DAY // 1000):
                await core.database.transaction(
                    lambda tx: [core.audit.append(tx, "busy", {"n": n}) for n in range(1000)]
                )
            busy = statistics.median([await _decline(runtime) for _ in range(_DECISIONS)])
    return quiet, busy


async def _decline(runtime: Runtime) -> float:
    """Ask for a command, say no, and wait for the answer; returns the seconds after the no."""
    core = runtime.core
    owner, text = core.settings.owner_id, f"run echo {secrets.token_hex(4)}"
    before = await runtime.deliveries.last(owner)
    await runtime.stream.intake.accept(text, _signed(core, owner, text))
    async for delivery in runtime.deliveries.follow(owner, before):
        before, card_id = delivery.number, delivery.reply.card_id
        if card_id is None:
            raise RuntimeError(f"There is nothing to decide: {delivery.message.content}")
        break
    begun = time.perf_counter()
    await runtime.cards.decide_with_vault(
        card_id or "", ApprovalDecision(verdict=ApprovalVerdict.DECLINED)
    )
    async for _ in runtime.deliveries.follow(owner, before):
        break
    return time.perf_counter() - begun


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
