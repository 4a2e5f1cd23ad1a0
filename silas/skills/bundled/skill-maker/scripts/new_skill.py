"""Makes the folder of a new skill with what every skill needs."""

import argparse
import json
import re
import sys
from pathlib import Path

SKILL = """---
name: {name}
description: {description}
---

# {title}

## When to use

{purpose}

## How to work

Say what to look at first, what a good result is, and when to stop.

## Scripts

- `scripts/main.py` - Says what the script does.

## Constraints

- Keep to the files that the plan declares.
"""
SIDECAR = """activation: auto
scripts:
  scripts/main.py:
    description: "Says what the script does."
    arguments:
      text: {type: string, max_length: 1000, position: 1}
    action: observe
    reversibility: reversible
    contained: true
    examples:
      - {text: "hello"}
"""
SCRIPT = '''"""Says what the script does."""

import argparse
import sys


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text")
    given = parser.parse_args()
    print(given.text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
'''


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", required=True)
    parser.add_argument("--description", required=True)
    given = parser.parse_args()
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", given.name) or len(given.name) > 64:
        print("A name has lower-case letters, digits and single hyphens.")
        return 2
    folder = Path(given.name)
    if folder.exists():
        print(f"{folder} is there already.")
        return 1
    (folder / "scripts").mkdir(parents=True)
    described = json.dumps(given.description, ensure_ascii=False).replace("---", r"-\x2d-")
    text = SKILL.format(
        name=given.name,
        description=described,
        title=given.name.replace("-", " ").capitalize(),
        purpose=given.description,
    )
    (folder / "SKILL.md").write_text(text, "utf-8")
    (folder / "silas.yaml").write_text(SIDECAR, "utf-8")
    (folder / "scripts" / "main.py").write_text(SCRIPT, "utf-8")
    print(f"Made {folder}: SKILL.md, silas.yaml, scripts/main.py.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
