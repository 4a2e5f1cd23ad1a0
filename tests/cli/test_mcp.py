"""`silas mcp`: asked for, approved twice at the terminal, given effects, checked, taken away."""

import json
import time
from pathlib import Path
from typing import Any

from tests.cli.machine import Machine, failure_of, output_of
from tests.cli.test_devices import serving
from tests.mcp.places import write_server


def said(owner: Machine, *words: str) -> Any:
    return json.loads(output_of(owner.run("mcp", *words, "--json")))


def waiting(owner: Machine, asks: str) -> str:
    """The card that asks this; the running Silas puts it there as soon as it hears of an answer."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for each in said(owner, "list")["waiting"]:
            if asks in each["asks"]:
                return str(each["card_id"])
    raise AssertionError(said(owner, "list"))


def say_yes(owner: Machine, card: str) -> None:
    answers = [("Answer exactly this so?", "y")]
    code, printed = owner.type("review", "answer", card, "approve", answers=answers)
    assert code == 0, printed


def test_a_server_is_added_given_effects_checked_and_removed(
    owner: Machine, tmp_path: Path
) -> None:
    program, arguments = write_server(tmp_path / "server")
    with serving(owner):
        asked = json.loads(
            output_of(owner.run("mcp", "add", "--json", "written", "--", program, *arguments))
        )
        shown = output_of(owner.run("review", "show", asked["card_id"]))
        assert "SHA-256" in shown
        assert "without network" in shown
        assert '"launch"' not in shown, "words; --exact has the bytes"
        say_yes(owner, asked["card_id"])
        waiting(owner, "Install the tool server")
        effects = said(owner, "effects", "written", "echo=read")
        shown = output_of(owner.run("review", "show", effects["card_id"]))
        assert "The server says of its tool written_echo" in shown
        assert "it only reads" in shown
        say_yes(owner, effects["card_id"])
        until = time.monotonic() + 60
        while not said(owner, "list")["servers"] and time.monotonic() < until:
            continue
        (server,) = said(owner, "list")["servers"]
        assert (server["state"], server["tools"], server["undecided"]) == ("installed", 1, 0)
        assert said(owner, "check", "written")["intact"]
        (tmp_path / "server" / "more.py").write_text("x = 1\n")
        assert not said(owner, "check", "written")["intact"]
        assert "QUARANTINED" in output_of(owner.run("mcp", "list"))
        assert "quarantined" in failure_of(owner.run("skills", "enable", "written"))[1]
        said(owner, "remove", "written")
        assert said(owner, "list")["servers"] == []
    refused = failure_of(owner.run("mcp", "add", "x", "--", "/usr/bin/npx", "-y", "x"))
    assert "fetches from npm and runs" in refused[1]
