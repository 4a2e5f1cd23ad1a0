"""The package keeps its shape. `python -m evals.shape --names` prints what is counted here.

`allowed.json` lists what broke a rule when the rule came. It only shrinks: `python -m evals.shape
--update` lowers the ceilings and removes entries that are not needed any more.
"""

import json
import re
from pathlib import Path

import pytest

from evals.shape import ALLOWED, Package, shrunk

THIN_WITH_REASON: dict[str, str] = {
    "silas.agents.models.token_counts": "One HTTP client of a foreign server, without the library.",
    "silas.web.companions": "Its commands stand apart: the command line runs them without the web "
    "framework.",
}
"""Modules under 120 lines with one importer, and why each is a file of its own."""

REASONS = {"thin modules": THIN_WITH_REASON}
ADVICE = {
    "reused names": "One name means one thing: give the less central class a qualified name.",
    "thin modules": "A module earns its file by two importers or about 120 lines: merge it into "
    "its importer, or write the reason into THIN_WITH_REASON.",
    "imports by string": "An import that must be late is a plain import inside one function.",
}


@pytest.fixture(scope="module")
def package() -> Package:
    return Package()


@pytest.fixture(scope="module")
def allowed() -> dict:
    return json.loads(ALLOWED.read_text("utf-8"))


@pytest.mark.parametrize("rule", ADVICE)
def test_rule(package: Package, allowed: dict, rule: str) -> None:
    found = set(package.exceptions()[rule])
    excused = {*allowed[rule], *REASONS.get(rule, {})}
    assert not found - excused, ADVICE[rule]
    assert not excused - found, "Not needed any more: run `python -m evals.shape --update`."


def test_protocols_stay_few(package: Package, allowed: dict) -> None:
    assert package.ceilings()["protocols"] <= allowed["ceilings"]["protocols"], (
        "A Protocol exists at an I/O, model, process or clock boundary, or where two "
        "implementations ship. Import the class of the lower layer instead."
    )


def test_nothing_in_the_package_imports_what_stands_beside_it(package: Package) -> None:
    for module in package.modules.values():
        assert "from evals" not in module.text
        assert "from tests" not in module.text


def made(root: Path, **files: str) -> Package:
    for name, text in files.items():
        path = root / "silas" / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Package(root / "silas")


def test_who_imports_a_module_is_found_through_what_passes_it_on(tmp_path: Path) -> None:
    found = made(
        tmp_path,
        a__deep="class Deep: ...",
        a="",
        b="from silas.a import Deep",
        c="import silas.b",
        d="x = 'silas.c:run'",
    )
    (tmp_path / "silas" / "a.py").rename(tmp_path / "silas" / "a" / "__init__.py")
    (tmp_path / "silas" / "a" / "__init__.py").write_text("from silas.a.deep import Deep")
    found = Package(tmp_path / "silas")
    assert found.importers["silas.a.deep"] == {"silas.b"}
    assert found.importers["silas.b"] == {"silas.c"}
    assert set(found.thin) == {"silas.a.deep", "silas.b", "silas.d"}


def test_what_is_counted(tmp_path: Path) -> None:
    found = made(
        tmp_path,
        a='"""Two\nlines."""\n\nimport os\n\n# Why.\nclass A(Protocol):\n    """Doc."""\n',
        b="class A: ...\nclass _B: ...\nimportlib.import_module('x')\n",
    )
    figures = found.figures
    assert (figures["files"], figures["code lines"], figures["protocols"]) == (2, 5, 1)
    assert found.reused == {"A": ["silas.a", "silas.b"]}
    assert found.by_string == {"silas.b": 1}


def test_the_table_only_shrinks(tmp_path: Path) -> None:
    found = made(tmp_path, a="class A: ...", b="class A: ...")
    table = {"ceilings": {"protocols": 2}, "reused names": ["B"]}
    now = shrunk(table, found)
    assert now["ceilings"] == {"protocols": 0}
    assert now["reused names"] == []


@pytest.mark.parametrize(
    "document",
    [*sorted(Path("docs").rglob("*.md")), *sorted(Path().glob("*.md"))],
    ids=str,
)
def test_documents_name_files_that_exist(document: Path) -> None:
    named = set(
        re.findall(r"`((?:silas|evals|tests)/[\w/]+\.\w+)[:`]", document.read_text("utf-8"))
    )
    assert not {name for name in named if not Path(name).exists()}
