"""Skills out of work: offered after work that was checked, drafted from what was run, approved."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from silas.kernel import TaintLevel
from silas.sandbox.models import SandboxRequest
from silas.skills.installing import SkillRefused
from silas.skills.store import VersionState
from silas.tools.execution import ExecutionResult
from silas.work.ledger import LedgerEntry
from silas.work.skill_drafts import steps_of
from tests.skills.place import SkillPlace

PLAN = """---
id: {id}
type: task
title: Make the weekly report
verify:
  - name: the report is there
    run: cat report.txt
    expect: {{ contains: total }}
---

```file path=make.py
print("total 42")
```

```file path=report.txt
total 42
```

```run
python3 make.py
```
"""


def entry(seq: int, tool: str, *, success: bool = True, **args: Any) -> LedgerEntry:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    result = ExecutionResult(
        execution_id="e", step_index=0, success=success, return_value="", taint=TaintLevel.OWNER
    )
    return LedgerEntry(seq=seq, tool=tool, args=args, started_at=now, result=result)


def test_the_steps_are_what_was_really_done_in_its_order() -> None:
    steps = steps_of(
        [
            entry(1, "read_file", path="a"),
            entry(4, "shell_exec", argv=["make", "all"]),
            entry(2, "write_file", path="a.txt", content="one\n"),
            entry(3, "shell_exec", success=False, argv=["false"]),
            entry(5, "python_exec", code="print(1)"),
        ]
    )
    assert steps == [
        {"path": "a.txt", "content": "one\n", "executable": False},
        {"argv": ["make", "all"], "stdin": ""},
        {"argv": ["python3", "-c", "print(1)"], "stdin": ""},
    ]


@pytest.mark.parametrize(
    "odd",
    [
        entry(1, "edit_file", path="a", old="x", new="y"),
        entry(1, "request_refund", order_id="1"),
        entry(1, "write_file", path="a", content="AWS_SECRET=AKIAIOSFODNN7EXAMPLE0"),
        entry(1, "write_file", path="a", content="password = hunter2secret!"),
        entry(1, "write_file", path="a", content="x" * 30_000),
    ],
    ids=["edit", "other tool", "key", "password", "too long"],
)
def test_what_a_script_cannot_do_again_or_should_not_hold_is_not_kept(odd: LedgerEntry) -> None:
    assert steps_of([odd, entry(2, "shell_exec", argv=["make"])]) is None


async def test_work_that_was_checked_becomes_a_skill_whose_trial_is_its_check(
    place: SkillPlace,
) -> None:
    result = await place.run_plan(PLAN.format(id="weekly"))
    assert result.status.value == "done", result
    asked = await place.service.keep("weekly")
    assert asked.name == "make-the-weekly-report"
    assert not asked.flagged
    card = await place.questions.get(asked.card_id)
    shown = card.content.body["skill"]
    assert shown["source"] == "the work “Make the weekly report” (weekly)"
    assert await place.digest(asked.name) is None, "a draft is not installed"
    await place.decide(card)
    version = await place.core.skills.version(asked.name, asked.digest)
    assert version is not None
    assert version.state is VersionState.INSTALLED, version.reason
    [trial] = version.trial
    assert trial["args"] == {"check": True}
    assert trial["exit_code"] == 0, trial
    assert "total 42" in trial["printed"]
    body = await place.core.skill_files.body(asked.name)
    assert "cat report.txt" in body
    assert "python3 make.py" in body
    with pytest.raises(SkillRefused, match="already"):
        await place.service.keep("weekly")


async def test_a_check_that_does_not_pass_fails_the_trial(place: SkillPlace) -> None:
    """The script of a draft is no decoration: without what it writes, its check fails."""
    await place.run_plan(PLAN.format(id="weekly"))
    asked = await place.service.keep("weekly", "weekly-report")
    card = await place.questions.get(asked.card_id)
    digest = card.content.body["skill"]["digest"]
    found = await place.service.read_file(digest, "scripts/weekly_report.py")
    assert found.text is not None
    script = place.root / "script.py"
    script.write_text(found.text.replace("'content': 'total 42\\n'", "'content': 'nothing\\n'"))
    assert "nothing" in script.read_text()
    work = place.root / "w"
    work.mkdir()
    ran = await place.core.sandbox.run(
        SandboxRequest(
            argv=("/usr/bin/python3", str(script), "--check"),
            cwd=str(work),
            read=(str(script),),
            write=(str(work),),
        )
    )
    assert ran.exit_code == 1
    assert b"The check does not pass: the report is there." in ran.stdout


@pytest.mark.parametrize("name", ["../x", "a/b", "A B", "", "-", "x" * 65])
async def test_a_name_that_no_skill_has_is_refused(place: SkillPlace, name: str) -> None:
    await place.run_plan(PLAN.format(id="weekly"))
    with pytest.raises(SkillRefused):
        await place.service.keep("weekly", name or "--")
    assert not (Path("/tmp") / "x").exists()
    assert await place.core.skills.proposed() == []


async def test_work_that_is_not_done_and_checked_is_not_kept(place: SkillPlace) -> None:
    with pytest.raises(SkillRefused, match="There is no work"):
        await place.service.keep("nobody")
    unchecked = PLAN.format(id="weekly").replace(
        PLAN[PLAN.index("verify:") : PLAN.index("---\n\n```file")].format(),
        "without_proof: true\n",
    )
    result = await place.run_plan(unchecked)
    assert result.status.value == "unchecked", json.dumps(str(result))
    with pytest.raises(SkillRefused, match="done and checked"):
        await place.service.keep("weekly")
