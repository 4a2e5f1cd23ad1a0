"""One run of a companion, from being woken to what it leaves behind.

0. What it is (definition, persona) and what it remembers are read.
1. What has changed, and what it looks at every time, is looked up: by tools, within its scope.
2. What a model may be shown is projected, and the model is asked through its one door. A run that
   is done again finds the answer written down and asks nobody.
3. The actions are fixed, written down, then carried out one after the other, each through the chain
   of checks. What needs the owner waits; the run does not.
4. If something was looked up or made, 2 and 3 once more with what was found, or with the ids of
   what there is now; at most three times. What was written in this run is not written again.
5. The report is built. One whose claims have no sources is replaced by what the facts alone say.
6. The state is reduced, and everything is handed to the worker, to be committed at once.

Before every step it is asked whether the owner has called the run off. Then it ends here: what the
journal has already is told, and nothing follows.

Replaying a run from its trace: the same inputs, and nothing happens.

What was read, remembered, answered and done is taken from the trace; no tool is called, nothing is
written, nobody is asked. What the code of today makes of it is compared with what was made then:
the requests, the actions, the report, the state.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from silas.companions.compaction import line_of
from silas.companions.errors import (
    CALLED_OFF,
    AlreadyAsked,
    AnswerRequired,
    ModelUnavailable,
    Stopped,
    UnsafeTarget,
    tool_code,
)
from silas.companions.gateway import ModelDoor
from silas.companions.kinds.library import CompanionDefinition, Definitions
from silas.companions.kinds.offline import ASKED, OFFLINE_MODEL
from silas.companions.log import MemoryAssembler, recall_in
from silas.companions.messages import (
    WAITS,
    ActionPlan,
    AgentReportHead,
    PlannedAction,
    PolicyDecisions,
    RunOutcome,
    RunTrace,
    WakeJob,
    WakeRun,
)
from silas.companions.models import (
    AgentActionType,
    AgentState,
    BudgetUsage,
    Companion,
    ReportScope,
    WakeStatus,
)
from silas.companions.operations import make_plan, plan_key, target_refs
from silas.companions.persona import Personas
from silas.companions.ports import (
    CallAllowance,
    CompanionProposal,
    CompanionQuestion,
    CompanionRequest,
    ProposedAction,
)
from silas.companions.projection import PROVIDER_FIELDS, ProjectionPolicies
from silas.companions.reports import due_scopes
from silas.companions.resumption import PromptItems
from silas.companions.run_record import (
    PROMPT_ID,
    PROMPT_VERSION,
    RunEnd,
    RunRecord,
    RunReport,
    RunSetting,
    memory_shown,
    trace_of,
)
from silas.companions.store import CompanionStore
from silas.companions.tools.executor import ToolExecutor
from silas.companions.tools.registry import AgentAccessScope, AgentToolCall, AgentToolResult
from silas.companions.words import spoken_tool
from silas.journal import queries
from silas.journal.records import taint_of
from silas.journal.store import Journal
from silas.kernel import Clock, CompanionError, TaintLevel, parse_timestamp
from silas.kernel.models import Data
from silas.storage import Reader, Transaction

ROUNDS = 3
_LOOK_SECONDS = 0.2
_NO_ALLOWANCE = CallAllowance(tokens=0, cost_usd=0.0, seconds=0.0)
_FORGET_PLAN = "DELETE FROM agent_action_plans WHERE run_key = ?"
GoOn = Callable[[], Awaitable[None]]


class CompanionWorkflow:
    """Runs companions; what came of a run is committed by whoever has asked for it."""

    def __init__(
        self,
        store: CompanionStore,
        journal: Journal,
        *,
        executor: ToolExecutor,
        door: ModelDoor,
        time_zone: Callable[[], str],
    ) -> None:
        self.store = store
        self.journal = journal
        self.executor = executor
        self.door = door
        self.time_zone = time_zone
        self.budgets = executor.budgets
        self.memory = MemoryAssembler(store)
        self.definitions = Definitions(store)
        self.personas = Personas(store)
        self.prompts = PromptItems(store)
        self.projections = ProjectionPolicies(store)

    async def run(
        self,
        job: WakeJob,
        companion: Companion,
        state: AgentState,
        stopping: Callable[[], bool],
    ) -> RunOutcome:
        """What came of the run; a refusal of the policy is an outcome, too."""
        record = RunRecord(RunSetting(job=job, companion=companion, state=state))
        timing = _Timing(self.store.clock)
        error: CompanionError | None = None
        report: RunReport | None = None
        status = WakeStatus.COMPLETED
        try:
            report = await self._run(record, timing, stopping)
            status, error = _end_of(record)
        except Stopped as called_off:
            status, error = WakeStatus.CANCELLED, called_off
        except CompanionError as refused:
            status, error = WakeStatus.FAILED_TERMINAL, refused
        return self._outcome(record, timing, report, status, error)

    async def _run(
        self, record: RunRecord, timing: "_Timing", stopping: Callable[[], bool]
    ) -> RunReport:
        agent_id = record.job.agent_id

        async def go_on() -> None:
            if stopping():
                raise Stopped(CALLED_OFF)
            await self.executor.switches.require(agent_id)

        await go_on()
        record.setting = setting = await self._begin(record.setting)
        record.note_wake()
        await self._look(record, go_on)
        for number in range(ROUNDS):
            await go_on()
            payload = setting.payload(record.facts, record.results, now=timing.started_at)
            record.requests.append(payload)
            request = self._request(setting, payload, number)
            proposal, plan = await self._propose(record, request, timing, go_on)
            looked = await self._carry_out(record, proposal, plan, go_on)
            if not looked:
                break
        await go_on()
        cursor = await self.journal.last_cursor()
        return setting.report(
            record.facts, record.proposals, cursor=cursor, at=self.store.clock.now()
        )

    async def _begin(self, setting: RunSetting) -> RunSetting:
        """Step 0."""
        agent_id, thread_id = setting.companion.id, setting.job.thread_id
        definition = await self.definitions.of(agent_id)
        known = {
            "definition": definition,
            "allowed_fields": await self.projections.allowed(definition.provider_fields),
            "persona": await self.personas.in_use(agent_id),
            "memory": {
                **memory_shown(await self.memory.assemble(agent_id, thread_id)),
                "recalled": await self._recalled(setting.job),
            },
            "open_loops": await self._open_loops(agent_id),
            "answers": tuple(await self.prompts.recent_answers(agent_id)),
            "time_zone": (zone := self.time_zone()),
            "also_scopes": await self._longer_reports(definition, agent_id, ZoneInfo(zone)),
        }
        return setting.model_copy(update=known)

    async def _longer_reports(
        self, definition: CompanionDefinition, agent_id: str, zone: ZoneInfo
    ) -> tuple[ReportScope, ...]:
        heads = await self.store.find(AgentReportHead, {"agent_id": agent_id})
        written = {each.scope: each.updated_at for each in heads}
        return due_scopes(definition, written, now=self.store.clock.now().astimezone(zone))

    async def _recalled(self, job: WakeJob) -> list[dict[str, str]]:
        """What of its own history fits what the owner has said."""
        said = job.seed_input
        if not said:
            return []
        zone = ZoneInfo(self.time_zone())
        found = await self.store.database.snapshot(
            lambda reader: recall_in(
                reader, job.agent_id, said, thread_id=job.thread_id, line_of=line_of
            )
        )
        return [
            {"at": f"{entry.message.created_at.astimezone(zone):%Y-%m-%d}", "text": line}
            for entry, line in found
        ]

    async def _open_loops(self, agent_id: str) -> dict[str, str]:
        """What waits for the owner: cards and questions, until they are decided."""
        waiting = await self.executor.operations.pending(*WAITS, agent_id=agent_id)
        questions = await self.prompts.open_items(agent_id)
        loops = {
            each.operation_id: f"{spoken_tool(str(each.call.get('tool_name', '')))}: {each.reason}"
            for each in waiting
        }
        return loops | {each.id: f"{ASKED}{each.prompt_text}" for each in questions}

    async def _look(self, record: RunRecord, go_on: GoOn) -> None:
        """Step 1."""
        definition = record.setting.require_definition()
        changed = record.job.changed_entity_ids[:100]
        today = self.budgets.today()
        reads = [
            (each.tool, each.arguments_on(today))
            for each in definition.reads
            if each.scope in (None, *record.setting.also_scopes)
        ]
        if changed and "list_tasks_in_scope" in definition.tools:
            reads.append(("list_tasks_in_scope", {"task_ids": list(changed)}))
        for tool, arguments in reads:
            await go_on()
            action = ProposedAction(
                action_type=AgentActionType.TOOL_CALL, tool_name=tool, arguments=arguments
            )
            call = _call(record.setting, record.planned(action))
            result = await self.executor.execute(call, decisions=record.decisions)
            record.add_read(tool, arguments, result, at=self.store.clock.now())

    async def _propose(
        self, record: RunRecord, request: CompanionRequest, timing: "_Timing", go_on: GoOn
    ) -> tuple[CompanionProposal, ActionPlan]:
        """Step 2: the plan that was written down, or a new one."""
        job, number = record.job, request.round
        kept = await self.store.get(ActionPlan, plan_key(job.run_key, number))
        if kept is None:
            with timing.asking():
                answer = self._ask(record.setting, request, record.decisions)
                proposal = await _unless_called_off(answer, go_on)
            if proposal.fallback is not None:
                record.add_proposal(proposal)
                raise ModelUnavailable(proposal.fallback)
            at = self.store.clock.now()
            plan = make_plan(job, proposal, number=number, scope=record.scope, at=at)
            kept = await self._keep_plan(job.run_key, plan)
        proposal = CompanionProposal.model_validate(kept.proposal)
        if kept.actions:
            record.scope = kept.actions[0].scope_snapshot
        _require_genuine(kept, job, proposal, number=number, scope=record.scope)
        record.add_proposal(proposal)
        return proposal, kept

    async def _keep_plan(self, run_key: str, plan: ActionPlan) -> ActionPlan:
        """Write the plan down; that of a run that was called off, or forgotten, does not stay."""
        await self._require_not_called_off(run_key)
        kept = await self.store.put(plan)
        try:
            await self._require_not_called_off(run_key)
        except Stopped:
            await self.store.database.execute(_FORGET_PLAN, (plan.run_key,))
            raise
        return kept

    async def _ask(
        self, setting: RunSetting, request: CompanionRequest, decisions: PolicyDecisions
    ) -> CompanionProposal:
        return await self.door.ask(
            setting.companion,
            request,
            definition=setting.require_definition(),
            decisions=decisions,
            by_rules=setting.job.by_rules,
        )

    def _request(
        self, setting: RunSetting, payload: dict[str, Any], number: int
    ) -> CompanionRequest:
        companion, definition = setting.companion, setting.require_definition()
        offered = [tool for tool in self.executor.registry.tools.values() if tool.offered]
        return CompanionRequest(
            agent_id=companion.id,
            agent_kind=companion.kind,
            category_ids=companion.allowed_category_ids,
            run_key=setting.job.run_key,
            round=number,
            wake_reason=setting.job.reason,
            prompt_id=PROMPT_ID,
            prompt_version=PROMPT_VERSION,
            persona_version_id=setting.persona.id if setting.persona else None,
            payload=payload,
            tools=tuple(
                tool.sketch
                for tool in offered
                if tool.name in definition.tools and setting.job.reason in tool.allowed_wake_reasons
            ),
            offline_rules=definition.offline,
            allowance=_NO_ALLOWANCE,
        )

    async def _carry_out(
        self,
        record: RunRecord,
        proposal: CompanionProposal,
        plan: ActionPlan,
        go_on: GoOn,
    ) -> bool:
        """Step 3; True if there is something new that the model should see."""
        looked = False
        by_operation = {record.planned(action).operation_id: action for action in proposal.actions}
        for planned in plan.actions:
            await go_on()
            action = by_operation.get(planned.operation_id)
            if action is None or record.has_written(planned.operation_id):
                continue
            looked |= await self._carry_out_one(record, proposal, planned, action)
        return looked

    async def _require_not_called_off(self, run_key: str) -> None:
        """At the door of a write, what is on the disk counts."""
        run = await self.store.get(WakeRun, run_key)
        if run is not None and run.status is WakeStatus.CANCELLED:
            raise Stopped(CALLED_OFF)

    async def _carry_out_one(
        self,
        record: RunRecord,
        proposal: CompanionProposal,
        planned: PlannedAction,
        action: ProposedAction,
    ) -> bool:
        record.note_action(planned, action)
        if action.action_type is AgentActionType.LIFECYCLE_TRANSITION:
            record.rest(planned, action.sleep_until, now=self.store.clock.now())
            return False
        if action.question is not None:
            await self._ask_owner(record, planned, action.question)
            return False
        taint = await taint_of_action(self.journal, record.job, planned, model_id=proposal.model_id)
        call = _call(record.setting, planned).model_copy(update={"taint": taint})
        needed = record.questions_before(proposal, action)
        if needed:
            with contextlib.suppress(AnswerRequired):
                await self.executor.operations.block(
                    call, prompt_item_ids=needed, reason=action.reason
                )
            record.note_blocked(call)
            return False
        begun = self.store.clock.monotonic()
        result = await self.executor.execute(
            call,
            decisions=record.decisions,
            reason=action.reason,
            goes_on=lambda: self._require_not_called_off(call.run_key),
        )
        latency = round((self.store.clock.monotonic() - begun) * 1000)
        record.add_result(planned, result, latency_ms=latency, at=self.store.clock.now())
        return result.success and (not self._writes(call) or _has_made(result))

    def _writes(self, call: AgentToolCall) -> bool:
        tool = self.executor.registry.get(call.tool_name)
        return tool is None or tool.writes

    async def _ask_owner(
        self, record: RunRecord, planned: PlannedAction, question: CompanionQuestion
    ) -> None:
        """Ask, unless the owner was asked the same before."""
        agent_id, now = record.job.agent_id, self.store.clock.now()
        known = {each.prompt_text for each in record.questions}
        if question.prompt_text in known or await self.prompts.repeats(agent_id, question, now=now):
            record.note_repeated(_call(record.setting, planned))
            return
        record.ask(planned, question, now=now)

    def _outcome(
        self,
        record: RunRecord,
        timing: "_Timing",
        report: RunReport | None,
        status: WakeStatus,
        error: CompanionError | None,
    ) -> RunOutcome:
        """Step 6."""
        latency_ms = timing.elapsed_ms()
        if error is not None:
            record.note_end(status, error)
        done, questions, agent_id = tuple(record.operations), record.questions, record.job.agent_id
        # The time of the models was charged when they were asked.
        spent = BudgetUsage(runtime_ms=max(0, latency_ms - timing.asked_ms))

        def finish(tx: Transaction) -> None:
            for each in done:
                self.executor.operations.finish_in(tx, each)
            for item in questions:
                self.prompts.keep_in(tx, item)
            self.budgets.charge_in(tx, agent_id, spent)

        now = self.store.clock.now()
        state = record.reduced(status, now=now, host_id=self.store.host_id)
        end = RunEnd(status, error, report, state, timing.started_at, now, latency_ms)
        return RunOutcome(
            status=status,
            state=state,
            trace=trace_of(record, end),
            drafts=tuple(record.drafts),
            report=report.report if report else None,
            more_reports=tuple(each for each, _ in report.more) if report else (),
            source_refs=report.all_refs if report else (),
            writes=(finish,),
            error_code=end.error_code,
            sleep_until=record.sleep_until if status is WakeStatus.COMPLETED else None,
        )


class _Timing:
    """When a run began, and how much of its time the models took that it asked."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begun = clock.monotonic()
        self.started_at = clock.now()
        self.asked_ms = 0

    def elapsed_ms(self) -> int:
        return round((self._clock.monotonic() - self._begun) * 1000)

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        begun = self._clock.monotonic()
        try:
            yield
        finally:
            self.asked_ms += round((self._clock.monotonic() - begun) * 1000)


def _has_made(result: AgentToolResult) -> bool:
    """Whether there is something new whose id nobody could know before, as that of a day."""
    made = [each for each in result.payload.get("changes", ()) if each.get("what") == "created"]
    return any(each.get("kind") != "day_plan" for each in made)


def _call(setting: RunSetting, planned: PlannedAction) -> AgentToolCall:
    companion, job = setting.companion, setting.job
    return AgentToolCall(
        agent_id=companion.id,
        agent_kind=companion.kind,
        thread_id=job.thread_id,
        run_key=job.run_key,
        tool_name=planned.tool_name or "",
        operation_id=planned.operation_id,
        wake_reason=job.reason,
        scope=AgentAccessScope(allowed_category_ids=frozenset(planned.scope_snapshot)),
        arguments=planned.arguments,
    )


def _end_of(record: RunRecord) -> tuple[WakeStatus, CompanionError | None]:
    """A run in which a class of calls was stopped is not done: it says so."""
    stopped = tool_code(Stopped())
    said = [each.error_message for each in record.results if each.error_code == stopped]
    # Whether it was called off is known to the worker: it commits nothing of such a run.
    if said and said[0] and CALLED_OFF not in said:
        return WakeStatus.CANCELLED, Stopped(said[0])
    return WakeStatus.COMPLETED, None


async def _unless_called_off(
    asking: Coroutine[Any, Any, CompanionProposal], go_on: GoOn
) -> CompanionProposal:
    """The answer of a model; who calls the run off does not have to wait for it."""
    task = asyncio.ensure_future(asking)
    try:
        while not (await asyncio.wait({task}, timeout=_LOOK_SECONDS))[0]:
            await go_on()
        return task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _require_genuine(
    kept: ActionPlan,
    job: WakeJob,
    proposal: CompanionProposal,
    *,
    number: int,
    scope: Sequence[str],
) -> None:
    """A plan that was written down must be that of this run, and of what was proposed in it.

    Its border is that of the time when it was made; whether it still holds is asked at every call.
    """
    made = make_plan(job, proposal, number=number, scope=scope, at=kept.created_at)
    if (kept.agent_id, kept.actions) != (made.agent_id, made.actions):
        raise UnsafeTarget("The plan of this run was changed after it was made. Nothing was done.")


async def taint_of_action(
    journal: Journal, job: WakeJob, planned: PlannedAction, *, model_id: str
) -> TaintLevel:
    """Whose words an action is made of: the owner's alone, or perhaps somebody else's.

    1. If a model was asked, nobody knows which of the words that it was told had a part: external.
    2. Fixed rules look at what woke the companion and at the records that the action names, with
       the checklists of the tasks among them. It is the owner's if each of these was only ever
       written by the owner on this device.
    3. What names nothing and was woken by nothing that can be looked up is external, too.
    """
    concerned = {*job.changed_entity_ids, *target_refs(planned.arguments)}
    if model_id != OFFLINE_MODEL or not concerned:
        return TaintLevel.EXTERNAL
    return await journal.read(lambda view: taint_of(view, _with_checklists(view, concerned)))


def _with_checklists(view: Reader, record_ids: Iterable[str]) -> set[str]:
    wanted = sorted(record_ids)
    found = set(wanted)
    for lists in queries.checklists_of_all(view, wanted).values():
        for checklist, items in lists:
            found |= {checklist.id, *(item.id for item in items)}
    return found


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

    async def replay(self, run_key: str) -> ReplayResult:
        """Replay the run with this key; raises `CompanionUnknown`."""
        trace = await self._store.require(RunTrace, run_key)
        return self.replay_trace(trace)

    def replay_trace(self, trace: RunTrace) -> ReplayResult:
        """Replay what a trace tells."""
        setting = _setting(trace)
        record = RunRecord(setting)
        if setting.definition is not None:
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
            payload = setting.payload(record.facts, record.results, now=trace.started_at)
            record.requests.append(payload)
            proposal = CompanionProposal.model_validate(recorded)
            record.add_proposal(proposal)
            _carry_out(record, proposal, known, at=trace.ended_at)
        after = record.reduced(trace.status, now=trace.ended_at, host_id=self._store.host_id)
        return _compared(trace, record, report=_report(trace, record), after=after)


def _carry_out(
    record: RunRecord,
    proposal: CompanionProposal,
    known: dict[str, AgentToolResult],
    *,
    at: datetime,
) -> None:
    seen: set[str] = set()
    for action in proposal.actions:
        planned = record.planned(action)
        if planned.operation_id in seen or record.has_written(planned.operation_id):
            continue
        seen.add(planned.operation_id)
        record.note_action(planned, action)
        _replay_action(record, planned, action, known.get(planned.operation_id), at=at)


def _replay_action(
    record: RunRecord,
    planned: PlannedAction,
    action: ProposedAction,
    result: AgentToolResult | None,
    *,
    at: datetime,
) -> None:
    if action.action_type is AgentActionType.LIFECYCLE_TRANSITION:
        record.rest(planned, action.sleep_until, now=at)
    elif result is not None and result.error_code == tool_code(AlreadyAsked()):
        record.results.append(result)
    elif action.question is not None:
        record.ask(planned, action.question, now=at)
    elif result is not None and result.error_code == "answer_required":
        record.results.append(result)
        record.waiting.append(result.operation_id)
    elif result is not None:
        record.add_result(planned, result, latency_ms=0, at=at)


def _setting(trace: RunTrace) -> RunSetting:
    kept = {name: each for name, each in trace.inputs.items() if name in RunSetting.model_fields}
    # A trace of an earlier version does not say what might be shown.
    return RunSetting.model_validate({"allowed_fields": PROVIDER_FIELDS, **kept})


def _report(trace: RunTrace, record: RunRecord) -> dict[str, Any] | None:
    at, cursor = trace.inputs["report_at"], trace.inputs["source_cursor"]
    if at is None:
        return None
    made = record.setting.report(
        record.facts, record.proposals, cursor=cursor, at=parse_timestamp(at)
    )
    return made.report.content


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


def _compared(
    trace: RunTrace, record: RunRecord, *, report: dict[str, Any] | None, after: AgentState
) -> ReplayResult:
    inputs = trace.inputs
    operations = tuple(each.operation_id for each in record.calls)
    pairs = (
        ("requests", inputs["requests"][: len(record.requests)], record.requests),
        ("operations", [each.operation_id for each in trace.tool_calls], list(operations)),
        ("report", inputs["report"], report),
        ("state", _stable(inputs["state_after"]), _stable(after.model_dump(mode="json"))),
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
