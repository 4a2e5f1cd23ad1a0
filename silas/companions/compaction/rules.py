"""A summary without a model: who said what, which tools were used, what came of it (pure).

The same span always gives the same summary.
"""

from collections import Counter

from silas.companions.compaction.ports import SummaryRequest
from silas.companions.memory import Remembered
from silas.companions.models import AgentMessageKind, JsonMap

CONTRACT_VERSION = "rules-1"
_MOST_LINES = 18
_MOST_CHARS = 140
_SPOKEN = ("text", "message", "event", "question")


def summarise_by_rules(request: SummaryRequest) -> JsonMap:
    """The content of a summary, within a few thousand characters."""
    entries = request.entries
    lines = [line for each in entries if (line := line_of(each))]
    left_out = max(0, len(lines) - _MOST_LINES)
    if left_out:
        # The beginning says what it was about, the end what came of it.
        first = _MOST_LINES // 3
        lines = [*lines[:first], f"({left_out} more)", *lines[left_out + first :]]
    changed = {entity for each in entries for entity in each.message.metadata.changed_entity_ids}
    return {
        "text": "\n".join(lines),
        "messages": len(entries),
        "kinds": dict(sorted(Counter(str(each.message.kind) for each in entries).items())),
        "changed_entity_ids": sorted(changed)[:_MOST_LINES],
    }


def line_of(entry: Remembered) -> str | None:
    """An entry in one short line; None if it says nothing."""
    message, metadata = entry.message, entry.message.metadata
    if message.kind is AgentMessageKind.ACTION:
        return f"did {metadata.tool_name or metadata.action_type or 'something'}"
    if message.kind is AgentMessageKind.TOOL_RESULT:
        tool = metadata.tool_name or "it"
        return f"{tool}: {metadata.error_code or metadata.status or 'done'}"
    spoken = _spoken(entry.content)
    return f"{message.kind}: {spoken}" if spoken else None


def _spoken(content: JsonMap | None) -> str | None:
    texts = (content or {}).get(next((name for name in _SPOKEN if name in (content or {})), ""))
    if not isinstance(texts, str) or not texts.strip():
        return None
    line = " ".join(texts.split())
    return line if len(line) <= _MOST_CHARS else f"{line[: _MOST_CHARS - 1]}…"
