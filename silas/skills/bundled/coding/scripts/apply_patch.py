"""Replaces one passage of a file, if it is there exactly once. Reads its arguments as JSON."""

import json
import sys
from pathlib import Path


def main() -> int:
    given = json.load(sys.stdin)
    path = Path(given["path"])
    if path.is_absolute() or ".." in path.parts or not path.is_file():
        print(f"There is no file {path} in the workspace.")
        return 2
    text = path.read_text("utf-8")
    count = text.count(given["old"])
    if count != 1:
        print(f"The passage stands {count} times in {path}. Give one that stands there once.")
        return 1
    path.write_text(text.replace(given["old"], given["new"]), "utf-8")
    print(f"Changed {path}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
