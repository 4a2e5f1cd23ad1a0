"""Which files a check runs or obeys, and which of them the plan lets the worker write."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.tools.tree import Tree, matches
from silas.work import Plan, WorkItem
from silas.work.binding import bind, bind_plan, bind_workspaces
from silas.work.check_influences import influences, patterns_meet
from silas.work.effects import DeclaredChanges, Workspace
from silas.work.errors import BindingBroken
from silas.work.models import VerificationCheck
from tests.work.shop import OFF_LIMITS, check, task
from tests.work.test_vacuous_checks import SHELL

FILES = {
    "calc.py": "def add(a, b): return a - b\n",
    "Makefile": "include rules.mk\ntest:\n\t@$(PYTHON) -m unittest discover -s tests\n",
    "rules.mk": "lint:\n\tsh ci/lint.sh\n",
    "tests/test_calc.py": "import calc\n",
    "tests/helper.py": "",
    "ci/check.sh": '. "$(dirname "$0")/lib.sh"\ncmp out.txt expected.txt\n',
    "ci/lib.sh": "set -e\nci/run_all\n",
    "ci/run_all": "#!/bin/sh\nfor t in ci/cases/*.t; do sh $t; done\n",
    "ci/each": '#!/bin/sh\nfor t in "$@"; do sh "$t"; done\n',
    "ci/lint.sh": "grep -q x calc.py\n",
    "ci/check.py": "import rules\n",
    "ci/rules.py": "",
    "expected.txt": "5\n",
    "checksums.txt": "",
    "package.json": '{"scripts": {"test": "node tools/run.js && sh ci/lint.sh"}}',
    "tools/run.js": "",
    "src/app.py": "",
}


def write(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return root


@pytest.fixture
def site(tmp_path: Path) -> Path:
    site = tmp_path / "site"
    site.mkdir()
    write(site, FILES)
    (site / "ci/run_all").chmod(0o755)
    (site / "verify").symlink_to("ci/check.sh")
    return site


def found(site: Path | None, run: str, **declared: list[str]) -> list[str]:
    wanted = VerificationCheck.model_validate(check(run))
    changes = DeclaredChanges.model_validate(declared)
    if site is None:
        return influences(wanted, None, changes)
    with Tree.open(site) as tree:
        return influences(wanted, tree, changes)


INFLUENCED = {
    # The forgeries that once were reported as done and checked.
    "the Makefile of make test": ("make test", ["Makefile"]),
    "the tests of unittest": ("python3 -m unittest discover -s tests", ["tests/test_calc.py"]),
    "what a check sources": ("./ci/check.sh", ["ci/lib.sh"]),
    "a program that the work writes": ("python3 verify_result.py", ["verify_result.py"]),
    # Programs and what they run in turn.
    "a script": ("sh ci/check.sh", ["ci/check.sh"]),
    "a script with options": ("bash -eu -o pipefail ci/check.sh --all", ["ci/check.sh"]),
    "a script by a link": ("./verify", ["ci/check.sh"]),
    "two steps away": ("ci/check.sh", ["ci/run_all"]),
    "cases of a loop": ("ci/check.sh", ["ci/cases/new.t"]),
    "given to a script that runs it": ("ci/each ci/case.t", ["ci/case.t"]),
    "given in a variable": ("T=ci/case.t; . ci/each", ["ci/case.t"]),
    "in a shell": ("sh -c 'cd ci && ./lint.sh'", ["ci/lint.sh"]),
    "after cd": ("cd ci && python3 check.py", ["ci/check.py"]),
    "in a substitution": ('test "$(python3 ci/check.py)" = ok', ["ci/check.py"]),
    "in backquotes": ("test `python3 ci/check.py` = ok", ["ci/check.py"]),
    "by standard input": ("sh < ci/lint.sh", ["ci/lint.sh"]),
    "by a pipe": ("cat ci/lint.sh | sh", ["ci/lint.sh"]),
    "by a variable": ("T=ci/lint.sh; sh $T", ["ci/lint.sh"]),
    "by xargs": ("echo ci/lint.sh | xargs sh", ["ci/lint.sh"]),
    "by find": ("find ci -name 'lint.sh' -exec sh {} \\; -a -path ci/lint.sh", ["ci/lint.sh"]),
    "by env": ("env -i A=1 sh ci/lint.sh", ["ci/lint.sh"]),
    "by timeout": ("timeout 10s sh ci/lint.sh", ["ci/lint.sh"]),
    "in a subshell": ("(set -e; . ./ci/lint.sh)", ["ci/lint.sh"]),
    "in a condition": ("if sh ci/lint.sh; then exit 0; fi; exit 1", ["ci/lint.sh"]),
    "in a here-document": ("sh <<E\nsh ci/lint.sh\nE", ["ci/lint.sh"]),
    "by a start file": ("BASH_ENV=ci/lib.sh bash -c true", ["ci/lib.sh"]),
    "started by code": (
        "python3 -c \"import runpy; runpy.run_path('ci/check.py')\"",
        ["ci/check.py"],
    ),
    "what cannot be read": ("sh ci/lint.sh ${A:-$(x)}", ["ci/lint.sh"]),
    "an unknown command": ("verify-it --config=rules.cfg", ["rules.cfg"]),
    "a module beside a script": ("python3 ci/check.py", ["ci/rules.py"]),
    "a module that is run": ("PYTHONPATH=. python3 -m ci.check", ["ci/check.py"]),
    "a script of sed": ("sed -n -f ci/x.sed out.txt", ["ci/x.sed"]),
    "a list of checksums": ("sha256sum --check checksums.txt", ["checksums.txt"]),
    "a removed program": ("make test", ["rules.mk"]),
    # What runners find.
    "a new test": ("pytest", ["tests/test_new.py"]),
    "a test beside the code": ("python -m pytest -q", ["src/app_test.py"]),
    "conftest": ("pytest tests/test_calc.py", ["conftest.py"]),
    "the configuration of pytest": ("pytest -q", ["pyproject.toml"]),
    "a helper of the named test": ("pytest tests/test_calc.py", ["tests/helper.py"]),
    "what --ignore does not choose": ("pytest --ignore tests/slow", ["tests/test_calc.py"]),
    "a module instead of pytest": ("python -m pytest tests/test_calc.py", ["pytest.py"]),
    "a module instead of Python's": ("PYTHONPATH=. python3 tests/test_calc.py", ["json.py"]),
    "pytest in an environment": ("uv run pytest", ["tests/test_calc.py"]),
    "a test of make's": ("make test", ["tests/test_calc.py"]),
    "a script of an included file": ("make lint", ["ci/lint.sh"]),
    "package.json": ("cd web && npm test", ["web/package.json"]),
    "a script of package.json": ("npm test", ["tools/run.js"]),
    "a test of npm": ("npx jest", ["src/app.test.ts"]),
    "installed packages": ("npm test", ["node_modules/jest/index.js"]),
    "a test of go": ("go test ./...", ["pkg/x_test.go"]),
    "the build of cargo": ("cargo test", ["build.rs"]),
    "the tests of maven": ("mvn -q test", ["src/test/java/T.java"]),
    "the settings of a linter": ("ruff check src", ["pyproject.toml"]),
    "both sides of a comparison": ("cmp out.txt expected.txt", ["expected.txt", "out.txt"]),
}


@pytest.mark.parametrize("case", INFLUENCED)
def test_the_worker_influences(case: str, site: Path) -> None:
    run, paths = INFLUENCED[case]
    assert found(site, run) == []
    assert found(site, run, change=paths) == sorted(paths)
    assert found(site, run, remove=paths) == sorted(paths)


SUBJECTS = {
    "data that is read": ("cat out.txt", ["out.txt"]),
    "a script that is read": ("grep -q set ci/lib.sh", ["ci/lib.sh"]),
    "one side of a comparison": ("diff expected.txt out.txt", ["out.txt"]),
    "files of a loop": ("for f in a.txt; do test -f $f || exit 1; done", ["a.txt"]),
    "a substitution that reads": ('test "$(wc -l < out.txt)" -gt 3', ["out.txt"]),
    "an argument of a program": ("python3 ci/check.py out.txt", ["out.txt"]),
    "what a script reads": ("./ci/check.sh", ["out.txt"]),
    "what code reads": ("python3 -c \"assert open('out.txt').read()\"", ["out.txt"]),
    "code that is imported": ("PYTHONPATH=. python3 -m unittest discover -s tests", ["calc.py"]),
    "code under test": ("pytest -q", ["src/app.py", "calc.py"]),
    "code under make": ("make test", ["calc.py"]),
    "another test than the named": ("pytest -q tests/test_calc.py", ["tests/test_new.py"]),
    "syntax": ("sh -n deploy.sh", ["deploy.sh"]),
    "syntax of Python": ("python3 -m py_compile calc.py", ["calc.py"]),
    "a certificate": ("openssl x509 -noout -in certificate.pem", ["certificate.pem"]),
    "an address": ("curl -fsS https://example.org/ci/check.py", ["ci/check.py"]),
    "a comment": ("cat out.txt # sh ci/lint.sh", ["ci/lint.sh"]),
}


@pytest.mark.parametrize("case", SUBJECTS)
def test_the_subject_of_a_check_is_no_influence(case: str, site: Path) -> None:
    run, paths = SUBJECTS[case]
    assert found(site, run, change=paths) == []


def test_patterns_count_if_they_could_cover_what_is_found(site: Path) -> None:
    assert found(site, "pytest", change=["tests/**"]) == ["tests/**"]
    assert found(site, "pytest", add=["**/*.py"]) == ["**/*.py"]
    assert found(site, "pytest", add=["src/**"]) == ["src/**"]
    assert found(site, "pytest tests", add=["src/**"]) == []
    assert found(site, "pytest", change=["src/**"]) == []  # There is no test in it.
    assert found(site, "sh ci/check.sh", change=["ci/run*"]) == ["ci/run_all"]


def test_patterns_never_cover_what_others_execute(site: Path) -> None:
    assert found(site, "make lint", add=["build/*.html"], change=["ci/*.sh", "*akefile"]) == []
    assert found(site, "pytest tests/test_calc.py", add=["lib/**"]) == []


def test_in_an_empty_workspace_all_programs_are_the_workers() -> None:
    assert found(None, "python3 hello.py") == ["hello.py"]
    assert found(None, "cd app && ./run") == ["app/run"]
    assert found(None, "make test") == ["Makefile"]
    assert found(None, "pytest") == ["test*.py"]
    assert found(None, "cat out.txt | grep -c x", add=["out.txt"]) == []
    assert found(None, "broker-cli share IE00 --percent") == []
    assert found(None, 'python3 -c "print(1)"') == []


PATHS = st.sampled_from(
    [*FILES, "out.txt", "new.py", "conftest.py", "tests/**", "src/**", "ci/*.py", "**/test_*.py"]
)
RUNS = st.sampled_from([run for run, _ in (*INFLUENCED.values(), *SUBJECTS.values())])


@given(RUNS | SHELL, st.lists(PATHS, unique=True), st.lists(PATHS, unique=True))
def test_whoever_declares_more_influences_more(
    tmp_path_factory: Any, run: str, declared: list[str], more: list[str]
) -> None:
    site = tmp_path_factory.getbasetemp() / "grown"
    if not site.exists():
        site.mkdir()
        write(site, FILES)
    if run:
        less = set(found(site, run, change=declared))
        assert less <= set(found(site, run, change=sorted({*declared, *more})))
        assert less <= set(found(site, run, change=declared, add=more))
        assert set(found(None, run)) <= set(found(None, run, add=more))


PIECES = st.lists(st.sampled_from(["a", "b", "*", "**", "a*", "?b", "*b"]), min_size=1, max_size=4)
NAMES = st.lists(st.sampled_from(["a", "b", "ab", "bb"]), min_size=1, max_size=4)


@given(PIECES.map("/".join), PIECES.map("/".join), NAMES.map("/".join))
def test_patterns_meet_where_a_path_matches_both(one: str, other: str, path: str) -> None:
    assert patterns_meet(one, other) == patterns_meet(other, one)
    if matches(one, path) and matches(other, path):
        assert patterns_meet(one, other)


def test_patterns_that_do_not_meet() -> None:
    assert not patterns_meet("src/*.py", "**/*.js")
    assert not patterns_meet("src/*.py", "tests/**")
    assert patterns_meet("**/x*.py", "src/**")
    assert not patterns_meet("*/" * 300 + "a", "**/b")


# Binding


def item(*runs: str, verify: Iterable[dict[str, Any]] = (), **changes: list[str]) -> WorkItem:
    checks = [*verify, *(check(run, name=f"c{at}") for at, run in enumerate(runs))]
    return task(verify=checks, workspace={"path": "site", "changes": changes})


async def bound(given: WorkItem, base: Path) -> tuple[WorkItem, Workspace]:
    result = await bind(given, base=base, off_limits=OFF_LIMITS)
    assert result.workspace is not None
    return result, result.workspace


async def test_binding_says_what_influences_each_check(site: Path, tmp_path: Path) -> None:
    shown, _ = await bound(item("make test", "cat out.txt", change=["Makefile"]), tmp_path)
    assert [each.influenced_by for each in shown.verify] == [["Makefile"], []]
    assert '"influenced_by":["Makefile"]' in shown.plan_bytes().decode()


async def test_what_was_written_there_is_replaced(site: Path, tmp_path: Path) -> None:
    lie = {**check("cat out.txt"), "influenced_by": ["x"]}
    hidden = {**check("make test", name="m"), "influenced_by": []}
    shown, _ = await bound(item(verify=[lie, hidden], change=["Makefile"]), tmp_path)
    assert [each.influenced_by for each in shown.verify] == [[], ["Makefile"]]


async def test_what_checks_run_is_pinned(site: Path, tmp_path: Path) -> None:
    _, workspace = await bound(item("./ci/check.sh", change=["ci/run_all"]), tmp_path)
    assert set(workspace.pinned) == {"ci/check.sh", "ci/lib.sh"}  # What it compares is not.
    _, workspace = await bound(item("make test", add=["tests/test_new.py"]), tmp_path)
    pinned = {"Makefile", "rules.mk", "ci/lint.sh", "tests/test_calc.py", "tests/helper.py"}
    assert set(workspace.pinned) == pinned


async def test_the_subject_is_not_pinned(site: Path, tmp_path: Path) -> None:
    _, workspace = await bound(item("cat calc.py ci/lint.sh"), tmp_path)
    assert workspace.files == {}


async def test_there_is_a_limit_to_what_is_pinned(site: Path, tmp_path: Path) -> None:
    write(site, {f"tests/test_{number}.py": "" for number in range(300)})
    shown, workspace = await bound(item("sh ci/lint.sh; pytest"), tmp_path)
    assert len(workspace.pinned) == 200
    assert "ci/lint.sh" in workspace.pinned
    assert (await bound(shown, tmp_path))[0] == shown


async def test_a_goal_does_not_pin_what_its_owner_goes_on_changing(
    site: Path, tmp_path: Path
) -> None:
    goal = WorkItem.model_validate(
        {
            "id": "g",
            "type": "goal",
            "title": "G",
            "schedule": "0 * * * *",
            "verify": [check("pytest && sh ci/lint.sh")],
            "workspace": {"path": "site", "changes": {"change": ["tests/test_calc.py"]}},
        }
    )
    shown, workspace = await bound(goal, tmp_path)
    assert set(workspace.pinned) == {"ci/lint.sh"}
    assert shown.verify[0].influenced_by == ["tests/test_calc.py"]


@pytest.mark.parametrize(
    "run",
    ["python3 verify_result.py", "./verify.sh", 'test "$(sh v.sh)" = ok', "cd ci && node x.js"],
)
async def test_a_program_that_is_not_there_cannot_be_bound(
    run: str, site: Path, tmp_path: Path
) -> None:
    with pytest.raises(BindingBroken, match="which is not there"):
        await bind(item(run), base=tmp_path, off_limits=OFF_LIMITS)
    with pytest.raises(BindingBroken, match="which is not there"):
        bind_workspaces(Plan(item(run)), base=tmp_path, off_limits=OFF_LIMITS)


async def test_a_program_that_is_declared_is_the_workers(site: Path, tmp_path: Path) -> None:
    shown, _ = await bound(item("python3 verify_result.py", add=["verify_result.py"]), tmp_path)
    assert shown.verify[0].influenced_by == ["verify_result.py"]


async def test_programs_of_the_system_need_not_be_there(site: Path, tmp_path: Path) -> None:
    runs = ["/usr/bin/env python3 -c 1", "python3 -", "python3 -m json.tool calc.py", "sh -s"]
    await bind(
        item(*runs, 'cd "$HOME" && ./x', "find . -exec sh {} +"),
        base=tmp_path,
        off_limits=OFF_LIMITS,
    )


async def test_an_added_file_that_is_there_is_changed(site: Path, tmp_path: Path) -> None:
    given = item("cat out.txt", add=["calc.py", "out.txt", "new/*"], executable=["calc.py"])
    _, workspace = await bound(given, tmp_path)
    changes = workspace.changes
    assert (changes.add, changes.change) == (["out.txt", "new/*"], ["calc.py"])
    assert changes.executable == ["calc.py"]


async def test_declared_paths_are_regular_files_below_no_link(site: Path, tmp_path: Path) -> None:
    (site / "elsewhere").symlink_to("/etc")
    for path in ("elsewhere/passwd", "elsewhere/new.txt", "verify", "ci", "calc.py/x"):
        for kind in ("add", "change", "remove"):
            with pytest.raises(BindingBroken, match="no regular file"):
                await bind(
                    item("cat calc.py", **{kind: [path]}), base=tmp_path, off_limits=OFF_LIMITS
                )


async def test_the_tasks_of_a_project_write_for_each_other(site: Path, tmp_path: Path) -> None:
    first = task(id="a", workspace={"path": "site", "changes": {"change": ["ci/lib.sh"]}})
    second = task(id="b", verify=[check("sh ci/check.sh")], workspace={"path": "./site"})
    project = task(id="p", type="project", tasks=["a", "b"], verify=[check("make lint")])
    plan = await bind_plan(Plan(project, (first, second)), base=tmp_path, off_limits=OFF_LIMITS)
    assert plan.items[2].verify[0].influenced_by == ["ci/lib.sh"]
    workspace = plan.items[2].workspace
    assert workspace is not None
    assert set(workspace.pinned) == {"ci/check.sh", "ci/run_all"}


async def test_an_editable_program_is_the_workers(site: Path, tmp_path: Path) -> None:
    given = task(
        verify=[check("sh ci/lint.sh")],
        workspace={"path": "site", "files": {"ci/lint.sh": "editable"}},
    )
    assert (await bind(given, base=tmp_path, off_limits=OFF_LIMITS)).verify[0].influenced_by == [
        "ci/lint.sh"
    ]


async def test_without_a_directory_the_programs_are_the_workers(tmp_path: Path) -> None:
    shown = await bind(task(verify=[check("sh check.sh")]), base=tmp_path, off_limits=OFF_LIMITS)
    assert shown.verify[0].influenced_by == ["check.sh"]


@pytest.mark.parametrize("run", sorted({run for run, _ in INFLUENCED.values()}))
async def test_binding_twice_gives_the_same(run: str, site: Path, tmp_path: Path) -> None:
    given = item(
        run, add=["calc.py", "verify_result.py", "ci/x.sed", "tests/**"], change=["ci/lib.sh"]
    )
    once = await bind(given, base=tmp_path, off_limits=OFF_LIMITS)
    twice = await bind(once, base=tmp_path, off_limits=OFF_LIMITS)
    assert twice.plan_bytes() == once.plan_bytes()
    again = bind_workspaces(Plan(once), base=tmp_path, off_limits=OFF_LIMITS)
    assert again.root.plan_bytes() == once.plan_bytes()
