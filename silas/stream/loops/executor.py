"""The executor's loop: research, which only looks, and execution, which needs an approval.

Whether something may be executed is decided at admission (`silas.work.admission`), for every
request, from the stored item and its token. What a message says about it does not matter.
"""

import asyncio
from dataclasses import dataclass, field
from datetime import datetime
from weakref import WeakValueDictionary

from silas.gates.escalation import Escalator
from silas.kernel import Provenance, join_taint
from silas.queue.consumer import Handled
from silas.queue.errors import NotWorthRetrying, NotYet
from silas.queue.models import (
    Agent,
    ExecutionRequest,
    MessageKind,
    PrintedOutput,
    QueueMessage,
    ResearchConstraints,
    ResearchRequest,
    ResearchResult,
    follow,
)
from silas.queue.table import Lease
from silas.storage import Durability
from silas.stream.answering import STOPPED, AnswerStopped, Stage
from silas.stream.attachment_reading import AttachmentReader, ConversationFile
from silas.stream.attachments import ReadFile, provenance_of, read_files
from silas.stream.healing import (
    Next,
    Running,
    WorkEscalation,
    after_execution,
    escalations_of,
    started_message,
    what_next,
)
from silas.stream.models import AgentTurn, Answered
from silas.stream.offers import is_undo
from silas.stream.ports import ReadingAgent, Research
from silas.stream.reading_tools import ReadingTools, Rules
from silas.stream.store import Origin
from silas.stream.turn_context import TurnContext
from silas.tools import RESEARCH_TOOLS
from silas.work.executor import WorkItemExecutor
from silas.work.goal import REPAIRED
from silas.work.models import WorkItem, WorkItemResult, WorkItemType
from silas.work.output import outputs_to_show
from silas.work.provenance import read_by
from silas.work.undo_calls import undo_offers
from silas.work.wording import last_results

_CHARS_PER_TOKEN = 8
_NOBODY = "Nobody is here who could look this up."
_TOO_LATE = "There was no answer in time."


@dataclass(frozen=True)
class ExecutorLoop:
    """Handler of `executor_queue`."""

    services: TurnContext
    work: WorkItemExecutor
    running: Running
    research: ReadingAgent | None = None
    research_cost_usd: float = 0.25
    max_replans: int = 2
    per_scope: int = 8
    _scopes: WeakValueDictionary[str, asyncio.Semaphore] = field(
        default_factory=WeakValueDictionary
    )
    """Of the conversations that work goes on for, and no others."""

    async def __call__(self, lease: Lease) -> Handled:
        message, payload = lease.message, lease.message.payload
        if isinstance(payload, ResearchRequest):
            return await self._look(message, payload)
        if isinstance(payload, ExecutionRequest):
            async with self._scopes.setdefault(message.scope_id, asyncio.Semaphore(self.per_scope)):
                return await self._execute(message, payload)
        raise NotWorthRetrying(f"The executor cannot read a {message.message_kind}.")

    async def _look(self, message: QueueMessage, request: ResearchRequest) -> Handled:
        left = (request.deadline - self.services.clock.now()).total_seconds()
        constraints = message.constraints or ResearchConstraints(return_format="a short text")
        found = Research(text=_NOBODY, ok=False, sources=[])
        answered = Answered[Research](output=found, taint=message.taint)
        if left <= 0:
            answered = _too_late(message)
        elif self.research is not None:
            asking = self._ask(self.research, message, request, constraints)
            answers, origin = self.services.answers, await self._origin(message)
            await answers.begin(origin, Stage.LOOKING)
            try:
                async with asyncio.timeout(left):
                    answered = await answers.stoppable(message.trace_id, asking)
            except TimeoutError:
                answered = _too_late(message)
            except AnswerStopped:
                stopped = _too_late(message, STOPPED)
                return Handled((self._found(message, request, stopped, constraints, stopped=True),))
        return Handled((self._found(message, request, answered, constraints),))

    async def _origin(self, message: QueueMessage) -> Origin:
        return await self.services.store.require_origin(message.trace_id)

    async def _files(self, request: ResearchRequest, origin: Origin) -> list[ReadFile]:
        """The files that came with a request of the owner's."""
        store = self.services.attachments
        if store is None or not self.services.is_owners(origin):
            return []
        return await read_files(store, request.attachments)

    async def _ask(
        self,
        agent: ReadingAgent,
        message: QueueMessage,
        request: ResearchRequest,
        constraints: ResearchConstraints,
    ) -> Answered[Research]:
        services = self.services
        origin = await self._origin(message)
        rules = Rules(
            services.gates.for_turn() if services.gates else None,
            services.system_gates,
            services.audit,
            {"scope_id": message.scope_id, "role": "research"},
        )
        files = await self._files(request, origin)
        at = request.attached_at or message.created_at
        attached = [ConversationFile(each.file.signed, at) for each in files]
        reader = AttachmentReader(services.attachments, attached) if services.attachments else None
        readable = request.folders.readable
        tools = ReadingTools(
            services.reading.for_research(
                message.scope_id, folders=readable, attached=reader.tools if reader else ()
            ),
            rules,
            allowed=RESEARCH_TOOLS & set(constraints.tools_allowed) & services.tools_of(origin),
            taint=message.taint,
            seen_private=False,  # its prompt is the question alone
            now=services.clock.now,
        )
        turn = AgentTurn(
            scope_id=message.scope_id,
            trace_id=message.trace_id,
            request=message.content,
            folders=request.folders,
            files=tuple(each.for_agent(images=False) for each in files),
            taint=message.taint,
            max_tokens=services.policy.max_tokens,
            max_cost_usd=self.research_cost_usd,
        )
        answered = await agent.research(turn, tools, return_format=constraints.return_format)
        found = Provenance(join_taint(answered.taint, tools.taint), tools.sources).joined(
            *provenance_of([each.file for each in files], at)
        )
        return answered.model_copy(update={"taint": found.taint, "sources": found.sources})

    def _found(
        self,
        message: QueueMessage,
        request: ResearchRequest,
        answered: Answered[Research],
        constraints: ResearchConstraints,
        *,
        stopped: bool = False,
    ) -> QueueMessage:
        found, longest = answered.output, constraints.max_tokens * _CHARS_PER_TOKEN
        return follow(
            message,
            sender=Agent.EXECUTOR,
            kind=MessageKind.RESEARCH_RESULT,
            content=found.text[:longest],
            payload=ResearchResult(
                research_id=request.research_id,
                request_id=request.request_id,
                ok=found.ok,
                stopped=stopped,
                sources=[source[:2000] for source in found.sources[:50]],
                tokens=answered.usage.tokens,
                cost_usd=answered.usage.cost_usd,
            ),
            ids=self.services.ids,
            clock=self.services.clock,
            taint=answered.taint,
            sources=answered.sources,
        )

    async def _execute(self, message: QueueMessage, request: ExecutionRequest) -> Handled:
        services = self.services
        item = await services.items.get(request.work_item_id)
        if item is None:
            raise NotWorthRetrying(f"There is no work item {request.work_item_id}.")
        waits = request.not_before is not None and services.clock.now() < request.not_before
        if waits and request.not_before is not None and not item.is_cancelled:
            raise NotYet(request.not_before)
        message = message.model_copy(update={"task_id": item.id})
        if item.type is WorkItemType.PROJECT:  # a task says it itself, when its attempt is started
            await services.enqueue(started_message(services, message, item))
        with self.running.entered(item, message):
            result = await self.work.execute(item)
        return await self._report(message, item, result)

    async def _report(
        self, message: QueueMessage, item: WorkItem, result: WorkItemResult
    ) -> Handled:
        services = self.services
        after = await services.items.get(item.id) or item
        if _is_no_news(item, after, result):
            return Handled()
        origin = await services.store.work_origin(item.id)
        read = Provenance(message.taint, tuple(message.taint_sources)).joined(
            await self._read(item)
        )
        found = {"taint": read.taint, "taint_sources": list(read.sources)}
        request = message.model_copy(update=found)
        # A goal fails again and again: each new plan for it counts.
        depth = max(origin.depth if origin else 0, await services.store.replacements(item.id))
        following = await self._following(after, result, depth)
        escalation = await self._escalate(request, after, result, following)
        if escalation.result is not result:  # it was executed once more
            result, after = escalation.result, await services.items.get(item.id) or item
            following = await self._following(after, result, depth)
        report = after_execution(
            services,
            request,
            after,
            result,
            following=following,
            depth=depth,
            before=item.status,
            printed=await self._printed(after),
            undo_until=await self._undo_until(after),
        )
        writes = list(escalation.writes)
        if services.proactive is not None and following not in (Next.WAIT, Next.REPLAN):
            writes += await services.proactive.after_work(request, after, result)
        trusted = Durability.TRUST if writes else Durability.ORDINARY
        return Handled((*report, *escalation.messages), tuple(writes), trusted)

    async def _following(self, item: WorkItem, result: WorkItemResult, depth: int) -> Next:
        following = what_next(item, result, depth=depth, most=self.max_replans)
        if following is Next.ESCALATE and await self._waits(item):
            return Next.WAIT
        return following

    async def _escalate(
        self, request: QueueMessage, item: WorkItem, result: WorkItemResult, following: Next
    ) -> WorkEscalation:
        """Follow what the plan names for gates that blocked, and for work that did not succeed."""
        services, ctx = self.services, self.work.context
        below = await ctx.items.list_by_parent(item.id)
        stopping = self.running.take_gates([item.id, *(each.id for each in below)])
        known = {gate.name: gate for gate in (*ctx.system_gates, *item.gates)}
        known |= {gate.name: gate for each in below for gate in each.gates}

        async def execute(again: WorkItem) -> WorkItemResult:
            with self.running.entered(again, request):
                return await self.work.execute(again)

        origin = await services.store.require_origin(request.trace_id)
        handler = WorkEscalation(services, request, origin, item, result=result, execute=execute)
        escalator = Escalator(handler, audit=services.audit, escalations=item.escalation)
        gates = [known[name] for name in stopping if name in known]
        for block in escalations_of(item, result, gates, following):
            handler.block = block.model_copy(update={"sender_id": origin.sender_id})
            await escalator.handle(handler.block)
        return handler

    async def _waits(self, item: WorkItem) -> bool:
        """Whether a call of it, or a repair of a goal, waits for the owner's decision."""
        ctx, now = self.work.context, self.services.clock.now()
        below = await ctx.items.list_by_parent(item.id)
        names = {item.id, *(each.id for each in below)}
        runs = await ctx.paused.waiting() if ctx.paused else []
        if any(run.work_item_id in names and run.undecided(now) for run in runs):
            return True
        return any(each.waits_for_approval for each in below if each.spawned_by == item.id)

    async def _printed(self, item: WorkItem) -> list[PrintedOutput]:
        """What the last attempt printed that ran anything; of a project, those at its tasks."""
        if is_undo(item):
            return []
        ctx, entries = self.work.context, []
        for name in [item.id, *item.tasks]:
            done = await ctx.items.get(name)
            for attempt in range(done.attempts if done else 0, 0, -1):
                made = await ctx.ledger.entries(name, attempt)
                if outputs_to_show(made):
                    entries += made
                    break
        return outputs_to_show(entries, last_results(item))

    async def _undo_until(self, item: WorkItem) -> datetime | None:
        """Until when a call of it in an account is taken back with one tap."""
        offers = await undo_offers(self.work.context, item.id)
        return max((each.until for each in offers if each.until and not each.told), default=None)

    async def _read(self, item: WorkItem) -> Provenance:
        """What the runs have read, also those of its tasks; what they say is derived from it."""
        spawned = await self.work.context.items.list_by_parent(item.id)
        names = [item.id, *item.tasks, *(task.id for task in spawned[-1:])]
        return await read_by(self.work.context, dict.fromkeys(names))


def _is_no_news(before: WorkItem, after: WorkItem, result: WorkItemResult) -> bool:
    """Whether a cycle of a goal found what the one before it had found, and changed nothing."""
    if before.type is not WorkItemType.GOAL or before.status is not after.status:
        return False
    return not result.summary.startswith(REPAIRED)


def _too_late(message: QueueMessage, why: str = _TOO_LATE) -> Answered[Research]:
    return Answered(output=Research(text=why, ok=False, sources=[]), taint=message.taint)
