"""`silas companions`: a companion from the first to the last, without a server."""

import io
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.desk import Desk


def agents(desk: Desk, *words: str) -> Any:
    code, said, complaint = desk.run("companions", *words, "--json")
    assert code == 0, complaint or said
    return json.loads(said)


def refused(desk: Desk, *words: str) -> str:
    code, _, complaint = desk.run("companions", *words)
    assert code != 0
    return complaint


def test_from_the_first_to_the_last(desk: Desk) -> None:
    assert {"planner", "gym_coach", "strategist"} <= {
        each["kind"] for each in agents(desk, "kinds")["kinds"]
    }
    made = agents(desk, "new", "planner", "--category", "gym", "--name", "Paula")
    assert (made["health"], made["model_id"]) == ("idle", None)
    assert agents(desk, "show", "paula")["companion"]["id"] == made["id"]
    assert agents(desk, "pause", "Pau")["health"] == "paused"
    assert agents(desk, "resume", made["id"][-6:])["health"] == "idle"
    woken = agents(desk, "say", "paula", "What is open?")
    (run,) = agents(desk, "runs", "paula")["runs"]
    assert (run["run_key"], run["status"]) == (woken["run_key"], "queued")
    assert agents(desk, "report", "paula") == {"report": None}
    assert agents(desk, "consent", "paula") == {"disclosure": None}
    assert agents(desk, "persona", "paula")["versions"][0]["in_use"] is True
    assert agents(desk, "configure", "paula", "--name", "Pia")["display_name"] == "Pia"
    assert agents(desk, "destroy", "pia", "--yes")["health"] == "destroyed"
    assert agents(desk, "list")["companions"] == []
    assert len(agents(desk, "list", "--all")["companions"]) == 1


def test_a_second_one_of_a_kind_gets_a_name_of_its_own(desk: Desk) -> None:
    names = [agents(desk, "new", "planner", "-c", "gym")["display_name"] for _ in range(3)]
    assert names == ["Planner", "Planner 2", "Planner 3"]
    assert agents(desk, "report", "Planner 2") == {"report": None}
    assert agents(desk, "report", "planner") == {"report": None}


def test_a_word_of_its_name_is_enough_and_nobody_answers_where_nothing_runs(desk: Desk) -> None:
    made = agents(desk, "new", "gym_coach", "-c", "gym")
    assert agents(desk, "show", "coach")["companion"]["id"] == made["id"]
    assert "E_SERVER_NOT_RUNNING" in refused(desk, "chat", "coach", "What", "next?")


def test_a_budget_that_is_used_up_can_be_made_larger(desk: Desk) -> None:
    before = agents(desk, "new", "planner", "-c", "gym", "--name", "Paula")["budget"]["limits"]
    after = agents(desk, "configure", "paula", "--calls", "900", "--usd", "2.5")["budget"]["limits"]
    assert after == {**before, "tool_calls": 900, "cost_micro_usd": 2_500_000}
    assert agents(desk, "configure", "paula", "--tokens", "0")["budget"]["limits"]["tokens"] == 0
    freed = agents(desk, "configure", "paula", "--unlimited", "tokens", "--minutes", "3")
    assert freed["budget"]["limits"] == {**after, "tokens": None, "runtime_ms": 180_000}
    _, said, _ = desk.run("companions", "show", "paula")
    assert "$0.00 of $2.50, 0 of 3 min, 0 of 900 calls" in said


def test_when_it_wakes_by_the_clock(desk: Desk) -> None:
    agents(desk, "new", "planner", "-c", "gym", "--name", "Paula")
    (morning,) = agents(desk, "timers", "paula")["timers"]
    assert (morning["at"], morning["active"]) == ("07:00", True)
    agents(desk, "timers", "paula", "--at", "18:00", "--days", "sat-sun")
    _, said, _ = desk.run("companions", "timers", "paula", "1", "--off")
    assert said.splitlines()[0].startswith(" 1  every day at 07:00  (off, ")
    assert " 2  every Saturday and Sunday at 18:00  (next " in said
    changed = agents(desk, "timers", "paula", "2", "--at", "9:15")["timers"]
    assert changed[1]["words"] == "every Saturday and Sunday at 09:15"
    agents(desk, "timers", "paula", "2", "--cron", "0 9 1 * *")
    (left,) = agents(desk, "timers", "paula", "1", "--remove")["timers"]
    assert left["words"] == "cron 0 9 1 * *"
    for words, told in (
        (("--at", "25:00"), "'25:00' is not a time of day, such as 07:00"),
        (("--days", "mon"), "Name the NUMBER of the timer"),
        (("--at", "8:00", "--days", "someday"), "'someday' is no day of the week"),
        (("1",), "Say what is to be different"),
        (("7", "--off"), "There is no timer 7"),
        (("1", "--remove", "--off"), "one at a time"),
    ):
        assert told in refused(desk, "timers", "paula", *words)
    assert agents(desk, "timers", "paula")["timers"] == [left]
    agents(desk, "timers", "paula", "1", "--remove")
    _, said, _ = desk.run("companions", "timers", "paula")
    assert said.startswith("No time wakes it.")


class Terminal(io.StringIO):
    """Somebody who types this."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def asked(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """With a model somewhere else, and a companion that has it."""
    monkeypatch.setenv("SILAS_MODELS__PROXY", "openrouter:some/model")
    agents(desk, "new", "planner", "-c", "gym", "--name", "Paula", "--model=openrouter:some/model")
    return desk


def test_nobody_agrees_to_what_was_not_read(asked: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = agents(asked, "consent", "paula")
    assert not shown["confirmed"]
    # Where nobody can be asked, the version that was read has to be named.
    assert "--yes VERSION" in refused(asked, "consent", "paula", "--agree")
    assert "Read it again" in refused(asked, "consent", "paula", "--yes", "older")
    assert not agents(asked, "consent", "paula")["confirmed"]
    # On a terminal it is shown, then asked.
    for answer, agreed in (("n", False), ("y", True)):
        monkeypatch.setattr(sys, "stdin", Terminal(f"{answer}\n"))
        code, said, complaint = asked.run("companions", "consent", "paula", "--agree")
        assert (code == 0) is agreed
        assert said.startswith("openrouter:some/model at openrouter")
        assert "what you said to it" in said
        assert shown["policy_version"] in said
        assert "Do you agree?" in said + complaint
        assert agents(asked, "consent", "paula")["confirmed"] is agreed
    # What is written down about the provider is another text, so it is asked again.
    told = agents(asked, "consent", "paula", "--training", "Never, says section 4.")
    assert (told["training"], told["confirmed"]) == ("Never, says section 4.", False)
    assert "one at a time" in refused(asked, "consent", "paula", "--agree", "--revoke")
    shown = agents(asked, "consent", "paula")
    assert agents(asked, "consent", "paula", "--yes", shown["policy_version"])["confirmed"]
    assert not agents(asked, "consent", "paula", "--revoke")["confirmed"]
    again = agents(asked, "consent", "paula", "--yes", shown["policy_version"])
    assert again["confirmed"]


def test_how_it_speaks_is_proposed_then_approved_or_declined(desk: Desk) -> None:
    agents(desk, "new", "planner", "-c", "gym", "--name", "Paula")
    agents(desk, "persona", "paula", "--voice", "Cheerful.")
    agents(desk, "persona", "paula", "--style", "One question at a time.")
    code, said, _ = desk.run("companions", "persona", "paula")
    assert code == 0
    assert "Version 2 (proposed), by you" in said
    assert "+ voice: Cheerful." in said
    newest, second, first = agents(desk, "persona", "paula", "--approve", "2")["versions"]
    assert [newest["waits"], second["in_use"], first["in_use"]] == [True, True, False]
    agents(desk, "persona", "paula", "--decline", "3")
    _, said, _ = desk.run("companions", "persona", "paula")
    assert "Version 3 (declined)" in said
    assert "Version 1 (was in use)" in said
    assert "not a draft" in refused(desk, "persona", "paula", "--approve", "3")
    assert "no version 9" in refused(desk, "persona", "paula", "--decline", "9")


def test_what_is_shown_is_for_people(desk: Desk) -> None:
    agents(desk, "new", "planner", "-c", "gym", "--name", "Paula")
    agents(desk, "new", "strategist", "-c", "gym", "--name", "Stella")
    agents(desk, "wake", "paula")
    agents(desk, "stop", "stella", "--reason", "noise")
    _, shown, _ = desk.run("companions", "show", "paula")
    assert "Wakes     when a task is done, every day at 07:00" in shown
    assert "add a follow-up task" in shown
    assert "you woke it, waits" in shown
    _, listed, _ = desk.run("companions", "list")
    assert "Stopped: Stella (noise). Release: silas companions go" in listed
    names = [each for each in (shown + listed).split() if "_" in each]
    assert [each.partition("_")[0] for each in names] == ["companion"]  # its id


def test_stopping_holds_until_it_is_released(desk: Desk) -> None:
    agents(desk, "new", "gym_coach", "-c", "gym", "--name", "Gina")
    code, said, _ = desk.run("stop", "companions", "--json")
    assert code == 0
    assert json.loads(said)["switches"][0]["scope"] == "global"
    assert "Release it" in refused(desk, "wake", "gina")
    assert agents(desk, "go") == {"switches": []}
    agents(desk, "stop", "gina", "--reason", "noise")
    assert agents(desk, "list")["companions"][0]["health"] == "stopped"
    agents(desk, "go", "gina")
    assert agents(desk, "wake", "gina")["run_key"]


def test_names_that_fit_nobody_or_several_do_nothing(desk: Desk) -> None:
    agents(desk, "new", "planner", "-c", "gym", "--name", "Paula")
    agents(desk, "new", "planner", "-c", "home", "--name", "Paul")
    assert "Several are called like that" in refused(desk, "pause", "pau")
    assert "There is no companion" in refused(desk, "pause", "nobody")
    assert {each["health"] for each in agents(desk, "list")["companions"]} == {"idle"}
    assert agents(desk, "pause", "Paul")["display_name"] == "Paul"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("new",), "Name a kind"),
        (("new", "butler", "-c", "gym"), "butler"),
        (("new", "planner"), "at least one category"),
        (("new", "plannr", "-c", "gym"), "did you mean `planner`?"),
        (("configure", "nobody", "--usd", "nan"), "is no amount"),
        (("new", "planner", "-c", "gym", "--model", "no:such"), "not among the configured models"),
    ],
)
def test_what_cannot_be_made_is_explained(desk: Desk, words: tuple[str, ...], told: str) -> None:
    assert told in refused(desk, *words)
    assert agents(desk, "list")["companions"] == []


def test_the_former_name_still_works_and_says_the_new_one(desk: Desk) -> None:
    code, said, complaint = desk.run("agents", "list", "--json")
    assert code == 0
    assert complaint == "`silas agents` is called `silas companions` now.\n"
    assert json.loads(said)
    _, help_text, _ = desk.run("--help")
    assert "  companions " in help_text
    assert "  agents " not in help_text


def test_what_is_forgotten_is_shown_first_and_leaves_a_receipt(desk: Desk) -> None:
    agents(desk, "new", "planner", "-c", "gym", "--name", "Paula")
    agents(desk, "say", "paula", "How is the marathon?")
    assert agents(desk, "forget", "--word", "violin", "--yes") == {"receipt": None}
    assert "--yes" in refused(desk, "forget", "paula", "--word", "marathon")
    assert "at least 3 letters" in refused(desk, "forget", "--word", "ab", "--yes")
    assert "Name a companion" in refused(desk, "forget")
    receipt = agents(desk, "forget", "paula", "--word", "marathon", "--yes")["receipt"]
    assert receipt["removed"]["wake_run_log"] == 1
    assert "marathon" not in json.dumps(receipt)
    _, said, _ = desk.run("companions", "forgotten")
    assert receipt["id"] in said
    assert "Backups that were made before" in said
    assert agents(desk, "runs", "paula")["runs"] == []
    agents(desk, "forget", "paula", "--since", "2020-01-01", "--yes")
    agents(desk, "forget", "paula", "--yes")
    assert agents(desk, "list", "--all")["companions"] == []
    assert len(agents(desk, "forgotten")["receipts"]) == 3


def test_which_models_may_be_asked_is_said_for_a_category_or_a_kind(desk: Desk) -> None:
    assert agents(desk, "models")["rules"] == []
    assert "one of them" in refused(desk, "models", "--any")
    assert "--only" in refused(desk, "models", "--kind", "planner")
    assert "not among the configured" in refused(desk, "models", "--kind", "planner", "--only", "x")
    assert agents(desk, "models", "--kind", "planner", "--any")["rules"] == []


def test_the_lines_for_when_something_goes_wrong_do_what_they_say(desk: Desk) -> None:
    """The runbook of docs/companions.md, line by line."""
    text = (Path(__file__).parents[2] / "docs" / "companions.md").read_text("utf-8")
    block = text.split("a test runs these lines")[1].split("```sh\n")[1].split("```")[0]
    lines = [shlex.split(each.replace("NAME", "Paula"))[2:] for each in block.splitlines()]
    assert [each[0] for each in lines][:2] == ["stop", "cancel"]
    assert lines[-1][0] == "go"
    agents(desk, "new", "planner", "-c", "gym", "--name", "Paula")
    for number, line in enumerate(lines):
        code, _, complaint = desk.run("companions", *line)
        assert code == 0, (line, complaint)
        stopped = agents(desk, "show", "paula")["companion"]["health"] == "stopped"
        assert stopped == (number < len(lines) - 1)
    assert "no other version" in refused(desk, "versions", "paula", "--back")
