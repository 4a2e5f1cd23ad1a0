"""`silas agents`: a companion from the first to the last, without a server."""

import json
from typing import Any

import pytest

from tests.cli.desk import Desk


def agents(desk: Desk, *words: str) -> Any:
    code, said, complaint = desk.run("agents", *words, "--json")
    assert code == 0, complaint or said
    return json.loads(said)


def refused(desk: Desk, *words: str) -> str:
    code, _, complaint = desk.run("agents", *words)
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
    woken = agents(desk, "wake", "paula", "--say", "What is open?")
    (run,) = agents(desk, "runs", "paula")["runs"]
    assert (run["run_key"], run["status"]) == (woken["run_key"], "queued")
    assert agents(desk, "report", "paula") == {"report": None}
    assert agents(desk, "consent", "paula") == {"disclosure": None}
    assert agents(desk, "persona", "paula")["versions"][0]["in_use"] is True
    assert agents(desk, "configure", "paula", "--name", "Pia")["display_name"] == "Pia"
    assert agents(desk, "destroy", "pia", "--yes")["health"] == "destroyed"
    assert agents(desk, "list")["companions"] == []
    assert len(agents(desk, "list", "--all")["companions"]) == 1


def test_a_budget_that_is_used_up_can_be_made_larger(desk: Desk) -> None:
    before = agents(desk, "new", "planner", "-c", "gym", "--name", "Paula")["budget"]["limits"]
    after = agents(desk, "configure", "paula", "--calls", "900", "--usd", "2.5")["budget"]["limits"]
    assert after == {**before, "tool_calls": 900, "cost_micro_usd": 2_500_000}
    assert agents(desk, "configure", "paula", "--tokens", "0")["budget"]["limits"]["tokens"] == 0


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
        (("new", "planner", "-c", "gym", "--model", "no:such"), "not among the configured models"),
    ],
)
def test_what_cannot_be_made_is_explained(desk: Desk, words: tuple[str, ...], told: str) -> None:
    assert told in refused(desk, *words)
    assert agents(desk, "list")["companions"] == []
