"""The planner's loop: plans, with research in between; advice for workers; other approaches."""

from dataclasses import dataclass

from silas.kernel import TaintLevel, join_taint
from silas.queue.consumer import Handled
from silas.queue.errors import NotWorthRetrying
from silas.queue.follow import follow
from silas.queue.models import (
    Agent,
    ConsultRequest,
    MessageKind,
    PlannerGuidance,
    PlanRequest,
    PlanResult,
    QueueMessage,
    ReplanRequest,
    ResearchResult,
)
from silas.queue.store import Lease
from silas.stream.asking import context_of
from silas.stream.gating import MAX_TEXT, clip
from silas.stream.models import AgentResponse, AgentTurn, Answered, PlanActionType, Usage
from silas.stream.ports import Finding, PlannerAgent
from silas.stream.questions import Questions, ask_out
from silas.stream.reading_room import PLANNER_TOOLS
from silas.stream.reading_tools import ReadingTools, Rules
from silas.stream.research import (
    ResearchLimits,
    ResearchState,
    ResearchStatus,
    Result,
    add_usage,
    asked,
    begin,
    goes_on,
)
from silas.stream.research_store import ResearchStore
from silas.stream.store import Origin
from silas.stream.turn_context import TurnContext
from silas.work.front_matter import MAX_PLAN_BYTES

_NO_PLANNER = "Nobody is here who could plan this. Run `silas models test` to see why."
_TOO_LONG = "The plan that I wrote is too long to be read."
_ANOTHER = (
    "This plan did not work, although everything was tried. Write a plan with a different "
    "approach, or answer without a plan if there is none.\n\n"
)
_PLANNED = (PlanActionType.PROPOSE, PlanActionType.REVISE)


@dataclass(frozen=True)
class PlannerLoop:
    """Handler of `planner_queue`."""

    room: TurnContext
    states: ResearchStore
    limits: ResearchLimits
    planner: PlannerAgent | None = None

    async def __call__(self, lease: Lease) -> Handled:
        message, payload = lease.message, lease.message.payload
        if isinstance(payload, PlanRequest | ReplanRequest):
            return await self._think(begin(message), 0)
        if isinstance(payload, ResearchResult):
            return await self._found(message, payload)
        if isinstance(payload, ConsultRequest):
            return await self._advise(message, payload)
        raise NotWorthRetrying(f"The planner cannot read a {message.message_kind}.")

    async def _found(self, message: QueueMessage, found: ResearchResult) -> Handled:
        known = await self.states.record(
            found.request_id, self._result(message, found), self.limits
        )
        if known is None or not goes_on(known[0], found.research_id):
            await self._say_if_late(known, found)
            return Handled()
        return await self._think(*known)

    def _result(self, message: QueueMessage, found: ResearchResult) -> Result:
        return Result(
            research_id=found.research_id,
            finding=Finding(
                question="", answer=message.content, ok=found.ok, sources=found.sources
            ),
            usage=Usage(tokens=found.tokens, cost_usd=found.cost_usd),
            taint=message.taint,
            at=self.room.clock.now(),
        )

    async def _say_if_late(
        self, known: tuple[ResearchState, int] | None, found: ResearchResult
    ) -> None:
        ids = {each.research_id for each in known[0].questions} if known else set()
        if found.research_id not in ids:
            await self.room.audit.log(
                "research_ignored", research_id=found.research_id, request_id=found.request_id
            )

    async def _think(self, state: ResearchState, version: int) -> Handled:
        """Let the planner go on: to questions that go out, or to its answer."""
        if self.planner is None:
            return self._answer(state, version, AgentResponse(message=_NO_PLANNER))
        while True:
            questions = Questions(state, self.limits, self.room.clock, self.room.ids)
            answered = await self._ask(self.planner, state, questions)
            state = state.model_copy(
                update={"taint": answered.taint, "usage": add_usage(state.usage, answered.usage)}
            )
            if not questions.accepted or state.must_finish:
                await self._log(state)
                return self._answer(state, version, answered.output)
            if not self._spent(state):
                break
            # It may not ask any more, and has not answered: once more, with what is known.
            state = state.model_copy(update={"status": ResearchStatus.READY})
        out = ask_out(state, questions, ids=self.room.ids, clock=self.room.clock)
        waiting = asked(state, questions.accepted)
        return Handled(out, (lambda tx: self.states.save_in(tx, waiting, version=version),))

    async def _log(self, state: ResearchState) -> None:
        """What the request has used, its research included."""
        await self.room.audit.log(
            "plan_answered",
            request_id=state.request.message_id,
            trace_id=state.request.trace_id,
            rounds=state.round,
            tokens=state.usage.tokens,
            cost_usd=state.usage.cost_usd,
        )

    async def _ask(
        self, planner: PlannerAgent, state: ResearchState, questions: Questions
    ) -> Answered[AgentResponse]:
        request = state.request
        origin = await self.room.store.require_origin(request.trace_id)
        turn = await self._told(state, origin)
        tools = self._tools(state, questions, origin)
        final = state.must_finish
        answered = await planner.plan(turn, tools, findings=state.findings, final=final)
        if answered.fallback:
            await self.room.audit.log(
                "agent_fallback",
                role="planner",
                reason=answered.fallback,
                trace_id=request.trace_id,
            )
        taint = join_taint(turn.taint, answered.taint, tools.taint)
        return answered.model_copy(update={"taint": taint})

    async def _told(self, state: ResearchState, origin: Origin) -> AgentTurn:
        request = state.request
        number = await self.room.store.turns(request.scope_id)
        context, taint = await context_of(
            self.room, request.scope_id, number=number, taint=state.taint
        )
        text = self.room.frame(request.content, origin.taint or TaintLevel.EXTERNAL)
        if isinstance(request.payload, ReplanRequest):
            text = f"{_ANOTHER}{request.content}"
        return AgentTurn(
            scope_id=request.scope_id,
            trace_id=request.trace_id,
            request=text,
            context=context,
            taint=taint,
            max_tokens=max(1, self.limits.max_tokens - state.usage.tokens),
            max_cost_usd=max(0.0, self.limits.max_cost_usd - state.usage.cost_usd),
        )

    def _tools(self, state: ResearchState, questions: Questions, origin: Origin) -> ReadingTools:
        room, scope_id = self.room, state.request.scope_id
        allowed = PLANNER_TOOLS & room.tools_of(origin) | {"validate_plan"}
        if state.must_finish:
            allowed -= {"request_research"}
        questions.tools = room.tools_of(origin)
        rules = Rules(
            room.gates.for_turn() if room.gates else None,
            room.system_gates,
            room.audit,
            {"scope_id": scope_id, "role": "planner"},
        )
        tools = room.reading.for_planner(scope_id, ask=questions.ask)
        return ReadingTools(tools, rules, allowed=frozenset(allowed), taint=state.taint)

    def _spent(self, state: ResearchState) -> bool:
        used, limits = state.usage, self.limits
        return used.tokens >= limits.max_tokens or used.cost_usd >= limits.max_cost_usd

    def _answer(self, state: ResearchState, version: int, response: AgentResponse) -> Handled:
        request = state.request
        action = response.plan_action
        markdown = action.plan_markdown if action and action.action in _PLANNED else None
        said = response.message
        if markdown is not None and len(markdown) > MAX_PLAN_BYTES:
            markdown, said = None, _TOO_LONG
        message = follow(
            request,
            sender=Agent.PLANNER,
            kind=MessageKind.PLAN_RESULT,
            content=clip(said),
            payload=self._result_of(request, response),
            ids=self.room.ids,
            clock=self.room.clock,
            taint=state.taint,
            plan_markdown=markdown,
        )
        if version == 0:
            return Handled((message,))
        request_id = request.message_id
        return Handled(
            (message,), (lambda tx: self.states.remove_in(tx, request_id, version=version),)
        )

    def _result_of(self, request: QueueMessage, response: AgentResponse) -> PlanResult:
        asked_for, action = request.payload, response.plan_action
        override = action.interaction_mode_override if action else None
        continues = action.continuation_of if action else None
        planned = asked_for if isinstance(asked_for, PlanRequest) else None
        replaced = asked_for if isinstance(asked_for, ReplanRequest) else None
        # One more than is allowed, so that the step that cuts them can see and say it.
        ops = response.memory_ops[: self.room.policy.max_memory_ops + 1]
        return PlanResult(
            connection_id=getattr(asked_for, "connection_id", self.room.policy.owner_id),
            needs_approval=response.needs_approval,
            interaction_register=planned.interaction_register if planned else "execution",
            interaction_mode=planned.interaction_mode if planned else None,
            interaction_mode_override=override.value if override else None,
            continuation_of=continues or (planned.continuation_of if planned else None),
            memory_ops=[
                op.model_dump(mode="json") for op in ops if len(op.content or "") <= MAX_TEXT
            ],
            memory_queries=[each.model_dump(mode="json") for each in response.memory_queries],
            replaces=replaced.work_item_id if replaced else None,
        )

    async def _advise(self, message: QueueMessage, request: ConsultRequest) -> Handled:
        if self.planner is None or self.room.clock.now() >= request.deadline:
            await self.room.audit.log(
                "consult_ignored", consult_id=request.consult_id, work_item_id=request.work_item_id
            )
            return Handled()
        turn = AgentTurn(
            scope_id=message.scope_id,
            trace_id=message.trace_id,
            request=message.content,
            taint=message.taint,
            max_tokens=self.limits.max_tokens,
            max_cost_usd=self.limits.max_cost_usd,
        )
        answered = await self.planner.advise(turn)
        guidance = follow(
            message,
            sender=Agent.PLANNER,
            kind=MessageKind.PLANNER_GUIDANCE,
            content=clip(answered.output),
            payload=PlannerGuidance(
                consult_id=request.consult_id,
                work_item_id=request.work_item_id,
                tokens=answered.usage.tokens,
                cost_usd=answered.usage.cost_usd,
            ),
            ids=self.room.ids,
            clock=self.room.clock,
            taint=answered.taint,
        )
        return Handled((guidance,))
