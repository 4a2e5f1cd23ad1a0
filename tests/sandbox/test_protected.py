"""Settings that other programs execute cannot be planted (CVE-2026-25725, CVE-2026-72718)."""

import asyncio
import os
from contextlib import ExitStack

import pytest

from silas.sandbox import PathRefused, SandboxRequest
from silas.sandbox.environment import PROTECTED, hold_protected, pin_all


def names(directory) -> set[str]:
    return {entry.name for entry in directory.iterdir()}


def hold(directory, stack: ExitStack) -> dict[str, int]:
    descriptor = os.open(directory, os.O_PATH)
    stack.callback(os.close, descriptor)
    return hold_protected(str(directory), descriptor, stack)


def test_a_missing_settings_file_is_there_while_it_matters(workspace):
    with ExitStack() as stack:
        assert set(hold(workspace, stack)) == set(PROTECTED)
        assert names(workspace) == set(PROTECTED)
    assert names(workspace) == set()


def test_what_the_owner_has_is_left_alone(workspace):
    (workspace / ".git").mkdir()
    (workspace / ".mcp.json").write_text("{}")
    with ExitStack() as stack:
        hold(workspace, stack)
    assert names(workspace) == {".git", ".mcp.json"}
    assert (workspace / ".mcp.json").read_text() == "{}"


def test_the_last_of_several_runs_takes_the_placeholder_away(workspace):
    with ExitStack() as first:
        hold(workspace, first)
        with ExitStack() as second:
            hold(workspace, second)
        assert names(workspace) == set(PROTECTED)
    assert names(workspace) == set()


def test_what_a_killed_silas_left_goes_with_the_next_run(workspace):
    (workspace / ".vscode").mkdir(mode=0o555)
    with ExitStack() as stack:
        hold(workspace, stack)
    assert names(workspace) == set()


def test_a_placeholder_that_was_filled_from_outside_stays(workspace):
    with ExitStack() as stack:
        hold(workspace, stack)
        (workspace / ".vscode").chmod(0o755)
        (workspace / ".vscode" / "settings.json").write_text("{}")
    assert names(workspace) == {".vscode"}


def test_a_narrow_umask_does_not_leave_placeholders(workspace):
    before = os.umask(0o077)
    try:
        with ExitStack() as stack:
            hold(workspace, stack)
    finally:
        os.umask(before)
    assert names(workspace) == set()


@pytest.mark.parametrize("name", PROTECTED)
def test_a_link_in_its_place_is_refused(workspace, name):
    (workspace / name).symlink_to("/etc")
    with pytest.raises(PathRefused, match="symbolic link"), ExitStack() as stack:
        hold(workspace, stack)


def test_a_protected_directory_cannot_be_asked_for(workspace):
    """An agent that widens its own sandbox."""
    (workspace / ".git" / "hooks").mkdir(parents=True)
    for path in (workspace / ".git", workspace / ".git" / "hooks"):
        request = SandboxRequest(argv=("true",), write=(str(workspace), str(path)))
        with pytest.raises(PathRefused, match="protected"), ExitStack() as stack:
            pin_all(request, stack)


def test_a_socket_is_no_path_to_show(workspace):
    import socket

    path = workspace / "s"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))
        with pytest.raises(PathRefused, match="regular file"), ExitStack() as stack:
            pin_all(SandboxRequest(argv=("true",), read=(str(path),)), stack)


async def test_many_runs_at_once_leave_nothing(bubblewrap, workspace):
    script = "touch .vscode/x .mcp.json 2>/dev/null; echo $?"
    request = SandboxRequest(argv=("sh", "-c", script), cwd=str(workspace), write=(str(workspace),))
    results = await asyncio.gather(*(bubblewrap.run(request) for _ in range(12)))
    assert {result.stdout for result in results} == {b"1\n"}
    assert names(workspace) == set()


async def test_read_wins_over_write(bubblewrap, workspace):
    (workspace / "fixed").mkdir()
    request = SandboxRequest(
        argv=("sh", "-c", "touch a; touch fixed/b; touch fixed"),
        cwd=str(workspace),
        write=(str(workspace),),
        read=(str(workspace / "fixed"),),
    )
    result = await bubblewrap.run(request)
    assert b"Read-only file system" in result.stderr
    assert names(workspace) == {"a", "fixed"}
    assert names(workspace / "fixed") == set()
