import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

from tests.secrets.sessions import UnlockedKeyring, desktop_session


@pytest.fixture
def vault_path(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    directory.mkdir(mode=0o700)
    return directory / "vault.json"


_UNLOCKED = pytest.StashKey[UnlockedKeyring]()


@pytest.fixture(scope="session")
def unlocked_keyring(pytestconfig: pytest.Config) -> Iterator[UnlockedKeyring]:
    with UnlockedKeyring() as keyring:
        pytestconfig.stash[_UNLOCKED] = keyring
        yield keyring
    del pytestconfig.stash[_UNLOCKED]


@pytest.fixture
def keyring_session(unlocked_keyring: UnlockedKeyring) -> dict[str, str]:
    """A session whose keyring is unlocked."""
    return unlocked_keyring.environ()


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """A test during which the keyring's daemon died is run again, with a new one.

    The daemon of Debian 12 crashes about once in two thousand calls. Whatever else fails a test
    fails it at once.
    """
    if "keyring_session" not in getattr(item, "fixturenames", ()):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports: list[pytest.TestReport] = []
    for _ in range(3):
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        keyring = item.config.stash.get(_UNLOCKED, None)
        died = keyring is not None and not keyring.lives()
        if not died or not any(report.failed for report in reports):
            break
        gc.collect()  # the driver's open sockets, before the next test is blamed for them
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


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
