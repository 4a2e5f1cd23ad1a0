"""Our sandbox passes the conformance suite that ships with `pydantic_ai.workspaces`."""

import os
import shutil
import uuid
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from pydantic_ai.workspaces import Workspace, conformance
from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite

from silas.agents.workspace import SandboxWorkspace
from silas.sandbox.bubblewrap import BubblewrapBackend
from tests.sandbox.installed import require_backend


class _Suite(WorkspaceBackendSuite):
    kind: str

    @pytest.fixture(autouse=True)
    def short_patience(self, monkeypatch):
        """The suite waits thirty seconds for a background child; ours ends with its command."""
        move_on_after = anyio.move_on_after

        def shorter(delay, *, shield=False):
            return move_on_after(min(delay, 0.3), shield=shield)

        monkeypatch.setattr(conformance.anyio, "move_on_after", shorter)

    @pytest.fixture
    def anyio_backend(self):
        return "asyncio"

    @pytest.fixture
    async def sandbox(self, request):
        return await require_backend(self.kind, request)

    @pytest.fixture
    def fresh_backend(self, sandbox, tmp_path):
        return lambda: SandboxWorkspace(sandbox, parent=tmp_path)

    @pytest.fixture
    def backend(self, fresh_backend):
        return fresh_backend()

    @pytest.fixture
    def attach_backend(self, sandbox, tmp_path):
        return lambda ref: SandboxWorkspace(sandbox, parent=tmp_path, ref=ref)

    @pytest.fixture
    def destroy_environment(self, tmp_path):
        async def destroy(backend):
            shutil.rmtree(tmp_path / backend.ref.id)

        return destroy

    async def test_cancellation_stops_foreground_work(self, backend):
        """Each command has process numbers of its own: the suite's `kill -0` would hit itself."""
        marker = f"marker-{uuid.uuid4().hex}"
        root = Path(await backend.working_dir())
        script = 'touch started; exec sh -c "sleep 3600; :" "$1"'
        async with anyio.create_task_group() as group:
            group.start_soon(backend.run, ["sh", "-c", script, "sh", marker])
            with anyio.fail_after(120):
                await _until((root / "started").exists)
            group.cancel_scope.cancel()
        with anyio.fail_after(120):
            await _until(lambda: not _lives(marker))

    # From outside, root reads what the command's user may not.
    if os.geteuid() == 0:
        test_permission_denied_uses_builtin_error = None


async def _until(condition) -> None:
    while not condition():  # noqa: ASYNC110 - what happens, happens in another process
        await anyio.sleep(0.01)


def _lives(marker: str) -> bool:
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if marker.encode() in entry.read_bytes():
                return True
    return False


class TestBubblewrap(_Suite):
    kind = "bubblewrap"

    # No FIFO can be made inside; `test_a_fifo_is_not_read` puts one there from outside.
    test_fifo_read_does_not_wait_for_writer = None


class TestSubprocess(_Suite):
    kind = "subprocess"


class TestDocker(_Suite):
    kind = "docker"


@pytest.fixture
async def workspace(tmp_path):
    backend = SandboxWorkspace(BubblewrapBackend(), parent=tmp_path)
    return Workspace(backend), Path(await backend.working_dir())


async def test_a_fifo_is_not_read(workspace):
    files, root = workspace
    os.mkfifo(root / "fifo")
    with pytest.raises(OSError, match="not a regular file"):
        await files.read_bytes("fifo")


async def test_a_link_out_of_the_workspace_leads_nowhere(workspace, tmp_path):
    files, root = workspace
    (tmp_path / "secret").write_text("secret")
    (root / "absolute").symlink_to(tmp_path / "secret")
    (root / "relative").symlink_to("../secret")
    (root / "directory").symlink_to(tmp_path)
    for path in ("absolute", "relative", "directory/secret", "../secret", str(tmp_path / "secret")):
        with pytest.raises(FileNotFoundError):
            await files.read_bytes(path)
        with pytest.raises(FileNotFoundError):
            await files.write_bytes(path, b"planted")
    assert (tmp_path / "secret").read_text() == "secret"


async def test_protected_names_cannot_be_written_from_outside_either(workspace):
    files, root = workspace
    (root / "link").symlink_to(".vscode")
    for path in (".git/hooks/pre-commit", ".vscode/tasks.json", ".mcp.json", "link/tasks.json"):
        with pytest.raises(OSError, match=r"protected|No such"):
            await files.write_bytes(path, b"planted")
    assert not (root / ".git" / "hooks").exists()
    assert not (root / ".mcp.json").exists()


async def test_a_name_that_is_no_workspace_is_unavailable(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "deep").mkdir()
    for name in ("workspace-absent", ".", "..", "inner/deep", "workspace-x/../inner", "/etc", ""):
        ref = conformance.WorkspaceRef(provider="silas-sandbox", id=name)
        with pytest.raises(conformance.WorkspaceUnavailableError):
            await SandboxWorkspace(BubblewrapBackend(), parent=tmp_path, ref=ref).working_dir()
