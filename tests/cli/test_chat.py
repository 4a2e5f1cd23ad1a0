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
    return Path(machine.environ["HOME"]) / "silas-files"


def the_card(machine: Machine) -> dict[str, object]:
    cards = json.loads(output_of(machine.run("review", "list", "--json")))["cards"]
    return dict(cards[0])


class TestAsk:
    def test_a_question_is_answered(self, newcomer: Machine) -> None:
        assert "I am the offline brain" in output_of(newcomer.run("ask", "what can you do?"))

    def test_nothing_is_no_question(self, newcomer: Machine) -> None:
        assert "TEXT is empty" in failure_of(newcomer.run("ask", " "))[1]

    def test_nothing_is_done_where_nobody_can_be_asked(self, newcomer: Machine) -> None:
        run = newcomer.run("ask", "create a file a.txt with hello")
        assert "Nobody can be asked here" in run.stderr.decode()
        assert list(files_of(newcomer).iterdir()) == []
        assert the_card(newcomer)["title"] == "Write a.txt"

    def test_a_typed_yes_lets_it_happen(self, newcomer: Machine) -> None:
        code, shown = newcomer.type(
            "ask", "create a file a.txt with hello", answers=[("(Type y or n", "y")]
        )
        assert code == 0
        assert "Done, and checked" in shown
        assert (files_of(newcomer) / "a.txt").read_text() == "hello\n"

    def test_a_typed_no_does_not(self, newcomer: Machine) -> None:
        _, shown = newcomer.type(
            "ask", "create a file a.txt with hello", answers=[("(Type y or n", "n")]
        )
        assert "not approved" in shown
        assert list(files_of(newcomer).iterdir()) == []

    def test_work_that_fails_is_said_to_have_failed(self, newcomer: Machine) -> None:
        _, shown = newcomer.type("ask", "run `false`", answers=[("(Type y or n", "y")])
        assert "Done, and checked" not in shown

    def test_what_a_command_printed_is_shown(self, newcomer: Machine) -> None:
        asked = "run `seq 1 30; printf '\\033]0;evil\\007'`"
        _, shown = newcomer.type("ask", asked, answers=[("(Type y or n", "y")])
        told = shown[shown.index("I am starting") :]
        assert "  | 1\r\n  | 2\r\n" in told
        assert "[… 19 more lines …]\r\n  | 28\r\n" in told
        assert "\\x1b]0;evil\\x07" in told
        assert "\x1b" not in told
        assert "--output" in told

    def test_of_a_command_that_fails_the_last_lines_are_shown(self, newcomer: Machine) -> None:
        asked = "run `seq 1 30; echo broken at the end >&2; exit 3`"
        _, shown = newcomer.type("ask", asked, answers=[("(Type y or n", "y")])
        told = shown[shown.index("I am starting") :]
        assert "(The command ended with exit code 3)" in told
        assert "  | 30\r\n  | broken at the end" in told

    def test_what_did_you_do(self, newcomer: Machine) -> None:
        newcomer.type("ask", "create a file a.txt with hello", answers=[("(Type y or n", "y")])
        told = output_of(newcomer.run("ask", "what did you do?"))
        assert "“Write a.txt”: done, and checked: added a.txt" in told

    def test_what_nothing_has_shown_is_not_said_to_be_checked(self, newcomer: Machine) -> None:
        newcomer.type("ask", "run `true`", answers=[("(Type y or n", "y")])
        told = output_of(newcomer.run("ask", "what did you do?"))
        assert "“Run true”: done, not checked" in told
        assert "and checked" not in told

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


class TestDeciding:
    """The card that the page shows, in words; a letter decides, and `?` shows every byte."""

    def test_the_card_is_in_words_and_the_bytes_are_shown_when_asked_for(
        self, newcomer: Machine
    ) -> None:
        code, shown = newcomer.type(
            "ask", "create a file a.txt with hello", answers=[("(Type y or n", "?"), ("hash ", "y")]
        )
        assert code == 0
        card, _, exact = shown.partition("every byte that is signed)")
        for words in (
            "Files:\r\n  Adds a.txt",
            "Done when:",
            "At most: 2 attempts",
            "Risk: medium",
        ):
            assert words in card
        assert '"budget"' not in card
        assert "{" not in card
        assert '"budget": {' in exact
        assert (files_of(newcomer) / "a.txt").read_text() == "hello\n"

    @pytest.mark.parametrize("typed", ["y", "Yes", "approve"])
    def test_what_means_yes(self, newcomer: Machine, typed: str) -> None:
        newcomer.type("ask", "create a file a.txt with hello", answers=[("(Type y or n", typed)])
        assert (files_of(newcomer) / "a.txt").exists()

    @pytest.mark.parametrize("typed", ["", "n", "no", "cancel"])
    def test_what_means_no(self, newcomer: Machine, typed: str) -> None:
        _, shown = newcomer.type("ask", "create a file a.txt with hello", answers=[("or n", typed)])
        assert "not approved" in shown
        assert not (files_of(newcomer) / "a.txt").exists()

    def test_what_says_nothing_is_asked_again_and_later_leaves_it(self, newcomer: Machine) -> None:
        newcomer.type(
            "ask",
            "create a file a.txt with hello",
            answers=[("(Type y or n", "yes please"), ("(Type y or n", "later")],
        )
        assert the_card(newcomer)["state"] == "open"
        assert not (files_of(newcomer) / "a.txt").exists()

    def test_the_same_at_review(self, newcomer: Machine) -> None:
        newcomer.run("ask", "create a file a.txt with hello")
        card = str(the_card(newcomer)["card_id"])
        _, shown = newcomer.type(
            "review", "approve", card, answers=[("(Type y or n", "?"), ('"budget": {', "y")]
        )
        assert "approved. Silas does it now" in shown

    def test_lines_end_with_words(self, newcomer: Machine) -> None:
        text = "create a file a.txt with " + "wonderful " * 20
        _, shown = newcomer.type("ask", text, answers=[("(Type y or n", "n")])
        continued = [line for line in shown.splitlines() if line.startswith("  : ")]
        assert len(continued) > 1
        words = [word for line in continued for word in line.removeprefix("  : ").split()]
        assert words.count("wonderful") >= 15, continued
        assert not {word for word in words if word in "wonderful" and word != "wonderful"}

    def test_where_nobody_can_be_asked_the_command_is_named(self, newcomer: Machine) -> None:
        said = newcomer.run("ask", "create a file a.txt with hello").stderr.decode()
        card = the_card(newcomer)["card_id"]
        assert f"`silas review approve {card}`" in said


class TestChat:
    @pytest.mark.parametrize("terminal", ["dumb", "xterm"])
    def test_a_conversation(self, newcomer: Machine, terminal: str) -> None:
        newcomer.environ["TERM"] = terminal
        code, shown = newcomer.type(
            "chat",
            answers=[
                ("Nothing is done", "create a file b.txt with one"),
                ("Type y or n", "perhaps"),
                ("Type y or n", "yes"),
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
        answers = [("Type y or n", "later"), ("It waits.", "/review"), ("Type y", "no")]
        code, shown = newcomer.type("chat", answers=[*answers, ("not approved", "exit")])
        assert code == 0
        assert "Write e.txt" in shown
        assert not (files_of(newcomer) / "e.txt").exists()

    def test_it_needs_somebody(self, newcomer: Machine) -> None:
        code, said = failure_of(newcomer.run("chat"))
        assert code == 2
        assert "silas ask" in said


class TestReview:
    def test_a_card_shows_the_difference_before_anything_is_done(self, newcomer: Machine) -> None:
        place = files_of(newcomer)
        place.mkdir(parents=True, exist_ok=True)
        (place / "c.txt").write_text("old\n")
        newcomer.run("ask", "create a file c.txt with two")
        shown = output_of(newcomer.run("review", "show", str(the_card(newcomer)["card_id"])))
        assert "  Changes c.txt, compared with what is there now:" in shown
        assert "  | -old\n  | +two\n" in shown
        assert (place / "c.txt").read_text() == "old\n"

    def test_a_card_waits_and_is_done_when_silas_runs(self, newcomer: Machine) -> None:
        newcomer.run("ask", "create a file c.txt with two")
        card = the_card(newcomer)
        name, [plan_hash] = str(card["card_id"]), list(dict(card["plan_hashes"]).values())  # type: ignore[call-overload]
        assert "Write c.txt" in output_of(newcomer.run("review", "show", name))
        wrong = newcomer.run("review", "approve", name, "--hash", "0" * 64)
        assert wrong.returncode == 2
        output_of(newcomer.run("review", "approve", name, "--hash", plan_hash))
        again = newcomer.run("review", "decline", name)
        assert again.returncode == 120
        newcomer.type("chat", answers=[("Done, and checked", "exit")])
        assert (files_of(newcomer) / "c.txt").read_text() == "two\n"

    def test_no(self, newcomer: Machine) -> None:
        newcomer.run("ask", "create a file d.txt with two")
        name = str(the_card(newcomer)["card_id"])
        assert "declined" in output_of(newcomer.run("review", "decline", name))
        assert "Nothing is waiting" in output_of(newcomer.run("review", "list"))

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
        assert code == 120
        assert "silas review list" in said


class TestGates:
    """A gate that asks, asks at the terminal: with a person at it, and nowhere else."""

    @pytest.fixture
    def gated(self, newcomer: Machine) -> Machine:
        gate = "{name: ask-me, on: every_user_message, type: approval_always, extract: message}"
        newcomer.environ["SILAS_GATES__SYSTEM"] = f"[{gate}]"
        return newcomer

    @pytest.mark.parametrize(("typed", "passes"), [("y", True), ("n", False)])
    def test_silas_ask(self, gated: Machine, typed: str, passes: bool) -> None:
        _, shown = gated.type(
            "ask", "what can you do?", answers=[("Let this through, this once? [y/N]", typed)]
        )
        assert "ask-me" in shown
        assert ("I am the offline brain" in shown) is passes

    def test_silas_chat(self, gated: Machine) -> None:
        gated.environ["TERM"] = "dumb"
        _, shown = gated.type(
            "chat",
            answers=[
                ("Ctrl-D ends.", "what can you do?"),
                ("Let this through, this once? (yes/no)", "yes"),
                ("I am the offline brain", "exit"),
            ],
        )
        assert "ask-me" in shown

    def test_an_interrupt_stops_the_answer_and_not_the_program(self, gated: Machine) -> None:
        gated.environ["TERM"] = "dumb"
        exit_code, shown = gated.type(
            "chat",
            answers=[
                ("Ctrl-D ends.", "what can you do?"),
                ("Let this through, this once? (yes/no)", "\x03"),
                ("You stopped this answer.", "exit"),
            ],
        )
        assert exit_code == 0, shown
        assert "I am the offline brain" not in shown

    def test_an_interrupt_without_an_answer_leaves(self, gated: Machine) -> None:
        gated.environ["TERM"] = "dumb"
        exit_code, shown = gated.type("chat", answers=[("Ctrl-D ends.", "\x03")])
        assert exit_code != 0, shown
        assert "Traceback" not in shown

    def test_where_nobody_is_it_is_blocked_at_once(self, gated: Machine) -> None:
        assert "a rule stopped it" in output_of(gated.run("ask", "what can you do?"))
        events = output_of(gated.run("audit", "tail"))
        assert "gate_unasked" in events


def test_the_passphrase_is_asked_for_before_the_first_word(newcomer: Machine) -> None:
    """Else what is said after the first message would be taken for it."""
    passphrase = newcomer.environ.pop("SILAS_VAULT_PASSPHRASE")
    newcomer.environ["TERM"] = "xterm"
    code, shown = newcomer.type("chat", answers=[("Passphrase of", passphrase), ("> ", "exit")])
    assert code == 0
    assert shown.index("Passphrase of") < shown.index("> ")
