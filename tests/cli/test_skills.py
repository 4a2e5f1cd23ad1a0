"""`silas skills`: asked for, read, approved at the terminal, used, ended."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.machine import Machine, failure_of, output_of
from tests.cli.test_devices import serving
from tests.skills.dialects import DIALECTS, all_skills
from tests.skills.place import make_skill

PLAN = """---
id: greet
type: task
title: Greet Ada
skills: [greeting]
without_proof: true
---
```call tool=greet
{"name": "Ada"}
```
"""


@pytest.fixture
def skill(owner: Machine) -> Path:
    home = Path(owner.environ["HOME"])
    home.mkdir(exist_ok=True)
    return make_skill(home)


def listed(owner: Machine) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(output_of(owner.run("skills", "list", "--json")))
    return found


def when_installed(owner: Machine, name: str) -> dict[str, Any]:
    """The running Silas follows an answer as soon as it hears of it."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for each in listed(owner)["skills"]:
            if each["name"] == name and each["state"] == "installed":
                return dict(each)
    raise AssertionError(f"{name} was not installed: {listed(owner)}")


def test_a_skill_is_asked_for_read_approved_and_taken_away(owner: Machine, skill: Path) -> None:
    with serving(owner):
        asked = json.loads(
            output_of(owner.run("skills", "install", "greeting", "--json", cwd=skill.parent))
        )
        assert asked["asks"] == "Install the skill greeting?"
        assert listed(owner)["waiting"][0]["card_id"] == asked["card_id"]
        shown = output_of(owner.run("review", "show", asked["card_id"]))
        assert "Its scripts reach no host." in shown
        assert "scripts/greet.py" in shown
        read = output_of(owner.run("skills", "read", asked["card_id"], "scripts/greet.py"))
        assert read.rstrip() == (skill / "scripts" / "greet.py").read_text().rstrip()
        code, _ = owner.type(
            "review",
            "answer",
            asked["card_id"],
            "approve",
            answers=[("Answer exactly this so?", "y")],
        )
        assert code == 0
        installed = when_installed(owner, "greeting")
        assert (installed["tools"], installed["hosts"]) == (["greet"], [])
        told = output_of(owner.run("skills", "show", "greeting"))
        assert "tool greet: observe, reversible, inside the sandbox alone" in told
        assert "tried out: greet worked" in told
        assert "greeting is disabled." in output_of(owner.run("skills", "disable", "greeting"))
        assert "greeting  disabled" in output_of(owner.run("skills", "list"))
        assert "greeting is enabled." in output_of(owner.run("skills", "enable", "greeting"))
        assert "no earlier version" in failure_of(owner.run("skills", "rollback", "greeting"))[1]
        assert "greeting is removed." in output_of(owner.run("skills", "remove", "greeting"))
        assert "greeting" not in [each["name"] for each in listed(owner)["skills"]]


def test_without_a_running_silas_a_skill_waits_and_is_installed_by_the_next_one(
    owner: Machine, skill: Path
) -> None:
    asked = json.loads(output_of(owner.run("skills", "install", str(skill), "--json")))
    shown = output_of(owner.run("review", "show", asked["card_id"]))
    hashed = shown.rpartition("hash ")[2].split()[0]
    assert "greeting  waits for you" in output_of(owner.run("skills", "list"))
    told = output_of(owner.run("review", "answer", asked["card_id"], "approve", "--hash", hashed))
    then = (
        "Silas tries it out and, if nothing speaks against it, installs it now, or when it runs "
        "next (`silas start`)"
    )
    assert f"{then} within 30 minutes." in told
    [waiting] = listed(owner)["waiting"]
    assert (waiting["name"], waiting["answer"]) == ("greeting", "approve")
    until = waiting["follow_until"]
    line = f"greeting  is approved: {then} before {until[:10]} {until[11:16]} UTC"
    assert line in output_of(owner.run("skills", "list"))
    with serving(owner):
        when_installed(owner, "greeting")
    plan = skill.parent / "greet.md"
    plan.write_text(PLAN)
    checked = json.loads(output_of(owner.run("plan", "check", str(plan), "--json")))
    hashed = json.loads(output_of(owner.run("plan", "hash", str(plan), "--json")))
    assert checked["missing"] == ""
    assert checked["items"][0]["plan_hash"] == hashed["items"][0]["plan_hash"]
    code, told = owner.type("plan", "run", str(plan), answers=[("execute it?", "y")])
    assert code == 0, told
    assert "hello Ada" in told
    used = json.loads(output_of(owner.run("skills", "show", "greeting", "--json")))
    assert used["skill"]["last_used_at"] is not None
    assert [each["title"] for each in used["used_by"]] == ["Greet Ada"]


def test_the_beginnings_of_a_skill_are_written_and_can_be_asked_for(owner: Machine) -> None:
    about = "Use it when somebody wants tea, and say which kind."
    made = output_of(owner.run("skills", "new", "tea-time", "--description", about))
    assert "silas skills install tea-time" in made
    asked = json.loads(output_of(owner.run("skills", "install", "tea-time", "--json")))
    assert (asked["name"], asked["flagged"]) == ("tea-time", False)
    assert (
        "is there already"
        in failure_of(owner.run("skills", "new", "tea-time", "--description", about))[1]
    )


def test_what_is_no_skill_is_refused_with_a_sentence(owner: Machine, tmp_path: Path) -> None:
    code, told = failure_of(owner.run("skills", "install", str(tmp_path / "nowhere")))
    assert code == 240
    assert "There is no" in told
    assert "There is no skill" in failure_of(owner.run("skills", "show", "nothing"))[1]


CALLS: dict[str, tuple[dict[str, Any], str]] = {
    # tool: what it is called with, what it says
    "word_count": ({"file": "note.txt"}, "4"),
    "csv_totals": ({"file": "sums.csv", "column": "eur"}, "5.5"),
    "slug_maker": ({"words": ["Hello", "World"]}, "hello-world"),
    "json_check": ({"words": ["good.json"]}, "valid"),
    "date_maths": ({"start": "2026-01-01", "end": "2026-01-31"}, "30"),
    "todo_finder": ({"folder": "."}, "code.py:1"),
    "line_sort": ({"word_1": "note.txt"}, "one two"),
    "head_tail": ({"word_1": "note.txt", "word_2": "1"}, "three four"),
    "grep_all": ({"words": ["three", "note.txt"]}, "1:three four"),
}
FILES = {
    "note.txt": "three four\none two\n",
    "sums.csv": "eur\n2.5\n3\n",
    "good.json": "{}\n",
    "code.py": "# FIXME\n",
}


def plan_with(dialect: str, names: list[str]) -> str:
    """A plan that uses all of these skills, and every tool that they bring."""
    parts = [f"```file path={path}\n{text}```\n" for path, text in FILES.items()]
    parts += [
        f"```call tool={tool}_{dialect}\n{json.dumps(args)}\n```\n"
        for tool, (args, _) in CALLS.items()
    ]
    head = f"id: use-{dialect}\ntype: task\ntitle: Use skills of {dialect}\nwithout_proof: true"
    return f"---\n{head}\nskills: {json.dumps(names)}\n---\n" + "\n".join(parts)


def approve(owner: Machine, card_id: str) -> None:
    shown = output_of(owner.run("review", "show", card_id))
    hashed = shown.rpartition("hash ")[2].split()[0]
    output_of(owner.run("review", "answer", card_id, "approve", "--hash", hashed))


@pytest.mark.slow
def test_forty_skills_of_four_dialects_are_imported_installed_and_used(
    owner: Machine, tmp_path: Path
) -> None:
    forty = list(all_skills(marked=True))
    for _, name, files in forty:
        for path, text in files.items():
            target = tmp_path / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        asked = owner.run("skills", "import", str(tmp_path / name), "--json")
        approve(owner, json.loads(output_of(asked))["card_id"])
    with serving(owner):
        for _, name, _ in forty:
            when_installed(owner, name)
    for dialect in DIALECTS:
        names = [name for each, name, _ in forty if each == dialect]
        assert len(names) == 10
        plan = tmp_path / f"{dialect}.md"
        plan.write_text(plan_with(dialect, names))
        code, told = owner.type("plan", "run", str(plan), answers=[("execute it?", "y")])
        assert code == 0, told
        for tool, (_, said) in CALLS.items():
            assert said in told, (dialect, tool)
    used = {each["name"]: each["last_used_at"] for each in listed(owner)["skills"]}
    assert [name for _, name, _ in forty if used[name] is None] == []
