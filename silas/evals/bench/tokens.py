"""The line *tokens*: our doors beside the bare signature check that they cannot do without."""

import itertools
import time
from collections.abc import Iterator
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from silas.approval import ApprovalDecision, ApprovalToken, ApprovalVerdict
from silas.evals.bench.desk import Desk, open_desk
from silas.evals.bench.measure import Line, medians, per_second, rate_of
from silas.testing import FakePlan

_CALLERS = 100
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


async def measure(folder: Path) -> list[Line]:
    """Ratios of `verify()` and `check()` to verifying the same signatures with nothing around."""
    async with open_desk(folder) as desk:
        needed = _CALLERS * _EACH * _ROUNDS
        tokens = [await desk.engine.issue_token(_PLAN, _YES) for _ in range(needed)]
        unused, used = iter(tokens), itertools.cycle(tokens)

        async def verify() -> None:
            _require(await desk.engine.verify(next(unused), _PLAN))

        async def check() -> None:
            _require(await desk.engine.check(next(used), _PLAN))

        got = await medians(
            {
                "raw": lambda: _raw(desk, iter(tokens)),
                "verify": lambda: rate_of(_CALLERS, _EACH, verify),
                "check": lambda: rate_of(_CALLERS, _EACH, check),
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


async def _raw(desk: Desk, tokens: Iterator[ApprovalToken]) -> float:
    """The signature alone: the bytes are ready, nothing is stored."""
    key = Ed25519PublicKey.from_public_bytes(desk.keys.public.keys[0].raw)
    ready = [(each.canonical_bytes(), each.signature) for each in itertools.islice(tokens, 1000)]
    begun = time.perf_counter()
    for payload, signature in ready:
        key.verify(signature, payload)
    return len(ready) / (time.perf_counter() - begun)


def _require(answer: tuple[bool, str]) -> None:
    if not answer[0]:
        raise RuntimeError(answer[1])
