"""An empty project directory for every test that asks for one."""

from pathlib import Path

import pytest

from tests.settings.project import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)
