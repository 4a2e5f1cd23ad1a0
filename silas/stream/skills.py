"""Skills in the conversation: who is told of which, what the planner reads, who may name one.

1. The proxy and the planner get names and descriptions, within a share of the context: first those
   of the goal that they speak for, then what was used last. A visitor's conversation gets those of
   its goal alone. Names and descriptions stand on the card that the owner signed; orders are taken
   out of them before a model sees them.
2. The planner looks among all of them (`find_skills`) and reads what one says (`read_skill`). What
   it has read there is a stranger's text, and so is the plan that it then writes.
3. A `manual` skill is in a plan only if the request names it.
4. A goal whose skill is another version now is not run: it is put before the owner anew.
5. Work that is done and checked and could be wanted again is offered to be kept as a skill, unless
   a stranger had a part in it, and no more often than suggestions may come. A yes drafts it.
6. What work with `skill-maker` has made and what was drafted goes before the owner like any skill.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import Field

from silas.kernel import SkillError, TaintLevel, WorkError
from silas.kernel.models import Data
from silas.proactive.suggestions import SuggestionProposal, propose
from silas.queue.consumer import Handled
from silas.queue.models import QueueMessage
from silas.review.questions import Question
from silas.skills.format import SKILL_FILE
from silas.skills.importing import skill_name
from silas.skills.loading import SkillResolver
from silas.skills.service import SkillService
from silas.skills.sidecar import Activation
from silas.storage import Transaction
from silas.stream.cards import reply
from silas.stream.offers import is_undo
from silas.stream.reading_tools import ReadingTool, answered_view, refused_view
from silas.stream.store import own_origin
from silas.stream.turn_context import Turn, TurnContext
from silas.tools.declaration import Tool
from silas.tools.execution import ModelView
from silas.work.models import ENDED_WELL, WorkItem, WorkItemResult
from silas.work.plan import Plan
from silas.work.skill_drafts import SkillDrafts, is_worth_keeping

MAKER = "skill-maker"
_NOTHING = (
    "No skill fits. Plan without one; or, if the request asks for a skill, plan with `skill-maker`."
)
_MOST_MADE = 3


class FindSkillsArguments(Data):
    """Words that say what is to be done."""

    words: Annotated[str, Field(min_length=1, max_length=500)]


class ReadSkillArguments(Data):
    """Which skill."""

    name: Annotated[str, Field(min_length=1, max_length=64)]


async def prepare_skills(services: TurnContext, turn: Turn) -> Turn:
    """Step 6.5: names and descriptions of skills, as many as have room (rule 1)."""
    goal = turn.goal or services.active_goal
    owners = services.is_owners(turn.origin)
    described = await described_skills(services, goal, owners=owners)
    return replace(turn, skills=described, skill_tools=await _goals_tools(services, turn.goal))


async def _goals_tools(services: TurnContext, goal: WorkItem | None) -> dict[str, Tool]:
    """The tools that the skills of a visitor's goal bring, of the versions that are in force."""
    if services.skills is None or goal is None or not goal.skills:
        return {}
    digests = {name: await services.skills.digest(name) for name in goal.skills}
    found = await services.skills.tools({name: each for name, each in digests.items() if each})
    return {tool.name: tool for tool in found}


async def described_skills(
    services: TurnContext, goal: WorkItem | None = None, *, owners: bool
) -> dict[str, str]:
    """What an agent is told of skills (rule 1)."""
    if services.skills is None:
        return {}
    first = goal.skills if goal is not None else ()
    found = await services.skills.described(first)
    if not owners:
        found = {name: text for name, text in found.items() if name in first}
    return services.context.fit_skills(found) if services.context is not None else found


def planner_skill_tools(skills: SkillResolver | None) -> list[ReadingTool]:
    """What the planner looks among skills with (rule 2)."""
    if skills is None:
        return []

    async def find(args: FindSkillsArguments) -> ModelView:
        found = await skills.search(args.words)
        lines = [f"- {name}: {text}" for name, text in found.items()]
        text = "\n".join(lines) or _NOTHING
        return _view(text, [f"the skill {name}" for name in found])

    async def read(args: ReadSkillArguments) -> ModelView:
        try:
            return _view(await skills.body(args.name), [f"the skill {args.name}"])
        except SkillError as error:
            return refused_view(error.message, taint=TaintLevel.OWNER)

    return [
        ReadingTool(
            name="find_skills",
            description=(
                "Look among all skills that are installed, also those that are not in <skills>. "
                'Example: {"words": "fill in a pdf form"}'
            ),
            arguments=FindSkillsArguments,
            run=find,
            contained=True,
            private=False,
        ),
        ReadingTool(
            name="read_skill",
            description=(
                "Read what a skill says, before a plan names it in `skills`. "
                'Example: {"name": "pdf-forms"}'
            ),
            arguments=ReadSkillArguments,
            run=read,
            contained=True,
            private=False,
        ),
    ]


def _view(text: str, sources: list[str]) -> ModelView:
    if not sources:
        return answered_view(text, taint=TaintLevel.OWNER)
    return answered_view(text, taint=TaintLevel.EXTERNAL, sources=sources)


async def require_chosen(skills: SkillResolver | None, plan: Plan, *, asked: str) -> None:
    """Raise `WorkError` if a plan names a skill that only the owner may name (rule 3)."""
    if skills is None:
        return
    for name in sorted({name for item in plan.items for name in item.skills}):
        record = await skills.loader.store.get(name)
        manual = record is not None and record.activation == Activation.MANUAL
        if manual and not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", asked):
            raise WorkError(
                f"skills: {name} is used only where the owner names it, and the request does not. "
                "Leave it out."
            )


async def skill_tool_names(skills: SkillResolver | None, names: Iterable[str]) -> frozenset[str]:
    """The tools that these skills bring."""
    if skills is None:
        return frozenset()
    records = [await skills.loader.store.get(name) for name in names]
    return frozenset(
        tool.name for record in records if record and record.usable for tool in record.tools
    )


@dataclass(frozen=True)
class SkillOffers:
    """Offers to keep work as a skill, and puts before the owner what was made (rules 5 and 6)."""

    service: SkillService
    drafts: SkillDrafts

    async def offer(
        self, services: TurnContext, item: WorkItem, *, scope_id: str, taint: TaintLevel
    ) -> SuggestionProposal | None:
        """The suggestion whether to keep this work; None if there is nothing to keep (rule 5)."""
        foreign = {taint, await services.store.taint_of(item)} != {TaintLevel.OWNER}
        if foreign or is_undo(item):
            return None
        if not is_worth_keeping(item, await self.drafts.steps(item)):
            return None
        record = await self.service.loader.store.get(skill_name(item.title))
        if record is not None:  # there is one of this name, or the owner has removed it
            return None
        request = f"keep “{item.title}” as a skill"
        return propose(
            services.ids,
            services.clock.now(),
            scope_id=scope_id,
            source="skill",
            request=request,
            key=request,
            intent=f"Keep “{item.title}” as a skill",
            rationale="It worked, and its check passed. As a skill it can be done again in one "
            "step: exactly what was run, with its check as its test.",
            keeps=item.id,
            taint=taint,
        )

    async def follow(
        self, services: TurnContext, message: QueueMessage, question: Question
    ) -> Handled:
        """The owner wants it kept: it is drafted, and put before them."""
        owner = services.policy.owner_id
        origin = own_origin(
            owner,
            question.question_id,
            scope_id=question.scope_id,
            sender_id=owner,
            taint=question.content.taint,
            trace_id=question.trace_id,
        )

        def note(tx: Transaction) -> None:
            services.store.note_origin(tx, origin)

        try:
            asked = await self.service.keep(str(question.content.body["keeps"]))
            told = (
                f"I drafted the skill {asked.name} from what was run. Nothing uses it before you "
                "have read its card and said yes."
            )
        except SkillError as error:
            told = f"I could not make a skill of it: {error.message}"
        return Handled((reply(services, message, origin, told),), (note,))

    async def put_made(self, services: TurnContext, item: WorkItem, result: WorkItemResult) -> None:
        """Put before the owner what work with `skill-maker` has made (rule 6)."""
        place = item.workspace.path if item.workspace else None
        if MAKER not in item.skills or result.status not in ENDED_WELL or place is None:
            return
        made = [
            PurePosixPath(each.path).parent
            for each in result.changes
            if PurePosixPath(each.path).name == SKILL_FILE and each.after is not None
        ]
        for folder in made[:_MOST_MADE]:
            try:
                await self.service.install(str(Path(place) / folder))
            except SkillError as error:
                await services.audit.log(
                    "skill_not_proposed", skill=folder.name, reason=error.message
                )
