"""What phrases of the offline brain are made of, and those about the journal.

A phrase is one thing that can be said. The journal's are about tasks, time, and the plan of a day.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from pydantic import ValidationError

from silas.agents.brain.intents import AddTasks, Intent, LookAtJournal
from silas.journal.conversation import JournalOp, JournalOpType
from silas.kernel.when import MOMENT_WORDS, parse_schedule
from silas.stream.models import MAX_JOURNAL_OPS

# Building blocks. A name of a file has no blanks, unless it is quoted.
_FENCE = r"```[\w-]*\n(?P<{name}_fence>.*?)\n?```"
_TICKS = r"`(?P<{name}_ticks>[^`\n]+)`"
_QUOTES = r"[\"“](?P<{name}_quoted>[^\"”]*)[\"”]|'(?P<{name}_single>[^']*)'"
_PATH = (
    r"(?:`(?P<{name}_ticks>[^`\n]+)`|\"(?P<{name}_quoted>[^\"\n]+)\"|"
    r"(?P<{name}_bare>[^\s,:\"'`]*[^\s,:\"'`.?!]))"
)
LINE = r"[^\n]+?"
_END = r"\s*[.!?]?"
_MARKED_FORMS = ("fence", "ticks", "quoted", "single")


def code(name: str, bare: str = r"[^`\n]+?") -> str:
    """A command or a text: in a block, in backticks, or as it stands."""
    options = "|".join([_FENCE, _TICKS, rf"(?P<{{name}}_bare>{bare})"])
    return f"(?:{options})".replace("{name}", name)


def text_of(name: str, bare: str = r".+?") -> str:
    options = "|".join([_FENCE, _TICKS, _QUOTES, rf"(?P<{{name}}_bare>{bare})"])
    return f"(?:{options})".replace("{name}", name)


def path_of(name: str = "path") -> str:
    return _PATH.replace("{name}", name)


def pattern(text: str) -> re.Pattern[str]:
    return re.compile(text + _END, re.IGNORECASE | re.DOTALL)


def got(found: re.Match[str], name: str) -> str | None:
    """What a building block found, in whichever way it was written."""
    for form in ("fence", "ticks", "quoted", "single", "bare"):
        value = found.groupdict().get(f"{name}_{form}")
        if value is not None:
            return value
    return None


def need(found: re.Match[str], name: str) -> str:
    return got(found, name) or ""


def is_marked(found: re.Match[str], *names: str) -> bool:
    """Whether each of these stands in a block, in backticks or in quotes: to the letter."""
    return all(
        any(found.groupdict().get(f"{name}_{form}") is not None for form in _MARKED_FORMS)
        for name in names
    )


def always(_found: re.Match[str]) -> bool:
    """These words mean one thing only."""
    return True


def never(_found: re.Match[str]) -> bool:
    """These words can mean more than a pattern understands."""
    return False


def begins(words: str) -> Callable[[re.Match[str]], bool]:
    """Only said like this."""
    said = re.compile(words, re.IGNORECASE)
    return lambda found: said.match(found[0]) is not None


@dataclass(frozen=True)
class Phrase:
    """One thing that can be said."""

    name: str
    pattern: re.Pattern[str]
    meaning: Callable[[re.Match[str]], Intent | None]
    match: tuple[str, ...]
    not_match: tuple[str, ...] = ()
    exact: Callable[[re.Match[str]], bool] = never
    """Whether it is meant to the letter, so that no model has to be asked."""
    near: re.Pattern[str] | None = None
    """What sounds like this phrase without being it."""


_DAY = r"today|tomorrow|(?:next\s+)?(?:mon|tues|wednes|thurs|fri|satur|sun)day|\d{4}-\d{2}-\d{2}"
_CLOCK = r"\d{1,2}(?::\d{2})?\s*(?:am|pm)?"
_TASK = rf"(?:the\s+task\s+)?{text_of('task', LINE)}"
_WORD = r"[^\s,:\"'`]+"


def wish(op: JournalOpType, **fields: str | None) -> JournalOp | None:
    """The wish; None if the journal could not keep it, such as a name of a page's length."""
    said = {name: " ".join(text.split()) for name, text in fields.items() if text is not None}
    try:
        return JournalOp.model_validate({"op": op, **said})
    except ValidationError:
        return None


REPEATED = re.compile(
    r"\b(?:every|each)\s+(?:\w+\s+)?(?:day|week|month|year|morning|evening|night|weekday|weekend|"
    r"hours?|minutes?|days|weeks|months|(?:mon|tues|wednes|thurs|fri|satur|sun)days?)\b|"
    r"\b(?:daily|weekly|monthly|yearly|hourly)\b",
    re.IGNORECASE,
)
"""Words of something that comes again."""
_EVERY = rf"(?:(?:on\s+)?the\s+\d{{1,2}}\w\w\s+of\s+)?(?:{REPEATED.pattern})[^\n]*?"
LEFT_OVER = re.compile(rf"\s(?P<when>{MOMENT_WORDS})\s*[.!?]?$", re.IGNORECASE)
"""A time at the end of a title: it is asked back whether it is one, and not written as a name."""


def is_whole(title: str) -> bool:
    """Whether a title holds no words about a time: half of a wish is not written down."""
    return REPEATED.search(title) is None and LEFT_OVER.search(f" {title}") is None


def _task(found: re.Match[str]) -> JournalOp | None:
    title, due, every = need(found, "title"), found["due"], found["every"]
    marked = is_marked(found, "title")
    if due and REPEATED.search(due):
        due, every = None, every or due
    if every is not None and parse_schedule(every) is None:
        return None
    if not marked:
        title = re.sub(r"^to\s+", "", title, flags=re.IGNORECASE)
        if not is_whole(title):
            return None
    category = got(found, "category") or got(found, "place")
    return wish(JournalOpType.ADD_TASK, title=title, category=category, due=due, every=every)


def _tasks(found: re.Match[str]) -> AddTasks | None:
    titles = [each.strip(" -*\t") for each in re.split(r"[,;\n]|\s+and\s+", found["titles"])]
    wanted = [each for each in titles if each]
    tasks = [
        wish(JournalOpType.ADD_TASK, title=each, category=got(found, "category"))
        for each in wanted
        if is_whole(each)
    ]
    whole = len(tasks) == len(wanted) and 1 < len(tasks) <= MAX_JOURNAL_OPS
    return AddTasks(tuple(each for each in tasks if each)) if whole and all(tasks) else None


_REMIND = r"(?:remind\s+me|(?:set|make|add|create)\s+(?:me\s+)?(?:a|another)\s+reminder)"
_TO = r"(?:\s*[:,]\s*|\s+(?:to|about|of|that)\s+)"


def _reminder(found: re.Match[str]) -> JournalOp | None:
    title = need(found, "title")
    if not is_marked(found, "title") and not is_whole(title):
        return None
    said = found.groupdict()
    every = said.get("every")
    if every is not None and parse_schedule(every) is None:
        return None
    return wish(JournalOpType.REMIND, title=title, due=said.get("when"), every=every)


def _block(found: re.Match[str]) -> JournalOp | None:
    return wish(
        JournalOpType.PLAN_BLOCK,
        task=need(found, "task"),
        begin=found["begin"],
        end=found["end"],
        day=found["before"] or found["after"],
    )


JOURNAL_PHRASES: tuple[Phrase, ...] = (
    Phrase(
        name="add several tasks",
        pattern=pattern(
            r"(?:add|create|write down)\s+(?:(?:the|these|some)\s+)?(?:new\s+)?(?:tasks|to-?dos)"
            r"\s*:\s*(?P<titles>[^`\"]+?)"
            rf"(?:\s+in\s+(?:the\s+category\s+)?{text_of('category', _WORD)})?"
        ),
        meaning=_tasks,
        match=("Add tasks: milk, bread, eggs", "add tasks:\n- milk\n- bread"),
        not_match=("add tasks: milk", "add tasks", "add tasks: run every day, swim"),
        exact=always,
    ),
    Phrase(
        name="add a task",
        pattern=pattern(
            r"(?:(?:add|create|make|write down)\s+(?:(?:a|the|another)\s+)?(?:new\s+)?|new\s+)"
            rf"(?:task|to-?do)\s*:?\s+{text_of('title', LINE)}"
            rf"(?:\s+in\s+(?:the\s+category\s+)?{text_of('category', _WORD)})?"
            rf"(?:\s*,?\s+(?P<every>{_EVERY}))?"
            rf"(?:\s+in\s+(?:the\s+category\s+)?{text_of('place', _WORD)})?"
            r"(?:\s*,?\s+due\s+(?P<due>[^\n]+?))?"
        ),
        meaning=_task,
        match=(
            "Add task Squats in gym due tomorrow 9am",
            "add a task: call the bank",
            "add a task to call the bank",
            "add a task to water the plants every monday",
            "add task Run in gym every day at 7am",
            "add task pay the rent on the 1st of every month",
            'new task "Swim in the lake" in "free time"',
        ),
        not_match=(
            "add task",
            "multitask in gym",
            "add a task to water the plants every 2 weeks",
            "add task call the bank tomorrow",
        ),
        exact=always,
        near=re.compile(r"\b(?:tasks?|to-?do)\b", re.IGNORECASE),
    ),
    Phrase(
        name="remind me",
        pattern=pattern(rf"{_REMIND}{_TO}{text_of('title', LINE)}\s*,?\s+(?P<when>{MOMENT_WORDS})"),
        meaning=_reminder,
        match=(
            "Remind me to call mom at 5pm",
            "remind me about the dentist tomorrow",
            "remind me to stretch in 20 minutes",
            "set a reminder to call mom at 5pm tomorrow",
        ),
        not_match=(
            "remind me to call mom",
            "remind me of the good old days",
            "remind me to call mom when I am home",
        ),
        exact=always,
    ),
    Phrase(
        name="remind me again and again",
        pattern=pattern(rf"{_REMIND}{_TO}{text_of('title', LINE)}\s*,?\s+(?P<every>{_EVERY})"),
        meaning=_reminder,
        match=(
            "Remind me to water the plants every Monday",
            "remind me to take my pill every day at 8am",
        ),
        not_match=("remind me to buy milk every blue moon",),
        exact=always,
    ),
    Phrase(
        name="remind me then",
        pattern=pattern(
            rf"{_REMIND}\s+(?:for\s+)?(?P<when>{MOMENT_WORDS}){_TO}{text_of('title', LINE)}"
        ),
        meaning=_reminder,
        match=(
            "remind me tomorrow morning to take the bins out",
            "remind me in 20 minutes to stretch",
            "remind me at 5pm: call mom",
        ),
        not_match=("remind me tomorrow",),
        exact=always,
    ),
    Phrase(
        name="remind me each time",
        pattern=pattern(rf"{_REMIND}\s+(?P<every>{_EVERY}){_TO}{text_of('title', LINE)}"),
        meaning=_reminder,
        match=("remind me every Monday to water the plants",),
        not_match=("remind me every 2 weeks to water the plants",),
        exact=always,
    ),
    Phrase(
        name="list reminders",
        pattern=pattern(
            r"(?:(?:what|which)\s+(?:are\s+my\s+reminders|reminders\s+(?:do\s+i\s+have|are\s+(?:there|set)|"
            r"have\s+i\s+set))|(?:list|show)\s+(?:me\s+)?(?:all\s+)?(?:(?:my|the)\s+)?reminders|"
            r"what\s+(?:will|do)\s+you\s+remind\s+me\s+(?:of|about)|do\s+i\s+have\s+(?:any\s+)?reminders)"
        ),
        meaning=lambda _found: LookAtJournal("reminders"),
        match=("What reminders do I have?", "show my reminders", "what will you remind me of?"),
        not_match=("what reminds you of summer?",),
        exact=always,
    ),
    Phrase(
        name="cancel a reminder",
        pattern=pattern(
            r"(?:(?:cancel|delete|remove|stop|drop)\s+(?:(?:the|my|that|this)\s+)?reminder"
            r"(?:\s+(?:to|about|of|for|called)\b)?|stop\s+reminding\s+me(?:\s+(?:to|about|of)\b)?)"
            rf"(?:\s+{text_of('task', LINE)})?"
        ),
        meaning=lambda found: wish(JournalOpType.CANCEL_REMINDER, task=got(found, "task")),
        match=(
            "Cancel the reminder to call mom",
            "stop reminding me to water the plants",
            "cancel my reminder",
        ),
        not_match=("cancel my subscription", "stop the timer"),
        exact=always,
    ),
    Phrase(
        name="finish a task",
        pattern=pattern(
            r"(?:(?:i(?:'m|\s+am)\s+)?(?:done|finished)\s+with|i(?:'ve|\s+have)?\s+finished)"
            rf"\s+{_TASK}"
        ),
        meaning=lambda found: wish(JournalOpType.FINISH_TASK, task=need(found, "task")),
        match=("Done with Squats", "I'm finished with the task Squats", "I have finished squats"),
        not_match=("done", "well done with that"),
        exact=begins(r"done\s+with"),
    ),
    Phrase(
        name="mark a task",
        pattern=pattern(rf"mark\s+{_TASK}\s+(?:as\s+)?(?:done|finished)"),
        meaning=lambda found: wish(JournalOpType.FINISH_TASK, task=need(found, "task")),
        match=("mark Squats as done",),
        not_match=("mark my words",),
        exact=always,
    ),
    Phrase(
        name="start the timer",
        pattern=pattern(rf"start\s+(?:(?:the|a|my)\s+)?timer\s+(?:for|on)\s+{_TASK}"),
        meaning=lambda found: wish(JournalOpType.START_TIMER, task=need(found, "task")),
        match=("Start the timer for Squats",),
        not_match=("start the timer", "start the engine for Squats"),
        exact=always,
        near=re.compile(r"\btimer\b", re.IGNORECASE),
    ),
    Phrase(
        name="stop the timer",
        pattern=pattern(r"stop\s+(?:(?:the|my)\s+)?timer"),
        meaning=lambda _found: wish(JournalOpType.STOP_TIMER),
        match=("Stop the timer",),
        not_match=("stop the timer for Squats tomorrow",),
        exact=always,
    ),
    Phrase(
        name="log time",
        pattern=pattern(
            r"log\s+(?P<length>\d+(?:\.\d+)?\s*(?:h(?:ours?|rs?)?|m(?:in(?:utes?)?)?)"
            rf"(?:\s*\d+\s*(?:m(?:in(?:utes?)?)?)?)?)\s+(?:on|for|to)\s+{_TASK}"
        ),
        meaning=lambda found: wish(
            JournalOpType.LOG_TIME, task=need(found, "task"), duration=found["length"]
        ),
        match=("Log 45 minutes on Squats", "log 1h30 for squats", "log 2 hours on Squats"),
        not_match=("log Squats", "log 45 on Squats"),
        exact=always,
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
        exact=always,
        near=re.compile(r"\bplan\s+\d", re.IGNORECASE),
    ),
    Phrase(
        name="plan a day",
        pattern=pattern(
            rf"plan\s+(?:(?:my|the)\s+day(?:\s+(?:for\s+)?(?P<of>{_DAY}))?|(?P<day>{_DAY}))"
        ),
        meaning=lambda found: wish(JournalOpType.PLAN_DAY, day=found["of"] or found["day"]),
        match=("Plan my day", "plan tomorrow"),
        not_match=("plan my holidays",),
        exact=always,
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
        exact=always,
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
        # "What is open in Berlin?" is no question about the journal.
        exact=begins(r"(?:show|list)\b|what(?:'s|\s+is)\s+(?:still\s+)?open\W*$"),
    ),
)
