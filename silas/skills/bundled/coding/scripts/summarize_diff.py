"""Says how two files differ: lines added, removed, and where."""

import argparse
import difflib
import sys
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before")
    parser.add_argument("after")
    given = parser.parse_args()
    try:
        before = Path(given.before).read_text("utf-8").splitlines()
        after = Path(given.after).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        print(f"A file cannot be read: {error}")
        return 2
    lines = list(difflib.unified_diff(before, after, given.before, given.after, lineterm="", n=1))
    added = sum(line.startswith("+") and not line.startswith("+++") for line in lines)
    removed = sum(line.startswith("-") and not line.startswith("---") for line in lines)
    print(f"{added} line(s) added, {removed} removed.")
    print("\n".join(lines[:400]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
