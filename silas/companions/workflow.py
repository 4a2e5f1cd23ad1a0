"""One run of a companion, from being woken to what it leaves behind.

0. What it is (definition, persona) and what it remembers are read.
1. What has changed, and what it looks at every time, is looked up: by tools, within its scope.
2. What a model may be shown is projected, and the model is asked through its one door. A run that
   is done again finds the answer written down and asks nobody.
3. The actions are fixed, written down, then carried out one after the other, each through the chain
   of checks. What needs the owner waits; the run does not.
4. If something was looked up, 2 and 3 once more with what was found; at most three times.
5. The report is built. One whose claims have no sources is replaced by what the facts alone say.
6. The state is reduced, and everything is handed to the worker, to be committed at once.

Before every step it is asked whether the owner has called the run off. Then it ends here: what the
journal has already is told, and nothing follows.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from silas.companions.actions import make_plan, plan_key
from silas.companions.budgets import Budgets
from silas.companions.errors import CALLED_OFF, AnswerRequired, Stopped, UnsafeTarget, tool_code
from silas.companions.kinds.kept import Definitions
from silas.companions.memory import MemoryAssembler
from silas.companions.models import (
    ActionPlan,
    AgentActionType,
    AgentState,
    BudgetUsage,
    Companion,
    RunOutcome,
    WakeJob,
    WakeRun,
    WakeStatus,
)
from silas.companions.models.runs import PlannedAction
from silas.companions.origins import taint_of_action
from silas.companions.persona import Personas
from silas.companions.policy.gateway import ModelDoor
from silas.companions.policy.projecting import ProjectionPolicies
from silas.companions.ports import CallAllowance, CompanionRequest
from silas.companions.prompt_items import PromptItems
from silas.companions.proposals import CompanionProposal, ProposedAction
from silas.companions.requests import (
    PROMPT_ID,
    PROMPT_VERSION,
    memory_shown,
)
from silas.companions.run_record import RunRecord
from silas.companions.saga import SagaLog
from silas.companions.store import CompanionStore
from silas.companions.tools.executor import ToolExecutor
from silas.companions.tools.models import AgentAccessScope, AgentToolCall
from silas.journal.store import Journal
from silas.kernel import CompanionError
from silas.storage import Transaction

ROUNDS = 3
_LOOK_SECONDS = 0.2
_LONGEST_SLEEP = timedelta(days=31)
_NO_ALLOWANCE = CallAllowance(tokens=0, cost_usd=0.0, seconds=0.0)


GoOn = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class CompanionWorkflow:
    """`silas.companions.wake.ports.CompanionRuns`."""

    store: CompanionStore
    journal: Journal
    memory: MemoryAssembler
    definitions: Definitions
    personas: Personas
    prompts: PromptItems
    executor: ToolExecutor
    door: ModelDoor
    projections: ProjectionPolicies
    saga: SagaLog
    budgets: Budgets
    time_zone: Callable[[], str]

    async def run(
        self,
        job: WakeJob,
        companion: Companion,
        state: AgentState,
        *,
        stopping: Callable[[], bool],
    ) -> RunOutcome:
        """What came of the run; a refusal of the policy is an outcome, too."""
        record = RunRecord(job, companion, state, started_at=self.store.clock.now())
        begun = self.store.clock.monotonic()
        error: CompanionError | None = None
        status = WakeStatus.COMPLETED
        try:
            await self._run(record, stopping)
        except Stopped as called_off:
            status, error = WakeStatus.CANCELLED, called_off
        except CompanionError as refused:
            status, error = WakeStatus.FAILED_TERMINAL, refused
        record.latency_ms = round((self.store.clock.monotonic() - begun) * 1000)
        return self._outcome(record, status, error)

    async def _run(self, record: RunRecord, stopping: Callable[[], bool]) -> None:
        async def go_on() -> None:
            if stopping():
                raise Stopped(CALLED_OFF)
            await self.executor.switches.require(record.companion.id)

        await go_on()
        await self._begin(record)
        await self._look(record, go_on)
        for number in range(ROUNDS):
            await go_on()
            proposal, plan = await self._propose(record, number, go_on)
            looked = await self._carry_out(record, proposal, plan, go_on)
            if not looked:
                break
        await go_on()
        record.source_cursor = await self.journal.last_cursor()
        record.build_report(self.store.clock.now())

    async def _begin(self, record: RunRecord) -> None:
        """Step 0."""
        agent_id, job = record.companion.id, record.job
        definition = record.definition = await self.definitions.of(agent_id)
        record.allowed_fields = await self.projections.allowed(definition)
        record.persona = await self.personas.in_use(agent_id)
        record.memory = memory_shown(await self.memory.assemble(agent_id, job.thread_id))
        record.answers = await self.prompts.recent_answers(agent_id)
        record.time_zone = self.time_zone()
        record.note_wake()

    async def _look(self, record: RunRecord, go_on: GoOn) -> None:
        """Step 1."""
        definition = record.require_definition()
        changed = record.job.changed_entity_ids[:100]
        today = self.budgets.today()
        reads = [(each.tool, each.arguments_on(today)) for each in definition.reads]
        if changed and "list_tasks_in_scope" in definition.tools:
            reads.append(("list_tasks_in_scope", {"task_ids": list(changed)}))
        for tool, arguments in reads:
            await go_on()
            action = ProposedAction(
                action_type=AgentActionType.TOOL_CALL, tool_name=tool, arguments=arguments
            )
            call = self._call(record, record.planned(action))
            result = await self.executor.execute(call, decisions=record.decisions)
            record.add_read(tool, arguments, result, at=self.store.clock.now())

    async def _propose(
        self, record: RunRecord, number: int, go_on: GoOn
    ) -> tuple[CompanionProposal, ActionPlan]:
        """Step 2: the plan that was written down, or a new one."""
        key = plan_key(record.job.run_key, number)
        request = self._request(record, number)
        record.requests.append(request.payload)
        kept = await self.store.get(ActionPlan, key)
        if kept is None:
            proposal = await self._ask(record, request, go_on)
            plan = make_plan(
                record.job,
                proposal,
                number=number,
                scope=record.scope,
                at=self.store.clock.now(),
            )
            kept = await self.store.put(plan)
        proposal = CompanionProposal.model_validate(kept.proposal)
        if kept.actions:
            record.scope = kept.actions[0].scope_snapshot
        _require_genuine(kept, record, proposal, number=number)
        record.add_proposal(proposal)
        return proposal, kept

    async def _ask(
        self, record: RunRecord, request: CompanionRequest, go_on: GoOn
    ) -> CompanionProposal:
        begun = self.store.clock.monotonic()
        asking = self.door.ask(
            record.companion,
            request,
            definition=record.require_definition(),
            decisions=record.decisions,
        )
        try:
            return await _unless_called_off(asking, go_on)
        finally:
            record.asked_ms += round((self.store.clock.monotonic() - begun) * 1000)

    def _request(self, record: RunRecord, number: int) -> CompanionRequest:
        companion, definition = record.companion, record.require_definition()
        registry = self.executor.registry
        return CompanionRequest(
            agent_id=companion.id,
            agent_kind=companion.kind,
            category_ids=companion.allowed_category_ids,
            run_key=record.job.run_key,
            round=number,
            wake_reason=record.job.reason,
            prompt_id=PROMPT_ID,
            prompt_version=PROMPT_VERSION,
            persona_version_id=record.persona.id if record.persona else None,
            payload=record.payload(),
            tools=tuple(tool.sketch for tool in registry.tools if tool.name in definition.tools),
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
        """Step 3; True if something was looked up that the model should see."""
        looked = False
        by_operation = {record.planned(action).operation_id: action for action in proposal.actions}
        for planned in plan.actions:
            await go_on()
            action = by_operation.get(planned.operation_id)
            if action is None:
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
            record.sleep_until = bounded_sleep(action.sleep_until, self.store.clock.now())
            return False
        if action.question is not None:
            record.ask(self.prompts, planned, action.question, now=self.store.clock.now())
            return False
        taint = await taint_of_action(self.journal, record.job, planned, model_id=proposal.model_id)
        call = self._call(record, planned).model_copy(update={"taint": taint})
        needed = record.questions_before(proposal, action)
        if needed:
            with contextlib.suppress(AnswerRequired):
                await self.executor.waiting.block(
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
        tool = self.executor.registry.get(call.tool_name)
        return tool is not None and not tool.writes and result.success

    def _call(self, record: RunRecord, planned: PlannedAction) -> AgentToolCall:
        return AgentToolCall(
            agent_id=record.companion.id,
            agent_kind=record.companion.kind,
            thread_id=record.job.thread_id,
            run_key=record.job.run_key,
            tool_name=planned.tool_name or "",
            operation_id=planned.operation_id,
            wake_reason=record.job.reason,
            scope=AgentAccessScope(allowed_category_ids=frozenset(planned.scope_snapshot)),
            arguments=planned.arguments,
        )

    def _outcome(
        self, record: RunRecord, status: WakeStatus, error: CompanionError | None
    ) -> RunOutcome:
        """Step 6."""
        record.note_end(status, error)
        done = tuple(record.operations)
        # The time of the models was charged at their door.
        spent = BudgetUsage(runtime_ms=max(0, record.latency_ms - record.asked_ms))

        def finish(tx: Transaction) -> None:
            for each in done:
                self.saga.finish_in(tx, each)
            for item in record.questions:
                self.prompts.keep_in(tx, item)
            self.budgets.charge_in(tx, record.companion.id, spent)

        now = self.store.clock.now()
        return RunOutcome(
            status=status,
            state=record.reduced(status, now=now, host_id=self.store.host_id),
            trace=record.trace(status, error, now=now),
            drafts=tuple(record.drafts),
            report=record.report if status is WakeStatus.COMPLETED else None,
            source_refs=record.source_refs if status is WakeStatus.COMPLETED else (),
            writes=(finish,),
            error_code=tool_code(error) if error else None,
        )


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
    kept: ActionPlan, record: RunRecord, proposal: CompanionProposal, *, number: int
) -> None:
    """A plan that was written down must be that of this run, and of what was proposed in it.

    Its border is that of the time when it was made; whether it still holds is asked at every call.
    """
    job, scope = record.job, record.scope
    made = make_plan(job, proposal, number=number, scope=scope, at=kept.created_at)
    if (kept.agent_id, kept.actions) != (made.agent_id, made.actions):
        raise UnsafeTarget("The plan of this run was changed after it was made. Nothing was done.")


def bounded_sleep(wanted: datetime | None, now: datetime) -> datetime | None:
    """How long a companion may ask to be left asleep; None if that is not in the future."""
    return min(wanted, now + _LONGEST_SLEEP) if wanted is not None and wanted > now else None
