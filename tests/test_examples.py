"""Laws are tried on the same examples in every run."""

import importlib.util
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

ODD = 271_828_182_845


def _drawn() -> list[int]:
    numbers: list[int] = []

    @given(st.integers())
    def draw(number: int) -> None:
        numbers.append(number)

    draw()
    return numbers


def test_whatever_else_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = _drawn()
    names = [f"silas_loaded_late_{number}" for number in range(40)]
    for index, name in enumerate(names):
        source = tmp_path / f"{name}.py"
        source.write_text(f"NUMBER = {ODD + index}\n")
        spec = importlib.util.spec_from_file_location(name, source)
        assert spec is not None
        monkeypatch.setitem(sys.modules, name, importlib.util.module_from_spec(spec))
    assert _drawn() == before
    assert len(set(before)) > 50
