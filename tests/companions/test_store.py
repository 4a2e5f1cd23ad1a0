"""The store: what is written comes back, clocks go on, the dead write nothing."""

from datetime import date, timedelta
from typing import Any

import pytest

from silas.companions.errors import AgentDestroyed, CompanionUnknown, StaleRevision
from silas.companions.messages import (
    ActionPlan,
    AgentLink,
    AgentMessage,
    AgentMessagePayload,
    AgentOperation,
    AgentPersonaHead,
    AgentPersonaVersion,
    AgentPromptItem,
    AgentPromptResponse,
    AgentReport,
    AgentReportHead,
    CompactionJob,
    Diagnostic,
    EarlierDefinition,
    KeptDefinition,
    NotificationProvenance,
    PlannedAction,
    ReportSourceRef,
    RunTrace,
    WakeJob,
    WakeRun,
)
from silas.companions.models import (
    AgentActionType,
    AgentInteractionMode,
    AgentInteractionType,
    AgentLifecycle,
    AgentLinkRelation,
    AgentMessageKind,
    AgentPersonaStatus,
    AgentState,
    AgentSubscription,
    AgentTimer,
    BoundaryType,
    BudgetReservation,
    BudgetUsage,
    BudgetWindow,
    Companion,
    ErasureReceipt,
    InferenceFlag,
    InteractiveSession,
    ModelGrant,
    ModelRule,
    ModelRuleScope,
    OperationPhase,
    ProjectionPolicy,
    ProviderPrivacyPolicy,
    ReportScope,
    SourceType,
    StopScope,
    StopSwitch,
    Synced,
    TimerKind,
    WakeReason,
    WakeStatus,
)
from silas.companions.store import TABLES, CompanionStore
from silas.journal.notifications import entity, semantic, subtype
from silas.kernel.models import Data
from silas.storage import DatabaseConstraint, SqliteDatabase
from silas.testing import FakeClock
from tests.companions.making import make_companion

NOW = FakeClock().now()
OWN: dict[str, Any] = {"agent_id": "agent-1"}
MADE: dict[str, Any] = {**OWN, "created_at": NOW}
JOB = WakeJob(
    run_key="r1",
    thread_id="agent-1:run:r1",
    agent_id="agent-1",
    reason=WakeReason.TIMER,
    scheduled_at=NOW,
)
RECORDS: list[Data] = [
    AgentSubscription(
        id="sub", tokens=(semantic("TASK"), subtype("task.status", "done")), updated_at=NOW, **MADE
    ),
    AgentTimer(id="timer", kind=TimerKind.DAILY, expression="07:00", updated_at=NOW, **MADE),
    InteractiveSession(
        id="session",
        thread_id="t",
        baseline_mode=AgentInteractionMode.HYBRID,
        opened_at=NOW,
        last_activity_at=NOW,
        expires_at=NOW + timedelta(minutes=5),
        **OWN,
    ),
    AgentMessagePayload(id="payload", content={"text": "é"}, **MADE),
    AgentMessage(
        id="message",
        thread_id="t",
        kind=AgentMessageKind.USER,
        host_id="host-a",
        sequence=1,
        content_entry_id="payload",
        **MADE,
    ),
    AgentLink(
        id="link",
        relation=AgentLinkRelation.TOOL_EFFECT,
        from_id="message",
        to_id="task-1",
        metadata={"relation": "tool_effect"},
        **MADE,
    ),
    AgentReport(id="report", scope=ReportScope.CURRENT, content={"a": 1}, confidence=0.5, **MADE),
    AgentReportHead(
        id="head", scope=ReportScope.CURRENT, report_id="report", updated_at=NOW, **OWN
    ),
    ReportSourceRef(
        id="ref",
        report_id="report",
        section_id="s",
        claim_id="c",
        source_type=SourceType.JOURNAL,
        source_locator="task-1",
        captured_at=NOW,
        freshness_at=NOW,
        inference_flag=InferenceFlag.OBSERVED,
        **OWN,
    ),
    AgentPersonaVersion(
        id="persona", version=1, status=AgentPersonaStatus.ACTIVE, authored_by="user", **MADE
    ),
    AgentPersonaHead(
        id="phead",
        persona_version_id="persona",
        persona_version=1,
        host_id="host-a",
        updated_at=NOW,
        **OWN,
    ),
    AgentPromptItem(
        id="prompt",
        run_key="r1",
        interaction_type=AgentInteractionType.YES_NO,
        prompt_text="Shall I?",
        required_by=NOW,
        **MADE,
    ),
    AgentPromptResponse(
        id="answer",
        prompt_item_id="prompt",
        run_key="r1",
        response={"yes": True},
        responded_at=NOW,
        **OWN,
    ),
    CompactionJob(
        id="job",
        thread_id="t",
        start_message_id="a",
        end_message_id="b",
        next_attempt_at=NOW,
        updated_at=NOW,
        **MADE,
    ),
    Diagnostic(id="odd", kind="summary_divergence", subject_id="x", **MADE),
    WakeRun(run_key="r1", job=JOB, status=WakeStatus.QUEUED, queued_at=NOW, **OWN),
    NotificationProvenance(
        logical_change_key="k",
        local_batch_id="b",
        change_unit_keys=("u",),
        position=3,
        received_at=NOW,
    ),
    ActionPlan(
        run_key="r1",
        actions=(
            PlannedAction(
                action_stable_id="s",
                operation_id="o",
                action_type=AgentActionType.TOOL_CALL,
                tool_name="create_task",
                arguments={"title": "x"},
                arguments_hash="h",
            ),
        ),
        **MADE,
    ),
    RunTrace(
        run_key="r1",
        thread_id="t",
        reason=WakeReason.TIMER,
        status=WakeStatus.COMPLETED,
        started_at=NOW,
        ended_at=NOW,
        **OWN,
    ),
    BudgetWindow(
        id="budget",
        window_start_local_date=date(2026, 1, 1),
        time_zone="Europe/Berlin",
        usage_by_host={"host-a": BudgetUsage(tokens=5)},
        updated_at=NOW,
        **OWN,
    ),
    ProviderPrivacyPolicy(
        id="privacy",
        provider="openai",
        model="m",
        policy_version="1",
        training="no",
        retention="30 days",
        jurisdiction="US",
        disclosure="…",
        updated_at=NOW,
    ),
    ModelGrant(
        id="grant",
        agent_id="agent-1",
        provider="openai",
        model="m",
        policy_version="1",
        disclosure_hash="h",
        confirmed_at=NOW,
    ),
    BudgetReservation(
        id="reservation-1",
        agent_id="agent-1",
        window_start_local_date=date(2026, 1, 1),
        time_zone="UTC",
        usage=BudgetUsage(tokens=10),
        created_at=NOW,
    ),
    ProjectionPolicy(
        id="projection",
        boundary_type=BoundaryType.PROVIDER_INFERENCE_REQUEST,
        operation_key="planner.run",
        allowed_fields=("tasks.title",),
        policy_version="1",
        updated_at=NOW,
    ),
    StopSwitch(id="global", scope=StopScope.GLOBAL, engaged=True, changed_at=NOW),
    ModelRule(
        id="kind:planner",
        scope=ModelRuleScope.KIND,
        target="planner",
        models=("cloud:*",),
        updated_at=NOW,
    ),
    EarlierDefinition(
        id="definition",
        agent_id="agent-1",
        definition={"kind": "planner"},
        definition_hash="0",
        replaced_at=NOW,
    ),
    ErasureReceipt(id="erasure", done=True, removed={"agents": 1}, created_at=NOW),
    AgentOperation(
        operation_id="o",
        run_key="r1",
        thread_id="t",
        phase=OperationPhase.WAITING,
        call={},
        updated_at=NOW,
        **MADE,
    ),
    KeptDefinition(definition={"a": 1}, definition_hash="h", updated_at=NOW, **OWN),
]


def without_clock(record: Data) -> Data:
    return record.model_copy(update={"vector_clock": {}}) if isinstance(record, Synced) else record


async def test_every_record_comes_back_as_it_was_written(
    store: CompanionStore, companion: Companion
) -> None:
    for record in RECORDS:
        table = TABLES[type(record)]
        written = await store.put(record)
        read = await store.get(type(record), getattr(record, table.key))
        assert read == written
        assert without_clock(written) == record
        assert await store.find(type(record)) == [written]
    assert {type(record) for record in RECORDS} | {Companion, AgentState} == TABLES.keys()


async def test_every_write_is_after_what_was_there(
    store: CompanionStore, companion: Companion
) -> None:
    again = await store.put(companion.model_copy(update={"display_name": "Other"}))
    assert again.vector_clock["host-a"] > companion.vector_clock["host-a"]
    # Also if the writer had forgotten what it read.
    blind = await store.put(again.model_copy(update={"vector_clock": {"host-b": 7}}))
    assert blind.vector_clock["host-a"] > again.vector_clock["host-a"]
    assert blind.vector_clock["host-b"] == 7


async def test_a_state_is_written_only_over_the_revision_it_was_made_from(
    store: CompanionStore, companion: Companion
) -> None:
    state = await store.require(AgentState, companion.current_state_id)
    newer = await store.put(state.model_copy(update={"consecutive_failure_count": 1}))
    assert newer.revision == state.revision + 1
    with pytest.raises(StaleRevision):
        await store.put(state)


async def test_what_is_written_once_keeps_its_first_version(
    store: CompanionStore, companion: Companion
) -> None:
    payload = AgentMessagePayload(id="p", content={"n": 1}, **MADE)
    first = await store.put(payload)
    assert await store.put(payload.model_copy(update={"content": {"n": 2}})) == first
    assert await store.get(AgentMessagePayload, "p") == first


async def test_content_entry_id_must_name_a_payload(
    store: CompanionStore, companion: Companion
) -> None:
    from_nowhere = next(each for each in RECORDS if isinstance(each, AgentMessage))
    with pytest.raises(DatabaseConstraint):
        await store.put(from_nowhere)


async def test_removing_leaves_a_tombstone(store: CompanionStore, companion: Companion) -> None:
    timer = await store.put(next(each for each in RECORDS if isinstance(each, AgentTimer)))
    gone = await store.delete(AgentTimer, timer.id)
    assert gone.deleted_at is not None
    assert not gone.active
    assert gone.vector_clock["host-a"] > timer.vector_clock["host-a"]
    assert await store.get(AgentTimer, timer.id) is None
    assert await store.find(AgentTimer) == []
    assert await store.find(AgentTimer, with_deleted=True) == [gone]
    with pytest.raises(CompanionUnknown, match="no timer timer"):
        await store.require(AgentTimer, timer.id)


async def test_nothing_is_written_for_a_destroyed_companion_but_what_became_of_it(
    store: CompanionStore, companion: Companion
) -> None:
    await store.put(companion.model_copy(update={"lifecycle": AgentLifecycle.DESTROYED}))
    for record in RECORDS:
        mine = getattr(record, "agent_id", None) == "agent-1"
        if mine and not TABLES[type(record)].outlives:
            with pytest.raises(AgentDestroyed):
                await store.put(record)
            assert await store.find(type(record)) == []
        else:
            await store.put(record)
    with pytest.raises(AgentDestroyed):
        await store.put(companion)


async def test_records_of_an_unknown_companion_are_refused(store: CompanionStore) -> None:
    with pytest.raises(CompanionUnknown):
        await store.put(AgentMessagePayload(id="p", content={}, **MADE))


async def test_subscription_token_index_coverage(
    store: CompanionStore, database: SqliteDatabase, companion: Companion
) -> None:
    tokens = (semantic("TASK"), subtype("task.status", "done"), entity("task-1"))
    subscription = await store.put(
        AgentSubscription(id="sub", tokens=tokens, updated_at=NOW, **MADE)
    )
    sql = "SELECT token_class, token_namespace, token_value, active FROM agent_subscription_tokens"
    rows = sorted(await database.fetch_all(sql), key=str)
    assert rows == [
        ("entity_id", None, "task-1", 1),
        ("semantic_key", None, "TASK", 1),
        ("subtype_token", "task.status", "done", 1),
    ]
    await store.put(subscription.model_copy(update={"tokens": tokens[:1]}))
    assert await database.fetch_all(sql) == [("semantic_key", None, "TASK", 1)]
    await store.delete(AgentSubscription, "sub")
    assert await database.fetch_all(sql) == [("semantic_key", None, "TASK", 0)]


async def test_the_indexes_of_the_plan_exist_and_are_used(database: SqliteDatabase) -> None:
    names = {row[0] for row in await database.fetch_all("SELECT name FROM sqlite_master")}
    planned = """
        agent_subscriptions_agent_active agent_subscriptions_key_active
        agent_subscription_tokens_class_namespace_value_active
        agent_subscription_tokens_subscription_active agent_timers_due
        agent_messages_agent_created agent_message_payloads_agent_created
        agent_reports_agent_scope_created agent_report_heads_agent_scope
        agent_persona_versions_agent_version agent_persona_heads_agent
        agent_prompt_items_agent_state_due agent_prompt_responses_prompt_responded
        agent_compaction_jobs_ready agent_compaction_jobs_thread_status
        agent_source_refs_agent_source agent_links_type_from_hidden_created
        agent_links_type_to_hidden_created
    """
    assert {f"idx_{name}" for name in planned.split()} <= names
    plan = await database.fetch_all(
        "EXPLAIN QUERY PLAN SELECT body FROM agent_messages WHERE agent_id = ? AND thread_id = ? "
        "AND summary_depth = 0 ORDER BY sequence DESC LIMIT 5",
        ("a", "t"),
    )
    steps = [row[3] for row in plan]
    assert len(steps) == 1
    assert "USING INDEX idx_agent_messages_thread_depth" in steps[0]


async def test_a_question_about_an_unknown_column_is_a_mistake(store: CompanionStore) -> None:
    with pytest.raises(ValueError, match="has no column name; DROP"):
        await store.find(Companion, {"name; DROP": 1})


async def test_companions_are_found_by_what_they_are(store: CompanionStore) -> None:
    await make_companion(store, "a", kind="planner")
    await make_companion(store, "b", kind="gym_coach")
    assert [each.id for each in await store.find(Companion, {"kind": "gym_coach"})] == ["b"]
    newest = await store.find(Companion, newest_first=True, limit=1)
    assert [each.id for each in newest] == ["b"]
