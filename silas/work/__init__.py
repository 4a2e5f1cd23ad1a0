"""Work: plans, work items, their state, and what was made of them.

A plan is parsed here, stored here and changes its status here; nothing in this room approves it.
Completion is something that checks find out, never something that a worker says.
"""

from silas.gates import EscalationAction
from silas.work.artifacts import Artifact, ArtifactNamespace, ArtifactStore
from silas.work.attempts import Attempt, AttemptOutcome, AttemptStore
from silas.work.budget import Budget, BudgetUsed
from silas.work.checks import VerificationCheck, VerificationReport, VerificationResult
from silas.work.errors import (
    ArtifactRefused,
    IllegalTransition,
    PlanInvalid,
    PlanProblem,
    WorkItemConflict,
    WorkItemUnknown,
)
from silas.work.execution_models import (
    ExecutionEnvelope,
    ExecutionResult,
    ExecutorAgentOutput,
    ModelView,
)
from silas.work.front_matter import decode_plan
from silas.work.ledger import LedgerEntry, ToolLedger, collect_artifacts
from silas.work.models import (
    InteractionMode,
    WorkItem,
    WorkItemResult,
    WorkItemStatus,
    WorkItemType,
)
from silas.work.plan import Plan, parse, parse_plan
from silas.work.plan_hash import work_item_plan_hash_bytes, work_item_spawn_policy_bytes
from silas.work.spawning import spawn_task
from silas.work.status import TRANSITIONS, may_follow, require_transition
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
