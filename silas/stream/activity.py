"""What Silas did, told from the audit log: the answer to "what did you do?".

Only the log is asked, never a model's memory of it. The log names work and cards by their ids; a
person gets their titles, and is told how and where a decision was made: with which gesture, on
which device. That an undo was offered and not wanted is nothing that happened.

1. What waits for the owner comes first, then what happened, the newest first.
2. Of each work one line says how it ended. How it came to that is in Activity.
3. A few lines are told, and the rest is counted, so that nothing is hidden by being left out.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any
from zoneinfo import ZoneInfo

from silas.audit.models import AuditEntry, AuditTrail
from silas.companions.words import TOOLS
from silas.journal.conversation import JournalOpType
from silas.journal.lines import when
from silas.kernel import Clock, parse_timestamp, strict_loads, visible
from silas.review.cards import UNDO
from silas.storage import Database
from silas.work.effects import ChangeKind, FileChange

_ENTRIES = 500
_LONGEST_AWAY = timedelta(days=7)
_LAST_HOURS = timedelta(hours=12)
_A_WHILE = timedelta(hours=1)
_PRESENT = frozenset({"card_decided", "paused_call_decided"})
_MOST_LINES = 8
_LONGEST = 240
_MOST_NAMES = 3
_ENDED = frozenset({"work_done", "work_unchecked"})
_CHANGES = "changes"
_CHECKED = "goal_checked"
_SENTENCES: Mapping[str, str] = MappingProxyType(
    {
        "approval_fatigue": "Decisions were made faster than they can be read.",
        "approval_issued": "Your approval was signed for {work_item_id}.",
        "approval_refused": "An approval was refused: {reason}.",
        "card_changed": "A card was changed while you looked at it: nothing was signed.",
        "card_decided": "You {verdict} {card}{how}.",
        "card_asked": "I asked for your decision on {card}.",
        "card_expired": "Nobody decided about {card} in time: that is a no.",
        "card_withdrawn": "{card} was withdrawn: the link that it came over has ended.",
        "card_decision_unsigned": "A decision came that no device of yours had signed: ignored.",
        "companion_made": "A companion was made: {kind}.",
        "companion_configured": "A companion was configured.",
        "companion_consent": "You agreed that a companion asks {model}.",
        "companion_consent_revoked": "You took back that a companion may ask its model.",
        "companion_destroyed": "A companion was ended for good.",
        "companion_models_limited": "You said which models may be asked by companions.",
        "companion_version": "A companion was given version {version} of its kind.",
        "companions_forgot": "Companions have forgotten what you wanted: {removed} records.",
        "companion_paused": "A companion was paused.",
        "companion_persona_approved": "You approved how a companion speaks, version {version}.",
        "companion_persona_declined": "You declined how a companion would speak.",
        "companion_resumed": "A companion was resumed.",
        "companion_run_cancelled": "What a companion was doing was called off.",
        "companion_wrote": "A companion changed your journal: {tool}.",
        "companion_sleeps": "You let a companion sleep for longer than a day.",
        "companions_released": "Companions that were stopped may go on.",
        "companions_stopped": "Companions were stopped.",
        "card_decision_forged": "A decision that you did not sign was found and ignored.",
        "device_enrolled": "A device was paired: {name}.",
        "device_invited": "You asked for a link that lets another device in.",
        "device_revoked": "A device was revoked: {device_id}.",
        "answer_forged": "An answer that you did not sign was found and ignored.",
        "autonomy_decided": "You decided about my autonomy: {verdict}.",
        "autonomy_tightened": "You corrected {corrections} of {samples} lately, so I took back "
        "what you had allowed me: {key} is not {value} any more.",
        "grant_given": "You allowed {tool} without asking, for a while.",
        "grant_used": "I used {tool} for {work_item_id}, as you allowed for a while.",
        "grant_ended": "A standing grant has ended: {why}.",
        "passkey_enrolled": "A passkey was added: {name}.",
        "passkey_revoked": "A passkey was removed.",
        "reminder_told": "I reminded you: {reminder}.",
        "question_answered": "You answered {card}: {answer}{how}.",
        "gate_blocked": "A gate stopped something: {gate}.",
        "goal_task_spawned": "{work_item_id} started a repair: {task_id}.",
        "journal_changed": "As you said, I {op} in your journal.",
        "journal_op_refused": "A wish about your journal was not done.",
        "memory_changed": "I changed what I remember: {op}.",
        "call_undone": "You took back what {tool} did. {told}",
        "call_not_undone": "What {tool} did could not be taken back. {told}",
        "memory_change_undone": "You took back a change of what I remember.",
        "record_changes_proposed": "A change that you did not ask for was put before you.",
        "record_changes_decided": "You decided about changes of memory or journal: {answer}.",
        "message_taint_forged": "A message was made to look like yours, and was not taken as such.",
        "message_downgraded": "A message was not accepted as yours.",
        "paused_call_decided": "You {verdict} a call of {tool}{how}.",
        "paused_call_expired": "Nobody decided in time about {work_item_id}: {tool} was not done.",
        "vault_unlocked": "You opened the vault with its passphrase, and I started.",
        "pairing_refused": "Somebody tried to pair a device with a wrong code.",
        "place_asked": "I asked whether I may read {path}.",
        "place_opened": "You let me read {path}.",
        "place_closed": "You closed {path}: I read nothing there any more.",
        "files_read": "I read {files} to answer you.",
        "secret_declined": "You did not want to type a secret: {ref_id}.",
        "skill_fetched": "I fetched a skill from {url}, as of the commit {commit}.",
        "skill_fetch_failed": "I could not put the skill at {url} before you. {reason}",
        "skill_not_proposed": "I could not put the skill {skill} before you. {reason}",
        "connection_proposed": "A connection was put before you: {name}.",
        "connection_setup_started": "I set up {name}.",
        "connection_activated": "{name} is connected.",
        "connection_not_set_up": "{name} was not connected. {reason}",
        "connection_failed": "{name} does not work any more.",
        "connection_recovered": "{name} works again.",
        "connection_tried_later": "I try {name} again later.",
        "connection_paused": "You paused {name}.",
        "connection_resumed": "You let me use {name} again.",
        "connection_renamed": "You renamed a connection: {name}.",
        "connection_removed": "You removed the connection {name}, and I forgot its secret.",
        "connection_sign_in_revoked": "I took back the sign-in of {name} at its provider.",
        "connection_sign_in_forgotten": "I forgot the tokens of {name}. Its provider has not "
        "confirmed that the sign-in is taken back.",
        "proactive_refresh_dormant": "I renewed the sign-in of {name}. Nothing has used it lately.",
        "connection_permission_granted": "You let {name} do more: {permissions}.",
        "connection_permission_once": "You let {name} do this once: {permissions}.",
        "connection_permission_denied": "You did not let {name} do more: {permissions}.",
        "connection_permission_taken": "You took this back from {name}: {permissions}.",
        "connection_once_used": "{name} has used what you allowed once: {permissions}.",
        "connection_used": "I used {name}: {tool}.",
        "tool_server_read": "I started the tool server {server} once, and read its tools.",
        "tool_server_failed": "The tools of {server} could not be read. {reason}",
        "tool_server_quarantined": "The tool server {skill} has changed: I do not use it.",
        "skill_proposed": "A skill was put before you: {skill}.",
        "skill_installed": "You let me use the skill {skill}.",
        "skill_declined": "You declined the skill {skill}.",
        "skill_blocked": "The skill {skill} was not installed. {reason}",
        "skill_lapsed": "The skill {skill} was not installed. {reason}",
        "skill_disabled": "You disabled the skill {skill}.",
        "skill_enabled": "You enabled the skill {skill} again.",
        "skill_rolled_back": "You put the skill {skill} back to the version before.",
        "skill_removed": "You removed the skill {skill}.",
        "skill_bundled": "The skill {skill} came with me.",
        "skill_files_changed": "The files of the skill {skill} were changed: I do not use it.",
        "secret_not_kept": "You told me something that looks like a secret. I kept nothing of it.",
        "secret_stored": "A secret was put into the vault: {ref_id}.",
        "secret_shown": "A secret was shown at the terminal: {ref_id}.",
        "secret_removed": "A secret was removed from the vault: {ref_id}.",
        "plan_declined": "{work_item_id} was not approved.",
        "plan_refused": "A plan could not be used.",
        "stream_started": "I was started.",
        "stream_stopped": "I was stopped.",
        "tool_call_blocked": "A call of {tool} was stopped.",
        "work_attempt_ended": "{work_item_id}: attempt {attempt} did not pass.",
        "work_cancelled": "{work_item_id} was cancelled.",
        "work_expired": "{work_item_id} was not begun: nobody decided in time.",
        "work_withdrawn": "{work_item_id} was withdrawn with the link that it came over.",
        "visitor_link_made": "You made a link for visitors: {name}.",
        "visitor_link_revoked": "You revoked a link for visitors.",
        "work_done": "{work_item_id} was {ending}{files}.",
        "work_unchecked": "{work_item_id} was done, not checked{files}.",
        "work_interrupted": "{work_item_id} was interrupted.",
        "work_paused": "{work_item_id} was paused.",
        "work_replaced": "{work_item_id} was sent back for changes.",
        "work_resumed": "{work_item_id} was resumed.",
        "work_waits": "{work_item_id} waits for your decision.",
        "goal_checked": "{work_item_id} {health}.",
    }
)

_VERDICTS: Mapping[str, str] = MappingProxyType(
    {
        "approved": "approved",
        "declined": "declined",
        "edit_requested": "asked for changes to",
    }
)
_GOOD = frozenset({"work_done", "approval_issued", "device_enrolled", "passkey_enrolled"})
_BAD = frozenset(
    {
        "answer_forged",
        "approval_refused",
        "card_decision_forged",
        "card_decision_unsigned",
        "gate_blocked",
        "message_downgraded",
        "message_taint_forged",
        "pairing_refused",
        "plan_refused",
        "skill_fetch_failed",
        "skill_not_proposed",
        "skill_blocked",
        "skill_files_changed",
        "tool_call_blocked",
        "tool_server_failed",
        "tool_server_quarantined",
        "work_attempt_ended",
    }
)
_UNTITLED = "a card"
_GESTURES: Mapping[str, str] = MappingProxyType(
    {"tap": "with a tap", "slide": "with a slide", "passkey": "with a passkey"}
)
_BY_OWNER = frozenset({"card_decided", "paused_call_decided", "question_answered"})
_OF_UNDO = frozenset({"card_asked", "plan_declined", "work_cancelled", "work_expired"})
"""What the log says of an undo that is only offered."""
_CARD = "SELECT title FROM review_cards WHERE id = ?"
_WAITING = """
SELECT title FROM review_cards WHERE state = 'open' AND id NOT LIKE ? ESCAPE '\\'
ORDER BY created_at DESC
"""
_QUESTION = "SELECT content FROM questions WHERE id = ?"
_WORK = "SELECT plan FROM work_items WHERE id = ?"
_DELIVERED = "SELECT message FROM deliveries WHERE message_id = ?"
_CARD_ITEMS = "SELECT items FROM review_cards WHERE id = ?"
_DECISION = """
SELECT made.strength, device.name FROM decisions AS made
LEFT JOIN devices AS device ON device.device_id = made.key_id
WHERE made.question_id = ?
"""
_MAX_TITLES_KEPT = 2_000

_WISHES: Mapping[str, str] = MappingProxyType(
    {
        JournalOpType.ADD_TASK: "added a task",
        JournalOpType.FINISH_TASK: "finished a task",
        JournalOpType.START_TIMER: "started the timer",
        JournalOpType.STOP_TIMER: "stopped the timer",
        JournalOpType.LOG_TIME: "wrote down time",
        JournalOpType.PLAN_BLOCK: "planned a block",
        JournalOpType.PLAN_DAY: "planned a day",
        JournalOpType.REMIND: "set a reminder",
        JournalOpType.CANCEL_REMINDER: "cancelled a reminder",
    }
)
_MEMORY_OPS: Mapping[str, str] = MappingProxyType(
    {"store": "something new", "update": "a correction", "delete": "something less"}
)

# Companions' actions are named by a hash; the log has it whole.
_HASH = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{32,56}\b")


class ActivityTitles:
    """What people call the work and the cards that the log names by their ids."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[str, str | None] = {}

    async def named(self, entry: AuditEntry) -> AuditEntry | None:
        """The entry with titles in place of ids; None for an offer that nobody took."""
        work, card = entry.data.get("work_item_id"), entry.data.get("card_id")
        unused = any(isinstance(each, str) and f"{UNDO}_" in each[:10] for each in (work, card))
        if unused and entry.event in _OF_UNDO:
            return None
        found = {
            "work_item_id": await self._title(work, _WORK, "title"),
            "card": await self._title(card, _CARD, "")
            or await self._title(card, _QUESTION, "intent"),
        }
        titles = {name: f"“{title}”" for name, title in found.items() if title}
        if entry.event == "reminder_told":
            titles |= await self._reminder(entry)
        how = {"how": await self._how(entry)} if entry.event in _BY_OWNER else {}
        return replace(entry, data={**entry.data, **titles, **how})

    async def _how(self, entry: AuditEntry) -> str:
        """How the owner decided, and where: with a gesture on a device, or at the terminal."""
        name = entry.data.get("card_id") or entry.data.get("call")
        row = await self._database.fetch_one(_DECISION, (name,)) if isinstance(name, str) else None
        if row is None:
            return ""
        strength, device = row
        if strength == "vault":
            return ", at the terminal"
        where = f" on “{device}”" if device else ""
        return f", {_GESTURES.get(strength, 'with a tap')}{where}"

    async def work_of(self, entry: AuditEntry) -> str | None:
        """The work that an entry is about: named by itself, or by its card."""
        work, card = entry.data.get("work_item_id"), entry.data.get("card_id")
        if isinstance(work, str) or not isinstance(card, str):
            return work if isinstance(work, str) else None
        row = await self._database.fetch_one(_CARD_ITEMS, (card,))
        return next(iter(strict_loads(str(row[0]))), None) if row else None

    async def waiting(self) -> list[str]:
        """The titles of what waits for the owner's decision, the newest first."""
        rows = await self._database.fetch_all(_WAITING, (f"card\\_{UNDO}\\_%",))
        return [f"“{visible(title, keep_newlines=False)}”" for (title,) in rows]

    async def _reminder(self, entry: AuditEntry) -> dict[str, str]:
        text = await self._title(entry.data.get("message_id"), _DELIVERED, "content")
        return {"reminder": text.removeprefix("Reminder: ")} if text else {}

    async def _title(self, name: object, query: str, field: str) -> str | None:
        if not isinstance(name, str):
            return None
        key = f"{field} {name}"
        if key not in self._known:
            if len(self._known) >= _MAX_TITLES_KEPT:
                self._known.clear()
            row = await self._database.fetch_one(query, (name,))
            text = str(row[0]) if row else None
            self._known[key] = strict_loads(text).get(field) if text and field else text
        return self._known[key]


async def while_away(
    log: AuditTrail, *, owner_id: str, clock: Clock, zone: ZoneInfo, titles: ActivityTitles
) -> str:
    """What happened since the owner was last here; if that was just now, in the last hours."""
    now = clock.now()
    seen = _last_seen(await log.tail(_ENTRIES, since=now - _LONGEST_AWAY), owner_id)
    since = now - _LAST_HOURS if seen is None or now - seen < _A_WHILE else seen
    waiting = [f"- {each}: waiting for your decision" for each in await titles.waiting()]
    told, others = await _happened(log, since, titles, lambda at: when(at, zone, now))
    lines = [*waiting, *told]
    begin = when(since, zone, now)
    if not lines:
        return f"Nothing since {begin}."
    others += len(lines[_MOST_LINES:])
    more = [f"{others} more entries are in Activity."] if others else []
    return "\n".join([f"Since {begin}:", *lines[:_MOST_LINES], *more])


def _last_seen(entries: Sequence[AuditEntry], owner_id: str) -> datetime | None:
    """When the owner last said or decided something."""
    for entry in reversed(entries):
        spoke = entry.event == "turn_routed" and entry.data.get("connection_id") == owner_id
        if spoke or entry.event in _PRESENT:
            return parse_timestamp(entry.at)
    return None


async def _happened(
    log: AuditTrail, since: datetime, titles: ActivityTitles, at: Callable[[datetime], str]
) -> tuple[list[str], int]:
    """The lines, the newest first, and how many entries are not among them."""
    found: dict[str, tuple[str, int]] = {}
    others = 0
    entries = await log.tail(_ENTRIES, since=since)
    # What was never begun is cancelled, too: why it was not begun is what happened.
    never = {each.data.get("work_item_id") for each in entries if each.event in _NEVER_BEGUN}
    for entry in reversed(entries):
        named = await titles.named(entry)
        cancelled = entry.event == "work_cancelled" and entry.data.get("work_item_id") in never
        if named is None or cancelled:
            continue
        told = _told(named, entry)
        if told is None:
            others += entry.event in _SENTENCES
            continue
        key, text = told
        before = found.get(key)
        found[key] = (before[0], before[1] + 1) if before else (f"{text} ({at(_moment(entry))})", 1)
    counted = {key: key.startswith(_SAID) for key in found}
    lines = [
        f"- {text}, {count} times" if count > 1 and counted[key] else f"- {text}"
        for key, (text, count) in found.items()
    ]
    return lines, others


def _moment(entry: AuditEntry) -> datetime:
    return parse_timestamp(entry.at)


_SAID = "said "
_MANNERS = frozenset(
    {
        "approval_issued",
        "card_asked",
        "card_decided",
        "goal_task_spawned",
        "question_answered",
        "record_changes_decided",
        "record_changes_proposed",
        "stream_started",
        "stream_stopped",
        "work_resumed",
    }
)
"""How something came about, or the owner's own doing: Activity has it."""
_WITHOUT_IDS: Mapping[str, str] = MappingProxyType(
    {
        "device_revoked": "A device was revoked.",
    }
)
_OUTCOMES: Mapping[str, str] = MappingProxyType(
    {
        "plan_declined": "declined",
        "work_attempt_ended": "failed",
        "work_cancelled": "stopped",
        "work_expired": "not begun, nobody decided in time",
        "work_interrupted": "interrupted",
        "work_paused": "paused",
        "work_replaced": "sent back for changes",
        "work_waits": "waiting for your decision",
    }
)


_NEVER_BEGUN = frozenset({"plan_declined", "work_expired", "work_replaced"})


def _told(named: AuditEntry, entry: AuditEntry) -> tuple[str, str] | None:
    """What an entry is about, and a line for it; None for what is only counted."""
    event = entry.event
    if event in _MANNERS or event not in _SENTENCES:
        return None
    work = entry.data.get("work_item_id")
    if isinstance(work, str) and (event in _OUTCOMES or event in _ENDED or event == "goal_checked"):
        title = named.data["work_item_id"]
        return f"work {work}", f"{title if title != work else 'Something'}: {_outcome(named)}"
    sentence = _WITHOUT_IDS.get(event) or sentence_of(named) or ""
    return f"{_SAID}{sentence}", sentence.removesuffix(".")


def _outcome(entry: AuditEntry) -> str:
    if entry.event in _ENDED:
        return f"{_ending(entry.data)}{_files(entry.data)}"
    return _OUTCOMES[entry.event] if entry.event in _OUTCOMES else _health(entry.data)


def sentence_of(entry: AuditEntry) -> str | None:
    """The entry in words; None for one that is only counted."""
    sentence = _SENTENCES.get(entry.event)
    if sentence is None:
        return None
    told = visible(sentence.format_map(_Known(_in_words(entry))), keep_newlines=False)
    return _HASH.sub(r"\1…", told)[:_LONGEST]


def _in_words(entry: AuditEntry) -> dict[str, Any]:
    """The details, with names of the code as people say them."""
    words: dict[str, Mapping[str, str]] = {
        "journal_changed": _WISHES,
        "memory_changed": _MEMORY_OPS,
        "companion_wrote": TOOLS,
        "card_decided": _VERDICTS,
        "paused_call_decided": _VERDICTS,
    }
    known = words.get(entry.event, {})
    data = {name: known.get(str(value), value) for name, value in entry.data.items()}
    if entry.event == _CHECKED:
        data["health"] = _health(entry.data)
    if entry.event in _ENDED:
        data |= {"ending": _ending(entry.data), "files": _files(entry.data)}
    if entry.event == "companion_made":
        data["kind"] = str(entry.data["kind"]).replace("_", " ")
    if entry.event == "files_read":
        data["files"] = _counted([str(each) for each in entry.data["files"]])
    return data


def tone_of(entry: AuditEntry) -> str:
    """Whether it is good news or bad: `good`, `bad`, or neither."""
    if entry.event == _CHECKED:
        return "good" if entry.data.get("passed") else "bad"
    if entry.event == "card_decided":
        return "good" if entry.data.get("verdict") == "approved" else ""
    if entry.event in _GOOD:
        return "good"
    return "bad" if entry.event in _BAD else ""


def _health(data: Mapping[str, Any]) -> str:
    """How what is watched was found; names of checks are a plan's words."""
    if "passed" not in data:
        return "was checked"
    failed = ", ".join(map(str, data.get("failed") or ()))
    return "works" if data["passed"] else f"does not work: {failed or 'a check failed'}"


def _ending(data: Mapping[str, Any]) -> str:
    """Entries that name no files are older than the status `unchecked`: nothing more is known."""
    if data.get("status") == "unchecked":
        return "done, not checked"
    return "done, and checked" if data.get("status") == "done" and _CHANGES in data else "done"


def _files(data: Mapping[str, Any]) -> str:
    """How many files were added, changed and removed, with the first names of each."""
    found: dict[ChangeKind, list[str]] = {}
    for each in data.get(_CHANGES) or ():
        change = FileChange(path=each["path"], before=each["before"], after=each["after"])
        found.setdefault(change.kind, []).append(change.path)
    told = [
        f"{kind.value} {_counted(found[kind])}" for kind in reversed(ChangeKind) if kind in found
    ]
    return f": {'; '.join(told)}" if told else ""


def _counted(paths: Sequence[str]) -> str:
    shown, more = paths[:_MOST_NAMES], len(paths) - _MOST_NAMES
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


class _Known(dict[str, Any]):
    """The details of an entry; what is not there is said so."""

    def __missing__(self, key: str) -> str:
        return {"card": _UNTITLED, "how": ""}.get(key, "something")
