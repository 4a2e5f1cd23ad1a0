"""Says what is missing or wrong in the folder of a skill.

It looks at what an author gets wrong most often. The check before the installation is stricter.
"""

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

SHORTEST, LONGEST = 24, 1024
CREDENTIAL = re.compile(r"AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{30,}|sk-[A-Za-z0-9_-]{24,}")


def problems(folder: Path) -> Iterator[str]:
    """Every problem, as a sentence."""
    file = folder / "SKILL.md"
    if not file.is_file():
        yield "There is no SKILL.md."
        return
    lines = file.read_text("utf-8").split("\n")
    if lines[0] != "---" or "---" not in lines[1:]:
        yield "SKILL.md must begin with front matter between two lines `---`."
        return
    front = dict(
        re.findall(r"(?m)^([a-z-]+):\s*(.*)$", "\n".join(lines[1 : lines.index("---", 1)]))
    )
    if front.get("name", "").strip("\"'") != folder.resolve().name:
        yield "The name in SKILL.md is not that of the folder."
    description = front.get("description", "").strip("\"'")
    if not SHORTEST <= len(description) <= LONGEST:
        yield f"The description needs {SHORTEST} to {LONGEST} characters."
    if not re.search(r"\b(?:use|when|if|for)\b", description, re.IGNORECASE):
        yield "The description does not say when the skill is wanted."
    yield from _script_problems(folder)


def _script_problems(folder: Path) -> Iterator[str]:
    sidecar = folder / "silas.yaml"
    declared = sidecar.read_text("utf-8") if sidecar.is_file() else ""
    for script in sorted(folder.glob("scripts/*.py")):
        name = script.relative_to(folder).as_posix()
        text = script.read_text("utf-8")
        try:
            tree = ast.parse(text)
        except SyntaxError as error:
            yield f"{name}, line {error.lineno}: {error.msg}."
            continue
        if ast.get_docstring(tree) is None:
            yield f"{name} does not say what it does: give it a docstring."
        if CREDENTIAL.search(text):
            yield f"{name} holds a credential. Take it out."
        if name not in declared and "__main__" in text:
            yield f"{name} is not declared in silas.yaml, so nobody can call it."


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    given = parser.parse_args()
    found = list(problems(Path(given.folder)))
    print("\n".join(found) or "Nothing is missing.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
