"""Checks that pass whatever was done are refused; ordinary ones are not."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.work import PlanInvalid, parse_plan
from silas.work.models import VerificationCheck
from silas.work.shell_commands import Unreadable, read_list, simple_commands
from silas.work.vacuous_checks import vacuous

ENDS_WELL: dict[str, Any] = {"exit_code": 0}
SOME: dict[str, Any] = {"not_empty": True}


def reason(run: str, expect: dict[str, Any]) -> str | None:
    check = {"name": "c", "run": run, "expect": expect}
    return vacuous(VerificationCheck.model_validate(check))


REFUSED = [
    # What was accepted although no check of it could fail.
    ("true", ENDS_WELL),
    ("echo ok", {"contains": "ok"}),
    ("echo all tests passed", {"equals": "all tests passed\n"}),
    ("pytest -q; true", ENDS_WELL),
    ("ls", SOME),
    ("wc -l < x", {"output_gt": -1}),
    # Nothing is looked at.
    (":", ENDS_WELL),
    ("# nothing", ENDS_WELL),
    ("exit 0", ENDS_WELL),
    ("exit 3", {"exit_code": 3}),
    ("false", {"exit_code": 1}),
    ("! false", ENDS_WELL),
    ("true && true", ENDS_WELL),
    ("test 1 = 1", ENDS_WELL),
    ("[ 1 -eq 1 ]", ENDS_WELL),
    ("A=1 true", ENDS_WELL),
    ("env true", ENDS_WELL),
    ("timeout 5 true", ENDS_WELL),
    ("sh -c true", ENDS_WELL),
    ("sleep 1; date", SOME),
    ("seq 3", {"contains": "2"}),
    ("yes | head -n 1", {"equals": "y\n"}),
    ("echo ok | grep ok", ENDS_WELL),
    ("printf '%s' ok", {"equals": "ok"}),
    # The last command decides.
    ("pytest || true", ENDS_WELL),
    ("pytest || :", ENDS_WELL),
    ("pytest || echo failed", ENDS_WELL),
    ("pytest; exit 0", ENDS_WELL),
    ("pytest; exit 7", {"exit_code": 7}),
    ("pytest; echo ok", ENDS_WELL),
    ("pytest\ntrue", ENDS_WELL),
    ("pytest;true;", ENDS_WELL),
    ("pytest &", ENDS_WELL),
    ("pytest & wait", ENDS_WELL),
    ("pytest | cat", ENDS_WELL),
    ("pytest | tee log", ENDS_WELL),
    ("sh -c 'pytest; true'", ENDS_WELL),
    ("pytest; echo $?", ENDS_WELL),
    ("pytest && true || true", ENDS_WELL),
    # What is expected is printed in any case.
    ("pytest; echo ok", {"contains": "ok"}),
    ("pytest; echo ok", {"regex": "ok"}),
    ("grep -q x f; echo ok", {"equals": "ok\n"}),
    ("pytest > /dev/null 2>&1; printf 'ok\\n'", {"equals": "ok\n"}),
    ("pytest; echo done", SOME),
    # Every number is as expected, or a command always prints.
    ("grep -c x f", {"output_gt": -1}),
    ("cat f | wc -l", {"output_gt": -0.5}),
    ("wc -l < f", {"regex": "[0-9]"}),
    ("pytest; echo $?", {"output_gt": -1}),
    ("pytest; echo $?", {"output_lt": 256}),
    ("ls -la", SOME),
    ("ls | head -n 3", SOME),
    ("wc -l f", SOME),
    ("find .", SOME),
    *((command, SOME) for command in ("date", "pwd", "env", "id", "df", "du", "ps", "uname -a")),
    ("stat .", SOME),
    ("git status", SOME),
]
ORDINARY = [
    ("pytest -q", ENDS_WELL),
    ("python3 -m pytest -q tests", ENDS_WELL),
    ("python3 -m unittest discover -s tests", ENDS_WELL),
    ("make test", ENDS_WELL),
    ("make -C app check > /dev/null", ENDS_WELL),
    ("cd x && npm test", ENDS_WELL),
    ("go test ./...", ENDS_WELL),
    ("cargo test --quiet", ENDS_WELL),
    ("./ci/check.sh", ENDS_WELL),
    ("sh ci/check.sh | tail -n 1", {"equals": "passed\n"}),
    ("grep -q done report.md", ENDS_WELL),
    ("! grep -r TODO src", ENDS_WELL),
    ("grep -c '^## 2' CHANGELOG.md", {"output_gt": 0}),
    ("grep TODO src; echo done", {"equals": "done\n"}),
    ("test -f out.txt", ENDS_WELL),
    ("[ -s out.txt ]", ENDS_WELL),
    ("test ! -e old.txt", ENDS_WELL),
    ("test a -nt b", ENDS_WELL),
    ('test "$(wc -l < f)" -gt 3', ENDS_WELL),
    ("cmp out.txt expected.txt", ENDS_WELL),
    ("diff -u expected.txt out.txt", ENDS_WELL),
    ("cat out.txt", {"equals": "built\n"}),
    ("cat out.txt", SOME),
    ("head -n 1 out.txt", {"contains": "Title"}),
    ("wc -l < out.txt", {"output_gt": 3}),
    ("ls | wc -l", {"output_lt": 10}),
    ("ls dist", SOME),
    ("ls | grep wheel", SOME),
    ("find . -name '*.orig'", {"equals": ""}),
    ("find . -name '*.whl'", SOME),
    ("sha256sum --check --quiet checksums.txt", ENDS_WELL),
    ("curl -fsS https://example.org/health", {"contains": "ok"}),
    ('curl -fsS -o /dev/null -w "%{http_code}" https://example.org', {"equals": "200"}),
    ("df --output=pcent / | tail -n 1 | tr -dc 0-9", {"output_lt": 90}),
    ("openssl x509 -checkend 1209600 -noout -in certificate.pem", ENDS_WELL),
    ("python3 -c \"import json; json.load(open('out.json'))\"", ENDS_WELL),
    ("jq -e .version package.json", ENDS_WELL),
    ("git status --porcelain", {"equals": ""}),
    ("git diff --exit-code", ENDS_WELL),
    ("pytest; echo $?", {"equals": "0\n"}),
    ("pytest && echo ok || echo no", {"equals": "ok\n"}),
    ("pytest -q && echo ok", ENDS_WELL),
    ("pytest -q; true", {"contains": "3 passed"}),
    ("set -e; pytest; echo ok", ENDS_WELL),
    ("exec pytest; true", ENDS_WELL),
    ("test -f x || exit 0; grep -q y x", ENDS_WELL),
    ("pytest & wait $!", ENDS_WELL),
    ("pytest || exit 1", ENDS_WELL),
    ("X=$(cat f)", ENDS_WELL),
    (": < out.txt", ENDS_WELL),
    ("if grep -q x f; then exit 0; else exit 1; fi", ENDS_WELL),
    ("for f in a b; do test -f $f || exit 1; done", ENDS_WELL),
    ("(cd app; make test)", ENDS_WELL),
    # The file is looked for, whatever the command does.
    ("true", {"file_exists": "report.md"}),
]


@pytest.mark.parametrize(("run", "expect"), REFUSED, ids=str)
def test_a_check_that_cannot_depend_on_the_work(run: str, expect: dict[str, Any]) -> None:
    told = reason(run, expect)
    assert told is not None
    assert told.endswith("let it read what the work is to produce")


@pytest.mark.parametrize(("run", "expect"), ORDINARY, ids=str)
def test_an_ordinary_check(run: str, expect: dict[str, Any]) -> None:
    assert reason(run, expect) is None


def test_a_plan_with_such_a_check_is_refused_with_its_line() -> None:
    plan = (
        "---\nid: t\ntype: task\ntitle: T\nverify:\n  - name: c\n    run: pytest; true\n{}---\nDo."
    )
    with pytest.raises(PlanInvalid) as refused:
        parse_plan(plan.format("    expect: { exit_code: 0 }\n"))
    (problem,) = refused.value.problems
    assert (problem.line, problem.field) == (7, "verify[0].run")
    assert "is decided by its last command" in problem.message


def test_a_plan_cannot_say_what_influences_a_check() -> None:
    plan = (
        "---\nid: t\ntype: task\ntitle: T\nverify:\n  - name: c\n    run: make test\n"
        "    expect: { exit_code: 0 }\n    influenced_by: [x]\n---\nDo."
    )
    with pytest.raises(PlanInvalid, match="kept by Silas itself"):
        parse_plan(plan)


PIECES = (
    "true x || && ; | & ! ( ) <<E $( ` ' \" ${a} $? 2>&1 < > if fi exit sh -c 'true' echo # \\ ~"
    " case esac { } ;; >> << <<- 'E' $((1)) $(x) a=b 1 E for in do done . cd tests/test_calc.py"
)
SHELL = st.text("ab/.'\"\\$(){}`;&|<>!#*?[]~= \n\t0-x") | st.lists(
    st.sampled_from([*PIECES.split(), "\n", "\nE\n"])
).map(" ".join)
EXPECTED = st.sampled_from([ENDS_WELL, SOME, {"contains": "a"}, {"output_gt": -1}, {"equals": ""}])


@given(SHELL, EXPECTED)
def test_any_text_is_judged(run: str, expect: dict[str, Any]) -> None:
    if run:
        reason(run, expect)
    for read in (read_list, simple_commands):
        try:
            list(read(run))
        except Unreadable:
            continue


@given(SHELL)
def test_whatever_stands_before_an_unconditional_true_does_not_matter(run: str) -> None:
    """Unless it may end the shell before: then nothing is said."""
    try:
        words = [command.texts[:1] for command in simple_commands(run)]
        pipelines = read_list(run)
    except Unreadable:
        return
    if pipelines and all(word in (["x"], ["a"], ["b"]) for word in words):
        assert reason(f"{run}\ntrue", ENDS_WELL) is not None


def test_substitutions_in_each_other_do_not_exhaust_the_reader() -> None:
    for text in ("$(" * 50_000, '"$(' * 5_000, "(" * 50_000, "a'b'" * 30_000):
        assert reason(text, ENDS_WELL) is None


@pytest.mark.parametrize(
    "run", ["touch made.txt", "chmod +x run.sh", "mkdir out && touch out/a", "sh -c 'touch x'"]
)
def test_a_check_that_only_writes_can_never_pass(run: str) -> None:
    told = reason(run, ENDS_WELL)
    assert told is not None
    assert told.startswith("can never pass: a check only reads")


@pytest.mark.parametrize(
    "run", ["cp a.c /tmp/a.c", "mkdir -p /tmp/b && make O=/tmp/b", "test -x run.sh", "rm $HOME/x"]
)
def test_a_check_that_writes_elsewhere_or_reads_as_well_is_not_judged(run: str) -> None:
    assert reason(run, ENDS_WELL) is None
