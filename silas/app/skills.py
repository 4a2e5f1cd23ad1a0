"""The skills and tool servers of one data directory, wired: who installs and uses them."""

from datetime import timedelta
from importlib.resources import files
from pathlib import Path

from silas.app.core import Core
from silas.app.jobs import PeriodicJob
from silas.mcp.cards import ServerCards
from silas.mcp.service import ToolServerService
from silas.review.questions import QuestionStore
from silas.skills.installing import SkillInstaller, install_bundled
from silas.skills.service import SkillPolicy, SkillService, UsedBy
from silas.work.models import WorkItemStatus
from silas.work.skill_drafts import SkillDrafts

_TIDY = timedelta(minutes=1)
_TRIALS = "skill-trials"


async def open_skills(core: Core, questions: QuestionStore) -> SkillService:
    """The skills; what came with Silas is installed by then, and leftovers of a crash are gone."""
    await accept_bundled(core)
    await core.skills.erase_leftovers()
    return make_skills(core, questions)


def make_skills(core: Core, questions: QuestionStore) -> SkillService:
    """The same without looking at what is there."""
    settings = core.settings

    async def users(name: str) -> list[UsedBy]:
        found = []
        for status in WorkItemStatus:
            for item in await core.work.items.list_by_status(status):
                if name in item.skills:
                    kind, state = item.type.value, item.status.value
                    found.append(
                        UsedBy(work_item_id=item.id, title=item.title, kind=kind, status=state)
                    )
        return found

    installer = SkillInstaller(
        store=core.skills,
        questions=questions,
        decisions=core.decisions,
        approvals=core.approvals,
        sandbox=core.sandbox,
        audit=core.audit,
        clock=core.clock,
        ids=core.ids,
        owner_id=settings.owner_id,
        taken_tools=frozenset(core.tools.tools),
        trials=core.paths.data_dir / _TRIALS,
    )
    external, wanted = settings.skills.import_, settings.skills.validation
    sources = external.allowed_sources if external.allow_external else ()
    policy = SkillPolicy(
        skills_dir=settings.skills_dir,
        may_import="local_path" in sources,
        may_fetch="github" in sources,
        description_chars=(wanted.description_min_chars, wanted.description_max_chars),
        follow_for=timedelta(minutes=settings.approval.default_ttl_minutes),
        refuse_steps=wanted.fail_on_process_heavy_description,
    )
    draft = SkillDrafts(core.work.items, core.work.attempts, core.work.ledger).write
    return SkillService(installer, core.skill_files.loader, users, policy, draft)


async def accept_bundled(core: Core, *, event: str | None = "skill_bundled") -> list[str]:
    """Put the skills of the package into force, as exactly the versions that it brings."""
    return await install_bundled(core.skills, bundled_directory(), event=event)


def bundled_directory() -> Path:
    """Where the skills that come with Silas are."""
    return Path(str(files("silas.skills") / "bundled"))


def make_tool_servers(core: Core, skills: SkillService) -> ToolServerService:
    """The tool servers, which are skills of a type of their own."""
    own = (core.paths.data_dir, core.paths.config_file)
    return ToolServerService(
        skills.installer,
        skills.loader,
        core.tool_servers,
        ServerCards(core.clock, core.ids, core.settings.owner_id),
        core.broker.oauth,
        core.broker.forget,
        off_limits=[str(path.resolve()) for path in own],
    )


def skill_jobs(skills: SkillService, servers: ToolServerService) -> list[PeriodicJob]:
    """What is done again and again."""
    return [
        PeriodicJob("put away skills that nobody decided", _TIDY, skills.installer.end_expired),
        PeriodicJob("ask about tool servers that have changed", _TIDY, servers.look),
    ]
