"""What the offline brain understands: every phrase's own examples, and what must not be guessed."""

from pathlib import Path

import pytest

from silas.agents.brain.grammar import PHRASES, understand
from silas.agents.brain.intents import (
    AppendToFile,
    ApplyPatch,
    EditFile,
    Forget,
    Greeting,
    Help,
    Intent,
    LookAtJournal,
    MakeFile,
    NotUnderstood,
    Recall,
    Remember,
    RunCommand,
    Watch,
    Watched,
    WhatDidYouDo,
)
from silas.agents.brain.schedules import read_schedule
from silas.journal.wishes import JournalOp


def wish(op: str, **fields: str) -> JournalOp:
    return JournalOp.model_validate({"op": op, **fields})


@pytest.mark.parametrize(
    ("phrase", "text"),
    [(phrase, text) for phrase in PHRASES for text in phrase.match],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_examples_are_understood(phrase: object, text: str) -> None:
    assert not isinstance(understand(text), NotUnderstood)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [(phrase, text) for phrase in PHRASES for text in phrase.not_match],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_what_is_not_meant_is_not_matched(pattern: object, text: str) -> None:
    found = pattern.pattern.fullmatch(text)  # type: ignore[attr-defined]
    assert found is None or pattern.meaning(found) is None  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "intent"),
    [
        (
            "run echo hello and check that it prints hello",
            RunCommand("echo hello", expected="hello"),
        ),
        ("Could you please run `ls -l` in ~/shop?", RunCommand("ls -l", where="~/shop")),
        ("Silas, run: `make all`", RunCommand("make all")),
        (
            "run `make` in ~/shop and check it with `test -f x`",
            RunCommand("make", where="~/shop", check="test -f x"),
        ),
        ("run ```\nls\nwc -l a\n```", RunCommand("ls\nwc -l a")),
        ("create a file a.txt with hello", MakeFile("a.txt", "hello")),
        ("create ~/n/b.md:\n```\n# x\ny\n```", MakeFile("~/n/b.md", "# x\ny")),
        ("add milk to list.txt", AppendToFile("list.txt", "milk")),
        ('in a.txt, replace "x" with "y"', EditFile("a.txt", "x", "y")),
        ("change `a = 1` to `a = 2` in ~/p/s.py", EditFile("~/p/s.py", "a = 1", "a = 2")),
        (
            "watch https://example.org every 5 minutes",
            Watch(Watched.ADDRESS, "https://example.org", "*/5 * * * *", "every 5 minutes"),
        ),
        (
            "run `df -h` every day at 7:30",
            Watch(Watched.COMMAND, "df -h", "30 7 * * *", "every day at 7:30"),
        ),
        ("Remember that my mother's birthday is 3 May.", Remember("my mother's birthday is 3 May")),
        ("what do you know about my mother's birthday?", Recall("my mother's birthday")),
        ("what do you remember?", Recall("")),
        ("forget about the party", Forget("the party")),
        ("what did you do while I slept?", WhatDidYouDo()),
        ("Hi Silas!", Greeting()),
        ("what can you do?", Help()),
        (
            "add task Squats in gym due tomorrow 9am",
            wish("add_task", title="Squats", category="gym", due="tomorrow 9am"),
        ),
        ("Please add a task: reply to bob@x.org", wish("add_task", title="reply to bob@x.org")),
        ('add task "Swim in lake"', wish("add_task", title="Swim in lake")),
        ("Create a task: water the plants", wish("add_task", title="water the plants")),
        ("done with Squats", wish("finish_task", task="Squats")),
        ("mark the task Squats as done", wish("finish_task", task="Squats")),
        ("start the timer for Squats", wish("start_timer", task="Squats")),
        ("stop the timer", wish("stop_timer")),
        ("log 45 minutes on Squats", wish("log_time", task="Squats", duration="45 minutes")),
        ("plan 9 to 10:30 for Squats", wish("plan_block", task="Squats", begin="9", end="10:30")),
        (
            "plan 9am-11 on friday for Squats",
            wish("plan_block", task="Squats", begin="9am", end="11", day="friday"),
        ),
        ("plan my day", wish("plan_day")),
        ("plan my day for tomorrow", wish("plan_day", day="tomorrow")),
        ("what is on today?", LookAtJournal("day")),
        ("What's on Friday?", LookAtJournal("day", day="friday")),
        ("what is open in gym?", LookAtJournal("tasks", category="gym")),
        ("what is open?", LookAtJournal("tasks")),
        (f"add task {'x' * 501}", NotUnderstood("add a task")),
        ("start the timer", NotUnderstood("start the timer")),
        ("write a poem about the sea", NotUnderstood()),
        ("watch the sea every now and then", NotUnderstood("watch something")),
        ("", NotUnderstood()),
    ],
)
def test_meaning(text: str, intent: Intent) -> None:
    assert understand(text) == intent


def test_a_patch() -> None:
    text = PHRASES[0].match[0]
    meant = understand(text)
    assert isinstance(meant, ApplyPatch)
    assert (meant.where, meant.check) == ("~/shop", "python3 test_sum.py")
    assert meant.patch.startswith("--- a/sum.py")


@pytest.mark.parametrize(
    ("words", "cron"),
    [
        ("every minute", "*/1 * * * *"),
        ("every 15 minutes", "*/15 * * * *"),
        ("every 60 minutes", "0 * * * *"),
        ("every 7 minutes", None),
        ("every 0 minutes", None),
        ("every hour", "0 * * * *"),
        ("every 6 hours", "0 */6 * * *"),
        ("every day", "0 9 * * *"),
        ("every evening", "0 18 * * *"),
        ("daily at 6pm", "0 18 * * *"),
        ("every day at 12am", "0 0 * * *"),
        ("every day at 13pm", None),
        ("every day at 24:00", None),
        ("every Monday at 9:05", "5 9 * * 1"),
        ("every weekday", "0 9 * * 1-5"),
        ("weekly", "0 9 * * 1"),
        ("every full moon", None),
    ],
)
def test_schedules(words: str, cron: str | None) -> None:
    assert read_schedule(words) == cron


def test_the_examples_of_the_documentation_are_understood() -> None:
    page = Path("docs/offline-brain.md").read_text("utf-8")
    rows = [line.split(" | ")[1].rstrip(" |") for line in page.splitlines() if line[:2] == "| "]
    examples = [row for row in rows if "…" not in row and row != "For example"]
    assert len(examples) > 8
    for example in examples:
        assert not isinstance(understand(example), NotUnderstood), example
