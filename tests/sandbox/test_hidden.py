"""What lies among the system's directories, which every sandbox sees, and is still not shown."""

from pathlib import Path

import pytest

from silas.sandbox import SandboxRequest, environment
from silas.sandbox.bubblewrap import BubblewrapBackend, file_system
from tests.sandbox.installed import require_backend


async def test_a_data_directory_below_usr_is_not_readable(request, workspace):
    """Any directory and file of /usr stand for one where somebody put Silas's data."""
    await require_backend("bubblewrap", request)
    directory, file = "/usr/share", "/usr/bin/env"
    backend = BubblewrapBackend(hidden=(directory, file))
    argv = (
        "sh",
        "-c",
        f"ls -A {directory} | wc -l; wc -c < {file}; touch {directory}/x || echo no",
    )
    result = await backend.run(SandboxRequest(argv=argv, write=(str(workspace),)))
    assert result.stdout.split() == [b"0", b"no"]


def test_home_and_silas_itself_are_covered_where_they_would_be_seen(monkeypatch, tmp_path):
    package, home = tmp_path / "lib" / "silas", tmp_path / "home"
    package.mkdir(parents=True)
    home.mkdir()
    monkeypatch.setattr(environment, "system_directories", lambda: ("/usr", str(tmp_path)))
    request = SandboxRequest(argv=("true",))
    words = list(file_system(request, [], [], hidden=(str(home), str(package), "/elsewhere")))
    covered = [words[index + 1] for index, word in enumerate(words) if word == "--tmpfs"]
    assert covered[:2] == [str(home), str(package)]
    assert "/elsewhere" not in words


@pytest.mark.parametrize("path", ["", ".ssh", ".config"])
async def test_the_home_is_not_readable(request, path):
    await require_backend("bubblewrap", request)
    place = Path.home() / path
    program = f"cat {place}/* 2>/dev/null; ls -A {place} 2>/dev/null"
    result = await BubblewrapBackend().run(SandboxRequest(argv=("sh", "-c", program)))
    shown = {name.decode() for name in result.stdout.split()}
    # Of the way to the Python that runs Silas, the names of the directories are there.
    assert shown <= set(Path(environment.python_executable()).parts)
