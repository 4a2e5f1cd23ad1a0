"""The forty tasks. To add one, copy the one that is most like it.

The model of each makes the mistakes that models make; what they are stands beside the script. The
twelve with `real=True` were chosen before a real model saw any of them.
"""

import random

from evals.firsthour.model import (
    PLAN_IT,
    Call,
    Heard,
    Script,
    check,
    direct,
    done,
    edit,
    no_plan,
    plan,
    read,
    run,
    write,
)
from evals.firsthour.task import (
    Task,
    agrees,
    approves,
    asked,
    asks_for_changes,
    card_shows,
    declines,
    ends,
    file_has,
    file_is,
    hears,
    never_hears,
    never_prints,
    no_file,
    page_shows,
    prints,
    restarts,
    risk,
    runs,
    says,
    starts,
    succeeds,
    waits_for,
    waits_for_words,
)

# --- files ---

_HOURS = check("the note has the hours", "cat notes/hours.txt", contains="Mon-Fri 9-17")
_PORT = check("the port is 9000", "cat config.json", contains='"port": 9000')
_CONFIG = '{\n  "host": "localhost",\n  "port": 8080\n}\n'
_SALES = "day,eur\nmon,10\ntue,20\nwed,12\n"
_SUM = """
import csv
rows = list(csv.DictReader(open("sales.csv")))
open("total.txt", "w").write(f"{sum(int(row['eur']) for row in rows)}\\n")
"""

FILES = (
    Task(
        "new file",
        [says("Put the opening hours, Mon-Fri 9-17, into notes/hours.txt."), approves()],
        Script(  # forgets the workspace
            [PLAN_IT],
            [plan("Opening hours", "Write them.", add=["notes/hours.txt"], verify=[_HOURS])],
            [write("notes/hours.txt", "Mon-Fri 9-17\n"), done("The hours are written.")],
        ),
        [
            file_is("notes/hours.txt", "Mon-Fri 9-17"),
            hears("Done, and checked", "notes/hours.txt"),
            never_hears("not among your files"),
            risk("medium"),
        ],
        real=True,
    ),
    Task(
        "one more line",
        [says("Add the line `buy bread` at the end of shopping.txt."), approves()],
        Script(  # calls a file new that is there
            [PLAN_IT],
            [
                plan(
                    "Buy bread",
                    "Append `buy bread` to shopping.txt.",
                    add=["shopping.txt"],
                    place="HOME/silas-files",
                    verify=[check("bread", "cat shopping.txt", contains="buy bread")],
                )
            ],
            [read("shopping.txt"), write("shopping.txt", "milk\nbuy bread\n"), done("Added.")],
        ),
        [
            file_is("shopping.txt", "milk\nbuy bread"),
            hears("Done, and checked", "changed shopping.txt"),
            never_hears("added shopping.txt", "made shopping.txt"),
            risk("medium"),
        ],
        files={"shopping.txt": "milk\n"},
        real=True,
    ),
    Task(
        "a setting in a file",
        [says("Change the port in config.json to 9000."), approves()],
        Script(  # edits a passage that is not there, then the one that is
            [PLAN_IT],
            [plan("Another port", "Change it.", change=["config.json"], verify=[_PORT])],
            [
                edit("config.json", "port: 8080", "port: 9000"),
                read("config.json"),
                edit("config.json", '"port": 8080', '"port": 9000'),
                done("The port is 9000."),
            ],
        ),
        [
            file_is("config.json", _CONFIG.replace("8080", "9000")),
            hears("Done, and checked", "changed config.json"),
        ],
        files={"config.json": _CONFIG},
        real=True,
    ),
    Task(
        "another name",
        [says("Rename draft.txt to letter.txt."), approves()],
        Script(
            [PLAN_IT],
            [
                plan(
                    "Rename the draft",
                    "Move draft.txt to letter.txt.",
                    add=["letter.txt"],
                    remove=["draft.txt"],
                    verify=[check("the letter", "cat letter.txt", contains="Dear Ada")],
                )
            ],
            [run("mv", "draft.txt", "letter.txt"), done("It is called letter.txt now.")],
        ),
        [
            file_is("letter.txt", "Dear Ada"),
            no_file("draft.txt"),
            hears("added letter.txt", "removed draft.txt"),
        ],
        files={"draft.txt": "Dear Ada\n"},
    ),
    Task(
        "a sum of a table",
        [says("Write the sum of the column eur of sales.csv to total.txt."), approves()],
        Script(  # calls tools that do not exist
            [PLAN_IT],
            [
                plan(
                    "Sum of sales",
                    "Add the column eur up.",
                    add=["total.txt"],
                    verify=[check("the sum", "cat total.txt", contains="42")],
                )
            ],
            [
                Call("bash", {"command": "awk ..."}),
                Call("python", {"code": "1"}),
                Call("python_exec", {"code": _SUM}),
                done("It is 42."),
            ],
        ),
        [file_is("total.txt", "42"), hears("Done, and checked"), file_is("sales.csv", _SALES)],
        files={"sales.csv": _SALES},
    ),
    Task(
        "a program",
        [says("Write a script hello.sh that prints hello, and make it executable."), approves()],
        Script(
            [PLAN_IT],
            [
                plan(
                    "hello.sh",
                    "Write it and make it executable.",
                    workspace={"changes": {"add": ["hello.sh"], "executable": ["hello.sh"]}},
                    verify=[check("it can be run", "test -x hello.sh")],
                )
            ],
            [
                write("hello.sh", "#!/bin/sh\necho hello\n"),
                run("chmod", "+x", "hello.sh"),
                done("hello.sh is there."),
            ],
        ),
        [succeeds("./hello.sh"), hears("hello.sh"), card_shows("hello.sh")],
    ),
    Task(
        "more than was agreed, left",
        [
            says("Write a.txt with one."),
            approves(),
            waits_for("call"),
            declines("call"),
            waits_for_words("a.txt"),
        ],
        Script(
            [PLAN_IT],
            [
                plan(
                    "One file",
                    "Write one to a.txt.",
                    add=["a.txt"],
                    verify=[check("one", "cat a.txt", contains="one")],
                )
            ],
            [write("a.txt", "one\n"), write("b.txt", "more\n"), done("Both files are there.")],
        ),
        [file_is("a.txt", "one"), no_file("b.txt"), page_shows("b.txt")],
    ),
    Task(
        "more than was agreed, taken",
        [says("Write a.txt with one."), approves(), waits_for("call"), approves("call")],
        Script(
            [PLAN_IT],
            [
                plan(
                    "One file",
                    "Write one to a.txt.",
                    add=["a.txt"],
                    verify=[check("one", "cat a.txt", contains="one")],
                )
            ],
            [write("a.txt", "one\n"), write("b.txt", "more\n"), done("Both files are there.")],
        ),
        [file_is("a.txt", "one"), file_is("b.txt", "more")],
    ),
)

# --- commands ---

_FAILING = "import sys; print('opening'); sys.exit('no such table: orders')"

COMMANDS = (
    Task(
        "what a command prints",
        [says("Run `expr 4100 + 7` and tell me what it prints."), approves()],
        Script(
            [PLAN_IT],
            [plan("Run expr", "Run `expr 4100 + 7`.", without_proof=True)],
            [run("expr", "4100", "+", "7"), done("I ran it.")],
        ),
        [hears("4107")],
        real=True,
    ),
    Task(
        "what a failing command prints",
        [says("Run import.py and tell me what it prints."), approves()],
        Script(
            [PLAN_IT],
            [plan("Run import.py", "Run `python3 import.py`.", without_proof=True)],
            [run("python3", "import.py"), done("It did not work.")],
        ),
        [hears("no such table: orders"), never_hears("Done, and checked")],
        files={"import.py": _FAILING + "\n"},
    ),
    Task(
        "long output, whole behind a command",
        [says("Run count.py."), approves(), runs("work", "show", "WORK", "--output")],
        Script(
            [PLAN_IT],
            [plan("Run count.py", "Run `python3 count.py`.", without_proof=True)],
            [run("python3", "count.py"), done("I ran it.")],
        ),
        [hears("line 400"), never_hears("line 200\n"), prints("line 1\n", "line 200", "line 400")],
        files={"count.py": "for n in range(1, 401):\n    print('line', n)\n"},
    ),
)

# --- a repository ---

_TOTAL = "def total(prices):\n    return sum(prices) + 1\n"
_TEST = """import unittest

from total import total


class TotalTest(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total([1, 2]), 3)


if __name__ == "__main__":
    unittest.main()
"""
_SHOP = {"~/shop/total.py": _TOTAL, "~/shop/test_total.py": _TEST}
_UNITTEST = "python3 -m unittest -q test_total"
_PASSES = check("the tests pass", f"env PYTHONPATH=. {_UNITTEST}")
_RIGHT = edit("total.py", "sum(prices) + 1", "sum(prices)")

_ORDERS = {
    "~/orders/money.py": "def cents(text):\n    return int(float(text) * 10)\n",
    "~/orders/order.py": (
        "from money import cents\n\n\ndef amount(lines):\n"
        "    return sum(cents(price) for price, _count in lines)\n"
    ),
    "~/orders/report.py": (
        "from order import amount\n\n\ndef report(lines):\n"
        '    return f"Total: {amount(lines) / 10:.2f} EUR"\n'
    ),
    "~/orders/test_report.py": _TEST.replace("from total import total", "from report import report")
    .replace("TotalTest", "ReportTest")
    .replace("test_total", "test_report")
    .replace("total([1, 2]), 3", "report([('1.50', 2), ('2.00', 1)]), 'Total: 5.00 EUR'"),
}
_REPORT_PASSES = check("the report is right", "env PYTHONPATH=. python3 -m unittest -q test_report")


def _fix(*worker: "Call | str", planner: str | None = None) -> Script:
    whole = plan(
        "Fix the total",
        "test_total.py fails: total() adds one too many. Mend total.py; leave the test.",
        change=["total.py"],
        place="HOME/shop",
        verify=[_PASSES],
    )
    return Script([PLAN_IT], [planner or whole], worker)


REPOSITORY = (
    Task(
        "a failing test",
        [says("The test in ~/shop fails. Fix the bug in total.py, not the test."), approves()],
        _fix(run("python3", "-m", "unittest"), read("total.py"), _RIGHT, done("Mended.")),
        [
            succeeds(_UNITTEST, "~/shop"),
            file_is("~/shop/test_total.py", _TEST),
            hears("Done, and checked", "changed total.py"),
        ],
        files=_SHOP,
        repository="~/shop",
        real=True,
    ),
    Task(
        "a bug over three files",
        [says("In ~/orders the report shows a wrong total. Fix it."), approves()],
        Script(
            [PLAN_IT],
            [
                plan(
                    "Mend the report",
                    "Cents are hundredths, and counts are ignored.",
                    change=["money.py", "order.py", "report.py"],
                    place="HOME/orders",
                    verify=[_REPORT_PASSES],
                )
            ],
            [
                edit("money.py", "* 10", "* 100"),
                edit("order.py", "cents(price) for price, _count", "cents(price) * n for price, n"),
                edit("report.py", "/ 10", "/ 100"),
                done("The three files agree now."),
            ],
        ),
        [
            succeeds("python3 -m unittest -q test_report", "~/orders"),
            hears("Done, and checked", "changed money.py", "changed order.py", "changed report.py"),
        ],
        files=_ORDERS,
        repository="~/orders",
    ),
    Task(
        "a refactoring",
        [says("In ~/shop, rename the function total to order_total everywhere."), approves()],
        Script(
            [PLAN_IT],
            [
                plan(
                    "Rename total",
                    "Rename total to order_total in total.py and test_total.py.",
                    change=["total.py", "test_total.py"],
                    place="HOME/shop",
                    verify=[check("the new name", "grep -c order_total total.py", contains="1")],
                )
            ],
            [
                edit("total.py", "def total(", "def order_total("),
                edit("test_total.py", "from total import total", "from total import order_total"),
                edit("test_total.py", "Equal(total(", "Equal(order_total("),
                done("Renamed."),
            ],
        ),
        [
            file_has("~/shop/total.py", "def order_total("),
            succeeds(_UNITTEST, "~/shop"),
            hears("changed total.py", "changed test_total.py"),
        ],
        files={**_SHOP, "~/shop/total.py": _TOTAL.replace(" + 1", "")},
        repository="~/shop",
    ),
    Task(
        "a wrong turn",
        [says("The test in ~/shop fails. Fix total.py."), approves()],
        _fix(  # the first attempt makes it worse
            edit("total.py", "+ 1", "+ 2"),
            done("Mended."),
            read("total.py"),
            _RIGHT,
            done("Now it is mended."),
        ),
        [succeeds(_UNITTEST, "~/shop"), hears("Done, and checked", "changed total.py")],
        files=_SHOP,
        repository="~/shop",
        slow=True,
    ),
    Task(
        "a worker that cheats",
        [says("The test in ~/shop fails. Fix total.py."), approves()],
        _fix(edit("test_total.py", "), 3)", "), 4)"), done("The test passes.")),
        [
            file_is("~/shop/test_total.py", _TEST),
            file_is("~/shop/total.py", _TOTAL),
            never_hears("Done, and checked"),
        ],
        files=_SHOP,
        repository="~/shop",
        slow=True,
    ),
)

# --- questions ---


def _answers_from_what_it_reads(heard: Heard) -> "str | Call":
    """Asks for the file, then says what it holds; a model that is told nothing guesses."""
    if "7349" in heard.text:
        return direct("The gate code in notes/codes.txt is 7349.")
    if "read_file" in heard.tools:
        return Call("read_file", {"path": "notes/codes.txt"})
    return PLAN_IT


def _plans_from_what_it_reads(heard: Heard) -> "str | Call":
    if "7349" in heard.text:
        return no_plan("The gate code in notes/codes.txt is 7349.")
    if "read_file" in heard.tools:
        return Call("read_file", {"path": "notes/codes.txt"})
    if "request_research" in heard.tools:
        if "Asked." in heard.text:
            return no_plan("I am looking it up.")
        question = "Which gate code is in notes/codes.txt?"
        return Call("request_research", {"question": question, "return_format": "one line"})
    return no_plan("I could not look at the file.")


def _researches(heard: Heard) -> "str | Call":
    if "7349" in heard.text:
        return '{"ok": true, "text": "The code is 7349.", "sources": ["notes/codes.txt"]}'
    return Call("read_file", {"path": "notes/codes.txt"})


_CODES = {"notes/codes.txt": "gate code: 7349\n", "notes/old.txt": "nothing\n"}

QUESTIONS_ASKED = (
    Task(
        "a question that words answer",
        [says("What is the capital of Australia?")],
        Script([direct("The capital of Australia is Canberra.")]),
        [hears("Canberra"), asked(0)],
        real=True,
    ),
    Task(
        "a question about a file",
        [says("Which gate code is in notes/codes.txt?")],
        Script([_answers_from_what_it_reads], [_plans_from_what_it_reads], research=[_researches]),
        [hears("7349"), asked(0), file_is("notes/codes.txt", "gate code: 7349")],
        files=_CODES,
        real=True,
    ),
    Task(
        "remember, and recall",
        [says("Remember that the boat is called Albatross."), says("What is the boat called?")],
        Script(
            [
                direct(
                    "I will remember that.",
                    memory_ops=[
                        {
                            "op": "store",
                            "content": "The boat is called Albatross.",
                            "memory_type": "semantic",
                        }
                    ],
                ),
                lambda heard: direct(
                    "The boat is called Albatross."
                    if "called Albatross" in heard.text
                    else "I do not know."
                ),
            ]
        ),
        [hears("Albatross"), asked(0)],
        real=True,
    ),
    Task(
        "a task for the journal",
        [says("Add the task squats in gym, due tomorrow 9am."), runs("journal", "task", "list")],
        Script(
            [
                direct(
                    "",
                    journal_ops=[
                        {
                            "op": "add_task",
                            "title": "Squats",
                            "category": "gym",
                            "due": "tomorrow 9am",
                        }
                    ],
                )
            ]
        ),
        [prints("quats"), hears("quats")],
        real=True,
    ),
    Task(
        "a question back",
        [
            says("Write the address to address.txt."),
            says("12 Main Street, Springfield"),
            approves(),
        ],
        Script(
            [PLAN_IT],
            [
                no_plan("Which address shall I write?"),
                lambda heard: (
                    plan(
                        "The address",
                        "Write 12 Main Street, Springfield to address.txt.",
                        add=["address.txt"],
                        verify=[check("address", "cat address.txt", contains="12 Main Street")],
                    )
                    if "12 Main Street" in heard.text and "address.txt" in heard.text
                    else no_plan("Which file?")
                ),
            ],
            [write("address.txt", "12 Main Street, Springfield\n"), done("Written.")],
        ),
        [hears("Which address"), file_is("address.txt", "12 Main Street, Springfield")],
    ),
)

# --- the owner's word ---


def _hours_as_told(heard: Heard) -> str:
    hours = "Mon-Sat 9-18" if "Mon-Sat 9-18" in heard.text else "Mon-Fri 9-17"
    return plan(
        "Opening hours",
        f"Write `{hours}` to hours.txt.",
        add=["hours.txt"],
        verify=[check("the hours", "cat hours.txt", contains=hours)],
        action="revise" if hours == "Mon-Sat 9-18" else "propose",
    )


def _writes_hours_as_told(heard: Heard) -> "str | Call":
    if "Wrote" in heard.text:
        return done("The hours are there.")
    hours = "Mon-Sat 9-18" if "Mon-Sat 9-18" in heard.text else "Mon-Fri 9-17"
    return write("hours.txt", f"{hours}\n")


_HOURS_AS_TOLD = Script([PLAN_IT], [_hours_as_told], [_writes_hours_as_told])
_EIGHT = plan(
    "Look after the log",
    "Look at app.log.",
    type="goal",
    schedule="0 8 * * *",
    place="HOME/silas-files",
    verify=[check("no error in the log", "grep -c ERROR app.log", equals="0\n")],
)
_SLOW = plan(
    "A long task",
    "Run slow.py, then write done.txt.",
    add=["done.txt"],
    verify=[check("done", "cat done.txt", contains="done")],
)
_ASKS_BEFORE_IT_WRITES = plan(
    "Write with care",
    "Write a.txt.",
    add=["a.txt"],
    gates=[{"name": "ask_first", "on": "on_tool_call", "type": "approval_always"}],
    verify=[check("one", "cat a.txt", contains="one")],
)

DECISIONS = (
    Task(
        "no",
        [says("Write the opening hours, Mon-Fri 9-17, to hours.txt."), declines()],
        _HOURS_AS_TOLD,
        [no_file("hours.txt"), never_hears("Done", "failed"), asked(1)],
        real=True,
    ),
    Task(
        "changes are asked for",
        [
            says("Write the opening hours, Mon-Fri 9-17, to hours.txt."),
            asks_for_changes("Make it Mon-Sat 9-18."),
            approves(),
        ],
        _HOURS_AS_TOLD,
        [file_is("hours.txt", "Mon-Sat 9-18"), hears("Done, and checked"), asked(2)],
    ),
    Task(
        "a correction in the middle",
        [
            says("Write the opening hours, Mon-Fri 9-17, to hours.txt."),
            says("No, make it Mon-Sat 9-18."),
            approves(),
        ],
        _HOURS_AS_TOLD,
        [file_is("hours.txt", "Mon-Sat 9-18"), hears("Done, and checked")],
    ),
    Task(
        "undo that",
        [
            says("Write the opening hours, Mon-Fri 9-17, to hours.txt."),
            approves(),
            waits_for("result"),
            approves("result"),
        ],
        _HOURS_AS_TOLD,
        [file_is("hours.txt", "closed"), hears("Done, and checked")],
        files={"hours.txt": "closed\n"},
        real=True,
    ),
    Task(
        "undo a deletion",
        [
            says("Delete old.log."),
            approves(),
            waits_for("result"),
            approves("result"),
        ],
        Script(
            [PLAN_IT],
            [
                plan(
                    "Delete old.log",
                    "Delete it.",
                    remove=["old.log"],
                    verify=[check("it is gone", "test ! -e old.log")],
                )
            ],
            [run("rm", "old.log"), done("It is gone.")],
        ),
        [file_is("old.log", "old")],
        files={"old.log": "old\n"},
    ),
    Task(
        "stop",
        [says("Run slow.py, then write done.txt."), starts(), runs("work", "cancel", "WORK")],
        Script([PLAN_IT], [_SLOW], [run("python3", "slow.py"), write("done.txt", "done\n")]),
        [no_file("done.txt"), never_hears("Done"), prints("ancel")],
        files={"slow.py": "import time\ntime.sleep(100)\n"},
        slow=True,
    ),
    Task(
        "a schedule",
        [
            says("Every morning at 8, look whether app.log has an error."),
            agrees(),
            runs("work", "list"),
        ],
        Script([PLAN_IT], [_EIGHT]),
        [prints("goal"), hears("8"), never_hears("Done")],
        files={"app.log": "INFO all well\n"},
        real=True,
    ),
    Task(
        "a goal that is cancelled",
        [
            says("Every morning at 8, look whether app.log has an error."),
            agrees(),
            runs("work", "cancel", "WORK"),
            runs("work", "list"),
        ],
        Script([PLAN_IT], [_EIGHT]),
        [prints("cancelled"), never_prints("(goal): pending", "(goal): healthy")],
        files={"app.log": "INFO all well\n"},
    ),
    Task(
        "a call that waits, allowed",
        [
            says("Write one to a.txt."),
            approves(),
            waits_for("call"),
            runs("review", "list"),
            approves("call"),
        ],
        Script([PLAN_IT], [_ASKS_BEFORE_IT_WRITES], [write("a.txt", "one\n"), done("Written.")]),
        [
            file_is("a.txt", "one"),
            prints("write_file"),
            never_hears("did not work", "everything", "cannot go on"),
        ],
    ),
    Task(
        "a card outlives a restart",
        [
            says("Write the opening hours, Mon-Fri 9-17, to hours.txt."),
            restarts(),
            waits_for("plan"),
            approves(),
        ],
        _HOURS_AS_TOLD,
        [file_is("hours.txt", "Mon-Fri 9-17"), hears("Done, and checked")],
        slow=True,
    ),
    Task(
        "yes in a terminal",
        [
            says("Write the opening hours, Mon-Fri 9-17, to hours.txt."),
            runs("review", "list"),
            runs("review", "show", "CARD"),
            runs("review", "approve", "CARD", "--hash", "HASH"),
            waits_for_words("Done, and checked"),
        ],
        _HOURS_AS_TOLD,
        [file_is("hours.txt", "Mon-Fri 9-17"), prints("Opening hours", "hours.txt")],
    ),
)

# --- mistakes of the model ---

_GOOD = plan(
    "Opening hours",
    "Write `Mon-Fri 9-17` to hours.txt.",
    add=["hours.txt"],
    verify=[check("the hours", "cat hours.txt", contains="Mon-Fri 9-17")],
)
_WRITES = (write("hours.txt", "Mon-Fri 9-17\n"), done("Written."))
_ASK = says("Write the opening hours, Mon-Fri 9-17, to hours.txt.")
_WRITTEN = (file_is("hours.txt", "Mon-Fri 9-17"), hears("Done, and checked"))

MISTAKES = (
    Task(
        "broken JSON, once",
        [_ASK, approves()],
        Script([PLAN_IT[:-20], PLAN_IT], [_GOOD[:-9], _GOOD], _WRITES),
        _WRITTEN,
    ),
    Task(
        "broken JSON, always",
        [_ASK],
        Script([PLAN_IT], ["{'plan_action': "], _WRITES),
        [no_file("hours.txt"), asked(0), never_hears("Done"), hears("model")],
    ),
    Task(
        "prose around the plan",
        [_ASK, approves()],
        Script(
            [f"Sure! Here is my decision:\n```json\n{PLAN_IT}\n```\nAnything else?"],
            [f"Of course. This is the plan:\n\n{_GOOD}\n\nTell me if it fits."],
            _WRITES,
        ),
        _WRITTEN,
    ),
    Task(
        "a check that cannot fail",
        [_ASK, approves()],
        Script(
            [PLAN_IT],
            [_GOOD.replace("cat hours.txt", "echo Mon-Fri 9-17"), _GOOD],
            _WRITES,
        ),
        [*_WRITTEN, asked(1)],
    ),
    Task(
        "a wrong path",
        [_ASK, approves()],
        Script(
            [PLAN_IT],
            [_GOOD],
            [write("/etc/hours.txt", "x"), write("../hours.txt", "x"), *_WRITES],
        ),
        [*_WRITTEN, no_file("~/hours.txt")],
    ),
    Task(
        "gives up early",
        [_ASK, approves()],
        Script([PLAN_IT], [_GOOD], [done("All done!"), *_WRITES]),
        _WRITTEN,
    ),
    Task(
        "says that it is done, and did nothing",
        [_ASK, approves()],
        Script([PLAN_IT], [_GOOD, no_plan("I know no other way.")], [done("All done!")]),
        [no_file("hours.txt"), never_hears("Done, and checked"), page_shows("the hours")],
        slow=True,
    ),
    Task(
        "repeats itself",
        [_ASK, approves()],
        Script([PLAN_IT], [_GOOD, no_plan("I know no other way.")], [read("hours.txt")]),
        [no_file("hours.txt"), never_hears("Done, and checked"), ends("stuck", "blocked")],
        slow=True,
    ),
)

SAMPLE_SEED, SAMPLE_SIZE = 15, 8

TASKS = (*FILES, *COMMANDS, *REPOSITORY, *QUESTIONS_ASKED, *DECISIONS, *MISTAKES)


def sample() -> list[Task]:
    """A few quick ones, for `make test`; always the same ones as long as there are no others."""
    quick = sorted((task for task in TASKS if not task.slow), key=lambda task: task.name)
    return random.Random(SAMPLE_SEED).sample(quick, SAMPLE_SIZE)
