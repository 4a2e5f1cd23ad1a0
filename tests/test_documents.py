"""The generated documents are up to date."""

import pytest

from tests.documents import DOCUMENTS, ROOT


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_committed_copy_is_current(name: str) -> None:
    committed = ROOT / name
    assert committed.exists(), f"{name} is missing. Run: python -m tests.documents"
    assert committed.read_text() == DOCUMENTS[name](), "Stale. Run: python -m tests.documents"
