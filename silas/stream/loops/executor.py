"""The executor's loop: research, which only looks, and execution, which needs an approval.

Whether something may be executed is decided at the door of the work room, for every request, from
the stored item and its token. What a message says about it does not matter.
"""

import asyncio
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from silas.kernel import TaintLevel, join_taint
from silas.queue.consumer import Handled
from silas.queue.errors import NotWorthRetrying
from silas.queue.follow import follow
from silas.queue.models import (
    Agent,
    ExecutionRequest,
    ExecutionStatus,
    MessageKind,
    QueueMessage,
    ResearchConstraints,
    ResearchRequest,
    ResearchResult,
)
from silas.queue.store import Lease
from silas.storage import Durability
from silas.stream.healing import Running, after_execution, status_message
from silas.stream.models import AgentTurn, Answered
from silas.stream.ports import Research, ResearchAgent
from silas.stream.reading_tools import ReadingTools, Rules
from silas.stream.turn_context import TurnContext
from silas.work.executor import WorkItemExecutor
from silas.work.executors import RESEARCH_TOOLS
from silas.work.models import WorkItem, WorkItemResult, WorkItemType

_CHARS_PER_TOKEN = 8
_NOBODY = "Nobody is here who could look this up."
_TOO_LATE = "There was no answer in time."


@dataclass(frozen=True)
class ExecutorLoop:
    """Handler of `executor_queue`."""

    room: TurnContext
    work: WorkItemExecutor
    running: Running
    research: ResearchAgent | None = None
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
        left = (request.deadline - self.room.clock.now()).total_seconds()
        constraints = message.constraints or ResearchConstraints(return_format="a short text")
        found = Research(text=_NOBODY, ok=False, sources=[])
        answered = Answered[Research](output=found, taint=message.taint)
        if left <= 0:
            answered = _too_late(message)
        elif self.research is not None:
            try:
                async with asyncio.timeout(left):
                    answered = await self._ask(self.research, message, constraints)
            except TimeoutError:
                answered = _too_late(message)
        return Handled((self._found(message, request, answered, constraints),))

    async def _ask(
        self, agent: ResearchAgent, message: QueueMessage, constraints: ResearchConstraints
    ) -> Answered[Research]:
        room = self.room
        origin = await room.store.require_origin(message.trace_id)
        rules = Rules(
            room.gates.for_turn() if room.gates else None,
            room.system_gates,
            room.audit,
            {"scope_id": message.scope_id, "role": "research"},
        )
        tools = ReadingTools(
            room.reading.for_research(message.scope_id),
            rules,
            allowed=RESEARCH_TOOLS & set(constraints.tools_allowed) & room.tools_of(origin),
            taint=message.taint,
        )
        turn = AgentTurn(
            scope_id=message.scope_id,
            trace_id=message.trace_id,
            request=message.content,
            taint=message.taint,
            max_tokens=room.policy.max_tokens,
            max_cost_usd=self.research_cost_usd,
        )
        answered = await agent.research(turn, tools, return_format=constraints.return_format)
        taint = join_taint(answered.taint, tools.taint)
        return answered.model_copy(update={"taint": taint})

    def _found(
        self,
        message: QueueMessage,
        request: ResearchRequest,
        answered: Answered[Research],
        constraints: ResearchConstraints,
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
                sources=[source[:2000] for source in found.sources[:50]],
                tokens=answered.usage.tokens,
                cost_usd=answered.usage.cost_usd,
            ),
            ids=self.room.ids,
            clock=self.room.clock,
            taint=answered.taint,
        )

    async def _execute(self, message: QueueMessage, request: ExecutionRequest) -> Handled:
        room = self.room
        item = await room.items.get(request.work_item_id)
        if item is None:
            raise NotWorthRetrying(f"There is no work item {request.work_item_id}.")
        message = message.model_copy(update={"task_id": item.id})
        if item.type is not WorkItemType.GOAL:  # nobody wants to hear that every minute
            await self._tell_started(message, item)
        with self.running.entered(item, message):
            result = await self.work.execute(item)
        return await self._report(message, item, result)

    async def _tell_started(self, message: QueueMessage, item: WorkItem) -> None:
        room, text = self.room, f"I started {item.title}."
        started = status_message(room, message, item, status=ExecutionStatus.RUNNING, text=text)
        # Told once, however often the work is taken up again after a crash.
        once = {"message_id": f"{message.message_id}.running"}
        await room.enqueue(started.model_copy(update=once))

    async def _report(
        self, message: QueueMessage, item: WorkItem, result: WorkItemResult
    ) -> Handled:
        room = self.room
        origin = await room.store.work_origin(item.id)
        told = message.model_copy(
            update={"taint": join_taint(message.taint, await self._seen(item))}
        )
        # A goal fails again and again: each new plan for it counts.
        depth = max(origin.depth if origin else 0, await room.store.replacements(item.id))
        after = await room.items.get(item.id) or item
        report = after_execution(room, told, after, result, depth=depth, most=self.max_replans)
        asks = await room.proactive.after_work(told, after, result) if room.proactive else ()
        return Handled(report, tuple(asks), Durability.TRUST if asks else Durability.ORDINARY)

    async def _seen(self, item: WorkItem) -> TaintLevel:
        """What the runs have seen, also those of its tasks; what they say is derived from it."""
        bench, levels = self.work.bench, [TaintLevel.OWNER]
        spawned = await bench.items.list_by_parent(item.id)
        for name in {item.id, *item.tasks, *(task.id for task in spawned[-1:])}:
            for attempt in await bench.attempts.list_of(name):
                entries = await bench.ledger.entries(name, attempt.attempt)
                levels += [entry.result.taint for entry in entries if entry.result]
        return join_taint(*levels)


def _too_late(message: QueueMessage) -> Answered[Research]:
    return Answered(output=Research(text=_TOO_LATE, ok=False, sources=[]), taint=message.taint)
