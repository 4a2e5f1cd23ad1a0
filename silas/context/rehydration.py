"""What a context is filled with besides what is said in it now.

`Rehydration` brings a conversation back: what was said last, and who the owner is. It happens when
a scope is first heard of, not at the start for all: a conversation that nobody continues costs
nothing. `WorkFollower` keeps a context in step with the work of its conversation:

1. The files of work that goes on are watched: those that its plan names, and those that it has read
   or written. The same happens after a restart, so nothing about it has to be stored.
2. A file that went to sleep meanwhile (nobody spoke of it) stays asleep.
3. When the work has ended, its files are watched no more, and its plan may leave.
4. What was planned last is there again after a restart, by its id, with what came of it: the next
   request may go on from it.
"""

import hashlib
import logging

from silas.context.chronicle import ChronicleStore
from silas.context.manager import ContextManager
from silas.context.models import (
    ContextItem,
    ContextKind,
    ContextSubscription,
    ContextZone,
    OngoingWork,
    SubscriptionRefused,
    SubscriptionType,
    WorkFile,
    ZoneFull,
)
from silas.context.subscriptions import MEMORY_ID, source_of_memory
from silas.kernel import Clock, SilasError, TaintLevel
from silas.kernel.ids import person_of
from silas.memory.models import MemoryItem, MemoryQuery, MemoryType, TrustLevel
from silas.memory.service import MemoryService
from silas.memory.trust import WORDED, is_model_worded

_log = logging.getLogger(__name__)
_PROFILE = "user profile preferences"
_NOTE = "[SYSTEM] Session rehydrated after restart."
_OWN = frozenset({MemoryType.PROFILE, MemoryType.PREFERENCE})


def memory_item(
    item: MemoryItem, *, turn_number: int, relevance: float, pinned: bool = False
) -> ContextItem:
    """A memory as an item of the memory zone."""
    return ContextItem(
        ctx_id=f"{MEMORY_ID}{item.memory_id}",
        zone=ContextZone.MEMORY,
        content=item.content,
        created_at=item.created_at,
        turn_number=turn_number,
        source=f"memory:{item.memory_type.value}{f', {WORDED}' if is_model_worded(item) else ''}",
        taint=item.taint,
        sources=(source_of_memory(item),) if item.taint is TaintLevel.EXTERNAL else (),
        kind=ContextKind.MEMORY,
        relevance=relevance,
        pinned=pinned,
    )


class Rehydration:
    """Fills the context of a scope from what is kept."""

    def __init__(
        self,
        manager: ContextManager,
        chronicle: ChronicleStore,
        *,
        clock: Clock,
        recall: MemoryService | None = None,
        max_entries: int = 50,
    ) -> None:
        self._manager = manager
        self._chronicle = chronicle
        self._clock = clock
        self._recall = recall
        self._max_entries = max_entries

    async def restore(self, scope_id: str) -> int:
        """Load what was said last; returns the place in the chronicle up to which it is there."""
        entries, end = await self._chronicle.recent_and_end(scope_id, self._max_entries)
        profile = await self._profile(scope_id)
        for item in entries:
            self._manager.add(scope_id, item)
        turn_number = entries[-1].turn_number if entries else 0
        for known in profile:
            self._pin(scope_id, memory_item(known, turn_number=turn_number, relevance=1.0))
        if entries:
            self._manager.add(scope_id, self._note(turn_number, end))
        return end

    async def _profile(self, scope_id: str) -> list[MemoryItem]:
        if self._recall is None:
            return []
        person = person_of(scope_id)
        try:
            found = await self._recall.retrieve(MemoryQuery(query=_PROFILE), person)
            found += await self._recall.defaults(person)
        except SilasError as error:
            _log.warning("the profile is not remembered now: %s", error.message)
            return []
        # Only the owner's own words about the owner stay for good, and what they have confirmed.
        return [
            item
            for item in found
            if item.scope_id == person
            and item.memory_type in _OWN
            and (item.taint is TaintLevel.OWNER or item.trust_level is not TrustLevel.WORKING)
        ]

    async def pin_defaults(self, scope_id: str) -> None:
        """Show what the owner has confirmed meanwhile."""
        for known in await self._profile(scope_id):
            self._pin(scope_id, memory_item(known, turn_number=0, relevance=1.0))

    def _pin(self, scope_id: str, item: ContextItem) -> None:
        try:
            self._manager.add(scope_id, item.model_copy(update={"pinned": True}))
        except ZoneFull:
            self._manager.add(scope_id, item)

    def _note(self, turn_number: int, end: int) -> ContextItem:
        return ContextItem(
            ctx_id=f"rehydrated_{end}",
            zone=ContextZone.CHRONICLE,
            content=_NOTE,
            created_at=self._clock.now(),
            turn_number=turn_number,
            source="runtime",
            taint=TaintLevel.OWNER,
            kind=ContextKind.SYSTEM,
        )


PLAN_ID = "plan_"
"""What the ids of items begin with that are plans; the id of the work follows."""
RESULT_ID = "result_"
"""The same for what came of work."""


class WorkFollower:
    """Follows the work of every conversation. Without `work`, there is none."""

    def __init__(self, manager: ContextManager, work: OngoingWork | None, *, clock: Clock) -> None:
        self._manager = manager
        self._work = work
        self._clock = clock
        self._watching: dict[str, dict[WorkFile, str]] = {}

    def forget(self, scope_id: str) -> None:
        """This context begins anew: nothing of it is watched yet."""
        self._watching.pop(scope_id, None)

    async def bring_back(self, scope_id: str) -> None:
        """Put the last plans of this context back (4), the newest last and pinned if it goes on."""
        if self._work is None:
            return
        for number, planned in enumerate(reversed(await self._work.planned(scope_id)), 1):
            plan = ContextItem(
                ctx_id=f"{PLAN_ID}{planned.work_item_id}",
                zone=ContextZone.WORKSPACE,
                content=planned.text,
                created_at=planned.created_at,
                turn_number=0,
                source=f"plan:{planned.work_item_id}",
                taint=planned.provenance.taint,
                sources=planned.provenance.sources,
                kind=ContextKind.PLAN,
                relevance=float(number),
            )
            self._manager.add(scope_id, plan)
            if planned.result:
                result = {
                    "ctx_id": f"{RESULT_ID}{planned.work_item_id}",
                    "content": planned.result,
                    "source": f"work:{planned.work_item_id}",
                    "kind": ContextKind.EXECUTION_RESULT,
                }
                self._manager.add(scope_id, plan.model_copy(update=result))
                self._manager.complete(scope_id, plan.ctx_id)

    async def follow(self, scope_id: str, turn_number: int) -> None:
        """Bring subscriptions and plans of this context up to date."""
        if self._work is None:
            return
        files = await self._work.files(scope_id)
        watching = self._watching.setdefault(scope_id, {})
        for file in [known for known in watching if known not in files]:
            sub_id = watching.pop(file)
            if sub_id and sub_id not in watching.values():
                self._manager.unsubscribe(scope_id, sub_id)
        for file in files:
            if file not in watching:
                watching[file] = self._watch(scope_id, file, turn_number)
        if not watching:
            del self._watching[scope_id]
        await self._finish_plans(scope_id, self._work)

    def _watch(self, scope_id: str, file: WorkFile, turn_number: int) -> str:
        """The id of the subscription; empty if the file cannot be watched."""
        name = hashlib.sha256(f"{file.work_item_id}\n{file.target}".encode()).hexdigest()[:16]
        lines = SubscriptionType.FILE_LINES
        sub = ContextSubscription(
            sub_id=f"sub_{name}",
            sub_type=lines if file.is_range else SubscriptionType.FILE,
            target=file.target,
            created_at=self._clock.now(),
            turn_created=turn_number,
        )
        try:
            return self._manager.subscribe(scope_id, sub)
        except SubscriptionRefused as refused:
            _log.info("a file of %s is not watched: %s", file.work_item_id, refused.message)
            return ""

    async def _finish_plans(self, scope_id: str, work: OngoingWork) -> None:
        plans = {
            item.ctx_id.removeprefix(PLAN_ID): item.ctx_id
            for item in self._manager.get_zone(scope_id, ContextZone.WORKSPACE)
            if item.kind is ContextKind.PLAN
            and not self._manager.is_complete(scope_id, item.ctx_id)
        }
        for work_item_id in await work.ended(list(plans)) if plans else ():
            self._manager.complete(scope_id, plans[work_item_id])
