"""Telling others on this device about companions: typed tokens, like the journal's.

Nobody is woken by this. It is for whoever shows companions.
"""

import logging
from collections.abc import Callable, Iterable

from silas.companions.models import AgentState, Companion
from silas.journal.notifications import (
    ChangeUnit,
    NotificationBatch,
    TypedToken,
    entity,
    make_batch,
    semantic,
)
from silas.kernel import IdFactory

AGENT_CHANGED = "AGENT_CHANGED"
AGENT_STATE_CHANGED = "AGENT_STATE_CHANGED"
AGENT_MESSAGE_APPENDED = "AGENT_MESSAGE_APPENDED"

Listener = Callable[[NotificationBatch], None]
_log = logging.getLogger(__name__)


class CompanionNews:
    """Whoever listens hears what has changed, in the order in which it was committed."""

    def __init__(self, ids: IdFactory, *, host_id: str) -> None:
        self._ids = ids
        self._host_id = host_id
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Hear everything from now on; the result ends it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def agent_changed(self, companion: Companion) -> NotificationBatch:
        """A companion was made, changed or destroyed."""
        tokens = [semantic(AGENT_CHANGED), entity(companion.id)]
        return self._tell("agent", companion.id, companion.vector_clock, tokens)

    def state_changed(self, state: AgentState) -> NotificationBatch:
        """A run has ended: its companion's state is another, and its log has grown."""
        tokens = [semantic(AGENT_STATE_CHANGED), entity(state.agent_id), entity(state.id)]
        if state.recent_head is not None:
            tokens += [semantic(AGENT_MESSAGE_APPENDED), entity(state.recent_head.message_id)]
        return self._tell("agent_state", state.id, state.vector_clock, tokens)

    def _tell(
        self,
        payload_type: str,
        payload_id: str,
        clock: dict[str, int],
        tokens: Iterable[TypedToken],
    ) -> NotificationBatch:
        unit = ChangeUnit(
            origin="local",
            host_id=self._host_id,
            counter=clock.get(self._host_id, 1),
            payload_type=payload_type,
            payload_id=payload_id,
        )
        batch = make_batch(self._ids.new("batch"), [unit], tokens=tokens)
        for listener in tuple(self._listeners):
            try:
                listener(batch)
            except Exception:  # noqa: BLE001 - what one does is no reason for another to miss it
                _log.exception("a listener of companions failed")
        return batch
