"""Every sentence that claims something has a test in which it would be false."""

import ast
import re
from fnmatch import fnmatch

import pytest

from tests.sentences.collect import ROOT
from tests.sentences.inventory import FAMILIES, claims


def _family_of(name: str, text: str) -> str | None:
    fits = (
        test for file, words, test in FAMILIES if fnmatch(name, file) and re.search(words, text)
    )
    return next(fits, None)


def test_every_claim_has_a_test_in_which_it_would_be_false() -> None:
    found = list(claims())
    assert len(found) > 160
    assert [each for each in found if _family_of(*each) is None] == []


@pytest.mark.parametrize(("file", "words", "test"), FAMILIES, ids=lambda each: str(each)[:60])
def test_every_family_has_a_sentence_and_its_test_exists(file: str, words: str, test: str) -> None:
    assert [text for name, text in claims() if fnmatch(name, file) and re.search(words, text)]
    path, _, function = test.partition("::")
    tree = ast.parse((ROOT / "tests" / path).read_text("utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    assert function in {node.name for node in ast.walk(tree) if isinstance(node, kinds)}
