"""The line *skills*: a thousand installed ones, and what each way to look at them costs.

*start* is what a start must do at least: find every skill by its sealed row, and compare all of its
files with the digest that was approved. The floor reads and hashes the same bytes; that of a *new
process*, in which no signature is known yet, also checks as many. *opened* parses everything that
they say, beside hashing and PyYAML alone. The other lines are what a turn, the planner's search and
the page ask of a thousand, beside one reading of the table.
"""

import hashlib
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from evals.bench.measure import Line, Round, medians, milliseconds, open_trust
from silas.approval import KeyManager
from silas.kernel import SystemClock
from silas.sandbox.bubblewrap import BubblewrapBackend
from silas.skills.installing import install_bundled
from silas.skills.loading import SkillLoader, SkillResolver
from silas.skills.store import SkillStore, SkillTrees

_SKILLS = 1_000
_START_GOAL, _LOOK_GOAL = 1.5, 3.0
_SEALED = b"x" * 400
"""About as long as what a row has sealed."""
_BODY = "Read the file first. Name what is missing, the worst first. Say what would be right.\n\n"


async def measure_skills(folder: Path) -> list[Line]:
    """Ratios to hashing, and to reading the rows."""
    async with open_trust(folder) as trust:
        trees = SkillTrees(folder / "skills")
        store = SkillStore(trust.database, trees, trust.keys, trust.audit, SystemClock())
        await install_bundled(store, _write_all(folder / "sources"), event=None)
        looked = SkillResolver(SkillLoader(store), BubblewrapBackend())
        rounds: dict[str, Round] = {
            "hash": _timed(lambda: _hash_all(trees.root)),
            "start": _timed(lambda: _start(store)),
            "signatures": _timed(_check_signatures),
            "process": _timed(lambda: _start(store, known=trust.keys)),
            "yaml": _timed(lambda: _parse_all(folder / "sources")),
            "opened": _timed(lambda: _open_all(store)),
            "rows": _timed(lambda: trust.database.fetch_all("SELECT * FROM skills")),
            "turn": _timed(looked.described),
            "search": _timed(lambda: looked.search("number 77 reports")),
            "list": _timed(store.listed),
        }
        found = await medians(rounds)
    both = found["hash"] + found["signatures"]
    return [
        _line(
            "scanned and verified at start", found["start"], "hashing", found["hash"], _START_GOAL
        ),
        _line(
            "the same in a new process",
            found["process"],
            "hashing, and as many signatures",
            both,
            _START_GOAL,
        ),
        _line(
            "opened and parsed",
            found["opened"],
            "hashing, and PyYAML alone",
            found["hash"] + found["yaml"],
        ),
        _line("described for one turn", found["turn"], "reading the rows", found["rows"]),
        _line("the planner's search", found["search"], "reading the rows", found["rows"]),
        _line("the page's list", found["list"], "reading the rows", found["rows"]),
    ]


def _line(what: str, took: float, name: str, floor: float, goal: float = _LOOK_GOAL) -> Line:
    compared = f"{name} {milliseconds(floor)}"
    return Line(
        "skills", f"1,000 {what}", milliseconds(took), compared, took / floor, goal, at_least=False
    )


def _timed(call: Callable[[], Awaitable[object]]) -> Round:
    async def measure() -> float:
        begun = time.perf_counter()
        await call()
        return time.perf_counter() - begun

    return measure


async def _start(store: SkillStore, known: KeyManager | None = None) -> None:
    if known is not None:
        known.reload()  # and so forget which signatures were right
    assert len(await SkillLoader(_fresh(store)).scan()) == _SKILLS


async def _open_all(store: SkillStore) -> None:
    assert len(await SkillLoader(_fresh(store)).opened()) == _SKILLS


def _fresh(store: SkillStore) -> SkillStore:
    return SkillStore(store.database, store.trees, store.keys, store.audit, store.clock)


async def _check_signatures() -> None:
    private = Ed25519PrivateKey.generate()
    public, signature = private.public_key(), private.sign(_SEALED)
    for _ in range(_SKILLS):
        public.verify(signature, _SEALED)


async def _hash_all(root: Path) -> None:
    _hash_below(root)


def _hash_below(root: Path) -> None:
    for path in sorted(root.rglob("*")):
        if path.is_file():
            hashlib.sha256(path.read_bytes()).hexdigest()


async def _parse_all(root: Path) -> None:
    _parse_below(root)


def _parse_below(root: Path) -> None:
    for path in root.iterdir():
        yaml.safe_load((path / "SKILL.md").read_text().split("---\n")[1])
        yaml.safe_load((path / "silas.yaml").read_text())


def _write_all(root: Path) -> Path:
    """A thousand folders of ordinary size: instructions, a reference, a script with a tool."""
    for number in range(_SKILLS):
        name = f"skill-{number:04}"
        about = f"Use it when somebody wants reports of number {number}."
        tool = f"  scripts/report_{number}.py:\n    description: Reports.\n    action: observe\n"
        files = {
            "SKILL.md": f"---\nname: {name}\ndescription: {about}\n---\n\n{_BODY * 30}",
            "references/more.md": f"# More about {number}\n\n{_BODY * 60}",
            f"scripts/report_{number}.py": f'"""Report {number}."""\n\nprint({number})\n' * 20,
            "silas.yaml": f"scripts:\n{tool}    reversibility: reversible\n    contained: true\n",
        }
        for path, text in files.items():
            target = root / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
    return root
