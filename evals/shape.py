"""The shape of the package in figures: `python -m evals.shape`.

    --json      the same as JSON
    --names     also what is counted, by name
    --update    rewrite tests/shape/allowed.json: ceilings fall, entries that are not needed go

What is counted:

- *Code lines* are neither blank nor comments nor docstrings.
- A *thin* module has fewer than 120 lines and at most one importer in the package. An `__init__`
  that passes a name on is no importer; whoever takes the name from it is. What is started by its
  name in a string (a command of the command line, `__main__`) needs no importer.
- *Reused names* are public classes with the name of a class in another module.
- An *import by string* is a call of `import_module` or `__import__`.
"""

import argparse
import ast
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeGuard

ROOT = Path(__file__).parents[1]
ALLOWED = ROOT / "tests" / "shape" / "allowed.json"
THIN_LINES = 120
LAZY_COMMANDS = "silas.cli.commands"
"""Loads a command when it is used: `--help` would take a second else."""
GOALS = {
    "files": "<= 480",
    "code lines": "<= 62000",
    "protocols": "<= 50",
    "reused names": "0",
    "imports by string": "0",
    "thin modules": "each with a reason",
}
_MODULE_NAME = re.compile(r"silas(\.\w+)+(:\w+)?")
_SCRIPT = "silas.cli.main"
_LOADERS = ("import_module", "__import__")


class _Text(ast.Constant):
    value: str


@dataclass
class Module:
    """One file of the package."""

    name: str
    path: Path
    text: str
    tree: ast.Module
    imports: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Which names it takes from which module; an empty name is the module itself."""

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    @cached_property
    def docstring_lines(self) -> set[int]:
        """The lines of strings that stand alone."""
        found: set[int] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Expr) and _is_text(node.value):
                found |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        return found

    @cached_property
    def counts(self) -> dict[str, int]:
        """Lines by what they are."""
        kinds = {"code": 0, "comments": 0, "docstrings": len(self.docstring_lines)}
        for number, line in enumerate(self.text.splitlines(), 1):
            if line.strip() and number not in self.docstring_lines:
                kinds["comments" if line.lstrip().startswith("#") else "code"] += 1
        imports = [n for n in ast.walk(self.tree) if isinstance(n, ast.Import | ast.ImportFrom)]
        kinds["imports"] = sum(
            (each.end_lineno or each.lineno) - each.lineno + 1 for each in imports
        )
        return kinds


def imports_of(tree: ast.AST, known: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Every import of a known module: the module, and the name that is taken from it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for each in node.names:
                inner = f"{node.module}.{each.name}"
                if inner in known:
                    yield inner, ""
                elif node.module in known:
                    yield node.module, each.name
        elif isinstance(node, ast.Import):
            yield from ((each.name, "") for each in node.names if each.name in known)
        elif _is_text(node) and _MODULE_NAME.fullmatch(node.value):
            name, _, taken = node.value.partition(":")
            if name in known:
                yield name, taken


class Package:
    """All of `silas/`, read."""

    def __init__(self, folder: Path = ROOT / "silas") -> None:
        self.modules: dict[str, Module] = {}
        for path in sorted(folder.rglob("*.py")):
            if "bundled" in path.parts:
                continue  # skills that ship: their scripts are run, and never imported
            parts = path.relative_to(folder.parent).with_suffix("").parts
            name = ".".join(parts).removesuffix(".__init__")
            text = path.read_text("utf-8")
            self.modules[name] = Module(name, path, text, ast.parse(text))
        for module in self.modules.values():
            for target, taken in imports_of(module.tree, self.modules):
                module.imports[target].add(taken)

    @cached_property
    def importers(self) -> dict[str, set[str]]:
        """Who imports each module, through the `__init__`s that pass names on."""
        found: dict[str, set[str]] = defaultdict(set)
        for module in self.modules.values():
            for target, names in module.imports.items():
                for taken in names:
                    found[self._home(target, taken)].add(module.name)
        return {
            name: {each for each in found[name] if not _passes_on(self.modules[each], name)}
            for name in self.modules
        }

    def _home(self, module: str, name: str) -> str:
        """The module that a name comes from."""
        for target, names in self.modules[module].imports.items():
            if name and name in names and self.modules[module].path.name == "__init__.py":
                return self._home(target, name)
        return module

    @cached_property
    def thin(self) -> list[str]:
        """Modules that break the rule of thumb."""
        return [
            name
            for name, module in self.modules.items()
            if module.path.name not in ("__init__.py", "__main__.py")
            and name not in self.started
            and module.lines < THIN_LINES
            and len(self.importers[name]) <= 1
        ]

    @cached_property
    def started(self) -> set[str]:
        """Modules that are named in a string, with what is started in them."""
        return {_SCRIPT} | {
            node.value.partition(":")[0]
            for module in self.modules.values()
            for node in ast.walk(module.tree)
            if _is_text(node) and ":" in node.value and _MODULE_NAME.fullmatch(node.value)
        }

    @cached_property
    def one_importer(self) -> list[str]:
        """Modules of any length with one importer."""
        return [name for name, found in self.importers.items() if len(found) == 1]

    @cached_property
    def classes(self) -> dict[str, list[str]]:
        """Public classes by their names."""
        found: dict[str, list[str]] = defaultdict(list)
        for module in self.modules.values():
            for node in module.tree.body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(module.name)
        return found

    @property
    def reused(self) -> dict[str, list[str]]:
        """Names that mean several things."""
        return {name: found for name, found in sorted(self.classes.items()) if len(found) > 1}

    @cached_property
    def protocols(self) -> list[str]:
        """Every `Protocol`."""
        return [
            f"{module.name}.{node.name}"
            for module in self.modules.values()
            for node in ast.walk(module.tree)
            if isinstance(node, ast.ClassDef)
            and any(ast.unparse(base).split("[")[0].endswith("Protocol") for base in node.bases)
        ]

    @cached_property
    def by_string(self) -> dict[str, int]:
        """How often modules load others by a string, but for the command line's lazy loading."""
        found = {
            module.name: sum(map(_is_loader, ast.walk(module.tree)))
            for module in self.modules.values()
            if module.name != LAZY_COMMANDS
        }
        return {name: times for name, times in found.items() if times}

    @cached_property
    def figures(self) -> dict[str, float]:
        """All of them."""
        counts = [module.counts for module in self.modules.values()]
        lines = sum(module.lines for module in self.modules.values())
        code = sum(each["code"] for each in counts)
        return {
            "files": len(self.modules),
            "lines": lines,
            "code lines": code,
            "code lines per file": round(code / len(self.modules), 1),
            "protocols": len(self.protocols),
            "modules with one importer": len(self.one_importer),
            "thin modules": len(self.thin),
            "reused names": len(self.reused),
            "imports by string": sum(self.by_string.values()),
            "import lines, % of code": _share(sum(each["imports"] for each in counts), code),
            "comment lines, %": _share(sum(each["comments"] for each in counts), lines),
            "docstring lines, %": _share(sum(each["docstrings"] for each in counts), lines),
        }

    def exceptions(self) -> dict[str, list[str]]:
        """What breaks a rule, by the rule's name in the table."""
        return {
            "reused names": list(self.reused),
            "thin modules": self.thin,
            "imports by string": list(self.by_string),
        }

    def ceilings(self) -> dict[str, int]:
        """What may only fall. Files and lines may grow with what Silas can do; ports need not."""
        return {"protocols": int(self.figures["protocols"])}


def _is_text(node: ast.AST) -> TypeGuard[_Text]:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _share(part: int, whole: int) -> float:
    return round(100 * part / max(1, whole), 1)


def _is_loader(node: ast.AST) -> bool:
    """A call of a loader, or a loader that is handed on to be called elsewhere."""
    if isinstance(node, ast.Attribute):
        return node.attr in _LOADERS
    return isinstance(node, ast.Name) and node.id in _LOADERS


def _passes_on(importer: Module, target: str) -> bool:
    """An `__init__` that re-exports, of the same package or one above it."""
    return importer.path.name == "__init__.py" and target.startswith(f"{importer.name}.")


def shrunk(table: Mapping[str, Any], package: Package) -> dict[str, Any]:
    """The table with lower ceilings and without entries that are not needed; nothing is added."""
    ceilings, exceptions = package.ceilings(), package.exceptions()
    return {
        "ceilings": {k: min(v, table["ceilings"].get(k, v)) for k, v in ceilings.items()},
        **{
            rule: sorted(set(found) & set(table.get(rule, found)))
            for rule, found in exceptions.items()
        },
    }


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="evals.shape")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("--names", action="store_true", help="print also what is counted")
    parser.add_argument("--update", action="store_true", help=f"shrink {ALLOWED.relative_to(ROOT)}")
    chosen = parser.parse_args()
    package = Package()
    if chosen.update:
        table = json.loads(ALLOWED.read_text("utf-8")) if ALLOWED.exists() else {"ceilings": {}}
        ALLOWED.write_text(json.dumps(shrunk(table, package), indent=1) + "\n", "utf-8")
    if chosen.json:
        named = {**package.exceptions(), "protocols": package.protocols, "reused": package.reused}
        print(json.dumps({"figures": package.figures, **named}, indent=2))
        return 0
    for name, value in package.figures.items():
        print(f"{name:30} {value:>9g}  {f'goal {GOALS[name]}' if name in GOALS else ''}".rstrip())
    if chosen.names:
        for rule, names in {**package.exceptions(), "protocols": package.protocols}.items():
            print(f"\n{rule}:", *(f"  {each}" for each in names), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
