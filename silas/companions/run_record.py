"""What a run has gathered so far, and what it will leave behind. Nothing here does I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from silas.companions.actions import (
    Provenance,
    action_draft,
    planned_action,
    result_draft,
)
from silas.companions.decisions import Decisions
from silas.companions.errors import AnswerRequired, CompanionUnknown, ReportInvalid, tool_code
from silas.companions.facts import Fact, facts_from, merged
from silas.companions.ids import run_message_id
from silas.companions.kinds.definition import CompanionDefinition
from silas.companions.kinds.template import template_report
from silas.companions.models import (
    AgentActionType,
    AgentMessageKind,
    AgentMessageMetadata,
    AgentPersonaVersion,
    AgentPromptItem,
    AgentReport,
    AgentState,
    BudgetUsage,
    Companion,
    MessageDraft,
    PlannedAction,
    PolicyDecision,
    ReportSourceRef,
    RunTrace,
    ToolResultStatus,
    TracedCall,
    WakeJob,
    WakeStatus,
)
from silas.companions.prompt_items import PromptItems, prompt_item_id
from silas.companions.proposals import CompanionProposal, ProposedAction, Question, ReportDraft
from silas.companions.reducer import reduce_state
from silas.companions.reports import build_report
from silas.companions.requests import PROMPT_ID, PROMPT_VERSION, build_payload
from silas.companions.tools.executor import refused
from silas.companions.tools.models import AgentToolCall, AgentToolResult
from silas.kernel import CompanionError, format_timestamp

MODEL_INFERENCE = "model_inference"
"""What the log calls a question to a model that was refused."""
_MICRO = 1_000_000


@dataclass
class RunRecord:
    """One run on its way."""

    job: WakeJob
    companion: Companion
    state: AgentState
    started_at: datetime
    scope: tuple[str, ...] = ()
    """The border of the actions; that of the companion when it began, or when they were planned."""
    definition: CompanionDefinition | None = None
    persona: AgentPersonaVersion | None = None
    memory: Mapping[str, Any] = field(default_factory=dict)
    answers: Sequence[Mapping[str, str]] = ()
    time_zone: str = "UTC"
    allowed_fields: frozenset[str] = frozenset()
    """What a model may be shown."""
    decisions: Decisions = field(default_factory=Decisions)
    facts: tuple[Fact, ...] = ()
    reads: list[dict[str, Any]] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    proposals: list[CompanionProposal] = field(default_factory=list)
    results: list[AgentToolResult] = field(default_factory=list)
    calls: list[TracedCall] = field(default_factory=list)
    drafts: list[MessageDraft] = field(default_factory=list)
    operations: list[str] = field(default_factory=list)
    questions: list[AgentPromptItem] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    sleep_until: datetime | None = None
    source_cursor: int = 0
    report_at: datetime | None = None
    after: AgentState | None = None
    report: AgentReport | None = None
    source_refs: tuple[ReportSourceRef, ...] = ()
    refused_report: str | None = None
    latency_ms: int = 0
    asked_ms: int = 0
    """How much of it models took that were asked in this run."""

    def __post_init__(self) -> None:
        self.scope = self.scope or self.companion.allowed_category_ids

    def require_definition(self) -> CompanionDefinition:
        """What the companion is; raises `CompanionUnknown`."""
        if self.definition is None:
            raise CompanionUnknown
        return self.definition

    def planned(self, action: ProposedAction) -> PlannedAction:
        """The action with its ids."""
        return planned_action(self.job.run_key, action, scope=self.scope)

    def payload(self) -> dict[str, Any]:
        """What the model is shown now."""
        return build_payload(
            self.companion,
            self.require_definition(),
            job=self.job,
            state=self.state,
            persona=self.persona,
            memory=self.memory,
            facts=self.facts,
            results=self.results,
            answers=self.answers,
            now=self.started_at,
            time_zone=self.time_zone,
            allowed_fields=self.allowed_fields,
        )

    def note_wake(self) -> None:
        """The first entry: what it was woken by, or what the owner said."""
        said = self.job.seed_input
        kind = AgentMessageKind.USER if said else AgentMessageKind.OBSERVATION
        changed = list(self.job.changed_entity_ids)
        content = {"text": said} if said else {"reason": self.job.reason.value, "changed": changed}
        self._say(kind, "wake", content)

    def add_read(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        result: AgentToolResult,
        *,
        at: datetime,
    ) -> None:
        """Something that is looked up in every run; it is no action, and tells no story."""
        self.reads.append(
            {
                "tool": tool,
                "arguments": dict(arguments),
                "payload": result.payload,
                "error_code": result.error_code,
                "at": format_timestamp(at),
            }
        )
        self._learn(tool, result.payload, at)

    def add_proposal(self, proposal: CompanionProposal) -> None:
        """What the model has answered."""
        self.proposals.append(proposal)
        if proposal.thought or proposal.fallback:
            text = proposal.fallback or proposal.thought
            self._say(AgentMessageKind.THOUGHT, f"thought:{len(self.proposals)}", {"text": text})

    def note_action(self, planned: PlannedAction, action: ProposedAction) -> None:
        """What is about to be done."""
        self.drafts.append(
            action_draft(planned, job=self.job, reason=action.reason, provenance=self.provenance)
        )

    def add_result(
        self, planned: PlannedAction, result: AgentToolResult, *, latency_ms: int, at: datetime
    ) -> None:
        """What came of it."""
        self.results.append(result)
        self.drafts.append(self._result_draft(result))
        self.calls.append(_traced(planned, result, latency_ms=latency_ms))
        if result.changed_entity_ids or result.status is ToolResultStatus.SUCCESS:
            self.operations.append(result.operation_id)
        if result.error_code == "confirmation_required":
            self.waiting.append(result.operation_id)
        if result.success:
            self._learn(result.tool_name, result.payload, at)

    def ask(
        self, prompts: PromptItems, planned: PlannedAction, question: Question, *, now: datetime
    ) -> None:
        """A question to the owner."""
        item = prompts.made(
            self.companion.id,
            self.job.run_key,
            question,
            operation_id=planned.operation_id,
            now=now,
        )
        self.questions.append(item)

    def questions_before(
        self, proposal: CompanionProposal, action: ProposedAction
    ) -> tuple[str, ...]:
        """The ids of the questions that need a yes before this action; also of one that is none."""
        return tuple(
            prompt_item_id(self.planned(proposal.actions[number]).operation_id)
            if number < len(proposal.actions)
            else prompt_item_id(f"missing:{number}")
            for number in action.after
        )

    def note_blocked(self, call: AgentToolCall) -> None:
        """An action that waits for an answer."""
        result = refused(call, AnswerRequired()).model_copy(
            update={"status": ToolResultStatus.PARTIAL}
        )
        self.results.append(result)
        self.waiting.append(call.operation_id)
        self.drafts.append(self._result_draft(result))

    def build_report(self, now: datetime) -> None:
        """The last report that was proposed, if its claims have sources; else what facts say."""
        self.report_at = now
        proposed = next((each.report for each in reversed(self.proposals) if each.report), None)
        if proposed is not None:
            try:
                self._keep_report(proposed, now)
            except ReportInvalid as error:
                self.refused_report = error.message
            else:
                return
        local = now.astimezone(ZoneInfo(self.time_zone))
        self._keep_report(template_report(self.require_definition(), self.facts, now=local), now)

    def note_end(self, status: WakeStatus, error: CompanionError | None) -> None:
        """How it ended, if not as it should: a refusal of the model's door is a result as well."""
        if error is None:
            return
        content = {"text": error.message, "status": status.value}
        refused = self.decisions.made[-1:] and not self.decisions.made[-1].allowed
        at_the_door = bool(refused) and len(self.requests) > len(self.proposals)
        self._say(
            AgentMessageKind.TOOL_RESULT if at_the_door else AgentMessageKind.SYSTEM,
            "end",
            content,
            error_code=tool_code(error),
            error_message=error.message,
            tool_name=MODEL_INFERENCE if at_the_door else None,
            status=ToolResultStatus.ERROR if at_the_door else None,
        )

    def reduced(self, status: WakeStatus, *, now: datetime, host_id: str) -> AgentState:
        """The state after the run."""
        changed = [each for each in self.facts if each.fields.get("changed")]
        self.after = reduce_state(
            self.state,
            status=status,
            now=now,
            host_id=host_id,
            active_task_id=changed[0].locator if changed else None,
            open_loop_ids=(*self.waiting, *(each.id for each in self.questions)),
            sleep_until=self.sleep_until,
        )
        return self.after

    @property
    def provenance(self) -> Provenance:
        model = self.proposals[-1].model_id if self.proposals else None
        return Provenance(prompt_id=PROMPT_ID, prompt_version=PROMPT_VERSION, model_id=model)

    @property
    def usage(self) -> BudgetUsage:
        spent = [each.usage for each in self.proposals]
        return BudgetUsage(
            tokens=sum(each.tokens for each in spent),
            cost_micro_usd=round(sum(each.cost_usd for each in spent) * _MICRO),
            runtime_ms=self.latency_ms,
            tool_calls=len(self.calls) + len(self.reads),
        )

    def trace(self, status: WakeStatus, error: CompanionError | None, *, now: datetime) -> RunTrace:
        """Everything that explains the run, and lets it be replayed."""
        model = self.proposals[-1].model_id if self.proposals else None
        return RunTrace(
            run_key=self.job.run_key,
            agent_id=self.companion.id,
            thread_id=self.job.thread_id,
            reason=self.job.reason,
            reason_id=self.job.reason_id,
            status=status,
            persona_version_id=self.persona.id if self.persona else None,
            prompt_id=PROMPT_ID,
            prompt_version=PROMPT_VERSION,
            provider_id=model.partition(":")[0] if model else None,
            model_id=model,
            inputs=self._inputs(),
            proposal={"rounds": [each.model_dump(mode="json") for each in self.proposals]},
            tool_calls=tuple(self.calls),
            policy_decisions=self._all_decisions(),
            retries=sum(each.usage.retries for each in self.proposals),
            usage=self.usage,
            latency_ms=self.latency_ms,
            report_id=self.report.id if self.report else None,
            error_code=tool_code(error) if error else None,
            error_message=error.message if error else None,
            started_at=self.started_at,
            ended_at=now,
        )

    def _all_decisions(self) -> tuple[PolicyDecision, ...]:
        if self.refused_report is None:
            return self.decisions.made
        refusal = PolicyDecision(
            check="report_sources",
            subject=self.companion.kind,
            allowed=False,
            error_code="report_invalid",
            detail=self.refused_report,
        )
        return (*self.decisions.made, refusal)

    def _inputs(self) -> dict[str, Any]:
        definition = self.definition
        return {
            "job": self.job.model_dump(mode="json"),
            "companion": self.companion.model_dump(mode="json"),
            "state": self.state.model_dump(mode="json"),
            "definition": definition.model_dump(mode="json") if definition else None,
            "persona": self.persona.model_dump(mode="json") if self.persona else None,
            "memory": dict(self.memory),
            "answers": [dict(each) for each in self.answers],
            "time_zone": self.time_zone,
            "allowed_fields": sorted(self.allowed_fields),
            "reads": self.reads,
            "requests": self.requests,
            "results": [each.model_dump(mode="json") for each in self.results],
            "report": self.report.content if self.report else None,
            "source_cursor": self.source_cursor,
            "report_at": format_timestamp(self.report_at) if self.report_at else None,
            "state_after": self.after.model_dump(mode="json") if self.after else None,
        }

    def _keep_report(self, draft: ReportDraft, now: datetime) -> None:
        self.report, self.source_refs = build_report(
            draft,
            self.facts,
            agent_id=self.companion.id,
            run_key=self.job.run_key,
            now=now,
            provenance={
                "source_cursor": self.source_cursor,
                "persona_version_id": self.persona.id if self.persona else None,
                **self.provenance.model_dump(),
            },
        )

    def _learn(self, tool: str, payload: Mapping[str, Any], at: datetime) -> None:
        changed = frozenset(self.job.changed_entity_ids)
        new = facts_from(tool, payload, captured_at=at, changed=changed) if payload else []
        self.facts = merged([*self.facts, *new])

    def _result_draft(self, result: AgentToolResult) -> MessageDraft:
        return result_draft(
            result,
            agent_id=self.companion.id,
            thread_id=self.job.thread_id,
            run_key=self.job.run_key,
            provenance=self.provenance,
        )

    def _say(
        self,
        kind: AgentMessageKind,
        place: str,
        content: dict[str, Any],
        **metadata: Any,
    ) -> None:
        self.drafts.append(
            MessageDraft(
                agent_id=self.companion.id,
                thread_id=self.job.thread_id,
                kind=kind,
                message_id=run_message_id(self.job.run_key, place),
                trigger_source_id=self.job.reason_id,
                content=content,
                metadata=AgentMessageMetadata(**metadata, **self.provenance.model_dump()),
            )
        )


def _traced(planned: PlannedAction, result: AgentToolResult, *, latency_ms: int) -> TracedCall:
    return TracedCall(
        operation_id=planned.operation_id,
        action_stable_id=planned.action_stable_id,
        tool_name=result.tool_name or AgentActionType.TOOL_CALL.value,
        status=result.status.value,
        error_code=result.error_code,
        latency_ms=latency_ms,
        changed_entity_ids=result.changed_entity_ids,
    )
