"""A check in its own sandbox: nothing that the worker left can influence it."""

import os
import shutil
import subprocess

import pytest

from silas.sandbox import SandboxLimits, SandboxRequest, python_executable, verification_request


@pytest.fixture
def places(tmp_path):
    artifacts, scratch = tmp_path.resolve() / "artifacts", tmp_path.resolve() / "scratch"
    artifacts.mkdir()
    scratch.mkdir()
    return artifacts, scratch


def check(places, script: str) -> SandboxRequest:
    artifacts, scratch = places
    argv = ("sh", "-c", script, "sh", str(artifacts))
    limits = SandboxLimits(wall_seconds=60)
    return verification_request(
        argv, artifacts=[str(artifacts)], scratch=str(scratch), limits=limits
    )


async def test_artifacts_are_read_only_and_scratch_is_not(bubblewrap, places):
    (places[0] / "result").write_text("42")
    result = await bubblewrap.run(
        check(places, 'cat "$1/result"; echo 43 > "$1/result"; pwd; touch x')
    )
    assert result.stdout.decode() == f"42{places[1]}\n"
    assert b"Read-only file system" in result.stderr
    assert (places[0] / "result").read_text() == "42"


async def test_the_environment_is_fixed(bubblewrap, places, monkeypatch):
    monkeypatch.setenv("PATH", f"{places[0]}:/usr/bin")
    result = await bubblewrap.run(check(places, "echo $PATH; echo $HOME"))
    path, home = result.stdout.decode().split()
    assert path == "/usr/local/bin:/usr/bin:/bin"
    assert home == str(places[1])


async def test_a_file_named_like_a_tool_is_not_executed(bubblewrap, places):
    for name in ("ls", "test", "cat"):
        (places[0] / name).write_text("#!/bin/sh\necho forged\n")
        (places[0] / name).chmod(0o755)
    result = await bubblewrap.run(check(places, 'cd "$1"; ls; cat /dev/null'))
    assert b"forged" not in result.stdout


async def test_python_takes_nothing_from_the_working_directory(bubblewrap, places):
    (places[1] / "json.py").write_text("print('forged')")
    (places[1] / "sitecustomize.py").write_text("print('forged')")
    python = python_executable()
    request = check(places, f"{python} -c 'import json; print(json.__name__)'")
    assert (await bubblewrap.run(request)).stdout == b"json\n"


async def test_git_obeys_no_configuration_of_the_repository(bubblewrap, places):
    """`core.fsmonitor` and hooks run code at `git status` (CVE-2026-72718, CVE-2026-71963)."""
    if shutil.which("git", path="/usr/bin:/bin") is None:
        return
    artifacts, _ = places
    environment = {"PATH": os.environ["PATH"], "HOME": str(artifacts)}
    for command in (
        ["git", "init", "-q"],
        ["git", "config", "core.fsmonitor", "echo forged >&2; true"],
        ["git", "config", "core.hooksPath", "hooks"],
    ):
        subprocess.run(command, cwd=artifacts, env=environment, check=True)  # noqa: ASYNC221
    (artifacts / "hooks").mkdir()
    (artifacts / "file").write_text("x")
    request = check(places, 'cd "$1" && git status --short && git config core.fsmonitor')
    result = await bubblewrap.run(request)
    assert b"forged" not in result.stderr
    assert result.stdout.decode().splitlines()[-1] == "false"


async def test_it_has_no_network_unless_the_check_says_so(places):
    request = check(places, "true")
    assert not request.network
    limits, hosts = SandboxLimits(wall_seconds=60), ["example.org"]
    named = verification_request(
        ["true"], artifacts=[], scratch=str(places[1]), network=hosts, limits=limits
    )
    assert named.network == ("example.org",)
