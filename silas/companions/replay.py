"""Replaying a run from its trace: the same inputs, and nothing happens.

What was read, remembered, answered and done is taken from the trace; no tool is called, nothing is
written, nobody is asked. What the code of today makes of it is compared with what was made then:
the requests, the actions, the report, the state.
"""

from datetime import datetime
from typing import Any

from silas.companions.kinds.definition import CompanionDefinition
from silas.companions.models import (
    AgentActionType,
    AgentPersonaVersion,
    AgentState,
    Companion,
    PlannedAction,
    RunTrace,
    WakeJob,
)
from silas.companions.policy.fields import PROVIDER_FIELDS
from silas.companions.prompt_items import PromptItems
from silas.companions.proposals import CompanionProposal, ProposedAction
from silas.companions.run_record import RunRecord
from silas.companions.store import CompanionStore
from silas.companions.tools.models import AgentToolResult
from silas.companions.workflow import bounded_sleep
from silas.kernel import parse_timestamp
from silas.kernel.models import Data

_VOLATILE = ("vector_clock", "revision", "recent_head")


class ReplayDifference(Data):
    """One thing that came out differently."""

    what: str
    recorded: Any
    replayed: Any


class ReplayResult(Data):
    """What a replay gave."""

    run_key: str
    matches: bool
    differences: tuple[ReplayDifference, ...] = ()
    operations: tuple[str, ...] = ()
    report: dict[str, Any] | None = None


class Replayer:
    """Replays runs of this device."""

    def __init__(self, store: CompanionStore) -> None:
        self._store = store
        self._prompts = PromptItems(store)

    async def replay(self, run_key: str) -> ReplayResult:
        """Replay the run with this key; raises `CompanionUnknown`."""
        trace = await self._store.require(RunTrace, run_key)
        return self.replay_trace(trace)

    def replay_trace(self, trace: RunTrace) -> ReplayResult:
        """Replay what a trace tells."""
        record = _record(trace)
        if trace.inputs["definition"] is not None:
            record.note_wake()
        for each in trace.inputs["reads"]:
            result = _read_result(each)
            at = parse_timestamp(each["at"])
            record.add_read(each["tool"], each["arguments"], result, at=at)
        known = {
            each["operation_id"]: AgentToolResult.model_validate(each)
            for each in trace.inputs["results"]
        }
        for recorded in trace.proposal.get("rounds", ()):
            record.requests.append(record.payload())
            proposal = CompanionProposal.model_validate(recorded)
            record.add_proposal(proposal)
            self._carry_out(record, proposal, known, at=trace.ended_at)
        if trace.inputs["report_at"] is not None:
            record.source_cursor = trace.inputs["source_cursor"]
            record.build_report(parse_timestamp(trace.inputs["report_at"]))
        record.reduced(trace.status, now=trace.ended_at, host_id=self._store.host_id)
        return _compared(trace, record)

    def _carry_out(
        self,
        record: RunRecord,
        proposal: CompanionProposal,
        known: dict[str, AgentToolResult],
        *,
        at: datetime,
    ) -> None:
        seen: set[str] = set()
        for action in proposal.actions:
            planned = record.planned(action)
            if planned.operation_id in seen:
                continue
            seen.add(planned.operation_id)
            record.note_action(planned, action)
            self._one(record, planned, action, known.get(planned.operation_id), at=at)

    def _one(
        self,
        record: RunRecord,
        planned: PlannedAction,
        action: ProposedAction,
        result: AgentToolResult | None,
        *,
        at: datetime,
    ) -> None:
        if action.action_type is AgentActionType.LIFECYCLE_TRANSITION:
            record.sleep_until = bounded_sleep(action.sleep_until, at)
        elif action.question is not None:
            record.ask(self._prompts, planned, action.question, now=at)
        elif result is not None and result.error_code == "answer_required":
            record.results.append(result)
            record.waiting.append(result.operation_id)
        elif result is not None:
            record.add_result(planned, result, latency_ms=0, at=at)


def _record(trace: RunTrace) -> RunRecord:
    inputs = trace.inputs
    definition, persona = inputs["definition"], inputs["persona"]
    return RunRecord(
        job=WakeJob.model_validate(inputs["job"]),
        companion=Companion.model_validate(inputs["companion"]),
        state=AgentState.model_validate(inputs["state"]),
        started_at=trace.started_at,
        definition=CompanionDefinition.model_validate(definition) if definition else None,
        persona=AgentPersonaVersion.model_validate(persona) if persona else None,
        memory=inputs["memory"],
        answers=inputs["answers"],
        time_zone=inputs["time_zone"],
        # A trace of an earlier version does not say it.
        allowed_fields=frozenset(inputs.get("allowed_fields", PROVIDER_FIELDS)),
    )


def _read_result(read: dict[str, Any]) -> AgentToolResult:
    failed = read["error_code"] is not None
    return AgentToolResult(
        success=not failed,
        status="error" if failed else "success",
        tool_action_id="replay",
        tool_name=read["tool"],
        operation_id="replay",
        payload=read["payload"],
        error_code=read["error_code"],
    )


def _compared(trace: RunTrace, record: RunRecord) -> ReplayResult:
    inputs = trace.inputs
    operations = tuple(each.operation_id for each in record.calls)
    report = record.report.content if record.report else None
    after = record.after.model_dump(mode="json") if record.after else None
    pairs = (
        ("requests", inputs["requests"][: len(record.requests)], record.requests),
        ("operations", [each.operation_id for each in trace.tool_calls], list(operations)),
        ("report", inputs["report"], report),
        ("state", _stable(inputs["state_after"]), _stable(after)),
    )
    differences = tuple(
        ReplayDifference(what=what, recorded=then, replayed=now)
        for what, then, now in pairs
        if then != now
    )
    return ReplayResult(
        run_key=trace.run_key,
        matches=not differences,
        differences=differences,
        operations=operations,
        report=report,
    )


def _stable(state: dict[str, Any] | None) -> dict[str, Any] | None:
    if state is None:
        return None
    return {key: each for key, each in state.items() if key not in _VOLATILE}
