"""What addresses look like."""

import unittest

from slugify import slugify


class Slugify(unittest.TestCase):
    """Titles and their addresses."""

    def test_words(self) -> None:
        """Words are joined."""
        self.assertEqual(slugify("Hello, World!"), "hello-world")

    def test_umlauts(self) -> None:
        """Umlauts stay readable."""
        self.assertEqual(slugify("Größe und Länge"), "groesse-und-laenge")


if __name__ == "__main__":
    unittest.main()
