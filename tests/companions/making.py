"""Companions for tests, with their state."""

from typing import Any

from silas.companions.ids import state_id
from silas.companions.models import (
    AgentLifecycle,
    AgentMessageKind,
    AgentState,
    Companion,
    MessageDraft,
)
from silas.companions.store import CompanionStore


async def make_companion(
    store: CompanionStore, agent_id: str = "agent-1", **fields: Any
) -> Companion:
    """A companion that is awake, and its empty state."""
    now = store.clock.now()
    made = Companion(
        **{
            "id": agent_id,
            "kind": "planner",
            "display_name": "Planner",
            "lifecycle": AgentLifecycle.ACTIVE,
            "allowed_category_ids": ("gym",),
            "current_state_id": state_id(agent_id),
            "created_at": now,
            "updated_at": now,
            **fields,
        }
    )
    companion = await store.put(made)
    await store.put(AgentState(id=state_id(agent_id), agent_id=agent_id, updated_at=now))
    return companion


def draft(text: str = "hello", *, thread: str = "agent-1:run:1", **fields: Any) -> MessageDraft:
    """A message of the companion `agent-1`."""
    return MessageDraft(
        **{
            "agent_id": "agent-1",
            "thread_id": thread,
            "kind": AgentMessageKind.OBSERVATION,
            "content": {"text": text},
            **fields,
        }
    )
