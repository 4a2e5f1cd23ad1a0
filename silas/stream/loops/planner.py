"""The planner's loop: plans, with research in between; advice for workers; other approaches.

A plan is tried on before it leaves: what it refers to must be there, and its folder must be one
where work may happen. A plan that cannot be used is asked for once more, with what is wrong.

`Questions` are those that the planner asks while it thinks; they go out when it has stopped.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from silas.approval.devices import Attached
from silas.context.models import ContextKind
from silas.context.service import ChronicleEntry
from silas.kernel import Clock, IdFactory, Provenance, TaintLevel, WorkError, join_taint
from silas.kernel.taint import first_sources
from silas.personality import manner_of
from silas.queue.consumer import Handled
from silas.queue.errors import NotWorthRetrying
from silas.queue.models import (
    Agent,
    ConsultRequest,
    MessageKind,
    PlannerGuidance,
    PlanRequest,
    PlanResult,
    QueueMessage,
    ReplanRequest,
    RequestFolders,
    ResearchConstraints,
    ResearchRequest,
    ResearchResult,
    follow,
)
from silas.queue.table import Lease
from silas.stream.adopting import Wanted, adopt, doubts_about, folder_of
from silas.stream.answering import NOTHING_BEGUN, AnswerStopped, Stage
from silas.stream.attachment_reading import AttachmentReader, ConversationFile, left_unread
from silas.stream.attachments import ReadFile, provenance_of, read_files, unseen_images
from silas.stream.folders import Look, look_at_named
from silas.stream.gate_checks import clip
from silas.stream.limits import beside_context
from silas.stream.models import (
    MAX_TEXT,
    PLANNED,
    AgentResponse,
    AgentTurn,
    Answered,
    InteractionRegister,
    PlanActionType,
    RequestKind,
    Usage,
)
from silas.stream.ports import ExactAgents, Finding, PlanningAgent
from silas.stream.reading_tools import PLANNER_TOOLS, QuestionArguments, ReadingTools, Rules
from silas.stream.research import (
    ResearchLimits,
    ResearchQuestion,
    ResearchState,
    ResearchStatus,
    ResearchStore,
    Result,
    add_usage,
    asked,
    begin,
    digest_of,
    goes_on,
    refusal,
)
from silas.stream.skills import described_skills, planner_skill_tools
from silas.stream.steps.routing import context_of
from silas.stream.store import Origin
from silas.stream.turn_context import TurnContext
from silas.tools import RESEARCH_TOOLS
from silas.work.models import InteractionMode
from silas.work.plan_markdown import stored_markdown
from silas.work.plan_text import MAX_PLAN_BYTES

_MOST_ASKED_CHARS = 4000


@dataclass
class Questions:
    """What was accepted so far."""

    state: ResearchState
    limits: ResearchLimits
    clock: Clock
    ids: IdFactory
    tools: frozenset[str] = frozenset()
    """What whoever asked may use."""
    accepted: list[ResearchQuestion] = field(default_factory=list)
    constraints: dict[str, ResearchConstraints] = field(default_factory=dict)

    def ask(self, args: QuestionArguments) -> str:
        """Take a question; returns why not, if not."""
        seen = self.state.model_copy(update={"questions": [*self.state.questions, *self.accepted]})
        refused = refusal(seen, args.question, more=len(self.accepted), limits=self.limits)
        if refused:
            return refused
        question = ResearchQuestion(
            research_id=self.ids.new("research"),
            question=args.question,
            digest=digest_of(args.question),
            round=self.state.round + 1,
            deadline=self.clock.now() + timedelta(seconds=self.limits.seconds),
        )
        self.accepted.append(question)
        self.constraints[question.research_id] = ResearchConstraints(
            return_format=args.return_format,
            max_tokens=args.max_tokens,
            tools_allowed=sorted(RESEARCH_TOOLS & self.tools & set(args.tools_allowed)),
        )
        return ""


def folders_of_request(request: QueueMessage) -> RequestFolders:
    """The folders that the planner's request is about."""
    payload = request.payload
    return payload.folders if isinstance(payload, PlanRequest) else RequestFolders()


def _attachments_of(request: QueueMessage) -> list[Attached]:
    payload = request.payload
    return payload.attachments if isinstance(payload, PlanRequest) else []


def ask_out(
    state: ResearchState, questions: Questions, *, ids: IdFactory, clock: Clock
) -> tuple[QueueMessage, ...]:
    """The questions as messages to the executor."""
    return tuple(
        follow(
            state.request,
            sender=Agent.PLANNER,
            kind=MessageKind.RESEARCH_REQUEST,
            content=each.question,
            payload=ResearchRequest(
                research_id=each.research_id,
                request_id=state.request.message_id,
                round=each.round,
                deadline=each.deadline,
                folders=folders_of_request(state.request),
                attachments=_attachments_of(state.request),
                attached_at=_attached_at(state.request),
            ),
            ids=ids,
            clock=clock,
            taint=state.taint,
            sources=state.sources,
            constraints=questions.constraints[each.research_id],
        )
        for each in questions.accepted
    )


_NO_PLANNER = "Nobody is here who could plan this. Run `silas models test` to see why."
_TOO_LONG = "The plan that I wrote is too long to be read."
_ANOTHER = (
    "This plan did not work, although everything was tried. Write a plan with a different "
    "approach, or answer without a plan if there is none.\n\n"
)


def _register(payload: object) -> InteractionRegister | None:
    said = payload.interaction_register if isinstance(payload, PlanRequest) else None
    return InteractionRegister(said) if said in set(InteractionRegister) else None


def _mode(payload: object) -> InteractionMode | None:
    said = payload.interaction_mode if isinstance(payload, PlanRequest) else None
    return InteractionMode(said) if said in set(InteractionMode) else None


def _kind(payload: object) -> RequestKind | None:
    said = payload.request_kind if isinstance(payload, PlanRequest) else None
    return RequestKind(said) if said in set(RequestKind) else None


def _adding(answered: Answered[AgentResponse], *lines: str) -> Answered[AgentResponse]:
    """The answer, saying also what of the request's files was not looked at, if anything."""
    if not any(lines):
        return answered
    message = "\n\n".join([answered.output.message, *filter(None, lines)])
    said = answered.output.model_copy(update={"message": message})
    return answered.model_copy(update={"output": said})


def _attached_at(request: QueueMessage) -> datetime:
    payload = request.payload
    at = payload.attached_at if isinstance(payload, PlanRequest) else None
    return at or request.created_at


def _reader_of(
    services: TurnContext, request: QueueMessage, files: Sequence[ReadFile]
) -> AttachmentReader | None:
    """What reads on in the files that came with a request."""
    at, store = _attached_at(request), services.attachments
    found = [ConversationFile(each.file.signed, at) for each in files]
    return AttachmentReader(store, found) if store is not None and found else None


def _having_seen(turn: AgentTurn, found: Provenance) -> AgentTurn:
    seen = Provenance(turn.taint, tuple(turn.taint_sources)).joined(found)
    return turn.model_copy(update={"taint": seen.taint, "taint_sources": list(seen.sources)})


@dataclass(frozen=True)
class PlannerLoop:
    """Handler of `planner_queue`."""

    services: TurnContext
    states: ResearchStore
    limits: ResearchLimits
    planner: PlanningAgent | None = None
    looks_first: bool = False
    """The planner cannot ask for research, so it is shown the files that the request names."""

    async def __call__(self, lease: Lease) -> Handled:
        message, payload = lease.message, lease.message.payload
        if isinstance(payload, ReplanRequest):
            item = await self.services.items.get(payload.work_item_id)
            if item is not None and item.is_cancelled:
                return Handled()  # nobody wants another way to what was cancelled
        if isinstance(payload, PlanRequest | ReplanRequest):
            return await self._think(begin(message), 0)
        if isinstance(payload, ResearchResult):
            return await self._found(message, payload)
        if isinstance(payload, ConsultRequest):
            return await self._advise(message, payload)
        raise NotWorthRetrying(f"The planner cannot read a {message.message_kind}.")

    async def _found(self, message: QueueMessage, found: ResearchResult) -> Handled:
        known = await self.states.record(
            found.request_id, self._result(message, found), self.limits
        )
        if known is None:
            self.services.answers.end(message.trace_id)  # the answer that it was for is there
        elif found.stopped:
            return self._stop(*known)
        if known is None or not goes_on(known[0], found.research_id):
            await self._say_if_late(known, found)
            return await self._keeping(known, message, found, Handled())
        return await self._keeping(known, message, found, await self._think(*known))

    async def _keeping(
        self,
        known: tuple[ResearchState, int] | None,
        message: QueueMessage,
        found: ResearchResult,
        handled: Handled,
    ) -> Handled:
        """Keep the question and its answer in the conversation, together with what follows."""
        services, state = self.services, known[0] if known else None
        asked = {each.research_id: each.question for each in state.questions} if state else {}
        if services.context is None or found.research_id not in asked:
            return handled
        begin = f"{asked[found.research_id]}\n"
        kept = services.memory is not None and services.memory.is_record(message.content)
        entry = ChronicleEntry(
            entry_id=f"{found.research_id}.out",
            scope_id=message.scope_id,
            turn_number=await services.store.turns(message.scope_id),
            source=f"research:{'found' if found.ok else 'failed'}",
            text=f"{begin}{message.content}",
            taint=message.taint,
            sources=tuple(message.taint_sources),
            kind=ContextKind.TOOL_RESULT,
            words_from=0 if kept else None,
        )
        said = await services.context.prepare(entry)
        return replace(
            handled, writes=(*handled.writes, said.write), after=(*handled.after, said.show)
        )

    def _result(self, message: QueueMessage, found: ResearchResult) -> Result:
        return Result(
            research_id=found.research_id,
            finding=Finding(
                question="", answer=message.content, ok=found.ok, sources=found.sources
            ),
            usage=Usage(tokens=found.tokens, cost_usd=found.cost_usd),
            taint=message.taint,
            sources=tuple(message.taint_sources),
            at=self.services.clock.now(),
        )

    async def _say_if_late(
        self, known: tuple[ResearchState, int] | None, found: ResearchResult
    ) -> None:
        ids = {each.research_id for each in known[0].questions} if known else set()
        if found.research_id not in ids:
            await self.services.audit.log(
                "research_ignored", research_id=found.research_id, request_id=found.request_id
            )

    async def _think(self, state: ResearchState, version: int) -> Handled:
        """Let the planner go on until the owner stops it; whoever watches sees that it does."""
        answers, trace_id = self.services.answers, state.request.trace_id
        await answers.begin(await self.services.store.require_origin(trace_id), Stage.PLANNING)
        try:
            handled = await answers.stoppable(trace_id, self._go_on(state, version))
        except AnswerStopped:
            return self._stop(state, version)
        except BaseException:
            answers.end(trace_id)
            raise
        if any(each.message_kind is MessageKind.RESEARCH_REQUEST for each in handled.messages):
            answers.enter(trace_id, Stage.LOOKING)
        return handled

    def _stop(self, state: ResearchState, version: int) -> Handled:
        return self._answer(state, version, AgentResponse(message=NOTHING_BEGUN))

    async def _go_on(self, state: ResearchState, version: int) -> Handled:
        """To questions that go out, or to an answer."""
        if self.planner is None:
            return self._answer(state, version, AgentResponse(message=_NO_PLANNER))
        while True:
            questions = Questions(state, self.limits, self.services.clock, self.services.ids)
            answered = await self._ask(self.planner, state, questions)
            state = state.model_copy(
                update={
                    "taint": answered.taint,
                    "sources": answered.sources,
                    "usage": add_usage(state.usage, answered.usage),
                }
            )
            if not questions.accepted or state.must_finish:
                problem = await self._problem_of(state, answered.output)
                if problem and not state.problem and not self._spent(state):
                    state = state.model_copy(update={"problem": problem})
                    continue
                await self._log(state)
                return self._answer(state, version, answered.output)
            if not self._spent(state):
                break
            # It may not ask any more, and has not answered: once more, with what is known.
            state = state.model_copy(update={"status": ResearchStatus.READY})
        out = ask_out(state, questions, ids=self.services.ids, clock=self.services.clock)
        waiting = asked(state, questions.accepted)
        return Handled(out, (lambda tx: self.states.save_in(tx, waiting, version=version),))

    async def _log(self, state: ResearchState) -> None:
        """What the request has used, its research included."""
        await self.services.audit.log(
            "plan_answered",
            request_id=state.request.message_id,
            trace_id=state.request.trace_id,
            rounds=state.round,
            tokens=state.usage.tokens,
            cost_usd=state.usage.cost_usd,
        )

    async def _ask(
        self, planner: PlanningAgent, state: ResearchState, questions: Questions
    ) -> Answered[AgentResponse]:
        request = state.request
        origin = await self.services.store.require_origin(request.trace_id)
        exact = self._exact(request, origin)
        turn = await self._turn_of(state, origin, alone=exact is not None)
        files = await self._files(request, origin)
        attached = _reader_of(self.services, request, files)
        tools = self._tools(state, questions, origin, attached)
        final, findings = state.must_finish, state.findings
        if self.looks_first and exact is None:
            look = await self._look(state, origin)
            turn = _having_seen(turn, look.provenance)
            findings = [*look.findings, *findings]
        asked_one = exact.planner if exact else planner
        answered = await asked_one.plan(turn, tools, findings=findings, final=final)
        if answered.fallback:
            await self.services.audit.log(
                "agent_fallback",
                role="planner",
                reason=answered.fallback,
                trace_id=request.trace_id,
            )
        if exact is None and self.services.planner_hears_context:
            read = attached.read if attached else {}
            unseen = "" if self.services.planner_sees_images else unseen_images(turn.files)
            answered = _adding(answered, left_unread(files, request.content, read), unseen)
        taint = join_taint(turn.taint, answered.taint, tools.taint)
        sources = first_sources((*turn.taint_sources, *tools.sources))
        return answered.model_copy(update={"taint": taint, "sources": sources})

    def _exact(self, request: QueueMessage, origin: Origin) -> ExactAgents | None:
        """Who plans this without a model: a first request of the owner's, said exactly."""
        payload = request.payload
        said = request.sender is Agent.PROXY  # and no suggestion that was taken up
        first = said and isinstance(payload, PlanRequest) and not payload.revises
        if not first or not isinstance(payload, PlanRequest):
            return None
        files = bool(payload.attachments)
        return self.services.exact_for(request.content, origin.taint, with_files=files)

    async def _look(self, state: ResearchState, origin: Origin) -> Look:
        """What research would find in the files that the request names."""
        services, request, folders = self.services, state.request, folders_of_request(state.request)
        tools = ReadingTools(
            services.reading.for_research(request.scope_id, folders=folders.readable),
            self._rules(request.scope_id),
            allowed=RESEARCH_TOOLS & services.tools_of(origin),
            taint=state.taint,
            seen_private=True,
            now=services.clock.now,
        )
        return await look_at_named(request.content, folders, tools)

    async def _turn_of(self, state: ResearchState, origin: Origin, *, alone: bool) -> AgentTurn:
        request, services = state.request, self.services
        number = await services.store.turns(request.scope_id)
        context, found = "", Provenance(state.taint, state.sources)
        if services.planner_hears_context and not alone:
            context, found = await context_of(
                services, request.scope_id, number=number, before=found
            )
        files = await self._files(request, origin)
        named = [each.file for each in files]
        found = found.joined(*provenance_of(named, _attached_at(request)))
        sees = services.planner_sees_images and not alone
        text = services.frame(request.content, origin.taint or TaintLevel.EXTERNAL)
        folders, earlier = folders_of_request(request), ""
        if isinstance(request.payload, ReplanRequest):
            text = f"{_ANOTHER}{request.content}"
            failed = await services.items.get(request.payload.work_item_id)
            folders = RequestFolders(base=folder_of(failed) if failed else None)
        elif isinstance(request.payload, PlanRequest) and request.payload.revises:
            text = request.content  # the owner's own words, signed with the decision
            earlier = await stored_markdown(services.items, request.payload.revises)
        return AgentTurn(
            scope_id=request.scope_id,
            trace_id=request.trace_id,
            request=text,
            context=context,
            directives=self._directives(request.payload),
            interaction_register=_register(request.payload),
            interaction_mode=_mode(request.payload),
            request_kind=_kind(request.payload),
            access_level=services.level_of(origin),
            skills=await described_skills(services, owners=services.is_owners(origin)),
            folders=folders,
            files=tuple(each.for_agent(images=sees) for each in files),
            earlier_plan=earlier,
            problem=state.problem,
            taint=found.taint,
            taint_sources=list(found.sources),
            max_tokens=beside_context(max(1, self.limits.max_tokens - state.usage.tokens), context),
            max_cost_usd=max(0.0, self.limits.max_cost_usd - state.usage.cost_usd),
        )

    def _directives(self, payload: object) -> str:
        """How to proceed with this very request; how to speak stands in the context."""
        if self.services.personality is None or not isinstance(payload, PlanRequest):
            return ""
        return manner_of(payload.interaction_register or "", payload.interaction_mode or "")

    async def _files(self, request: QueueMessage, origin: Origin) -> list[ReadFile]:
        """The files that came with a request of the owner's."""
        payload, store = request.payload, self.services.attachments
        if not isinstance(payload, PlanRequest) or store is None:
            return []
        return (
            await read_files(store, payload.attachments) if self.services.is_owners(origin) else []
        )

    async def _problem_of(self, state: ResearchState, response: AgentResponse) -> str:
        """Why the plan of an answer cannot be used; empty if it can, or if there is none."""
        action, request = response.plan_action, state.request
        markdown = action.plan_markdown if action and action.action in PLANNED else None
        if action is None or markdown is None or len(markdown) > MAX_PLAN_BYTES:
            return ""
        origin = await self.services.store.require_origin(request.trace_id)
        payload = request.payload
        earlier = getattr(payload, "revises", None) or getattr(payload, "work_item_id", None)
        continues = action.continuation_of or getattr(payload, "continuation_of", None)
        wanted = Wanted(
            action=action.model_copy(update={"continuation_of": continues}),
            scope_id=request.scope_id,
            is_owners=self.services.is_owners(origin),
            taint=state.taint,
            folders=folders_of_request(request),
            instead_of=earlier,
            asked=request.content,
        )
        try:
            adopted = await adopt(self.services, wanted)
        except WorkError as error:
            return error.message
        return "\n".join(doubts_about(adopted.plan))

    def _tools(
        self,
        state: ResearchState,
        questions: Questions,
        origin: Origin,
        attached: AttachmentReader | None,
    ) -> ReadingTools:
        services, scope_id = self.services, state.request.scope_id
        allowed = PLANNER_TOOLS & services.tools_of(origin) | {"validate_plan"}
        if state.must_finish:
            allowed -= {"request_research"}
        questions.tools = services.tools_of(origin)
        files = attached.tools if attached else ()
        owners = services.is_owners(origin)
        skills = planner_skill_tools(services.skills) if owners else ()
        accounts = services.accounts.for_planner(scope_id) if owners and services.accounts else ()
        more = [*files, *skills, *accounts]
        tools = services.reading.for_planner(scope_id, ask=questions.ask, more=more)
        return ReadingTools(
            tools,
            self._rules(scope_id),
            allowed=frozenset(allowed),
            taint=state.taint,
            seen_private=True,
            now=services.clock.now,
        )

    def _rules(self, scope_id: str) -> Rules:
        services = self.services
        return Rules(
            services.gates.for_turn() if services.gates else None,
            services.system_gates,
            services.audit,
            {"scope_id": scope_id, "role": "planner"},
        )

    def _spent(self, state: ResearchState) -> bool:
        used, limits = state.usage, self.limits
        return used.tokens >= limits.max_tokens or used.cost_usd >= limits.max_cost_usd

    def _answer(self, state: ResearchState, version: int, response: AgentResponse) -> Handled:
        request = state.request
        action = response.plan_action
        markdown = action.plan_markdown if action and action.action in PLANNED else None
        text = response.message
        if markdown is not None and len(markdown) > MAX_PLAN_BYTES:
            markdown, text = None, _TOO_LONG
        message = follow(
            request,
            sender=Agent.PLANNER,
            kind=MessageKind.PLAN_RESULT,
            content=clip(text),
            payload=self._result_of(request, response),
            ids=self.services.ids,
            clock=self.services.clock,
            taint=state.taint,
            sources=state.sources,
            plan_markdown=markdown,
        )
        if version == 0:
            return Handled((message,))
        request_id = request.message_id
        return Handled(
            (message,), (lambda tx: self.states.remove_in(tx, request_id, version=version),)
        )

    def _result_of(self, request: QueueMessage, response: AgentResponse) -> PlanResult:
        asked_for, action = request.payload, response.plan_action
        override = action.interaction_mode_override if action else None
        continues = action.continuation_of if action else None
        planned = asked_for if isinstance(asked_for, PlanRequest) else None
        replaced = asked_for if isinstance(asked_for, ReplanRequest) else None
        # One more than is allowed, so that the step that cuts them can see and say it.
        ops = response.memory_ops[: self.services.policy.max_memory_ops + 1]
        return PlanResult(
            connection_id=getattr(asked_for, "connection_id", self.services.policy.owner_id),
            needs_approval=response.needs_approval,
            interaction_register=planned.interaction_register if planned else "execution",
            interaction_mode=planned.interaction_mode if planned else None,
            interaction_mode_override=override.value if override else None,
            continuation_of=continues or (planned.continuation_of if planned else None),
            memory_ops=[
                op.model_dump(mode="json") for op in ops if len(op.content or "") <= MAX_TEXT
            ],
            memory_queries=[each.model_dump(mode="json") for each in response.memory_queries],
            replaces=replaced.work_item_id if replaced else None,
            revises=planned.revises if planned else None,
            folders=folders_of_request(request),
            asked=request.content[:_MOST_ASKED_CHARS],
            plan_action=action.action.value if action else PlanActionType.PROPOSE.value,
        )

    async def _advise(self, message: QueueMessage, request: ConsultRequest) -> Handled:
        if self.planner is None or self.services.clock.now() >= request.deadline:
            await self.services.audit.log(
                "consult_ignored", consult_id=request.consult_id, work_item_id=request.work_item_id
            )
            return Handled()
        turn = AgentTurn(
            scope_id=message.scope_id,
            trace_id=message.trace_id,
            request=message.content,
            taint=message.taint,
            max_tokens=self.limits.max_tokens,
            max_cost_usd=self.limits.max_cost_usd,
        )
        answered = await self.planner.advise(turn)
        guidance = follow(
            message,
            sender=Agent.PLANNER,
            kind=MessageKind.PLANNER_GUIDANCE,
            content=clip(answered.output),
            payload=PlannerGuidance(
                consult_id=request.consult_id,
                work_item_id=request.work_item_id,
                tokens=answered.usage.tokens,
                cost_usd=answered.usage.cost_usd,
            ),
            ids=self.services.ids,
            clock=self.services.clock,
            taint=answered.taint,
        )
        return Handled((guidance,))
