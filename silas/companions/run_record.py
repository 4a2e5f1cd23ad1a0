"""What a run begins with, what it has done, and what it leaves behind. Nothing here does I/O.

What a model is shown is put together from what was read, then cut down to what may be shown. The
state after a run follows from the state before it, and is the same when it is done again.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import Field

from silas.companions.compaction import line_of
from silas.companions.errors import (
    AlreadyAsked,
    AnswerRequired,
    CompanionUnknown,
    ReportInvalid,
    tool_code,
)
from silas.companions.ids import digest, run_message_id
from silas.companions.kinds.library import CompanionDefinition
from silas.companions.log import AssembledMemory, Remembered
from silas.companions.messages import (
    AgentMessageMetadata,
    AgentPersonaVersion,
    AgentPromptItem,
    AgentReport,
    MessageDraft,
    PlannedAction,
    PolicyDecision,
    PolicyDecisions,
    ReportSourceRef,
    RunTrace,
    TracedCall,
    WakeJob,
)
from silas.companions.models import (
    AgentActionType,
    AgentMessageKind,
    AgentSlots,
    AgentState,
    BudgetUsage,
    Companion,
    JsonMap,
    ReportScope,
    ToolResultStatus,
    WakeStatus,
)
from silas.companions.operations import (
    MessageProvenance,
    action_draft,
    planned_action,
    result_draft,
)
from silas.companions.ports import CompanionProposal, CompanionQuestion, ProposedAction, ReportDraft
from silas.companions.projection import project
from silas.companions.reports import (
    Fact,
    build_report,
    charts_of,
    facts_from,
    merged,
    template_report,
)
from silas.companions.resumption import prompt_item, prompt_item_id
from silas.companions.tools.executor import refused
from silas.companions.tools.registry import AgentToolCall, AgentToolResult
from silas.companions.words import OwnersWish, meant_wishes, owners_wish
from silas.kernel import CompanionError, format_timestamp
from silas.kernel.models import Data

PROMPT_ID = "companion"
PROMPT_VERSION = "2"
"""Counted up with every change of the prompt `companion`: what a message says it was made with."""
MODEL_INFERENCE = "model_inference"
"""What the log calls a question to a model that was refused."""
_MICRO = 1_000_000
OWN_SLEEP = timedelta(days=1)
"""For longer, a companion asks."""
_LONGEST_SLEEP = timedelta(days=31)


class RunSetting(Data):
    """What a run begins with. A trace keeps it, and a replay begins with the same."""

    job: WakeJob
    companion: Companion
    state: AgentState
    definition: CompanionDefinition | None = None
    persona: AgentPersonaVersion | None = None
    memory: JsonMap = Field(default_factory=dict)
    answers: tuple[dict[str, str], ...] = ()
    time_zone: str = "UTC"
    allowed_fields: frozenset[str] = frozenset()
    """What a model may be shown."""
    also_scopes: tuple[ReportScope, ...] = ()
    """The longer reports that are due in this run."""
    open_loops: dict[str, str] = Field(default_factory=dict)
    """What waits for the owner when it begins: by its id, in words."""

    @property
    def wish(self) -> OwnersWish | None:
        """What the owner has said that is to be kept; only the owner's own words are."""
        return owners_wish(self.job.seed_input or "")

    def require_definition(self) -> CompanionDefinition:
        """What the companion is; raises `CompanionUnknown`."""
        if self.definition is None:
            raise CompanionUnknown
        return self.definition

    def payload(
        self, facts: Iterable[Fact], results: Iterable[AgentToolResult], *, now: datetime
    ) -> dict[str, Any]:
        """What the model is shown now: of what is built here, only the allowlisted part is left."""
        definition, job = self.require_definition(), self.job
        whole = {
            "now": now.astimezone(ZoneInfo(self.time_zone)).isoformat(timespec="minutes"),
            "time_zone": self.time_zone,
            "companion": {
                "display_name": self.companion.display_name,
                "kind": self.companion.kind,
                "instructions": definition.instructions,
            },
            "persona": persona_shown(self.persona),
            "wake": {
                "reason": job.reason.value,
                "said": job.seed_input,
                "kept": kept.value if (kept := self.wish) and kept.keep else None,
                "answers": list(self.answers),
            },
            "memory": self.memory,
            "slots": {
                "primary_goal": self.state.slots.primary_goal,
                "active_task_id": self.state.slots.active_task_id,
                "open_loops": list(self.open_loops.values()),
                "preferences": list(self.state.slots.preference_by_key.values()),
            },
            "report": {
                "scope": definition.report.scope.value,
                "headline": definition.report.headline,
                "sections": [
                    {"id": each.id, "title": each.title} for each in definition.report.sections
                ],
            },
            "facts": [fact.shown() for fact in facts],
            "results": [result_shown(each) for each in results],
        }
        return project(whole, self.allowed_fields)

    def provenance(self, model_id: str | None) -> MessageProvenance:
        """Where an entry of this run's log comes from."""
        return MessageProvenance(
            prompt_id=PROMPT_ID, prompt_version=PROMPT_VERSION, model_id=model_id
        )

    def report(
        self,
        facts: Sequence[Fact],
        proposals: Sequence[CompanionProposal],
        *,
        cursor: int,
        at: datetime,
    ) -> "RunReport":
        """The last report that was proposed, if its claims have sources; else what facts say.

        It is of the kind's own scope. Those of longer scopes are made from the facts alone.
        """
        definition, local = self.require_definition(), at.astimezone(ZoneInfo(self.time_zone))
        own = definition.report.scope
        model = proposals[-1].model_id if proposals else None
        provenance = {
            "source_cursor": cursor,
            "persona_version_id": self.persona.id if self.persona else None,
            **self.provenance(model).model_dump(),
        }

        def built(draft: ReportDraft) -> tuple[AgentReport, tuple[ReportSourceRef, ...]]:
            return build_report(
                draft,
                facts,
                agent_id=self.companion.id,
                run_key=self.job.run_key,
                now=at,
                provenance=provenance,
                charts=charts_of(definition, facts, draft.scope, now=local),
            )

        def by_rules(scope: ReportScope) -> tuple[AgentReport, tuple[ReportSourceRef, ...]]:
            return built(template_report(definition, facts, now=local, scope=scope))

        more = tuple(by_rules(each) for each in self.also_scopes)
        refusal = None
        proposed = next((each.report for each in reversed(proposals) if each.report), None)
        if proposed is not None:
            try:
                report, refs = built(proposed.model_copy(update={"scope": own}))
                return RunReport(report, refs, cursor=cursor, at=at, more=more)
            except ReportInvalid as error:
                refusal = error.message
        report, refs = by_rules(own)
        return RunReport(report, refs, cursor=cursor, at=at, refusal=refusal, more=more)


@dataclass(frozen=True)
class RunReport:
    """The report of a run, with what its claims rest on."""

    report: AgentReport
    source_refs: tuple[ReportSourceRef, ...]
    cursor: int
    """How much of the journal it knows."""
    at: datetime
    refusal: str | None = None
    """Why the report that was proposed is not the one."""
    more: tuple[tuple[AgentReport, tuple[ReportSourceRef, ...]], ...] = ()
    """Those of longer scopes, with their sources."""

    @property
    def all_refs(self) -> tuple[ReportSourceRef, ...]:
        """The sources of all of them."""
        return (*self.source_refs, *(ref for _, refs in self.more for ref in refs))


@dataclass
class RunRecord:
    """What a run has done so far."""

    setting: RunSetting
    scope: tuple[str, ...] = ()
    """The border of the actions; that of the companion when it began, or when they were planned."""
    decisions: PolicyDecisions = field(default_factory=PolicyDecisions)
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

    def __post_init__(self) -> None:
        self.scope = self.scope or self.setting.companion.allowed_category_ids

    @property
    def job(self) -> WakeJob:
        return self.setting.job

    @property
    def model_id(self) -> str | None:
        """The model that was asked last."""
        return self.proposals[-1].model_id if self.proposals else None

    def has_written(self, operation_id: str) -> bool:
        """Whether this very action was done in this run, and has changed something."""
        return any(
            each.operation_id == operation_id and each.success and each.changed_entity_ids
            for each in self.results
        )

    def planned(self, action: ProposedAction) -> PlannedAction:
        """The action with its ids."""
        return planned_action(self.job.run_key, action, scope=self.scope)

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
        """Keep what is looked up in every run; the log does not show it as an action."""
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
        # Why there is no answer is how the run ends: it is said there, and not as its own word.
        if proposal.thought and proposal.fallback is None:
            place, content = f"thought:{len(self.proposals)}", {"text": proposal.thought}
            self._say(AgentMessageKind.THOUGHT, place, content)

    def note_action(self, planned: PlannedAction, action: ProposedAction) -> None:
        """What is about to be done."""
        provenance = self.setting.provenance(self.model_id)
        self.drafts.append(
            action_draft(planned, job=self.job, reason=action.reason, provenance=provenance)
        )

    def add_result(
        self, planned: PlannedAction, result: AgentToolResult, *, latency_ms: int, at: datetime
    ) -> None:
        """What came of it."""
        self._add_result(result)
        self.calls.append(_traced(planned, result, latency_ms=latency_ms))
        if result.changed_entity_ids or result.status is ToolResultStatus.SUCCESS:
            self.operations.append(result.operation_id)
        if result.error_code == "confirmation_required":
            self.waiting.append(result.operation_id)
        if result.success:
            self._learn(result.tool_name, result.payload, at)

    def ask(self, planned: PlannedAction, question: CompanionQuestion, *, now: datetime) -> None:
        """A question to the owner."""
        asked = prompt_item(self.job, question, operation_id=planned.operation_id, now=now)
        self.questions.append(asked)

    def rest(self, planned: PlannedAction, wanted: datetime | None, *, now: datetime) -> None:
        """Sleep; for longer than a day only after the owner's yes."""
        until = bounded_sleep(wanted, now)
        if until is None or until <= now + OWN_SLEEP:
            self.sleep_until = until
            return
        zone = ZoneInfo(self.setting.time_zone)
        question = CompanionQuestion(
            prompt_text=f"May I sleep until {until.astimezone(zone):%A %d %B %Y, %H:%M}? "
            "Until then neither changes nor my times would wake me, only you."
        )
        asked = prompt_item(self.job, question, operation_id=planned.operation_id, now=now)
        self.questions.append(asked.model_copy(update={"sleep_until": until}))

    def note_repeated(self, call: AgentToolCall) -> None:
        """A question that the owner was asked before."""
        self._add_result(refused(call, AlreadyAsked()))

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
        self._add_result(result)
        self.waiting.append(call.operation_id)

    def note_end(self, status: WakeStatus, error: CompanionError) -> None:
        """Why it did not end as it should; a refusal to ask the model is a result as well."""
        last = self.decisions.made[-1:]
        refused = any(not each.allowed for each in last)
        at_the_door = refused and len(self.requests) > len(self.proposals)
        self._say(
            AgentMessageKind.TOOL_RESULT if at_the_door else AgentMessageKind.SYSTEM,
            "end",
            {"text": error.message, "status": status.value},
            error_code=tool_code(error),
            error_message=error.message,
            tool_name=MODEL_INFERENCE if at_the_door else None,
            status=ToolResultStatus.ERROR if at_the_door else None,
        )

    def reduced(self, status: WakeStatus, *, now: datetime, host_id: str) -> AgentState:
        """The state after the run."""
        changed = [each for each in self.facts if each.fields.get("changed")]
        return reduce_state(
            self.setting.state,
            status=status,
            now=now,
            host_id=host_id,
            active_task_id=changed[0].locator if changed else None,
            open_loop_ids=(
                *self.setting.open_loops,
                *self.waiting,
                *(each.id for each in self.questions),
            ),
            wish=self.setting.wish,
            sleep_until=self.sleep_until,
        )

    def _add_result(self, result: AgentToolResult) -> None:
        self.results.append(result)
        self.drafts.append(
            result_draft(
                result,
                agent_id=self.job.agent_id,
                thread_id=self.job.thread_id,
                run_key=self.job.run_key,
                provenance=self.setting.provenance(self.model_id),
            )
        )

    def _learn(self, tool: str, payload: Mapping[str, Any], at: datetime) -> None:
        changed = frozenset(self.job.changed_entity_ids)
        new = facts_from(tool, payload, captured_at=at, changed=changed) if payload else []
        self.facts = merged([*self.facts, *new])

    def _say(
        self,
        kind: AgentMessageKind,
        place: str,
        content: dict[str, Any],
        **metadata: Any,
    ) -> None:
        provenance = self.setting.provenance(self.model_id).model_dump()
        self.drafts.append(
            MessageDraft(
                agent_id=self.job.agent_id,
                thread_id=self.job.thread_id,
                kind=kind,
                message_id=run_message_id(self.job.run_key, place),
                trigger_source_id=self.job.reason_id,
                content=content,
                metadata=AgentMessageMetadata(**metadata, **provenance),
            )
        )


@dataclass(frozen=True)
class RunEnd:
    """How a run ended."""

    status: WakeStatus
    error: CompanionError | None
    report: RunReport | None
    state: AgentState
    started_at: datetime
    ended_at: datetime
    latency_ms: int

    @property
    def error_code(self) -> str | None:
        return tool_code(self.error) if self.error else None


def bounded_sleep(wanted: datetime | None, now: datetime) -> datetime | None:
    """How long a companion may ask to be left asleep; None if that is not in the future."""
    return min(wanted, now + _LONGEST_SLEEP) if wanted is not None and wanted > now else None


def trace_of(record: RunRecord, end: RunEnd) -> RunTrace:
    """Everything that explains the run, and lets it be replayed."""
    job, persona, model = record.job, record.setting.persona, record.model_id
    report = end.report.report if end.report else None
    return RunTrace(
        run_key=job.run_key,
        agent_id=job.agent_id,
        thread_id=job.thread_id,
        reason=job.reason,
        reason_id=job.reason_id,
        status=end.status,
        persona_version_id=persona.id if persona else None,
        prompt_id=PROMPT_ID,
        prompt_version=PROMPT_VERSION,
        provider_id=model.partition(":")[0] if model else None,
        model_id=model,
        inputs=_inputs(record, end),
        proposal={"rounds": [each.model_dump(mode="json") for each in record.proposals]},
        tool_calls=tuple(record.calls),
        policy_decisions=_all_decisions(record, end.report),
        retries=sum(each.usage.retries for each in record.proposals),
        usage=_usage(record, end.latency_ms),
        latency_ms=end.latency_ms,
        report_id=report.id if report else None,
        error_code=end.error_code,
        error_message=end.error.message if end.error else None,
        started_at=end.started_at,
        ended_at=end.ended_at,
    )


def _usage(record: RunRecord, latency_ms: int) -> BudgetUsage:
    spent = [each.usage for each in record.proposals]
    return BudgetUsage(
        tokens=sum(each.tokens for each in spent),
        cost_micro_usd=round(sum(each.cost_usd for each in spent) * _MICRO),
        runtime_ms=latency_ms,
        tool_calls=len(record.calls) + len(record.reads),
    )


def _all_decisions(record: RunRecord, report: RunReport | None) -> tuple[PolicyDecision, ...]:
    if report is None or report.refusal is None:
        return record.decisions.made
    refusal = PolicyDecision(
        check="report_sources",
        subject=record.setting.companion.kind,
        allowed=False,
        error_code="report_invalid",
        detail=report.refusal,
    )
    return (*record.decisions.made, refusal)


def _inputs(record: RunRecord, end: RunEnd) -> dict[str, Any]:
    setting, report = record.setting, end.report
    return {
        **setting.model_dump(mode="json"),
        "allowed_fields": sorted(setting.allowed_fields),
        "reads": record.reads,
        "requests": record.requests,
        "results": [each.model_dump(mode="json") for each in record.results],
        "report": report.report.content if report else None,
        "source_cursor": report.cursor if report else 0,
        "report_at": format_timestamp(report.at) if report else None,
        "state_after": end.state.model_dump(mode="json"),
    }


def result_shown(result: AgentToolResult) -> dict[str, Any]:
    """What came of a call, with the ids of what it has made or changed, or would."""
    shown = result.model_dump(mode="json", include={"tool_name", "status", "error_code"})
    changes = result.payload.get("changes")
    return {**shown, "changes": changes} if changes else shown


def persona_shown(persona: AgentPersonaVersion | None) -> dict[str, Any]:
    """A persona as a model is shown it."""
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
            {"kind": each.message.kind.value, "text": line}
            for each in memory.hot
            if (line := hot_line(each))
        ],
        "summaries": [
            {"text": str((each.content or {}).get("text", ""))}
            for each in (*memory.cold, *memory.warm)
        ],
    }


def hot_line(remembered: Remembered) -> str | None:
    """An entry as it is remembered while it is new: the words whole, what was done in a line."""
    spoken = (AgentMessageKind.USER, AgentMessageKind.THOUGHT)
    if remembered.message.kind in spoken:
        return str((remembered.content or {}).get("text", "")) or None
    return line_of(remembered)


_MOST_WISHES = 20


def reduce_state(
    state: AgentState,
    *,
    status: WakeStatus,
    now: datetime,
    host_id: str,
    active_task_id: str | None = None,
    open_loop_ids: Collection[str] = (),
    sleep_until: datetime | None = None,
    processed: Mapping[str, int] | None = None,
    wish: OwnersWish | None = None,
) -> AgentState:
    """The state after a run; only a completed one forgets failures and counts changes as seen."""
    completed = status is WakeStatus.COMPLETED
    changes: dict[str, Any] = {"last_wake_at": now, "updated_at": now}
    if completed:
        changes |= {
            "consecutive_failure_count": 0,
            "processed_counter_by_host": _seen(state.processed_counter_by_host, processed or {}),
            "slots": _slots(state.slots, active_task_id, open_loop_ids, host_id=host_id),
        }
        if wish is not None:
            changes["slots"] = _wished(changes["slots"], wish, host_id=host_id)
        if sleep_until is not None:
            changes["sleep_until"] = sleep_until
    elif status is WakeStatus.FAILED_TERMINAL:
        changes["consecutive_failure_count"] = state.consecutive_failure_count + 1
    return state.model_copy(update=changes)


def _wished(slots: AgentSlots, wish: OwnersWish, *, host_id: str) -> AgentSlots:
    if not wish.keep:
        return without_wish(slots, wish.value, host_id=host_id)
    if wish.is_goal:
        return slots.with_slot("primary_goal", wish.value, host_id=host_id)
    known = {**slots.preference_by_key, digest("wish", wish.value)[:16]: wish.value}
    newest = dict(list(known.items())[-_MOST_WISHES:])
    if newest == slots.preference_by_key:
        return slots
    return slots.with_slot("preference_by_key", newest, host_id=host_id)


def without_wish(slots: AgentSlots, words: str, *, host_id: str) -> AgentSlots:
    """The slots without the goal or the wish that these words mean; the same if they mean none."""
    going = meant_wishes(words, slots.primary_goal, slots.preference_by_key.values())
    if slots.primary_goal in going:
        slots = slots.with_slot("primary_goal", None, host_id=host_id)
    left = {key: value for key, value in slots.preference_by_key.items() if value not in going}
    if left != slots.preference_by_key:
        slots = slots.with_slot("preference_by_key", left, host_id=host_id)
    return slots


def _seen(known: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    hosts = sorted(known.keys() | more.keys())
    return {host: max(known.get(host, 0), more.get(host, 0)) for host in hosts}


def _slots(
    slots: AgentSlots, active_task_id: str | None, open_loop_ids: Collection[str], *, host_id: str
) -> AgentSlots:
    loops = tuple(sorted(open_loop_ids))
    if loops != slots.open_loop_ids:
        slots = slots.with_slot("open_loop_ids", loops, host_id=host_id)
    if active_task_id is not None and active_task_id != slots.active_task_id:
        slots = slots.with_slot("active_task_id", active_task_id, host_id=host_id)
    return slots


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
