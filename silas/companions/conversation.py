"""What was said between the owner and a companion, turn by turn, and what is worth the owner's eye.

A turn is one run: what the owner said or what woke it, what the companion answered, what it did and
what became of that, what it asked, and how it ended. It is read from the log of wakes, the log of
messages, the trace, the operations and the questions; nothing of it is kept twice.

What a companion says by itself is told by attention, not by noise:

1. What the owner has asked for is always shown: an answer, or why there is none.
2. A run that asked, did or proposed something is shown.
3. A failure is shown when it is another one than that before it; those that repeat it are counted.
4. A model's word alone is shown if it says something else than its last one did.
5. Everything else is only counted: nobody has to read that nothing was the matter.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from silas.companions.errors import CALLED_OFF
from silas.companions.ids import digest, run_message_id
from silas.companions.kinds.offline import OFFLINE_MODEL
from silas.companions.log import content_of_in
from silas.companions.messages import (
    AgentOperation,
    AgentPromptItem,
    AgentPromptResponse,
    RunTrace,
    TracedCall,
    WakeRun,
)
from silas.companions.models import (
    AgentPromptItemState,
    Companion,
    InteractiveSession,
    OperationPhase,
    OperationStatus,
    WakeReason,
    WakeStatus,
)
from silas.companions.store import CompanionStore
from silas.companions.tools.registry import AgentToolRegistry
from silas.companions.views import (
    ConversationView,
    DoneView,
    SessionView,
    TurnQuestion,
    TurnView,
)
from silas.companions.words import spoken_change, spoken_tool
from silas.kernel import format_timestamp
from silas.storage import Reader

ROUNDS_LOOKED_AT = 3
_MOST_READ = 200
_BY_OWNER = (WakeReason.USER_INITIATED, WakeReason.MANUAL)
_UNSEEN = frozenset(
    {
        WakeStatus.SKIPPED_SLEEPING,
        WakeStatus.SKIPPED_PAUSED,
        WakeStatus.SKIPPED_STOPPED,
        WakeStatus.SKIPPED_DESTROYED,
    }
)
_RUNS = """
SELECT body FROM wake_run_log WHERE agent_id = ? AND queued_at < ?
ORDER BY queued_at DESC, run_key DESC LIMIT ?
"""
_LAST = datetime(9000, 1, 1, tzinfo=UTC)
_OPEN_SESSION = """
SELECT body FROM agent_sessions WHERE agent_id = ? AND closed_at IS NULL
ORDER BY expires_at DESC LIMIT 1
"""
_TOMBSTONE = "SELECT 1 FROM agent_messages WHERE id = ? AND deleted_at IS NOT NULL"
_SKIPPED_WORDS = {
    WakeStatus.SKIPPED_PAUSED: "It is paused, so it did not hear this. Resume it, then say it.",
    WakeStatus.SKIPPED_STOPPED: "It is stopped, so it did not hear this. Let it go on, and say it "
    "again.",
    WakeStatus.SKIPPED_DESTROYED: "It was ended for good, so nobody answers.",
    WakeStatus.SKIPPED_SLEEPING: "It sleeps, so it did not hear this. Wake it, and say it again.",
}
_CALLED_OFF = "It was called off before it had answered."
_NOTHING_SAID = "It had nothing to say."
_OUTCOMES = {
    OperationStatus.DONE: "done",
    OperationStatus.DECLINED: "you said no",
    OperationStatus.REFUSED: "it could not be done",
    OperationStatus.FAILED: "it could not be done",
    OperationStatus.CANCELLED: "it was called off",
}
_PHASES = {
    OperationPhase.WAITING: "waits for your decision",
    OperationPhase.BLOCKED: "waits for your answer",
    OperationPhase.APPROVED: "is being done",
}


@dataclass(frozen=True)
class CompanionWord:
    """What the owner is to be told of a run, wherever the owner looks."""

    agent_id: str
    name: str
    run_key: str
    text: str
    reply_to: Mapping[str, str] | None
    """Where the owner waits for it; None: in the companion's own conversation, or nowhere."""
    news_id: str
    """The same word on the same day has the same: it is told once."""
    asked: bool
    """Whether the owner has begun the run, in the conversation with the companion or elsewhere."""

    @property
    def is_told(self) -> bool:
        """Whether it goes elsewhere: what was asked in its own conversation is read there."""
        return self.reply_to is not None or not self.asked


class ConversationReader:
    """Reads conversations with companions."""

    def __init__(self, store: CompanionStore, registry: AgentToolRegistry) -> None:
        self._store = store
        self._registry = registry

    async def read(
        self, agent_id: str, *, before: datetime | None = None, limit: int = 30
    ) -> ConversationView:
        """The newest turns that are worth showing, oldest first; `before` a moment, for more."""
        return await self._store.database.snapshot(
            lambda reader: self._read(reader, agent_id, before=before, limit=limit)
        )

    async def word_of(self, run: WakeRun) -> CompanionWord | None:
        """What is to be told of a run that has ended; None if it is not worth it (rules 1 to 5)."""

        def look(reader: Reader) -> CompanionWord | None:
            companion = self._store.get_in(reader, Companion, run.agent_id)
            if companion is None:
                return None
            turn, before = self._turn(reader, run), self._last_shown(reader, run)
            asked = run.job.reason in _BY_OWNER
            if not asked and (run.status in _UNSEEN or not worth_showing(turn, before)):
                return None
            text = spoken(turn) or (_unanswered(turn) if run.job.reply_to else "")
            if not text:
                return None
            day = f"{self._store.clock.now():%Y-%m-%d}"
            return CompanionWord(
                agent_id=run.agent_id,
                name=companion.display_name,
                run_key=run.run_key,
                text=text,
                reply_to=run.job.reply_to,
                news_id=digest("companion_news", run.agent_id, text, day),
                asked=asked,
            )

        return await self._store.database.snapshot(look)

    def _last_shown(self, reader: Reader, run: WakeRun) -> TurnView | None:
        moment = format_timestamp(run.queued_at)
        rows = reader.fetch_all(_RUNS, (run.agent_id, moment, ROUNDS_LOOKED_AT * 3))
        for (body,) in rows:
            earlier = WakeRun.model_validate_json(body)
            if earlier.status not in _UNSEEN and earlier.absorbed_into is None:
                return self._turn(reader, earlier)
        return None

    def _read(
        self, reader: Reader, agent_id: str, *, before: datetime | None, limit: int
    ) -> ConversationView:
        moment = format_timestamp(before or _LAST)
        rows = reader.fetch_all(_RUNS, (agent_id, moment, _MOST_READ))
        runs = [WakeRun.model_validate_json(body) for (body,) in rows]
        shown: list[TurnView] = []
        quiet = 0
        # The oldest first: whether something is news follows from what was said before it.
        for run in reversed(runs):
            turn = self._turn(reader, run) if _is_looked_at(run) else None
            if turn is None or not (turn.asked or worth_showing(turn, _last(shown))):
                quiet += run.absorbed_into is None
                if turn is not None and turn.error_code and shown:
                    shown[-1] = shown[-1].model_copy(update={"repeats": shown[-1].repeats + 1})
                continue
            shown.append(turn)
        left = len(shown) > limit or len(runs) == _MOST_READ
        row = reader.fetch_one(_OPEN_SESSION, (agent_id,))
        session = InteractiveSession.model_validate_json(row[0]) if row else None
        return ConversationView(
            turns=tuple(shown[-limit:]),
            earlier=left,
            quiet=quiet,
            session=_session(session, self._store.clock.now()),
        )

    def _turn(self, reader: Reader, run: WakeRun) -> TurnView:
        job, store = run.job, self._store
        trace = store.get_in(reader, RunTrace, run.run_key)
        names = [
            run_message_id(run.run_key, f"thought:{number}")
            for number in range(1, ROUNDS_LOOKED_AT + 1)
        ]
        texts = [content_of_in(reader, store, each) for each in names]
        said = [str(each.get("text", "")).strip() for each in texts if each]
        questions = store.find_in(reader, AgentPromptItem, {"run_key": run.run_key})
        failed = run.status is WakeStatus.FAILED_TERMINAL or (
            run.status is WakeStatus.CANCELLED and run.error_code is not None
        )
        asked = job.reason in _BY_OWNER
        problem = run.error_message if failed else None
        if asked and run.status in _UNSEEN:
            problem = _SKIPPED_WORDS.get(run.status)
        return TurnView(
            run_key=run.run_key,
            at=run.queued_at,
            reason=job.reason,
            asked=asked,
            said=job.seed_input,
            text="\n\n".join(dict.fromkeys(each for each in said if each)),
            by_rules=trace is None or trace.model_id in (None, OFFLINE_MODEL),
            did=tuple(self._done(reader, each) for each in trace.tool_calls) if trace else (),
            questions=tuple(_question(reader, store, each) for each in questions),
            status=run.status,
            error_code=(run.error_code or run.skip_reason) if problem else None,
            problem=problem,
            called_off=run.error_message == CALLED_OFF,
            forgotten=not any(said) and any(_is_tombstone(reader, each) for each in names),
            session_id=job.session_id,
        )

    def _done(self, reader: Reader, call: TracedCall) -> DoneView:
        """What became of an action: of what had to wait, what the owner has decided since."""
        operation = self._store.get_in(reader, AgentOperation, call.operation_id)
        tool = self._registry.get(call.tool_name)
        waits = operation is not None and not operation.is_over and operation.has_waited
        return DoneView(
            operation_id=call.operation_id,
            what=spoken_tool(call.tool_name),
            writes=tool.writes if tool is not None else False,
            outcome=_outcome(call, operation),
            waits=waits,
            changes=_changes(operation),
            error_code=None if operation is not None and operation.is_over else call.error_code,
        )


def worth_showing(turn: TurnView, before: TurnView | None) -> bool:
    """Whether the owner should see this turn (rules 1 to 5)."""
    if turn.asked or turn.questions or any(each.writes for each in turn.did):
        return True
    if turn.problem is not None:
        return before is None or before.problem != turn.problem
    spoke = bool(turn.text) and not turn.by_rules
    return spoke and (before is None or before.text != turn.text)


def spoken(turn: TurnView) -> str:
    """A turn in words, for wherever the owner looks: what it said, asks, and what it did."""
    lines = [turn.text] if turn.text else []
    lines += [each.prompt_text for each in turn.questions if each.open]
    for each in turn.did:
        if each.writes:
            about = f": {'; '.join(each.changes)}" if each.changes else ""
            lines.append(f"{_sentence(each.what)} ({each.outcome}){about}.")
    if turn.problem:
        lines.append(turn.problem)
    return "\n\n".join(lines)


def _unanswered(turn: TurnView) -> str:
    """Whoever waits elsewhere is told that no answer comes."""
    return _CALLED_OFF if turn.status is WakeStatus.CANCELLED else _NOTHING_SAID


def _is_tombstone(reader: Reader, message_id: str) -> bool:
    return reader.fetch_one(_TOMBSTONE, (message_id,)) is not None


def _is_looked_at(run: WakeRun) -> bool:
    if run.absorbed_into is not None:
        return False
    return run.status not in _UNSEEN or run.job.reason in _BY_OWNER


def _last(shown: Sequence[TurnView]) -> TurnView | None:
    return shown[-1] if shown else None


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _outcome(call: TracedCall, operation: AgentOperation | None) -> str:
    if operation is not None and operation.is_over:
        return _OUTCOMES.get(operation.status, operation.status.value)
    if operation is not None and operation.has_waited:
        return _PHASES.get(operation.phase, "waits")
    if call.error_code is not None:
        return f"not done: {call.error_code.replace('_', ' ')}"
    return "done" if call.status == "success" else "looked at"


def _changes(operation: AgentOperation | None) -> tuple[str, ...]:
    shown = (operation.approvable or {}) if operation is not None else {}
    changes = shown.get("preview", {}).get("changes", ())
    return tuple(spoken_change(each) for each in changes)[:5]


def _question(reader: Reader, store: CompanionStore, item: AgentPromptItem) -> TurnQuestion:
    answers = store.find_in(
        reader, AgentPromptResponse, {"prompt_item_id": item.id}, newest_first=True, limit=1
    )
    return TurnQuestion(
        id=item.id,
        interaction_type=item.interaction_type,
        prompt_text=item.prompt_text,
        options=item.options,
        open=item.state is AgentPromptItemState.OPEN,
        answer=str(answers[0].response.get("answer", "")) if answers else None,
        required_by=item.required_by,
    )


def _session(session: InteractiveSession | None, now: datetime) -> SessionView | None:
    if session is None or session.expires_at <= now:
        return None
    return SessionView(id=session.id, opened_at=session.opened_at, ends_at=session.expires_at)
