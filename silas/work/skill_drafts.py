"""A skill out of work that was done and checked: its steps as they were run, its checks as test.

1. The steps come from the ledger of the attempt that ended well: commands and whole files, in their
   order. What only looked is left out. A change of exact words in a file (an edit) fits once, so
   work with one is not kept; nor is work with a tool of another kind, which a script cannot call.
2. Steps that hold something like a credential are not kept.
3. The skill has one script, which does the steps in the workspace of the plan that names it. Its
   example also runs the checks: the trial before the installation is the test of the skill.
4. Nothing here installs anything. The draft goes before the owner like any skill.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from pprint import pformat
from typing import Any

import yaml

from silas.gates.risk import ActionKind, Reversibility
from silas.kernel import SkillError, WorkError
from silas.kernel.redaction import redact_text
from silas.skills.format import SkillManifest, write_skill
from silas.skills.importing import skill_name
from silas.skills.installing import SkillRefused
from silas.skills.sidecar import ScriptArgument, ScriptDeclaration, SkillSidecar
from silas.work.attempt_store import AttemptStore
from silas.work.ledger import LedgerEntry, ToolLedger
from silas.work.models import VerificationCheck, WorkItem, WorkItemStatus, WorkItemType
from silas.work.store import WorkItemStore
from silas.work.wording import has_proof

FEWEST_STEPS = 2
_MAX_STEP_CHARS = 20_000
_SHOWN_CHARS = 200
_LOOKING = frozenset({"read_file", "grep", "glob", "list_files"})
_NOT_IN_TITLES = re.compile(r"[^\w .,()/+-]+")
_TITLE_CHARS = 120
_PREDICATES = ("exit_code", "equals", "contains", "not_empty")
"""What the script of a skill can decide by itself; the others stand in its text alone."""

_SCRIPT = '''"""Does again what was done for the work "{title}", step by step."""

import argparse
import pathlib
import subprocess
import sys

STEPS = {steps}

CHECKS = {checks}


def do(step):
    """One step: a command, or a file with its whole content. Returns the exit code."""
    if "argv" in step:
        done = subprocess.run(step["argv"], input=step["stdin"], text=True, check=False)
        return done.returncode
    path = pathlib.Path(step["path"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(step["content"], encoding="utf-8")
    if step["executable"]:
        path.chmod(0o755)
    return 0


def passes(check):
    """Whether a check gives what it gave when the work was done."""
    done = subprocess.run(["sh", "-c", check["run"]], capture_output=True, text=True, check=False)
    found = {{
        "exit_code": lambda wanted: done.returncode == wanted,
        "equals": lambda wanted: done.stdout == wanted,
        "contains": lambda wanted: wanted in done.stdout,
        "not_empty": lambda wanted: bool(done.stdout.strip()),
    }}
    return all(found[name](wanted) for name, wanted in check["expect"].items())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="check the result afterwards")
    given = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)
    for number, step in enumerate(STEPS, start=1):
        code = do(step)
        if code != 0:
            print(f"Step {{number}} did not work: exit code {{code}}.")
            return 1
    failed = [check["name"] for check in CHECKS if given.check and not passes(check)]
    for name in failed:
        print(f"The check does not pass: {{name}}.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
'''
_BODY = """# {title}

## When to use

When the same is wanted again: {title}. If anything about it is different this time, plan without
this skill, or change the skill first.

## How to work

Call the tool `{tool}`. It does these steps in the workspace, in this order:

{steps}

## How to check

These checks showed that it was done. Put them into the plan:

```yaml
{checks}
```

## Constraints

- The plan declares the files that the steps write.
- Change no step while working: a changed skill is a new version, and the owner is asked again.
"""


def steps_of(entries: Sequence[LedgerEntry]) -> list[dict[str, Any]] | None:
    """What was done, step by step; None if it cannot be done again so (rules 1 and 2)."""
    steps = []
    for entry in sorted(entries, key=lambda each: each.seq):
        if entry.tool in _LOOKING or entry.result is None or not entry.result.success:
            continue
        step = _step(entry.tool, entry.args)
        if step is None:
            return None
        steps.append(step)
    text = json.dumps(steps, ensure_ascii=False)
    return steps if len(text) <= _MAX_STEP_CHARS and redact_text(text) == text else None


def _step(tool: str, args: Mapping[str, Any]) -> dict[str, Any] | None:
    match tool:
        case "shell_exec":
            return {"argv": list(args["argv"]), "stdin": str(args.get("stdin") or "")}
        case "python_exec":
            code = args.get("code")
            what = ["-c", code] if code else [args.get("script")]
            return {"argv": ["python3", *what, *args.get("args", [])], "stdin": ""}
        case "write_file":
            executable = bool(args.get("executable"))
            content = str(args["content"])
            return {"path": str(args["path"]), "content": content, "executable": executable}
    return None


def is_worth_keeping(item: WorkItem, steps: Sequence[Mapping[str, Any]] | None) -> bool:
    """Whether the same could be wanted again: work of several steps, with a command, of its own."""
    return (
        steps is not None
        and item.type is WorkItemType.TASK
        and item.status is WorkItemStatus.DONE
        and item.parent is None
        and not item.skills
        and has_proof(item)
        and len(steps) >= FEWEST_STEPS
        and any("argv" in step for step in steps)
    )


class SkillDrafts:
    """Drafts skills from work."""

    def __init__(self, items: WorkItemStore, attempts: AttemptStore, ledger: ToolLedger) -> None:
        self._items = items
        self._attempts = attempts
        self._ledger = ledger

    async def steps(self, item: WorkItem) -> list[dict[str, Any]] | None:
        """What the attempt did that ended this work; None if it cannot be kept."""
        attempts = await self._attempts.list_of(item.id)
        if not attempts:
            return None
        last = max(each.attempt for each in attempts)
        return steps_of(await self._ledger.entries(item.id, last))

    async def write(self, work_item_id: str, name: str | None, into: Path) -> tuple[Path, str]:
        """Write the skill below a folder; returns where, and out of which work it is.

        Raises `SkillRefused` if the work did not end well, or cannot be done again by a script.
        """
        item = await self._items.get(work_item_id)
        if item is None:
            raise SkillRefused(f"There is no work {work_item_id!a}. `silas work list` shows it.")
        if item.status is not WorkItemStatus.DONE or not has_proof(item):
            raise SkillRefused("Only work that is done and checked is kept as a skill.")
        steps = await self.steps(item)
        if not steps:
            raise SkillRefused(
                "This work cannot be done again by a script: it changed exact words in files, used "
                "other tools than commands and files, or held something like a credential."
            )
        title = _NOT_IN_TITLES.sub("", item.title)[:_TITLE_CHARS].strip() or "earlier work"
        chosen = name or skill_name(title)
        if chosen != skill_name(chosen):
            raise SkillRefused("A skill is named in lower-case letters, digits and single hyphens.")
        try:
            write_draft(into / chosen, title, steps, item)
        except (SkillError, ValueError, WorkError) as error:
            raise SkillRefused(f"No skill can be made of it: {error}") from error
        return into / chosen, f"the work “{title}” ({item.id})"


def write_draft(
    directory: Path, title: str, steps: Sequence[Mapping[str, Any]], item: WorkItem
) -> None:
    """Write the folder of the skill (rule 3)."""
    name = directory.name
    tool = name.replace("-", "_")
    tool = tool if tool[:1].isalpha() else f"do_{tool}"
    script = f"scripts/{tool}.py"
    content = _SCRIPT.format(
        title=title, steps=pformat(list(steps), width=96), checks=pformat(_checks(item), width=96)
    )
    declared = ScriptDeclaration(
        description=f"Does again what was done for “{title}”, step by step, in the workspace.",
        arguments={
            "check": ScriptArgument.model_validate(
                {"type": "boolean", "default": False, "description": "Check the result afterwards."}
            )
        },
        action=ActionKind.CHANGE,
        reversibility=Reversibility.HARD,
        contained=True,
        examples=({"check": True},),
    )
    description = f"Doing “{title}” again. Use it when the same is wanted once more."
    hosts = item.workspace.network if item.workspace else ()
    write_skill(
        directory,
        SkillManifest.model_validate({"name": name, "description": description}),
        body=_BODY.format(
            title=title, tool=tool, steps=_in_words(steps), checks=_as_yaml(item.verify)
        ),
        sidecar=SkillSidecar(hosts=hosts, scripts={script: declared}),
        files={script: content.encode()},
    )


def _checks(item: WorkItem) -> list[dict[str, Any]]:
    found = []
    for check in item.verify:
        (named,) = check.expect.predicates
        if named in _PREDICATES and not check.network:
            wanted = getattr(check.expect, named)
            found.append({"name": check.name, "run": check.run, "expect": {named: wanted}})
    return found


def _in_words(steps: Sequence[Mapping[str, Any]]) -> str:
    lines = []
    for number, step in enumerate(steps, start=1):
        what = " ".join(step["argv"]) if "argv" in step else f"writes {step['path']}"
        shown = what.replace("`", "'").replace("\n", " ")
        shown = shown if len(shown) <= _SHOWN_CHARS else f"{shown[:_SHOWN_CHARS]} …"
        lines.append(f"{number}. {'runs ' if 'argv' in step else ''}`{shown}`")
    return "\n".join(lines)


def _as_yaml(checks: Sequence[VerificationCheck]) -> str:
    plain = [
        {
            "name": each.name,
            "run": each.run,
            "expect": {name: getattr(each.expect, name) for name in each.expect.predicates},
        }
        for each in checks
    ]
    return yaml.safe_dump({"verify": plain}, sort_keys=False, allow_unicode=True).strip()
