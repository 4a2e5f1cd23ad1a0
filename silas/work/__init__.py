"""Work: plans, work items, their state, and what was made of them.

A plan is parsed here, stored here and changes its status here; nothing in this package approves it.
Completion is something that checks find out, never something that a worker says.
"""

from silas.gates import EscalationAction
from silas.tools.execution import ExecutionEnvelope, ExecutionResult, ModelView
from silas.work.artifacts import Artifact, ArtifactNamespace, ArtifactStore
from silas.work.attempt_store import Attempt, AttemptOutcome, AttemptStore
from silas.work.errors import (
    ArtifactRefused,
    IllegalTransition,
    PlanInvalid,
    PlanProblem,
    WorkItemConflict,
    WorkItemUnknown,
)
from silas.work.ledger import LedgerEntry, ToolLedger, collect_artifacts
from silas.work.models import (
    TRANSITIONS,
    Budget,
    BudgetUsed,
    InteractionMode,
    VerificationCheck,
    VerificationReport,
    VerificationResult,
    WorkItem,
    WorkItemResult,
    WorkItemStatus,
    WorkItemType,
    may_follow,
    require_transition,
    work_item_plan_hash_bytes,
    work_item_spawn_policy_bytes,
)
from silas.work.plan import Plan, parse, parse_plan
from silas.work.plan_text import decode_plan
from silas.work.ports import ExecutorAgentOutput
from silas.work.spawning import spawn_task
from silas.work.store import WorkItemStore

__all__ = [
    "TRANSITIONS",
    "Artifact",
    "ArtifactNamespace",
    "ArtifactRefused",
    "ArtifactStore",
    "Attempt",
    "AttemptOutcome",
    "AttemptStore",
    "Budget",
    "BudgetUsed",
    "EscalationAction",
    "ExecutionEnvelope",
    "ExecutionResult",
    "ExecutorAgentOutput",
    "IllegalTransition",
    "InteractionMode",
    "LedgerEntry",
    "ModelView",
    "Plan",
    "PlanInvalid",
    "PlanProblem",
    "ToolLedger",
    "VerificationCheck",
    "VerificationReport",
    "VerificationResult",
    "WorkItem",
    "WorkItemConflict",
    "WorkItemResult",
    "WorkItemStatus",
    "WorkItemStore",
    "WorkItemType",
    "WorkItemUnknown",
    "collect_artifacts",
    "decode_plan",
    "may_follow",
    "parse",
    "parse_plan",
    "require_transition",
    "spawn_task",
    "work_item_plan_hash_bytes",
    "work_item_spawn_policy_bytes",
]
