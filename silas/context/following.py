"""Keeping a context in step with the work of its conversation.

1. The files of work that goes on are watched: those that its plan names, and those that it has read
   or written. The same happens after a restart, so nothing about it has to be stored.
2. A file that went to sleep meanwhile (nobody spoke of it) stays asleep.
3. When the work has ended, its files are watched no more, and its plan may leave.
"""

import hashlib
import logging

from silas.context.errors import SubscriptionRefused
from silas.context.manager import ContextManager
from silas.context.models import (
    ContextKind,
    ContextSubscription,
    ContextZone,
    SubscriptionType,
)
from silas.context.ports import OngoingWork, WorkFile
from silas.kernel import Clock

_log = logging.getLogger(__name__)
PLAN_ID = "plan_"
"""What the ids of items begin with that are plans; the id of the work follows."""


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
