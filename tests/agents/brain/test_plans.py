"""Every wish becomes a plan that the real parser accepts and that says what will be done."""

import subprocess
from dataclasses import replace
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
    SaveAttachment,
    Watch,
    WatchedKind,
)
from silas.agents.brain.plans import (
    NOT_CHECKED,
    CannotPlan,
    PatchInvalid,
    Places,
    read_patch,
    write_plan,
)
from silas.work import VerificationCheck, WorkItem, WorkItemType
from silas.work.plan import parse
from silas.work.script import AppendStep, AttachmentStep, EditStep, FileStep, RunStep, read_script

PLACES = Places(home=Path("/home/me"), workspace=Path("/home/me/silas"))


def declared(item: WorkItem) -> dict[str, list[str]]:
    assert item.workspace is not None
    return {kind: paths for kind, paths in item.workspace.changes.model_dump().items() if paths}


def planned(wish: Planned, places: Places = PLACES) -> WorkItem:
    return parse(write_plan(wish, plan_id="task-1", places=places))


@pytest.mark.parametrize(
    "text", [text for phrase in PHRASES for text in phrase.match], ids=lambda text: text[:30]
)
def test_every_example_that_needs_a_plan_gets_one(text: str) -> None:
    meant = understand(text)
    if isinstance(meant, SaveAttachment):
        meant = replace(meant, sha256="0" * 64)  # which file it is, the message says
    if isinstance(meant, Planned):
        assert planned(meant).title


def test_an_attached_file_is_saved_and_checked_by_its_bytes() -> None:
    digest = "0123456789abcdef" * 4
    item = planned(SaveAttachment("papers/a.pdf", "a.pdf", digest))
    assert read_script(item.body) == [AttachmentStep("papers/a.pdf", digest)]
    assert declared(item) == {"add": ["papers/a.pdf"]}
    [check] = item.verify
    assert check.run == "sha256sum -- papers/a.pdf"
    assert not item.without_proof
    with pytest.raises(CannotPlan):
        planned(SaveAttachment("papers/a.pdf"))
    with pytest.raises(CannotPlan):
        planned(SaveAttachment("../a.pdf", "a.pdf", digest))


def test_a_command_with_what_it_must_print() -> None:
    item = planned(RunCommand("echo hello", expected="hello"))
    assert read_script(item.body) == [RunStep(("echo", "hello"))]
    assert item.verify == [], "a check that cannot fail is left out"
    assert item.without_proof
    assert NOT_CHECKED in item.body
    assert item.workspace is not None
    assert item.workspace.path == "/home/me/silas"


def test_what_a_command_prints_it_prints_before_the_work_too() -> None:
    item = planned(RunCommand("cat a.txt", expected="hello"))
    assert item.verify
    assert item.without_proof
    assert declared(item) == {}


@pytest.mark.parametrize(
    ("wish", "made"),
    [
        (RunCommand("make", check="test -f shop.bin"), ["shop.bin"]),
        (RunCommand("make", check="[ -s out/shop.bin ]"), ["out/shop.bin"]),
        (RunCommand("date > now.txt"), ["now.txt"]),
        (RunCommand("date >>log/days.txt"), ["log/days.txt"]),
        (RunCommand("touch a.txt b.txt"), ["a.txt", "b.txt"]),
        (RunCommand('sh -c "date; date >> a.log; date"'), ["a.log"]),
        (RunCommand("/bin/sh -c 'bash -c \"date > a.log\"'"), ["a.log"]),
        (RunCommand("make"), []),
        (RunCommand("sh -c 'date > ../out.txt'"), []),
        (RunCommand("make -c 'date > a.log'"), []),
        (RunCommand("date > /dev/null"), []),
        (RunCommand("date > ../out.txt"), []),
        (RunCommand("date > $OUT"), []),
        (RunCommand("cat 'a > b'"), []),
        (RunCommand("make", check="test -f *.bin"), []),
    ],
    ids=lambda value: str(getattr(value, "command", value))[:30],
)
def test_a_command_declares_what_it_names_and_nothing_else(
    wish: RunCommand, made: list[str]
) -> None:
    assert declared(planned(wish)) == ({"add": made} if made else {})


def test_a_plan_without_a_check_says_that_nothing_can_be_checked() -> None:
    item = planned(RunCommand("make"))
    assert item.without_proof
    assert NOT_CHECKED in item.body
    assert NOT_CHECKED not in planned(MakeFile("a.txt", "x")).body


@pytest.mark.parametrize(
    ("wish", "changes"),
    [
        (MakeFile("notes/a.txt", "x"), {"add": ["notes/a.txt"]}),
        (MakeFile("./a.txt", "x"), {"add": ["a.txt"]}),
        (MakeFile("~/notes/a.txt", "x"), {"add": ["a.txt"]}),
        (AppendToFile("a.txt", "x"), {"change": ["a.txt"]}),
        (EditFile("a.txt", "old", "new"), {"change": ["a.txt"]}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_exactly_the_files_of_the_blocks_are_declared(
    wish: Planned, changes: dict[str, list[str]]
) -> None:
    assert declared(planned(wish)) == changes


@pytest.mark.parametrize("name", ["../a.txt", "notes/../../a.txt", "a*.txt", "a?.txt"])
def test_a_name_that_is_not_one_file_is_asked_for(name: str) -> None:
    for wish in (MakeFile(name, "x"), AppendToFile(name, "x"), EditFile(name, "x", "y")):
        with pytest.raises(CannotPlan, match="one path"):
            write_plan(wish, plan_id="task-1", places=PLACES)


@pytest.mark.parametrize(
    ("wish", "before", "after"),
    [
        (MakeFile("a.txt", "new"), None, "new\n"),
        (MakeFile("a.txt", "new"), "old\n", "new\n"),
        (AppendToFile("a.txt", "milk"), "bread\n", "bread\nmilk\n"),
        (AppendToFile("a.txt", "größer"), "no line end", "no line endgrößer\n"),
        (EditFile("a.txt", "milk", "bread"), "bread\nmilk\n", "bread\nbread\n"),
        (EditFile("a.txt", "milk", "oat milk"), "milk\n", "oat milk\n"),
        (EditFile("a.txt", "milk\n", ""), "milk\nbread\n", "bread\n"),
    ],
    ids=["new file", "other file", "append", "append bytes", "edit", "longer", "remove a line"],
)
def test_a_check_of_a_file_fails_before_the_work_and_passes_after_it(
    wish: Planned, before: str | None, after: str, tmp_path: Path
) -> None:
    item, file = planned(wish), tmp_path / "a.txt"
    if before is not None:
        file.write_text(before)
    if item.without_proof:
        assert not item.verify
        return
    assert not all(passes(check, tmp_path) for check in item.verify)
    file.write_text(after)
    assert all(passes(check, tmp_path) for check in item.verify)


def passes(check: VerificationCheck, directory: Path) -> bool:
    command = ["/bin/sh", "-c", check.run]
    ran = subprocess.run(command, cwd=directory, capture_output=True, check=False)
    output, expect = ran.stdout.decode(), check.expect
    if expect.equals is not None:
        return output == expect.equals
    return expect.contains in output if expect.contains else ran.returncode == expect.exit_code


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
    assert declared(item) == {"change": ["a.txt"]}
    assert read_script(item.body) == [EditStep("a.txt", "old", "")]
    assert item.verify[0].run == "! grep -qF -- old a.txt"


def test_a_file_grows() -> None:
    assert read_script(planned(AppendToFile("a.txt", "x")).body) == [AppendStep("a.txt", "x\n")]


@pytest.mark.parametrize("what", WatchedKind)
def test_watching_is_a_goal(what: WatchedKind) -> None:
    item = planned(Watch(what, "https://example.org/?a=1&b=2", "*/5 * * * *", "every 5 minutes"))
    assert (item.type, item.schedule) == (WorkItemType.GOAL, "*/5 * * * *")
    assert item.verify[0].network == (("example.org",) if what is WatchedKind.ADDRESS else ())


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


def test_a_patch_declares_its_files_and_checks_each_beside_the_tests() -> None:
    item = planned(ApplyPatch(PATCH, "python3 test_sum.py", where="~/shop"))
    assert declared(item) == {"add": ["new.py"], "change": ["sum.py"]}
    assert [check.run for check in item.verify] == [
        "PYTHONPATH=. python3 test_sum.py",
        "cat -- sum.py",
        "cat -- new.py",
    ]


def test_a_patch_of_something_outside_is_not_planned() -> None:
    with pytest.raises(CannotPlan, match="one path"):
        planned(ApplyPatch(PATCH.replace("new.py", "../new.py"), "python3 test_sum.py"))


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
