"""What the offline brain understands: every phrase's own examples, and what must not be guessed."""

from pathlib import Path

import pytest

from silas.agents.brain.grammar import PHRASES, is_exact, understand
from silas.agents.brain.intents import (
    AddTasks,
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
    RecallIntent,
    Remember,
    RunCommand,
    StopWatching,
    Watch,
    WatchedKind,
    WhatDidYouDo,
    WhoAmI,
)
from silas.journal.conversation import JournalOp


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
    "text",
    [
        "run `make test`",
        "Please run echo hello and check that it prints hello",
        'create a file a.txt with "one"',
        "create ~/notes/list.md:\n```\n- milk\n```",
        'In a.txt, replace "milk" with "oat milk"',
        "Watch https://example.org every 15 minutes",
        "Remember that the spare key is at the neighbour's",
        "Forget about the spare key",
        "Add task Squats in gym due tomorrow 9am",
        "Done with Squats",
        "What is on today?",
        "show my tasks in gym",
        "What did you do?",
    ],
)
def test_what_is_meant_to_the_letter_needs_no_model(text: str) -> None:
    assert is_exact(text)


@pytest.mark.parametrize(
    "text",
    [
        "run the tests",
        "run make for me",
        "run nosuchprogram please",
        "Create primes.py with a function that prints the first ten primes",
        "Add a docstring to total.py",
        "change the title to something better in index.html",
        "Remember to call mom",
        "note that your last answer was wrong",
        "forget it",
        "What is open in Berlin on Sunday?",
        "I am done with this conversation",
        "What happened in 1945?",
        "Where is Paris?",
        "help",
        "hello",
        "thanks",
        "Tell me a joke",
    ],
)
def test_what_could_mean_more_is_left_to_a_model(text: str) -> None:
    assert not is_exact(text)


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
            Watch(WatchedKind.ADDRESS, "https://example.org", "*/5 * * * *", "every 5 minutes"),
        ),
        (
            "run `df -h` every day at 7:30",
            Watch(WatchedKind.COMMAND, "df -h", "30 7 * * *", "every day at 7:30"),
        ),
        ("Remember that my mother's birthday is 3 May.", Remember("my mother's birthday is 3 May")),
        ("what do you know about my mother's birthday?", RecallIntent("my mother's birthday")),
        ("what do you remember?", RecallIntent("")),
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
        ("watch the sea every now and then", NotUnderstood("watch something")),
        ("Remind me to call mom at 5pm", wish("remind", title="call mom", due="at 5pm")),
        (
            "remind me tomorrow morning to take the bins out",
            wish("remind", title="take the bins out", due="tomorrow morning"),
        ),
        (
            "remind me in 20 minutes to stretch",
            wish("remind", title="stretch", due="in 20 minutes"),
        ),
        (
            "remind me every Monday to water the plants",
            wish("remind", title="water the plants", every="every Monday"),
        ),
        (
            "Please remind me to take my pill every day at 8am.",
            wish("remind", title="take my pill", every="every day at 8am"),
        ),
        (
            "remind me about the dentist on 3 May at 10:00",
            wish("remind", title="the dentist", due="on 3 May at 10:00"),
        ),
        (
            "set a reminder for 5pm to call mom",
            wish("remind", title="call mom", due="5pm"),
        ),
        (
            'remind me at noon to "call at 5pm"',
            wish("remind", title="call at 5pm", due="at noon"),
        ),
        ("what reminders do I have?", LookAtJournal("reminders")),
        ("cancel the reminder to call mom", wish("cancel_reminder", task="call mom")),
        ("stop reminding me about the plants", wish("cancel_reminder", task="the plants")),
        ("cancel my reminder", wish("cancel_reminder")),
        (
            "add a task to water the plants every monday",
            wish("add_task", title="water the plants", every="every monday"),
        ),
        (
            "add task Run every day at 7am in gym",
            wish("add_task", title="Run", every="every day at 7am", category="gym"),
        ),
        (
            "add task Run in gym due every weekday",
            wish("add_task", title="Run", every="every weekday", category="gym"),
        ),
        ("add task check every door", wish("add_task", title="check every door")),
        ("What is my name?", WhoAmI()),
        ("who am I?", WhoAmI()),
        ("What do you know about me?", RecallIntent("")),
        ("stop all watches", StopWatching("", everything=True)),
        ("stop watching it", StopWatching("")),
        ("stop watching example.org", StopWatching("example.org")),
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


def test_the_examples_of_the_documentation_are_understood() -> None:
    page = Path("docs/offline-brain.md").read_text("utf-8")
    rows = [line.split(" | ")[1].rstrip(" |") for line in page.splitlines() if line[:2] == "| "]
    examples = [row for row in rows if "…" not in row and row != "For example"]
    assert len(examples) > 8
    for example in examples:
        assert not isinstance(understand(example), NotUnderstood), example


@pytest.mark.parametrize(
    ("text", "said", "instead"),
    [
        ("paint my mail green", "what to do with your mail", "What can you do?"),
        ("frame my calendar", "what to do with your calendar", "What can you do?"),
        ("write a poem about the sea", "", "What can you do?"),
        ("", "", "What can you do?"),
        ("Remind me to call mom", "When shall I remind you?", "Remind me to call mom at 5pm"),
        ("remind me", "Of what shall I remind you", "Remind me to call mom at 5pm"),
        ("remind me to pay when I am home", "not when something happens", None),
        ("remind me to swim every 2 weeks", "cannot repeat it “every 2 weeks”", None),
        ("add a task to water the plants every other day", "did not write that down", None),
        (
            "add a task to call the bank tomorrow",
            "Is “tomorrow” when it is due",
            "Add task call the bank due tomorrow",
        ),
        ("add task call the bank at 5pm", "Is “at 5pm”", 'Add task "call the bank at 5pm"'),
    ],
)
def test_what_is_missing_is_said_in_one_line_with_the_nearest_thing(
    text: str, said: str, instead: str | None
) -> None:
    meant = understand(text)
    assert isinstance(meant, NotUnderstood)
    assert said in meant.lacks
    assert "\n" not in meant.lacks
    assert instead is None or instead in meant.instead
    assert 0 < len(meant.instead) <= 4
    for each in meant.instead:
        assert not isinstance(understand(each), NotUnderstood), each


def test_several_tasks_are_written_down_or_none() -> None:
    assert understand("Add tasks: milk, bread and eggs in shop") == AddTasks(
        tuple(wish("add_task", title=each, category="shop") for each in ("milk", "bread", "eggs"))
    )
    assert isinstance(understand("Add tasks: a, b, c, d, e, f"), NotUnderstood)
    assert understand("add a task to call the bank") == wish("add_task", title="call the bank")


@pytest.mark.parametrize(
    "text",
    [
        f"add task a{' ' * 2000}`\n",
        f"add tasks: a{' ' * 50_000}b",
        f"fix {'in a with ' * 5000}",
        f"replace {'a with b in ' * 4000}:",
    ],
)
def test_what_is_no_sentence_is_left_alone_at_once(text: str) -> None:
    """Such texts took minutes: patterns with free parts try every way to divide them."""
    assert not is_exact(text)
    meant = understand(text)
    assert isinstance(meant, NotUnderstood)
    assert "too long" in meant.lacks


def test_long_text_in_a_block_is_understood() -> None:
    content = "a line of text\n" * 5000
    assert understand(f"Create a file a.txt with:\n```\n{content}```") == MakeFile(
        "a.txt", content.rstrip("\n")
    )


@pytest.mark.parametrize("text", ["run the tests", "run nosuchprogram please", "run it again"])
def test_words_that_name_no_program_are_no_command(text: str) -> None:
    meant = understand(text)
    assert isinstance(meant, NotUnderstood)
    assert "backticks" in meant.lacks


@pytest.mark.parametrize(
    "command", ["./build.sh", "for each in 1 2; do echo $each; done", "A=1 env"]
)
def test_what_begins_like_a_command_line_is_one(command: str) -> None:
    assert understand(f"run {command}") == RunCommand(command)


def test_a_name_is_taken_and_asked_for() -> None:
    assert understand("My name is Ada.") == Remember("My name is Ada")
    meant = understand("call me Bob")
    assert isinstance(meant, NotUnderstood)
    assert meant.instead == ("My name is Bob",)
    assert isinstance(understand("call me tomorrow"), NotUnderstood)


def test_a_file_is_called_as_the_wish_calls_it() -> None:
    assert understand("make a file with my shopping list") == NotUnderstood(
        "make a file", instead=()
    )
    assert understand("create a file notes with milk") == MakeFile("notes", "milk")
    assert understand('create "Dear Ann.txt" with hello') == MakeFile("Dear Ann.txt", "hello")
    assert isinstance(understand("make soup with carrots"), NotUnderstood)
