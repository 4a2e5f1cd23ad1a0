"""Fakes of the ports, under the control of a test.

A clock that stands still until it is told to move, a vault in memory, an embedder without a model,
something to approve, who approves it and where approvals leave a trace; counter, scorer and memory
of a context; gate providers, commands, models and desks.
"""

import asyncio
import functools
import hashlib
import math
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from silas.approval import ApprovalEngine, ApprovalPolicy, KeyManager, NonceStore
from silas.audit.models import AuditEntry, AuditTrail, ExaminedLog, Proven
from silas.context.models import ContextGroup
from silas.gates import Gate, GateAction, GateResult
from silas.gates.models import CommandOutcome, GateBlock
from silas.kernel import Clock, IdFactory, LlmError, SystemClock, canonical_bytes
from silas.memory.models import MemoryItem, MemoryQuery, MemoryType, TrustLevel
from silas.secrets.vault import Names, Vault, VaultDescription
from silas.storage import Database, SqliteDatabase, Transaction, load_migrations, migrate


class FakeClock:
    """`Clock` under the control of a test."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, 12, tzinfo=UTC)) -> None:
        self._now = start
        self._monotonic = 0.0

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, **duration: float) -> None:
        """Let time pass, in the words of `timedelta`: `advance(minutes=5)`."""
        step = timedelta(**duration)
        self._now += step
        self._monotonic += step.total_seconds()

    def set(self, moment: datetime) -> None:
        """Set the wall clock, as a person or a time server would; monotonic time is not moved."""
        self._now = moment


class MemoryVault:
    """`Vault` without a disk."""

    def __init__(self) -> None:
        self.entries: dict[str, bytes] = {}

    def get(self, ref_id: str) -> bytes | None:
        return self.entries.get(ref_id)

    def set(self, ref_id: str, value: bytes) -> None:
        self.entries[ref_id] = value

    def delete(self, ref_id: str) -> bool:
        return self.entries.pop(ref_id, None) is not None

    def describe(self) -> VaultDescription:
        return VaultDescription(kind="file", where="memory", unlocked_by="nothing")

    def list(self) -> Names:
        return sorted(self.entries)


class FakeEmbedder:
    """`Embedder` that adds up one fixed direction for every word."""

    def __init__(self, model_id: str = "fake", *, dimensions: int = 32) -> None:
        self._model_id = model_id
        self._dimensions = dimensions
        self.embedded: list[str] = []

    @property
    def model_id(self) -> str:
        return self._model_id

    @property
    def dimensions(self) -> int:
        return self._dimensions

    def embed(self, text: str) -> list[float]:
        return self.embed_batch([text])[0]

    def embed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        self.embedded += texts
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        total = [0.0] * self._dimensions
        for word in text.lower().split():
            digest = hashlib.sha256(word.strip(".,?!:").encode()).digest()
            for place in range(self._dimensions):
                total[place] += digest[place % len(digest)] / 127.5 - 1
        length = math.sqrt(sum(value * value for value in total)) or 1.0
        return [value / length for value in total]


@dataclass(frozen=True)
class FakePlan:
    """`Approvable` made of plain values."""

    id: str = "wi_1"
    parent: str | None = None
    content: Mapping[str, Any] = field(default_factory=lambda: {"run": "echo hello"})
    spawn_policy: Mapping[str, Any] | None = None

    def plan_bytes(self) -> bytes:
        return canonical_bytes({"id": self.id, "parent": self.parent, "content": self.content})

    def spawn_policy_bytes(self) -> bytes:
        return b"" if self.spawn_policy is None else canonical_bytes(self.spawn_policy)


class RecordingAudit:
    """`AuditTrail` that keeps its entries in a list."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, dict[str, Any]]] = []

    def append(self, tx: Transaction, event: str, data: Mapping[str, Any]) -> str:
        tx.fetch_one("SELECT 1")  # outside of a transaction this fails, as the real one would
        self.entries.append((event, dict(data)))
        return f"aud_{len(self.entries)}"

    async def write_checkpoint(self, examined: ExaminedLog | None = None) -> str:
        return "ckp_1"

    async def proven_since(
        self, moment: datetime, events: Collection[str], *, about: str
    ) -> Proven:
        """All of them, however old: nobody tampers with a list."""
        found = [each for each in self._all() if each.event in events and about in str(each.data)]
        return Proven(found, None)

    async def tail(
        self, count: int, *, event: str = "*", since: datetime | None = None, after: int = 0
    ) -> list[AuditEntry]:
        """By their order alone: a list has no clock."""
        found = [each for each in self._all() if fnmatchcase(each.event, event)]
        return [each for each in found if each.seq > after][-count:]

    async def log(self, event: str, /, **data: Any) -> str:
        self.entries.append((event, data))
        return f"aud_{len(self.entries)}"

    def events(self) -> list[str]:
        """The names of what was recorded, in order."""
        return [event for event, _ in self.entries]

    def _all(self) -> list[AuditEntry]:
        return [
            AuditEntry(seq=seq, entry_id=f"aud_{seq}", at="", event=event, data=data)
            for seq, (event, data) in enumerate(self.entries, start=1)
        ]


def owners_keys(vault: Vault, *, clock: Clock) -> KeyManager:
    """The owner's keys in this vault; made if there are none."""
    keys = KeyManager(vault, clock=clock)
    if not keys.exists():
        keys.generate_keypair()
    return keys


def approval_engine(
    database: Database, keys: KeyManager, *, audit: AuditTrail, clock: Clock, ids: IdFactory
) -> ApprovalEngine:
    """Approvals with the policy that holds where nothing is configured."""
    return ApprovalEngine(
        database,
        keys,
        nonces=NonceStore(database, clock=clock),
        audit=audit,
        clock=clock,
        ids=ids,
        policy=ApprovalPolicy(),
    )


Score = Callable[[Sequence[ContextGroup], str | None], Awaitable[list[str]]]


class FakeTokenCounter:
    """`TokenCounter` that counts words."""

    def count(self, text: str) -> int:
        return len(text.split())


class FakeScorer:
    """`Scorer` that does what the test says."""

    def __init__(self, score: Score) -> None:
        self._score = score
        self.asked: list[tuple[list[ContextGroup], str | None]] = []

    async def score(self, groups: Sequence[ContextGroup], goal: str | None) -> list[str]:
        self.asked.append((list(groups), goal))
        return await self._score(groups, goal)


class FakeRecall:
    """The part of `MemoryService` that a context uses, in dictionaries, one for each scope."""

    def __init__(self) -> None:
        self.kept: defaultdict[str, dict[str, MemoryItem]] = defaultdict(dict)
        self.found: list[MemoryItem] = []
        self.queries: list[tuple[str, str]] = []
        self.broken: Exception | None = None

    async def keep(self, scope_id: str, items: Sequence[MemoryItem]) -> None:
        if self.broken is not None:
            raise self.broken
        for item in items:
            self.kept[scope_id].setdefault(item.memory_id, item)

    async def retrieve(self, query: MemoryQuery, scope_id: str) -> list[MemoryItem]:
        self.queries.append((scope_id, query.query))
        return self.found[: query.max_results]

    async def defaults(self, scope_id: str) -> list[MemoryItem]:
        return [item for item in self.found if item.scope_id == scope_id and _is_default(item)]


def _is_default(item: MemoryItem) -> bool:
    preference = item.memory_type is MemoryType.PREFERENCE
    return preference and item.trust_level is TrustLevel.VERIFIED


Answer = Callable[[Gate, dict[str, Any]], GateResult]


class FakeProvider:
    """`GateCheckProvider` that answers as it is told, and remembers what it was shown."""

    def __init__(self, answer: Answer, *, problem: str | None = None) -> None:
        self._answer = answer
        self._problem = problem
        self.seen: list[tuple[str, dict[str, Any]]] = []

    def problem(self, gate: Gate) -> str | None:
        return self._problem

    async def check(self, gate: Gate, context: dict[str, Any]) -> GateResult:
        self.seen.append((gate.name, context))
        return self._answer(gate, context)


def answer(
    action: GateAction = GateAction.CONTINUE, *, reason: str = "the test says so", **more: Any
) -> Answer:
    """The same answer, whatever is asked."""

    def always(gate: Gate, _context: dict[str, Any]) -> GateResult:
        return GateResult(gate_name=gate.name, lane=gate.lane, action=action, reason=reason, **more)

    return always


class FakeCommands:
    """`CommandRunner` that runs nothing: the same outcome for every command."""

    def __init__(self, output: str | bytes = b"", *, exit_code: int = 0, **more: Any) -> None:
        given = output.encode() if isinstance(output, str) else output
        self._outcome = CommandOutcome(exit_code=exit_code, output=given, **more)
        self.ran: list[tuple[str, dict[str, str], int]] = []

    async def run(self, command: str, *, env: Mapping[str, str], seconds: int) -> CommandOutcome:
        self.ran.append((command, dict(env), seconds))
        return self._outcome


class FakeGateModel:
    """`GateModel` that always says the same; None stands for a model that cannot be reached."""

    def __init__(self, says: str | None) -> None:
        self._says = says
        self.prompts: list[str] = []

    async def ask(self, prompt: str, *, schema: Mapping[str, Any]) -> str:
        self.prompts.append(prompt)
        if self._says is None:
            raise LlmError
        return self._says


class FakeEscalation:
    """`EscalationHandler` that writes down what it is asked to do."""

    def __init__(
        self, *, people: bool = True, passes_after: int | None = None, broken: tuple[str, ...] = ()
    ) -> None:
        """`passes_after` retries an answer passes; what is `broken` raises."""
        self._people = people
        self._passes_after = passes_after
        self._broken = broken
        self._tries = 0
        self.done: list[tuple[str, str]] = []

    async def send(self, message: str) -> None:
        self._note("send", message)

    async def hand_over(self, message: str | None) -> bool:
        self._note("hand_over", message or "")
        return self._people

    async def transfer(self, queue: str) -> None:
        self._note("transfer", queue)

    async def rephrase(self, instruction: str) -> bool:
        self._note("rephrase", instruction)
        return self._again()

    async def retry(self) -> bool:
        self._note("retry", "")
        return self._again()

    async def spawn_task(self, block: GateBlock) -> None:
        self._note("spawn_task", block.gate_name)

    async def notify_owner(self, text: str) -> None:
        self._note("notify_owner", text)

    def _again(self) -> bool:
        self._tries += 1
        return self._passes_after is not None and self._tries >= self._passes_after

    def _note(self, what: str, detail: str) -> None:
        self.done.append((what, detail))
        if what in self._broken:
            raise LlmError


def with_schema(path: Path, schema: str) -> Path:
    """Lay a database with this schema there, unless there is a file; returns the path.

    The migrations run once in a process, and what they made is copied: to run all of them takes
    longer than most tests. Whoever opens a copy migrates it as any other, which sees by the
    recorded checksums that nothing is missing.
    """
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_bytes(_migrated(schema))
    return path


@functools.cache
def _migrated(schema: str) -> bytes:
    """What the shipped migrations make. A loop may be running here, so another thread has one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, _migrate_new(schema)).result()


async def _migrate_new(schema: str) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "new.db"
        database = SqliteDatabase.open(path)
        await migrate(database, load_migrations(schema), clock=SystemClock())
        await database.close()
        return path.read_bytes()
