from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.secrets.sessions import desktop_session


@pytest.fixture
def vault_path(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    directory.mkdir(mode=0o700)
    return directory / "vault.json"


@pytest.fixture(scope="session")
def keyring_session() -> Iterator[dict[str, str]]:
    """A session whose keyring is unlocked."""
    with desktop_session(password="the login password") as environ:
        yield environ


@pytest.fixture(scope="session")
def headless_session() -> Iterator[dict[str, str]]:
    """A session whose keyring was never set up, and where nobody can be asked."""
    with desktop_session(password="") as environ:
        yield environ


@pytest.fixture(scope="session")
def plaintext_session() -> Iterator[dict[str, str]]:
    """A session whose keyring has no password, so that its file is plain text."""
    with desktop_session(password="", plaintext=True) as environ:
        yield environ
