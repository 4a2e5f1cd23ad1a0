"""`silas gates`, as people and scripts use it."""

import json
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from tests.cli.machine import Machine, failure_of, output_of

GATES = """
gates:
  system:
    - name: short_words
      on: every_user_message
      type: regex
      config: {pattern: '[a-z ]{0,40}'}
      match: ['No!']
      not_match: ['all good']
    - name: tidy
      on: every_agent_response
      type: regex
      config: {pattern: '[a-z ]*', normalise: [lower]}
    - name: tools
      on: on_tool_call
      allowed_values: [search]
      approval_values: [send_mail]
    - name: limit
      on: on_tool_call
      type: numeric_range
      extract: amount
      auto_approve: {min: 0, max: 50}
"""


@pytest.fixture
def configured(machine: Machine, tmp_path: Path) -> Machine:
    return _with(machine, tmp_path, GATES)


def _with(machine: Machine, tmp_path: Path, text: str) -> Machine:
    config = tmp_path / "silas.yaml"
    config.write_text("silas:\n" + indent(text, "  "))
    machine.environ["SILAS_CONFIG"] = str(config)
    return machine


def answer(machine: Machine, *arguments: str, stdin: bytes = b"") -> Any:
    return json.loads(output_of(machine.run("gates", *arguments, "--json", stdin=stdin)))


def test_the_gates_in_force_are_listed_in_order(configured: Machine) -> None:
    shown = output_of(configured.run("gates", "list")).splitlines()
    assert shown[0] == (
        "short_words: every_user_message, predicate regex, policy, if it blocks: report"
    )
    data = answer(configured, "list")["gates"]
    assert [each["name"] for each in data] == ["short_words", "tidy", "tools", "limit"]


def test_gates_that_can_be_used(configured: Machine) -> None:
    assert output_of(configured.run("gates", "check")) == "All 4 gates can be used.\n"


def test_gates_that_cannot(machine: Machine, tmp_path: Path) -> None:
    broken = GATES.replace("['No!']", "['fine']")
    run = _with(machine, tmp_path, broken).run("gates", "check")
    assert run.returncode == 90
    told = "short_words: Example 1 of match does not hold: it was let pass.\n"
    assert run.stdout.decode() == told
    run = machine.run("gates", "check", "--json")
    assert (run.returncode, json.loads(run.stdout)["valid"]) == (90, False)


@pytest.mark.parametrize(
    ("arguments", "decision"),
    [
        (["--text", "hello there"], "continue"),
        (["--text", "Hello!"], "block"),
        (["--text", "'; rm -rf / #"], "block"),
        (["--tool", "search", "--args", '{"amount": 50}'], "continue"),
        (["--tool", "send_mail", "--args", '{"amount": 50}'], "require_approval"),
        (["--tool", "search"], "block"),
    ],
)
def test_what_the_gates_would_decide(
    configured: Machine, arguments: list[str], decision: str
) -> None:
    assert answer(configured, "test", *arguments)["decision"] == decision


def test_what_they_would_change(configured: Machine) -> None:
    on = ("--on", "every_agent_response")
    data = answer(configured, "test", "--text", "Hello", *on)
    assert (data["decision"], data["changed"]) == ("continue", {"response": "hello"})
    shown = output_of(configured.run("gates", "test", "--text", "Hello", *on))
    assert "response would become: hello" in shown


def test_a_file_is_read_as_text(configured: Machine) -> None:
    data = answer(configured, "test", "--file", "-", stdin=b"all fine")
    assert data["decision"] == "continue"
    data = answer(configured, "test", "--file", "-", stdin=b"x" * 10_000_000)
    assert data["decision"] == "block"
    code, message = failure_of(configured.run("gates", "test", "--file", "-", stdin=b"\xff"))
    assert (code, "not valid UTF-8" in message) == (90, True)


@pytest.mark.parametrize("bad", ["[]", '{"a": 1, "a": 2}'])
def test_arguments_must_be_a_json_object(configured: Machine, bad: str) -> None:
    code, _ = failure_of(configured.run("gates", "test", "--tool", "search", "--args", bad))
    assert code == 90


def test_exactly_one_thing_is_tried(configured: Machine) -> None:
    assert failure_of(configured.run("gates", "test"))[0] == 2
    assert failure_of(configured.run("gates", "test", "--text", "a", "--tool", "b"))[0] == 2


def test_a_scan_gives_one_decision_per_line(configured: Machine) -> None:
    lines = [
        b'{"text": "hello"}',
        b'{"text": "Hello!", "label": 1}',
        b"",
        b"not json",
        b'{"text": 5}',
        b'{"other": "x"}',
        b'{"text": "\xff"}',
        b'{"text": "a\\u0000b"}',
        b'{"text": "\\ud800"}',
        b"[" * 100_000,
        b'{"text": "fine"}',
    ]
    run = configured.run("gates", "scan", "-", "--json", stdin=b"\n".join(lines))
    found = [json.loads(line) for line in output_of(run).splitlines()]
    assert [(each["line"], each["decision"]) for each in found] == [
        (1, "continue"),
        (2, "block"),
        *((number, "block") for number in range(4, 11)),
        (11, "continue"),
    ]
    assert found[1]["gates"][0]["gate"] == "short_words"
    shown = output_of(configured.run("gates", "scan", "-", stdin=lines[0])).strip()
    assert shown == "1: continue"


def test_trying_leaves_no_trace(configured: Machine) -> None:
    before = (configured.data_dir / "silas.db").read_bytes()
    answer(configured, "test", "--text", "Hello!")
    assert (configured.data_dir / "silas.db").read_bytes() == before


SCRIPT = """
gates:
  system:
    - name: looked_up
      on: every_user_message
      provider: script
      type: custom_check
      check: sh ./look.sh
    - name: rewritten
      on: every_agent_response
      provider: script
      type: custom_check
      check: sh ./rewrite.sh
"""
LOOK = '[ "$GATE_MESSAGE" = "say \'hi\' \\$(touch /tmp/x) && exit" ]\n'
REWRITE = """echo 'modified_context: {"response": "changed", "taint": "owner"}'\n"""


def test_a_script_gets_its_values_from_the_environment(machine: Machine, tmp_path: Path) -> None:
    _with(machine, tmp_path, SCRIPT)
    scripts = machine.data_dir / "gates"
    scripts.mkdir(mode=0o700)
    (scripts / "look.sh").write_text(LOOK)
    (scripts / "rewrite.sh").write_text(REWRITE)
    good = "say 'hi' $(touch /tmp/x) && exit"
    assert answer(machine, "test", "--text", good)["decision"] == "continue"
    for bad in ("'; true #", "x\ny", "$(true)"):
        assert answer(machine, "test", "--text", bad)["decision"] == "block"
    data = answer(machine, "test", "--text", "x", "--on", "every_agent_response")
    assert data["changed"] == {"response": "changed"}


def test_silas_does_not_start_with_a_gate_that_could_not_do_its_work(
    owner: Machine, tmp_path: Path
) -> None:
    _with(owner, tmp_path, GATES.replace("['No!']", "['fine']"))
    code, message = failure_of(owner.run("start"))
    assert code == 90
    assert "short_words: Example 1 of match does not hold" in message
