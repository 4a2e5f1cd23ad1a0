"""Agents, reviews and rooms of a conversation, under the control of a test."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime

from silas.approval import ApprovalDecision, ApprovalEngine, ApprovalVerdict
from silas.context.service import ChronicleEntry, ContextService, PendingEntry
from silas.kernel import OWNERS, Clock, Provenance, TaintLevel
from silas.memory.models import (
    MemoryChange,
    MemoryItem,
    MemoryOp,
    MemoryOpType,
    MemoryQuery,
    Words,
)
from silas.memory.service import MemoryService
from silas.memory.trust import model_worded
from silas.personality import PersonalityEngine
from silas.queue.store import QueueStore
from silas.review.cards import CardDecision, decision_made
from silas.storage import Database, Transaction
from silas.stream.models import (
    AgentResponse,
    AgentTurn,
    Answered,
    InteractionRegister,
    PlanAction,
    PlanActionType,
    RouteDecision,
    Usage,
)
from silas.stream.ports import Finding, PlanReview, Research, TextListener
from silas.work.authorisation import scope_of
from silas.work.models import InteractionMode
from silas.work.ports import ToolCaller
from silas.work.store import WorkItemStore

Route = Callable[[AgentTurn, ToolCaller], Awaitable[RouteDecision]]
Plan = Callable[[AgentTurn, ToolCaller, Sequence[Finding], bool], Awaitable[AgentResponse]]
Look = Callable[[AgentTurn, ToolCaller], Awaitable[Research]]


def direct(text: str, **more: object) -> RouteDecision:
    """The proxy answers by itself."""
    return _decision("direct", response=AgentResponse.model_validate({"message": text, **more}))


def to_planner(**more: object) -> RouteDecision:
    """The proxy wants a plan."""
    return _decision("planner", **more)


def _decision(route: str, **more: object) -> RouteDecision:
    return RouteDecision.model_validate(
        {
            "route": route,
            "reason": "the test says so",
            "interaction_register": InteractionRegister.EXECUTION,
            "interaction_mode": InteractionMode.ACT_AND_REPORT,
            "context_profile": "conversation",
            **more,
        }
    )


def proposing(markdown: str, text: str = "Here is a plan.", **more: object) -> AgentResponse:
    """The planner proposes a plan."""
    action = PlanAction(action=PlanActionType.PROPOSE, plan_markdown=markdown)
    return AgentResponse.model_validate({"message": text, "plan_action": action, **more})


class FakeProxy:
    """`RoutingAgent` that does what the test says."""

    def __init__(self, route: Route, *, usage: Usage = Usage()) -> None:  # noqa: B008 - frozen
        self._route = route
        self._usage = usage
        self.turns: list[AgentTurn] = []

    async def route(
        self, turn: AgentTurn, tools: ToolCaller, *, on_text: TextListener | None = None
    ) -> Answered[RouteDecision]:
        self.turns.append(turn)
        decision = await self._route(turn, tools)
        if on_text is not None and decision.response is not None:
            on_text(decision.response.message)
        return Answered[RouteDecision](output=decision, taint=turn.taint, usage=self._usage)


class FakePlannerAgent:
    """`PlanningAgent` that does what the test says."""

    def __init__(
        self,
        plan: Plan,
        *,
        advice: str = "Try it differently.",
        usage: Usage = Usage(),  # noqa: B008
    ) -> None:
        self._plan = plan
        self._advice = advice
        self._usage = usage
        self.turns: list[tuple[AgentTurn, list[Finding], bool]] = []
        self.consulted: list[AgentTurn] = []

    async def plan(
        self, turn: AgentTurn, tools: ToolCaller, *, findings: Sequence[Finding] = (), final: bool
    ) -> Answered[AgentResponse]:
        self.turns.append((turn, list(findings), final))
        response = await self._plan(turn, tools, findings, final)
        return Answered[AgentResponse](output=response, taint=turn.taint, usage=self._usage)

    async def advise(self, turn: AgentTurn) -> Answered[str]:
        self.consulted.append(turn)
        return Answered[str](output=self._advice, taint=turn.taint, usage=self._usage)


class FakeResearcher:
    """`ReadingAgent` that does what the test says, and remembers how many looked at once."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._now = 0
        self.most_at_once = 0
        self.turns: list[AgentTurn] = []

    async def research(
        self, turn: AgentTurn, tools: ToolCaller, *, return_format: str
    ) -> Answered[Research]:
        self.turns.append(turn)
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        try:
            await asyncio.sleep(0)
            found = await self._look(turn, tools)
        finally:
            self._now -= 1
        return Answered[Research](output=found, taint=turn.taint)


_CARDS = """
CREATE TABLE IF NOT EXISTS test_cards (
    card_id TEXT PRIMARY KEY, review TEXT NOT NULL, decision TEXT
)
"""


class FakeReviews:
    """`Reviews` in a table of its own, so that cards survive a crash as the real ones do."""

    def __init__(
        self, database: Database, queue: QueueStore, *, approvals: ApprovalEngine, clock: Clock
    ) -> None:
        self._database = database
        self._queue = queue
        self._approvals = approvals
        self._clock = clock

    def ask_plan(self, tx: Transaction, review: PlanReview) -> None:
        tx.execute(_CARDS)
        tx.execute(
            "INSERT INTO test_cards (card_id, review) VALUES (?, ?)",
            (review.card_id, review.model_dump_json()),
        )

    async def decision(self, card_id: str) -> CardDecision | None:
        row = await self._database.fetch_one(
            "SELECT decision FROM test_cards WHERE card_id = ?", (card_id,)
        )
        return CardDecision.model_validate_json(row[0]) if row and row[0] else None

    async def waiting(self) -> list[PlanReview]:
        """The cards that nobody has decided."""
        await self._database.transaction(lambda tx: tx.execute(_CARDS))
        rows = await self._database.fetch_all(
            "SELECT review FROM test_cards WHERE decision IS NULL ORDER BY card_id"
        )
        return [PlanReview.model_validate_json(row[0]) for row in rows]

    async def decide(
        self,
        review: PlanReview,
        verdict: ApprovalVerdict = ApprovalVerdict.APPROVED,
        *,
        expired: bool = False,
    ) -> None:
        """The owner decides, or nobody has in time: kept and told in one transaction."""
        decided = ApprovalDecision(verdict=verdict)
        tokens = {}
        stored = WorkItemStore(self._database, self._clock)
        for item in review.items if verdict is ApprovalVerdict.APPROVED else ():
            known = await stored.get(item.id)
            if known is None or known.plan_hash != item.plan_hash:
                continue  # the real ones refuse the decision
            token = await self._approvals.issue_token(item, decided, scope_of(item))
            tokens[item.id] = token.token_id
        decision = CardDecision(
            card_id=review.card_id,
            plan_hashes={item.id: item.plan_hash for item in review.items},
            decision=decided,
            decided_at=self._clock.now(),
            tokens=tokens,
            expired=expired,
        )
        event = decision_made(
            review.card_id,
            trace_id=review.trace_id,
            scope_id=review.scope_id,
            clock=self._clock,
        )

        def keep(tx: Transaction) -> None:
            tx.execute(
                "UPDATE test_cards SET decision = ? WHERE card_id = ?",
                (decision.model_dump_json(), review.card_id),
            )
            self._queue.enqueue_in(tx, event)

        await self._database.transaction(keep)
        self._queue.bus.notify_of([event])


class FakeMemory(MemoryService):
    """Memories in lists, one for each scope."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.items: defaultdict[str, dict[str, MemoryItem]] = defaultdict(dict)

    def is_record(self, text: str) -> bool:
        return bool(text)

    def active_record(self, item: MemoryItem) -> None:
        return None

    async def retrieve(
        self, query: MemoryQuery, scope_id: str, session_id: str | None = None
    ) -> list[MemoryItem]:
        words = set(query.query.casefold().split())
        found = [
            item
            for item in self.items[scope_id].values()
            if words & set(item.content.casefold().split())
        ]
        return found[: query.max_results]

    async def find(self, memory_id: str, scope_id: str) -> MemoryItem | None:
        return self.items[scope_id].get(memory_id)

    async def apply(
        self, op: MemoryOp, *, scope_id: str, taint: TaintLevel, words: Words, key: str
    ) -> MemoryChange:
        before = self.items[scope_id].get(op.memory_id or "")
        if op.op is MemoryOpType.STORE and op.content:
            self.add(op.content, scope_id=scope_id, taint=taint, memory_id=key)
            if words is Words.MODEL:
                mine = self.items[scope_id]
                mine[key] = model_worded(mine[key])
        if op.op is MemoryOpType.DELETE:
            self.items[scope_id].pop(op.memory_id or "", None)
        return MemoryChange(
            change_id=f"chg_{key}",
            scope_id=scope_id,
            memory_id=op.memory_id or key,
            op=op.op,
            before=before,
            after=self.items[scope_id].get(op.memory_id or key),
            made_at=self._clock.now(),
        )

    def add(
        self,
        content: str,
        *,
        scope_id: str = "owner",
        taint: TaintLevel = TaintLevel.OWNER,
        memory_id: str | None = None,
    ) -> None:
        """Something is remembered."""
        now = self._clock.now()
        name = memory_id or f"mem_{len(self.items[scope_id])}"
        self.items[scope_id][name] = MemoryItem(
            memory_id=name,
            scope_id=scope_id,
            content=content,
            taint=taint,
            created_at=now,
            updated_at=now,
        )


class FakeEntry(PendingEntry):
    """An entry that is part of its context as soon as it is written."""

    def __init__(self, context: "FakeContext", entry: ChronicleEntry) -> None:
        self.context = context
        self.entry = entry
        self.session = None

    def write(self, tx: Transaction) -> None:
        scope_id = self.entry.scope_id
        self.context.entries[scope_id].setdefault(self.entry.entry_id, self.entry)
        self.session = f"session of {scope_id}"

    async def show(self) -> None:
        return None


class FakeContext(ContextService):
    """Contexts in lists, one for each scope."""

    def __init__(self) -> None:
        self.entries: defaultdict[str, dict[str, ChronicleEntry]] = defaultdict(dict)
        self.memories: defaultdict[str, dict[str, MemoryItem]] = defaultdict(dict)
        self.plans: defaultdict[str, dict[str, str]] = defaultdict(dict)
        self.queries: defaultdict[str, list[str]] = defaultdict(list)
        self.directives: dict[str, str] = {}
        self.profiles: dict[str, str] = {}

    async def bring_back(self, scope_id: str) -> None:
        return None

    def pending(self, entry: ChronicleEntry) -> FakeEntry:
        return FakeEntry(self, entry)

    async def add_memories(
        self, scope_id: str, items: Sequence[MemoryItem], *, turn_number: int
    ) -> None:
        self.memories[scope_id] |= {item.memory_id: item for item in items}

    async def add_plan(
        self,
        scope_id: str,
        work_item_id: str,
        *,
        markdown: str,
        taint: TaintLevel,
        sources: tuple[str, ...] = (),
    ) -> None:
        self.plans[scope_id][work_item_id] = markdown

    async def watch_query(self, scope_id: str, query: str, *, turn_number: int) -> None:
        self.queries[scope_id].append(query)

    async def set_directives(self, scope_id: str, text: str) -> None:
        self.directives[scope_id] = text

    def fit_skills(self, descriptions: Mapping[str, str]) -> dict[str, str]:
        return dict(descriptions)

    async def set_profile(self, scope_id: str, profile_name: str) -> None:
        self.profiles[scope_id] = profile_name

    async def enforce_budget(
        self, scope_id: str, turn_number: int, *, current_goal: str | None
    ) -> None:
        return None

    async def render(self, scope_id: str, turn_number: int) -> str:
        lines = [entry.text for entry in self.entries[scope_id].values()]
        return "\n".join([*lines, *(item.content for item in self.memories[scope_id].values())])

    async def provenance(self, scope_id: str) -> Provenance:
        seen = [Provenance(each.taint, each.sources) for each in self.entries[scope_id].values()]
        remembered = [Provenance(item.taint) for item in self.memories[scope_id].values()]
        return OWNERS.joined(*seen, *remembered)


class FakePersonality(PersonalityEngine):
    """A personality that always speaks the same way."""

    def __init__(self, directives: str = "Be brief.", *, initiative: float = 0.5) -> None:
        self._directives = directives
        self._initiative = initiative
        self.events: list[tuple[str, str]] = []

    async def character(
        self, scope_id: str, text: str, *, must_ask: bool = False, eager_from: float | None = None
    ) -> tuple[str, float]:
        return self._directives, self._initiative

    def after_turn(
        self, scope_id: str, event: str, *, trusted: bool, now: datetime, key: str
    ) -> Callable[[Transaction], object]:
        return lambda _tx: self.events.append((scope_id, event))
