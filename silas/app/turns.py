"""The turns, wired: who takes part in them, and what they work with."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from silas.app.gates import open_gates
from silas.app.ground import Ground
from silas.app.settings import Settings
from silas.context.ports import ExactTokens, Scorer
from silas.gates.access import AccessChange
from silas.gates.customers import CustomerDirectory
from silas.gates.ports import GateModel
from silas.queue import QueueStore
from silas.stream.access import Visitors
from silas.stream.activity import while_away
from silas.stream.cadence import CadenceWatch
from silas.stream.limits import RateLimit
from silas.stream.models import InteractionRegister
from silas.stream.ports import (
    ContextRoom,
    GateDesk,
    JournalRoom,
    Live,
    MemoryRoom,
    PersonalityRoom,
    PlannerAgent,
    Proactive,
    ProxyAgent,
    ResearchAgent,
    Reviews,
)
from silas.stream.reading_room import PLANNER_TOOLS, PROXY_TOOLS, ReadingRoom
from silas.stream.research import ResearchLimits
from silas.stream.store import ConversationStore
from silas.stream.turn_context import TurnContext, TurnPolicy, nobody
from silas.work.executor import WorkItemExecutor
from silas.work.executors import RESEARCH_TOOLS
from silas.work.models import InteractionMode, WorkItem
from silas.work.plan import parse_plan
from silas.work.ports import Approver, ExecutorAgent, SkillFiles
from silas.work.store import WorkItemStore


@dataclass(frozen=True)
class Minds:
    """The agents. Whoever is absent says so when asked; nothing is done instead."""

    proxy: ProxyAgent | None = None
    planner: PlannerAgent | None = None
    research: ResearchAgent | None = None
    executor: ExecutorAgent | None = None
    gate: GateModel | None = None
    scorer: Scorer | None = None
    tokens: ExactTokens | None = None
    proxy_hears_context: bool = True
    """False: the proxy makes nothing of the conversation, and so is not told it."""
    ready: Callable[[], Awaitable[object]] | None = None
    """Brings those into being that are made when they are first asked; None: all are there."""


@dataclass(frozen=True)
class Rooms:
    """What the conversation may use besides; see the ports for what absence means."""

    memory: MemoryRoom | None = None
    journal: JournalRoom | None = None
    context: ContextRoom | None = None
    personality: PersonalityRoom | None = None
    reviews: Reviews | None = None
    gate_desk: GateDesk | None = None
    proactive: Proactive | None = None
    skills: SkillFiles | None = None
    approver: Approver | None = None
    live: Live | None = None
    is_known: Callable[[str, str], bool] = nobody


def open_turns(
    ground: Ground, minds: Minds, rooms: Rooms, *, queue: QueueStore, work: WorkItemExecutor
) -> TurnContext:
    """What the turns of this ground floor work with."""
    settings, database, clock = ground.settings, ground.database, ground.clock
    goal = _active_goal(settings.active_goal)
    return TurnContext(
        store=ConversationStore(database, clock),
        items=WorkItemStore(database, clock),
        audit=ground.audit,
        clock=clock,
        ids=ground.ids,
        reading=_reading(ground, rooms, work),
        visitors=_visitors(ground, goal),
        policy=_policy(settings),
        enqueue=queue.enqueue,
        proxy=minds.proxy,
        gates=open_gates(ground, model=minds.gate),
        system_gates=settings.gates.system,
        messages=ground.messages,
        keys=lambda: ground.keys.public,
        is_known=rooms.is_known,
        memory=rooms.memory,
        journal=rooms.journal,
        context=rooms.context,
        personality=rooms.personality,
        reviews=rooms.reviews,
        gate_desk=rooms.gate_desk,
        proactive=rooms.proactive,
        skills=rooms.skills,
        live=rooms.live,
        active_goal=goal,
        cadence=CadenceWatch(ground.audit, clock),
        memory_ops=RateLimit(clock, settings.limits.memory_ops_per_minute_per_scope),
        proxy_hears_context=minds.proxy_hears_context,
    )


def _reading(ground: Ground, rooms: Rooms, work: WorkItemExecutor) -> ReadingRoom:
    looking = [work.bench.registry.get(name) for name in sorted(RESEARCH_TOOLS)]
    return ReadingRoom(
        ids=ground.ids,
        memory=rooms.memory,
        context=rooms.context,
        journal=rooms.journal,
        tools=tuple(tool for tool in looking if tool is not None),
        directory=ground.settings.planner.research_dir,
        activity=partial(
            while_away, ground.audit, owner_id=ground.settings.owner_id, clock=ground.clock
        ),
        searches=RateLimit(
            ground.clock, ground.settings.limits.web_search_calls_per_minute_per_scope
        ),
    )


def _visitors(ground: Ground, goal: WorkItem | None) -> Visitors:
    writing: set[asyncio.Task[str]] = set()

    def note(change: AccessChange) -> None:
        task = asyncio.get_running_loop().create_task(
            ground.audit.log("access_changed", **change.model_dump(mode="json"))
        )
        writing.add(task)
        task.add_done_callback(writing.discard)

    return Visitors(
        goal.access_levels if goal else {},
        clock=ground.clock,
        on_change=note,
        all_tools=sorted(PROXY_TOOLS | PLANNER_TOOLS | RESEARCH_TOOLS),
        customers=CustomerDirectory(
            ground.settings.sandbox.customer_context_dir, data_dir=ground.paths.data_dir
        ),
    )


def _policy(settings: Settings) -> TurnPolicy:
    interaction, planner = settings.interaction, settings.planner
    return TurnPolicy(
        owner_id=settings.owner_id,
        default_profile=settings.context.default_profile,
        profiles=tuple(settings.context.profiles),
        high_initiative_min=interaction.high_initiative_min,
        default_modes={
            InteractionRegister(register): InteractionMode(mode)
            for register, mode in interaction.default_mode_by_register.items()
        },
        max_memory_ops=settings.limits.max_memory_ops_per_turn,
        max_open_cards=settings.backpressure.max_open_cards_per_visitor,
        max_tokens=planner.max_tokens_per_turn,
        max_cost_usd=planner.max_cost_usd_per_turn,
        plans_base=Path.home(),
    )


def research_limits(settings: Settings) -> ResearchLimits:
    planner = settings.planner
    return ResearchLimits(
        in_flight=planner.research_in_flight,
        rounds=planner.research_rounds,
        seconds=planner.research_timeout_seconds,
        max_tokens=planner.max_tokens_per_request,
        max_cost_usd=planner.max_cost_usd_per_request,
    )


def _active_goal(path: Path | None) -> WorkItem | None:
    """The goal that configures the conversation: its gates, access levels and escalations."""
    return None if path is None else parse_plan(path.read_text("utf-8")).root
