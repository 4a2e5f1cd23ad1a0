"""How long what companions leave behind is kept, and in which order it goes.

1. What is shown or remembered has no end: companions, states, personas, report heads and the
   reports they point to, summaries, what waits for the owner.
2. What explains goes after a while, the shortest-lived first. Only what is at its end goes.
3. A tombstone stays until every device has had time to see it.
4. Who was destroyed is forgotten whole once that time has passed.
5. Where all of it together takes more room than it may, the times of rule 2 are cut to a half, a
   quarter, and so on, class by class in their order, until it is enough. What rule 1 names is never
   taken for that.

How long is a setting (`companions.keep_days`), how much room another (`companions.max_megabytes`);
these are the defaults. The classes of what companions do not have yet (attention, pictures,
rebuilding, quotas) come with them.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType

from silas.companions.erasure import forget_companion_in
from silas.companions.store import CompanionStore
from silas.kernel import format_timestamp


class ArtifactClass(StrEnum):
    """The classes of what companions leave behind."""

    JOB = "job"
    PROVENANCE = "provenance"
    TRACE = "trace"
    WAKE = "wake"
    PROMPT = "prompt"
    BUDGET = "budget"
    ACTION_RESULT = "action_result"
    SUMMARY = "summary"
    REPORT = "report"
    PERSONA = "persona"
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
        ArtifactClass.BUDGET: 400,
        ArtifactClass.ACTION_RESULT: 365,
        ArtifactClass.SUMMARY: 730,
        ArtifactClass.REPORT: 365,
        ArtifactClass.PERSONA: FOR_EVER,
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
_TOMBSTONES_OF_QUESTIONS = """
DELETE FROM agent_prompt_items WHERE deleted_at < ? AND NOT EXISTS (
    SELECT 1 FROM agent_prompt_responses AS r WHERE r.prompt_item_id = agent_prompt_items.id
)
"""
_TOMBSTONES_OF_REPORTS = """
DELETE FROM agent_reports WHERE deleted_at < ? AND NOT EXISTS (
    SELECT 1 FROM agent_report_heads AS h WHERE h.report_id = agent_reports.id
)
"""
_ENDED_JOBS = """
DELETE FROM agent_compaction_jobs WHERE created_at < ? AND status IN ('done', 'failed_terminal')
"""
_ENDED_WAKES = """
DELETE FROM wake_run_log WHERE queued_at < ? AND status NOT IN ('queued', 'running')
"""
# Of the summaries, only those that a summary of summaries has taken up.
_COVERED_SUMMARIES = """
DELETE FROM agent_messages WHERE created_at < ? AND summary_depth = 1 AND sequence < (
    SELECT coalesce(max(s.sequence), -1) FROM agent_messages AS s
    WHERE s.agent_id = agent_messages.agent_id AND s.summary_depth = 2
)
"""
_LINKS_OF_GONE_MESSAGES = """
DELETE FROM agent_links WHERE created_at < ?
    AND type IN ('message_prev', 'message_payload', 'summary_start', 'summary_end', 'tool_effect')
    AND NOT EXISTS (SELECT 1 FROM agent_messages AS m WHERE m.id = agent_links.from_id)
"""
_OLD_PERSONAS = """
DELETE FROM agent_persona_versions
WHERE json_extract(body, '$.created_at') < ?
    AND status = 'archived'
    AND id NOT IN (SELECT h.persona_version_id FROM agent_persona_heads AS h)
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
            "DELETE FROM agent_operations WHERE updated_at < ? AND status <> 'pending'",
            "DELETE FROM agent_action_plans WHERE created_at < ?",
        ),
        ArtifactClass.PROMPT: (
            "DELETE FROM agent_prompt_responses WHERE responded_at < ?",
            _ANSWERED_QUESTIONS,
        ),
        ArtifactClass.BUDGET: (
            "DELETE FROM agent_budget_windows WHERE window_start_local_date < substr(?, 1, 10)",
        ),
        ArtifactClass.ACTION_RESULT: (
            _COVERED_MESSAGES,
            _PAYLOADS_WITHOUT_MESSAGE,
            _LINKS_OF_GONE_MESSAGES,
        ),
        ArtifactClass.SUMMARY: (
            _COVERED_SUMMARIES,
            _PAYLOADS_WITHOUT_MESSAGE,
            _LINKS_OF_GONE_MESSAGES,
        ),
        ArtifactClass.PERSONA: (_OLD_PERSONAS,),
        ArtifactClass.REPORT: (_SOURCES_OF_OLD_REPORTS, _OLD_REPORTS),
        ArtifactClass.TOMBSTONE: (
            _TOKENS_OF_TOMBSTONES,
            "DELETE FROM agent_subscriptions WHERE deleted_at < ?",
            "DELETE FROM agent_timers WHERE deleted_at < ?",
            "DELETE FROM agent_links WHERE deleted_at < ?",
            "DELETE FROM agent_messages WHERE deleted_at < ?",
            "DELETE FROM agent_message_payloads WHERE deleted_at < ?",
            "DELETE FROM agent_prompt_responses WHERE deleted_at < ?",
            _TOMBSTONES_OF_QUESTIONS,
            "DELETE FROM agent_source_refs WHERE deleted_at < ?",
            "DELETE FROM agent_report_heads WHERE deleted_at < ?",
            _TOMBSTONES_OF_REPORTS,
            _LINKS_OF_GONE_MESSAGES,
        ),
    }
)
_SIZE = """
SELECT (p.page_count - f.freelist_count) * s.page_size
FROM pragma_page_count() AS p, pragma_freelist_count() AS f, pragma_page_size() AS s
"""
_CUTS = (2, 4, 8, 16, 32)
_SHORTEST_DAYS = 2
"""So long everything is kept, however little room there is."""
_NOT_FOR_ROOM = (ArtifactClass.TOMBSTONE, ArtifactClass.DESTROYED, ArtifactClass.PERSONA)
_GONE = """
SELECT id FROM agents
WHERE lifecycle = 'destroyed' AND json_extract(body, '$.destroyed_at') < ?
"""


class Retention:
    """Lets go of what has been kept long enough."""

    def __init__(
        self,
        store: CompanionStore,
        keep_days: Mapping[ArtifactClass, int] = KEEP_DAYS,
        *,
        max_bytes: int | None = None,
    ) -> None:
        """Without `max_bytes`, there may be as much as there is."""
        self._store = store
        self.keep_days = keep_days
        self.max_bytes = max_bytes

    async def prune(self) -> dict[str, int]:
        """Let go of everything whose time has come; returns how many rows of which class."""
        gone = {str(each): await self._prune(each) for each in KEEP_DAYS}
        for name, count in (await self._make_room()).items():
            gone[name] += count
        return gone

    async def size(self) -> int:
        """How many bytes are in use."""
        row = await self._store.database.fetch_one(_SIZE)
        return int(row[0]) if row else 0

    async def _make_room(self) -> dict[str, int]:
        """Rule 5."""
        gone: dict[str, int] = {}
        if self.max_bytes is None:
            return gone
        for cut in _CUTS:
            for artifact in KEEP_DAYS:
                if await self.size() <= self.max_bytes:
                    return gone
                if artifact not in _NOT_FOR_ROOM:
                    days = max(_SHORTEST_DAYS, self._days(artifact) // cut)
                    count = await self._prune_older(artifact, days)
                    gone[str(artifact)] = gone.get(str(artifact), 0) + count
        return gone

    async def forget(self, agent_id: str) -> int:
        """Forget a companion whole, because the owner wants it; returns how many rows that were."""
        return await self._store.transaction(
            lambda tx: forget_companion_in(tx, self._store, agent_id)
        )

    async def _prune(self, artifact: ArtifactClass) -> int:
        days = self.keep_days.get(artifact, KEEP_DAYS[artifact])
        return 0 if days == FOR_EVER else await self._prune_older(artifact, days)

    def _days(self, artifact: ArtifactClass) -> int:
        """What is kept for ever has to make room as if it were kept for its usual time."""
        return self.keep_days.get(artifact) or KEEP_DAYS[artifact]

    async def _prune_older(self, artifact: ArtifactClass, days: int) -> int:
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
