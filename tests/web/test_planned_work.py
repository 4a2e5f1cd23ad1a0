"""Work that a model plans, through the whole server: it reaches the owner's files, and the plan is
changed as often as the owner wants. Judged by the owner's own folders."""

import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.models import override_allow_model_requests

from evals.firsthour.model import (
    PLAN_IT,
    Call,
    Heard,
    Script,
    ScriptedModel,
    check,
    done,
    edit,
    no_plan,
    plan,
    plan_text,
    read,
    run,
    write,
)
from silas.testing.model_server import model_server
from tests.web.place import Line, Place, environ_for, open_place

BROKEN = """from datetime import datetime, timezone


def opening_hour(moment: datetime) -> int:
    return moment.replace(tzinfo=timezone.utc).hour
"""
OLD, NEW = "moment.replace(tzinfo=timezone.utc)", "moment.astimezone(timezone.utc)"
TESTS = """import unittest
from datetime import datetime, timedelta, timezone

from shop.clock import opening_hour


class OpeningHour(unittest.TestCase):
    def test_of_another_zone(self):
        moment = datetime(2026, 1, 5, 9, tzinfo=timezone(timedelta(hours=2)))
        self.assertEqual(opening_hour(moment), 7)
"""
UNITTEST = "PYTHONPATH=. python3 -m unittest tests.test_clock"
NOTE = [check("the note is there", "cat note.txt", contains="milk")]


@dataclass
class Talk:
    """A page that talks to a Silas whose model plays a script."""

    place: Place
    line: Line
    model: ScriptedModel
    files: Path
    seen: set[str] = field(default_factory=set)

    async def ask(self, text: str, **more: Any) -> dict[str, Any]:
        """Say something; returns the card that it leads to."""
        await self.line.send(self.line.message(text, **more))
        return await self.card()

    async def card(self) -> dict[str, Any]:
        """The next card; one that was looked at already may be sent again."""
        while True:
            card = await self.line.until("approval_request", kind="plan", state="open")
            if card["request_id"] not in self.seen:
                self.seen.add(card["request_id"])
                return card

    async def decide(self, card: dict[str, Any], verdict: str, **more: Any) -> None:
        await self.line.send(self.line.decision(card, verdict, **more))

    async def done(self, status: str = "done") -> dict[str, Any]:
        return await self.line.until("work", status=status)

    async def status_of(self, card: dict[str, Any]) -> str:
        item = await self.place.core.work.items.get(card["items"][0]["id"])
        assert item is not None
        return item.status.value

    def heard(self, role: str) -> list[Heard]:
        return [each for each in self.model.heard if each.role == role]


def plan_of(card: dict[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = json.loads(card["items"][0]["plan"])
    return shown


@asynccontextmanager
async def talking(root: Path, script: Script, **environ: str) -> AsyncIterator[Talk]:
    """The model is a server of this test's; no other is reached."""
    model = ScriptedModel(script, root / "home")
    with override_allow_model_requests(True):
        async with talking_to(model, root, **environ) as talk:
            yield talk


@asynccontextmanager
async def talking_to(model: ScriptedModel, root: Path, **more: str) -> AsyncIterator[Talk]:
    files = root / "files"
    async with model_server(model) as server:
        roles = ("PROXY", "PLANNER", "EXECUTOR")
        environ = environ_for(
            root,
            OPENAI_API_KEY="x",
            SILAS_PLANNER__WORKSPACE_DIR=str(files),
            SILAS_MODELS__BASE_URL=server.url,
            **{f"SILAS_MODELS__{role}": "openai:local" for role in roles},
            **more,
        )
        async with open_place(root, environ) as place:
            device = await place.device()
            async with device.conversation() as line:
                yield Talk(place, line, model, files)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a test that fails."""
    where = tmp_path / "shop"
    for name, text in {"shop/clock.py": BROKEN, "tests/test_clock.py": TESTS}.items():
        (where / name).parent.mkdir(parents=True, exist_ok=True)
        (where / name).write_text(text)
        (where / name).with_name("__init__.py").touch()
    for arguments in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "First"]):
        git(where, *arguments)
    return where


def git(where: Path, *arguments: str) -> str:
    known = ["-c", "user.name=Owner", "-c", "user.email=owner@example.org"]
    command = ["git", *known, *arguments]
    return subprocess.run(command, cwd=where, check=True, capture_output=True, text=True).stdout


def passes(repository: Path) -> bool:
    command = ["python3", "-B", "-m", "unittest", "-q", "tests.test_clock"]
    return subprocess.run(command, cwd=repository, check=False, capture_output=True).returncode == 0


FIX = plan(
    "Fix the timezone bug",
    f"In shop/clock.py replace `{OLD}` by `{NEW}`.",
    change=["shop/clock.py"],
    verify=[check("the test passes", UNITTEST)],
)


@pytest.mark.parametrize("way", ["named", "picked"])
async def test_fix_the_timezone_bug_in_this_repo(
    tmp_path: Path, repository: Path, way: str
) -> None:
    """MVP-1: the repository is read, the bug is fixed in it, and a test that failed says so."""
    question = Call("request_research", {"question": "Which code is tested in tests/?"})

    def found(heard: Heard) -> str:
        assert "def opening_hour" in heard.text, "research has not read the file"
        return json.dumps({"ok": True, "text": "shop/clock.py", "sources": ["shop/clock.py"]})

    script = Script(
        proxy=[PLAN_IT],
        planner=[question, no_plan("I wait for research."), FIX],
        research=[Call("glob", {"pattern": "**/*.py"}), read("shop/clock.py"), found],
        executor=[
            edit("shop/clock.py", OLD, NEW),
            run("python3", "-m", "unittest", "-q"),  # leaves no bytecode to be asked about
            done("The zone is converted."),
        ],
    )
    assert not passes(repository)
    async with talking(tmp_path, script) as talk:
        if way == "named":
            card = await talk.ask(f"Fix the timezone bug in {repository}.")
        else:
            card = await talk.ask("Fix the timezone bug in this repo", folder=str(repository))
        assert str(repository) in talk.heard("planner")[0].text
        assert "a git repository" in talk.heard("planner")[0].text
        assert "shop/clock.py" in talk.heard("planner")[-1].text, "the finding did not come back"
        assert plan_of(card)["workspace"]["path"] == str(repository)
        assert f"I work in {repository}." in card["body"]
        await talk.decide(card, "approved")
        work = await talk.done()
        assert [(each["kind"], each["path"], each["taken"]) for each in work["files"]] == [
            ("changed", "shop/clock.py", True)
        ]
        assert NEW in (repository / "shop" / "clock.py").read_text()
        assert passes(repository)
        assert git(repository, "branch", "--list", "silas/*").strip(), "there is no branch"
        assert git(repository, "status", "--porcelain").strip() == "M shop/clock.py"
        undo = await talk.line.until("approval_request", kind="result")
        await talk.decide(undo, "approved")
        await talk.line.until("work", work_item_id=undo["items"][0]["id"], status="done")
        assert (repository / "shop" / "clock.py").read_text() == BROKEN


async def test_a_plan_that_names_no_folder_works_in_the_workspace_and_says_so(
    tmp_path: Path,
) -> None:
    script = Script(
        proxy=[PLAN_IT],
        planner=[plan("Write a note", "Write milk to note.txt.", add=["note.txt"], verify=NOTE)],
        executor=[write("note.txt", "milk\n"), done("It is written.")],
    )
    async with talking(tmp_path, script) as talk:
        card = await talk.ask("Note that we need milk")
        assert plan_of(card)["workspace"]["path"] == str(talk.files)
        assert f"I work in {talk.files}." in card["body"]
        await talk.decide(card, "approved")
        await talk.done()
        assert (talk.files / "note.txt").read_text() == "milk\n"


async def test_a_folder_that_is_off_limits_is_not_worked_in(tmp_path: Path) -> None:
    script = Script(
        proxy=[PLAN_IT],
        planner=[plan("Write a note", "Write milk.", add=["note.txt"], verify=NOTE)],
    )
    async with talking(tmp_path, script) as talk:
        data = str(talk.place.core.paths.data_dir)
        card = await talk.ask("Write a note", folder=data)
        assert plan_of(card)["workspace"]["path"] == str(talk.files)
        assert "is no place to work" in card["body"]
        assert data not in talk.heard("planner")[0].text


async def test_ask_for_changes_brings_a_revised_plan_as_often_as_wanted(tmp_path: Path) -> None:
    def note(text: str, *, action: str) -> str:
        verify = [check("the note is there", "cat note.txt", contains=text)]
        todo = f"Write {text} to note.txt."
        return plan("Write a note", todo, add=["note.txt"], verify=verify, action=action)

    script = Script(
        proxy=[PLAN_IT],
        planner=[
            note("milk", action="propose"),
            note("milk and bread", action="revise"),
            note("milk, bread and tea", action="revise"),
        ],
        executor=[write("note.txt", "milk, bread and tea\n"), done("It is written.")],
    )
    async with talking(tmp_path, script) as talk:
        first = await talk.ask("Note that we need milk")
        await talk.decide(first, "edit_requested", changes="Bread too, please.")
        second = await talk.card()
        asked = talk.heard("planner")[1].text
        assert "Bread too, please." in asked
        assert "Write milk to note.txt." in asked, "the planner has not seen its own plan"
        assert second["replaces"] == first["items"][0]["id"]
        assert "bread" in plan_of(second)["body"]
        await talk.decide(second, "edit_requested", changes="And tea.")
        third = await talk.card()
        assert third["replaces"] == second["items"][0]["id"]
        assert plan_of(third)["workspace"]["path"] == str(talk.files)
        await talk.decide(third, "approved")
        await talk.done()
        assert (talk.files / "note.txt").read_text() == "milk, bread and tea\n"
        assert [await talk.status_of(each) for each in (first, second, third)] == [
            "replaced",
            "replaced",
            "done",
        ]


async def test_a_folder_that_only_the_plan_names_is_not_read_for_its_revision(
    tmp_path: Path,
) -> None:
    place = tmp_path / "home" / "letters"
    script = Script(
        proxy=[PLAN_IT],
        planner=[
            plan("A note", "Write milk.", add=["note.txt"], verify=NOTE, place=str(place)),
            plan("A note", "Write more milk.", add=["note.txt"], verify=NOTE, action="revise"),
        ],
    )
    async with talking(tmp_path, script) as talk:
        place.mkdir(parents=True, exist_ok=True)
        first = await talk.ask("Note that we need milk")
        assert plan_of(first)["workspace"]["path"] == str(place)
        await talk.decide(first, "edit_requested", changes="More of it.")
        second = await talk.card()
        told = talk.heard("planner")[1].text
        folders = told.partition("<folders>")[2].partition("</folders>")[0]
        assert str(talk.files) in folders
        assert str(place) not in folders, "the owner has never named it"
        # The owner sees it on the card again, and decides about that.
        assert plan_of(second)["workspace"]["path"] == str(place)


async def test_a_plan_that_cannot_be_changed_is_not_called_failed(tmp_path: Path) -> None:
    script = Script(
        proxy=[PLAN_IT],
        planner=[
            plan("Write a note", "Write milk.", add=["note.txt"], verify=NOTE),
            no_plan("Which colour do you mean?"),
        ],
    )
    async with talking(tmp_path, script) as talk:
        card = await talk.ask("Write a note")
        await talk.decide(card, "edit_requested", changes="In the right colour.")
        while True:
            answer = await talk.line.until("message", sender="silas")
            if "Which colour" in answer["text"]:
                break
        assert "stays sent back" in answer["text"]
        assert await talk.status_of(card) == "replaced"


WRONG = {
    "a tool that is not there": (
        {"approvals": [{"tool": "send_mail", "constraints": {"to": {"any": True}}}]},
        "there is no tool send_mail",
    ),
    "a skill that is not there": ({"skills": ["tea"]}, "The skill tea is not installed"),
    "a predicate that is not there": (
        {"verify": [{"name": "n", "run": "cat note.txt", "expect": {"matches": "milk"}}]},
        "verify[0].expect",
    ),
    "a folder that is not there": ({"workspace": {"path": "/no/such/folder"}}, "/no/such/folder"),
}


@pytest.mark.parametrize("name", WRONG)
async def test_a_wrong_turn_is_repaired_with_what_is_wrong(tmp_path: Path, name: str) -> None:
    keys, problem = WRONG[name]
    wrong = json.dumps(
        {
            "plan_action": {
                "action": "propose",
                "plan_markdown": plan_text(
                    "Write a note", "Write milk.", **{"verify": NOTE, **keys}
                ),
            },
            "message": "Here it is.",
        }
    )
    right = plan("Write a note", "Write milk.", add=["note.txt"], verify=NOTE)
    async with talking(tmp_path, Script(proxy=[PLAN_IT], planner=[wrong, right])) as talk:
        card = await talk.ask("Write a note")
        assert plan_of(card)["title"] == "Write a note"
        assert problem in talk.heard("planner")[1].text
        talk.model.script = Script(proxy=[PLAN_IT], planner=[wrong])
        asked = len(talk.heard("planner"))
        frame = await talk.line.say("Write another note")
        while True:
            answer = await talk.line.until("message", sender="silas")
            if answer["trace_id"] == f"trace_{frame['message_id']}":
                break
        assert len(talk.heard("planner")) - asked == 2, "one repair, and no more"
        assert not answer["card_id"]
        assert answer["text"].startswith(("I wrote a plan that", "I could not write a plan"))
        assert problem in answer["text"], "the owner is not told what is wrong"


async def test_a_plan_without_a_check_is_asked_for_one(tmp_path: Path) -> None:
    bare = plan("Write a note", "Write milk.", add=["note.txt"])
    full = plan("Write a note", "Write milk.", add=["note.txt"], verify=NOTE)
    async with talking(tmp_path, Script(proxy=[PLAN_IT], planner=[bare, full])) as talk:
        card = await talk.ask("Write a note")
        assert "has no check" in talk.heard("planner")[1].text
        assert len(plan_of(card)["verify"]) == 1


async def test_abort_stops_work_and_execute_next_asks_for_it_again(tmp_path: Path) -> None:
    first = plan("Write a note", "Write milk.", add=["note.txt"], verify=NOTE)

    def about(action: str) -> str:
        name = talk_items[0]
        return json.dumps(
            {
                "plan_action": {
                    "action": action,
                    "plan_markdown": "",
                    "continuation_of": name,
                },
                "message": "As you say.",
            }
        )

    talk_items: list[str] = []
    script = Script(
        proxy=[PLAN_IT],
        planner=[first, lambda _: about("abort"), lambda _: about("execute_next")],
        executor=[write("note.txt", "milk\n"), done("It is written.")],
    )
    async with talking(tmp_path, script) as talk:
        card = await talk.ask("Write a note")
        talk_items.append(card["items"][0]["id"])
        await talk.line.say("Stop the note")
        while True:
            answer = await talk.line.until("message", sender="silas")
            if "“Write a note” is stopped." in answer["text"]:
                break
        assert await talk.status_of(card) == "failed"
        again = await talk.ask("Do it after all")
        assert again["replaces"] == card["items"][0]["id"]
        await talk.decide(again, "approved")
        await talk.done()
        assert (talk.files / "note.txt").read_text() == "milk\n"
