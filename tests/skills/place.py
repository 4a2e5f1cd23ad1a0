"""A data directory with real skills: the real database, approvals, audit log and sandbox."""

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from silas.app.core import Core, Machine, make_core
from silas.app.review import open_questions
from silas.app.skills import make_skills
from silas.app.work import off_limits_of, open_executor
from silas.kernel import Clock
from silas.review.questions import Question, QuestionStore
from silas.secrets import OnDemandVault
from silas.settings.load import load_settings
from silas.skills.service import SkillService
from silas.skills.store import VersionState
from silas.testing import MemoryVault
from silas.testing.work import FakeApprover, authorise_with_vault
from silas.work import WorkItemResult, decode_plan, parse_plan
from silas.work.binding import bind_plan

GREET = """import sys
print("hello", sys.argv[1].split("=", 1)[1])
"""
LOOK = {
    "description": "Say hello to somebody.",
    "action": "observe",
    "reversibility": "reversible",
    "contained": True,
    "arguments": {"name": {"type": "string", "max_length": 20}},
    "examples": [{"name": "Ada"}],
}


def make_skill(
    root: Path,
    name: str = "greeting",
    *,
    body: str = "# Greeting\n\nSay hello with the tool `greet`.",
    scripts: Mapping[str, str] | None = None,
    sidecar: Mapping[str, Any] | None = None,
    files: Mapping[str, str] | None = None,
) -> Path:
    """The folder of a skill; with one script that greets unless said otherwise."""
    scripts = {"scripts/greet.py": GREET} if scripts is None else scripts
    own = {"scripts": {"scripts/greet.py": LOOK}} if sidecar is None else sidecar
    directory = root / name
    texts = {
        "SKILL.md": f"---\nname: {name}\ndescription: Use it when somebody wants a greeting.\n---\n"
        f"\n{body}\n",
        **({"silas.yaml": yaml.safe_dump(dict(own))} if own else {}),
        **scripts,
        **(files or {}),
    }
    for path, text in texts.items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return directory


@dataclass
class SkillPlace:
    """One data directory, and its owner."""

    root: Path
    core: Core
    questions: QuestionStore
    service: SkillService

    async def propose(self, directory: Path) -> Question:
        asked = await self.service.install(str(directory))
        return await self.questions.get(asked.card_id)

    async def decide(self, question: Question, value: str = "approve") -> None:
        """The owner answers, and the answer is followed."""
        await self.questions.answer_with_vault(question.question_id, {"selected_value": value})
        await self.follow(question)

    async def follow(self, question: Question) -> None:
        await self.service.installer.answered(question.about)

    async def install(self, directory: Path) -> Question:
        question = await self.propose(directory)
        await self.decide(question)
        shown = question.content.body["skill"]
        version = await self.core.skills.version(shown["name"], shown["digest"])
        assert version is not None
        assert version.state is VersionState.INSTALLED, (version.state, version.reason)
        return question

    async def digest(self, name: str) -> str | None:
        return await self.core.skill_files.digest(name)

    async def run_plan(
        self, text: str, *, approver: Any = None, agent: Any = None, known: Sequence[str] = ()
    ) -> Any:
        """Bind, approve and execute a plan; the results of its items, the first one first."""
        executor = open_executor(self.core, approver=approver, agent=agent)
        if isinstance(approver, FakeApprover):
            approver.decisions = self.core.decisions
        parsed = parse_plan(decode_plan(text.encode()), known=known)
        bound = await bind_plan(
            parsed,
            base=self.root,
            off_limits=off_limits_of(self.core.paths),
            skills=self.core.skill_files,
        )
        items = [await self.core.work.items.save(each) for each in bound.items]
        await self.core.conversations.note_typed(items, owner_id="owner")
        approved = [await authorise_with_vault(executor.context, each) for each in items]
        result: WorkItemResult = await executor.execute(approved[0])
        return result

    async def audited(self, event: str) -> list[str]:
        rows = await self.core.database.fetch_all("SELECT body FROM audit_log ORDER BY seq")
        return [body for (body,) in rows if f'"{event}"' in body]


@contextlib.asynccontextmanager
async def open_place(
    root: Path, *, vault: Any = None, clock: Clock | None = None, machine: Machine | None = None
) -> AsyncIterator[SkillPlace]:
    """The data directory below `root`, new or as it was left."""
    environ = {"HOME": str(root), "SILAS_PLANNER__WORKSPACE_DIR": "null"}
    settings = load_settings(
        data_dir=str(root / "data"), config_file=None, environ=environ, cwd=root
    )
    (root / "data").mkdir(exist_ok=True, mode=0o700)
    opened = vault or MemoryVault()
    async with make_core(
        settings, OnDemandVault(lambda: opened), clock=clock, machine=machine
    ) as core:
        if not core.keys.exists():
            core.keys.generate_keypair()
        questions = open_questions(core, core.queue)
        yield SkillPlace(root, core, questions, make_skills(core, questions))
