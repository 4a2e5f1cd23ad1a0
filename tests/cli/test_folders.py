"""`silas folders`, and reading with `silas ask` and `silas chat`: asked at the terminal."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.machine import Machine, failure_of, output_of
from tests.cli.test_devices import serving


@pytest.fixture
def shop(owner: Machine) -> Path:
    shop = Path(owner.environ["HOME"]) / "shop"
    shop.mkdir(parents=True)
    (shop / "hours.txt").write_text("9 to 17\n")
    return shop


def test_a_typed_yes_opens_a_folder_and_the_request_is_answered(owner: Machine, shop: Path) -> None:
    code, shown = owner.type("ask", "What files are in ~/shop?", answers=[("[y/N]", "y")])
    assert code == 0
    assert "May Silas read the files in ~/shop?" in shown
    assert "nothing leaves this machine" in " ".join(shown.split())
    assert "hours.txt (8 bytes)" in shown
    told = output_of(owner.run("ask", "show me ~/shop/hours.txt"))
    assert "9 to 17" in told


def test_a_typed_no_opens_nothing(owner: Machine, shop: Path) -> None:
    _, shown = owner.type("ask", "What files are in ~/shop?", answers=[("[y/N]", "n")])
    assert "I do not read ~/shop." in shown
    assert "hours.txt" not in shown


def test_where_nobody_can_be_asked_the_question_waits(owner: Machine, shop: Path) -> None:
    told = json.loads(output_of(owner.run("ask", "What files are in ~/shop?", "--json")))
    assert told["reply"].startswith("May I read ~/shop?")
    listed = output_of(owner.run("review", "list"))
    assert told["review_id"] in listed


def test_in_a_conversation_only_the_file_can_be_opened(owner: Machine, shop: Path) -> None:
    owner.environ["TERM"] = "dumb"
    (shop / "other.txt").write_text("not this one")
    code, shown = owner.type(
        "chat",
        answers=[
            ("Nothing is done", "show me ~/shop/hours.txt"),
            ("(yes/only/no)", "only"),
            ("9 to 17", "show me ~/shop/other.txt"),
            ("(yes/only/no)", "no"),
            ("I do not read ~/shop.", "exit"),
        ],
    )
    assert code == 0
    assert "not this one" not in shown


def place_when_open(owner: Machine, folder: Path) -> dict[str, Any]:
    """The running Silas follows an answer as soon as it hears of it."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        listed = json.loads(output_of(owner.run("folders", "list", "--json")))
        for each in listed["places"]:
            if each["path"] == str(folder):
                return dict(each)
    raise AssertionError(f"{folder} was not opened")


def test_folders_are_listed_opened_and_closed(owner: Machine, shop: Path) -> None:
    with serving(owner):
        first = output_of(owner.run("folders", "list"))
        assert "silas-files  open by your settings" in first
        assert "nothing leaves this machine" in first
        asked = json.loads(
            output_of(owner.run("folders", "open", "shop", "--json", cwd=shop.parent))
        )
        assert "~/shop" not in output_of(owner.run("folders", "list")), "not before the yes"
        answered = owner.type(
            "review",
            "answer",
            asked["card_id"],
            "approve",
            answers=[("Answer exactly this so?", "y")],
        )
        assert answered[0] == 0
        mine = place_when_open(owner, shop)
        assert (mine["kind"], mine["seen_by"]) == ("folder", [])
        assert output_of(owner.run("folders", "close", str(shop))).strip() == "~/shop is closed."
        assert "~/shop" not in output_of(owner.run("folders", "list"))
        assert "is not open to Silas" in failure_of(owner.run("folders", "close", str(shop)))[1]
        home = failure_of(owner.run("folders", "open", str(shop.parent)))
        assert "whole home directory" in home[1]
