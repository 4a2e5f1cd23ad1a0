"""What a model is told: put together from what was read, then cut down to what may be shown."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from silas.companions.facts import Fact
from silas.companions.kinds.definition import CompanionDefinition
from silas.companions.memory import AssembledMemory, Remembered
from silas.companions.models import (
    AgentMessageKind,
    AgentPersonaVersion,
    AgentState,
    Companion,
    WakeJob,
)
from silas.companions.policy.projection import project
from silas.companions.tools.models import AgentToolResult

PROMPT_ID = "companion"
PROMPT_VERSION = "1"


def build_payload(
    companion: Companion,
    definition: CompanionDefinition,
    *,
    job: WakeJob,
    state: AgentState,
    persona: AgentPersonaVersion | None,
    memory: Mapping[str, Any],
    facts: Iterable[Fact],
    results: Sequence[AgentToolResult],
    answers: Sequence[Mapping[str, str]],
    now: datetime,
    time_zone: str,
    allowed_fields: frozenset[str],
) -> dict[str, Any]:
    """The payload, projected. Of what is built here, only the allowlisted part is left."""
    whole = {
        "now": now.astimezone(ZoneInfo(time_zone)).isoformat(timespec="minutes"),
        "time_zone": time_zone,
        "companion": {
            "display_name": companion.display_name,
            "kind": companion.kind,
            "instructions": definition.instructions,
        },
        "persona": persona_shown(persona),
        "wake": {"reason": job.reason.value, "said": job.seed_input, "answers": list(answers)},
        "memory": memory,
        "slots": {"primary_goal": state.slots.primary_goal},
        "report": {
            "scope": definition.report.scope.value,
            "headline": definition.report.headline,
            "sections": [
                {"id": each.id, "title": each.title} for each in definition.report.sections
            ],
        },
        "facts": [fact.shown() for fact in facts],
        "results": [
            {
                "tool_name": each.tool_name,
                "status": each.status.value,
                "error_code": each.error_code,
            }
            for each in results
        ],
    }
    return project(whole, allowed_fields)


def persona_shown(persona: AgentPersonaVersion | None) -> dict[str, Any]:
    """A persona as a model is told it."""
    if persona is None:
        return {}
    return {
        **persona.voice_directives,
        "tone_bounds": persona.tone_bounds,
        "coaching_style": persona.coaching_style,
        "anti_sycophancy_policy": persona.anti_sycophancy_policy,
    }


def memory_shown(memory: AssembledMemory) -> dict[str, Any]:
    """What is remembered, in short lines."""
    return {
        "recent": [
            {"kind": each.message.kind.value, "text": _line(each)}
            for each in memory.hot
            if _line(each)
        ],
        "summaries": [
            {"text": str((each.content or {}).get("text", ""))}
            for each in (*memory.cold, *memory.warm)
        ],
    }


def _line(remembered: Remembered) -> str:
    message, content = remembered.message, remembered.content or {}
    metadata = message.metadata
    if message.kind is AgentMessageKind.ACTION:
        return f"{metadata.tool_name or metadata.action_type}: {content.get('reason', '')}"
    if message.kind is AgentMessageKind.TOOL_RESULT:
        return f"{metadata.tool_name}: {metadata.error_code or metadata.status}"
    return str(content.get("text", ""))
