import asyncio
import os
from pathlib import Path

import pytest

from silas.app.setup import set_up
from silas.kernel import SystemClock
from silas.secrets import create_vault
from silas.settings.load import load_settings
from silas.testing.fakes import with_schema
from tests.cli.desk import Desk
from tests.cli.machine import Machine, free_port
from tests.secrets.files import FAST_N, PASSPHRASE


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    data_dir = tmp_path / "data"
    data_dir.mkdir(mode=0o700)
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path / "home"),
        "SILAS_DATA_DIR": str(data_dir),
        "SILAS_VAULT_PASSPHRASE": PASSPHRASE,
        "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
        "SILAS_CHANNELS__WEB__PORT": str(free_port()),
    }
    machine = Machine(data_dir, environ)
    create_vault(
        machine.vault, environ=environ, choice="passphrase", unsafe_scrypt_n_for_tests=FAST_N
    )
    with_schema(data_dir / "silas.db", "runtime")
    return machine


@pytest.fixture
def owner(machine: Machine) -> Machine:
    """The machine after `silas init`."""
    loaded = load_settings(
        data_dir=str(machine.data_dir), config_file=None, environ={}, cwd=machine.data_dir
    )
    with_schema(machine.data_dir / "journal.db", "journal")
    asyncio.run(set_up(loaded, environ=machine.environ, clock=SystemClock()))
    return machine


@pytest.fixture
def desk(
    owner: Machine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Desk:
    """The same, with its commands at hand."""
    for name, value in owner.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(owner.data_dir)
    return Desk(owner, capsys)
