"""`silas init` and `silas start` refuse files that others may read or change."""

import os
from pathlib import Path

import pytest

from silas.app.setup import require_own_files
from silas.kernel import ConfigError
from silas.settings.paths import Paths
from tests.cli.machine import Machine

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="gives files away")
NOBODY = 65534


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "config").mkdir(mode=0o755)
    (tmp_path / "config").chmod(0o755)
    paths = Paths(data_dir=tmp_path / "data", config_file=tmp_path / "config" / "silas.yaml")
    for path in (paths.config_file, paths.vault, paths.public_key):
        path.touch(mode=0o600)
    return paths


def test_ones_own_files_are_accepted(paths: Paths) -> None:
    require_own_files(paths)
    paths.config_file.chmod(0o644)
    require_own_files(paths)


@pytest.mark.parametrize("mode", [0o777, 0o755, 0o750, 0o710, 0o701])
def test_a_data_directory_that_others_may_enter(paths: Paths, mode: int) -> None:
    paths.data_dir.chmod(mode)
    with pytest.raises(ConfigError, match=r"chmod go-rwx .*/data"):
        require_own_files(paths)


@pytest.mark.parametrize("mode", [0o666, 0o646, 0o602])
@pytest.mark.parametrize("name", ["config_file", "vault", "public_key"])
def test_a_file_that_anybody_may_change(paths: Paths, name: str, mode: int) -> None:
    getattr(paths, name).chmod(mode)
    with pytest.raises(ConfigError, match="chmod go-w"):
        require_own_files(paths)


def test_a_directory_in_which_anybody_may_replace_the_configuration(paths: Paths) -> None:
    paths.config_file.parent.chmod(0o777)
    with pytest.raises(ConfigError, match=r"chmod go-w .*/config"):
        require_own_files(paths)
    paths.config_file.parent.chmod(0o1777)
    require_own_files(paths)


@AS_ROOT
def test_what_a_group_of_others_may_change(paths: Paths) -> None:
    paths.config_file.chmod(0o660)
    os.chown(paths.config_file, 0, NOBODY)
    with pytest.raises(ConfigError, match="chmod go-w"):
        require_own_files(paths)


def test_a_group_in_which_nobody_else_is(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("silas.app.setup._is_own_group", lambda gid: gid == os.getegid())
    os.chown(paths.config_file, -1, os.getegid())
    paths.config_file.chmod(0o660)
    require_own_files(paths)


@AS_ROOT
@pytest.mark.parametrize("name", ["config_file", "vault", "data_dir"])
def test_what_belongs_to_somebody_else(paths: Paths, name: str) -> None:
    os.chown(getattr(paths, name), NOBODY, -1)
    with pytest.raises(ConfigError, match=r"belongs to another user.*chown -R"):
        require_own_files(paths)


@pytest.mark.parametrize("command", ["init", "start"])
class TestCommands:
    def test_an_open_data_directory(self, owner: Machine, command: str) -> None:
        owner.data_dir.chmod(0o777)
        ran = owner.run(command)
        assert ran.returncode == ConfigError().exit_code
        assert b"chmod go-rwx" in ran.stderr
        assert owner.data_dir.stat().st_mode & 0o777 == 0o777, "it is not mended unasked"

    def test_a_configuration_that_anybody_may_change(self, owner: Machine, command: str) -> None:
        (owner.data_dir / "silas.yaml").chmod(0o666)
        ran = owner.run(command)
        assert ran.returncode == ConfigError().exit_code
        assert b"chmod go-w" in ran.stderr


def test_init_makes_a_configuration_that_start_accepts_whatever_the_umask(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "SILAS_VAULT_PASSPHRASE": "correct horse battery",
        "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
    }
    before = os.umask(0o002)
    try:
        ran = Machine(home, environ).run("init", "--yes", cwd=home)
    finally:
        os.umask(before)
    assert ran.returncode == 0, ran.stderr
    [config] = [path for path in home.rglob("silas.yaml") if "skills" not in path.parts]
    assert config.stat().st_mode & 0o077 == 0
    assert config.parent.stat().st_mode & 0o022 == 0
