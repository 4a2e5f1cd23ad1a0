"""The offline brain of companions: a few fixed rules for each kind, and nothing pretended.

It sees what a model would see, and proposes what the facts plainly suggest. The report is made from
the template. What it does not understand it says so, and asks nobody else.
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

OFFLINE_MODEL = "offline:brain"
_MOST = 5
_SPENT = re.compile(
    r"(?:log|add|record)\s+(?P<minutes>\d{1,3})\s*(?:minutes?|min|m)\s+(?:on|for|to|of)\s+(?P<task>.+)",
    re.IGNORECASE,
)
_FROM_TO = re.compile(
    r"(?:log|add|record)\s+(?P<from>\d{1,2}:\d{2})\s*(?:-|to|until)\s*(?P<to>\d{1,2}:\d{2})\s+"
    r"(?:on|for|to|of)\s+(?P<task>.+)",
    re.IGNORECASE,
)
_NOT_UNDERSTOOD = (
    "Without a model I understand: log 45 minutes on TASK, log 16:00-18:00 on TASK. "
    "The report shows what else I know."
)


class OfflineBrain:
    """`CompanionModel` by rules: the same request always has the same answer."""

    async def propose(self, request: CompanionRequest) -> CompanionProposal:
        """What the rules of the kind say."""
        rules = _RULES.get(request.offline_rules, _nothing)
        actions = tuple(rules(request.payload))[:_MOST]
        return CompanionProposal(
            actions=actions, thought=_thought(request, actions), model_id=OFFLINE_MODEL
        )


def _thought(request: CompanionRequest, actions: tuple[ProposedAction, ...]) -> str:
    if _said(request.payload) and not actions and request.round == 0:
        return _NOT_UNDERSTOOD
    return f"By fixed rules: {len(actions)} proposal(s)."


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


def _logged(payload: Mapping[str, Any]) -> Iterator[ProposedAction]:
    """`log 45 minutes on squats`: first the task is looked up, then, if it is certain, written."""
    said = _said(payload)
    found = said and (_SPENT.search(said) or _FROM_TO.search(said))
    if not found:
        return
    candidates = _facts(payload, "candidate")
    if not candidates and not payload.get("results"):
        yield ProposedAction(
            action_type=AgentActionType.TOOL_CALL,
            tool_name="resolve_task_reference",
            arguments={"reference": found["task"].strip(" .!“”\"'")[:500]},
            reason="The owner has named a task.",
        )
    elif candidates and candidates[0].get("certain"):
        start, end = _span(found.groupdict(), datetime.fromisoformat(payload["now"]))
        yield ProposedAction(
            action_type=AgentActionType.TOOL_CALL,
            tool_name="create_retrospective_time_entry",
            arguments={
                "task_id": candidates[0]["id"],
                "started_at": start.isoformat(),
                "ended_at": end.isoformat(),
                "description": "",
            },
            reason="The owner has said so.",
        )
    else:
        yield from _which(candidates)


def _which(candidates: list[dict[str, Any]]) -> Iterator[ProposedAction]:
    titles = tuple(dict.fromkeys(str(each["title"])[:200] for each in candidates))
    if not titles:
        return
    yield ProposedAction(
        action_type=AgentActionType.ASK_USER,
        question=CompanionQuestion(
            interaction_type=AgentInteractionType.MULTI_CHOICE,
            prompt_text="Which of these do you mean?",
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
    closed = task.get("status") in ("done", "rejected")
    return not closed and isinstance(at, str) and datetime.fromisoformat(at) < now


def _said(payload: Mapping[str, Any]) -> str:
    return str(payload.get("wake", {}).get("said") or "")


def _facts(payload: Mapping[str, Any], kind: str) -> list[dict[str, Any]]:
    return [each for each in payload.get("facts", ()) if each.get("kind") == kind]


_RULES: Mapping[str, Callable[[Mapping[str, Any]], Iterator[ProposedAction]]] = {
    "planner": _planner,
    "gym_coach": _gym_coach,
    "strategist": _strategist,
    "report_only": _nothing,
}
