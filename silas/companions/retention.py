"""How long what companions leave behind is kept, and in which order it goes.

1. What is shown or remembered has no end: companions, states, personas, report heads and the
   reports they point to, summaries, what waits for the owner.
2. What explains goes after a while, the shortest-lived first. Only what is at its end goes.
3. A tombstone stays until every device has had time to see it.
4. Who was destroyed is forgotten whole once that time has passed.

How long is a setting (`companions.keep_days`); these are its defaults.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType

from silas.companions.store import CompanionStore
from silas.kernel import format_timestamp
from silas.storage import Transaction


class ArtifactClass(StrEnum):
    """The classes of what companions leave behind."""

    JOB = "job"
    PROVENANCE = "provenance"
    TRACE = "trace"
    WAKE = "wake"
    PROMPT = "prompt"
    ACTION_RESULT = "action_result"
    REPORT = "report"
    TOMBSTONE = "tombstone"
    DESTROYED = "destroyed"


FOR_EVER = 0
KEEP_DAYS: Mapping[ArtifactClass, int] = MappingProxyType(
    {
        ArtifactClass.JOB: 14,
        ArtifactClass.PROVENANCE: 30,
        ArtifactClass.TRACE: 90,
        ArtifactClass.WAKE: 180,
        ArtifactClass.PROMPT: 180,
        ArtifactClass.ACTION_RESULT: 365,
        ArtifactClass.REPORT: 365,
        ArtifactClass.TOMBSTONE: 180,
        ArtifactClass.DESTROYED: 365,
    }
)
"""The order is the order in which things go."""

_SOURCES_OF_OLD_REPORTS = """
DELETE FROM agent_source_refs WHERE report_id IN (
    SELECT r.id FROM agent_reports AS r WHERE r.created_at < ?
        AND NOT EXISTS (SELECT 1 FROM agent_report_heads AS h WHERE h.report_id = r.id)
)
"""
_OLD_REPORTS = """
DELETE FROM agent_reports WHERE created_at < ?
    AND NOT EXISTS (SELECT 1 FROM agent_report_heads AS h WHERE h.report_id = agent_reports.id)
"""
# Of the log, only what a summary has taken up.
_COVERED_MESSAGES = """
DELETE FROM agent_messages WHERE created_at < ? AND summary_depth = 0 AND sequence <= (
    SELECT coalesce(max(s.sequence), -1) FROM agent_messages AS s
    WHERE s.agent_id = agent_messages.agent_id AND s.thread_id = agent_messages.thread_id
        AND s.summary_depth = 1
)
"""
_PAYLOADS_WITHOUT_MESSAGE = """
DELETE FROM agent_message_payloads WHERE created_at < ? AND NOT EXISTS (
    SELECT 1 FROM agent_messages AS m WHERE m.content_entry_id = agent_message_payloads.id
)
"""
_ANSWERED_QUESTIONS = """
DELETE FROM agent_prompt_items WHERE created_at < ? AND state <> 'open' AND NOT EXISTS (
    SELECT 1 FROM agent_prompt_responses AS r WHERE r.prompt_item_id = agent_prompt_items.id
)
"""
_ENDED_JOBS = """
DELETE FROM agent_compaction_jobs WHERE created_at < ? AND status IN ('done', 'failed_terminal')
"""
_ENDED_WAKES = """
DELETE FROM wake_run_log WHERE queued_at < ? AND status NOT IN ('queued', 'running')
"""
_TOKENS_OF_TOMBSTONES = """
DELETE FROM agent_subscription_tokens WHERE subscription_id IN (
    SELECT id FROM agent_subscriptions WHERE deleted_at < ?
)
"""

_STATEMENTS: Mapping[ArtifactClass, tuple[str, ...]] = MappingProxyType(
    {
        ArtifactClass.JOB: (_ENDED_JOBS, "DELETE FROM agent_diagnostics WHERE created_at < ?"),
        ArtifactClass.PROVENANCE: ("DELETE FROM notification_provenance WHERE received_at < ?",),
        ArtifactClass.TRACE: (
            "DELETE FROM agent_run_traces WHERE started_at < ?",
            "DELETE FROM agent_sessions WHERE closed_at < ?",
        ),
        ArtifactClass.WAKE: (
            _ENDED_WAKES,
            "DELETE FROM agent_operations WHERE updated_at < ? AND status = 'done'",
            "DELETE FROM agent_action_plans WHERE created_at < ?",
        ),
        ArtifactClass.PROMPT: (
            "DELETE FROM agent_prompt_responses WHERE responded_at < ?",
            _ANSWERED_QUESTIONS,
        ),
        ArtifactClass.ACTION_RESULT: (_COVERED_MESSAGES, _PAYLOADS_WITHOUT_MESSAGE),
        ArtifactClass.REPORT: (_SOURCES_OF_OLD_REPORTS, _OLD_REPORTS),
        ArtifactClass.TOMBSTONE: (
            _TOKENS_OF_TOMBSTONES,
            "DELETE FROM agent_subscriptions WHERE deleted_at < ?",
            "DELETE FROM agent_timers WHERE deleted_at < ?",
            "DELETE FROM agent_links WHERE deleted_at < ?",
        ),
    }
)
_GONE = """
SELECT id FROM agents
WHERE lifecycle = 'destroyed' AND json_extract(body, '$.destroyed_at') < ?
"""
_OF_ONE = (
    "agent_source_refs",
    "agent_report_heads",
    "agent_reports",
    "agent_persona_heads",
    "agent_persona_versions",
    "agent_prompt_responses",
    "agent_prompt_items",
    "agent_links",
    "agent_messages",
    "agent_message_payloads",
    "agent_budget_windows",
    "agent_budget_reservations",
    "agent_compaction_jobs",
    "agent_action_plans",
    "agent_operations",
    "agent_run_traces",
    "agent_diagnostics",
    "agent_definitions",
    "agent_sessions",
    "agent_timers",
    "wake_run_log",
    "model_grants",
)
_TOKENS = """
DELETE FROM agent_subscription_tokens WHERE subscription_id IN (
    SELECT id FROM agent_subscriptions WHERE agent_id = ?)
"""


class Retention:
    """Lets go of what has been kept long enough."""

    def __init__(
        self, store: CompanionStore, keep_days: Mapping[ArtifactClass, int] = KEEP_DAYS
    ) -> None:
        self._store = store
        self.keep_days = keep_days

    async def prune(self) -> dict[str, int]:
        """Let go of everything whose time has come; returns how many rows of which class."""
        return {str(each): await self._prune(each) for each in KEEP_DAYS}

    async def forget(self, agent_id: str) -> int:
        """Forget a companion whole, because the owner wants it; returns how many rows that were."""
        return await self._store.transaction(lambda tx: _forget_in(tx, agent_id))

    async def _prune(self, artifact: ArtifactClass) -> int:
        days = self.keep_days.get(artifact, KEEP_DAYS[artifact])
        if days == FOR_EVER:
            return 0
        before = format_timestamp(self._before(days))
        if artifact is ArtifactClass.DESTROYED:
            gone = await self._store.database.fetch_all(_GONE, (before,))
            return sum([await self.forget(row[0]) for row in gone])
        statements = _STATEMENTS[artifact]
        return await self._store.transaction(
            lambda tx: sum(tx.execute(each, (before,)) for each in statements)
        )

    def _before(self, days: int) -> datetime:
        return self._store.clock.now() - timedelta(days=days)


def _forget_in(tx: Transaction, agent_id: str) -> int:
    gone = tx.execute(_TOKENS, (agent_id,))
    for table in (*_OF_ONE, "agent_subscriptions", "agent_states"):
        gone += tx.execute(f"DELETE FROM {table} WHERE agent_id = ?", (agent_id,))  # noqa: S608
    return gone + tx.execute("DELETE FROM agents WHERE id = ?", (agent_id,))
