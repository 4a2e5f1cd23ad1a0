"""`silas sandbox run`, as a person or a script uses it."""

import base64
import json
import os
import pty
import subprocess
import sys

import pytest


@pytest.fixture
async def silas(bubblewrap, tmp_path):
    """Runs the command line in an empty directory, with no configuration and no data."""

    def run(*arguments: str, **kwargs) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-m", "silas", "sandbox", "run", *arguments],
            capture_output=True,
            check=False,
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
            **kwargs,
        )

    return run


async def test_output_and_exit_code_pass_through(silas):
    done = silas("--", "sh", "-c", "printf 'a\\033[2J\\377'; echo err >&2; exit 42")
    assert (done.returncode, done.stdout, done.stderr) == (42, b"a\x1b[2J\xff", b"err\n")


async def test_a_command_needs_no_dashes_before_it(silas):
    assert silas("echo", "--json", "-x").stdout == b"--json -x\n"


async def test_the_clock_is_exit_code_124(silas):
    done = silas("--timeout", "0.3", "sleep", "60")
    assert done.returncode == 124
    assert b"stopped by the clock" in done.stderr


async def test_json_has_everything_and_the_exact_bytes(silas):
    done = silas("--json", "sh", "-c", "printf '\\377'; exit 3")
    told = json.loads(done.stdout)
    assert done.returncode == told["exit_code"] == 3
    assert base64.b64decode(told["stdout_base64"]) == b"\xff"
    assert told["backend"] == "bubblewrap"
    assert told["timed_out"] is False


async def test_paths_environment_and_input(silas, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "in" / "file").write_text("content")
    script = 'cat - "$1/in/file" > copy; echo "$A"; pwd'
    done = silas(
        *("--read", "in", "--write", "out", "--env", "A=b c", "--stdin"),
        *("--", "sh", "-c", script, "sh", str(tmp_path)),
        input=b"typed ",
    )
    assert done.stdout.decode() == f"b c\n{tmp_path / 'out'}\n"
    assert (tmp_path / "out" / "copy").read_text() == "typed content"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--read", "absent", "true"), 60, b"No such file"),
        (("--backend", "none", "true"), 60, b"no sandbox backend"),
        (("--timeout", "-1", "true"), 60, b"wall_seconds"),
        (("--memory", "1", "true"), 60, b"memory_bytes"),
        (("--write", "/", "true"), 60, b"belongs to the sandbox"),
        (("--env", "A", "true"), 2, b"NAME=VALUE"),
        ((), 2, b"Missing argument"),
    ],
)
async def test_what_cannot_be_done_is_said(silas, arguments, code, words):
    done = silas(*arguments)
    assert done.returncode == code
    assert words in done.stderr


async def test_a_terminal_is_not_obeyed(silas, tmp_path):
    """OSC 52 would write to the owner's clipboard, and a cursor sequence rewrite what was shown."""
    main, side = pty.openpty()
    attack = "printf '\\033]52;c;ZXZpbA==\\007\\033[2Jshown\\xe2\\x80\\xae'"
    silas_process = subprocess.Popen(  # noqa: ASYNC220 - it returns at once
        [sys.executable, "-m", "silas", "sandbox", "run", "--", "bash", "-c", attack],
        stdout=side,
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TERM": "xterm"},
    )
    silas_process.wait()
    os.close(side)
    shown = os.read(main, 10_000)
    os.close(main)
    assert b"\x1b" not in shown
    assert b"\x07" not in shown
    assert b"shown\\u202e" in shown


async def test_it_ends_when_nobody_reads(bubblewrap, tmp_path):
    command = f"{sys.executable} -m silas sandbox run --timeout 600 yes | head -1"
    done = subprocess.run(  # noqa: ASYNC221 - nothing else runs here
        ["bash", "-c", f"set -o pipefail; {command}"],
        capture_output=True,
        check=False,
        timeout=300,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"y\n", b"")


async def test_it_leaves_nothing_behind(silas, tmp_path):
    silas("--write", ".", "true")
    assert list(tmp_path.iterdir()) == []


async def test_it_needs_no_configuration(silas, tmp_path):
    assert silas("true").returncode == 0
    assert not (tmp_path / "data").exists()
    assert not (tmp_path / ".silas").exists()


async def test_the_backend_of_the_configuration_is_used(silas, tmp_path):
    (tmp_path / "config").mkdir()
    config = tmp_path / "config" / "silas.yaml"
    config.write_text("silas: {sandbox: {backend: subprocess}}\n")
    config.chmod(0o600)
    told = json.loads(silas("--json", "--", "cat", "/etc/passwd").stdout)
    assert told["backend"] == "subprocess"
    assert told["stdout"] == "user:x:1000:1000:user:/tmp:/bin/sh\n"
    assert json.loads(silas("--json", "--backend", "bubblewrap", "true").stdout)["backend"] == (
        "bubblewrap"
    )
