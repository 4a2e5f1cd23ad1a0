"""Compaction: which span of a log is due, and how it becomes a summary beside it.

1. A thread that has ended becomes one summary whole. One that goes on keeps its newest messages.
   When there are many summaries, the oldest of them become one. A thread has one open job at a
   time.
2. A job is done by a model if there is one and the span is worth it, else by rules. When the model
   has failed often enough, or the policy does not let it be asked, rules take over.
3. The summary, its links, the pointer of the state and the end of the job are one transaction.
4. A summary has the id of its span and its contract. If it exists already with another content,
   the first stays, and the difference is written down.
5. A failure changes nothing but the job: it is tried again later, and not for ever.

By rules: who said what, which tools were used, what came of it; the same span always gives the same
summary. By the companion's own model: through the same door as everything it is asked, so the
owner's stop switches, budget, grants and allowlist hold here as well. Without a model that the
owner has chosen there is nobody to ask, and rules do it.
"""

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic import Field

from silas.companions.errors import AgentDestroyed, tool_code
from silas.companions.gateway import ModelDoor
from silas.companions.ids import compaction_job_id, digest, summary_id
from silas.companions.kinds.library import Definitions
from silas.companions.log import (
    MessageLog,
    Remembered,
    approximate_tokens,
    draw_link_in,
    higher_pointer,
    pointer_to,
    read_remembered,
    telling_words,
)
from silas.companions.messages import (
    AgentMessage,
    AgentMessageMetadata,
    CompactionJob,
    Diagnostic,
    PolicyDecisions,
)
from silas.companions.models import (
    AgentLinkRelation,
    AgentMessageKind,
    AgentState,
    CompactionStatus,
    Companion,
    JsonMap,
    WakeReason,
)
from silas.companions.ports import CallAllowance, CompanionRequest
from silas.companions.projection import SUMMARY_KEY, ProjectionPolicies, project
from silas.companions.store import CompanionStore
from silas.companions.words import spoken_tool
from silas.kernel import (
    CompanionError,
    DatabaseError,
    LlmError,
    SilasError,
    format_timestamp,
    parse_timestamp,
)
from silas.kernel.models import Data
from silas.storage import Reader, Transaction


@dataclass(frozen=True)
class SummaryRequest:
    """A span of the log, oldest first."""

    agent_id: str
    thread_id: str
    depth: int
    entries: tuple[Remembered, ...]


_SEQUENCE = "SELECT sequence FROM agent_messages WHERE id = ? AND deleted_at IS NULL"
_COLUMNS = """
SELECT m.body, p.body FROM agent_messages AS m
LEFT JOIN agent_message_payloads AS p ON p.id = m.content_entry_id AND p.deleted_at IS NULL
"""
_RAW = f"""{_COLUMNS}
WHERE m.agent_id = ? AND m.thread_id = ? AND m.summary_depth = 0
    AND m.sequence BETWEEN ? AND ? AND m.deleted_at IS NULL ORDER BY m.sequence
"""
_SUMMARIES = f"""{_COLUMNS}
WHERE m.agent_id = ? AND m.summary_depth = ?
    AND m.sequence BETWEEN ? AND ? AND m.deleted_at IS NULL ORDER BY m.sequence, m.id
"""


def read_span(reader: Reader, job: CompactionJob) -> tuple[Remembered, ...]:
    """The entries of a span, oldest first; raises if there is nothing left of it."""
    ends = [
        reader.fetch_one(_SEQUENCE, (each,)) for each in (job.start_message_id, job.end_message_id)
    ]
    if ends[0] is None or ends[1] is None:
        raise CompanionError("The messages that were to be summarised are gone.")
    between = (ends[0][0], ends[1][0])
    if job.depth == 1:
        rows = reader.fetch_all(_RAW, (job.agent_id, job.thread_id, *between))
    else:
        rows = reader.fetch_all(_SUMMARIES, (job.agent_id, job.depth - 1, *between))
    return tuple(read_remembered(rows))


def write_summary_in(
    tx: Transaction,
    store: CompanionStore,
    request: SummaryRequest,
    *,
    content: JsonMap,
    contract_version: str,
) -> AgentMessage:
    """The summary, its edges and the pointer to it; or the first one, if there is one already."""
    message = _summary(store, request, content, contract_version)
    summary = store.get_in(tx, AgentMessage, message.id)
    if summary is None:
        summary = MessageLog(store).keep_in(tx, message, content)
        _draw_edges(tx, store, summary)
    else:
        _note_difference(tx, store, summary, digest(content), content)
    _advance_pointer(tx, store, summary)
    return summary


def _summary(
    store: CompanionStore, request: SummaryRequest, content: JsonMap, contract_version: str
) -> AgentMessage:
    start, end = request.entries[0].message, request.entries[-1].message
    return AgentMessage(
        id=summary_id(
            request.agent_id,
            request.thread_id,
            start_message_id=start.id,
            end_message_id=end.id,
            depth=request.depth,
            contract_version=contract_version,
        ),
        agent_id=request.agent_id,
        thread_id=request.thread_id,
        kind=AgentMessageKind.SUMMARY,
        created_at=store.clock.now(),
        host_id=store.host_id,
        # It stands where its span ends.
        sequence=end.sequence,
        summary_start_message_id=start.id,
        summary_end_message_id=end.id,
        summary_depth=request.depth,
        tokens_approx=approximate_tokens(content),
        metadata=AgentMessageMetadata(
            summary_content_hash=digest(content), summary_contract_version=contract_version
        ),
    )


def _draw_edges(tx: Transaction, store: CompanionStore, summary: AgentMessage) -> None:
    for relation, to_id in (
        (AgentLinkRelation.SUMMARY_START, summary.summary_start_message_id),
        (AgentLinkRelation.SUMMARY_END, summary.summary_end_message_id),
    ):
        if to_id is not None:
            draw_link_in(
                tx,
                store,
                relation,
                agent_id=summary.agent_id,
                from_id=summary.id,
                to_id=to_id,
                now=summary.created_at,
                thread_id=summary.thread_id,
            )


def _advance_pointer(tx: Transaction, store: CompanionStore, summary: AgentMessage) -> None:
    companion = store.require_in(tx, Companion, summary.agent_id)
    state = store.require_in(tx, AgentState, companion.current_state_id)
    newest = higher_pointer(state.latest_summary, pointer_to(summary))
    if newest != state.latest_summary:
        store.put_in(tx, state.model_copy(update={"latest_summary": newest}))


def _note_difference(
    tx: Transaction,
    store: CompanionStore,
    known: AgentMessage,
    content_hash: str,
    content: JsonMap,
) -> None:
    if known.metadata.summary_content_hash == content_hash:
        return
    store.put_in(
        tx,
        Diagnostic(
            id=digest("summary_divergence", known.id, content_hash),
            agent_id=known.agent_id,
            kind="summary_divergence",
            subject_id=known.id,
            detail={
                "kept": known.metadata.summary_content_hash,
                "refused": content_hash,
                "content": content,
            },
            created_at=store.clock.now(),
        ),
    )


CONTRACT_VERSION = "rules-2"
_MOST_LINES = 18
_MOST_CHARS = 140
_MOST_LINE = 320
_SPOKEN = ("text", "message", "event", "question")


def summarise_by_rules(request: SummaryRequest) -> JsonMap:
    """The content of a summary, within a few thousand characters."""
    entries = request.entries
    lines = [line for each in entries if (line := line_of(each))]
    left_out = max(0, len(lines) - _MOST_LINES)
    if left_out:
        # The beginning says what it was about, the end what came of it.
        first = _MOST_LINES // 3
        lines = [*lines[:first], f"({left_out} more)", *lines[left_out + first :]]
    changed = {entity for each in entries for entity in each.message.metadata.changed_entity_ids}
    return {
        "text": "\n".join(lines),
        "messages": len(entries),
        "kinds": dict(sorted(Counter(str(each.message.kind) for each in entries).items())),
        "changed_entity_ids": sorted(changed)[:_MOST_LINES],
    }


def line_of(entry: Remembered) -> str | None:
    """An entry in one line: what, which record, why and how it ended; None if it says nothing.

    What the owner decided is said as the owner's, and nothing else is.
    """
    message, content = entry.message, entry.content or {}
    if message.kind is AgentMessageKind.ACTION:
        return _cut(_action_line(entry, content))
    if message.kind is AgentMessageKind.TOOL_RESULT:
        return _cut(_result_line(entry, content))
    if message.kind is AgentMessageKind.OBSERVATION and "reason" in content:
        woken = WOKEN_BY.get(str(content["reason"]), str(content["reason"]))
        return f"woken: {woken}"
    who = _WHO.get(message.kind, str(message.kind))
    spoken = _spoken(entry.content)
    return f"{who}: {spoken}" if spoken else None


WOKEN_BY = {
    "subscription": "something changed",
    "timer": "its time",
    "manual": "by the owner",
    "recovery_catchup": "to catch up",
}
_WHO = {
    AgentMessageKind.USER: "the owner said",
    AgentMessageKind.THOUGHT: "it said",
    AgentMessageKind.SYSTEM: "the end",
}
_DECIDED = {"done": "the owner approved", "declined": "the owner said no to"}


def _action_line(entry: Remembered, content: JsonMap) -> str:
    metadata, arguments = entry.message.metadata, content.get("arguments") or {}
    asked = arguments.get("prompt_text")
    if asked:
        return f"it asked the owner: {asked}"
    what = spoken_tool(str(metadata.tool_name or metadata.action_type or "something"))
    about = next((str(arguments[name]) for name in _NAMES if arguments.get(name)), "")
    named = f" “{about}”" if about else ""
    reason = str(content.get("reason") or "")
    return f"it wanted to {what}{named}{f', because: {reason}' if reason else ''}"


def _result_line(entry: Remembered, content: JsonMap) -> str:
    metadata = entry.message.metadata
    what = spoken_tool(str(metadata.tool_name or "it"))
    ended = "done" if metadata.error_code is None else _ENDED.get(metadata.error_code, "")
    ended = ended or f"not done ({str(metadata.error_code).replace('_', ' ')})"
    decided = _DECIDED.get(str(content.get("decided", "")))
    if decided is None:
        return f"{what}: {ended}"
    changes = "; ".join(map(str, content.get("changes", ())))
    reason = f", because: {content['reason']}" if content.get("reason") else ""
    return f"{decided}: {what}{f' ({changes})' if changes else ''}{reason}"


_NAMES = ("title", "new_task_title", "reference", "name", "description", "due_at", "plan_date")
_ENDED = {
    "confirmation_required": "it waits for the owner's decision",
    "answer_required": "it waits for the owner's answer",
    "already_asked": "the owner was asked before",
}


def _cut(line: str) -> str:
    flat = " ".join(line.split())
    return flat if len(flat) <= _MOST_LINE else f"{flat[: _MOST_LINE - 1]}…"


def supported(text: str, entries: Sequence[Remembered]) -> tuple[str, list[str]]:
    """A model's summary without what it lets the owner have said; and what was left out.

    A sentence about what the owner said, wants or decided stays only if most of its telling words
    stand in what the owner did say, answer or decide in this span.
    """
    owners = " ".join(line for each in entries if _is_owners(each) and (line := line_of(each)))
    known = set(telling_words(owners))
    kept: list[str] = []
    refused: list[str] = []
    for sentence in _SENTENCES.split(text.strip()):
        words = [each for each in telling_words(sentence) if each not in _OWNER_WORDS]
        claims = _OWNER.search(sentence) is not None and _CLAIMS.search(sentence) is not None
        fits = sum(each in known for each in words) >= _SUPPORT * len(words)
        (refused if claims and not fits else kept).append(sentence)
    return " ".join(kept).strip(), refused


def _is_owners(entry: Remembered) -> bool:
    decided = bool((entry.content or {}).get("decided"))
    return entry.message.kind is AgentMessageKind.USER or decided


_SENTENCES = re.compile(r"(?<=[.!?])\s+|\n+")
_OWNER = re.compile(r"\b(?:owner|user|you|they)\b", re.IGNORECASE)
_CLAIMS = re.compile(
    r"\b(?:sa(?:id|ys)|agree[sd]?|approve[sd]?|allow(?:s|ed)?|want(?:s|ed)?|prefer(?:s|red)?|"
    r"ask(?:s|ed)|decide[sd]?|promise[sd]?|told|consent(?:s|ed)?|confirm(?:s|ed)?|grant(?:s|ed)?)\b",
    re.IGNORECASE,
)
_OWNER_WORDS = frozenset(
    {"owner", "user", "said", "says", "agree", "approv", "allow", "want", "prefer", "ask", "decid"}
)
_SUPPORT = 0.6


def _spoken(content: JsonMap | None) -> str | None:
    texts = (content or {}).get(next((name for name in _SPOKEN if name in (content or {})), ""))
    if not isinstance(texts, str) or not texts.strip():
        return None
    line = " ".join(texts.split())
    return line if len(line) <= _MOST_CHARS else f"{line[: _MOST_CHARS - 1]}…"


PROMPT_ID = "companion.summary"
PROMPT_VERSION = "1"
_ASKED = (
    "Put what is in your memory below into `thought`: at most ten sentences that you will need "
    "later. Keep names, numbers, promises and what the owner prefers; leave out what is over. "
    "Propose no actions and no report."
)
_SET_AT_THE_DOOR = CallAllowance(tokens=0, cost_usd=0.0, seconds=0.0)


class ModelSummariser:
    """Puts a span into fewer words by asking the companion's model."""

    def __init__(self, store: CompanionStore, door: ModelDoor) -> None:
        self._store = store
        self._door = door
        self._definitions = Definitions(store)
        self._projections = ProjectionPolicies(store)

    @property
    def contract_version(self) -> str:
        """Names the prompt: another prompt makes other summaries."""
        return f"{PROMPT_ID}-{PROMPT_VERSION}"

    async def summarise(self, request: SummaryRequest) -> JsonMap:
        """What the model says; raises what stands against asking it."""
        companion = await self._store.require(Companion, request.agent_id)
        if self._door.destination(companion).local:
            raise CompanionError("This companion has no model. Rules summarise what it remembers.")
        definition = await self._definitions.of(companion.id)
        fields = await self._projections.allowed(definition.provider_fields, SUMMARY_KEY)
        payload = project(
            {
                "companion": {
                    "display_name": companion.display_name,
                    "kind": companion.kind,
                    "instructions": definition.instructions,
                },
                "wake": {"reason": WakeReason.MANUAL.value, "said": _ASKED},
                "memory": {
                    "recent": [
                        {"kind": each.message.kind.value, "text": line}
                        for each in request.entries
                        if (line := line_of(each))
                    ]
                },
            },
            fields,
        )
        proposal = await self._door.ask(
            companion,
            _request(companion, request, payload),
            definition=definition,
            operation_key=SUMMARY_KEY,
            decisions=PolicyDecisions(),
        )
        if proposal.fallback is not None or not proposal.thought.strip():
            raise LlmError(proposal.fallback or "The model gave no summary.")
        text, refused = supported(proposal.thought, request.entries)
        if refused:
            await self._note_unsupported(request, refused)
        if not text:
            raise LlmError("The model's summary says of the owner what the owner never said.")
        return {"text": text, "messages": len(request.entries)}

    async def _note_unsupported(self, request: SummaryRequest, refused: Sequence[str]) -> None:
        first, last = request.entries[0].message.id, request.entries[-1].message.id
        await self._store.put(
            Diagnostic(
                id=digest("summary_unsupported", first, last, *refused),
                agent_id=request.agent_id,
                kind="summary_unsupported",
                subject_id=last,
                detail={"refused": list(refused)[:_MOST_LINES]},
                created_at=self._store.clock.now(),
            )
        )


def _request(companion: Companion, request: SummaryRequest, payload: JsonMap) -> CompanionRequest:
    first, last = request.entries[0].message.id, request.entries[-1].message.id
    return CompanionRequest(
        agent_id=companion.id,
        agent_kind=companion.kind,
        category_ids=companion.allowed_category_ids,
        run_key=digest("summary", first, last),
        wake_reason=WakeReason.MANUAL,
        prompt_id=PROMPT_ID,
        prompt_version=PROMPT_VERSION,
        persona_version_id=None,
        payload=payload,
        allowance=_SET_AT_THE_DOOR,
    )


_COVERED_IN_THREAD = """
SELECT max(sequence) FROM agent_messages
WHERE agent_id = ? AND thread_id = ? AND summary_depth = 1 AND deleted_at IS NULL
"""
_RAW_AFTER = """
SELECT id FROM agent_messages
WHERE agent_id = ? AND thread_id = ? AND summary_depth = 0 AND sequence > ? AND deleted_at IS NULL
ORDER BY sequence LIMIT ?
"""
_COVERED = """
SELECT max(sequence) FROM agent_messages
WHERE agent_id = ? AND summary_depth = 2 AND deleted_at IS NULL
"""
_OPEN_SUMMARIES = """
SELECT id FROM agent_messages
WHERE agent_id = ? AND summary_depth = 1 AND sequence > ? AND deleted_at IS NULL
ORDER BY sequence, id LIMIT ?
"""
_READY = """
SELECT body FROM agent_compaction_jobs
WHERE status = 'pending' AND next_attempt_at <= ? ORDER BY created_at, id LIMIT 1
"""
_NEXT = "SELECT min(next_attempt_at) FROM agent_compaction_jobs WHERE status = 'pending'"
_CALM_DOWN = 1.0
_log = logging.getLogger(__name__)


class CompactionPolicy(Data):
    """When something is compacted, by whom, and how often it is tried."""

    trigger_messages: int = Field(default=40, ge=2)
    keep_messages: int = Field(default=20, ge=1)
    trigger_summaries: int = Field(default=16, ge=2)
    keep_summaries: int = Field(default=8, ge=1)
    longest_span: int = Field(default=200, ge=2)
    rules_below_tokens: int = Field(default=1_500, ge=0)
    """A short span is summarised by rules: a model would cost more than it saves."""
    model_attempts: int = Field(default=2, ge=0)
    max_attempts: int = Field(default=5, ge=1)
    first_delay_seconds: float = Field(default=30, gt=0)
    longest_delay_seconds: float = Field(default=3600, gt=0)


class Compactor:
    """Turns spans into summaries."""

    def __init__(
        self,
        store: CompanionStore,
        *,
        summariser: ModelSummariser | None = None,
        policy: CompactionPolicy | None = None,
    ) -> None:
        self._store = store
        self._summariser = summariser
        self._policy = policy or CompactionPolicy()
        self._wanted = asyncio.Event()
        self._turn = asyncio.Lock()

    async def consider(self, agent_id: str, thread_id: str, *, ended: bool) -> list[CompactionJob]:
        """Write down what is due for this thread; somebody else does it."""
        jobs = await self._store.transaction(
            lambda tx: plan_in(tx, self._store, agent_id, thread_id, self._policy, ended=ended)
        )
        if jobs:
            self._wanted.set()
        return jobs

    async def recover(self) -> int:
        """Put back what a crash left in the middle; returns how many that were."""
        left = await self._store.find(CompactionJob, {"status": CompactionStatus.RUNNING})
        for job in left:
            await self._update(job, status=CompactionStatus.PENDING)
        return len(left)

    async def run(self) -> None:
        """Go on until cancelled; sleeps until there is something to do."""
        while True:
            self._wanted.clear()
            try:
                await self.recover()  # also what a database that failed left in the middle
                nearest = await self.work()
            except DatabaseError as error:
                _log.warning("compaction waits: %s [%s]", error.message, error.code)
                nearest = self._store.clock.now() + timedelta(seconds=_CALM_DOWN)
            except Exception:  # noqa: BLE001 - a bad moment must not be the end of compaction
                _log.exception("compaction had to stop for a moment")
                nearest = self._store.clock.now() + timedelta(seconds=_CALM_DOWN)
            await self._until(nearest)

    async def work(self) -> datetime | None:
        """Do everything that is ready; returns when the next job is, or None."""
        async with self._turn:
            while job := await self._ready():
                await self._attempt(job)
        row = await self._store.database.fetch_one(_NEXT)
        return parse_timestamp(row[0]) if row and row[0] else None

    async def _until(self, nearest: datetime | None) -> None:
        wait = None
        if nearest is not None:
            wait = max(0.0, (nearest - self._store.clock.now()).total_seconds())
        try:
            async with asyncio.timeout(wait):
                await self._wanted.wait()
        except TimeoutError:
            return

    async def _ready(self) -> CompactionJob | None:
        now = format_timestamp(self._store.clock.now())
        row = await self._store.database.fetch_one(_READY, (now,))
        return CompactionJob.model_validate_json(row[0]) if row else None

    async def _attempt(self, job: CompactionJob) -> None:
        job = await self._update(
            job, status=CompactionStatus.RUNNING, attempt_count=job.attempt_count + 1
        )
        try:
            entries = await self._store.database.snapshot(lambda reader: read_span(reader, job))
            request = SummaryRequest(job.agent_id, job.thread_id, job.depth, entries)
            content, contract = await self._summary(job, request)
            await self._store.transaction(
                lambda tx: self._finish_in(tx, job, request, content, contract)
            )
        except AgentDestroyed as error:
            await self._give_up(job, error)
        except Exception as error:  # noqa: BLE001 - raw messages stay the truth, whatever it was
            await self._failed(job, error)

    async def _summary(self, job: CompactionJob, request: SummaryRequest) -> tuple[JsonMap, str]:
        tokens = sum(each.message.tokens_approx for each in request.entries)
        worth_it = tokens >= self._policy.rules_below_tokens
        patient = job.attempt_count <= self._policy.model_attempts
        if self._summariser is not None and worth_it and patient:
            try:
                content = await self._summariser.summarise(request)
            except CompanionError as error:
                # The policy says no, and will say so again: nobody needs to wait for that.
                _log.info("compaction by rules: %s [%s]", error.message, error.code)
            else:
                return content, self._summariser.contract_version
        return summarise_by_rules(request), CONTRACT_VERSION

    def _finish_in(
        self,
        tx: Transaction,
        job: CompactionJob,
        request: SummaryRequest,
        content: JsonMap,
        contract: str,
    ) -> None:
        # What was forgotten meanwhile does not come back as a summary.
        read_span(tx, job)
        write_summary_in(tx, self._store, request, content=content, contract_version=contract)
        now = self._store.clock.now()
        done = {"status": CompactionStatus.DONE, "last_error": None, "updated_at": now}
        self._store.put_in(tx, job.model_copy(update=done))
        # The thread may be long, and there may be summaries enough for a summary of them.
        plan_in(tx, self._store, job.agent_id, job.thread_id, self._policy, ended=False)

    async def _failed(self, job: CompactionJob, error: Exception) -> None:
        if job.attempt_count >= self._policy.max_attempts:
            await self._give_up(job, error)
            return
        policy = self._policy
        delay = min(
            policy.first_delay_seconds * 2 ** (job.attempt_count - 1),
            policy.longest_delay_seconds,
        )
        await self._update(
            job,
            status=CompactionStatus.PENDING,
            next_attempt_at=self._store.clock.now() + timedelta(seconds=delay),
            last_error=_said(error),
        )

    async def _give_up(self, job: CompactionJob, error: Exception) -> None:
        _log.warning("compaction of %s was given up: %s", job.thread_id, error)
        await self._update(job, status=CompactionStatus.FAILED_TERMINAL, last_error=_said(error))

    async def _update(self, job: CompactionJob, **changes: Any) -> CompactionJob:
        changes["updated_at"] = self._store.clock.now()
        return await self._store.put(job.model_copy(update=changes))


def summaries_thread(agent_id: str) -> str:
    """Where summaries of summaries are kept."""
    return f"{agent_id}:summaries"


def plan_in(
    tx: Transaction,
    store: CompanionStore,
    agent_id: str,
    thread_id: str,
    policy: CompactionPolicy,
    *,
    ended: bool,
) -> list[CompactionJob]:
    """Write down the jobs that are due for this thread and for the summaries of its companion."""
    raw = _raw_span(tx, agent_id, thread_id, ended=ended, policy=policy)
    summaries = _summaries_span(tx, agent_id, policy)
    wanted = [(thread_id, raw, 1), (summaries_thread(agent_id), summaries, 2)]
    return [
        store.put_in(tx, _job(store, agent_id, thread, span, depth))
        for thread, span, depth in wanted
        if span and not _has_open_job(tx, store, agent_id, thread)
    ]


def _raw_span(
    tx: Reader, agent_id: str, thread_id: str, *, ended: bool, policy: CompactionPolicy
) -> list[str]:
    covered = _number(tx, _COVERED_IN_THREAD, (agent_id, thread_id))
    rows = tx.fetch_all(_RAW_AFTER, (agent_id, thread_id, covered, policy.longest_span))
    found = [row[0] for row in rows]
    if ended:
        return found
    return found[: -policy.keep_messages] if len(found) > policy.trigger_messages else []


def _summaries_span(tx: Reader, agent_id: str, policy: CompactionPolicy) -> list[str]:
    covered = _number(tx, _COVERED, (agent_id,))
    rows = tx.fetch_all(_OPEN_SUMMARIES, (agent_id, covered, policy.longest_span))
    found = [row[0] for row in rows]
    return found[: -policy.keep_summaries] if len(found) > policy.trigger_summaries else []


def _number(tx: Reader, sql: str, params: tuple[str, ...]) -> int:
    row = tx.fetch_one(sql, params)
    return int(row[0]) if row and row[0] is not None else -1


def _has_open_job(tx: Reader, store: CompanionStore, agent_id: str, thread_id: str) -> bool:
    here = {"agent_id": agent_id, "thread_id": thread_id}
    return any(
        store.find_in(tx, CompactionJob, {**here, "status": status}, limit=1)
        for status in (CompactionStatus.PENDING, CompactionStatus.RUNNING)
    )


def _job(
    store: CompanionStore, agent_id: str, thread_id: str, span: list[str], depth: int
) -> CompactionJob:
    now = store.clock.now()
    start, end = span[0], span[-1]
    return CompactionJob(
        id=compaction_job_id(agent_id, thread_id, start=start, end=end, depth=depth),
        agent_id=agent_id,
        thread_id=thread_id,
        start_message_id=start,
        end_message_id=end,
        depth=depth,
        next_attempt_at=now,
        created_at=now,
        updated_at=now,
    )


def _said(error: Exception) -> str:
    code = tool_code(error) if isinstance(error, SilasError) else type(error).__name__
    return f"{code}: {error}"
