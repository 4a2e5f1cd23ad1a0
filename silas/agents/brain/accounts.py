"""Accounts without a model: what can be said about mail, calendars and CI, and the plans for it.

The brain finds, shows and moves, and sends the words that it is told. It words nothing itself: for
an answer in other words than the owner's, there is a model. What it needs of an account, the
runtime looks up (`silas.stream.accounts`); the plan then holds every value as it will be used.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

import yaml

from silas.agents.brain.intents import (
    AccountChange,
    AnswerMail,
    ConnectAccount,
    LookAtAccount,
    MoveEvent,
)
from silas.agents.brain.phrases import LINE, Phrase, always, never, pattern, text_of, wish
from silas.journal.conversation import JournalOpType
from silas.kernel.when import MOMENT_WORDS, parse_schedule, spans_in_words
from silas.stream.accounts import BRIEFING

_MAILS = r"(?:e-?)?mails?"
_ARTICLES = r"(?:(?:the|my|all|any|an?|last|latest)\s+)*"
_WHERE = (
    r"(?:\s+in\s+(?:my\s+|the\s+)?(?P<account>[\w@.:-]+)(?:\s+(?:account|mail|mailbox|calendar))?)?"
)
_FROM = r"(?:\s+(?:from|of|in)\s+(?P<origin>[^\n?]+?))?"
_PAPERS = (
    r"(?P<words>(?:[\w-]+\s+)?(?:invoice|receipt|bill|ticket|booking|order|statement|newsletter|"
    r"confirmation|contract|itinerary)s?)"
)
_WHEN = rf"(?P<when>this\s+week|next\s+week|{MOMENT_WORDS})"
_KINDS = {"mailbox": "mail", "email": "mail", "e-mail": "mail"}
_BUDGET = {"max_attempts": 1, "max_wall_time_seconds": 300}


def _mail(tool: str, found: re.Match[str], **more: Any) -> LookAtAccount:
    said = found.groupdict()
    args = {"words": said.get("words"), "account": said.get("account"), **more}
    origin = said.get("origin")
    if origin is not None:
        args["period" if spans_in_words(origin) else "sender"] = origin.strip()
    return LookAtAccount(tool, _given(args))


def _given(args: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in args.items() if value is not None}


def _calendar(found: re.Match[str]) -> LookAtAccount:
    args = {"when": found["when"], "account": found["account"]}
    return LookAtAccount("look_at_calendar", _given(args))


def _answer(found: re.Match[str]) -> AnswerMail | None:
    text, who = (found["text"] or "").strip(), found["who"]
    if not text:
        return None
    if who is not None and who.lower() in ("it", "that", "this", "the mail", "that mail", "him"):
        who = None
    whole = text[0].upper() + text[1:]
    return AnswerMail(whole if whole[-1] in ".!?" else f"{whole}.", who)


ACCOUNT_PHRASES: tuple[Phrase, ...] = (
    Phrase(
        name="be briefed regularly",
        pattern=pattern(
            r"(?:brief\s+me|(?:give|send|tell)\s+me\s+(?:a|my|the)\s+(?:morning\s+)?briefing)"
            r"\s+(?P<every>every\b[^\n]+?|daily[^\n]*?)"
        ),
        meaning=lambda found: (
            wish(JournalOpType.REMIND, title=BRIEFING, every=found["every"])
            if parse_schedule(found["every"])
            else None
        ),
        match=("Brief me every morning at 7:30", "send me a briefing every weekday at 8:00"),
        not_match=("brief me every now and then",),
        exact=always,
    ),
    Phrase(
        name="be briefed",
        pattern=pattern(
            r"(?:brief\s+me(?:\s+now)?|(?:what(?:'s|\s+is)|give\s+me|show\s+me)\s+(?:a|my|the)\s+"
            r"(?:morning\s+)?briefing)"
        ),
        meaning=lambda _found: LookAtAccount("briefing", {}),
        match=("Brief me", "give me my briefing"),
        not_match=("brief me on physics",),
        exact=always,
    ),
    Phrase(
        name="stop the briefing",
        pattern=pattern(
            r"(?:(?:stop|cancel|end)\s+(?:(?:the|my)\s+)?(?:morning\s+)?briefings?|"
            r"no\s+more\s+briefings?|stop\s+briefing\s+me)"
        ),
        meaning=lambda _found: wish(JournalOpType.CANCEL_REMINDER, task=BRIEFING),
        match=("Stop the briefing", "no more briefings"),
        not_match=("stop the timer",),
        exact=always,
    ),
    Phrase(
        name="look into the inbox",
        pattern=pattern(
            r"(?:(?:what(?:'s|\s+is)\s+in|show(?:\s+me)?|check|read|look\s+into)\s+my\s+"
            rf"(?:inbox|{_MAILS}|mailbox){_WHERE}|"
            rf"(?:do\s+i\s+have\s+|is\s+there\s+|have\s+i\s+got\s+)?(?:any\s+)?(?P<new>new|unread)\s+{_MAILS})"
        ),
        meaning=lambda found: _mail("find_mail", found, unread=True if found["new"] else None),
        match=("What's in my inbox?", "check my mail", "any new mail?", "do I have unread mails?"),
        not_match=("what's in my bag?",),
        exact=always,
        near=re.compile(r"\binbox\b", re.IGNORECASE),
    ),
    Phrase(
        name="find mail",
        pattern=pattern(
            rf"(?:find|search(?:\s+for)?|look\s+for|list|show)\s+(?:me\s+)?{_ARTICLES}{_MAILS}"
            rf"(?:\s+(?:about|with)\s+(?P<words>[^\n]+?))?(?:\s+from\s+(?P<origin>[^\n?]+?))?{_WHERE}"
        ),
        meaning=lambda found: _mail("find_mail", found),
        match=(
            "Find the mails about the contract",
            "find mails from Ann",
            "search for mails with invoice from last week in Office",
        ),
        not_match=("find the mailman", "show mailboxes"),
        exact=always,
        near=re.compile(rf"\bfind\b.*\b{_MAILS}\b", re.IGNORECASE),
    ),
    Phrase(
        name="find something in mail",
        pattern=pattern(
            r"(?:find|search\s+for|look\s+for|where\s+is|where\s+are)\s+(?:me\s+)?"
            rf"(?:the|my|an?|all)\s+{_PAPERS}{_FROM}"
        ),
        meaning=lambda found: _mail("find_mail", found),
        match=("Find the invoice from March", "where is the booking confirmation from Ann"),
        not_match=("find the keys", "find my phone"),
        exact=never,
    ),
    Phrase(
        name="read a mail",
        pattern=pattern(
            rf"(?:read|open|show)\s+(?:me\s+)?{_ARTICLES}(?:newest\s+)?{_MAILS}"
            rf"(?:\s+about\s+(?P<words>[^\n]+?))?\s+from\s+(?P<origin>[^\n?]+?){_WHERE}"
        ),
        meaning=lambda found: _mail("read_mail", found),
        match=("Read the mail from Ann", "open the last mail from ann@example.org in Office"),
        not_match=("read the mail", "read me a story"),
        exact=always,
    ),
    Phrase(
        name="read that mail",
        pattern=pattern(rf"(?:read|open|show)\s+(?:me\s+)?(?:that|this|the)\s+{_MAILS}"),
        meaning=lambda _found: LookAtAccount("read_mail", {}),
        match=("Read that mail",),
        not_match=("read that book",),
        exact=always,
    ),
    Phrase(
        name="answer a mail",
        pattern=pattern(
            r"(?:answer|reply)(?:\s+(?:to\s+)?(?P<who>it|this|him|(?:that|the)\s+mail|"
            r"(?!that\b|with\b|saying\b)[\w@.-]+(?:\s+[A-Z]\w+)?))?"
            r"(?:\s*:\s*|\s+(?:that|with|saying)\s+)(?P<text>.+?)"
        ),
        meaning=_answer,
        match=("Answer that Tuesday is fine", "reply to Ann that Tuesday is fine", "answer: yes!"),
        not_match=("answer the question", "reply"),
        # How it is worded is what a model is good at.
        exact=never,
        near=re.compile(r"\b(?:answer|reply)\b", re.IGNORECASE),
    ),
    Phrase(
        name="look at the calendar",
        pattern=pattern(
            r"(?:what(?:'s|\s+is|\s+do\s+i\s+have)\s+(?:on|in)\s+my\s+(?:calendar|agenda)|"
            r"(?:show|check)\s+(?:me\s+)?my\s+(?:calendar|agenda)|"
            r"(?:what|which)\s+(?:appointments|meetings|events)\s+do\s+i\s+have)"
            rf"{_WHERE}(?:\s+(?:for\s+|on\s+)?{_WHEN})?"
        ),
        meaning=_calendar,
        match=(
            "What's on my calendar tomorrow?",
            "show my calendar for next week",
            "what meetings do I have on Friday?",
        ),
        not_match=("what's on my mind tomorrow?",),
        exact=always,
        near=re.compile(r"\bcalendar\b|\bappointments?\b", re.IGNORECASE),
    ),
    Phrase(
        name="move an event",
        pattern=pattern(
            rf"(?:move|reschedule|shift|postpone)\s+(?:my|the)\s+{text_of('what', LINE)}"
            rf"(?:\s+(?:appointment|meeting|event))?\s+to\s+{_WHEN}"
        ),
        meaning=lambda found: MoveEvent(
            next(value for name, value in found.groupdict().items() if name != "when" and value),
            found["when"],
        ),
        match=("Move my dentist to next week", "reschedule the review meeting to Friday at 10:00"),
        not_match=("move my file to /tmp", "move to Berlin next week"),
        exact=always,
    ),
    Phrase(
        name="say what failed in CI",
        pattern=pattern(
            r"(?:what\s+(?:has\s+)?failed\s+in\s+(?:the\s+)?ci|why\s+(?:is|did)\s+(?:the\s+)?ci\s+"
            r"(?:red|fail)|did\s+(?:the\s+)?ci\s+fail)"
            r"(?:\s+(?:of|for|in|at)\s+(?P<repository>[\w.-]+/[\w.-]*\w))?"
        ),
        meaning=lambda found: LookAtAccount(
            "failed_ci", _given({"repository": found["repository"]})
        ),
        match=("What failed in CI?", "what failed in CI of octo/app"),
        not_match=("what failed in class?",),
        exact=always,
        near=re.compile(r"\bci\b", re.IGNORECASE),
    ),
    Phrase(
        name="connect an account",
        pattern=pattern(
            r"connect\s+(?:(?:my|a|an|the)\s+)?(?P<kind>mailbox|e-?mail|mail|calendar|github)"
            r"(?:\s+account)?"
        ),
        meaning=lambda found: ConnectAccount(
            _KINDS.get(found["kind"].lower(), found["kind"].lower())
        ),
        match=("Connect my mail", "connect GitHub"),
        not_match=("connect the dots",),
        exact=always,
    ),
)


def call_for_change(change: AccountChange) -> tuple[str, dict[str, Any]]:
    """What is looked up before a change can be planned."""
    match change:
        case AnswerMail(who=who):
            return "mail_to_answer", _given({"sender": who})
        case MoveEvent(what, to):
            return "event_to_move", {"what": what, "to": to}


def plan_for_change(change: AccountChange, looked_up: str, *, plan_id: str) -> str:
    """The plan as markdown: one call, as it will be made. Raises `ValueError`."""
    facts = json.loads(looked_up)
    match change:
        case AnswerMail(text):
            title = f"Answer {facts['name']}"
            skill, tool = "mail", "mail_send"
            args = {
                "to": [facts["to"]],
                "subject": facts["subject"],
                "text": text,
                "answer_to": facts["answer_to"],
            }
            what = f"Send this mail from {facts['account']}."
        case MoveEvent():
            title = f"Move {facts['title']} to {facts['becomes']}"
            skill, tool = "calendar", "calendar_move"
            args = {name: facts[name] for name in ("event", "start", "end")}
            what = f"It is {facts['was']} in {facts['account']}, and becomes {facts['becomes']}."
    call = json.dumps({**args, "account": facts["account"]}, ensure_ascii=False, indent=2)
    head = {
        "id": plan_id,
        "type": "task",
        "title": " ".join(title.split())[:120],
        "skills": [skill],
        "interaction_mode": "act_and_report",
        "budget": _BUDGET,
        "on_stuck": "report",
        "script": True,
        "without_proof": True,
        "approvals": [{"tool": tool, "as_written": True, "most": 1}],
    }
    front = yaml.safe_dump(head, sort_keys=False, allow_unicode=True, width=1000)
    ticks = "````" if "```" in call else "```"
    return (
        f"---\n{front}---\n\n# What to do\n\n{what}\n\n{ticks}call tool={tool}\n{call}\n{ticks}\n"
    )
