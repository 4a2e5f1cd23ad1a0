"""What the offline brain understands about the journal: tasks, time, and the plan of a day."""

import re

from pydantic import ValidationError

from silas.agents.brain.intents import LookAtJournal
from silas.agents.brain.phrase import LINE, Phrase, got, need, pattern, text_of
from silas.journal.wishes import JournalOp, JournalOpType

_DAY = r"today|tomorrow|(?:next\s+)?(?:mon|tues|wednes|thurs|fri|satur|sun)day|\d{4}-\d{2}-\d{2}"
_CLOCK = r"\d{1,2}(?::\d{2})?\s*(?:am|pm)?"
_TASK = rf"(?:the\s+task\s+)?{text_of('task', LINE)}"
_WORD = r"[^\s,:\"'`]+"


def _wish(op: JournalOpType, **fields: str | None) -> JournalOp | None:
    """The wish; None if the journal could not keep it, such as a name of a page's length."""
    said = {name: " ".join(text.split()) for name, text in fields.items() if text is not None}
    try:
        return JournalOp.model_validate({"op": op, **said})
    except ValidationError:
        return None


def _block(found: re.Match[str]) -> JournalOp | None:
    return _wish(
        JournalOpType.PLAN_BLOCK,
        task=need(found, "task"),
        begin=found["begin"],
        end=found["end"],
        day=found["before"] or found["after"],
    )


JOURNAL_PHRASES: tuple[Phrase, ...] = (
    Phrase(
        name="add a task",
        pattern=pattern(
            r"(?:(?:add|create|make|write down)\s+(?:(?:a|the|another)\s+)?(?:new\s+)?|new\s+)"
            rf"(?:task|to-?do)\s*:?\s+{text_of('title', LINE)}"
            rf"(?:\s+in\s+(?:the\s+category\s+)?{text_of('category', _WORD)})?"
            r"(?:\s*,?\s+due\s+(?P<due>[^\n]+?))?"
        ),
        meaning=lambda found: _wish(
            JournalOpType.ADD_TASK,
            title=need(found, "title"),
            category=got(found, "category"),
            due=found["due"],
        ),
        match=(
            "Add task Squats in gym due tomorrow 9am",
            "add a task: call the bank",
            'new task "Swim in the lake" in "free time"',
        ),
        not_match=("add task", "multitask in gym"),
        near=re.compile(r"\b(?:tasks?|to-?do)\b", re.IGNORECASE),
    ),
    Phrase(
        name="finish a task",
        pattern=pattern(
            r"(?:(?:i(?:'m|\s+am)\s+)?(?:done|finished)\s+with|i(?:'ve|\s+have)?\s+finished)"
            rf"\s+{_TASK}"
        ),
        meaning=lambda found: _wish(JournalOpType.FINISH_TASK, task=need(found, "task")),
        match=("Done with Squats", "I'm finished with the task Squats", "I have finished squats"),
        not_match=("done", "well done with that"),
    ),
    Phrase(
        name="mark a task",
        pattern=pattern(rf"mark\s+{_TASK}\s+(?:as\s+)?(?:done|finished)"),
        meaning=lambda found: _wish(JournalOpType.FINISH_TASK, task=need(found, "task")),
        match=("mark Squats as done",),
        not_match=("mark my words",),
    ),
    Phrase(
        name="start the timer",
        pattern=pattern(rf"start\s+(?:(?:the|a|my)\s+)?timer\s+(?:for|on)\s+{_TASK}"),
        meaning=lambda found: _wish(JournalOpType.START_TIMER, task=need(found, "task")),
        match=("Start the timer for Squats",),
        not_match=("start the timer", "start the engine for Squats"),
        near=re.compile(r"\btimer\b", re.IGNORECASE),
    ),
    Phrase(
        name="stop the timer",
        pattern=pattern(r"stop\s+(?:(?:the|my)\s+)?timer"),
        meaning=lambda _found: _wish(JournalOpType.STOP_TIMER),
        match=("Stop the timer",),
        not_match=("stop the timer for Squats tomorrow",),
    ),
    Phrase(
        name="log time",
        pattern=pattern(
            r"log\s+(?P<length>\d+(?:\.\d+)?\s*(?:h(?:ours?|rs?)?|m(?:in(?:utes?)?)?)"
            rf"(?:\s*\d+\s*(?:m(?:in(?:utes?)?)?)?)?)\s+(?:on|for|to)\s+{_TASK}"
        ),
        meaning=lambda found: _wish(
            JournalOpType.LOG_TIME, task=need(found, "task"), duration=found["length"]
        ),
        match=("Log 45 minutes on Squats", "log 1h30 for squats", "log 2 hours on Squats"),
        not_match=("log Squats", "log 45 on Squats"),
        near=re.compile(r"\blog\s+\S+\s+(?:on|for)\b", re.IGNORECASE),
    ),
    Phrase(
        name="plan a block",
        pattern=pattern(
            rf"plan\s+(?:(?P<before>{_DAY})\s*,?\s+)?(?:from\s+)?(?P<begin>{_CLOCK})"
            rf"\s*(?:to|until|till|-)\s*(?P<end>{_CLOCK})"
            rf"(?:\s+(?:on\s+)?(?P<after>{_DAY}))?\s+(?:for|with)\s+{_TASK}"
        ),
        meaning=_block,
        match=("Plan 9 to 10:30 for Squats", "plan tomorrow 2pm to 3pm for Squats"),
        not_match=("plan 9 for Squats", "plan some time for Squats"),
        near=re.compile(r"\bplan\s+\d", re.IGNORECASE),
    ),
    Phrase(
        name="plan a day",
        pattern=pattern(
            rf"plan\s+(?:(?:my|the)\s+day(?:\s+(?:for\s+)?(?P<of>{_DAY}))?|(?P<day>{_DAY}))"
        ),
        meaning=lambda found: _wish(JournalOpType.PLAN_DAY, day=found["of"] or found["day"]),
        match=("Plan my day", "plan tomorrow"),
        not_match=("plan my holidays",),
        near=re.compile(r"\bplan\b.*\bday\b", re.IGNORECASE),
    ),
    Phrase(
        name="look at a day",
        pattern=pattern(
            r"(?:what(?:'s|\s+is)\s+on|what\s+do\s+i\s+have(?:\s+on)?|show\s+(?:me\s+)?my\s+day)"
            rf"(?:\s+(?:for\s+|on\s+)?(?P<day>{_DAY}))?"
        ),
        meaning=lambda found: LookAtJournal("day", day=(found["day"] or "today").lower()),
        match=("What is on today?", "what's on tomorrow", "show me my day"),
        not_match=("what is on the table?", "what is on television today?"),
    ),
    Phrase(
        name="look at open tasks",
        pattern=pattern(
            r"(?:what(?:'s|\s+is)\s+(?:still\s+)?open|(?:show|list)\s+(?:me\s+)?(?:my\s+|the\s+)?"
            rf"(?:open\s+)?tasks)(?:\s+in\s+(?:the\s+category\s+)?{text_of('category', LINE)})?"
        ),
        meaning=lambda found: LookAtJournal("tasks", category=got(found, "category")),
        match=("What is open in gym?", "what is still open?", "show my tasks in gym"),
        not_match=("what is open source?", "is the shop open?"),
    ),
)
