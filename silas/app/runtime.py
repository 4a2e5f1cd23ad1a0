"""The running Silas, composed: core, agents, services, cards, conversation; for every front."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from zoneinfo import ZoneInfo

from silas.app.agents import Agents, companion_gateway, open_agents
from silas.app.companions import CompanionServices, companion_jobs, open_companions
from silas.app.connections import connection_jobs, open_connections
from silas.app.context import (
    MemoryServices,
    context_jobs,
    memory_jobs,
    open_context,
    open_memory,
    open_personality,
    open_search,
    preference_policy,
)
from silas.app.conversation import Stream, TurnServices, open_places, open_stream
from silas.app.core import Core
from silas.app.gates import open_gates, prove_guards
from silas.app.jobs import Housekeeping, PeriodicJob, in_background
from silas.app.journal import open_journal
from silas.app.review import (
    open_batches,
    open_gate_questions,
    open_outcomes,
    open_proposals,
    open_questions,
    open_reviews,
    open_unasked,
    review_jobs,
)
from silas.app.skills import make_tool_servers, open_skills, skill_jobs
from silas.app.work import control_of
from silas.companions.conversation import CompanionWord
from silas.connections.service import ConnectionService
from silas.context.service import ContextService
from silas.gates.runner import load_gates
from silas.journal import Journal
from silas.journal.conversation import JournalConversation
from silas.mcp.service import ToolServerService
from silas.personality import PersonalityEngine
from silas.proactive.batches import Batches
from silas.proactive.outcomes import OutcomeFeed
from silas.queue import Consumer, QueueName, QueueStore
from silas.review.decisions import QuestionKind
from silas.review.questions import QuestionStore
from silas.skills.service import SkillService
from silas.storage.errors import translated
from silas.storage.files import make_private_directory
from silas.stream.cards import PlanCards
from silas.stream.cases import VisitorCases
from silas.stream.companions import CompanionDoor, word_message
from silas.stream.delivery import Deliveries, UserMessageStore
from silas.stream.learning import MemoryCards
from silas.stream.places import OpenedPlaces
from silas.stream.ports import Live
from silas.stream.proposed_work import ProposedWork
from silas.stream.review_service import ReviewService
from silas.stream.search import Search
from silas.stream.skills import SkillOffers
from silas.stream.turn_context import AskSecret, VaultDoor, no_page
from silas.stream.visitors import VisitorStore, is_known_visitor
from silas.web.pending_secrets import PendingSecrets
from silas.work.ports import Approver
from silas.work.skill_drafts import SkillDrafts

HearCompanion = Callable[[str, str, str], None]
"""Hears an answer grow: of which companion, in which run, and all of its text so far."""
_DELIVERIES_KEPT = timedelta(days=90)
_LEARN_EVERY = timedelta(minutes=15)
_AT_ONCE = 32
"""Deliveries; those of one conversation come one after the other."""


@dataclass(frozen=True)
class Runtime:
    """A running Silas, as fronts talk to it; each object is built once, in `open_runtime`."""

    core: Core
    stream: Stream
    cards: PlanCards
    deliveries: Deliveries
    journal: Journal
    companions: CompanionServices
    reviews: ReviewService
    batches: Batches
    agents: Agents
    personality: PersonalityEngine | None
    cases: VisitorCases
    places: OpenedPlaces
    skills: SkillService
    tool_servers: ToolServerService
    proposals: ProposedWork
    connections: ConnectionService
    secrets: PendingSecrets
    """Secrets that the owner is asked to type."""
    search: Search
    memory: MemoryServices
    outcomes: OutcomeFeed

    async def warm_up(self) -> None:
        """Do now what the first message would wait for."""
        if self.agents.ready is not None:
            await self.agents.ready()
        await asyncio.to_thread(prove_guards, self.core.settings)


@contextlib.asynccontextmanager
async def open_runtime(
    core: Core,
    *,
    environ: Mapping[str, str],
    home: Path,
    approver: Approver | None = None,
    live: Live | None = None,
    is_watched: Callable[[], bool] = lambda: False,
    agents: Agents | None = None,
    ask_secret: AskSecret = no_page,
    hear_companion: HearCompanion | None = None,
) -> AsyncIterator[Runtime]:
    """Everything, running; at the end of the block it is taken down, and nothing is lost.

    If a gate of the configuration could not do its work, nothing is started. `agents` are
    instead of those of the settings; `is_watched` says whether a page is open; `ask_secret` has a
    secret of this name, called so, typed on a page; `hear_companion` hears the answers of
    companions grow.
    """
    _make_workspace(core)
    cards, deliveries = open_cards(core), Deliveries(core.database, core.clock)
    questions = open_questions(core, core.queue)
    reviews = open_reviews(core, cards, questions)
    async with (
        open_memory(core) as memory,
        _given(agents) if agents else open_agents(core, environ=environ, home=home) as thinking,
        open_journal(core) as journal,
    ):
        gates = open_gates(core, model=thinking.gate)
        await load_gates(core.settings.gates.system, gates.providers)
        personality = open_personality(core)
        context = open_context(core, memory=memory, scorer=thinking.scorer, exact=thinking.tokens)
        learning = _learning(
            core, memory, questions, cards, context=context, personality=personality
        )
        reviews.on_answer(QuestionKind.MEMORY, learning.answered)
        batches = open_batches(core, questions, reviews, thinking.reader)
        reviews.on_answer(QuestionKind.GRANT, reviews.grants.answered)
        cases = _visitor_cases(core, questions, deliveries, cards=cards, context=context)
        reviews.on_answer(QuestionKind.VISITOR, cases.answered)
        places = open_places(core, questions)
        skills = await open_skills(core, questions)
        reviews.on_answer(QuestionKind.SKILL, skills.installer.answered)
        reviews.on_answer(QuestionKind.SKILL_SOURCE, skills.fetch_answered)
        servers = make_tool_servers(core, skills)
        reviews.on_answer(QuestionKind.TOOL_SERVER, servers.answered)
        proposals = open_proposals(core, questions)
        secrets = PendingSecrets(core.vault, core.database, core.clock)
        services = TurnServices(
            memory=memory.service,
            journal=_spoken(core, journal),
            context=context,
            personality=personality,
            reviews=cards,
            proactive=reviews,
            batches=batches,
            gate_approver=open_gate_questions(core, questions, is_watched),
            approver=approver,
            live=live,
            is_known=is_known_visitor,
            visitors=cases.visitors,
            cases=cases,
            places=places,
            vault=VaultDoor(core.vault.list, ask_secret),
            spoken_to=(door := CompanionDoor()).answer,
        )
        async with (
            open_connections(core, questions, reviews, secrets) as connections,
            open_stream(core, thinking, services=services, gates=gates) as stream,
            open_companions(
                core,
                journal,
                queue=core.queue,
                questions=questions,
                environ=environ,
                gates=gates,
                models=companion_gateway(core, environ=environ, heard=hear_companion),
                tell=partial(_tell_word, core),
                memory=memory,
            ) as companions,
            in_background(_channel(core.queue, deliveries).run()),
        ):
            drafts = SkillDrafts(core.work.items, core.work.attempts, core.work.ledger)
            batches.attach(stream.work.context)
            reviews.attach(stream.turns, SkillOffers(skills, drafts))
            skills.installer.changed.append(
                partial(stream.clockwork.ask_again_about, control_of(core))
            )
            reviews.on_answer(QuestionKind.COMPANION, companions.answered)
            door.attach(companions.service)
            runtime = Runtime(
                core=core,
                stream=stream,
                cards=cards,
                deliveries=deliveries,
                journal=journal,
                companions=companions,
                reviews=reviews,
                batches=batches,
                agents=thinking,
                personality=personality,
                cases=cases,
                places=places,
                skills=skills,
                tool_servers=servers,
                proposals=ProposedWork(proposals, stream.turns, stream.work.context, cards),
                connections=connections,
                secrets=secrets,
                search=open_search(core, memory, drop_context=context.drop),
                memory=memory,
                outcomes=open_outcomes(core, cards, questions),
            )
            jobs = _jobs(runtime, memory)
            if core.settings.behavior_preferences.enabled:
                jobs.append(PeriodicJob("learn from decisions", _LEARN_EVERY, learning.look))
            async with in_background(Housekeeping(jobs, clock=core.clock).run()):
                yield runtime


async def _tell_word(core: Core, word: CompanionWord) -> None:
    """Put a companion's word on its way, if it has one; the conversation with it has it anyway."""
    if word.is_told:
        owner_id = core.settings.owner_id
        await core.queue.enqueue(word_message(word, owner_id=owner_id, clock=core.clock))


def _learning(
    core: Core,
    memory: MemoryServices,
    questions: QuestionStore,
    cards: PlanCards,
    *,
    context: ContextService,
    personality: PersonalityEngine | None,
) -> MemoryCards:
    return MemoryCards(
        memory.memories,
        core.settings.owner_id,
        cards=cards,
        questions=questions,
        unasked=open_unasked(core, questions),
        items=core.work.items,
        decisions=core.decisions,
        audit=core.audit,
        clock=core.clock,
        ids=core.ids,
        policy=preference_policy(core.settings),
        promoted=context.pin_defaults,
        personality=personality,
    )


def _visitor_cases(
    core: Core,
    questions: QuestionStore,
    deliveries: Deliveries,
    *,
    cards: PlanCards,
    context: ContextService,
) -> VisitorCases:
    clock, ids = core.clock, core.ids
    return VisitorCases(
        core.database,
        VisitorStore(core.database, clock, ids, core.audit),
        questions=questions,
        said=UserMessageStore(core.database, clock),
        deliveries=deliveries,
        queue=core.queue,
        conversations=core.conversations,
        audit=core.audit,
        clock=clock,
        ids=ids,
        owner_id=core.settings.owner_id,
        cards=cards,
        control=control_of(core),
        context=context,
    )


def open_cards(core: Core) -> PlanCards:
    """The cards of this data directory."""
    return PlanCards(
        core.database,
        core.queue,
        decisions=core.decisions,
        items=core.work.items,
        effect_of=core.tools.effect_of,
        origins=core.work.origins,
        keys=core.keys,
        audit=core.audit,
        clock=core.clock,
    )


def _channel(queue: QueueStore, deliveries: Deliveries) -> Consumer:
    """What brings answers of other processes from the bus to where fronts find them.

    Those of this process are written there at once.
    """
    queue.deliver_directly(QueueName.CHANNEL, deliveries.write, tell=deliveries.tell)
    return Consumer(
        name="channel",
        queue=QueueName.CHANNEL,
        handler=deliveries,
        store=queue,
        concurrency=_AT_ONCE,
    )


def _spoken(core: Core, journal: Journal) -> JournalConversation:
    zone = ZoneInfo(core.settings.scheduler.timezone)
    return JournalConversation(journal, clock=core.clock, zone=zone)


def _make_workspace(core: Core) -> None:
    directory = core.settings.planner.workspace_dir
    if directory is not None:
        with translated(str(directory)):
            make_private_directory(directory)


def _jobs(runtime: Runtime, memory: MemoryServices) -> list[PeriodicJob]:
    """What a runtime does again and again besides the conversation."""

    async def prune_deliveries() -> None:
        await runtime.deliveries.prune(_DELIVERIES_KEPT)

    return [
        PeriodicJob("decline expired cards", timedelta(minutes=1), runtime.cards.decline_expired),
        *review_jobs(runtime.core, runtime.reviews, runtime.outcomes),
        PeriodicJob("end visits", timedelta(minutes=1), runtime.cases.end_expired),
        *skill_jobs(runtime.skills, runtime.tool_servers),
        *connection_jobs(runtime.connections),
        PeriodicJob("prune deliveries", timedelta(hours=1), prune_deliveries),
        PeriodicJob("prune attachments", timedelta(hours=1), runtime.core.attachments.prune),
        *companion_jobs(runtime.companions, runtime.core.settings.companions),
        *context_jobs(runtime.core),
        *memory_jobs(runtime.core, memory),
    ]


@contextlib.asynccontextmanager
async def _given(agents: Agents) -> AsyncIterator[Agents]:
    yield agents
