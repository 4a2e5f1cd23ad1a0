"""Which looking tools each role has, and what they look at. Everything stays in its own scope."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from silas.kernel import IdFactory, TaintLevel, join_taint
from silas.kernel.models import Data
from silas.memory.models import MemoryQuery, MemoryQueryStrategy
from silas.sandbox.models import SandboxConfig
from silas.stream.limits import RateLimit
from silas.stream.ports import ContextRoom, JournalRoom, MemoryRoom
from silas.stream.reading_tools import ReadingTool, answered_view, refused_view
from silas.work.errors import PlanInvalid
from silas.work.execution_models import ExecutionEnvelope, ModelView
from silas.work.executors import RESEARCH_TOOLS, Tool
from silas.work.plan import parse_plan

PROXY_TOOLS = frozenset(
    {
        "memory_search",
        "context_inspect",
        "web_search",
        "recent_activity",
        "journal_read",
        "tell_user",
    }
)
PLANNER_TOOLS = frozenset({"memory_search", "request_research", "validate_plan"})
_FILE_TOOLS = frozenset({"read_file", "grep", "glob"})
_SECONDS = 30
_TOO_MANY_SEARCHES = "There were too many searches in this minute. Go on without it."


class MemoryArguments(Data):
    """What to look for."""

    query: Annotated[str, Field(min_length=1, max_length=2000)]
    strategy: Literal["fused", "keyword", "semantic", "temporal", "session", "entity"] = "fused"
    max_results: int = Field(default=5, ge=1, le=50)


class NoArguments(Data):
    """Nothing to say."""


class JournalArguments(Data):
    """A day with its plan, or the open tasks, of one category or of all."""

    show: Literal["day", "tasks"] = "day"
    day: Annotated[str, Field(min_length=1, max_length=80)] = "today"
    category: Annotated[str, Field(min_length=1, max_length=500)] | None = None


class TellArguments(Data):
    """What to tell the user right now."""

    text: Annotated[str, Field(min_length=1, max_length=2000)]


class PlanArguments(Data):
    """The plan to look at."""

    plan_markdown: Annotated[str, Field(min_length=1, max_length=1_000_000)]


class QuestionArguments(Data):
    """A question for research, and what the answer should look like."""

    question: Annotated[str, Field(min_length=1, max_length=4000)]
    return_format: Annotated[str, Field(min_length=1, max_length=500)] = "a short text"
    max_tokens: int = Field(default=500, ge=1, le=20_000)
    tools_allowed: list[str] = Field(default_factory=lambda: sorted(RESEARCH_TOOLS))


@dataclass(frozen=True)
class ReadingRoom:
    """What there is to look at. Without a directory no file can be read."""

    ids: IdFactory
    memory: MemoryRoom | None = None
    context: ContextRoom | None = None
    journal: JournalRoom | None = None
    tools: tuple[Tool, ...] = ()
    """The worker's own tools; those that only look are taken from it."""
    directory: Path | None = None
    activity: Callable[[], Awaitable[str]] | None = None
    """What Silas did, from the audit log."""
    searches: RateLimit | None = None
    """How often each scope may search; None: as often as it likes."""

    def for_proxy(
        self,
        scope_id: str,
        *,
        turn_number: int,
        tell: Callable[[str], Awaitable[None]],
        owner: bool = False,
    ) -> list[ReadingTool]:
        """Memory, context, search, and a word to the user in between; to the owner, his journal."""
        inspect = [self._inspection(scope_id, turn_number)] if self.context else []
        did = [_reporting(self.activity)] if self.activity else []
        journal = [_reading(self.journal)] if owner and self.journal else []
        looking = [*self._memory(scope_id), *inspect, *self._searching(scope_id)]
        return [*looking, *did, *journal, _telling(tell)]

    def for_planner(
        self, scope_id: str, *, ask: Callable[[QuestionArguments], str]
    ) -> list[ReadingTool]:
        """Memory, research by others, and a look at the plan before it is sent."""
        return [*self._memory(scope_id), _asking(ask), _validating()]

    def for_research(self, scope_id: str) -> list[ReadingTool]:
        """Memory, search, and files below the research directory."""
        return [*self._memory(scope_id), *self._searching(scope_id), *self._files()]

    def _memory(self, scope_id: str) -> list[ReadingTool]:
        memory = self.memory
        if memory is None:
            return []

        async def search(args: MemoryArguments) -> ModelView:
            query = MemoryQuery(
                query=args.query,
                strategy=MemoryQueryStrategy(args.strategy),
                max_results=args.max_results,
            )
            found = await memory.retrieve(query, scope_id)
            lines = [f"{item.memory_id} ({item.memory_type}): {item.content}" for item in found]
            taint = join_taint(TaintLevel.OWNER, *(item.taint for item in found))
            return answered_view("\n".join(lines) or "Nothing is remembered.", taint=taint)

        told = "Search what is remembered in this conversation's scope."
        return [ReadingTool("memory_search", told, MemoryArguments, search, private=True)]

    def _inspection(self, scope_id: str, turn_number: int) -> ReadingTool:
        async def inspect(_args: NoArguments) -> ModelView:
            if self.context is None:
                return refused_view("There is no context.", taint=TaintLevel.OWNER)
            text = await self.context.render(scope_id, turn_number)
            return answered_view(text, taint=await self.context.taint(scope_id))

        told = "Show the context of this conversation as it is now."
        return ReadingTool("context_inspect", told, NoArguments, inspect, private=True)

    def _searching(self, scope_id: str) -> list[ReadingTool]:
        return [
            replace(found, run=self._paced(found.run, scope_id))
            for found in map(self._of, self.tools)
            if found.name == "web_search"
        ]

    def _paced(
        self, run: Callable[[Any], Awaitable[ModelView]], scope_id: str
    ) -> Callable[[Any], Awaitable[ModelView]]:
        async def look(args: Data) -> ModelView:
            if self.searches is not None and not self.searches.take(scope_id):
                return refused_view(_TOO_MANY_SEARCHES, taint=TaintLevel.OWNER)
            return await run(args)

        return look

    def _files(self) -> list[ReadingTool]:
        if self.directory is None:
            return []
        return [self._of(tool) for tool in self.tools if tool.name in _FILE_TOOLS]

    def _of(self, tool: Tool) -> ReadingTool:
        """A worker's tool, used to look; what it brings is foreign, whoever wrote it."""

        async def run(args: Data) -> ModelView:
            envelope = ExecutionEnvelope(
                execution_id=self.ids.new("look"),
                step_index=0,
                task_description="Research",
                action=tool.name,
                args=args.model_dump(),
                timeout_seconds=_SECONDS,
                sandbox_config=SandboxConfig(work_dir=str(self.directory or "")),
            )
            view = (await tool.execute(envelope)).model_view()
            return view.model_copy(update={"taint": TaintLevel.EXTERNAL})

        return ReadingTool(
            tool.name, tool.offer.description, tool.arguments, run, contained=tool.contained
        )


def _reporting(activity: Callable[[], Awaitable[str]]) -> ReadingTool:
    async def run(_args: NoArguments) -> ModelView:
        # Titles and reasons in the log may be a stranger's words.
        return answered_view(await activity(), taint=TaintLevel.AUTH)

    told = "What Silas did lately, from its audit log."
    return ReadingTool("recent_activity", told, NoArguments, run, private=True)


def _reading(journal: JournalRoom) -> ReadingTool:
    async def run(args: JournalArguments) -> ModelView:
        if args.show == "day":
            told = await journal.day(args.day)
        else:
            told = await journal.open_tasks(args.category)
        return answered_view(told.text, taint=told.taint)

    told = "Look into the owner's journal: a day with its plan, or the tasks that are open."
    return ReadingTool("journal_read", told, JournalArguments, run, private=True)


def _telling(tell: Callable[[str], Awaitable[None]]) -> ReadingTool:
    async def run(args: TellArguments) -> ModelView:
        await tell(args.text)
        return answered_view("The user was told.", taint=TaintLevel.OWNER)

    told = "Tell the user one thing while you are still thinking. Not for the answer itself."
    return ReadingTool("tell_user", told, TellArguments, run)


def _asking(ask: Callable[[QuestionArguments], str]) -> ReadingTool:
    async def run(args: QuestionArguments) -> ModelView:
        refused = ask(args)
        if refused:
            return refused_view(refused, taint=TaintLevel.OWNER)
        told = "Asked. End your answer now: you will be called again with what was found."
        return answered_view(told, taint=TaintLevel.OWNER)

    told = "Have a question answered by somebody who can read files and search, but change nothing."
    return ReadingTool("request_research", told, QuestionArguments, run)


def _validating() -> ReadingTool:
    async def run(args: PlanArguments) -> ModelView:
        try:
            plan = parse_plan(args.plan_markdown)
        except PlanInvalid as error:
            return refused_view(error.message, taint=TaintLevel.OWNER)
        names = ", ".join(item.id for item in plan.items)
        return answered_view(f"The plan can be read. Its items: {names}.", taint=TaintLevel.OWNER)

    told = "Check whether a plan can be read; every problem is named with its line."
    return ReadingTool("validate_plan", told, PlanArguments, run)
