"""`make quick` finds the tests that a change needs."""

from pathlib import Path

import pytest

from tests import quick

FILES = {
    "silas/audit/__init__.py": "from silas.audit.log import Log",
    "silas/audit/log.py": "",
    "silas/work/loop.py": "from silas.audit import Log",
    "silas/app/app.py": "import silas.work.loop",
    "tests/audit/test_log.py": "from silas.audit.log import Log",
    "tests/audit/test_other.py": "",
    "tests/work/test_loop.py": "from silas.work.loop import run",
    "tests/app/test_app.py": "from silas.app.app import App",
}


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> quick.Graph:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(quick, "ROOT", tmp_path)
    return quick.Graph(Path(name) for name in FILES)


def test_nearest_first_and_not_further_than_direct_dependants(graph: quick.Graph) -> None:
    assert graph.nearest({"silas/audit/log.py"}) == [
        "tests/audit/test_log.py",
        "tests/audit/test_other.py",
        "tests/work/test_loop.py",
    ]


def test_a_test_that_changed_comes_first(graph: quick.Graph) -> None:
    assert graph.nearest({"tests/work/test_loop.py"}) == ["tests/work/test_loop.py"]
    found = graph.nearest({"tests/work/test_loop.py", "silas/audit/log.py"})
    assert found[0] == "tests/work/test_loop.py"


def test_what_no_test_imports_needs_none(graph: quick.Graph) -> None:
    assert graph.nearest({"docs/flow.md"}) == []
