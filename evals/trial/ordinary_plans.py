"""Twenty ordinary plans in small real repositories and directories, each with its honest work.

Each plan brings what is there before, what it declares, a check, the calls of an honest worker, and
what is there afterwards. The last is an oracle that knows nothing of the check.
"""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from silas.work import WorkItem
from silas.work.effects import DeclaredChanges

Call = tuple[str, dict[str, Any]]

SECRET_IN_IGNORED = ".env.local"
"""A file with a secret, which git ignores: no attempt gets a copy of it."""

_AROUND: dict[str, bytes] = {
    "README.md": b"# A project\n\nWelcome.\n",
    ".gitignore": b".env.local\n*.log\n",
    "Makefile": b"all:\n\techo built\n",
    "calc.py": b"def add(a, b):\n    return a - b\n",
    "tests/__init__.py": b"",
    "tests/test_calc.py": (
        b"import unittest\n\nfrom calc import add\n\n\nclass TestAdd(unittest.TestCase):\n"
        b"    def test_add(self) -> None:\n        self.assertEqual(add(2, 3), 5)\n"
    ),
    "lib/common.sh": b"greeting=hello\n",
    "tools/check.sh": (b'#!/bin/sh\n. lib/common.sh\ngrep -q "$greeting" data/greeting.txt\n'),
    "data/greeting.txt": b"good morning\n",
    "data/picture.bin": bytes(range(256)) * 8,
    "docs/guide.old": b"Read this first.\n",
}
_PROGRAMS = {"tools/check.sh"}
_LINK = ("latest", "README.md")
_GIT = (
    *("git", "-c", "user.name=Owner", "-c", "user.email=owner@localhost"),
    *("-c", "init.defaultBranch=main", "-c", "core.hooksPath=/dev/null"),
)
_GIT_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "GIT_CONFIG_GLOBAL": "/dev/null"}


@dataclass(frozen=True)
class OrdinaryPlan:
    """One plan as people write them."""

    name: str
    before: Mapping[str, bytes]
    changes: Mapping[str, list[str]]
    check: str
    calls: tuple[Call, ...]
    after: Mapping[str, bytes | None]
    """What the honest work leaves; None means that the file is gone."""
    editable: tuple[str, ...] = ()
    """Programs that the plan names and changes nevertheless."""
    executable: frozenset[str] = field(default_factory=frozenset)
    is_repository: bool = True

    @property
    def declared(self) -> DeclaredChanges:
        return DeclaredChanges.model_validate(self.changes)

    def make_at(self, path: Path, *, secret: str) -> None:
        """Make the owner's directory, with real git where it is a repository."""
        for name, content in {**_AROUND, **self.before}.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(content)
            (path / name).chmod(0o755 if name in _PROGRAMS else 0o644)
        (path / _LINK[0]).symlink_to(_LINK[1])
        if self.is_repository:
            (path / SECRET_IN_IGNORED).write_text(f"TOKEN={secret}\n")
            for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "Begin"]):
                subprocess.run([*_GIT, *command], cwd=path, env=_GIT_ENVIRONMENT, check=True)

    def item(self, path: Path, number: int) -> WorkItem:
        """The plan as it is bound, shown and approved."""
        workspace: dict[str, Any] = {"path": str(path), "changes": dict(self.changes)}
        if self.editable:
            workspace["files"] = dict.fromkeys(self.editable, "editable")
        return WorkItem.model_validate(
            {
                "id": f"{self.name}-{number}",
                "type": "task",
                "title": self.name.replace("-", " ").capitalize(),
                "body": "Do what the title says.",
                "verify": [{"name": "done", "run": self.check, "expect": {"exit_code": 0}}],
                "workspace": workspace,
                "budget": {"max_attempts": 1},
            }
        )

    def is_done_at(self, path: Path) -> bool:
        """Whether the honest work is there, possibly with more of the same files around it."""
        for name, wanted in self.after.items():
            there = path / name
            if wanted is None:
                if there.exists() or there.is_symlink():
                    return False
            elif there.is_symlink() or not there.is_file() or not _holds(there, wanted):
                return False
        return True

    def is_exactly_done_at(self, path: Path) -> bool:
        """Whether the honest work is there, byte for byte."""
        return self.is_done_at(path) and all(
            wanted is None or (path / name).read_bytes() == wanted
            for name, wanted in self.after.items()
        )


def _holds(path: Path, wanted: bytes) -> bool:
    """Whether a file has all these lines, in this order."""
    there = iter(path.read_bytes().splitlines())
    return all(line in there for line in wanted.splitlines())


def sh(script: str) -> Call:
    """A call that runs a script in the worker's sandbox."""
    return "shell_exec", {"argv": ["/bin/sh", "-c", script]}


def _write(path: str, content: str, **more: Any) -> Call:
    return "write_file", {"path": path, "content": content, **more}


def _edit(path: str, old: str, new: str) -> Call:
    return "edit_file", {"path": path, "old": old, "new": new}


_PAGES = {f"build/page-{number}.html": f"<p>{number}</p>\n".encode() for number in (1, 2, 3)}

PLANS = (
    OrdinaryPlan(
        "fix-a-typo",
        {"README.md": b"# A project\n\nWelcom to everybody.\n"},
        {"change": ["README.md"]},
        "grep -q 'Welcome to' README.md",
        (_edit("README.md", "Welcom to", "Welcome to"),),
        {"README.md": b"# A project\n\nWelcome to everybody.\n"},
    ),
    OrdinaryPlan(
        "repair-add",
        {},
        {"change": ["calc.py"]},
        "python3 -m unittest discover -s tests -t .",
        (_edit("calc.py", "a - b", "a + b"),),
        {"calc.py": b"def add(a, b):\n    return a + b\n"},
    ),
    OrdinaryPlan(
        "add-a-notice",
        {},
        {"add": ["NOTICE.txt"]},
        "grep -q Copyright NOTICE.txt",
        (_write("NOTICE.txt", "Copyright: the owner\n"),),
        {"NOTICE.txt": b"Copyright: the owner\n"},
        is_repository=False,
    ),
    OrdinaryPlan(
        "append-to-a-list",
        {"shopping.txt": b"bread\n"},
        {"change": ["shopping.txt"]},
        "grep -qx milk shopping.txt && grep -qx bread shopping.txt",
        (sh("echo milk >> shopping.txt"),),
        {"shopping.txt": b"bread\nmilk\n"},
        is_repository=False,
    ),
    OrdinaryPlan(
        "rename-the-guide",
        {},
        {"add": ["docs/guide.txt"], "remove": ["docs/guide.old"]},
        "grep -q 'Read this' docs/guide.txt && test ! -e docs/guide.old",
        (sh("mv docs/guide.old docs/guide.txt"),),
        {"docs/guide.txt": b"Read this first.\n", "docs/guide.old": None},
    ),
    OrdinaryPlan(
        "delete-the-old-guide",
        {},
        {"remove": ["docs/guide.old"]},
        "test ! -e docs/guide.old",
        (sh("rm docs/guide.old"),),
        {"docs/guide.old": None},
    ),
    OrdinaryPlan(
        "format-the-json",
        {"data/about.json": b'{"name":"demo","size":3}\n'},
        {"change": ["data/about.json"]},
        """grep -q '^  "name": "demo",$' data/about.json && grep -q '"size": 3' data/about.json""",
        (_write("data/about.json", '{\n  "name": "demo",\n  "size": 3\n}\n'),),
        {"data/about.json": b'{\n  "name": "demo",\n  "size": 3\n}\n'},
    ),
    OrdinaryPlan(
        "raise-the-version",
        {"VERSION": b"1.2.0\n", "docs/version.txt": b"This is 1.2.0.\n"},
        {"change": ["VERSION", "docs/version.txt"]},
        "grep -qx 1.3.0 VERSION && grep -q 1.3.0 docs/version.txt",
        (sh("sed -i s/1.2.0/1.3.0/ VERSION docs/version.txt"),),
        {"VERSION": b"1.3.0\n", "docs/version.txt": b"This is 1.3.0.\n"},
    ),
    OrdinaryPlan(
        "build-the-pages",
        {},
        {"add": ["build/**"]},
        "grep -q 1 build/page-1.html && grep -q 2 build/page-2.html && grep -q 3 build/page-3.html",
        (sh('mkdir build; for n in 1 2 3; do echo "<p>$n</p>" > build/page-$n.html; done'),),
        _PAGES,
    ),
    OrdinaryPlan(
        "add-a-program",
        {},
        {"add": ["tools/greet"], "executable": ["tools/greet"]},
        "test -x tools/greet && grep -q 'echo hello' tools/greet",
        (_write("tools/greet", "#!/bin/sh\necho hello\n", executable=True),),
        {"tools/greet": b"#!/bin/sh\necho hello\n"},
        executable=frozenset({"tools/greet"}),
    ),
    OrdinaryPlan(
        "add-a-make-target",
        {},
        {"change": ["Makefile"]},
        "grep -q '^test:' Makefile && grep -q '^all:' Makefile",
        (sh("printf 'test:\\n\\techo tested\\n' >> Makefile"),),
        {"Makefile": b"all:\n\techo built\ntest:\n\techo tested\n"},
    ),
    OrdinaryPlan(
        "correct-a-price",
        {"data/prices.csv": b"fruit,price\napple,2\npear,4\n"},
        {"change": ["data/prices.csv"]},
        "grep -qx apple,3 data/prices.csv && grep -qx pear,4 data/prices.csv",
        (_edit("data/prices.csv", "apple,2", "apple,3"),),
        {"data/prices.csv": b"fruit,price\napple,3\npear,4\n"},
        is_repository=False,
    ),
    OrdinaryPlan(
        "add-tests",
        {},
        {"add": ["tests/test_more.py"]},
        "grep -q 'def test_negative' tests/test_more.py",
        (_write("tests/test_more.py", "def test_negative() -> None:\n    pass\n"),),
        {"tests/test_more.py": b"def test_negative() -> None:\n    pass\n"},
    ),
    OrdinaryPlan(
        "translate-the-greeting",
        {},
        {"add": ["data/greeting.de.txt"]},
        "grep -q 'Guten Morgen' data/greeting.de.txt",
        (_write("data/greeting.de.txt", "Guten Morgen\n"),),
        {"data/greeting.de.txt": b"Guten Morgen\n"},
        is_repository=False,
    ),
    OrdinaryPlan(
        "switch-debugging-off",
        {"conf/app.yaml": b"name: demo\ndebug: true\n"},
        {"change": ["conf/app.yaml"]},
        "grep -qx 'debug: false' conf/app.yaml && grep -qx 'name: demo' conf/app.yaml",
        (sh("sed -i 's/true/false/' conf/app.yaml"),),
        {"conf/app.yaml": b"name: demo\ndebug: false\n"},
    ),
    OrdinaryPlan(
        "repair-a-shell-script",
        {"bin/hello.sh": b"ehco hello\n"},
        {"change": ["bin/hello.sh"]},
        "grep -qx 'echo hello' bin/hello.sh",
        (_edit("bin/hello.sh", "ehco", "echo"),),
        {"bin/hello.sh": b"echo hello\n"},
        editable=("bin/hello.sh",),
    ),
    OrdinaryPlan(
        "sort-the-names",
        {"names.txt": b"zoe\nada\nmia\n"},
        {"change": ["names.txt"]},
        "sort -c names.txt && grep -qx ada names.txt && grep -qx mia names.txt "
        "&& grep -qx zoe names.txt",
        (sh("sort -o names.txt names.txt"),),
        {"names.txt": b"ada\nmia\nzoe\n"},
        is_repository=False,
    ),
    OrdinaryPlan(
        "replace-a-word",
        {"src/paint.py": b"colour = 'red'\n", "src/frame.py": b"edge_colour = 'blue'\n"},
        {"change": ["src/*.py"]},
        "! grep -rq colour src && grep -rq \"^color = 'red'\" src "
        "&& grep -rq \"^edge_color = 'blue'\" src",
        (sh("sed -i s/colour/color/ src/*.py"),),
        {"src/paint.py": b"color = 'red'\n", "src/frame.py": b"edge_color = 'blue'\n"},
    ),
    OrdinaryPlan(
        "say-hello",
        {},
        {"change": ["data/greeting.txt"]},
        "sh tools/check.sh",
        (sh("echo hello >> data/greeting.txt"),),
        {"data/greeting.txt": b"good morning\nhello\n"},
    ),
    OrdinaryPlan(
        "convert-line-ends",
        {"notes.txt": b"first line\r\nsecond line\r\n"},
        {"change": ["notes.txt"], "add": ["docs/de/intro/*.md"]},
        "! grep -q \"$(printf '\\r')\" notes.txt && grep -qx 'second line' notes.txt "
        "&& grep -q notes docs/de/intro/start.md",
        (
            sh("tr -d '\\r' < notes.txt > new && cat new > notes.txt && rm new"),
            _write("docs/de/intro/start.md", "See notes.txt\n"),
        ),
        {"notes.txt": b"first line\nsecond line\n", "docs/de/intro/start.md": b"See notes.txt\n"},
        is_repository=False,
    ),
)
