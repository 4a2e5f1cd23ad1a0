"""From the state before a run to the state after it: pure, and the same when it is done again."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from silas.companions.models import AgentSlots, AgentState, WakeStatus


def reduce_state(
    state: AgentState,
    *,
    status: WakeStatus,
    now: datetime,
    host_id: str,
    active_task_id: str | None = None,
    open_loop_ids: Collection[str] = (),
    sleep_until: datetime | None = None,
    processed: Mapping[str, int] | None = None,
) -> AgentState:
    """The state after a run; only a completed one forgets failures and counts changes as seen."""
    completed = status is WakeStatus.COMPLETED
    changes: dict[str, Any] = {"last_wake_at": now, "updated_at": now}
    if completed:
        changes |= {
            "consecutive_failure_count": 0,
            "processed_counter_by_host": _seen(state.processed_counter_by_host, processed or {}),
            "slots": _slots(state.slots, active_task_id, open_loop_ids, host_id=host_id),
        }
        if sleep_until is not None:
            changes["sleep_until"] = sleep_until
    elif status is WakeStatus.FAILED_TERMINAL:
        changes["consecutive_failure_count"] = state.consecutive_failure_count + 1
    return state.model_copy(update=changes)


def _seen(known: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    hosts = sorted(known.keys() | more.keys())
    return {host: max(known.get(host, 0), more.get(host, 0)) for host in hosts}


def _slots(
    slots: AgentSlots, active_task_id: str | None, open_loop_ids: Collection[str], *, host_id: str
) -> AgentSlots:
    loops = tuple(sorted(open_loop_ids))
    if loops != slots.open_loop_ids:
        slots = slots.with_slot("open_loop_ids", loops, host_id=host_id)
    if active_task_id is not None and active_task_id != slots.active_task_id:
        slots = slots.with_slot("active_task_id", active_task_id, host_id=host_id)
    return slots
