"""The skills that ship: readable by everybody, found harmless, and of use."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import skills_ref

import silas.skills
from silas.skills.format import Skill, parse_skill
from silas.skills.inspection import description_problems, inspect_skill
from silas.skills.installing import install_bundled
from silas.skills.tree import copy_tree, read_tree
from tests.skills.place import SkillPlace

BUNDLED = Path(silas.skills.__file__).parent / "bundled"
EXAMPLES = Path(__file__).parents[2] / "plans" / "skills"
BUNDLED_NAMES = ["calendar", "coding", "github", "mail", "skill-maker"]
SHIPPED = sorted(path for root in (BUNDLED, EXAMPLES) for path in root.iterdir() if path.is_dir())


@pytest.fixture
def shipped(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A copy of what ships, without what an interpreter has put beside it."""
    source: Path = request.param
    copy_tree(source, read_tree(source, without=["__pycache__"]), tmp_path / source.name)
    return tmp_path / source.name


@pytest.mark.parametrize("shipped", SHIPPED, indirect=True, ids=lambda path: path.name)
def test_it_passes_every_check(shipped: Path) -> None:
    assert skills_ref.validate(shipped) == []
    skill = parse_skill(shipped)
    assert description_problems(skill.description) == ()
    weights = {each.weight for each in inspect_skill(shipped).findings}
    assert weights <= {"info"}
    for path, script in skill.sidecar.scripts.items():
        script.declaration(path)
        for example in script.examples:
            script.call(example)


def test_which_ship() -> None:
    assert {path.name for path in SHIPPED} == {
        *("broker", "calendar", "coding", "github", "mail", "ops", "shop", "skill-maker"),
    }


def run(skill: Skill, root: Path, tool: str, args: dict[str, object], *, where: Path) -> str:
    path = skill.sidecar.tools[tool]
    call = skill.sidecar.scripts[path].call(args)
    ran = subprocess.run(
        [sys.executable, str(root / path), *call.words],
        input=call.stdin,
        capture_output=True,
        text=True,
        check=False,
        cwd=where,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_coding_changes_and_tests(tmp_path: Path) -> None:
    root = BUNDLED / "coding"
    tree = read_tree(root, without=["__pycache__"])
    copy_tree(root, tree, tmp_path / "coding")
    skill = parse_skill(tmp_path / "coding")
    work = tmp_path / "work"
    work.mkdir()
    (work / "test_it.py").write_text(
        "import unittest\n\nclass T(unittest.TestCase):\n    def test_a(self):\n        assert 1 == 2\n"
    )
    args: dict[str, object] = {"path": "test_it.py", "old": "1 == 2", "new": "1 == 1"}
    assert "Changed" in run(skill, tmp_path / "coding", "apply_patch", args, where=work)
    said = run(skill, tmp_path / "coding", "run_tests", {"path": "test_it.py"}, where=work)
    assert "The tests passed." in said
    (work / "old.py").write_text("1 == 2\n")
    args = {"before": "old.py", "after": "test_it.py"}
    assert "removed" in run(skill, tmp_path / "coding", "summarize_diff", args, where=work)


def test_skill_maker_makes_a_skill(tmp_path: Path) -> None:
    root = tmp_path / "skill-maker"
    source = BUNDLED / "skill-maker"
    copy_tree(source, read_tree(source, without=["__pycache__"]), root)
    maker = parse_skill(root)
    description = 'Adds up invoices --- all of them. Use when "sums" are wanted.'
    args: dict[str, object] = {"name": "invoice-totals", "description": description}
    run(maker, root, "new_skill", args, where=tmp_path)
    made = parse_skill(tmp_path / "invoice-totals")
    assert made.description == description
    assert skills_ref.validate(tmp_path / "invoice-totals") == []
    assert not inspect_skill(tmp_path / "invoice-totals").flagged
    said = run(maker, root, "check_skill", {"folder": "invoice-totals"}, where=tmp_path)
    assert said == "Nothing is missing.\n"
    example = json.loads(json.dumps(made.sidecar.scripts["scripts/main.py"].examples[0]))
    assert run(made, tmp_path / "invoice-totals", "main", example, where=tmp_path) == "hello\n"


def test_the_example_plans_find_their_tools() -> None:
    wanted = {
        "broker": {"get_quote", "get_positions", "place_order", "cancel_order"},
        "ops": {"deploy", "restart_unit"},
        "shop": {"search_help", "opening_hours", "verify_order", "order_status", "request_refund"},
    }
    for name, tools in wanted.items():
        assert tools <= set(parse_skill(EXAMPLES / name).sidecar.tools)


async def test_what_an_installer_compiled_is_no_part_of_a_bundled_skill(
    tmp_path: Path, place: SkillPlace
) -> None:
    package = tmp_path / "bundled"
    shutil.copytree(BUNDLED, package, ignore=shutil.ignore_patterns("__pycache__"))
    assert await install_bundled(place.core.skills, package) == BUNDLED_NAMES
    for script in package.glob("*/scripts"):
        (script / "__pycache__").mkdir(exist_ok=True)
        (script / "__pycache__" / "planted.pyc").write_bytes(b"compiled")
    assert await install_bundled(place.core.skills, package) == []
    for record in await place.core.skills.listed():
        assert not list(place.core.skills.trees.path(record.digest or "").rglob("*.pyc"))
