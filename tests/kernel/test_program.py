"""Commands are printed as they can be typed."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from silas.kernel import program as module
from silas.kernel.program import as_typed, own_program, program
from silas.stream.places import PlaceRefused  # an error of Silas's, with its sentence
from silas.web.refusals import refusal_of

TOLD = "Run `silas doctor`, or `silas --help`. Say `silas` or `silas.kernel`; silas doctor."


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    program.cache_clear()
    yield
    program.cache_clear()


def started_as(monkeypatch: pytest.MonkeyPatch, own: Path, *, path: str = "/nowhere") -> None:
    monkeypatch.setattr(sys, "argv", [str(own), "chat"])
    monkeypatch.setattr(module, "own_program", lambda: own)
    monkeypatch.setenv("PATH", path)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    made = tmp_path / "silas" / ".venv" / "bin" / "silas"
    made.parent.mkdir(parents=True)
    made.write_text("#!/bin/sh\n")
    made.chmod(0o755)
    return made


def test_where_the_name_is_found_it_is_printed(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started_as(monkeypatch, own, path=str(own.parent))
    assert as_typed(TOLD) == TOLD


def test_where_it_is_not_found_the_path_is_printed(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started_as(monkeypatch, own)
    path = "~/silas/.venv/bin/silas"
    assert as_typed(TOLD) == (
        f"Run `{path} doctor`, or `{path} --help`. Say `silas` or `silas.kernel`; silas doctor."
    )
    assert as_typed(as_typed(TOLD)) == as_typed(TOLD)
    answer = refusal_of(PlaceRefused("Run `silas folders list`."), whole=False)
    assert f"`{path} folders list`".encode() in bytes(answer.body)


def test_another_silas_of_that_name_is_not_meant(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other" / "silas"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    started_as(monkeypatch, own, path=str(other.parent))
    assert program() == "~/silas/.venv/bin/silas"
    other.unlink()
    other.symlink_to(own)
    program.cache_clear()
    assert program() == "silas"


def test_a_path_with_spaces_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "my silas" / "silas"
    own.parent.mkdir()
    own.write_text("")
    started_as(monkeypatch, own)
    assert program() == f"'{own}'"


def test_the_installed_program_prints_what_can_be_typed(tmp_path: Path) -> None:
    """As after `make run` by somebody who wants no link: the very text is typed into a shell."""
    environ = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "SILAS_DATA_DIR": str(tmp_path)}
    told = subprocess.run(
        [str(own_program()), "work", "list"], env=environ, capture_output=True, check=False
    )
    command = told.stderr.decode().split("`")[1]
    assert command == f"{own_program()} init"
    again = subprocess.run(
        ["/bin/sh", "-c", f"{command} --help"], env=environ, capture_output=True, check=False
    )
    assert again.returncode == 0
    assert again.stdout.decode().startswith(f"Usage: {own_program()} init")
