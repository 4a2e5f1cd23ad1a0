"""The workspace and the backends that the tests of this room run in."""

from pathlib import Path

import pytest

from silas.sandbox import SandboxBackend
from tests.sandbox.installed import BACKENDS, container_image, container_socket, require_backend

__all__ = ["container_image", "container_socket"]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    path = tmp_path.resolve() / "workspace"
    path.mkdir()
    return path


@pytest.fixture(params=BACKENDS)
async def backend(request) -> SandboxBackend:
    return await require_backend(request.param, request)


@pytest.fixture
async def bubblewrap(request) -> SandboxBackend:
    return await require_backend("bubblewrap", request)
