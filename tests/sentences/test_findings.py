"""Every finding of the first hour has tests that exist, and no odd sentence has come back."""

import ast
from functools import cache

import pytest

from tests.sentences.collect import ROOT, texts
from tests.sentences.findings import FINDINGS, ODD, UNTRUE

_KINDS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@cache
def _functions(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / "tests" / path).read_text("utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, _KINDS))


def test_every_finding_is_here_once() -> None:
    assert [number for number, _, _ in FINDINGS] == list(range(1, 27))


@pytest.mark.parametrize(("number", "finding", "tests"), FINDINGS, ids=lambda each: str(each)[:40])
def test_every_finding_has_tests_that_exist(
    number: int, finding: str, tests: tuple[str, ...]
) -> None:
    assert tests, finding
    missing = [
        test for test in tests if test.partition("::")[2] not in _functions(test.partition("::")[0])
    ]
    assert missing == [], number


def test_no_odd_sentence_is_said_any_more() -> None:
    said = list(texts("**/*.py", "web/static/*.js"))
    assert len(said) > 5000
    found = [(name, odd, text[:80]) for name, text in said for odd in ODD if odd in text]
    assert found == []


def test_what_was_not_true_is_gone_or_has_a_test_in_which_it_would_be_false() -> None:
    said = list(texts("**/*.py", "web/static/*.js"))
    for sentence, _, gone, tests in UNTRUE:
        assert gone or tests, sentence
        assert [name for name, text in said if gone and gone in text] == [], sentence
        for test in tests:
            path, _, name = test.partition("::")
            assert name in _functions(path), test
