"""The offline brain of companions: a few fixed rules for each kind, and nothing pretended.

It sees what a model would see, and proposes what the facts plainly suggest. The report is made from
the template. What it does not understand it says so, and asks nobody else.

What it understands when it is spoken to, in this order:

1. Time: "log 45 minutes on TASK", "log an hour on TASK", "log 16:00-18:00 on TASK". "It" is the
   task that was just asked about, or the only one that has just changed. "How long …?" is also
   answered by a time alone.
2. An answer to its own "Which of these do you mean?": the choice takes the place of the name.
3. What comes next, what is open, what is overdue, how much time went where: read from the facts.
4. A goal or a wish for later ("my goal is …", "remember that …"): kept as it was said, told when
   it is asked for, and let go with "forget that …", "forget my goal".
5. What it was asked before ("why did we …?"): the lines of its own memory that fit.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from silas.companions.models import AgentActionType, AgentInteractionType
from silas.companions.ports import (
    CompanionProposal,
    CompanionQuestion,
    CompanionRequest,
    ProposedAction,
)
from silas.companions.words import OwnersWish, meant_wishes, owners_wish
from silas.kernel.errors import TimeNotUnderstood
from silas.kernel.when import parse_minutes

OFFLINE_MODEL = "offline:brain"
_MOST = 5
_SPENT = re.compile(
    r"(?:log|add|record)\s+(?P<spent>.{1,40}?)\s+(?:on|for|to|of)\s+(?P<task>.+)", re.IGNORECASE
)
_FROM_TO = re.compile(
    r"(?:log|add|record)\s+(?P<from>\d{1,2}:\d{2})\s*(?:-|to|until)\s*(?P<to>\d{1,2}:\d{2})\s+"
    r"(?:on|for|to|of)\s+(?P<task>.+)",
    re.IGNORECASE,
)
_START = re.compile(r"(?:start|begin|focus on|work on)\s+(?P<task>.+)", re.IGNORECASE)
_STOP = re.compile(r"(?:stop|pause|break|done|finished)\b", re.IGNORECASE)
_FOCUS_MINUTES = 25
_ABOUT = re.compile(r"\s*(?:about|some|roughly)\s+", re.IGNORECASE)
_MOST_MINUTES = 24 * 60
_QUOTED = re.compile(r"“(?P<title>[^”]+)”")
ASKED = "asked: "
"""How a question that waits for an answer begins among what is open."""
_IT = frozenset({"it", "this", "that", "them"})
_HOW_LONG = "How long did"
_WHICH = "Which of these do you mean by “"
_NEXT = re.compile(r"\b(?:next|today|now|should i|shall i|plan my|to do|todo)\b", re.IGNORECASE)
_KEEPS = re.compile(
    r"\bwhat (?:do you (?:keep|know about me)|is (?:my|your|the) goal|are my (?:wishes|goals))\b",
    re.IGNORECASE,
)
_OPEN = re.compile(r"\b(?:open|left|remaining|list|tasks)\b", re.IGNORECASE)
_LATE = re.compile(r"\b(?:overdue|late|missed)\b", re.IGNORECASE)
_TIME = re.compile(r"\b(?:how (?:much|long)|time|minutes|hours)\b", re.IGNORECASE)
_BEFORE = re.compile(
    r"\b(?:why|how come|what made|when did|what did|did (?:i|we|you)|have (?:i|we|you)|remember|"
    r"last time|ago)\b",
    re.IGNORECASE,
)
_NOT_UNDERSTOOD = (
    "Without a model I understand: log 45 minutes on TASK, log 16:00-18:00 on TASK, what comes "
    "next, what is open, what is overdue, how much time, why did we …, my goal is …, remember "
    "that …, forget that …, what do you keep."
)
_NO_TASK = (
    "I found no single task of this name in what I may see. Say its name as the journal has it, or "
    "write the time down there."
)
_NONE_OPEN = "Nothing is open in what I may see."
_MOST_LISTED = 6


class OfflineBrain:
    """`CompanionModel` by rules: the same request always has the same answer."""

    async def propose(self, request: CompanionRequest) -> CompanionProposal:
        """What the rules of the kind say."""
        rules = _RULES.get(request.offline_rules, _nothing)
        actions = tuple(rules(request.payload))[:_MOST]
        return CompanionProposal(
            actions=actions, thought=_words(request, actions), model_id=OFFLINE_MODEL
        )


def _words(request: CompanionRequest, actions: tuple[ProposedAction, ...]) -> str:
    """What it says: to whoever has spoken to it an answer, else only what it proposes."""
    payload = request.payload
    if any(each.tool_name == "resolve_task_reference" for each in actions):
        return ""  # it looks first
    proposed = [each for each in actions if each.tool_name]
    if proposed:
        return " ".join(dict.fromkeys(each.reason for each in proposed))
    if actions or not _said(payload):
        return ""
    return _answer(payload)


def _answer(payload: Mapping[str, Any]) -> str:
    """Rules 3 to 5."""
    said, recalled = _said(payload), _recalled(payload)
    if kept := payload.get("wake", {}).get("kept"):
        return f"I keep that: {kept}"
    if _request_of(payload) is not None:
        return _NO_TASK
    wish = owners_wish(said)
    if wish is not None or _KEEPS.search(said):
        return _kept(payload, wish)
    if _BEFORE.search(said) and recalled:
        return "What I have about that:\n" + "\n".join(f"- {each}" for each in recalled[:3])
    return next((make(payload) for asked, make in _ANSWERS if asked.search(said)), _NOT_UNDERSTOOD)


def _kept(payload: Mapping[str, Any], let_go: OwnersWish | None) -> str:
    """What the owner has told it to keep, or what of that it keeps no longer."""
    slots = payload.get("slots", {})
    goal, wishes = slots.get("primary_goal"), list(map(str, slots.get("preferences") or ()))
    going = meant_wishes(let_go.value, goal, wishes) if let_go is not None else []
    if going:
        return f"I do not keep that any more: {'; '.join(going)}"
    lines = [f"- your goal: {goal}"] if goal else []
    lines += [f"- {each}" for each in wishes]
    told = "\n".join(["I keep:", *lines]) if lines else "I keep nothing that you have told me."
    return told if let_go is None else f"Nothing that I keep is like that. {told}"


def _recalled(payload: Mapping[str, Any]) -> list[str]:
    found = payload.get("memory", {}).get("recalled", ())
    return [f"{each.get('at', '')}: {each.get('text', '')}" for each in found]


def _late_ones(payload: Mapping[str, Any]) -> list[dict[str, Any]]:
    now = datetime.fromisoformat(payload["now"])
    return [each for each in _facts(payload, "task") if _is_late(each, now)]


def _open_ones(payload: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [each for each in _facts(payload, "task") if _is_open(each)]


def _next_ones(payload: Mapping[str, Any]) -> str:
    late = _late_ones(payload)
    first = sorted(
        _open_ones(payload), key=lambda each: (str(each.get("due_at") or "9"), each["title"])
    )
    return _listed("Next", [*late, *(each for each in first if each not in late)]) or _NONE_OPEN


def _listed(head: str, tasks: list[dict[str, Any]]) -> str:
    names = [
        f"“{each['title']}”" + (f" (due {str(each['due_at'])[:10]})" if each.get("due_at") else "")
        for each in tasks[:_MOST_LISTED]
    ]
    more = f" and {len(tasks) - _MOST_LISTED} more" if len(tasks) > _MOST_LISTED else ""
    return f"{head}: {', '.join(names)}{more}." if names else ""


def _spent(payload: Mapping[str, Any]) -> str:
    timed = [each for each in _facts(payload, "task") if each.get("logged_minutes")]
    lines = [f"“{each['title']}”: {each['logged_minutes']} minutes" for each in timed]
    lines += [
        f"{each.get('name') or each.get('title') or 'all of it'}: {each['minutes']} minutes"
        for each in _facts(payload, "time")
        if each.get("minutes")
    ]
    return "; ".join(lines[:_MOST_LISTED]) + "." if lines else "No time is written down yet."


_ANSWERS: tuple[tuple[re.Pattern[str], Callable[[Mapping[str, Any]], str]], ...] = (
    (_LATE, lambda payload: _listed("Overdue", _late_ones(payload)) or "Nothing is overdue."),
    (_TIME, _spent),
    (_NEXT, _next_ones),
    (_OPEN, lambda payload: _listed("Open", _open_ones(payload)) or _NONE_OPEN),
)


def _is_open(task: Mapping[str, Any]) -> bool:
    return task.get("status") not in ("done", "rejected")


def _nothing(payload: Mapping[str, Any]) -> Iterator[ProposedAction]:
    yield from _logged(payload)


def _planner(payload: Mapping[str, Any]) -> Iterator[ProposedAction]:
    """A task is done, but steps of it are open: they go on in a follow-up."""
    yield from _logged(payload)
    for task in _facts(payload, "task"):
        left = task.get("open_item_count", 0)
        if not (task.get("changed") and task.get("status") == "done" and left):
            continue
        if task.get("has_follow_up"):
            continue
        yield ProposedAction(
            action_type=AgentActionType.TOOL_CALL,
            tool_name="create_follow_up_task",
            arguments={
                "source_task_id": task["id"],
                "new_task_title": f"{task['title']} (follow-up)"[:500],
                "carry_over_open_checklist_items": True,
                "preserve_category_and_labels": True,
            },
            reason=f"“{task['title']}” is done, and {left} of its steps are still open.",
        )


def _gym_coach(payload: Mapping[str, Any]) -> Iterator[ProposedAction]:
    """A session without a time is asked about; after the last one the next is proposed."""
    if _said(payload):
        yield from _logged(payload)
        return
    tasks = _facts(payload, "task")
    done = [each for each in tasks if each.get("changed") and each.get("status") == "done"]
    for task in done:
        if not task.get("logged_minutes_last_days"):
            asked = f"How long did “{task['title']}” take? For example: log 45 minutes on it."
            yield ProposedAction(
                action_type=AgentActionType.ASK_USER,
                question=CompanionQuestion(
                    interaction_type=AgentInteractionType.FREE_TEXT, prompt_text=asked[:2000]
                ),
                reason="The session has no time yet.",
            )
    still_open = [each for each in tasks if each.get("status") not in ("done", "rejected")]
    if done and not still_open:
        yield ProposedAction(
            action_type=AgentActionType.TOOL_CALL,
            tool_name="create_task",
            arguments={"category_id": done[0]["category_id"], "title": "Next training session"},
            reason="Nothing is planned after the last session.",
        )


def _strategist(payload: Mapping[str, Any]) -> Iterator[ProposedAction]:
    """What is overdue is named; with a yes it moves by a week."""
    said = list(_logged(payload))
    yield from said
    now = datetime.fromisoformat(payload["now"])
    late = [task for task in _facts(payload, "task") if _is_late(task, now)][: _MOST - 1]
    if not late:
        return
    named = ", ".join(f"“{task['title']}”" for task in late)
    yield ProposedAction(
        action_type=AgentActionType.PROPOSE_PLAN,
        question=CompanionQuestion(prompt_text=f"{named}: overdue. Move them by a week?"[:2000]),
        reason="A due date that has passed says nothing any more.",
    )
    for task in late:
        yield ProposedAction(
            action_type=AgentActionType.TOOL_CALL,
            tool_name="update_task_due_date",
            arguments={"task_id": task["id"], "due_at": (now + timedelta(days=7)).isoformat()},
            after=(len(said),),
            reason="Agreed with the owner.",
        )


def _pomodoro(payload: Mapping[str, Any]) -> Iterator[ProposedAction]:
    """A word starts and stops the timer; after twenty-five minutes a break is asked about, once."""
    said, candidates = _command(payload), _facts(payload, "candidate")
    wanted = _START.match(said)
    if _STOP.match(said):
        if not payload.get("results"):
            yield _tool("stop_task_timer", {}, "The timer is stopped, as you have said.")
    elif wanted is not None:
        # Who answers which one is meant has said its name.
        chosen = _said(payload) if said != _said(payload) else wanted["task"]
        reference = chosen.strip(" .!“”\"'")[:500]
        task = _certain(candidates, reference)
        if not candidates and not payload.get("results"):
            yield _tool("resolve_task_reference", {"reference": reference}, "A task was named.")
        elif task is not None:
            told = f"The timer runs for “{task['title']}”, as you have said."
            yield _tool("start_task_timer", {"task_id": task["id"]}, told)
        else:
            yield from _which(said, candidates)
    elif said:
        yield from _logged(payload)
    else:
        yield from _break(payload)


def _break(payload: Mapping[str, Any]) -> Iterator[ProposedAction]:
    titles = {each["id"]: each["title"] for each in _facts(payload, "task")}
    for entry in _facts(payload, "time_entry"):
        minutes = int(entry.get("minutes") or 0)
        if entry.get("ends_at") is not None or minutes < _FOCUS_MINUTES:
            continue
        named = f"“{titles.get(entry.get('task_id'), 'It')}” has run for {minutes} minutes"
        yield ProposedAction(
            action_type=AgentActionType.ASK_USER,
            question=CompanionQuestion(prompt_text=f"{named}. A break?"[:2000]),
            reason="A stretch of focus is over.",
        )
        stop = _tool("stop_task_timer", {}, "Agreed with the owner.")
        yield stop.model_copy(update={"after": (0,)})
        return


def _task_keeper(payload: Mapping[str, Any]) -> Iterator[ProposedAction]:
    """What is finished is proposed to be closed; an estimate that did not hold is corrected."""
    yield from _logged(payload)
    for task in _facts(payload, "task"):
        if task.get("status") in ("done", "rejected"):
            continue
        spent, estimate = task.get("logged_minutes_last_days") or 0, task.get("estimate_minutes")
        if task.get("done_item_count") and not task.get("open_item_count"):
            told = f"Every step of “{task['title']}” is done."
            yield _tool("conclude_task_with_rollover", {"task_id": task["id"]}, told)
        elif estimate and spent > estimate:
            told = f"“{task['title']}” has taken {spent} minutes; {estimate} were expected."
            arguments = {"task_id": task["id"], "estimate_minutes": spent}
            yield _tool("update_task_estimate", arguments, told)


def _tool(name: str, arguments: dict[str, Any], reason: str) -> ProposedAction:
    return ProposedAction(
        action_type=AgentActionType.TOOL_CALL,
        tool_name=name,
        arguments=arguments,
        reason=reason[:2000],
    )


def _logged(payload: Mapping[str, Any]) -> Iterator[ProposedAction]:
    """`log 45 minutes on squats`: first the task is looked up, then, if it is certain, written."""
    request = _request_of(payload)
    if request is None:
        return
    found, reference = request
    if reference is None:
        yield from _which(_said(payload), _asked_about(payload) or _touched(payload))
        return
    candidates = _facts(payload, "candidate")
    if not candidates and not payload.get("results"):
        yield ProposedAction(
            action_type=AgentActionType.TOOL_CALL,
            tool_name="resolve_task_reference",
            arguments={"reference": reference[:500]},
            reason="The owner has named a task.",
        )
        return
    task = _certain(candidates, reference)
    if task is None:
        yield from _which(_command(payload), candidates)
        return
    start, end = _span(found, datetime.fromisoformat(payload["now"]))
    minutes = round((end - start).total_seconds() / 60)
    yield ProposedAction(
        action_type=AgentActionType.TOOL_CALL,
        tool_name="create_retrospective_time_entry",
        arguments={
            "task_id": task["id"],
            "started_at": start.isoformat(),
            "ended_at": end.isoformat(),
            "description": "",
        },
        reason=f"{minutes} minutes on “{task['title']}”, as you have said.",
    )


def _request_of(
    payload: Mapping[str, Any],
) -> tuple[Mapping[str, str | None], str | None] | None:
    """The time that is to be written down, and the name of its task; None if nothing is.

    The name is None where "it" could be several.
    """
    command, question = _command(payload), _answered_question(payload)
    named = _spent_on(command)
    if named is None:
        minutes = _minutes(command)
        title = _QUOTED.search(question) if question.startswith(_HOW_LONG) else None
        return ({"minutes": str(minutes)}, title["title"]) if minutes and title else None
    span, task = named
    chosen = _said(payload) if question.startswith(_WHICH) else None
    reference = chosen or task
    if reference.casefold() not in _IT:
        return span, reference
    title = _QUOTED.search(question)
    meant = [str(each["title"]) for each in _asked_about(payload) or _touched(payload)]
    known = title["title"] if title else meant[0] if len(meant) == 1 else None
    return span, known


def answers_how_long(question: str, words: str) -> bool:
    """Whether these words are an answer to "How long did … take?": a time alone, or on "it"."""
    if not question.startswith(_HOW_LONG):
        return False
    named = _spent_on(words)
    return named[1].casefold() in _IT if named is not None else _minutes(words) is not None


def _spent_on(words: str) -> tuple[Mapping[str, str | None], str] | None:
    """The time in "log 45 minutes on TASK" or "log 16:00-18:00 on TASK", and the task."""
    match = _SPENT.search(words)
    minutes = _minutes(match["spent"]) if match is not None else None
    span: Mapping[str, str | None] = {"minutes": str(minutes)}
    if minutes is None:
        match = _FROM_TO.search(words)
        span = match.groupdict() if match is not None else {}
    return (span, match["task"].strip(" .!“”\"'")) if match is not None else None


def _minutes(words: str) -> int | None:
    """How many minutes these words are, if they are nothing else."""
    try:
        found = parse_minutes(_ABOUT.sub("", words.strip(" .!"), count=1))
    except TimeNotUnderstood:
        return None
    return found if found <= _MOST_MINUTES else None


def _command(payload: Mapping[str, Any]) -> str:
    """What is to be done, in the owner's words: also where they only answer which one is meant."""
    question = _answered_question(payload)
    if question.startswith(_WHICH):
        quoted = _QUOTED.search(question)
        return quoted["title"] if quoted else ""
    return _said(payload)


def _answered_question(payload: Mapping[str, Any]) -> str:
    """The question that these words are the answer to; empty if they are none."""
    answers = payload.get("wake", {}).get("answers") or []
    last = answers[-1] if answers else {}
    same = str(last.get("answer", "")).strip() == _said(payload).strip()
    return str(last.get("question", "")) if same else ""


def _asked_about(payload: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tasks of the questions after a time that are still open."""
    open_ones = map(str, payload.get("slots", {}).get("open_loops") or ())
    asked = [each.removeprefix(ASKED) for each in open_ones if each.startswith(ASKED)]
    titles = [_QUOTED.search(each) for each in asked if each.startswith(_HOW_LONG)]
    return [{"title": each["title"]} for each in titles if each is not None]


def _touched(payload: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tasks that have just changed; else those that are open."""
    tasks = _facts(payload, "task")
    return [each for each in tasks if each.get("changed")] or [
        each for each in tasks if _is_open(each)
    ]


def _certain(candidates: list[dict[str, Any]], reference: str) -> dict[str, Any] | None:
    """The one task that is meant: its whole name was said, or the tool is certain of it."""
    same = [each for each in candidates if str(each["title"]).casefold() == reference.casefold()]
    if len(same) == 1:
        return same[0]
    return candidates[0] if candidates and candidates[0].get("certain") else None


def _which(command: str, candidates: list[dict[str, Any]]) -> Iterator[ProposedAction]:
    titles = tuple(dict.fromkeys(str(each["title"])[:200] for each in candidates))
    if not titles:
        return
    yield ProposedAction(
        action_type=AgentActionType.ASK_USER,
        question=CompanionQuestion(
            interaction_type=AgentInteractionType.MULTI_CHOICE,
            prompt_text=f"{_WHICH}{command[:500]}”?",
            options=titles[:10],
        ),
        reason="Several tasks fit; nothing is written on a guess.",
    )


def _span(said: Mapping[str, str | None], now: datetime) -> tuple[datetime, datetime]:
    if said.get("minutes"):
        return now - timedelta(minutes=int(said["minutes"] or 0)), now
    start, end = (_at(str(said[name]), now) for name in ("from", "to"))
    return (start, end) if start < end else (start - timedelta(days=1), end)


def _at(text: str, now: datetime) -> datetime:
    hour, _, minute = text.partition(":")
    return now.replace(hour=int(hour) % 24, minute=int(minute) % 60)


def _is_late(task: Mapping[str, Any], now: datetime) -> bool:
    at = task.get("due_at")
    return _is_open(task) and isinstance(at, str) and datetime.fromisoformat(at) < now


def _said(payload: Mapping[str, Any]) -> str:
    return str(payload.get("wake", {}).get("said") or "")


def _facts(payload: Mapping[str, Any], kind: str) -> list[dict[str, Any]]:
    return [each for each in payload.get("facts", ()) if each.get("kind") == kind]


_RULES: Mapping[str, Callable[[Mapping[str, Any]], Iterator[ProposedAction]]] = {
    "planner": _planner,
    "gym_coach": _gym_coach,
    "strategist": _strategist,
    "pomodoro": _pomodoro,
    "task_keeper": _task_keeper,
    "report_only": _nothing,
}
