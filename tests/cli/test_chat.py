"""`silas ask`, `silas chat`, `silas review`: a newcomer with the offline brain, from end to end."""

import json
import os
import threading
from pathlib import Path

import pytest

from silas.app.instance import InstanceLock
from silas.kernel import SystemClock
from tests.cli.machine import Machine, failure_of, output_of


@pytest.fixture
def newcomer(owner: Machine) -> Machine:
    Path(owner.environ["HOME"]).mkdir()
    return owner


def files_of(machine: Machine) -> Path:
    return Path(machine.environ["HOME"]) / "silas"


def the_card(machine: Machine) -> dict[str, object]:
    cards = json.loads(output_of(machine.run("review", "list", "--json")))["cards"]
    return dict(cards[0])


class TestAsk:
    def test_a_question_is_answered(self, newcomer: Machine) -> None:
        assert "I am the offline brain" in output_of(newcomer.run("ask", "what can you do?"))

    def test_nothing_is_done_where_nobody_can_be_asked(self, newcomer: Machine) -> None:
        run = newcomer.run("ask", "create a file a.txt with hello")
        assert "Nobody can be asked here" in run.stderr.decode()
        assert list(files_of(newcomer).iterdir()) == []
        assert the_card(newcomer)["title"] == "Write a.txt"

    def test_a_typed_yes_lets_it_happen(self, newcomer: Machine) -> None:
        code, shown = newcomer.type(
            "ask", "create a file a.txt with hello", answers=[("[y/N]", "y")]
        )
        assert code == 0
        assert "Done, and checked" in shown
        assert (files_of(newcomer) / "a.txt").read_text() == "hello\n"

    def test_a_typed_no_does_not(self, newcomer: Machine) -> None:
        _, shown = newcomer.type("ask", "create a file a.txt with hello", answers=[("[y/N]", "n")])
        assert "not approved" in shown
        assert list(files_of(newcomer).iterdir()) == []

    def test_work_that_fails_is_said_to_have_failed(self, newcomer: Machine) -> None:
        _, shown = newcomer.type("ask", "run `false`", answers=[("[y/N]", "y")])
        assert "Done, and checked" not in shown

    def test_what_did_you_do(self, newcomer: Machine) -> None:
        newcomer.type("ask", "run `true`", answers=[("[y/N]", "y")])
        told = output_of(newcomer.run("ask", "what did you do?"))
        assert "was done, and its checks passed" in told

    def test_the_silas_that_would_answer_may_end_before_it_does(self, newcomer: Machine) -> None:
        lock = InstanceLock(newcomer.data_dir / "silas.lock", clock=SystemClock(), command="test")
        lock.__enter__()
        ending = threading.Timer(4, lock.__exit__, (None, None, None))
        ending.start()
        told = output_of(newcomer.run("ask", "what can you do?"))
        ending.join()
        assert "I am the offline brain" in told

    def test_what_is_not_text_is_not_said(self, newcomer: Machine) -> None:
        run = newcomer.run("ask", os.fsdecode(b"caf\xff"))
        assert run.returncode == 2
        assert "not UTF-8" in run.stderr.decode()

    def test_as_json(self, newcomer: Machine) -> None:
        said = json.loads(output_of(newcomer.run("ask", "run `true`", "--json")))
        assert said["reply"].startswith("Here is exactly what I would do")
        assert said["review_id"] == the_card(newcomer)["card_id"]
        assert said["work_item_id"] in dict(the_card(newcomer)["plan_hashes"])  # type: ignore[call-overload]


class TestChat:
    @pytest.mark.parametrize("terminal", ["dumb", "xterm"])
    def test_a_conversation(self, newcomer: Machine, terminal: str) -> None:
        newcomer.environ["TERM"] = terminal
        code, shown = newcomer.type(
            "chat",
            answers=[
                ("Nothing is done", "create a file b.txt with one"),
                ("Type yes or no", "perhaps"),
                ("Type yes or no", "yes"),
                ("Done, and checked", "exit"),
            ],
        )
        assert code == 0
        assert (files_of(newcomer) / "b.txt").read_text() == "one\n"
        assert "Traceback" not in shown

    def test_lines_are_edited_and_what_was_said_comes_back(self, newcomer: Machine) -> None:
        newcomer.environ["TERM"] = "xterm"
        left, up = "\x1b[D", "\x1b[A"
        code, shown = newcomer.type(
            "chat",
            answers=[
                ("Nothing is done", f"Remember that tea is cod{left}l"),
                ("I will remember: tea is cold", up),
                ("I will remember: tea is cold", "/help"),
                ("/review", "exit"),
            ],
        )
        assert code == 0
        assert shown.count("I will remember") == 2

    def test_what_waited_before_is_asked_about_and_can_wait_on(self, newcomer: Machine) -> None:
        newcomer.run("ask", "create a file e.txt with two")
        answers = [("Type yes or no", "later"), ("It waits.", "/review"), ("Type yes", "no")]
        code, shown = newcomer.type("chat", answers=[*answers, ("not approved", "exit")])
        assert code == 0
        assert "Write e.txt" in shown
        assert not (files_of(newcomer) / "e.txt").exists()

    def test_it_needs_somebody(self, newcomer: Machine) -> None:
        code, said = failure_of(newcomer.run("chat"))
        assert code == 2
        assert "silas ask" in said


class TestReview:
    def test_a_card_waits_and_is_done_when_silas_runs(self, newcomer: Machine) -> None:
        newcomer.run("ask", "create a file c.txt with two")
        card = the_card(newcomer)
        name, [plan_hash] = str(card["card_id"]), list(dict(card["plan_hashes"]).values())  # type: ignore[call-overload]
        assert "Write c.txt" in output_of(newcomer.run("review", "show", name))
        wrong = newcomer.run("review", "approve", name, "--hash", "0" * 64)
        assert wrong.returncode == 2
        output_of(newcomer.run("review", "approve", name, "--hash", plan_hash))
        again = newcomer.run("review", "decline", name)
        assert again.returncode == 197
        newcomer.type("chat", answers=[("Done, and checked", "exit")])
        assert (files_of(newcomer) / "c.txt").read_text() == "two\n"

    def test_no(self, newcomer: Machine) -> None:
        newcomer.run("ask", "create a file d.txt with two")
        name = str(the_card(newcomer)["card_id"])
        assert "declined" in output_of(newcomer.run("review", "decline", name))
        assert "Nothing waits" in output_of(newcomer.run("review", "list"))

    def test_where_nobody_can_be_asked_it_says_what_to_say(self, newcomer: Machine) -> None:
        newcomer.run("ask", "run `true`")
        card_id = str(the_card(newcomer)["card_id"])
        for hashes in ((), ("--hash", "0" * 64)):
            said = newcomer.run("review", "approve", card_id, *hashes).stderr.decode()
            assert "--hash" in said
            assert f"silas review show {card_id}" in said
            assert "--approve" not in said

    def test_a_card_that_is_not_there(self, newcomer: Machine) -> None:
        code, said = failure_of(newcomer.run("review", "show", "card_x"))
        assert code == 125
        assert "silas review list" in said
