"""Every text in the package that a person can be shown, by file, as its author wrote it.

Texts of Python files are string constants that are no docstrings; what is filled in stands as `{}`.
Texts of the page are string and template literals of its modules.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

ROOT = Path(__file__).parents[2]
_JS_TEXT = re.compile(r'"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`')
_FILLED_IN = re.compile(r"\$\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}")


def texts(*patterns: str) -> Iterator[tuple[str, str]]:
    """Pairs of file and text, of the files of the package that match."""
    for pattern in patterns:
        for path in sorted((ROOT / "silas").glob(pattern)):
            name = str(path.relative_to(ROOT / "silas"))
            source = path.read_text("utf-8")
            found = _of_python(source) if path.suffix == ".py" else _of_javascript(source)
            yield from ((name, text) for text in found)


def _of_python(source: str) -> Iterator[str]:
    tree = ast.parse(source)
    skipped = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped.update(map(id, node.values))
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
            )
        elif _is_text(node) and id(node) not in skipped:
            yield str(node.value)


def _is_text(node: ast.AST) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _of_javascript(source: str) -> Iterator[str]:
    lines = (
        line for line in source.splitlines() if not line.lstrip().startswith(("//", "*", "/*"))
    )
    for found in _JS_TEXT.finditer("\n".join(lines)):
        yield _FILLED_IN.sub("{}", found[1] or found[2] or "")
