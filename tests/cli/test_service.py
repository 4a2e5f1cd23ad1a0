"""`silas service`: the file, where it is written, and what is never in it."""

import json
import plistlib
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.cli.service import Service, service_file
from silas.kernel import ServerError
from tests.cli.machine import Machine, failure_of, output_of
from tests.secrets.files import PASSPHRASE


@pytest.fixture
def user(owner: Machine, tmp_path: Path) -> Machine:
    home = tmp_path / "a home"
    home.mkdir()
    environ = {**owner.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config")}
    return Machine(owner.data_dir, environ)


def unit_of(user: Machine) -> Path:
    return Path(user.environ["XDG_CONFIG_HOME"]) / "systemd" / "user" / "silas.service"


def test_install_status_uninstall(user: Machine) -> None:
    assert "not installed" in output_of(user.run("service", "status", "--kind", "systemd"))
    said = output_of(user.run("service", "install", "--kind", "systemd"))
    assert "systemctl --user enable --now silas" in said
    assert "nobody to ask" in said, "the vault of this machine opens with a passphrase"
    unit = unit_of(user).read_text()
    assert "Restart=on-failure" in unit
    assert str(user.data_dir) in unit
    assert PASSPHRASE not in unit
    assert unit_of(user).stat().st_mode & 0o077 == 0
    found = json.loads(output_of(user.run("service", "status", "--kind", "systemd", "--json")))
    assert (found["installed"], found["current"], found["running"]) == (True, True, False)
    assert "Your data stays" in user.run("service", "uninstall", "--help").stdout.decode()
    assert "disable --now" in output_of(user.run("service", "uninstall", "--kind", "systemd"))
    assert not unit_of(user).exists()
    assert "There is no" in output_of(user.run("service", "uninstall", "--kind", "systemd"))


def test_print_writes_nothing(user: Machine) -> None:
    assert "[Service]" in output_of(user.run("service", "install", "--print", "--kind", "systemd"))
    assert not unit_of(user).exists()


def test_a_file_of_somebody_else_is_left_alone(user: Machine) -> None:
    unit_of(user).parent.mkdir(parents=True)
    unit_of(user).write_text("[Unit]\nDescription=mine\n")
    for command in (["install"], ["uninstall"]):
        code, said = failure_of(user.run("service", *command, "--kind", "systemd"))
        assert (code, "is not Silas's" in said) == (2, True)
    assert "mine" in unit_of(user).read_text()
    assert "something else" in output_of(user.run("service", "status", "--kind", "systemd"))
    output_of(user.run("service", "install", "--force", "--kind", "systemd"))
    assert "mine" not in unit_of(user).read_text()


def test_what_the_unit_starts_is_a_silas_that_prints_no_link(user: Machine) -> None:
    printed = output_of(user.run("service", "install", "--print", "--kind", "systemd"))
    [line] = re.findall(r"^ExecStart=(.*)$", printed, re.MULTILINE)
    command = shlex.split(line)
    assert command[0].startswith("/")
    assert command[-3:] == ["start", "--no-open", "--no-link"]
    environ = {name: user.environ[name] for name in user.environ if name != "SILAS_DATA_DIR"}
    with subprocess.Popen(
        command, env=environ, cwd="/", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        assert server.stderr is not None
        told = server.stdout.readline()
        assert told, server.stderr.read()
        server.terminate()
        told += server.stdout.read() + server.stderr.read()
        assert server.wait() == 0
    assert "silas devices pair" in told
    assert "pair=" not in told


def test_launchd(user: Machine) -> None:
    output_of(user.run("service", "install", "--kind", "launchd"))
    path = Path(user.environ["HOME"]) / "Library" / "LaunchAgents" / "silas.plist"
    agent = plistlib.loads(path.read_bytes())
    assert agent["ProgramArguments"][-3:] == ["start", "--no-open", "--no-link"]
    assert agent["KeepAlive"] == {"SuccessfulExit": False}
    assert agent["WorkingDirectory"] == str(user.data_dir)
    assert PASSPHRASE.encode() not in path.read_bytes()
    output_of(user.run("service", "uninstall", "--kind", "launchd"))
    assert not path.exists()


def test_the_key_file_of_the_vault_is_named_by_its_path(user: Machine) -> None:
    environ = {**user.environ, "SILAS_VAULT_KEY_FILE": "~/k"}
    printed = Machine(user.data_dir, environ).run(
        "service", "install", "--print", "--kind", "systemd"
    )
    home = user.environ["HOME"]
    assert f'Environment="SILAS_VAULT_KEY_FILE={home}/k"' in output_of(printed)


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=20)


@given(NAMES)
def test_any_path_is_one_word_and_one_line(name: str) -> None:
    path = Path("/data") / name
    service = Service(Path("/usr/bin/python3"), path, None, None, 10)
    try:
        text = service_file(service, "systemd", home=Path("/h"), environ={}).content.decode()
    except ServerError:
        assert not name.isprintable()
        return
    [line] = [each for each in text.split("\n") if each.startswith("ExecStart=")]
    unescaped = line.removeprefix("ExecStart=").replace("%%", "%").replace("$$", "$")
    words = re.findall(r'"((?:[^"\\]|\\.)*)"', unescaped)
    assert words[5] == str(path).replace("\\", "\\\\").replace('"', '\\"')
