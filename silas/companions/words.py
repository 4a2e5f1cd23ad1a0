"""Names of the code in the words of people, for every surface alike.

What has no words here is shown by its name: it is never left out.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any

from silas.journal.notifications import TokenClass, TypedToken

TOOLS: Mapping[str, str] = MappingProxyType(
    {
        "list_allowed_categories": "look at its categories",
        "list_tasks_in_scope": "look at tasks",
        "resolve_task_reference": "find the task that is meant",
        "get_time_summary": "look at how time was spent",
        "get_day_plan": "look at the plan of a day",
        "get_ratings_summary": "look at ratings",
        "get_rating_for_target": "look at one rating",
        "set_task_language": "set the language of a task",
        "update_task_estimate": "change how long a task may take",
        "update_task_due_date": "change when a task is due",
        "update_task_priority": "change the priority of a task",
        "assign_task_labels": "put labels on a task",
        "create_task": "add a task",
        "update_task_fields": "change a task",
        "create_follow_up_task": "add a follow-up task",
        "conclude_task_with_rollover": "close a task and carry its open steps over",
        "add_multiple_checklist_items": "add steps to a task",
        "update_checklist_items": "change steps of a task",
        "create_checklist": "add a checklist",
        "move_checklist_items": "move steps to another task",
        "move_checklist_items_to_new_task": "move steps to a new task",
        "create_retrospective_time_entry": "write down time that was spent",
        "start_task_timer": "start the timer",
        "stop_task_timer": "stop the timer",
        "annotate_time_entry": "add a note to time that was spent",
        "get_or_create_day_plan": "begin the plan of a day",
        "upsert_day_plan_blocks": "change blocks in the plan of a day",
        "pin_day_plan_tasks": "pin tasks to a day",
        "replan_day_blocks": "arrange the plan of a day anew",
        "create_or_update_rating": "rate something",
    }
)
"""What a companion wants to do."""

RECORDS: Mapping[str, str] = MappingProxyType(
    {
        "agents": "companions",
        "agent_states": "states of companions",
        "agent_subscriptions": "things that wake one",
        "agent_subscription_tokens": "entries of the index of what wakes one",
        "agent_timers": "timers",
        "agent_messages": "messages",
        "agent_message_payloads": "texts of messages",
        "agent_links": "links between these",
        "agent_compaction_jobs": "summaries in the making",
        "agent_action_plans": "plans of runs",
        "agent_operations": "actions",
        "agent_run_traces": "traces of runs",
        "agent_diagnostics": "notes of what was odd",
        "agent_sessions": "conversations",
        "agent_reports": "reports",
        "agent_report_heads": "pointers to the newest reports",
        "agent_source_refs": "sources of reports",
        "agent_prompt_items": "questions",
        "agent_prompt_responses": "answers",
        "agent_persona_versions": "versions of a persona",
        "agent_persona_heads": "pointers to a persona",
        "agent_definitions": "definitions",
        "agent_earlier_definitions": "earlier definitions",
        "agent_budget_windows": "days of budget",
        "agent_budget_reservations": "sums set aside",
        "model_grants": "agreements to a model",
        "model_rules": "rules for models",
        "provider_privacy_policies": "notes about a provider",
        "projection_policies": "lists of what may be sent",
        "stop_switches": "reasons of a stop",
        "wake_run_log": "wakes",
    }
)
"""What is counted when it is forgotten."""

CHECKS: Mapping[str, str] = MappingProxyType(
    {
        "schema": "the call is well formed",
        "target": "it names what it means by its id",
        "stop_switch": "no stop switch is on",
        "lifecycle": "it is awake",
        "capability": "its kind may do this",
        "wake_reason": "what woke it allows this",
        "scope": "it lies within its categories",
        "budget": "there is budget left",
        "gates": "your gates let it pass",
        "approval": "your yes is asked for where it is needed",
        "egress": "the model is one of yours",
        "model_access": "the model is allowed for its categories",
        "privacy_consent": "you have agreed to the model",
        "secret": "the key can be read",
        "projection": "nothing is sent beyond what you were shown",
    }
)
"""What was asked of the policy."""

_STATUS = MappingProxyType({"in_progress": "begun", "on_hold": "put on hold"})
_KINDS = MappingProxyType(
    {
        "TASK": "a task",
        "CHECKLIST": "a checklist",
        "CHECKLIST_ITEM": "a step of a task",
        "TIME_ENTRY": "time that was spent",
        "DAY_PLAN": "the plan of a day",
        "DAY_BLOCK": "a block in the plan of a day",
        "RATING": "a rating",
        "NOTE": "a note",
        "LINK": "a link",
        "CATEGORY": "a category",
    }
)
_NOUNS = MappingProxyType(
    {
        "checklist_item": "step",
        "time_entry": "time",
        "day_plan": "plan of the day",
        "day_block": "block of the day",
    }
)
_CHANGES = MappingProxyType(
    {
        "created": "added",
        "updated": "changed",
        "moved": "moved",
        "deleted": "deleted",
        "restored": "brought back",
    }
)
_SENT: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("the time and your time zone", ("now", "time_zone")),
    ("its name, its kind and what it is for", ("companion.",)),
    ("how it speaks", ("persona.",)),
    ("what woke it", ("wake.reason",)),
    ("what you said to it", ("wake.said", "wake.kept")),
    ("what it asked you, and your answers", ("wake.answers[].",)),
    ("what it remembers of earlier runs", ("memory.",)),
    ("its goal, your wishes, and what still waits for you", ("slots.",)),
    ("the outline of its report", ("report.",)),
    ("what came of its calls", ("results[].",)),
)
_FACTS = MappingProxyType(
    {
        "title": "title",
        "name": "name",
        "text": "text of a step",
        "status": "state",
        "priority": "priority",
        "labels[]": "labels",
        "due_at": "when it is due",
        "date": "date",
        "starts_at": "beginning",
        "ends_at": "end",
        "note": "what is noted at a block of a day, at time that was spent and at a rating",
        "open_items[]": "open steps",
        "open_item_count": "number of open steps",
        "done_item_count": "number of finished steps",
        "checklists[].title": "titles of checklists",
        "checklists[].items[].text": "steps",
        "checklists[].items[].checked": "which of them are finished",
        "checklists[].id": "ids of checklists",
        "checklists[].items[].id": "ids of steps",
        "language": "language",
        "estimate_minutes": "estimate",
        "logged_minutes": "time spent",
        "logged_minutes_last_days": "time spent lately",
        "minutes": "minutes",
        "days": "number of days",
        "dimension": "what was rated",
        "value": "rating",
        "average": "average rating",
        "latest": "latest rating",
        "count": "number of ratings",
        "changed": "whether it has just changed",
        "has_follow_up": "whether there is a follow-up",
        "score": "how well a name fits",
        "certain": "whether it is certain what is meant",
        "kind": "what it is",
        "id": "id",
        "source_id": "id as a source",
        "category_id": "id of its category",
        "task_id": "id of its task",
        "target_id": "id of what was rated",
        "pinned_task_ids[]": "ids of the tasks that are pinned to a day",
    }
)
_OF_FACTS = "facts[]."
_GOAL = re.compile(
    r"\s*(?:my|our|the|your)\s+goal\s+is\s*:?\s*(?P<what>\S.{2,300}?)\s*[.!]?\s*", re.IGNORECASE
)
_WISH = re.compile(
    r"\s*(?:please\s+)?(?:remember|keep in mind|note)\s+(?:that\s+)?(?P<what>\S.{2,300}?)"
    r"\s*[.!]?\s*|\s*(?P<like>i\s+(?:prefer|like|hate|need|never|always)\s+\S.{2,300}?)\s*[.!]?\s*",
    re.IGNORECASE,
)
_LET_GO = re.compile(
    r"\s*(?:please\s+)?forget\s+(?:that\s+)?(?P<what>\S.{2,300}?)\s*[.!]?\s*", re.IGNORECASE
)
_THE_GOAL = re.compile(r"(?:my|your|the|our)\s+goal")
_ENDS = " .!“”\"'"


@dataclass(frozen=True)
class OwnersWish:
    """A goal, or something to be kept, in the owner's own words; or one that is to be let go."""

    value: str
    is_goal: bool = False
    keep: bool = True


def owners_wish(said: str) -> OwnersWish | None:
    """The goal or the wish that these words are, if they are one; the words stay as they are."""
    goal = _GOAL.fullmatch(said)
    if goal is not None:
        return OwnersWish(goal["what"], is_goal=True)
    wish = _WISH.fullmatch(said)
    if wish is not None:
        return OwnersWish(wish["what"] or wish["like"])
    gone = _LET_GO.fullmatch(said)
    return OwnersWish(gone["what"], keep=False) if gone is not None else None


def meant_wishes(words: str, goal: str | None, wishes: Iterable[str]) -> list[str]:
    """Which of what is kept these words mean: the whole of it, "my goal", or a part of one only."""
    small = words.casefold().strip(_ENDS)
    if goal is not None and _THE_GOAL.fullmatch(small):
        return [goal]
    known = [*wishes, *([goal] if goal is not None else [])]
    same = [each for each in known if each.casefold().strip(_ENDS) == small]
    part = [each for each in known if small in each.casefold()]
    return same or (part if len(part) == 1 else [])


def spoken_tool(name: str) -> str:
    """What a call of this tool would do: `add a follow-up task`."""
    return TOOLS.get(name, name.replace("_", " "))


def spoken_change(change: Mapping[str, Any]) -> str:
    """What a preview says would be different: `task “Stretch” added`, `45 minutes added`."""
    kind = _NOUNS.get(change["kind"], change["kind"].replace("_", " "))
    nameless = (kind, change["kind"], change["kind"].replace("_", " "))
    own_name = change["label"].casefold() not in nameless
    named = f"{kind} “{change['label']}”" if own_name else kind
    minutes = _minutes_of(change.get("fields") or {}) if change["kind"] == "time_entry" else None
    named = f"{minutes} minutes" if minutes is not None and not own_name else named
    return f"{named} {_CHANGES.get(change['what'], change['what'])}"


def _minutes_of(fields: Mapping[str, Any]) -> int | None:
    ends = [fields.get(each) for each in ("started_at", "ended_at")]
    if not all(isinstance(each, str) for each in ends):
        return None  # it still runs
    start, end = (datetime.fromisoformat(str(each)) for each in ends)
    return round((end - start).total_seconds() / 60)


def spoken_token(token: TypedToken) -> str:
    """When a subscription to this token wakes: `when a task is done`."""
    value, namespace = token.token_value, token.token_namespace
    if token.token_class is TokenClass.SEMANTIC_KEY and value in _KINDS:
        return f"when {_KINDS[value]} changes"
    if namespace in ("task.status_changed", "task.status"):
        return f"when a task is {_STATUS.get(value, value)}"
    if namespace == "change":
        kind, _, change = value.partition(".")
        return f"when {_KINDS.get(kind.upper(), kind)} is {_CHANGES.get(change, change)}"
    named = f"{namespace} {value}" if namespace else f"the record {value}"
    return f"when {named} changes"


def sent_in_words(fields: Collection[str]) -> tuple[str, ...]:
    """Everything that a model may be told, in words; what has none, by its name."""
    left, phrases = set(fields), []
    for phrase, beginnings in _SENT:
        meant = {each for each in left if _begins(each, beginnings)}
        left -= meant
        phrases += [phrase] if meant else []
    known = {f"{_OF_FACTS}{name}": phrase for name, phrase in _FACTS.items()}
    facts = [phrase for name, phrase in known.items() if name in left]
    if facts:
        phrases.append(f"of what it sees in your journal: {', '.join(facts)}")
    return (*phrases, *sorted(left - known.keys()))


def _begins(field: str, beginnings: Iterable[str]) -> bool:
    return any(
        field.startswith(each) if each.endswith(".") else field == each for each in beginnings
    )
