"""The fields that a model may ever be shown about the owner's journal.

Fewer can be allowed for a kind of companion; more cannot, without a change of this file.
"""

import hashlib
from typing import Final

OPERATION_KEY: Final = "companion_run"

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

POLICY_VERSION: Final = hashlib.sha256("\n".join(sorted(PROVIDER_FIELDS)).encode()).hexdigest()[:12]
"""Follows from the fields: whoever adds one asks every owner for a new consent."""
