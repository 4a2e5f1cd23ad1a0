"""Every wish becomes a plan that the real parser accepts and that says what will be done."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.agents.brain.grammar import PHRASES, understand
from silas.agents.brain.intents import (
    AppendToFile,
    ApplyPatch,
    EditFile,
    MakeFile,
    Planned,
    RunCommand,
    Watch,
    Watched,
)
from silas.agents.brain.patches import PatchInvalid, read_patch
from silas.agents.brain.plans import CannotPlan, Places, write_plan
from silas.work import WorkItem, WorkItemType
from silas.work.offline_script import AppendStep, EditStep, FileStep, RunStep, read_script
from silas.work.plan import parse

PLACES = Places(home=Path("/home/me"), workspace=Path("/home/me/silas"))


def planned(wish: Planned, places: Places = PLACES) -> WorkItem:
    return parse(write_plan(wish, plan_id="task-1", places=places))


@pytest.mark.parametrize(
    "text", [text for phrase in PHRASES for text in phrase.match], ids=lambda text: text[:30]
)
def test_every_example_that_needs_a_plan_gets_one(text: str) -> None:
    meant = understand(text)
    if isinstance(meant, Planned):
        assert planned(meant).title


def test_a_command_with_what_it_must_print() -> None:
    item = planned(RunCommand("echo hello", expected="hello"))
    assert read_script(item.body) == [RunStep(("echo", "hello"))]
    assert [(check.run, check.expect.contains) for check in item.verify] == [
        ("echo hello", "hello")
    ]
    assert item.workspace is not None
    assert item.workspace.path == "/home/me/silas"


def test_what_needs_a_shell_gets_one() -> None:
    item = planned(RunCommand("ls | wc -l", where="~/shop"))
    assert read_script(item.body) == [RunStep(("sh", "-c", "ls | wc -l"))]
    assert item.workspace is not None
    assert item.workspace.path == "/home/me/shop"


def test_a_file_is_worked_on_where_it_is() -> None:
    item = planned(MakeFile("~/notes/a.txt", "hello"))
    assert read_script(item.body) == [FileStep("a.txt", "hello\n")]
    assert item.workspace is not None
    assert item.workspace.path == "/home/me/notes"
    assert item.verify[0].expect.equals == "hello\n"


def test_a_passage_may_go_away() -> None:
    item = planned(EditFile("a.txt", "old", ""))
    assert read_script(item.body) == [EditStep("a.txt", "old", "")]
    assert item.verify[0].run == "! grep -qF -- old a.txt"


def test_a_file_grows() -> None:
    assert read_script(planned(AppendToFile("a.txt", "x")).body) == [AppendStep("a.txt", "x\n")]


@pytest.mark.parametrize("what", Watched)
def test_watching_is_a_goal(what: Watched) -> None:
    item = planned(Watch(what, "https://example.org/?a=1&b=2", "*/5 * * * *", "every 5 minutes"))
    assert (item.type, item.schedule) == (WorkItemType.GOAL, "*/5 * * * *")
    assert item.verify[0].network is (what is Watched.ADDRESS)


def test_without_a_place_the_person_is_asked() -> None:
    nowhere = Places(home=Path("/home/me"))
    for wish in (MakeFile("a.txt", "x"), ApplyPatch(PATCH, "true"), RunCommand("ls", where="shop")):
        with pytest.raises(CannotPlan, match="~/"):
            write_plan(wish, plan_id="task-1", places=nowhere)


def test_what_cannot_be_written_down_is_refused() -> None:
    with pytest.raises(CannotPlan, match="exactly"):
        write_plan(EditFile("a.txt", "x\n=======\ny", "z"), plan_id="task-1", places=PLACES)


@given(content=st.text(st.characters(exclude_categories=["Cs", "Cc"], include_characters="\n")))
def test_any_text_arrives_as_it_was_written(content: str) -> None:
    try:
        item = planned(MakeFile("a.txt", content))
    except CannotPlan:
        return
    [step] = read_script(item.body)
    assert isinstance(step, FileStep)
    assert step.content.rstrip("\n") == content.rstrip("\n")


PATCH = """--- a/sum.py
+++ b/sum.py
@@ -1,3 +1,3 @@
 def add(a, b):
-    return a - b
+    return a + b

@@ -9 +9 @@
-x
+y
--- /dev/null
+++ b/new.py
@@ -0,0 +1 @@
+z = 1
"""


def test_a_patch_becomes_edits() -> None:
    assert read_patch(PATCH) == [
        EditStep(
            "sum.py",
            "def add(a, b):\n    return a - b\n",
            "def add(a, b):\n    return a + b\n",
        ),
        EditStep("sum.py", "x", "y"),
        FileStep("new.py", "z = 1\n"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "no patch",
        "--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n",
        "--- a/x\n+++ b/y\n@@ -1 +1 @@\n-x\n+y\n",
        "--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+y\n",
    ],
    ids=["nothing", "removal", "renaming", "no context"],
)
def test_what_a_patch_may_not_do(text: str) -> None:
    with pytest.raises(PatchInvalid):
        read_patch(text)
