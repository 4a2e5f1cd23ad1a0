"""The version that is deployed is the one that the changelog begins with."""

import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HERE))

from version import VERSION  # noqa: E402


class TestVersion(unittest.TestCase):
    def test_changelog(self) -> None:
        self.assertIn(f"## {VERSION}\n", (HERE / "CHANGELOG.md").read_text())


if __name__ == "__main__":
    unittest.main()
