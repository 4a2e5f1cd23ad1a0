"""How the desk's views are put together from the records."""

from collections.abc import Callable, Iterable, Sequence

from silas.companions.errors import CompanionInvalid, CompanionUnknown
from silas.companions.glances import Glances, latest_change, max_age
from silas.companions.hands import Hands
from silas.companions.ids import persona_head_id, report_head_id
from silas.companions.kinds.library import BUILT_IN, KindLibrary
from silas.companions.models import (
    AgentLifecycle,
    AgentPersonaHead,
    AgentPersonaStatus,
    AgentPersonaVersion,
    AgentReport,
    AgentReportHead,
    AgentSubscription,
    AgentTimer,
    Companion,
    InferenceFlag,
    ReportScope,
    ReportSourceRef,
    WaitingAction,
    WaitingStatus,
    WakeRun,
)
from silas.companions.reports import freshness_of
from silas.companions.statements import among
from silas.companions.store import CompanionStore
from silas.companions.views import (
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
from silas.companions.wake.worker import WakeWorker
from silas.companions.words import (
    sent_in_words,
    spoken_change,
    spoken_timer,
    spoken_token,
    spoken_tool,
)
from silas.journal.models import Record
from silas.journal.store import Journal
from silas.kernel import SilasError

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


class DeskViews:
    """Reads what the surfaces show."""

    def __init__(
        self, store: CompanionStore, journal: Journal, hands: Hands, *, worker: WakeWorker
    ) -> None:
        self._store = store
        self._journal = journal
        self._hands = hands
        self._glances = Glances(store, journal, hands, worker=worker)

    async def all(
        self, *, with_destroyed: bool, skip: int = 0, limit: int | None = None
    ) -> tuple[CompanionView, ...]:
        """Every companion, or some of them."""
        hidden = "" if with_destroyed else AgentLifecycle.DESTROYED.value
        most = _NO_LIMIT if limit is None else limit
        rows = await self._store.database.fetch_all(_PAGE, (hidden, most, skip))
        return await self._glances.of([Companion.model_validate_json(body) for (body,) in rows])

    async def some(self, *, words: str, limit: int) -> CompanionList:
        """The first of those whose names have these words in them."""
        wanted = words.strip().casefold()
        known = await self._names(with_destroyed=False)
        found = [each.id for each in known if wanted in each.display_name.casefold()]
        shown = await self._named(found[:limit])
        return CompanionList(companions=await self._glances.of(shown), total=len(found))

    async def meant(self, text: str, *, with_destroyed: bool) -> tuple[CompanionName, ...]:
        """By id, by name, by the beginning of a name, by the end of an id: the first that finds."""
        known, small = await self._names(with_destroyed=with_destroyed), text.casefold()
        ways: tuple[Callable[[CompanionName], bool], ...] = (
            lambda each: each.id == text,
            lambda each: each.display_name.casefold() == small or each.kind == text,
            lambda each: each.display_name.casefold().startswith(small),
            lambda each: len(text) >= _LEAST and each.id.endswith(text),
        )
        found: Iterable[list[CompanionName]] = (
            [each for each in known if way(each)] for way in ways
        )
        return tuple(next((each for each in found if each), [])[:_MOST_MEANT])

    async def _names(self, *, with_destroyed: bool) -> list[CompanionName]:
        """Who there is, the oldest first; nothing else is looked up."""
        rows = await self._store.database.fetch_all(_NAMES)
        return [
            CompanionName(id=agent_id, kind=kind, display_name=name)
            for agent_id, kind, name, lifecycle in rows
            if with_destroyed or lifecycle != AgentLifecycle.DESTROYED
        ]

    async def _named(self, agent_ids: Sequence[str]) -> list[Companion]:
        """The companions with these ids, in this order."""
        rows = await self._store.database.fetch_all(*among(_SOME, "id", agent_ids))
        found = {agent_id: Companion.model_validate_json(body) for agent_id, body in rows}
        return [found[each] for each in agent_ids if each in found]

    async def one(self, agent_id: str) -> CompanionView:
        """One companion; raises `CompanionUnknown`."""
        companion = await self._store.require(Companion, agent_id)
        return (await self._glances.of([companion]))[0]

    async def detail(self, agent_id: str) -> CompanionDetail:
        """Everything about one companion."""
        definition = await self._hands.definitions.of(agent_id)
        return CompanionDetail(
            companion=await self.one(agent_id),
            summary=definition.summary,
            tools=tuple(sorted(definition.tools)),
            may=tuple(map(spoken_tool, sorted(definition.tools))),
            capabilities=tuple(sorted(definition.capabilities)),
            confirm_from=definition.confirm_from.value,
            wakes_on=await self._wakes_on(agent_id),
            persona=await self._hands.personas.in_use(agent_id),
            questions=await self.questions(agent_id),
            waiting=await self.waiting(agent_id),
            runs=await self.runs(agent_id, limit=20),
        )

    async def runs(self, agent_id: str, *, limit: int) -> tuple[RunView, ...]:
        """The newest wakes."""
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

    async def run_key(self, text: str) -> str:
        """The key of the run that begins like this; raises unless there is exactly one."""
        rows = await self._store.database.fetch_all(_RUNS, (text, f"{text}{_LAST}"))
        keys = [str(row[0]) for row in rows]
        if not keys:
            raise CompanionUnknown(f"There is no run {text[:80]!a}. `silas agents runs` has them.")
        if len(keys) > 1 and text not in keys:
            raise CompanionInvalid(f"More than one run begins with {text[:80]!a}. Say more of it.")
        return text if text in keys else keys[0]

    async def report(self, agent_id: str, *, scope: ReportScope | None) -> ReportView | None:
        """The newest report."""
        companion = await self._store.require(Companion, agent_id)
        definition = await self._hands.definitions.of(agent_id)
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
        return ReportView(report=report, freshness=freshness)

    async def sources(self, report_id: str, claim_id: str) -> tuple[SourceView, ...]:
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
        """What the model of a companion means for privacy."""
        companion = await self._store.require(Companion, agent_id)
        if companion.config.model_id is None:
            return None
        definition = await self._hands.definitions.of(agent_id)
        destination = self._hands.door.destination(companion)
        fields = await self._hands.projections.allowed(definition)
        shown = await self._hands.consents.disclosure(destination, fields)
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
            confirmed=await self._hands.consents.confirmed(destination, fields),
        )

    async def questions(self, agent_id: str | None) -> tuple[QuestionView, ...]:
        """Open questions."""
        blocked = await self._hands.waiting.of(agent_id, status=WaitingStatus.BLOCKED)
        items = await self._hands.prompts.open_items(agent_id)
        names = await self.names_of({item.agent_id for item in items})
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

    async def waiting(self, agent_id: str | None) -> tuple[WaitingView, ...]:
        """Actions that wait."""
        found = await self._hands.waiting.of(agent_id)
        return tuple(_waiting(each) for each in found if not each.status.is_over)

    async def personas(self, agent_id: str) -> tuple[PersonaView, ...]:
        """Every version, the newest first."""
        found = await self._hands.personas.history(agent_id)
        return tuple([await self.persona(each) for each in reversed(found)])

    async def persona(self, version: AgentPersonaVersion) -> PersonaView:
        """One version."""
        head = await self._store.get(AgentPersonaHead, persona_head_id(version.agent_id))
        return PersonaView(
            version=version,
            in_use=head is not None and head.persona_version_id == version.id,
            waits=version.status is AgentPersonaStatus.DRAFT,
            changes=await self._hands.personas.diff(version.id),
        )

    async def names_of(self, agent_ids: set[str]) -> dict[str, str]:
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


def _waiting(action: WaitingAction) -> WaitingView:
    approvable = action.approvable or {}
    return WaitingView(
        operation_id=action.operation_id,
        agent_id=action.agent_id,
        tool_name=(tool := str(action.call.get("tool_name", ""))),
        what=spoken_tool(tool),
        status=action.status.value,
        reason=action.reason,
        arguments=dict(action.call.get("arguments", {})),
        preview=(preview := dict(approvable.get("preview", {}))),
        changes=tuple(map(spoken_change, preview.get("changes", ()))),
        last_error=action.last_error,
        created_at=action.created_at,
    )
