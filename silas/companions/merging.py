"""Two versions of one record become one, the same on every device (pure).

For the state of a companion (and, where it says so, for its identity and the head of its persona):

1. If one vector clock dominates the other, its version is the result. The rules 2 to 7 are for
   versions of which neither knew of the other.
2. `processed_counter_by_host`: for each host the higher counter.
3. `lifecycle`: destroyed over dormant over active over created. (Identity.)
4. Pointers: the descendant, which has the higher sequence; then the higher host, then the higher
   id of the message.
5. `consecutive_failure_count`: the higher one. Only a successful run sets it back, by rule 1.
6. Slots, each on its own: the higher version; then the higher host, then the greater value.
7. The earliest `next_wake_at` and the latest `sleep_until`: no sleep is lost, and no wake.

No clock on a wall takes part. So that the order of merging makes no difference either, a merged
record keeps the concurrent versions that it came from (`siblings`) until the next write, which has
seen them all, takes their place: merging unites the sets and drops what is dominated, and the
fields are worked out from what is left.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any, TypeVar, cast

from silas.companions.models import (
    SLOTS,
    AgentLifecycle,
    AgentPersonaHead,
    AgentSlots,
    AgentState,
    BudgetUsage,
    BudgetWindow,
    Companion,
    MessagePointer,
)
from silas.journal.merging import Order, compare, join_clocks
from silas.kernel import canonical_bytes

M = TypeVar("M", bound=Companion | AgentState | AgentPersonaHead)
V = TypeVar("V")

_RANK = {each: place for place, each in enumerate(AgentLifecycle)}


def merge_states(a: AgentState, b: AgentState) -> AgentState:
    """The one state that follows from both (rules 1 to 7)."""
    return _merged(a, b, _state_of)


def merge_companions(a: Companion, b: Companion) -> Companion:
    """The one identity that follows from both (rules 1 and 3; the rest by host and content)."""
    return _merged(a, b, _companion_of)


def merge_persona_heads(a: AgentPersonaHead, b: AgentPersonaHead) -> AgentPersonaHead:
    """The head that follows from both: the higher version, then the higher host, then the id."""
    return _merged(a, b, _persona_head_of)


def merge_budget_windows(a: BudgetWindow, b: BudgetWindow) -> BudgetWindow:
    """The use that both know of: each host counts only up, so the higher count is the newer."""
    _require_same(a.id, b.id)
    hosts = sorted(a.usage_by_host.keys() | b.usage_by_host.keys())
    usage = {host: _higher_usage(a, b, host) for host in hosts}
    return a.model_copy(
        update={
            "usage_by_host": usage,
            "updated_at": max(a.updated_at, b.updated_at),
            "vector_clock": join_clocks(a.vector_clock, b.vector_clock),
            "deleted_at": max(filter(None, (a.deleted_at, b.deleted_at)), default=None),
            "time_zone": min(a.time_zone, b.time_zone),
        }
    )


def prune_stale_hosts(
    counters: Mapping[str, int], *, active: Iterable[str], limit: int
) -> dict[str, int]:
    """The counters of the hosts that still write; of the others only the highest, up to `limit`.

    A host that was dropped and comes back is told its changes once more at worst: their run keys
    say that they were handled.
    """
    kept = {host: counters[host] for host in active if host in counters}
    others = sorted(
        (host for host in counters if host not in kept), key=lambda h: (-counters[h], h)
    )
    kept |= {host: counters[host] for host in others[: max(0, limit - len(kept))]}
    return dict(sorted(kept.items()))


def higher_pointer(a: MessagePointer | None, b: MessagePointer | None) -> MessagePointer | None:
    """The pointer that is further on (rule 4)."""
    known = [each for each in (a, b) if each is not None]
    return max(known, key=lambda p: (p.sequence, p.host_id, p.message_id), default=None)


def _merged(a: M, b: M, shown: Callable[[list[M]], M]) -> M:
    _require_same(a.id, b.id)
    versions = _undominated([*_versions(a), *_versions(b)])
    return versions[0] if len(versions) == 1 else shown(versions)


def _versions(record: M) -> tuple[M, ...]:
    # A sibling is of the kind of its record.
    return cast("tuple[M, ...]", record.siblings) or (record,)


def _undominated(versions: list[M]) -> list[M]:
    """Each version once, without those that another has seen, in one order everywhere."""
    each_once = {_bytes(version): version for version in versions}
    kept = {
        content: version
        for content, version in each_once.items()
        if not any(
            compare(version.vector_clock, other.vector_clock) is Order.BEFORE
            for other in each_once.values()
        )
    }
    return [kept[content] for content in sorted(kept)]


def _state_of(versions: list[AgentState]) -> AgentState:
    def all_of(pick: Callable[[AgentState], V | None]) -> list[V]:
        return [value for each in versions if (value := pick(each)) is not None]

    counters = [each.processed_counter_by_host for each in versions]
    return versions[0].model_copy(
        update={
            "revision": max(each.revision for each in versions),
            "updated_at": max(each.updated_at for each in versions),
            "last_wake_at": max(all_of(lambda each: each.last_wake_at), default=None),
            "processed_counter_by_host": reduce(join_clocks, counters),
            "recent_head": reduce(higher_pointer, [each.recent_head for each in versions]),
            "latest_summary": reduce(higher_pointer, [each.latest_summary for each in versions]),
            "consecutive_failure_count": max(each.consecutive_failure_count for each in versions),
            "slots": _slots_of([each.slots for each in versions]),
            "next_wake_at": min(all_of(lambda each: each.next_wake_at), default=None),
            "sleep_until": max(all_of(lambda each: each.sleep_until), default=None),
            **_joined(versions),
        }
    )


def _slots_of(versions: list[AgentSlots]) -> AgentSlots:
    chosen: dict[str, Any] = {}
    hosts: dict[str, str] = {}
    for slot in SLOTS:
        winner = max(versions, key=lambda each: _slot_rank(each, slot))
        chosen[slot] = getattr(winner, slot)
        chosen[f"{slot}_version"] = getattr(winner, f"{slot}_version")
        if slot in winner.slot_hosts:
            hosts[slot] = winner.slot_hosts[slot]
    return AgentSlots(**chosen, slot_hosts=dict(sorted(hosts.items())))


def _slot_rank(slots: AgentSlots, slot: str) -> tuple[int, str, bytes]:
    value = slots.model_dump(mode="json", include={slot})
    return getattr(slots, f"{slot}_version"), slots.slot_hosts.get(slot, ""), canonical_bytes(value)


def _companion_of(versions: list[Companion]) -> Companion:
    furthest = max(versions, key=lambda each: (_RANK[each.lifecycle], _bytes(each)))
    paused = [each.paused_at for each in versions if each.paused_at is not None]
    shared = set.intersection(*(set(each.allowed_category_ids) for each in versions))
    return furthest.model_copy(
        update={
            "updated_at": max(each.updated_at for each in versions),
            # What only one of them allows is not allowed, and a pause is not lost.
            "allowed_category_ids": tuple(sorted(shared)),
            "paused_at": min(paused, default=None),
            **_joined(versions),
        }
    )


def _persona_head_of(versions: list[AgentPersonaHead]) -> AgentPersonaHead:
    winner = max(versions, key=lambda h: (h.persona_version, h.host_id, h.persona_version_id))
    return winner.model_copy(
        update={"updated_at": max(each.updated_at for each in versions), **_joined(versions)}
    )


def _joined(versions: list[M]) -> dict[str, Any]:
    """What every merged record has: the clock that has seen all, and where it came from."""
    gone = [each.deleted_at for each in versions]
    return {
        "vector_clock": reduce(join_clocks, [each.vector_clock for each in versions]),
        "deleted_at": max((each for each in gone if each is not None), default=None),
        "siblings": tuple(versions),
    }


def _bytes(record: M) -> bytes:
    return canonical_bytes(record.model_dump(mode="json", exclude={"siblings"}))


def _higher_usage(a: BudgetWindow, b: BudgetWindow, host: str) -> BudgetUsage:
    one = a.usage_by_host.get(host, BudgetUsage())
    other = b.usage_by_host.get(host, BudgetUsage())
    return BudgetUsage(
        tokens=max(one.tokens, other.tokens),
        cost_micro_usd=max(one.cost_micro_usd, other.cost_micro_usd),
        runtime_ms=max(one.runtime_ms, other.runtime_ms),
        tool_calls=max(one.tool_calls, other.tool_calls),
    )


def _require_same(a: str, b: str) -> None:
    if a != b:
        raise ValueError("only two versions of one record can be merged")
