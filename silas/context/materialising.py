"""What subscriptions show: files and queries, read when a context is rendered.

A file is read once in a turn. A query is asked every time, for the memory may have changed. What
is the same as before leaves its block untouched.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable

from silas.context.errors import SubscriptionRefused
from silas.context.eviction import put_to_sleep
from silas.context.files import WatchedFiles
from silas.context.models import ContextItem, ContextKind, SubscriptionType, TokenBudget
from silas.context.ports import Recall
from silas.context.scope import ScopeContext, Watched
from silas.context.subscriptions import lines_of, path_of
from silas.kernel import Clock, TaintLevel, join_taint
from silas.memory.models import MemoryQuery

_log = logging.getLogger(__name__)
MEMORY_ID = "mem_"
"""What the ids of items begin with that came from memory."""


class Materialiser:
    """Brings the blocks of subscriptions up to date."""

    def __init__(
        self,
        files: WatchedFiles,
        recall: Recall | None,
        *,
        budget: TokenBudget,
        clock: Clock,
        redact: Callable[[str], str],
    ) -> None:
        self._files = files
        self._recall = recall
        self._budget = budget
        self._clock = clock
        self._redact = redact

    async def refresh(self, scope: ScopeContext, turn_number: int) -> None:
        """Read what is watched; what cannot be shown is put to sleep."""
        for sub_id, watched in list(scope.watched.items()):
            if not watched.sub.active or watched.read_in == turn_number:
                continue
            try:
                content, taint = await self._read(scope, watched)
            except SubscriptionRefused as refused:
                self._sleeps(scope, sub_id, refused.message)
                continue
            # While it was read, it may have been ended or merged.
            if scope.watched.get(sub_id) is watched and watched.sub.active:
                self._show(scope, watched, content, taint=taint, turn_number=turn_number)

    async def _read(self, scope: ScopeContext, watched: Watched) -> tuple[str, TaintLevel]:
        sub = watched.sub
        if sub.sub_type is SubscriptionType.MEMORY_QUERY:
            return await self._query(scope, sub.target)
        # The path is resolved anew: a link may point elsewhere by now.
        located = self._files.locate(path_of(sub))
        text = await asyncio.to_thread(self._files.read, located)
        if sub.sub_type is SubscriptionType.FILE_LINES:
            lines = lines_of(sub.target)
            text = "\n".join(text.split("\n")[lines.first - 1 : lines.last])
        return text, located.directory.taint

    async def _query(self, scope: ScopeContext, words: str) -> tuple[str, TaintLevel]:
        if self._recall is None:
            raise SubscriptionRefused("There is no memory to ask.")
        query = MemoryQuery(query=words, max_tokens=self._budget.max_subscription_tokens)
        found = [
            item
            for item in await self._recall.retrieve(query, scope.scope_id)
            if item.scope_id == scope.scope_id and not scope.has(f"{MEMORY_ID}{item.memory_id}")
        ]
        taint = join_taint(TaintLevel.OWNER, *(item.taint for item in found))
        return "\n".join(item.content for item in found), taint

    def _show(
        self,
        scope: ScopeContext,
        watched: Watched,
        content: str,
        *,
        taint: TaintLevel,
        turn_number: int,
    ) -> None:
        sub = watched.sub
        content = self._redact(content)
        digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
        self._note_change(watched, digest, turn_number)
        old = scope.get(sub.sub_id)
        item = ContextItem(
            ctx_id=sub.sub_id,
            zone=sub.zone,
            content=content,
            created_at=old.item.created_at if old else self._clock.now(),
            turn_number=sub.turn_created,
            source=f"{sub.sub_type.value}:{sub.target}",
            taint=taint,
            kind=ContextKind.SUBSCRIPTION,
        )
        if not content and sub.sub_type is SubscriptionType.MEMORY_QUERY:
            scope.take(sub.sub_id)  # all that it finds is shown elsewhere, or there is nothing yet
            return
        block = scope.made(item, status=_status(watched))
        if block.tokens > self._budget.max_subscription_tokens:
            self._sleeps(scope, sub.sub_id, f"it has {block.tokens} tokens, too many")
            return
        if old is None or old.text != block.text or old.item.taint is not taint:
            scope.put(block)
        watched.sub = watched.sub.model_copy(update={"token_count": block.tokens})
        if sub.sub_type is not SubscriptionType.MEMORY_QUERY:
            watched.read_in = turn_number

    @staticmethod
    def _note_change(watched: Watched, digest: str, turn_number: int) -> None:
        known = watched.sub.content_hash
        if not known:
            watched.changed_in = turn_number
        elif digest == known:
            watched.stale_since = None
            return
        elif watched.sub.sub_type is SubscriptionType.FILE_LINES:
            # The lines may have moved: what was meant stays the measure, and the reader is warned.
            if watched.stale_since is None:
                watched.stale_since = watched.changed_in
            return
        else:
            watched.changed_in = turn_number
        watched.sub = watched.sub.model_copy(update={"content_hash": digest})

    @staticmethod
    def _sleeps(scope: ScopeContext, sub_id: str, why: str) -> None:
        if sub_id in scope.watched:
            put_to_sleep(scope, sub_id)
            _log.warning("subscription %s is not shown any more: %s", sub_id, why)


def _status(watched: Watched) -> str:
    if watched.stale_since is not None:
        return f"[stale — file changed since turn {watched.stale_since}]"
    return f"live | last_changed: turn {watched.changed_in}"
