"""Whether a companion may run now. The strictest reason comes first.

1. Who is destroyed does nothing.
2. A stop switch for everything, or for this companion, stops it.
3. Whom the owner has paused rests.
4. Whoever sleeps, or only speaks when spoken to, is woken by the owner alone; so is who has failed
   several times in a row, for a while that doubles with every failure.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from silas.companions.ids import stop_switch_id
from silas.companions.models import (
    AgentLifecycle,
    AgentState,
    Companion,
    InteractionMode,
    StopScope,
    StopSwitch,
    WakeReason,
    WakeStatus,
)
from silas.companions.store import CompanionStore
from silas.storage import Reader

_PATIENCE = 3
_FIRST_REST = timedelta(minutes=1)
_LONGEST_REST = timedelta(days=1)
BY_THE_OWNER = (WakeReason.USER_INITIATED, WakeReason.MANUAL)


@dataclass(frozen=True)
class Skip:
    """Why a wake is not carried out."""

    status: WakeStatus
    reason: str


def reason_to_skip(
    store: CompanionStore,
    reader: Reader,
    companion: Companion,
    state: AgentState,
    *,
    reason: WakeReason,
    now: datetime,
) -> Skip | None:
    """The first of the rules that applies, or None."""
    alone = reason not in BY_THE_OWNER
    sleeps = state.sleep_until is not None and state.sleep_until > now
    rules = (
        (companion.is_destroyed, WakeStatus.SKIPPED_DESTROYED, "agent_destroyed"),
        (is_stopped(store, reader, companion.id), WakeStatus.SKIPPED_STOPPED, "stopped"),
        (companion.paused_at is not None, WakeStatus.SKIPPED_PAUSED, "paused"),
        (
            alone and companion.lifecycle is AgentLifecycle.DORMANT,
            WakeStatus.SKIPPED_SLEEPING,
            "dormant",
        ),
        (
            alone and companion.mode is InteractionMode.INTERACTIVE,
            WakeStatus.SKIPPED_SLEEPING,
            "interactive_only",
        ),
        (alone and sleeps, WakeStatus.SKIPPED_SLEEPING, "sleeping"),
        (alone and rests(state, now), WakeStatus.SKIPPED_SLEEPING, "backoff"),
    )
    return next((Skip(status, why) for applies, status, why in rules if applies), None)


def rests(state: AgentState, now: datetime) -> bool:
    """Whether a companion rests after failures."""
    failures, last = state.consecutive_failure_count - _PATIENCE, state.last_wake_at
    # A last wake in the future is that of a clock that was wrong; it says nothing about now.
    if failures < 0 or last is None or last > now:
        return False
    rest: timedelta = _FIRST_REST * (1 << min(failures, 16))
    return last + min(_LONGEST_REST, rest) > now


def is_stopped(store: CompanionStore, reader: Reader, agent_id: str) -> bool:
    """Whether a stop switch holds this companion."""
    switches = (
        stop_switch_id(StopScope.GLOBAL),
        stop_switch_id(StopScope.COMPANION, agent_id),
    )
    found = (store.get_in(reader, StopSwitch, each) for each in switches)
    return any(switch is not None and switch.engaged for switch in found)
