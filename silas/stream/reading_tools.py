"""The tools of agents that only look: proxy, planner, and the executor in research mode.

1. A tool that is not allowed here does not exist here. Nothing that changes anything is among them.
2. Arguments fit the tool's schema, before and after the gates.
3. The gates `on_tool_call` look at every call. Whoever blocks is obeyed; nobody can be asked in the
   middle of reading, so a gate that wants the owner's decision blocks too.
4. What was read taints the reader, from then on.
5. There is a greatest number of calls.
6. Whoever has read something private and something from outside sends nothing out any more: a text
   from outside may have asked for it, and a search is a message to whoever answers it. Where files
   were read, a text from outside in the conversation before counts, too.
7. Whoever has read a text that somebody sent to the owner calls nothing any more: a reader of such
   texts has no tools (`ends`).

`ReadingToolbox` says which of them each role has, and what they look at. Everything stays in its
own scope.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, Field

from silas.audit.models import AuditTrail
from silas.context.service import ContextService
from silas.gates import Gate, GateAction, GateResult, GateTrigger, GateType
from silas.gates.runner import GateRunner
from silas.journal.conversation import JournalConversation
from silas.kernel import (
    CanonicalError,
    IdFactory,
    Provenance,
    SilasError,
    TaintLevel,
    canonical_bytes,
    join_taint,
    read_at,
)
from silas.kernel.ids import person_of
from silas.kernel.models import Data
from silas.kernel.taint import external, first_sources
from silas.memory.models import MemoryItem, MemoryQuery, MemoryQueryStrategy
from silas.memory.service import MemoryService
from silas.memory.trust import WORDED, is_model_worded
from silas.sandbox.models import SandboxConfig
from silas.stream.limits import RateLimit
from silas.tools import ATTACHMENT_TOOLS, RESEARCH_TOOLS
from silas.tools.declaration import ArgumentsRefused, Tool, ToolOffer, checked
from silas.tools.execution import ACCOUNT_SOURCE, ExecutionEnvelope, ModelView
from silas.work.errors import PlanInvalid
from silas.work.origins import OriginStore
from silas.work.plan import parse_plan
from silas.work.provenance import read_below

MAX_CALLS = 40


@dataclass(frozen=True)
class ReadingTool:
    """One tool that looks, or that asks somebody else to look."""

    name: str
    description: str
    arguments: type[BaseModel]
    run: Callable[[Any], Awaitable[ModelView]]
    contained: bool
    private: bool
    """What it gives is the owner's: memories, conversation, files."""
    asks: bool = False
    """It only asks the owner: a gate that wants the owner's decision does not stop it."""
    ends: bool = False
    """What it gives is the last that is read (rule 7)."""
    source: str = ""
    """What a stranger's text from it is called on a card; unless given, by its name."""

    @property
    def offer(self) -> ToolOffer:
        """The tool as an agent sees it."""
        return ToolOffer(
            name=self.name,
            description=self.description,
            parameters=_schema(self.arguments),
            contained=self.contained,
            changes_state=False,
        )


@cache
def _schema(arguments: type[BaseModel]) -> dict[str, Any]:
    return arguments.model_json_schema()


@dataclass(frozen=True)
class Rules:
    """What looks at every call, and what the runtime knows about the caller."""

    gates: GateRunner | None
    active: Sequence[Gate]
    audit: AuditTrail
    known: Mapping[str, Any]
    passed: Callable[[Gate, Mapping[str, Any]], None] | None = None
    """Is told which checks about the caller were passed, with the arguments that they looked at."""


class ToolOutput(NamedTuple):
    """What one call gave, for the conversation to keep."""

    tool: str
    asked: str
    text: str
    success: bool
    contained: bool
    provenance: Provenance


class _Refused(Exception):
    """The call is not made; the text is the agent's answer."""


class ReadingTools:
    """`ToolCaller` of one answer of one agent; no call of it waits for the owner."""

    reviewer = None

    def __init__(
        self,
        tools: Iterable[ReadingTool],
        rules: Rules,
        *,
        allowed: frozenset[str],
        taint: TaintLevel,
        seen_private: bool,
        now: Callable[[], datetime],
        max_calls: int = MAX_CALLS,
        looking: Callable[[], AbstractContextManager[None]] = nullcontext,
        heard: TaintLevel = TaintLevel.OWNER,
    ) -> None:
        self._heard = heard
        """What the conversation before is derived from, if the agent is told it."""
        self._read_files = False
        self._tools = {tool.name: tool for tool in tools if tool.name in allowed}
        self._rules = rules
        self._left, self._ended = max_calls, False
        self._turn = asyncio.Lock()
        self._seen_private = seen_private
        self._now = now
        self._looking = looking
        self.taint = taint
        self.sources: tuple[str, ...] = ()
        """The strangers' texts that were read."""
        self.outputs: list[ToolOutput] = []
        """What the calls gave whose output is kept nowhere else."""
        self.blocked: list[GateResult] = []
        """What gates have stopped."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    @property
    def offers(self) -> tuple[ToolOffer, ...]:
        return tuple(tool.offer for tool in self._tools.values())

    async def call(self, tool: str, args: Mapping[str, Any]) -> ModelView:
        async with self._turn:
            try:
                with self._looking():
                    view = await self._call(tool, dict(args))
            except _Refused as refused:
                return refused_view(str(refused), taint=self.taint)
            except SilasError as error:
                return refused_view(error.message, taint=self.taint)
            self.taint = join_taint(self.taint, view.taint)
            if view.taint is TaintLevel.EXTERNAL:
                self.sources = first_sources((*self.sources, *self._sources_of(tool, view)))
            self._keep(tool, args, view)
            return view.model_copy(update={"taint": self.taint})

    def _keep(self, name: str, args: Mapping[str, Any], view: ModelView) -> None:
        if name not in _OUTPUT_KEPT:
            return
        foreign = view.taint is TaintLevel.EXTERNAL
        found = Provenance(view.taint, tuple(self._sources_of(name, view)) if foreign else ())
        asked = ", ".join(str(value) for value in args.values())[:_MAX_ASKED_CHARS]
        text = (view.error or view.return_value)[:_MAX_OUTPUT_CHARS]
        contained = self._tools[name].contained
        self.outputs.append(ToolOutput(name, asked, text, view.success, contained, found))

    def _sources_of(self, tool: str, view: ModelView) -> list[str]:
        pages = [f"{each['url']} (by {tool})" for each in view.content if "url" in each]
        named = self._tools[tool].source or f"tool:{tool}"
        return view.sources or [read_at(each, self._now()) for each in pages or [named]]

    async def _call(self, name: str, args: dict[str, Any]) -> ModelView:
        self._left -= 1
        if self._ended:
            raise _Refused("You have read what somebody sent: no tool is left. Answer now.")
        if self._left < 0:
            raise _Refused("There were too many calls. Answer with what is known.")
        tool = self._tools.get(name)
        if tool is None:
            raise _Refused(f"There is no tool {name[:100]!a}. There are: {', '.join(self.names)}.")
        _fitting(tool, args)
        args = await self._pass_gates(tool, args)
        await self._require_harmless(tool)
        self._seen_private = self._seen_private or tool.private
        self._read_files = self._read_files or name in PLACE_TOOLS
        view = await tool.run(_fitting(tool, args))
        self._ended = tool.ends and view.success
        return view

    async def _require_harmless(self, tool: ReadingTool) -> None:
        """Rule 6."""
        known = join_taint(self.taint, self._heard) if self._read_files else self.taint
        if tool.contained or not self._seen_private or known is not TaintLevel.EXTERNAL:
            return
        reasons = ["private data and text from outside were read before"]
        await self._rules.audit.log(
            "tool_call_blocked", **self._rules.known, tool=tool.name, reasons=reasons
        )
        raise _Refused(f"{tool.name} sends something out, and {reasons[0]}. Answer without it.")

    async def _pass_gates(self, tool: ReadingTool, args: dict[str, Any]) -> dict[str, Any]:
        rules = self._rules
        active = [gate for gate in rules.active if gate.on is GateTrigger.ON_TOOL_CALL]
        if not active:
            return args
        if rules.gates is None:
            raise _Refused("There are gates, and nobody here can evaluate them.")
        context = {
            **rules.known,
            "tool_name": tool.name,
            "tool_args": args,
            "tool_parameters": sorted(tool.arguments.model_fields),
            "contained": tool.contained,
            "changes_state": False,
            "taint": self.taint.value,
        }
        policy, quality, merged = await rules.gates.check_gates(
            active, GateTrigger.ON_TOOL_CALL, context
        )
        for result in quality:
            await rules.audit.log(
                "quality_gate_tool_call",
                **rules.known,
                gate=result.gate_name,
                score=result.score,
                flags=result.flags,
            )
        self._note_passed(args, policy, known=context.keys())
        goes_on = {GateAction.CONTINUE, GateAction.REQUIRE_APPROVAL if tool.asks else None}
        stopped = [each for each in policy if each.action not in goes_on]
        if stopped:
            self.blocked.append(stopped[0])
            reasons = [f"{each.gate_name}: {each.reason}" for each in stopped]
            await rules.audit.log(
                "tool_call_blocked", **rules.known, tool=tool.name, reasons=reasons
            )
            raise _Refused(f"A gate stopped this: {reasons[0]}")
        return dict(merged.get("tool_args", args))

    def _note_passed(
        self, args: Mapping[str, Any], results: Sequence[GateResult], *, known: Iterable[str]
    ) -> None:
        """Tell which checks were passed that looked at an argument of this very call.

        A gate that does not concern a tool lets it pass, and has shown nothing.
        """
        if self._rules.passed is None:
            return
        arguments = args.keys() - known  # what the runtime says goes before what an argument says
        for gate in self._rules.active:
            if gate.type is not GateType.CUSTOM_CHECK or gate.extract not in arguments:
                continue
            mine = [each for each in results if each.gate_name == gate.name]
            if mine and all(each.action is GateAction.CONTINUE for each in mine):
                self.blocked = [each for each in self.blocked if each.gate_name != gate.name]
                self._rules.passed(gate, args)


def _fitting(tool: ReadingTool, args: dict[str, Any]) -> BaseModel:
    try:
        canonical_bytes(args)
        return checked(tool.arguments, args)
    except (ArgumentsRefused, CanonicalError) as error:
        raise _Refused(f"These arguments do not fit {tool.name}: {error}") from error


def answered_view(text: str, *, taint: TaintLevel, sources: Sequence[str] = ()) -> ModelView:
    """The answer of a tool that worked."""
    return ModelView(
        success=True,
        return_value=text,
        content=[],
        error=None,
        taint=taint,
        sources=list(sources),
    )


def refused_view(reason: str, *, taint: TaintLevel) -> ModelView:
    """The answer of a tool that did not."""
    return ModelView(success=False, return_value="", content=[], error=reason, taint=taint)


PLACE_TOOLS = frozenset({"list_folder", "read_file", "find_text"})
"""What looks at files in places that the owner has opened (`silas.stream.place_reading`)."""
ACCOUNT_TOOLS = frozenset({"find_mail", "read_mail", "look_at_calendar", "failed_ci", "briefing"})
"""What looks into the owner's accounts (`silas.stream.accounts`)."""
PROXY_TOOLS = frozenset(
    {
        "memory_search",
        "context_inspect",
        "web_search",
        "recent_activity",
        "journal_read",
        "watched",
        "tell_user",
        *ACCOUNT_TOOLS,
        *PLACE_TOOLS,
        *ATTACHMENT_TOOLS,
    }
)
PLANNER_TOOLS = ATTACHMENT_TOOLS | {
    "event_to_move",
    "find_skills",
    "mail_to_answer",
    "memory_search",
    "read_skill",
    "request_research",
    "validate_plan",
}
_FILE_TOOLS = {"read_file": "path", "grep": "glob", "glob": "pattern"}
"""The tools that look at files, and the argument of each that says where."""
_OUTPUT_KEPT = PLACE_TOOLS | {"web_search", "recent_activity", "journal_read", "watched"}
_MAX_ASKED_CHARS, _MAX_OUTPUT_CHARS = 500, 8_000
_SECONDS = 30
NOTHING_WATCHED = "Nothing is watched."
TOO_MANY_SEARCHES = "There were too many searches in this minute. Go on without it."


class MemoryArguments(Data):
    """What to look for."""

    query: Annotated[str, Field(min_length=1, max_length=2000)]
    strategy: Literal["fused", "keyword", "semantic", "temporal", "session", "entity"] = "fused"
    max_results: int = Field(default=5, ge=1, le=50)


class NoReadingArguments(Data):
    """Nothing to say."""


class JournalArguments(Data):
    """A day with its plan, the open tasks, of one category or of all, or the reminders."""

    show: Literal["day", "tasks", "reminders"] = "day"
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
class ReadingToolbox:
    """What there is to look at. Files are read in the folders of the request, and no others."""

    ids: IdFactory
    searches: RateLimit
    """How often each scope may search."""
    memory: MemoryService | None = None
    context: ContextService | None = None
    journal: JournalConversation | None = None
    tools: tuple[Tool, ...] = ()
    """The worker's own tools; those that only look are taken from it."""
    directory: Path | None = None
    """What may be read whatever the request is about; None: nothing."""
    origins: OriginStore | None = None
    """Whose text files are; without it, every file is a stranger's."""
    activity: Callable[[], Awaitable[str]] | None = None
    """What Silas did, from the audit log."""
    watches: Callable[[], Awaitable[str]] | None = None
    """What Silas looks at by the clock."""

    def for_proxy(
        self,
        scope_id: str,
        *,
        turn_number: int,
        tell: Callable[[str], Awaitable[None]],
        owner: bool = False,
        files: Sequence[ReadingTool] = (),
    ) -> list[ReadingTool]:
        """Memory, context, search, and a word to the user in between.

        To the owner, his journal, and what reads his `files`.
        """
        inspect = [self._inspection(scope_id, turn_number)] if self.context else []
        did = [_reporting(self.activity)] if self.activity else []
        if owner and self.watches:
            did.append(_watching(self.watches))
        journal = [_reading(self.journal)] if owner and self.journal else []
        looking = [*self._memory(scope_id), *inspect, *self._searching(scope_id)]
        return [*looking, *did, *journal, *(files if owner else ()), _telling(tell)]

    def for_visitor(
        self, tools: Iterable[Tool], *, ask: Callable[[Tool, Data], Awaitable[ModelView]]
    ) -> list[ReadingTool]:
        """Tools of a goal. One that only looks is used; what another would change is asked for.

        A visitor has no workspace: tools that act in one are not there.
        """
        found = []
        for tool in tools:
            looks = self._of(tool)
            if tool.only_observes:
                # Whoever only looks into the owner's account tells nobody anything.
                found.append(replace(looks, contained=tool.own_account, private=True))
            else:
                found.append(replace(looks, run=partial(ask, tool), private=False, asks=True))
        return found

    def for_planner(
        self,
        scope_id: str,
        *,
        ask: Callable[[QuestionArguments], str],
        more: Sequence[ReadingTool] = (),
    ) -> list[ReadingTool]:
        """Memory, `more`, research by others, and a look at a plan before it is sent."""
        return [*self._memory(scope_id), *more, _asking(ask), _validating()]

    def described(self) -> tuple[str, str]:
        """The tools of proxy and planner as their models are told of them, by the toolset."""

        async def nobody(_text: str) -> None:
            return None

        proxys = self.for_proxy("", turn_number=0, tell=nobody, owner=True)
        planners = self.for_planner("", ask=lambda _question: "")
        of_proxy, of_planner = (
            json.dumps([each.offer.model_dump(mode="json") for each in tools])
            for tools in (proxys, planners)
        )
        return of_proxy, of_planner

    def for_research(
        self, scope_id: str, *, folders: Sequence[str] = (), attached: Sequence[ReadingTool] = ()
    ) -> list[ReadingTool]:
        """Memory, search, what is `attached`, and files of these folders and to research in."""
        always = [self.directory] if self.directory else []
        readable = tuple(dict.fromkeys([*map(Path, folders), *always]))
        looking = [*self._memory(scope_id), *self._searching(scope_id)]
        return [*looking, *self._files(readable), *attached]

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
            found = await memory.retrieve(query, person_of(scope_id))
            lines = [f"{item.memory_id} ({_kind(item)}): {item.content}" for item in found]
            taint = join_taint(TaintLevel.OWNER, *(item.taint for item in found))
            foreign = [
                f"the memory {item.memory_id}"
                for item in found
                if item.taint is TaintLevel.EXTERNAL
            ]
            text = "\n".join(lines) or "Nothing is remembered."
            return answered_view(text, taint=taint, sources=foreign)

        told = "Search what is remembered in this conversation's scope."
        return [
            ReadingTool(
                "memory_search", told, MemoryArguments, search, contained=True, private=True
            )
        ]

    def _inspection(self, scope_id: str, turn_number: int) -> ReadingTool:
        async def inspect(_args: NoReadingArguments) -> ModelView:
            if self.context is None:
                return refused_view("There is no context.", taint=TaintLevel.OWNER)
            text = await self.context.render(scope_id, turn_number)
            found = await self.context.provenance(scope_id)
            return answered_view(text, taint=found.taint, sources=found.sources)

        told = "Show the context of this conversation as it is now."
        return ReadingTool(
            "context_inspect", told, NoReadingArguments, inspect, contained=True, private=True
        )

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
            if not self.searches.take(scope_id):
                return refused_view(TOO_MANY_SEARCHES, taint=TaintLevel.OWNER)
            return await run(args)

        return look

    def _files(self, folders: tuple[Path, ...]) -> list[ReadingTool]:
        if not folders:
            return []
        named = ", ".join(map(str, folders))
        return [
            replace(
                found,
                description=f"{found.description} Readable: {named}. Paths are relative to the "
                "first of these, or whole.",
                run=self._in_one_of(folders, tool),
            )
            for tool in self.tools
            if tool.name in _FILE_TOOLS
            for found in [self._of(tool)]
        ]

    def _in_one_of(
        self, folders: tuple[Path, ...], tool: Tool
    ) -> Callable[[Any], Awaitable[ModelView]]:
        """The tool in the folder that its argument names, with a path relative to it."""
        argument = _FILE_TOOLS[tool.name]

        async def run(args: Data) -> ModelView:
            found = _below_one_of(folders, str(getattr(args, argument)))
            if found is None:
                named = ", ".join(map(str, folders))
                text = f"That is in none of the folders that can be read here: {named}."
                return refused_view(text, taint=TaintLevel.OWNER)
            folder, path = found
            return await self._look(tool, args.model_copy(update={argument: path}), folder)

        return run

    def _of(self, tool: Tool) -> ReadingTool:
        """A worker's tool, used to look."""

        async def run(args: Data) -> ModelView:
            return await self._look(tool, args, None)

        return ReadingTool(
            tool.name,
            tool.offer.description,
            tool.arguments,
            run,
            contained=tool.contained,
            # What does not ask anybody outside looks at the owner's files.
            private=tool.contained,
        )

    async def _look(self, tool: Tool, args: Data, folder: Path | None) -> ModelView:
        """Use a tool; what it brings is as foreign as what it has read."""
        envelope = ExecutionEnvelope(
            execution_id=self.ids.new("look"),
            step_index=0,
            task_description="Research",
            action=tool.name,
            args=args.model_dump(by_alias=True),
            timeout_seconds=_SECONDS,
            sandbox_config=SandboxConfig(work_dir=str(folder or "")),
        )
        result = await tool.executor.execute(envelope)
        view, found = result.model_view(), await self._whose(tool, args, folder)
        if account := result.metadata.get(ACCOUNT_SOURCE):
            found = found.joined(external(str(account)))
        return view.model_copy(update={"taint": found.taint, "sources": list(found.sources)})

    async def _whose(self, tool: Tool, args: Data, folder: Path | None) -> Provenance:
        """What a look at files has read; everything else comes from outside."""
        if self.origins is None or folder is None:
            return Provenance(TaintLevel.EXTERNAL)
        return await read_below(self.origins, folder, tool, args.model_dump(by_alias=True))


def _below_one_of(folders: Sequence[Path], path: str) -> tuple[Path, str] | None:
    """The folder that a path is below, and the path from there; the first for a relative one."""
    if path == "~" or path.startswith("~/"):
        path = str(Path(path).expanduser())
    if not path.startswith("/"):
        return folders[0], path
    for folder in folders:
        if path == str(folder):
            return folder, "**"
        if path.startswith(f"{folder}/"):
            return folder, path.removeprefix(f"{folder}/")
    return None


def _kind(item: MemoryItem) -> str:
    """What kind of memory it is, and that a model has worded it, if one has."""
    return f"{item.memory_type}, {WORDED}" if is_model_worded(item) else item.memory_type.value


def _reporting(activity: Callable[[], Awaitable[str]]) -> ReadingTool:
    async def run(_args: NoReadingArguments) -> ModelView:
        # Titles and reasons in the log may be a stranger's words.
        return answered_view(await activity(), taint=TaintLevel.AUTH)

    told = "What Silas did lately, from its audit log."
    return ReadingTool(
        "recent_activity", told, NoReadingArguments, run, contained=True, private=True
    )


def _watching(watches: Callable[[], Awaitable[str]]) -> ReadingTool:
    async def run(_args: NoReadingArguments) -> ModelView:
        # A goal's title may be a stranger's words, as those in the log may be.
        return answered_view(await watches() or NOTHING_WATCHED, taint=TaintLevel.AUTH)

    told = "What Silas watches for the owner: each with its id, how often, and how it was last."
    return ReadingTool("watched", told, NoReadingArguments, run, contained=True, private=True)


def _reading(journal: JournalConversation) -> ReadingTool:
    async def run(args: JournalArguments) -> ModelView:
        if args.show == "day":
            told = await journal.day(args.day)
        elif args.show == "reminders":
            told = await journal.reminders()
        else:
            told = await journal.open_tasks(args.category)
        return answered_view(told.text, taint=told.taint)

    told = "Look into the owner's journal: a day with its plan, open tasks, or reminders."
    return ReadingTool("journal_read", told, JournalArguments, run, contained=True, private=True)


def _telling(tell: Callable[[str], Awaitable[None]]) -> ReadingTool:
    async def run(args: TellArguments) -> ModelView:
        await tell(args.text)
        return answered_view("The user was told.", taint=TaintLevel.OWNER)

    told = "Tell the user one thing while you are still thinking. Not for the answer itself."
    return ReadingTool("tell_user", told, TellArguments, run, contained=True, private=False)


def _asking(ask: Callable[[QuestionArguments], str]) -> ReadingTool:
    async def run(args: QuestionArguments) -> ModelView:
        refused = ask(args)
        if refused:
            return refused_view(refused, taint=TaintLevel.OWNER)
        told = "Asked. End your answer now: you will be called again with what was found."
        return answered_view(told, taint=TaintLevel.OWNER)

    told = "Have a question answered by somebody who can read files and search, but change nothing."
    return ReadingTool(
        "request_research", told, QuestionArguments, run, contained=True, private=False
    )


def _validating() -> ReadingTool:
    async def run(args: PlanArguments) -> ModelView:
        try:
            plan = parse_plan(args.plan_markdown)
        except PlanInvalid as error:
            return refused_view(error.message, taint=TaintLevel.OWNER)
        names = ", ".join(item.id for item in plan.items)
        return answered_view(f"The plan can be read. Its items: {names}.", taint=TaintLevel.OWNER)

    told = "Check whether a plan can be read; every problem is named with its line."
    return ReadingTool("validate_plan", told, PlanArguments, run, contained=True, private=False)
