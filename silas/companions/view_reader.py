"""Reads the records of companions and makes the views of them that the surfaces show.

The list is read for all companions at once: one query for each table, however many companions there
are; for a few of them the same queries look at their rows alone. What is the same for many is made
once.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from silas.companions.budgets import Budgets, BudgetState
from silas.companions.errors import CompanionInvalid, CompanionUnknown
from silas.companions.gateway import ModelDoor, ModelGrants, ModelTerms, StopSwitches, missing_grant
from silas.companions.health import CompanionCondition, health_of, trouble_of
from silas.companions.ids import persona_head_id, report_head_id
from silas.companions.kinds.library import BUILT_IN, CompanionDefinition, Definitions, KindLibrary
from silas.companions.messages import (
    WAITS,
    AgentOperation,
    AgentPersonaHead,
    AgentPersonaVersion,
    AgentReport,
    AgentReportHead,
    ReportSourceRef,
    WakeRun,
)
from silas.companions.models import (
    AgentLifecycle,
    AgentPersonaStatus,
    AgentPromptItemState,
    AgentRunStatus,
    AgentState,
    AgentSubscription,
    AgentTimer,
    Companion,
    InferenceFlag,
    OperationPhase,
    OperationStatus,
    ReportScope,
    StopSwitch,
    WakeStatus,
)
from silas.companions.operations import Operations
from silas.companions.persona import Personas
from silas.companions.projection import ProjectionPolicies
from silas.companions.reports import charts_shown, freshness_of, staleness
from silas.companions.resumption import PromptItems
from silas.companions.store import CompanionStore, among
from silas.companions.timers import spoken_timer
from silas.companions.tools.registry import AgentToolRegistry, ToolClass
from silas.companions.views import (
    CategoryRef,
    CompanionDetail,
    CompanionList,
    CompanionName,
    CompanionView,
    DisclosureView,
    KindView,
    PersonaView,
    QuestionView,
    ReportView,
    RunView,
    SourceView,
    WaitingView,
)
from silas.companions.wake.worker import WakeWorker, rest_until
from silas.companions.words import (
    sent_in_words,
    spoken_change,
    spoken_token,
    spoken_tool,
)
from silas.journal.models import Record
from silas.journal.store import Journal
from silas.kernel import SilasError, parse_timestamp

_RUNS = "SELECT run_key FROM wake_run_log WHERE run_key >= ? AND run_key < ? LIMIT 2"
_NAMES = """
SELECT id, kind, body ->> '$.display_name', lifecycle FROM agents
WHERE deleted_at IS NULL ORDER BY created_at, id
"""
_PAGE = """
SELECT body FROM agents WHERE deleted_at IS NULL AND lifecycle <> ?
ORDER BY created_at, id LIMIT ? OFFSET ?
"""
_NO_LIMIT = -1
_SOME = "SELECT id, body FROM agents WHERE deleted_at IS NULL{these}"
_LEAST = 3
"""So many letters of an id are enough."""
_MOST_MEANT = 10
_LAST = "z"
"""Keys are hexadecimal: it comes after whatever a key may go on with."""
_LABELS = ("title", "name", "text", "note", "date")
_FEW = 500
"""For more than these it is cheaper to read everybody's rows."""
_WAITING = f"""
SELECT agent_id, count(*) FROM agent_operations
WHERE status = '{OperationStatus.PENDING}'
    AND phase IN ({", ".join(f"'{each}'" for each in WAITS)}){{these}}
GROUP BY agent_id
"""  # noqa: S608 - our names
_QUESTIONS = f"""
SELECT agent_id, count(*) FROM agent_prompt_items
WHERE state = '{AgentPromptItemState.OPEN}' AND deleted_at IS NULL{{these}} GROUP BY agent_id
"""  # noqa: S608 - our names
_STATES = """
SELECT agent_id, body ->> '$.consecutive_failure_count', body ->> '$.sleep_until',
       body ->> '$.last_wake_at'
FROM agent_states WHERE deleted_at IS NULL{these}
"""
_FAILED = f"""
SELECT body, max(queued_at) FROM wake_run_log
WHERE status = '{WakeStatus.FAILED_TERMINAL}'{{these}} GROUP BY agent_id
"""  # noqa: S608 - our names
_REPORTS = """
SELECT h.agent_id, h.scope, r.created_at, r.body ->> '$.provenance.source_cursor'
FROM agent_report_heads AS h JOIN agent_reports AS r ON r.id = h.report_id
WHERE h.deleted_at IS NULL AND r.deleted_at IS NULL{these}
"""


@dataclass(frozen=True)
class _Report:
    scope: ReportScope
    created_at: datetime
    seen: int


@dataclass(frozen=True)
class _State:
    failures: int = 0
    sleep_until: datetime | None = None
    last_wake_at: datetime | None = None


@dataclass(frozen=True)
class _Known:
    """What was read for all of them."""

    categories: Mapping[str, CategoryRef]
    states: Mapping[str, _State]
    budgets: Mapping[str, BudgetState]
    definitions: Mapping[str, CompanionDefinition]
    reports: Mapping[tuple[str, ReportScope], _Report]
    changes: Mapping[str, int]
    waiting: Mapping[str, int]
    questions: Mapping[str, int]
    switches: Sequence[StopSwitch]
    unconfirmed: frozenset[str]
    unreachable: frozenset[str]
    """Those whose model is not configured."""
    failed: Mapping[str, WakeRun]
    """The newest failure of those whose last run failed."""
    now: datetime


class CompanionViewReader:
    """Reads what the surfaces show. `CompanionService` adds what the owner can do."""

    def __init__(
        self,
        store: CompanionStore,
        journal: Journal,
        *,
        worker: WakeWorker,
        door: ModelDoor,
        switches: StopSwitches,
        budgets: Budgets,
        operations: Operations,
        registry: AgentToolRegistry,
    ) -> None:
        self._store = store
        self._journal = journal
        self._worker = worker
        self._door = door
        self._switches = switches
        self._budgets = budgets
        self._operations = operations
        self._registry = registry
        self._class_sets: dict[frozenset[str], frozenset[ToolClass]] = {}
        self._definitions = Definitions(store)
        self._grants = ModelGrants(store)
        self._personas = Personas(store)
        self._projections = ProjectionPolicies(store)
        self._prompts = PromptItems(store)

    async def list(
        self, *, with_destroyed: bool = False, skip: int = 0, limit: int | None = None
    ) -> tuple[CompanionView, ...]:
        """Every companion, the oldest first; or some, after as many as are to be skipped."""
        hidden = "" if with_destroyed else AgentLifecycle.DESTROYED.value
        most = _NO_LIMIT if limit is None else limit
        rows = await self._store.database.fetch_all(_PAGE, (hidden, most, skip))
        return await self._lines([Companion.model_validate_json(body) for (body,) in rows])

    async def listed(self, *, words: str = "", limit: int = 100) -> CompanionList:
        """The first of those whose names have these words in them, and how many there are."""
        wanted = words.strip().casefold()
        known = await self._names(with_destroyed=False)
        found = [each.id for each in known if wanted in each.display_name.casefold()]
        shown = await self._named(found[:limit])
        return CompanionList(companions=await self._lines(shown), total=len(found))

    async def meant(self, text: str, *, with_destroyed: bool = False) -> tuple[CompanionName, ...]:
        """Whom a text may mean, a few if it is not clear; the first way that finds somebody counts:

        by id, name, kind, the beginning or a word of a name, or the end of an id.
        """
        known, small = await self._names(with_destroyed=with_destroyed), text.casefold()
        ways: tuple[Callable[[CompanionName], bool], ...] = (
            lambda each: each.id == text,
            lambda each: each.display_name.casefold() == small,
            lambda each: each.kind == text,
            lambda each: each.display_name.casefold().startswith(small),
            lambda each: small in each.display_name.casefold().split(),
            lambda each: len(text) >= _LEAST and each.id.endswith(text),
        )
        found: Iterable[list[CompanionName]] = (
            [each for each in known if way(each)] for way in ways
        )
        return tuple(next((each for each in found if each), [])[:_MOST_MEANT])

    async def names(self) -> Sequence[CompanionName]:
        """Everybody who is there, the oldest first."""
        return await self._names(with_destroyed=False)

    async def _names(self, *, with_destroyed: bool) -> Sequence[CompanionName]:
        """Who there is, the oldest first; nothing else is looked up."""
        rows = await self._store.database.fetch_all(_NAMES)
        return [
            CompanionName(id=agent_id, kind=kind, display_name=name)
            for agent_id, kind, name, lifecycle in rows
            if with_destroyed or lifecycle != AgentLifecycle.DESTROYED
        ]

    async def _named(self, agent_ids: Sequence[str]) -> Sequence[Companion]:
        """The companions with these ids, in this order."""
        rows = await self._store.database.fetch_all(*among(_SOME, "id", agent_ids))
        found = {agent_id: Companion.model_validate_json(body) for agent_id, body in rows}
        return [found[each] for each in agent_ids if each in found]

    async def _one(self, agent_id: str) -> CompanionView:
        """One companion; raises `CompanionUnknown`."""
        companion = await self._store.require(Companion, agent_id)
        return (await self._lines([companion]))[0]

    async def show(self, agent_id: str) -> CompanionDetail:
        """Everything about one; raises `CompanionUnknown`."""
        definition = await self._definitions.of(agent_id)
        companion = await self._store.require(Companion, agent_id)
        slots = (await self._store.require(AgentState, companion.current_state_id)).slots
        return CompanionDetail(
            companion=await self._one(agent_id),
            summary=definition.summary,
            tools=tuple(sorted(definition.tools)),
            may=tuple(map(spoken_tool, sorted(definition.tools))),
            capabilities=tuple(sorted(definition.capabilities)),
            confirm_from=definition.confirm_from.value,
            wakes_on=await self._wakes_on(agent_id),
            persona=await self._personas.in_use(agent_id),
            goal=slots.primary_goal,
            keeps=tuple(slots.preference_by_key.values()),
            questions=await self.questions(agent_id),
            waiting=await self.waiting(agent_id),
            runs=await self.runs(agent_id, limit=20),
        )

    async def runs(self, agent_id: str, *, limit: int = 50) -> tuple[RunView, ...]:
        """The newest wakes of a companion, newest first."""
        found = await self._store.find(
            WakeRun, {"agent_id": agent_id}, newest_first=True, limit=limit
        )
        return tuple(
            RunView(
                run_key=each.run_key,
                reason=each.job.reason,
                status=each.status,
                error_code=each.error_code or each.skip_reason,
                error_message=each.error_message,
                queued_at=each.queued_at,
                ended_at=each.ended_at,
            )
            for each in found
        )

    async def _run_key(self, text: str) -> str:
        """The key of the run that begins like this; raises unless there is exactly one."""
        rows = await self._store.database.fetch_all(_RUNS, (text, f"{text}{_LAST}"))
        keys = [str(row[0]) for row in rows]
        if not keys:
            raise CompanionUnknown(
                f"There is no run {text[:80]!a}. `silas companions runs` has them."
            )
        if len(keys) > 1 and text not in keys:
            raise CompanionInvalid(f"More than one run begins with {text[:80]!a}. Say more of it.")
        return text if text in keys else keys[0]

    async def report(self, agent_id: str, *, scope: ReportScope | None = None) -> ReportView | None:
        """The newest report, with how fresh it is; None if there is none yet."""
        companion = await self._store.require(Companion, agent_id)
        definition = await self._definitions.of(agent_id)
        wanted = scope or definition.report.scope
        head = await self._store.get(AgentReportHead, report_head_id(agent_id, wanted))
        if head is None:
            return None
        report = await self._store.require(AgentReport, head.report_id)
        seen = int(report.provenance.get("source_cursor", 0))
        changes = await self._journal.newest_changes(seen)
        freshness = freshness_of(
            report,
            now=self._store.clock.now(),
            max_age=max_age(definition, report.scope),
            latest_cursor=latest_change(companion, changes, seen=seen),
        )
        return ReportView(
            report=report,
            freshness=freshness,
            charts=charts_shown(report.content, companion.allowed_category_ids),
        )

    async def reports(self, agent_id: str) -> tuple[ReportView, ...]:
        """The newest report of every scope that there is one of; that of its kind first."""
        definition = await self._definitions.of(agent_id)
        scopes = (*definition.report.scopes, *ReportScope)
        found = [await self.report(agent_id, scope=each) for each in dict.fromkeys(scopes)]
        return tuple(each for each in found if each is not None)

    async def why(self, report_id: str, claim_id: str) -> tuple[SourceView, ...]:
        """The sources of one claim."""
        found = await self._store.find(ReportSourceRef, {"report_id": report_id})
        mine = [each for each in found if each.claim_id == claim_id]
        if not mine:
            raise CompanionUnknown(f"There is no claim {claim_id[:80]!a} in this report.")
        records = {
            each.id: each
            for each in await self._journal.get_many([_record_id(ref) for ref in mine])
        }
        return tuple(_source(ref, records.get(_record_id(ref))) for ref in mine)

    async def disclosure(self, agent_id: str) -> DisclosureView | None:
        """What the model of a companion means for privacy; None for the offline brain."""
        companion = await self._store.require(Companion, agent_id)
        if companion.config.model_id is None:
            return None
        definition = await self._definitions.of(agent_id)
        destination = self._door.destination(companion)
        fields = await self._projections.allowed(definition.provider_fields)
        terms = await self._grants.terms(destination, fields)
        shown = terms.shown
        return DisclosureView(
            model_id=destination.model_id,
            provider=destination.provider,
            host=destination.address,
            policy_version=shown.policy_version,
            training=shown.training,
            retention=shown.retention,
            jurisdiction=shown.jurisdiction,
            disclosure=shown.disclosure,
            fields=tuple(sorted(fields)),
            sent=sent_in_words(fields),
            confirmed=await self._grants.confirmed(companion, terms),
        )

    async def questions(self, agent_id: str | None = None) -> tuple[QuestionView, ...]:
        """What companions have asked and nobody has answered."""
        blocked = await self._operations.pending(OperationPhase.BLOCKED, agent_id=agent_id)
        items = await self._prompts.open_items(agent_id)
        names = await self._names_of({item.agent_id for item in items})
        return tuple(
            QuestionView(
                id=item.id,
                agent_id=item.agent_id,
                agent_name=names.get(item.agent_id, item.agent_id),
                interaction_type=item.interaction_type,
                prompt_text=item.prompt_text,
                options=item.options,
                required_by=item.required_by,
                gates=sum(item.id in each.prompt_item_ids for each in blocked),
                created_at=item.created_at,
            )
            for item in items
        )

    async def waiting(self, agent_id: str | None = None) -> tuple[WaitingView, ...]:
        """The actions that wait for the owner: for a card, or for an answer."""
        found = await self._operations.pending(*WAITS, agent_id=agent_id)
        return tuple(map(_waiting, found))

    async def persona(self, agent_id: str) -> tuple[PersonaView, ...]:
        """Every version of a persona, the newest first, each with what it changes."""
        found = await self._personas.history(agent_id)
        return tuple([await self._persona_view(each) for each in reversed(found)])

    async def _persona_view(self, version: AgentPersonaVersion) -> PersonaView:
        head = await self._store.get(AgentPersonaHead, persona_head_id(version.agent_id))
        return PersonaView(
            version=version,
            in_use=head is not None and head.persona_version_id == version.id,
            waits=version.status is AgentPersonaStatus.DRAFT,
            changes=await self._personas.diff(version.id),
        )

    async def _names_of(self, agent_ids: set[str]) -> dict[str, str]:
        """The names of these companions, of those that there are."""
        found = [await self._store.get(Companion, each) for each in sorted(agent_ids)]
        return {each.id: each.display_name for each in found if each is not None}

    async def _wakes_on(self, agent_id: str) -> tuple[str, ...]:
        where = {"agent_id": agent_id}
        subscriptions = await self._store.find(AgentSubscription, where)
        timers = await self._store.find(AgentTimer, where)
        tokens = [token for each in subscriptions for token in each.tokens]
        return (
            *dict.fromkeys(map(spoken_token, tokens)),
            *(spoken_timer(each) for each in timers if each.active),
        )

    # The lines of the list.

    async def _lines(self, companions: Sequence[Companion]) -> tuple[CompanionView, ...]:
        """A line for each, in this order."""
        known = await self._read(companions)
        return tuple(self._view(each, known) for each in companions)

    async def _read(self, companions: Sequence[Companion]) -> _Known:
        many = len(companions) > _FEW
        these = None if many else [each.id for each in companions]
        definitions = await self._definitions.all(these)
        reports = await self._reports(these)
        oldest = min((each.seen for each in reports.values()), default=0)
        states = await self._states(these)
        unconfirmed, unreachable = await self._unasked(companions, definitions, these)
        return _Known(
            categories={
                each.id: CategoryRef(id=each.id, name=each.name)
                for each in await self._journal.categories()
            },
            states=states,
            budgets=await self._budgets.states(companions, everybody=many),
            definitions=definitions,
            reports=reports,
            changes=await self._journal.newest_changes(oldest) if reports else {},
            waiting=await self._counted(_WAITING, these),
            questions=await self._counted(_QUESTIONS, these),
            switches=await self._switches.engaged(),
            unconfirmed=unconfirmed,
            unreachable=unreachable,
            failed=await self._failed(states),
            now=self._store.clock.now(),
        )

    async def _states(self, these: Sequence[str] | None) -> dict[str, _State]:
        rows = await self._store.database.fetch_all(*among(_STATES, "agent_id", these))
        return {
            str(agent_id): _State(int(failures or 0), _moment(sleep_until), _moment(last_wake_at))
            for agent_id, failures, sleep_until, last_wake_at in rows
        }

    async def _counted(self, sql: str, these: Sequence[str] | None) -> dict[str, int]:
        rows = await self._store.database.fetch_all(*among(sql, "agent_id", these))
        return {str(agent_id): int(count) for agent_id, count in rows}

    async def _reports(self, these: Sequence[str] | None) -> dict[tuple[str, ReportScope], _Report]:
        rows = await self._store.database.fetch_all(*among(_REPORTS, "h.agent_id", these))
        return {
            (str(agent_id), ReportScope(scope)): _Report(
                ReportScope(scope), parse_timestamp(str(created_at)), int(seen or 0)
            )
            for agent_id, scope, created_at, seen in rows
        }

    async def _failed(self, states: Mapping[str, _State]) -> dict[str, WakeRun]:
        failing = [agent_id for agent_id, state in states.items() if state.failures]
        if not failing:
            return {}
        rows = await self._store.database.fetch_all(*among(_FAILED, "agent_id", failing))
        found = [WakeRun.model_validate_json(body) for body, _ in rows]
        return {each.agent_id: each for each in found}

    async def _unasked(
        self,
        companions: Sequence[Companion],
        definitions: Mapping[str, CompanionDefinition],
        these: Sequence[str] | None,
    ) -> tuple[frozenset[str], frozenset[str]]:
        """Those whose model may not be asked: nobody has agreed to it, or nobody knows it.

        The terms of each model are made once.
        """
        known: dict[tuple[str, frozenset[str] | None], ModelTerms | None] = {}
        grants = await self._grants.of(these)
        unconfirmed, unreachable = set(), set()
        for each in companions:
            model_id, definition = each.config.model_id, definitions.get(each.id)
            if model_id is None or definition is None or each.is_destroyed:
                continue
            if not self._door.knows(model_id):
                unreachable.add(each.id)
                continue
            about = (model_id, definition.provider_fields)
            if about not in known:
                known[about] = await self._terms(each, definition)
            terms = known[about]
            if terms is not None and missing_grant(each, terms, grants):
                unconfirmed.add(each.id)
        return frozenset(unconfirmed), frozenset(unreachable)

    async def _terms(
        self, companion: Companion, definition: CompanionDefinition
    ) -> ModelTerms | None:
        """What has to be agreed to; None where there is nothing to agree to."""
        destination = self._door.destination(companion)
        fields = await self._projections.allowed(definition.provider_fields)
        return None if destination.local else await self._grants.terms(destination, fields)

    def _view(self, companion: Companion, known: _Known) -> CompanionView:
        agent_id, state = companion.id, known.states.get(companion.id, _State())
        alive, condition = not companion.is_destroyed, self._condition(companion, known)
        return CompanionView(
            id=agent_id,
            kind=companion.kind,
            display_name=companion.display_name,
            health=health_of(condition),
            lifecycle=companion.lifecycle,
            mode=companion.mode,
            categories=tuple(
                known.categories.get(each) or CategoryRef(id=each, name=each)
                for each in companion.allowed_category_ids
            ),
            model_id=companion.config.model_id,
            needs_consent=agent_id in known.unconfirmed,
            budget=condition.budget,
            open_questions=known.questions.get(agent_id, 0),
            waiting_actions=known.waiting.get(agent_id, 0),
            report_fresh=_is_fresh(companion, known) if alive else None,
            consecutive_failures=state.failures,
            trouble=trouble_of(condition),
            sleep_until=condition.asleep_until,
            last_wake_at=state.last_wake_at,
            created_at=companion.created_at,
        )

    def _condition(self, companion: Companion, known: _Known) -> CompanionCondition:
        agent_id, state = companion.id, known.states.get(companion.id, _State())
        return CompanionCondition(
            companion=companion,
            now=known.now,
            running=self._worker.runtime(agent_id).run_status is AgentRunStatus.RUNNING,
            budget=known.budgets[agent_id],
            switches=known.switches,
            classes=self._classes(known.definitions.get(agent_id)),
            needs_consent=agent_id in known.unconfirmed,
            model_unknown=agent_id in known.unreachable,
            failures=state.failures,
            failed=known.failed.get(agent_id),
            rests_until=rest_until(state.failures, state.last_wake_at, known.now),
            sleep_until=state.sleep_until,
        )

    def _classes(self, definition: CompanionDefinition | None) -> frozenset[ToolClass]:
        """The classes of all that a companion may call."""
        if definition is None:
            return frozenset({ToolClass.MODEL})
        found = self._class_sets.get(definition.tools)
        if found is None:
            tools = (self._registry.get(name) for name in definition.tools)
            mine = (self._registry.classes_of(tool) for tool in tools if tool is not None)
            found = frozenset({ToolClass.MODEL}).union(*mine)
            self._class_sets[definition.tools] = found
        return found


def kind_view(library: KindLibrary, name: str) -> KindView:
    """A kind that can be made, or what is wrong with its file."""
    try:
        definition = library.get(name)
    except SilasError as error:
        return KindView(
            kind=name, display_name=name, summary="", built_in=False, problem=error.message
        )
    return KindView(
        kind=definition.kind,
        display_name=definition.display_name,
        summary=definition.summary,
        built_in=name in BUILT_IN,
    )


def _record_id(ref: ReportSourceRef) -> str:
    return ref.source_locator.partition(":")[2]


def _source(ref: ReportSourceRef, record: Record | None) -> SourceView:
    shown = record.model_dump(mode="json") if record is not None else {}
    label = next((str(shown[name]) for name in _LABELS if shown.get(name)), ref.source_locator)
    return SourceView(
        claim_id=ref.claim_id,
        source_locator=ref.source_locator,
        record_id=_record_id(ref),
        label=label[:200],
        inferred=ref.inference_flag is InferenceFlag.INFERRED,
        captured_at=ref.captured_at,
        freshness_at=ref.freshness_at,
        exists=record is not None and not record.deleted,
    )


def _waiting(operation: AgentOperation) -> WaitingView:
    approvable = operation.approvable or {}
    return WaitingView(
        operation_id=operation.operation_id,
        agent_id=operation.agent_id,
        tool_name=(tool := str(operation.call.get("tool_name", ""))),
        what=spoken_tool(tool),
        status=operation.phase.value,
        reason=operation.reason,
        arguments=dict(operation.call.get("arguments", {})),
        preview=(preview := dict(approvable.get("preview", {}))),
        changes=tuple(map(spoken_change, preview.get("changes", ()))),
        last_error=operation.last_error,
        created_at=operation.created_at,
    )


def max_age(definition: CompanionDefinition, scope: ReportScope) -> timedelta | None:
    """How old a report of a companion may get; None where its kind says nothing about it."""
    ages: dict[ReportScope, int | None] = {
        each.scope: each.max_age_hours for each in definition.report.also
    }
    ages[definition.report.scope] = definition.report.max_age_hours
    hours = ages.get(scope)
    return timedelta(hours=hours) if hours is not None else None


def latest_change(companion: Companion, changes: Mapping[str, int], *, seen: int) -> int:
    """The place of the newest change in a companion's categories; what it has seen if none."""
    return max([seen, *(changes.get(each, 0) for each in companion.allowed_category_ids)])


def _is_fresh(companion: Companion, known: _Known) -> bool | None:
    """None: there is no report yet."""
    definition = known.definitions.get(companion.id)
    report = known.reports.get((companion.id, definition.report.scope)) if definition else None
    if definition is None or report is None:
        return None
    too_old, newer = staleness(
        report.scope,
        known.now - report.created_at,
        seen=report.seen,
        max_age=max_age(definition, report.scope),
        latest_cursor=latest_change(companion, known.changes, seen=report.seen),
    )
    return not too_old and not newer


def _moment(text: object) -> datetime | None:
    return parse_timestamp(str(text)) if text is not None else None
