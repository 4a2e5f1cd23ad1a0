"""Mutation testing of the trust rooms: `python -m tests.mutation [silas/kernel/ids.py …]`.

mutmut makes the mutants. The tests are collected once; then each mutant gets a fork of that
process, in which the tests that reach its function run until one fails. Those that killed its
siblings run first, so that most mutants cost a fraction of a second. What was measured is kept in
`mutants/results.jsonl`: a run that was interrupted goes on where it was; delete the file to begin
anew. At the end, `mutants/survivors.diff` shows what nobody noticed.
"""

import ast
import contextlib
import difflib
import gc
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import _lru_cache_wrapper, cache
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from mutmut.mutation import trampoline
from mutmut.mutation.file_mutation import mutate_file_contents

ROOMS = ("kernel", "approval", "audit")
WORKPLACE = Path("mutants")
RESULTS = Path("results.jsonl")
SURVIVORS = Path("survivors.diff")
# What starts other processes would test the code as it is; what tries every byte would take hours.
LEFT_OUT = ("test_processes.py", "test_tampering_bytes.py", "test_chain_law.py")
SECONDS_OF_TESTS = float(os.environ.get("MUTATION_SECONDS", "10"))
SECONDS_TO_LIVE = 300
CONTROL_EVERY = 10
QUIET = ("-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")


def make_mutants(sources: list[Path]) -> list[str]:
    """Copy the package and its tests, these files with all their mutants; returns their names."""
    for name in ("silas", "tests", "docs", "plans"):
        shutil.copytree(name, WORKPLACE / name, dirs_exist_ok=True)
    shutil.copy("pyproject.toml", WORKPLACE)
    names: list[str] = []
    for source in sources:
        mutated = mutate_file_contents(str(source), source.read_text())
        (WORKPLACE / source).write_text(mutated.code)
        module = ".".join(source.with_suffix("").parts)
        names += [f"{module}.{name}" for name in mutated.mutant_names]
    # A run that does not come to its end is then a fair sample.
    random.Random(5).shuffle(names)
    return names


def function_of(mutant: str) -> str:
    """The mangled name of the function that the mutant is a variant of."""
    return mutant.rpartition("__mutmut_")[0]


def file_of(test: str) -> str:
    """The file in which the test stands."""
    return test.partition("::")[0]


class Forks:
    """A pytest plugin that runs no test itself: its children do."""

    def __init__(self, mutants: list[str], rooms: list[str]) -> None:
        self._mutants = mutants
        self._rooms = rooms
        self._items: dict[str, pytest.Item] = {}
        self._reaching: dict[str, set[str]] = defaultdict(set)
        self._seconds: dict[str, float] = {}
        self._killers: dict[str, dict[str, None]] = defaultdict(dict)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """One failing example is enough: nobody reads a smaller one."""
        phases = (Phase.explicit, Phase.generate)
        usual = settings.get_profile("silas")
        settings.register_profile("mutation", usual, phases=phases, database=None)
        settings.load_profile("mutation")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._items = {item.nodeid: item for item in session.items}
        gc.collect()
        gc.freeze()  # else the collector would touch, and so copy, every page in every child
        self._survey()
        known = results()
        for number, mutant in enumerate(self._mutants):
            if mutant in known:
                self._remember(mutant, known[mutant][1])
                continue
            result, killer = self._try(mutant)
            if killer and number % CONTROL_EVERY == 0 and not self._passes_unchanged(killer):
                result = "doubtful"
            self._note(mutant, result, killer)
        return True

    def _survey(self) -> None:
        """Run everything once, unchanged, and note what reaches what."""
        with tempfile.NamedTemporaryFile("r") as notes:
            if _in_a_fork(lambda: self._record(Path(notes.name)), seconds=1800) != 0:
                sys.exit("The tests do not pass on the unchanged code.")
            for line in notes:
                test, self._seconds[test], functions = json.loads(line)
                for function in functions:
                    self._reaching[function].add(test)

    def _record(self, notes: Path) -> None:
        reached: set[str] = set()
        trampoline.record_trampoline_hit = lambda name, caller=None: reached.add(name)
        trampoline.set_mutant_under_test("stats")
        lines: list[str] = []
        for test, item in self._items.items():
            reached.clear()
            _forget_results()
            begun = time.process_time()
            _run(item)
            lines.append(json.dumps([test, time.process_time() - begun, sorted(reached)]))
        notes.write_text("\n".join(lines))

    def _tests_for(self, mutant: str) -> list[str]:
        function, module = function_of(mutant), mutant.rpartition(".")[0]
        reaching = self._reaching[function]
        killers = [*reversed(self._killers[function]), *reversed(self._killers[module])]
        order = [test for test in killers if test in reaching]
        # A file whose tests have killed many of this module knows what the module is for.
        files = Counter(file_of(test) for test in self._killers[module])
        order += sorted(reaching, key=lambda test: (-files[file_of(test)], self._seconds[test]))
        chosen: list[str] = []
        seconds = 0.0
        for test in dict.fromkeys(order):
            seconds += self._seconds[test]
            if chosen and seconds > SECONDS_OF_TESTS:
                break
            chosen.append(test)
        return chosen

    def _try(self, mutant: str) -> tuple[str, str | None]:
        tests = self._tests_for(mutant)
        if not tests:
            return self._try_at_import(mutant), None
        with tempfile.NamedTemporaryFile("r") as running:
            code = _in_a_fork(lambda: self._kill(mutant, tests, Path(running.name)))
            killer = running.read()
        if code == -signal.SIGALRM:
            return "hung", None  # it waits for something, or the machine was too busy: look at it
        return ("survived", None) if code == 0 else ("killed", killer)

    def _passes_unchanged(self, test: str) -> bool:
        """Else it did not notice the mutant: a busy machine, or the test itself, made it fail."""
        return _in_a_fork(lambda: self._kill("", [test], Path(os.devnull))) == 0

    def _kill(self, mutant: str, tests: list[str], running: Path) -> None:
        limit = int(3 * sum(self._seconds[test] for test in tests)) + 10
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
        trampoline.set_mutant_under_test(mutant)
        for test in tests:
            running.write_text(test)
            _run(self._items[test])

    def _try_at_import(self, mutant: str) -> str:
        """What runs only while modules are imported needs a process in which they are not yet."""
        command = [sys.executable, "-m", "pytest", "-x", *QUIET, "-m", "not slow", *self._rooms]
        environment = {**os.environ, "MUTANT_UNDER_TEST": mutant}
        done = subprocess.run(command, env=environment, capture_output=True, check=False)
        return "killed" if done.returncode else "survived"

    def _remember(self, mutant: str, killer: str | None) -> None:
        if killer:
            self._killers[function_of(mutant)][killer] = None
            self._killers[mutant.rpartition(".")[0]][killer] = None

    def _note(self, mutant: str, result: str, killer: str | None) -> None:
        self._remember(mutant, killer)
        with RESULTS.open("a") as file:
            file.write(json.dumps([mutant, result, killer]) + "\n")
        if result != "killed":
            print(f"{result}: {mutant}", flush=True)


class Watch:
    """Ends the child at the first failure, before anybody writes a report about it."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> None:
        if call.excinfo is not None and not call.excinfo.errisinstance(pytest.skip.Exception):
            os._exit(1)


def _run(item: pytest.Item) -> None:
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)


def _forget_results() -> None:
    """Else a function behind a cache would be reached by the first test alone."""
    for name, module in list(sys.modules.items()):
        if name.startswith("silas."):
            for each in vars(module).values():
                if isinstance(each, _lru_cache_wrapper):
                    each.cache_clear()


def _in_a_fork(work: Callable[[], None], *, seconds: int = SECONDS_TO_LIVE) -> int:
    """Do it in a child with a folder of its own for files; returns how the child ended."""
    folder = tempfile.mkdtemp(prefix="silas-mutant-")
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(1, 2)
            signal.alarm(seconds)
            os.environ["PYTEST_DEBUG_TEMPROOT"] = folder
            work()
            os._exit(0)
        except BaseException:  # noqa: BLE001 - whatever it was, this child must not go on
            os._exit(1)
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)
    return os.waitstatus_to_exitcode(status)


def results() -> dict[str, tuple[str, str | None]]:
    """What is known so far: how it ended, and by which test."""
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return {mutant: (result, killer) for mutant, result, killer in map(json.loads, lines)}


def report(mutants: list[str]) -> None:
    """Print the figures of each module, and write down what survived."""
    known = {mutant: result for mutant, (result, _) in results().items()}
    modules: dict[str, Counter[str]] = defaultdict(Counter)
    for mutant in mutants:
        modules[mutant.rpartition(".")[0]][known.get(mutant, "not tried")] += 1
    for module, counts in sorted(modules.items()):
        print(f"{module:40} {dict(counts)}")
    survivors = sorted(mutant for mutant in mutants if known.get(mutant) == "survived")
    SURVIVORS.write_text("\n".join(map(difference, survivors)))


def difference(mutant: str) -> str:
    """How the mutant differs from its original."""
    module, _, name = mutant.rpartition(".")
    functions = functions_in(Path(*module.split(".")).with_suffix(".py"))
    before, after = functions[f"{function_of(name)}__mutmut_orig"], functions[name]
    changed = list(difflib.unified_diff(before, after, n=0, lineterm=""))[2:]
    return "\n".join([mutant, *(line for line in changed if "__mutmut_" not in line), ""])


@cache
def functions_in(file: Path) -> dict[str, list[str]]:
    """The lines of each function, by its name."""
    text = file.read_text()
    lines = text.splitlines()
    return {
        node.name: lines[node.lineno - 1 : node.end_lineno]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def main(names: list[str]) -> None:
    """Make the mutants of these files, or of all trust rooms, and try to kill them."""
    every = (path for room in ROOMS for path in sorted(Path("silas", room).glob("*.py")))
    sources = [Path(name) for name in names] or list(every)
    rooms = sorted({f"tests/{source.parts[1]}" for source in sources})
    mutants = make_mutants(sources)
    print(f"{len(mutants)} mutants", flush=True)
    os.chdir(WORKPLACE)
    sys.path.insert(0, str(Path.cwd()))
    os.environ["MUTANT_UNDER_TEST"] = ""
    sys.setrecursionlimit(4_000)  # every call of a function goes through two more of mutmut's
    left_out = [f"--ignore={room}/{name}" for room in rooms for name in LEFT_OUT]
    options = ["--rootdir=.", *QUIET, "-m", "not slow", "-k", "not every_byte", *left_out, *rooms]
    pytest.main(options, plugins=[Watch(), Forks(mutants, rooms)])
    report(mutants)


if __name__ == "__main__":
    main(sys.argv[1:])
