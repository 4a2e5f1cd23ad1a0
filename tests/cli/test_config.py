"""`silas config`, as people and scripts use it."""

import json
import os
import subprocess
from pathlib import Path

from tests.cli.machine import Machine

SECRET = "correct-horse-battery-staple"


def silas(directory: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    keyring = {"PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}
    run = Machine(directory, {"PATH": "/usr/bin:/bin", **keyring, **environ}).run(*arguments)
    return subprocess.CompletedProcess(
        run.args, run.returncode, run.stdout.decode(), run.stderr.decode()
    )


def write(directory: Path, text: str) -> None:
    (directory / "config").mkdir()
    (directory / "config" / "silas.yaml").write_text(text)


def test_check_says_that_everything_is_right(tmp_path: Path) -> None:
    done = silas(tmp_path, "config", "check")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("The configuration is right (all defaults; there is no ")
    write(tmp_path, "silas: {owner_id: me}\n")
    done = silas(tmp_path, "config", "check", SILAS_OWNR_ID="x")
    assert done.returncode == 0
    assert done.stdout == f"The configuration is right ({tmp_path}/config/silas.yaml).\n"
    assert done.stderr == (
        "Warning: The variable SILAS_OWNR_ID sets nothing; did you mean `SILAS_OWNER_ID`?\n"
    )
    data = json.loads(silas(tmp_path, "config", "check", "--json").stdout)
    assert data == {
        "valid": True,
        "config_file": f"{tmp_path}/config/silas.yaml",
        "exists": True,
        "data_dir": f"{tmp_path}/data",
        "warnings": [],
    }


def test_check_tells_all_problems(tmp_path: Path) -> None:
    write(tmp_path, "silas:\n  ownr_id: me\n  channels:\n    web:\n      port: 0\n")
    done = silas(tmp_path, "config", "check")
    assert (done.returncode, done.stdout) == (10, "")
    assert (
        "config/silas.yaml:2: ownr_id: is not a known key; did you mean `owner_id`?" in done.stderr
    )
    assert "config/silas.yaml:5: channels.web.port: must be at least 1" in done.stderr
    assert done.stderr.endswith("[E_CFG_INVALID]\n")
    done = silas(tmp_path, "config", "check", "--json")
    assert done.returncode == 10
    error = json.loads(done.stdout)["error"]
    assert error["code"] == "E_CFG_INVALID"
    assert error["details"]["problems"][1] == {
        "source": "file",
        "file": "config/silas.yaml",
        "line": 5,
        "key": "channels.web.port",
        "message": "must be at least 1",
    }


def test_broken_files_end_with_the_code_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("silas: [\n")
    codes = [
        silas(tmp_path, "--config", name, "config", "check").returncode
        for name in ("broken.yaml", "missing.yaml", ".")
    ]
    assert codes == [10, 10, 10]


def test_show_tells_where_each_value_comes_from_and_no_secret(tmp_path: Path) -> None:
    write(tmp_path, f"silas:\n  search:\n    api_key: {SECRET}\n    max_results: 7\n")
    environ = {"SILAS_CHANNELS__WEB__AUTH_TOKEN": SECRET, "SILAS_CHANNELS__WEB__PORT": "9000"}
    done = silas(tmp_path, "config", "show", **environ)
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert "search.max_results = 7  (config/silas.yaml:4)" in lines
    assert 'search.api_key = "[redacted]"  (config/silas.yaml:3)' in lines
    assert "channels.web.port = 9000  (SILAS_CHANNELS__WEB__PORT)" in lines
    assert 'owner_id = "owner"  (default)' in lines
    as_json = silas(tmp_path, "config", "show", "--json", **environ)
    data = json.loads(as_json.stdout)
    assert data["settings"]["search"]["api_key"] == "[redacted]"
    assert data["settings"]["channels"]["web"] == {
        "enabled": True,
        "host": "127.0.0.1",
        "port": 9000,
        "public_origins": [],
        "tls_certificate": None,
        "tls_key": None,
        "auth_token": "[redacted]",
    }
    assert data["origins"]["search.max_results"] == {
        "source": "file",
        "file": "config/silas.yaml",
        "line": 4,
    }
    assert data["origins"]["channels.web.port"] == {
        "source": "environment",
        "variable": "SILAS_CHANNELS__WEB__PORT",
    }
    everything = done.stdout + done.stderr + as_json.stdout + as_json.stderr
    assert SECRET not in everything


def test_a_file_name_that_is_no_text_is_no_crash(tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff.yaml")
    (tmp_path / name).write_text("silas: {}\n")
    for command in ("check", "show", "path"):
        for as_json in ((), ("--json",)):
            done = silas(tmp_path, "--config", name, "config", command, *as_json)
            assert done.returncode == 0, done.stderr


def test_schema_is_a_json_schema(tmp_path: Path) -> None:
    schema = json.loads(silas(tmp_path, "config", "schema").stdout)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert "channels" in schema["properties"]["silas"]["properties"]


def test_path_names_the_file_in_force(tmp_path: Path) -> None:
    assert silas(tmp_path, "config", "path").stdout == f"{tmp_path}/config/silas.yaml\n"
    done = silas(tmp_path, "--data-dir", "d", "config", "path", "--json")
    assert json.loads(done.stdout) == {
        "config_file": f"{tmp_path}/d/silas.yaml",
        "exists": False,
        "data_dir": f"{tmp_path}/d",
    }


class TestSet:
    FILE = (
        "# mine\nsilas:\n  owner_id: me   # that is me\n  channels:\n    web:\n      # port: 8420\n"
    )

    def test_one_setting_changes_and_every_comment_stays(self, tmp_path: Path) -> None:
        write(tmp_path, self.FILE)
        done = silas(tmp_path, "config", "set", "channels.web.port", "9000")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("channels.web.port = 9000\n")
        text = (tmp_path / "config" / "silas.yaml").read_text()
        assert text == self.FILE.replace("# port: 8420", "port: 9000")
        done = silas(tmp_path, "config", "set", "models.proxy", "ollama:qwen3:8b")
        assert done.returncode == 0
        shown = json.loads(silas(tmp_path, "config", "show", "--json").stdout)["settings"]
        assert shown["models"]["proxy"] == "ollama:qwen3:8b"
        assert silas(tmp_path, "config", "set", "models.proxy", "null").returncode == 0
        assert "# that is me" in (tmp_path / "config" / "silas.yaml").read_text()

    def test_a_list_is_set_as_a_whole(self, tmp_path: Path) -> None:
        write(tmp_path, self.FILE)
        origins = "[https://silas.example]"
        done = silas(tmp_path, "config", "set", "channels.web.public_origins", origins)
        assert done.returncode == 0, done.stderr
        shown = json.loads(silas(tmp_path, "config", "show", "--json").stdout)["settings"]
        assert shown["channels"]["web"]["public_origins"] == ["https://silas.example"]

    def test_what_is_not_right_is_not_written(self, tmp_path: Path) -> None:
        write(tmp_path, self.FILE)
        for key, value, told in [
            ("channels.web.prot", "9000", "did you mean `channels.web.port`?"),
            ("channels.web", "9000", "There is no setting 'channels.web'"),
            ("channels.web.port", "many", "port"),
            ("models.proxy", "opnai:local", "did you mean `openai"),
            ("channels.web.auth_token", "hunter2hunter2", "is a secret"),
        ]:
            done = silas(tmp_path, "config", "set", key, value)
            assert done.returncode != 0, key
            assert told in done.stderr, done.stderr
            assert "Traceback" not in done.stderr
            assert (tmp_path / "config" / "silas.yaml").read_text() == self.FILE

    def test_what_a_variable_decides_is_not_changed_in_the_file(self, tmp_path: Path) -> None:
        write(tmp_path, self.FILE)
        done = silas(
            tmp_path, "config", "set", "owner_id", "you", SILAS_OWNER_ID="from-the-environment"
        )
        assert done.returncode != 0
        assert "an environment variable or an option decides" in done.stderr
        assert (tmp_path / "config" / "silas.yaml").read_text() == self.FILE
