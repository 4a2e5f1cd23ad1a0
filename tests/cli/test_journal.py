"""`silas journal`, as real processes, with and without a running server."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from silas.app.client import call_server
from silas.app.journal import open_journal_file
from silas.journal import Journal
from silas.kernel import IdFactory, SystemClock
from silas.settings.paths import Paths
from tests.cli.desk import Desk
from tests.cli.machine import Machine, output_of
from tests.cli.test_backup import elsewhere
from tests.cli.test_start import running


def test_a_day_on_the_command_line(desk: Desk) -> None:
    made = desk.data("task", "add", "Squats", "--category", "gym", "--due", "tomorrow 9am")
    task = made["records"][0]
    assert (task["title"], task["priority"]) == ("Squats", "P2")
    assert made["payload"] == {"task_id": task["id"]}
    assert "subtype_token|task.status_changed|open" in made["changed_tokens"]
    desk.say("task", "add", "Stretch", "-c", "gym", "-i", "mat", "-i", "roll", "-e", "45m")
    listed = desk.say("task", "list", "-c", "gym")
    assert f"{task['id'][-5:]}  Squats  (gym)  due tomorrow 09:00" in listed
    assert "Stretch  (gym)  45 min" in listed
    assert "[x]" in desk.say("check", "done", "mat")
    assert "Squats" in desk.say("time", "start", "squ")
    assert "hard" in desk.say("time", "stop", "-n", "hard")
    assert "45 min" in desk.say("time", "log", "squ", "--from", "2h ago", "--for", "45m")
    desk.say("day", "add", "9:00", "10:30", "-t", "squ", "-d", "tomorrow")
    shown = desk.say("day", "show", "tomorrow")
    assert "09:00 to 10:30" in shown
    assert "Due:" in shown
    desk.say("rate", "squ", "energy", "7")
    assert "energy 7  Squats" in desk.say("ratings")
    desk.say("note", "slept badly", "-c", "gym", "--about", "squ")
    assert "note  slept badly" in desk.say("search", "slep")
    linked = desk.data("link", "squats", "stretch", "--relation", "before")
    assert linked["records"][0]["relation"] == "before"
    done = desk.say("task", "done", "stretch", "--rollover")
    assert "Stretch (continued)" in done
    assert "status: in_progress" in desk.say("history", "squ")


def test_tasks_that_repeat_and_remind_on_the_command_line(desk: Desk) -> None:
    made = desk.say("task", "add", "Bins", "--every", "monday", "--remind", "due")
    assert "every Monday" in made
    assert "Bins, " in desk.say("task", "reminders")
    done = desk.say("task", "done", "bins")
    assert "[x]" in done
    assert "[ ]" in done, "the next one is there"
    assert "every weekday at 7:00" in desk.say("task", "edit", "bins", "--every", "weekday at 7am")
    assert "No reminders" not in desk.say("task", "reminders")
    desk.say("task", "edit", "bins", "--remind", "none", "--every", "none")
    assert "No reminders" in desk.say("task", "reminders")
    for wrong in (
        ("task", "add", "x", "--every", "blue moon"),
        ("task", "add", "x", "--remind", "due"),
        ("task", "add", "x", "--remind", "yesterday"),
    ):
        code, _, told = desk.run("journal", *wrong)
        assert code != 0
        assert told


def test_what_is_not_clear_changes_nothing_and_is_listed(desk: Desk) -> None:
    for name in ("Squats", "Squash"):
        desk.say("task", "add", name)
    code, _, told = desk.run("journal", "task", "done", "squ")
    assert code == 71
    assert "2 records fit 'squ'" in told
    assert "Squats" in told
    _, answer, _ = desk.run("journal", "delete", "squ", "--json")
    candidates = json.loads(answer)["error"]["details"]["candidates"]
    assert {each["name"] for each in candidates} == {"Squats", "Squash"}
    assert len(desk.data("task", "list")["tasks"]) == 2
    assert desk.run("journal", "task", "add", "x", "--due", "soon")[0] == 71
    assert desk.run("journal", "task", "show", "nothing")[0] == 71


@pytest.mark.slow
def test_a_running_server_makes_the_change_and_tells_the_same_errors(desk: Desk) -> None:
    with running(desk.machine) as server:
        made = desk.data("task", "add", "Squats")
        assert desk.data("task", "list")["tasks"][0]["id"] == made["payload"]["task_id"]
        code, stopped, _ = desk.run("journal", "time", "stop", "--json")
        assert code == 71
        assert json.loads(stopped)["error"]["code"] == "E_JOURNAL_UNKNOWN"
        # The socket alone is enough: the change is made by the server.
        asked = call_server(
            Paths(data_dir=desk.machine.data_dir, config_file=Path()),
            "/api/journal/start_task_timer",
            {"arguments": made["payload"]},
        )
        assert (
            desk.data("time", "list")["time_entries"][0]["id"] == asked["payload"]["time_entry_id"]
        )
        os.kill(server.pid, 0)  # it is still there
    desk.say("task", "done", "squats")
    assert desk.data("task", "list")["tasks"] == []


def test_files_go_out_and_in_once(desk: Desk, tmp_path: Path) -> None:
    todo = tmp_path / "todo.txt"
    todo.write_text("(A) Call Mum +Family due:2030-01-05\nx Buy milk\n")
    for changed in (3, 0):  # two tasks and their category
        answer = desk.data("import", str(todo), "--category", "Home")
        assert answer["changed"] == changed
    file = tmp_path / "journal.json"
    assert desk.data("export", str(file))["records"] == 3
    assert file.stat().st_mode & 0o077 == 0
    assert desk.run("journal", "export", str(file))[0] == 2
    desk.say("task", "done", "call")
    assert desk.data("import", str(file))["changed"] == 0
    broken = tmp_path / "tasks.csv"
    broken.write_text("title,status\nok,open\nbad,ready\n")
    code, _, told = desk.run("journal", "import", str(broken))
    assert code == 71
    assert "Line 3: status" in told
    assert len(desk.data("task", "list", "--all")["tasks"]) == 2


def test_a_backup_brings_the_journal_back_as_another_device(desk: Desk, tmp_path: Path) -> None:
    desk.say("task", "add", "Squats")
    assert desk.run("backup", str(tmp_path / "silas.backup"))[0] == 0
    desk.say("task", "add", "after the backup")
    here, there = desk.machine, elsewhere(desk.machine, tmp_path / "other")
    desk.machine = there
    assert desk.run("restore", str(tmp_path / "silas.backup"))[0] == 0
    (task,) = desk.data("task", "list")["tasks"]
    assert task["title"] == "Squats"
    # Both count on; as one host their writes could not be told apart.
    assert host_of(here) != host_of(there)
    changed = desk.data("task", "done", "squats")["records"][0]
    assert set(changed["vector_clock"]) == {host_of(here), host_of(there)}


def host_of(machine: Machine) -> str:
    async def inside() -> str:
        clock = SystemClock()
        paths = Paths(data_dir=machine.data_dir, config_file=machine.data_dir / "silas.yaml")
        async with open_journal_file(paths, clock=clock, ids=IdFactory(clock)) as journal:
            assert isinstance(journal, Journal)
            return journal.host_id

    return asyncio.run(inside())


def test_every_command_explains_itself(desk: Desk) -> None:
    for group in ([], ["task"], ["check"], ["time"], ["day"], ["category"]):
        assert "Commands:" in desk.say(*group, "--help")


def test_it_is_a_command_of_silas(owner: Machine) -> None:
    added = json.loads(output_of(owner.run("journal", "task", "add", "Squats", "--json")))
    assert added["records"][0]["title"] == "Squats"
