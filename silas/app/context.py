"""The context room, wired: contexts in memory, their chronicle on the disk."""

import contextlib
import logging
from collections.abc import Sequence
from datetime import timedelta

from silas.app.context_room import Contexts
from silas.app.ground import Ground, OnDemandVault
from silas.app.housekeeping import PeriodicJob
from silas.app.memory import MemoryRoom
from silas.app.ongoing import ongoing_work
from silas.app.settings import Settings
from silas.context.archive import FileArchive
from silas.context.chronicle import ChronicleStore
from silas.context.files import AllowedDirectory, WatchedFiles
from silas.context.following import WorkFollower
from silas.context.manager import ContextManager
from silas.context.models import ContextProfile, TokenBudget
from silas.context.ports import ExactTokens, Recall, Scorer, TokenCounter
from silas.context.rehydration import Rehydration
from silas.context.sessions import SessionStore
from silas.kernel.redaction import Redactor
from silas.memory.errors import MemoryExists, MemoryInvalid
from silas.memory.models import MemoryItem, MemoryQuery
from silas.memory.preferences import verified_preferences

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


class Kept:
    """`Recall`: what leaves a context goes into the memory of its scope."""

    def __init__(self, memory: MemoryRoom) -> None:
        self._memory = memory

    async def keep(self, scope_id: str, items: Sequence[MemoryItem]) -> None:
        """Keep what is not known yet; what no memory could hold is left out."""
        store = self._memory.memories.of(scope_id)
        for item in items:
            try:
                with contextlib.suppress(MemoryExists):
                    await store.store(item)
            except MemoryInvalid as error:
                _log.warning("%s is not remembered: %s", item.memory_id, error.message)

    async def retrieve(self, query: MemoryQuery, scope_id: str) -> list[MemoryItem]:
        """What is remembered in this scope, best first."""
        return await self._memory.retriever.retrieve(query, scope_id)

    async def defaults(self, scope_id: str) -> list[MemoryItem]:
        """The preferences that the owner has confirmed."""
        return await verified_preferences(self._memory.memories, scope_id)


class Secrets:
    """Takes secrets out of text; those that the vault gave out in this process are known."""

    def __init__(self, vault: OnDemandVault) -> None:
        self._vault = vault
        self._seen: frozenset[str] = frozenset()
        self._redactor = Redactor()

    def __call__(self, text: str) -> str:
        seen = self._vault.seen()
        if seen is not self._seen:
            self._seen, self._redactor = seen, Redactor(seen)
        return self._redactor.text(text)


def open_context(
    ground: Ground,
    *,
    memory: MemoryRoom | None = None,
    scorer: Scorer | None = None,
    counter: TokenCounter | None = None,
    exact: ExactTokens | None = None,
) -> Contexts:
    """The contexts of this ground floor.

    Without `memory`, what leaves a context is in the chronicle only. Without `scorer`, the rules
    alone decide what leaves. `counter` estimates what a text costs, `exact` is asked once a turn.
    """
    recall: Recall | None = Kept(memory) if memory else None
    redact = Secrets(ground.vault)
    manager = ContextManager(
        token_budget(ground.settings),
        clock=ground.clock,
        counter=counter,
        exact=exact,
        recall=recall,
        scorer=scorer,
        files=_files(ground.settings),
        redact=redact,
    )
    chronicle = ChronicleStore(ground.database)
    return Contexts(
        manager,
        chronicle,
        sessions=SessionStore(ground.database, clock=ground.clock, ids=ground.ids),
        rehydration=Rehydration(
            manager,
            chronicle,
            clock=ground.clock,
            recall=recall,
            max_entries=ground.settings.rehydration.max_chronicle_entries,
        ),
        follower=WorkFollower(manager, ongoing_work(ground), clock=ground.clock),
        audit=ground.audit,
        clock=ground.clock,
        redact=redact,
        session_idle=timedelta(minutes=ground.settings.context.session_idle_minutes),
    )


def context_jobs(ground: Ground) -> list[PeriodicJob]:
    """What is done again and again: what was said long ago moves to the archive."""
    sink = FileArchive(ground.paths.archive, clock=ground.clock)
    chronicle = ChronicleStore(ground.database, sink=sink)
    sessions = SessionStore(ground.database, clock=ground.clock, ids=ground.ids)

    async def retain() -> None:
        before = ground.clock.now() - timedelta(days=ground.settings.context.chronicle_days)
        await chronicle.prune_before(before)
        await sessions.prune_before(before)

    async def end_idle() -> None:
        idle = timedelta(minutes=ground.settings.context.session_idle_minutes)
        await sessions.end_idle(ground.clock.now() - idle)

    return [
        PeriodicJob("archive the chronicle", timedelta(days=1), retain),
        PeriodicJob("end idle sessions", timedelta(minutes=5), end_idle),
    ]


def _files(settings: Settings) -> WatchedFiles:
    planner = settings.planner
    folders = (planner.workspace_dir, planner.research_dir)
    return WatchedFiles(AllowedDirectory(folder) for folder in folders if folder is not None)
