"""Items and managers for the tests of the context."""

from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from hypothesis import strategies as st

from silas.context.manager import ContextManager
from silas.context.models import (
    ContextItem,
    ContextKind,
    ContextProfile,
    ContextSubscription,
    ContextZone,
    SubscriptionType,
    TokenBudget,
)
from silas.kernel import TaintLevel
from silas.testing import FakeClock
from silas.testing.fakes import FakeTokenCounter

T = TypeVar("T")
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
KINDS = {
    ContextZone.SYSTEM: ContextKind.SYSTEM,
    ContextZone.CHRONICLE: ContextKind.MESSAGE,
    ContextZone.MEMORY: ContextKind.MEMORY,
    ContextZone.WORKSPACE: ContextKind.PLAN,
}


def done(work: Coroutine[Any, Any, T]) -> T:
    """The result of something that never has to wait; far quicker than a loop of its own."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("it waits for something")


def item(
    ctx_id: str,
    content: str = "some words",
    zone: ContextZone = ContextZone.CHRONICLE,
    **more: object,
) -> ContextItem:
    fields: dict[str, object] = {
        "ctx_id": ctx_id,
        "zone": zone,
        "content": content,
        "created_at": NOW,
        "turn_number": 1,
        "source": "channel:web",
        "taint": TaintLevel.OWNER,
        "kind": KINDS[zone],
    }
    return ContextItem.model_validate(fields | more)


def subscription(
    sub_id: str, target: str, kind: str = "file", **more: object
) -> ContextSubscription:
    fields: dict[str, object] = {
        "sub_id": sub_id,
        "sub_type": SubscriptionType(kind),
        "target": target,
        "created_at": NOW,
        "turn_created": 1,
    }
    return ContextSubscription.model_validate(fields | more)


def manager(budget: TokenBudget | None = None, **more: object) -> ContextManager:
    """A context whose tokens are words, unless the test says otherwise."""
    given: dict[str, object] = {"clock": FakeClock(NOW), "counter": FakeTokenCounter()}
    return ContextManager(budget or TokenBudget(), **(given | more))  # type: ignore[arg-type]


def small_budget(total: int = 400, **more: object) -> TokenBudget:
    """A budget that a handful of items fills."""
    return TokenBudget.model_validate({"total": total, "system_max": total // 8, **more})


PROFILES = {
    name: ContextProfile(name=name, chronicle_pct=a, memory_pct=b, workspace_pct=c)
    for name, (a, b, c) in {
        "conversation": (0.45, 0.20, 0.15),
        "narrow": (0.10, 0.0, 0.05),
        "work": (0.05, 0.05, 0.70),
    }.items()
}

WORDS = st.lists(
    st.sampled_from(["alpha", "beta", "--- end ---", "---", "ok", "|", "ß漢字", "\n", "thanks!"]),
    min_size=0,
    max_size=30,
).map(" ".join)
ZONES = st.sampled_from(list(ContextZone))


@st.composite
def items(draw: st.DrawFn) -> ContextItem:
    zone = draw(ZONES)
    kinds = {
        ContextZone.SYSTEM: [ContextKind.SYSTEM],
        ContextZone.CHRONICLE: [ContextKind.MESSAGE, ContextKind.TOOL_RESULT],
        ContextZone.MEMORY: [ContextKind.MEMORY],
        ContextZone.WORKSPACE: [ContextKind.PLAN, ContextKind.EXECUTION_RESULT],
    }[zone]
    return item(
        f"i{draw(st.integers(0, 60))}",
        draw(WORDS),
        zone,
        kind=draw(st.sampled_from(kinds)),
        turn_number=draw(st.integers(0, 20)),
        source=draw(st.sampled_from(["channel:web", "agent:proxy", "tool:shell_exec:failed"])),
        taint=draw(st.sampled_from(list(TaintLevel))),
        relevance=draw(st.floats(0, 1)),
        pinned=draw(st.integers(0, 9)) == 0,
        created_at=NOW + timedelta(seconds=draw(st.integers(0, 1000))),
    )
