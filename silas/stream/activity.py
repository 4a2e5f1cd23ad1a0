"""What Silas did, told from the audit log: the answer to "what did you do?".

Only the log is asked, never a model's memory of it. What has no sentence here is counted, so that
nothing is hidden by being left out.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Protocol

from silas.companions.words import TOOLS
from silas.journal.wishes import JournalOpType
from silas.kernel import Clock, parse_timestamp, visible

_ENTRIES = 500
_LONGEST_AWAY = timedelta(days=7)
_LAST_HOURS = timedelta(hours=12)
_A_WHILE = timedelta(hours=1)
_PRESENT = frozenset({"card_decided", "paused_call_decided"})
_MOST_LINES = 40
_LONGEST = 160
_SENTENCES: Mapping[str, str] = MappingProxyType(
    {
        "approval_fatigue": "Decisions were made faster than they can be read.",
        "approval_issued": "Your approval was signed for {work_item_id}.",
        "approval_refused": "An approval was refused: {reason}.",
        "card_changed": "A card was changed while you looked at it: nothing was signed.",
        "card_decided": "You decided a card: {verdict}.",
        "card_asked": "I asked for your decision.",
        "card_expired": "Nobody decided a card in time: that is a no.",
        "card_decision_unsigned": "A decision came that no device of yours had signed: ignored.",
        "companion_made": "A companion was made: {kind}.",
        "companion_configured": "A companion was configured.",
        "companion_consent": "You agreed that a companion asks {model}.",
        "companion_consent_revoked": "You took back that a companion may ask its model.",
        "companion_destroyed": "A companion was ended for good.",
        "companion_paused": "A companion was paused.",
        "companion_persona_approved": "You approved how a companion speaks, version {version}.",
        "companion_persona_declined": "You declined how a companion would speak.",
        "companion_resumed": "A companion was resumed.",
        "companion_run_cancelled": "What a companion was doing was called off.",
        "companion_wrote": "A companion changed your journal: {tool}.",
        "companions_released": "Companions that were stopped may go on.",
        "companions_stopped": "Companions were stopped.",
        "card_decision_forged": "A decision that you did not sign was found and ignored.",
        "device_enrolled": "A device was paired: {name}.",
        "device_revoked": "A device was revoked: {device_id}.",
        "answer_forged": "An answer that you did not sign was found and ignored.",
        "autonomy_decided": "You decided about my autonomy: {verdict}.",
        "passkey_enrolled": "A passkey was added: {name}.",
        "passkey_revoked": "A passkey was removed.",
        "question_answered": "You answered a question: {answer}.",
        "gate_blocked": "A gate stopped something: {gate}.",
        "goal_task_spawned": "{work_item_id} started a repair: {task_id}.",
        "journal_changed": "As you said, I {op} in your journal.",
        "journal_op_refused": "A wish about your journal was not done.",
        "message_taint_forged": "A message was made to look like yours, and was not taken as such.",
        "message_downgraded": "A message was not accepted as yours.",
        "paused_call_decided": "You decided about a call of {tool}: {verdict}.",
        "pairing_refused": "Somebody tried to pair a device with a wrong code.",
        "plan_declined": "{work_item_id} was not approved.",
        "plan_refused": "A plan could not be used.",
        "stream_started": "I was started.",
        "stream_stopped": "I was stopped.",
        "tool_call_blocked": "A call of {tool} was stopped.",
        "work_attempt_ended": "{work_item_id}: attempt {attempt} did not pass.",
        "work_cancelled": "{work_item_id} was cancelled.",
        "work_done": "{work_item_id} was done, and its checks passed.",
        "work_interrupted": "{work_item_id} was interrupted.",
        "work_paused": "{work_item_id} was paused.",
        "work_resumed": "{work_item_id} was resumed.",
        "work_waits": "{work_item_id} waits for your decision.",
        "goal_checked": "{work_item_id} was checked.",
    }
)

_WISHES: Mapping[str, str] = MappingProxyType(
    {
        JournalOpType.ADD_TASK: "added a task",
        JournalOpType.FINISH_TASK: "finished a task",
        JournalOpType.START_TIMER: "started the timer",
        JournalOpType.STOP_TIMER: "stopped the timer",
        JournalOpType.LOG_TIME: "wrote down time",
        JournalOpType.PLAN_BLOCK: "planned a block",
        JournalOpType.PLAN_DAY: "planned a day",
    }
)

# Companions' actions are named by a hash; the log has it whole.
_HASH = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{32,56}\b")


class Entry(Protocol):
    """One entry of the log."""

    @property
    def at(self) -> str:
        """When, in UTC."""
        ...

    @property
    def event(self) -> str:
        """What."""
        ...

    @property
    def data(self) -> Mapping[str, Any]:
        """The details."""
        ...


class Log(Protocol):
    """The audit log, as far as it is read here."""

    async def tail(self, count: int, *, since: datetime | None = None) -> list[Any]:
        """The last entries, oldest first."""
        ...


async def while_away(log: Log, *, owner_id: str, clock: Clock) -> str:
    """What happened since the owner was last here; if that was just now, in the last hours."""
    now = clock.now()
    seen = _last_seen(await log.tail(_ENTRIES, since=now - _LONGEST_AWAY), owner_id)
    since = now - _LAST_HOURS if seen is None or now - seen < _A_WHILE else seen
    told = await recent_activity(log, since=since)
    return f"Since {since:%Y-%m-%d %H:%M} UTC:\n{told}"


def _last_seen(entries: Sequence[Entry], owner_id: str) -> datetime | None:
    """When the owner last said or decided something."""
    for entry in reversed(entries):
        spoke = entry.event == "turn_routed" and entry.data.get("connection_id") == owner_id
        if spoke or entry.event in _PRESENT:
            return parse_timestamp(entry.at)
    return None


async def recent_activity(log: Log, *, since: datetime | None = None, count: int = 500) -> str:
    """What happened, oldest first, as lines that a person reads."""
    entries = await log.tail(count, since=since)
    lines = [line for entry in entries if (line := _line(entry))]
    others = Counter(entry.event for entry in entries if entry.event not in _SENTENCES)
    told = lines[-_MOST_LINES:] or ["Nothing that needed your attention."]
    if len(lines) > _MOST_LINES:
        told.insert(0, f"({len(lines) - _MOST_LINES} earlier lines are left out.)")
    if others:
        told.append(f"Besides, {sum(others.values())} other entries are in the log.")
    return "\n".join([*told, "`silas audit tail` shows everything."])


def sentence_of(entry: Entry) -> str | None:
    """The entry in words; None for one that is only counted."""
    sentence = _SENTENCES.get(entry.event)
    if sentence is None:
        return None
    told = visible(sentence.format_map(_Known(_in_words(entry))), keep_newlines=False)
    return _HASH.sub(r"\1…", told)[:_LONGEST]


def _in_words(entry: Entry) -> dict[str, Any]:
    """The details, with names of the code as people say them."""
    words: dict[str, Mapping[str, str]] = {
        "journal_changed": _WISHES,
        "companion_wrote": TOOLS,
    }
    known = words.get(entry.event, {})
    return {name: known.get(str(value), value) for name, value in entry.data.items()}


def _line(entry: Entry) -> str | None:
    text = sentence_of(entry)
    return text and f"{entry.at[:16].replace('T', ' ')}  {text}"


class _Known(dict[str, Any]):
    """The details of an entry; what is not there is said so."""

    def __missing__(self, key: str) -> str:
        return "something"
