"""Titles as parts of addresses."""

import re
import unicodedata


def slugify(title: str) -> str:
    """The title in lower case, with `-` between its words."""
    text = unicodedata.normalize("NFC", title).encode("ascii", "ignore").decode()
    return "-".join(re.findall(r"[a-z0-9]+", text.lower()))
