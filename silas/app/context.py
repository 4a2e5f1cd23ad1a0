"""What a turn is told, wired: memory, context and personality of one data directory.

Memory has vectors if the extra `vector` is installed. Contexts are in memory, their chronicle on
the disk. The names of the settings become those of the packages.
"""

import importlib.util
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from silas.app.core import Core
from silas.app.jobs import PeriodicJob
from silas.context.chronicle import ChronicleStore, FileArchive
from silas.context.manager import ContextManager
from silas.context.models import (
    ContextProfile,
    ExactTokens,
    Scorer,
    TokenBudget,
    TokenCounter,
)
from silas.context.rehydration import Rehydration, WorkFollower
from silas.context.service import ContextService, SessionStore
from silas.context.subscriptions import WatchedFiles
from silas.memory.consolidator import ConsolidationPolicy, MemoryConsolidator
from silas.memory.curation import MemoryCuration, nobody_shows
from silas.memory.errors import EmbedderRefused
from silas.memory.forgetting import Forgetting, Selection
from silas.memory.intake import MemoryIntake
from silas.memory.models import Embedder, ReingestionTier
from silas.memory.preferences import PreferencePolicy
from silas.memory.service import MemoryRetriever, MemoryService, RawRecords
from silas.memory.store import MemoryStores
from silas.personality import (
    AxisProfile,
    EventWeights,
    MoodState,
    PersonalityConfig,
    PersonalityEngine,
    PersonaPreset,
    PersonaStore,
    VoiceConfig,
)
from silas.settings.conversation import PersonalitySettings, VoiceSettings
from silas.settings.models import Settings
from silas.stream.conversations import ConversationList
from silas.stream.delivery import UserMessageStore
from silas.stream.search import Search
from silas.stream.traces import ConversationTraces, ConversationWork

if TYPE_CHECKING:  # importing it needs the extra `vector`
    from silas.memory.vectors import VectorIndex

_SOON = timedelta(minutes=1)


@dataclass(frozen=True)
class MemoryServices:
    """What Silas remembers, and the ways to it."""

    memories: MemoryStores
    retriever: MemoryRetriever
    service: MemoryService
    index: "VectorIndex | None"


@asynccontextmanager
async def open_memory(core: Core, *, vectors: bool = True) -> AsyncIterator[MemoryServices]:
    """The memory of this data directory; what waits to be written is written at the end."""
    memories = MemoryStores(
        core.database,
        clock=core.clock,
        audit=core.audit,
        approvals=core.approvals,
        intake=MemoryIntake(core.vault.seen),
    )
    settings = core.settings.memory
    vectors = vectors and settings.embedding_model != "none"
    dimensions = settings.embedding_dim
    folder = core.paths.data_dir
    index = await open_index(folder, memories, dimensions=dimensions) if vectors else None
    try:
        retriever = MemoryRetriever(
            memories, vectors=index, zone=ZoneInfo(core.settings.scheduler.timezone)
        )
        raw = RawRecords(
            kept=settings.raw_reingestion_enabled,
            tier=ReingestionTier(settings.raw_reingestion_default_tier),
        )
        yield MemoryServices(
            memories,
            retriever,
            MemoryService(
                memories, retriever, raw=raw, preferences=preference_policy(core.settings)
            ),
            index,
        )
    finally:
        await memories.flush()
        if index is not None:
            await index.close()


def curation_of(
    core: Core, memory: MemoryServices, scope_id: str, context: ContextService | None = None
) -> MemoryCuration:
    """What is remembered in one scope, for its owner; `context` may show some of it right now."""
    return MemoryCuration(
        memory.memories,
        memory.retriever,
        scope_id,
        decisions=core.decisions,
        ids=core.ids,
        policy=preference_policy(core.settings),
        index=memory.index,
        traces=open_traces(core),
        changed=partial(context.drop_memories, scope_id) if context else nobody_shows,
    )


def preference_policy(settings: Settings) -> PreferencePolicy:
    """When what the owner does counts as a preference."""
    learning = settings.behavior_preferences
    return PreferencePolicy(
        most_a_day=learning.max_new_inferences_per_day,
        needs_confirmation=learning.promotion_requires_confirmation,
    )


def open_search(
    core: Core,
    memory: MemoryServices | None = None,
    *,
    drop_context: Callable[[str], None] = lambda _scope: None,
) -> Search:
    """The conversations of the owner, and what finds them again.

    Without `memory`, it is opened when something is to be forgotten.
    """
    owner, clock = core.settings.owner_id, core.clock
    conversations = ConversationList(
        core.database,
        owner_id=owner,
        said=UserMessageStore(core.database, clock),
        audit=core.audit,
        clock=clock,
        redact=core.redact,
        archive_files=FileArchive(core.paths.archive, clock=clock),
        forget=forget_memories(core, memory),
        drop_context=drop_context,
    )
    return Search(core.database, conversations, core.work.items, clean=core.redact)


def forget_memories(
    core: Core, memory: MemoryServices | None = None, *, traces: ConversationTraces | None = None
) -> Callable[[Sequence[str]], Awaitable[int]]:
    """What forgets memories of the owner's by their ids, and with `traces` what they came from.

    Without `memory`, it is opened when something is to be forgotten.
    """

    async def forget(memory_ids: Sequence[str]) -> int:
        async with AsyncExitStack() as stack:
            opened = memory
            if opened is None:
                opened = await stack.enter_async_context(open_memory(core))
            owner = core.settings.owner_id
            forgetting = Forgetting(opened.memories, owner, index=opened.index, traces=traces)
            return (await forgetting.forget(Selection(tuple(memory_ids)))).memories

    return forget


def open_traces(core: Core) -> ConversationTraces:
    """Where the conversations of this data directory have left their texts."""
    archive = FileArchive(core.paths.archive, clock=core.clock)
    return ConversationTraces(core.database, archive, clock=core.clock)


def memory_jobs(core: Core, memory: MemoryServices) -> list[PeriodicJob]:
    """What is done again and again for the memory: condense it, and keep its vectors up to date."""
    settings = core.settings.memory
    policy = ConsolidationPolicy(stale_after=timedelta(days=settings.stale_after_days))
    consolidator = MemoryConsolidator(memory.memories, index=memory.index, policy=policy)
    every = timedelta(minutes=settings.consolidation_interval_minutes)
    jobs = [PeriodicJob("condense the memory", every, consolidator.run_once)]
    if memory.index is not None:
        jobs.append(PeriodicJob("embed new memories", _SOON, memory.index.catch_up))
    return jobs


async def open_index(
    folder: Path, memories: MemoryStores, *, dimensions: int | None = None
) -> "VectorIndex | None":
    """The vectors in this folder, or None if the extra `vector` is not installed."""
    embedder = load_embedder()
    if embedder is None:
        return None
    if dimensions not in {None, embedder.dimensions}:
        raise EmbedderRefused(
            f"memory.embedding_dim is {dimensions}, but the vectors of the embedded model have "
            f"the length {embedder.dimensions}. Correct the setting."
        )
    # It needs packages of the extra, so it is imported where they are known to be there.
    from silas.memory.vectors import open_vectors  # noqa: PLC0415

    return await open_vectors(folder, memories, embedder=embedder)


@lru_cache(maxsize=1)
def load_embedder() -> Embedder | None:
    """The embedded model, or None if the extra `vector` is not installed."""
    if importlib.util.find_spec("onnxruntime") is None:
        return None
    try:  # it needs packages of the extra
        from silas.memory.minilm import MiniLm  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("silas"):
            raise
        return None
    return MiniLm()


_log = logging.getLogger(__name__)


def token_budget(settings: Settings) -> TokenBudget:
    """The budget that is configured."""
    context = settings.context
    return TokenBudget(
        total=context.total_tokens,
        system_max=context.system_max,
        skill_metadata_budget_pct=context.skill_metadata_budget_pct,
        eviction_threshold_pct=context.eviction_threshold_pct,
        scorer_threshold_pct=context.scorer_threshold_pct,
        max_subscription_tokens=context.max_subscription_tokens,
        subscription_ttl_turns=context.subscription_ttl_turns,
        observation_mask_after_turns=context.observation_mask_after_turns,
        profiles={
            name: ContextProfile(name=name, **shares.model_dump())
            for name, shares in context.profiles.items()
        },
        default_profile=context.default_profile,
    )


def open_context(
    core: Core,
    *,
    memory: MemoryServices | None = None,
    scorer: Scorer | None = None,
    counter: TokenCounter | None = None,
    exact: ExactTokens | None = None,
) -> ContextService:
    """The contexts of this data directory.

    Without `memory`, what leaves a context is in the chronicle only. Without `scorer`, the rules
    alone decide what leaves. `counter` estimates what a text costs, `exact` is asked once a turn.
    """
    recall: MemoryService | None = memory.service if memory else None
    redact = core.redact
    manager = ContextManager(
        token_budget(core.settings),
        clock=core.clock,
        counter=counter,
        exact=exact,
        recall=recall,
        scorer=scorer,
        files=_files(core),
        redact=redact,
    )
    chronicle = ChronicleStore(core.database)
    return ContextService(
        manager,
        chronicle,
        sessions=SessionStore(core.database, clock=core.clock, ids=core.ids),
        rehydration=Rehydration(
            manager,
            chronicle,
            clock=core.clock,
            recall=recall,
            max_entries=core.settings.rehydration.max_chronicle_entries,
        ),
        follower=WorkFollower(
            manager,
            ConversationWork(
                core.conversations,
                core.work.items,
                core.work.ledger,
                origins=core.work.origins,
            ),
            clock=core.clock,
        ),
        audit=core.audit,
        clock=core.clock,
        redact=redact,
        session_idle=timedelta(minutes=core.settings.context.session_idle_minutes),
    )


def context_jobs(core: Core) -> list[PeriodicJob]:
    """What is done again and again: what was said long ago moves to the archive."""
    sink = FileArchive(core.paths.archive, clock=core.clock)
    chronicle = ChronicleStore(core.database, sink=sink)
    sessions = SessionStore(core.database, clock=core.clock, ids=core.ids)

    async def retain() -> None:
        before = core.clock.now() - timedelta(days=core.settings.context.chronicle_days)
        await chronicle.prune_before(before)
        await sessions.prune_before(before)

    async def end_idle() -> None:
        idle = timedelta(minutes=core.settings.context.session_idle_minutes)
        await sessions.end_idle(core.clock.now() - idle)

    return [
        PeriodicJob("archive the chronicle", timedelta(days=1), retain),
        PeriodicJob("end idle sessions", timedelta(minutes=5), end_idle),
    ]


def _files(core: Core) -> WatchedFiles:
    planner = core.settings.planner
    folders = (planner.workspace_dir, planner.research_dir)
    return WatchedFiles(
        [folder for folder in folders if folder is not None], whose=core.work.origins.of_content
    )


def config_of(settings: PersonalitySettings) -> PersonalityConfig:
    """The personality that is configured."""
    return PersonalityConfig(
        baseline=AxisProfile(**settings.baseline.model_dump()),
        voice=_voice(settings.voice),
        contexts={name: dict(deltas) for name, deltas in settings.contexts.items()},
        context_words={name: list(words) for name, words in settings.context_words.items()},
        neutral=MoodState(**settings.mood.neutral.model_dump()),
        events={
            name: EventWeights(mood=dict(event.mood), axes=dict(event.axes))
            for name, event in settings.mood.event_weights.items()
        },
        presets={
            name: PersonaPreset(
                axes=dict(axes),
                voice=_voice(settings.preset_voices[name])
                if name in settings.preset_voices
                else None,
            )
            for name, axes in settings.presets.items()
        },
        decay_rate_per_hour=settings.decay_rate_per_hour,
        constitution=list(settings.constitution),
        directive_tokens_min=settings.directive_tokens_min,
        directive_tokens_max=settings.directive_tokens_max,
    )


def _voice(voice: VoiceSettings) -> VoiceConfig:
    return VoiceConfig(
        tone=voice.tone,
        quirks=list(voice.quirks),
        speech_patterns=list(voice.speech_patterns),
        anti_patterns=list(voice.anti_patterns),
    )


def open_personality(core: Core) -> PersonalityEngine | None:
    """The personality of this data directory; None if the owner wants none."""
    settings = core.settings.personality
    if not settings.enabled:
        return None
    store = PersonaStore(core.database, clock=core.clock)
    return PersonalityEngine(store, config_of(settings), clock=core.clock, ids=core.ids)
