"""`silas plan run`: what is shown is signed, what is signed is executed, and nothing else is."""

import asyncio
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from evals.firsthour.model import Script, ScriptedModel, check, done, plan_text, write
from silas.testing.model_server import model_server
from silas.work import parse
from tests.cli.machine import Machine, output_of

PLAN = """---
id: hello
type: task
title: Say hello
verify:
  - name: it says hello
    run: cat hello.sh
    expect: { equals: "echo hello\\n" }
---
```file path=hello.sh
echo hello
```
```run
sh hello.sh
```
"""
LIAR = PLAN.replace("\necho hello", "\necho goodbye").replace("id: hello", "id: liar")


@pytest.fixture
def plan(owner: Machine) -> Path:
    path = owner.data_dir / "hello.md"
    path.write_text(PLAN)
    return path


def approved(machine: Machine, path: Path, *more: str) -> tuple[str, ...]:
    shown = output_of(machine.run("plan", "hash", str(path)))
    hashes = [line.split()[0] for line in shown.splitlines()]
    return ("plan", "run", str(path), *more, *(word for h in hashes for word in ("--approve", h)))


def audit_of(machine: Machine) -> list[str]:
    shown = output_of(machine.run("audit", "tail", "-n", "200", "--json"))
    return re.findall(r'"event": "([a-z_]+)"', shown)


def test_at_a_terminal_it_shows_asks_runs_and_tells(owner: Machine, plan: Path) -> None:
    code, shown = owner.type(
        "plan", "run", str(plan), answers=[("Approve exactly this, and execute it?", "y")]
    )
    assert code == 0, shown
    item = parse(PLAN)
    assert f"hash {item.plan_hash}  hello" in shown
    whole = shown.replace("\r\n  : ", "")  # what is too long for a line goes on below it
    briefing = [f"  > {line}\r\n" for line in item.body.split("\n")]
    assert "".join(briefing) in whole, "the whole briefing is shown"
    assert "Changes no files of yours." in shown
    assert "check failed before, passes now: it says hello" in shown
    assert "hello is done. Done, and checked." in shown
    assert {"approval_issued", "approval_used", "work_done"} <= set(audit_of(owner))


def test_a_no_executes_nothing(owner: Machine, plan: Path) -> None:
    code, shown = owner.type("plan", "run", str(plan), answers=[("execute it?", "n")])
    assert (code, "Not approved. Nothing was executed." in shown) == (80, True)
    events = audit_of(owner)
    assert "plan_declined" in events
    assert "approval_issued" not in events
    assert output_of(owner.run("work", "list")) == "There is no work yet.\n"


def test_invisible_characters_are_shown(owner: Machine, plan: Path) -> None:
    plan.write_text(PLAN.replace("Say hello", "Say \u202eolleh\u200b"))
    _, shown = owner.type("plan", "run", str(plan), answers=[("execute it?", "n")])
    assert r"Say \u202eolleh\u200b" in shown
    assert "\u202e" not in shown


@pytest.mark.parametrize("flags", [[], ["--json"], ["--approve", "0" * 64]])
def test_without_a_person_it_takes_the_hash_of_exactly_this_plan(
    owner: Machine, plan: Path, flags: list[str]
) -> None:
    run = owner.run("plan", "run", str(plan), *flags, stdin="y\ny\n")
    assert run.returncode == 2
    assert "approval_issued" not in audit_of(owner)


def test_no_other_word_skips_the_approval(owner: Machine, plan: Path) -> None:
    for flag in ("--yes", "-y", "--force", "--no-approval"):
        assert owner.run("plan", "run", str(plan), flag).returncode == 2
    assert "approval_issued" not in audit_of(owner)


def test_a_script_that_has_seen_the_plan_can_run_it(owner: Machine, plan: Path) -> None:
    data = json.loads(output_of(owner.run(*approved(owner, plan, "--json"))))
    assert data["result"]["status"] == "done"
    assert data["result"]["verification_results"][0]["passed"] is True


def test_a_plan_that_was_changed_in_between_is_not_run(owner: Machine, plan: Path) -> None:
    arguments = approved(owner, plan)
    plan.write_text(PLAN.replace("echo hello", "echo hello; rm -rf ."))
    run = owner.run(*arguments)
    assert (run.returncode, b"another" in run.stderr) == (2, True)


def test_a_locked_vault_signs_nothing(owner: Machine, plan: Path) -> None:
    arguments = approved(owner, plan)
    del owner.environ["SILAS_VAULT_PASSPHRASE"]
    assert owner.run(*arguments).returncode not in (0, 1, 2)


def test_what_does_not_pass_its_checks_does_not_end_with_0(owner: Machine, plan: Path) -> None:
    plan.write_text(LIAR)
    run = owner.run(*approved(owner, plan))
    shown = run.stdout.decode()
    assert run.returncode == 80
    assert "liar is stuck." in shown
    assert "check failed: it says hello (equals: not as expected)" in shown


def test_what_is_done_is_not_run_again(owner: Machine, plan: Path) -> None:
    output_of(owner.run(*approved(owner, plan)))
    run = owner.run(*approved(owner, plan))
    assert (run.returncode, b"was done already" in run.stderr) == (80, True)


def test_a_directory_is_changed_only_by_what_passed(owner: Machine, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "page.txt").write_text("old\n")
    path = tmp_path / "plan.md"
    text = """---
id: page
type: task
title: Change the page
workspace: { path: site, changes: { change: [page.txt] } }
budget: { max_attempts: 1 }
verify: [{ name: new, run: cat page.txt, expect: { equals: "new\\n" } }]
---
```run
cp /etc/hosts page.txt
```
"""
    path.write_text(text)
    assert owner.run(*approved(owner, path)).returncode == 80
    assert (site / "page.txt").read_text() == "old\n"
    path.write_text(
        text.replace("id: page", "id: page-2").replace(
            "```run\ncp /etc/hosts page.txt", "```file path=page.txt\nnew"
        )
    )
    output_of(owner.run(*approved(owner, path)))
    assert (site / "page.txt").read_text() == "new\n"


def test_a_project_needs_the_hash_of_every_item(owner: Machine, tmp_path: Path) -> None:
    path = tmp_path / "plan.md"
    path.write_text("""---
id: both
type: project
title: Both
tasks:
  - { id: one, title: One, body: "```file path=a.txt\\n1\\n```" }
  - id: two
    title: Two
    depends_on: [one]
    accepts_unchecked: true
    input_artifacts_from: [a.txt]
    body: "```run\\ncp a.txt b.txt\\n```"
verify:
  - { name: all, run: cat a.txt b.txt, expect: { equals: "1\\n1\\n" } }
---
""")
    arguments = approved(owner, path)
    assert owner.run(*arguments[:-2]).returncode == 2
    shown = output_of(owner.run(*arguments))
    assert "both is done. All tasks are done, and checked." in shown
    assert "  two: done, not checked" in shown


EXAMPLES = Path(__file__).parents[2] / "plans"


@pytest.mark.parametrize(
    ("name", "changed"),
    [("hello", None), ("bug-fix", "slugify/src/slugify.py")],
)
def test_an_example_runs_as_it_is_shipped(
    owner: Machine, tmp_path: Path, name: str, changed: str | None
) -> None:
    plans = shutil.copytree(EXAMPLES, tmp_path / "plans")
    result = output_of(owner.run(*approved(owner, plans / f"{name}.md")))
    assert "Done, and checked." in result
    if changed:
        assert (plans / changed).read_text() != (EXAMPLES / changed).read_text()
        again = subprocess.run(
            [sys.executable, "tests/test_slugify.py"],
            cwd=plans / "slugify",
            env={"PYTHONPATH": "src"},
            check=False,
        )
        assert again.returncode == 0


def test_an_example_that_needs_skills_says_what_to_do(owner: Machine) -> None:
    ran = owner.run("plan", "run", str(EXAMPLES / "trade.md"), "--approve", "0" * 64)
    assert ran.returncode != 0
    assert b"The skill broker is not installed, so it cannot be approved." in ran.stderr


def test_check_and_hash_show_the_same_hash(owner: Machine, tmp_path: Path) -> None:
    plans = shutil.copytree(EXAMPLES, tmp_path / "plans")
    path = str(plans / "bug-fix.md")
    hashed = output_of(owner.run("plan", "hash", path)).split()[0]
    assert f"    hash {hashed}\n" in output_of(owner.run("plan", "check", path))
    told = json.loads(output_of(owner.run("plan", "check", path, "--json")))
    assert told["items"][0]["plan_hash"] == hashed
    trade = json.loads(output_of(owner.run("plan", "check", str(plans / "trade.md"), "--json")))
    assert trade["items"][0]["plan_hash"] is None
    assert "The skill broker is not installed" in trade["missing"]


async def test_the_configured_model_does_the_work(owner: Machine, tmp_path: Path) -> None:
    path = tmp_path / "note.md"
    verify = [check("the note is there", "cat note.txt", contains="milk")]
    path.write_text(plan_text("Write a note", "Write milk to note.txt.", id="note", verify=verify))
    script = Script(executor=[write("note.txt", "milk\n"), done("It is written.")])
    model = ScriptedModel(script, tmp_path)
    async with model_server(model) as server:
        owner.environ |= {
            "OPENAI_API_KEY": "x",
            "SILAS_MODELS__BASE_URL": server.url,
            "SILAS_MODELS__EXECUTOR": "openai:local",
        }
        ran = await asyncio.to_thread(lambda: owner.run(*approved(owner, path)))
    assert "Done, and checked." in output_of(ran)
    assert [heard.role for heard in model.heard] == ["executor", "executor"]
