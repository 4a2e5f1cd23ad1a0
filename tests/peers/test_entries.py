"""The table of peers' failures is whole, and what it names is there."""

import ast
from pathlib import Path

import pytest

import silas
from tests.peers.entries import ENTRIES, Entry, node_ids

ROOT = Path(__file__).parents[2]
NUMBERS = [*range(1, 28), 33, 34, 45]


def test_every_failure_has_its_tests_or_is_listed_as_waiting() -> None:
    assert sorted(ENTRIES) == NUMBERS
    for number, entry in ENTRIES.items():
        assert bool(entry.tests) != bool(entry.waits_for), number


@pytest.mark.parametrize("number", NUMBERS)
def test_what_the_table_names_is_there(number: int) -> None:
    for name in ENTRIES[number].tests:
        module, _, test = name.partition("::")
        assert test in _tests_in(ROOT / module), name


def test_who_waits_for_a_room_is_written_when_it_comes() -> None:
    rooms = Path(silas.__file__).parent
    late = [entry for entry in ENTRIES.values() if _is_there(rooms, entry)]
    assert late == [], "the room is there now: write the test, and name it in the table"


def _is_there(rooms: Path, entry: Entry) -> bool:
    return bool(entry.waits_for) and (rooms / entry.waits_for / "__init__.py").exists()


def test_the_tests_can_be_asked_for() -> None:
    assert all("::test_" in node for node in node_ids())
    assert len(node_ids()) == len(set(node_ids()))


def _tests_in(module: Path) -> set[str]:
    """The names of the tests of a module, those in classes as `Class.test`."""
    found = set()
    for node in ast.parse(module.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            inside = (ast.FunctionDef, ast.AsyncFunctionDef)
            found |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, inside)}
    return found
