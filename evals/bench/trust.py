"""The lines *vault*, *tokens*, *audit* and *gates*: what trust costs.

*vault* is a secret that is read again, beside reading its file; *tokens* is our verification beside
the bare signature check that it cannot do without; *audit* is
appending and verifying, beside hashing and inserting with nothing around; *gates* is all default
gates on a text, beside one compiled expression over the same.
"""

import asyncio
import hashlib
import itertools
import json
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import apsw
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from evals.bench.measure import (
    Line,
    TrustStores,
    medians,
    milliseconds,
    open_trust,
    per_second,
    rate_of,
)
from silas.app.gates import gate_providers, gate_runner
from silas.approval import ApprovalDecision, ApprovalToken, ApprovalVerdict
from silas.gates import Gate, GateTrigger
from silas.gates.runner import GateRunner
from silas.secrets import FileVault
from silas.secrets.documents import read_document
from silas.secrets.key_material import typed_passphrase
from silas.settings.models import Settings
from silas.settings.paths import Paths
from silas.testing import FakePlan
from silas.testing.fakes import RecordingAudit

_SECRETS, _SECRET_READS = 10, 200
_TOKENS_CALLERS = 100
_EACH = 10
_ROUNDS = 5
_CONTENT = {"title": "A plan of ordinary size", "body": "step by step\n" * 60}
_BYTES = FakePlan(content=_CONTENT).plan_bytes()
_YES = ApprovalDecision(verdict=ApprovalVerdict.APPROVED)


class _PreparedPlan(FakePlan):
    """Writing down a plan is the plan's business; what is measured here is the door."""

    def plan_bytes(self) -> bytes:
        return _BYTES


_PLAN = _PreparedPlan(content=_CONTENT)


async def measure_vault(folder: Path) -> list[Line]:
    """A secret read again from a file that nobody has changed, beside reading the file."""
    path = folder / "vault.json"
    typed = typed_passphrase("for the benchmark only")
    name = secrets.token_hex(16)
    vault = FileVault.create(path, typed, vault_id=name, unsafe_scrypt_n_for_tests=2**4)
    for number in range(_SECRETS):
        vault.set(f"secret_{number}", secrets.token_bytes(100))
    await asyncio.sleep(0.5)  # so long ago that another write would show

    async def once(get: Callable[[], object]) -> float:
        begun = time.process_time()
        for _ in range(_SECRET_READS):
            get()
        return (time.process_time() - begun) / _SECRET_READS

    got = await medians(
        {
            "again": lambda: once(lambda: vault.get("secret_1")),
            "file": lambda: once(lambda: read_document(path)),
        }
    )
    return [
        Line(
            "vault",
            "a secret, file unchanged",
            milliseconds(got["again"]),
            f"reading the file {milliseconds(got['file'])}",
            got["again"] / got["file"],
            0.8,
            at_least=False,
        )
    ]


async def measure_tokens(folder: Path) -> list[Line]:
    """Ratios of `verify()` and `check()` to verifying the same signatures with nothing around."""
    async with open_trust(folder) as trust:
        needed = _TOKENS_CALLERS * _EACH * _ROUNDS
        tokens = [await trust.engine.issue_token(_PLAN, _YES) for _ in range(needed)]
        unused, used = iter(tokens), itertools.cycle(tokens)

        async def verify() -> None:
            _require(await trust.engine.verify(next(unused), _PLAN))

        async def check() -> None:
            _require(await trust.engine.check(next(used), _PLAN))

        got = await medians(
            {
                "raw": lambda: _raw(trust, iter(tokens)),
                "verify": lambda: rate_of(_TOKENS_CALLERS, _EACH, verify),
                "check": lambda: rate_of(_TOKENS_CALLERS, _EACH, check),
            },
            repeat=_ROUNDS,
        )
    compared = f"bare Ed25519 verification {per_second(got['raw'])}"
    return [
        Line(
            "tokens",
            "verify(), 100 callers, FULL",
            per_second(got["verify"]),
            compared,
            got["verify"] / got["raw"],
            0.4,
            at_least=True,
        ),
        Line(
            "tokens",
            "check() after verify(), 100 callers",
            per_second(got["check"]),
            compared,
            got["check"] / got["raw"],
            0.8,
            at_least=True,
        ),
    ]


async def _raw(trust: TrustStores, tokens: Iterator[ApprovalToken]) -> float:
    """The signature alone: the bytes are ready, nothing is stored."""
    key = Ed25519PublicKey.from_public_bytes(trust.keys.public.keys[0].raw)
    ready = [(each.canonical_bytes(), each.signature) for each in itertools.islice(tokens, 1000)]
    begun = time.perf_counter()
    for payload, signature in ready:
        key.verify(signature, payload)
    return len(ready) / (time.perf_counter() - begun)


def _require(answer: tuple[bool, str]) -> None:
    if not answer[0]:
        raise RuntimeError(answer[1])


_AUDIT_CALLERS = 100
_DATA = {"token_id": "tok_01", "work_item_id": "wi_01", "scope": "full_plan", "attempt": 1}
_TABLE = "CREATE TABLE IF NOT EXISTS log (seq INTEGER PRIMARY KEY, body TEXT, hash TEXT)"


async def measure_audit(folder: Path) -> list[Line]:
    """Ratios of appending and verifying to their floors."""
    async with open_trust(folder) as trust:
        floor = _Floor(folder / "floor.db")
        got = await medians(
            {
                "single": lambda: floor.append(300, batch=1),
                "batch": lambda: floor.append(5000, batch=100),
                "append": lambda: rate_of(
                    _AUDIT_CALLERS, 100, lambda: trust.audit.log("bench_entry", **_DATA)
                ),
            }
        )
        verified = await medians({"hash": lambda: _hash(trust), "examine": lambda: _examine(trust)})
        await trust.audit.write_checkpoint()
        begun = time.perf_counter()
        await trust.audit.verify_from_checkpoint()
        incremental = time.perf_counter() - begun
        begun = time.perf_counter()
        _, entries = await trust.audit.verify_chain()
        whole = time.perf_counter() - begun
    appended = per_second(got["append"])
    return [
        Line(
            "audit",
            "append, 100 callers, FULL",
            appended,
            f"one FULL transaction each {per_second(got['single'])}",
            got["append"] / got["single"],
            15,
            at_least=True,
        ),
        Line(
            "audit",
            "append, 100 callers, FULL",
            appended,
            f"FULL batches of 100 {per_second(got['batch'])}",
            got["append"] / got["batch"],
            0.5,
            at_least=True,
        ),
        Line(
            "audit",
            "verify the whole chain",
            per_second(verified["examine"]),
            f"sha256 over the stored bytes {per_second(verified['hash'])}",
            verified["examine"] / verified["hash"],
            0.7,
            at_least=True,
        ),
        Line(
            "audit",
            f"verify from checkpoint, {entries} entries before it",
            f"{incremental * 1000:.1f} ms",
            f"the whole chain {whole * 1000:.0f} ms",
            incremental / whole,
            0.1,
            at_least=False,
        ),
    ]


class _Floor:
    """A hash chain without redaction, ids, concurrency or checkpoints."""

    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path))
        self._connection.execute("PRAGMA journal_mode=WAL").fetchall()
        self._connection.execute(f"PRAGMA synchronous=FULL; {_TABLE}")
        self._hash = b"\0" * 32

    async def append(self, count: int, *, batch: int) -> float:
        begun = time.perf_counter()
        for _ in range(count // batch):
            with self._connection:
                for _ in range(batch):
                    self._append_one()
        return count / (time.perf_counter() - begun)

    def _append_one(self) -> None:
        entry = {"at": "2026-01-01T00:00:00.000000Z", "event": "bench_entry", "data": _DATA}
        body = json.dumps(entry, sort_keys=True, separators=(",", ":"))
        self._hash = hashlib.sha256(self._hash + body.encode()).digest()
        self._connection.execute(
            "INSERT INTO log (body, hash) VALUES (?, ?)", (body, self._hash.hex())
        )


async def _hash(trust: TrustStores) -> float:
    """Only what cannot be left out: read every row, hash its bytes, compare."""

    def run() -> float:
        connection = apsw.Connection(str(trust.path), flags=apsw.SQLITE_OPEN_READONLY)
        begun = time.perf_counter()
        count, running = 0, None
        for body, digest in connection.execute("SELECT body, hash FROM audit_log ORDER BY seq"):
            if running is not None:
                running = hashlib.sha256(running + body.encode()).digest()
                if running.hex() != digest:
                    raise RuntimeError("the chain does not hold")
            running = bytes.fromhex(digest)
            count += 1
        elapsed = time.perf_counter() - begun
        connection.close()
        return count / elapsed

    return run()


async def _examine(trust: TrustStores) -> float:
    begun = time.perf_counter()
    valid, entries = await trust.audit.verify_chain()
    if not valid:
        raise RuntimeError("the chain does not hold")
    return entries / (time.perf_counter() - begun)


_SENTENCE = "Could you look at the report on page 7, mail me the 3 open points and plan Friday? "
_KILOBYTE, _MEGABYTE = 1024, 1024 * 1024
_FLOOR = re.compile(r"(?i)\b(?:ignore|disregard|forget)\b.{0,40}\bprevious\b")
_TRIGGERS = {
    GateTrigger.EVERY_USER_MESSAGE: "message",
    GateTrigger.EVERY_AGENT_RESPONSE: "response",
}
_CALLS = 200


async def measure_gates(folder: Path) -> list[Line]:
    """Ratios to one scan of a 2 KB message, and of 1 MB to what the size alone would explain."""
    settings = Settings()
    paths = Paths(data_dir=folder, config_file=folder / "silas.yaml")
    runner = gate_runner(settings, gate_providers(settings, paths), audit=RecordingAudit())
    system: list[Gate] = list(settings.gates.system)
    small, half, large = (_text(size) for size in (2 * _KILOBYTE, _MEGABYTE // 2, _MEGABYTE))
    got = await medians(
        {
            "scan": lambda: _scans(small),
            "gates": lambda: _timed(lambda: _all_gates(runner, system, small), _CALLS),
            "half": lambda: _timed(lambda: _all_gates(runner, system, half), 1),
            "large": lambda: _timed(lambda: _all_gates(runner, system, large), 1),
        }
    )
    return [
        Line(
            "gates",
            f"all {len(system)} default gates, 2 KB, in and out",
            milliseconds(got["gates"]),
            f"one compiled expression {milliseconds(got['scan'])}",
            got["gates"] / got["scan"],
            20,
            at_least=False,
        ),
        Line(
            "gates",
            "the same on 1 MB",
            milliseconds(got["large"]),
            f"twice the time for half of it {milliseconds(2 * got['half'])}",
            got["large"] / (2 * got["half"]),
            1.5,
            at_least=False,
        ),
    ]


def _text(size: int) -> str:
    return (_SENTENCE * (size // len(_SENTENCE) + 1))[:size]


async def _all_gates(runner: GateRunner, system: list[Gate], text: str) -> None:
    for trigger, key in _TRIGGERS.items():
        policy, _, _ = await runner.check_gates(system, trigger, {key: text})
        if not all(result.action.value == "continue" for result in policy):
            raise RuntimeError(f"an ordinary text was stopped: {policy}")


async def _scans(text: str) -> float:
    begun = time.perf_counter()
    for _ in range(_CALLS):
        if _FLOOR.search(text):
            raise RuntimeError("the floor must read the whole text")
    return (time.perf_counter() - begun) / _CALLS


async def _timed(call: Callable[[], Awaitable[None]], times: int) -> float:
    begun = time.perf_counter()
    for _ in range(times):
        await call()
    return (time.perf_counter() - begun) / times
