"""`silas hook`: a scripted Claude Code and Codex ask, on their documented protocols."""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from silas.app.client import ServerSilent
from silas.cli import hook
from silas.settings.paths import Paths
from tests.cli.machine import Machine, failure_of, output_of
from tests.cli.test_devices import serving

COMMAND = {
    "session_id": "abc",
    "transcript_path": "/tmp/transcript.jsonl",
    "cwd": "/srv/shop",
    "permission_mode": "default",
    "hook_event_name": "PermissionRequest",
    "tool_name": "Bash",
    "tool_input": {"command": "rm -rf build", "description": "Remove the build"},
}
DENIED = {"hookEventName": "PermissionRequest", "decision": {"behavior": "deny"}}
AGENTS = pytest.mark.parametrize(
    ("agent", "file"), [("claude", ".claude/settings.json"), ("codex", ".codex/hooks.json")]
)


def install(owner: Machine, agent: str = "claude") -> None:
    output_of(owner.run("hook", "install", agent, "--yes"))


async def asks(owner: Machine, *options: str, agent: str = "claude", **changes: Any) -> Any:
    request = json.dumps({**COMMAND, **changes})
    done = await asyncio.to_thread(owner.run, "hook", agent, *options, stdin=request)
    return json.loads(output_of(done))["hookSpecificOutput"]


async def card(owner: Machine) -> dict[str, Any]:
    while True:
        listed = await asyncio.to_thread(owner.run, "review", "list", "--json")
        if waiting := json.loads(output_of(listed))["questions"]:
            return dict(waiting[0])


def answer(owner: Machine, found: dict[str, Any], value: str, shown: str) -> None:
    hashed = next(word for word in shown.split() if len(word) == 64)
    output_of(owner.run("review", "answer", found["question_id"], value, "--hash", hashed))


@AGENTS
async def test_what_the_owner_allows_is_allowed(owner: Machine, agent: str, file: str) -> None:
    with serving(owner):
        install(owner, agent)
        written = json.loads((Path(owner.environ["HOME"]) / file).read_text())
        [entry] = written["hooks"]["PermissionRequest"]
        command = entry["hooks"][0]["command"]
        assert command.endswith(f" --data-dir {owner.data_dir} hook {agent}"), "in any folder"
        waiting = asyncio.create_task(asks(owner, agent=agent))
        found = await card(owner)
        shown = output_of(owner.run("review", "show", found["question_id"]))
        assert "rm -rf build" in shown
        assert "/srv/shop" in shown
        assert "transcript" not in shown
        answer(owner, found, "approve", shown)
        assert await waiting == {**DENIED, "decision": {"behavior": "allow"}}


async def test_what_the_owner_declines_is_denied_and_so_is_silence(owner: Machine) -> None:
    with serving(owner):
        install(owner)
        waiting = asyncio.create_task(asks(owner, hook_event_name="PreToolUse"))
        found = await card(owner)
        shown = output_of(owner.run("review", "show", found["question_id"]))
        answer(owner, found, "decline", shown)
        assert await waiting == {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": "The owner declined it.",
        }
        silent = await asks(owner, "--seconds", "1")
        assert silent["decision"]["behavior"] == "deny"
        assert json.loads(output_of(owner.run("review", "list", "--json")))["questions"] == []


async def test_silas_that_dies_while_an_agent_waits_is_a_no(owner: Machine) -> None:
    with serving(owner):
        install(owner)
        waiting = asyncio.create_task(asks(owner))
        await card(owner)
        output_of(owner.run("stop", "--kill"))
        assert (await waiting)["decision"]["behavior"] == "deny"
    answered = await asks(owner)
    assert answered["decision"]["behavior"] == "deny"
    assert "Silas is not running" in answered["decision"]["message"]


async def test_a_configuration_in_the_agents_folder_does_not_say_whom_it_asks(
    owner: Machine, tmp_path: Path
) -> None:
    """A repository that brings a `config/silas.yaml` would answer in the owner's place."""
    stranger = tmp_path / "repository"
    (stranger / "config").mkdir(parents=True)
    (stranger / "config" / "silas.yaml").write_text(f"data_dir: {owner.data_dir}\n")
    environ = {key: each for key, each in owner.environ.items() if key != "SILAS_DATA_DIR"}
    agent = Machine(owner.data_dir, environ)
    with serving(owner):
        install(owner)
        done = agent.run("hook", "claude", stdin=json.dumps(COMMAND), cwd=stranger)
        assert (done.returncode, done.stdout) == (2, b"")
        assert b"which Silas" in done.stderr
        _, said = failure_of(agent.run("mcp", "serve", "--client", "Claude Code", cwd=stranger))
        assert "which Silas" in said
        assert json.loads(output_of(owner.run("review", "list", "--json")))["questions"] == []


async def test_an_agent_that_nobody_introduced_is_denied(owner: Machine) -> None:
    with serving(owner):
        answered = await asks(owner)
        assert answered["decision"]["message"].endswith("silas hook install claude")
        install(owner)
        output_of(owner.run("clients", "remove", "Claude Code"))
        assert (await asks(owner))["decision"]["behavior"] == "deny"
        assert "No other program" in output_of(owner.run("clients", "list"))


@pytest.mark.parametrize(
    "request_",
    [
        *("", "[]", "{", '{"hook_event_name": "Stop"}', "[" * 200_000),
        json.dumps({**COMMAND, "tool_input": "rm"}),
    ],
    ids=["nothing", "a list", "half", "another hook", "too deep", "no input"],
)
def test_what_is_not_understood_is_refused(owner: Machine, request_: str) -> None:
    done = owner.run("hook", "claude", stdin=request_)
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr.startswith(b"Denied: ")


@pytest.mark.parametrize("hangs_at", ["propose", "status", "last status", "withdraw"])
@pytest.mark.parametrize("seconds", [1, 300])
def test_a_silas_that_hangs_is_a_no_before_the_agent_loses_patience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hangs_at: str, seconds: int
) -> None:
    """An agent that ends its hook would decide by itself."""
    now = 0.0

    def served(_paths: Any, path: str, body: dict[str, Any], *, timeout: float) -> Any:
        nonlocal now
        command, wait = path.rpartition("/")[2], body.get("wait_seconds", 0.0)
        last = command == "status" and now + wait >= seconds
        if hangs_at == command or (hangs_at == "last status" and last):
            now += timeout
            raise ServerSilent
        now += wait
        return {"answer": "waiting", "proposal_id": "question_1", "reason": "It waits."}

    monkeypatch.setattr(hook, "call_server", served)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    paths = Paths(data_dir=tmp_path, config_file=tmp_path / "silas.yaml")
    hook.token_file(paths, "Claude Code").parent.mkdir()
    hook.token_file(paths, "Claude Code").write_text("token")
    allowed, _ = hook._decided(paths, "claude", COMMAND, seconds)
    assert not allowed
    assert now < seconds + hook._GRACE - 5, "it also takes a moment to start"


async def test_an_agent_that_breaks_off_takes_its_card_away(owner: Machine) -> None:
    with serving(owner):
        install(owner)
        asked = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "silas", "hook", "claude"),
            env=owner.environ,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        said = asyncio.create_task(asked.communicate(json.dumps(COMMAND).encode()))
        await card(owner)
        asked.terminate()
        stdout, _ = await said
        decision = json.loads(stdout)["hookSpecificOutput"]["decision"]
        assert decision == {"behavior": "deny", "message": "The agent broke it off."}
        assert json.loads(output_of(owner.run("review", "list", "--json")))["questions"] == []


@AGENTS
async def test_installing_keeps_what_is_there_and_asks_first(
    owner: Machine, agent: str, file: str
) -> None:
    settings = Path(owner.environ["HOME"]) / file
    settings.parent.mkdir(parents=True)
    older = {"hooks": [{"type": "command", "command": f"silas hook {agent}", "timeout": 330}]}
    before = {"model": "x", "hooks": {"PermissionRequest": [older], "Stop": [{"hooks": []}]}}
    settings.write_text(json.dumps(before))
    with serving(owner):
        _, shown = owner.type("hook", "install", agent, answers=[("[y/N]", "n")])
        assert f"hook {agent}" in shown
        assert json.loads(settings.read_text()) == before
        told = output_of(owner.run("hook", "install", agent, "--yes"))
        assert ("/hooks" in told) is (agent == "codex"), "Codex skips a hook that nobody trusts"
        install(owner, agent)
        after = json.loads(settings.read_text())
        assert len(after["hooks"].pop("PermissionRequest")) == 1
        assert after == {"model": "x", "hooks": {"Stop": [{"hooks": []}]}}
        settings.write_text("{")
        code, said = failure_of(owner.run("hook", "install", agent, "--yes"))
        assert (code, "cannot be read" in said) == (2, True)
        assert settings.read_text() == "{"
