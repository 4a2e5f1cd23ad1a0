"""The fields that a model may ever be shown about the owner's journal.

Fewer can be allowed for a kind of companion, or by the stored policy; more cannot, without a change
of this file.
"""

import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

OPERATION_KEY: Final = "companion_run"
SUMMARY_KEY: Final = "companion_summary"

_TASK = (
    "source_id", "kind", "id", "title", "score", "certain", "status", "priority",
    "estimate_minutes", "due_at",
    "category_id", "labels[]", "open_items[]", "open_item_count", "done_item_count",
    "logged_minutes", "logged_minutes_last_days", "changed", "has_follow_up",
)  # fmt: skip
_OTHER_FACTS = (
    "name", "date", "starts_at", "ends_at", "note", "task_id", "dimension", "average", "count",
    "latest", "value", "days", "text", "minutes", "pinned_task_ids[]",
)  # fmt: skip

PROVIDER_FIELDS: Final = frozenset(
    {
        "now",
        "time_zone",
        "companion.display_name",
        "companion.kind",
        "companion.instructions",
        "persona.voice",
        "persona.directives[]",
        "persona.coaching_style",
        "persona.anti_sycophancy_policy",
        "persona.tone_bounds.*",
        "wake.reason",
        "wake.said",
        "wake.answers[].question",
        "wake.answers[].answer",
        "memory.recent[].kind",
        "memory.recent[].text",
        "memory.summaries[].text",
        "report.scope",
        "report.headline",
        "report.sections[].id",
        "report.sections[].title",
        "slots.primary_goal",
        *(f"facts[].{name}" for name in (*_TASK, *_OTHER_FACTS)),
        "results[].tool_name",
        "results[].status",
        "results[].error_code",
    }
)
"""Whatever is not named here never leaves the machine in a request to a model."""

SUMMARY_FIELDS: Final = frozenset(
    {
        "companion.display_name",
        "companion.kind",
        "companion.instructions",
        "wake.reason",
        "wake.said",
        "memory.recent[].kind",
        "memory.recent[].text",
    }
)
"""What a model is shown that puts a companion's memory into a few sentences."""

FIELDS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {OPERATION_KEY: PROVIDER_FIELDS, SUMMARY_KEY: SUMMARY_FIELDS}
)
"""For each operation that asks a model."""


def version_of(fields: frozenset[str]) -> str:
    """Follows from the fields: whoever adds one asks every owner for a new consent."""
    return hashlib.sha256("\n".join(sorted(fields)).encode()).hexdigest()[:12]
