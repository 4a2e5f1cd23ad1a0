"""Companions at a glance: the lines of the list, read for all of them at once.

One query for each table, however many companions there are; for a few of them the same queries look
at their rows alone. What is the same for many is made once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from silas.companions.budgets import BudgetState
from silas.companions.errors import NetworkDenied
from silas.companions.hands import Hands
from silas.companions.kinds.definition import CompanionDefinition
from silas.companions.models import (
    AgentPromptItemState,
    AgentRunStatus,
    Companion,
    ReportScope,
    StopScope,
    StopSwitch,
    WaitingStatus,
)
from silas.companions.reports import staleness
from silas.companions.statements import among
from silas.companions.store import CompanionStore
from silas.companions.views import CategoryRef, CompanionView, Health
from silas.companions.wake.worker import WakeWorker
from silas.journal.store import Journal
from silas.kernel import parse_timestamp

_FAILING = 3
_FEW = 500
"""For more than these it is cheaper to read everybody's rows."""
_WAITING = f"""
SELECT agent_id, count(*) FROM agent_waiting_actions
WHERE status IN ({", ".join(f"'{each}'" for each in WaitingStatus if not each.is_over)}){{these}}
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
    now: datetime


class Glances:
    """Reads the lines of the list."""

    def __init__(
        self, store: CompanionStore, journal: Journal, hands: Hands, *, worker: WakeWorker
    ) -> None:
        self._store = store
        self._journal = journal
        self._hands = hands
        self._worker = worker

    async def of(self, companions: Sequence[Companion]) -> tuple[CompanionView, ...]:
        """A line for each, in this order."""
        known = await self._read(companions)
        return tuple(self._view(each, known) for each in companions)

    async def _read(self, companions: Sequence[Companion]) -> _Known:
        many = len(companions) > _FEW
        these = None if many else [each.id for each in companions]
        definitions = await self._hands.definitions.all(these)
        reports = await self._reports(these)
        oldest = min((each.seen for each in reports.values()), default=0)
        return _Known(
            categories={
                each.id: CategoryRef(id=each.id, name=each.name)
                for each in await self._journal.categories()
            },
            states=await self._states(these),
            budgets=await self._hands.budgets.states(companions, everybody=many),
            definitions=definitions,
            reports=reports,
            changes=await self._journal.newest_changes(oldest) if reports else {},
            waiting=await self._counted(_WAITING, these),
            questions=await self._counted(_QUESTIONS, these),
            switches=await self._hands.switches.engaged(),
            unconfirmed=await self._unconfirmed(companions, definitions),
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

    async def _unconfirmed(
        self, companions: Iterable[Companion], definitions: Mapping[str, CompanionDefinition]
    ) -> frozenset[str]:
        """Those to whose model the owner has not agreed; each question is asked once."""
        asked: dict[tuple[str, frozenset[str] | None], bool] = {}
        found = set()
        for each in companions:
            model_id, definition = each.config.model_id, definitions.get(each.id)
            if model_id is None or definition is None or each.is_destroyed:
                continue
            about = (model_id, definition.provider_fields)
            if about not in asked:
                asked[about] = await self._needs_consent(each, definition)
            if asked[about]:
                found.add(each.id)
        return frozenset(found)

    async def _needs_consent(self, companion: Companion, definition: CompanionDefinition) -> bool:
        try:
            destination = self._hands.door.destination(companion)
        except NetworkDenied:
            return False
        fields = await self._hands.projections.allowed(definition)
        agreed = destination.local or await self._hands.consents.confirmed(destination, fields)
        return not agreed

    def _view(self, companion: Companion, known: _Known) -> CompanionView:
        agent_id, state = companion.id, known.states.get(companion.id, _State())
        budget, alive = known.budgets[agent_id], not companion.is_destroyed
        return CompanionView(
            id=agent_id,
            kind=companion.kind,
            display_name=companion.display_name,
            health=self._health(companion, known, spent=bool(budget.over_hard)),
            lifecycle=companion.lifecycle,
            mode=companion.mode,
            categories=tuple(
                known.categories.get(each) or CategoryRef(id=each, name=each)
                for each in companion.allowed_category_ids
            ),
            model_id=companion.config.model_id,
            needs_consent=agent_id in known.unconfirmed,
            budget=budget,
            open_questions=known.questions.get(agent_id, 0),
            waiting_actions=known.waiting.get(agent_id, 0),
            report_fresh=_is_fresh(companion, known) if alive else None,
            consecutive_failures=state.failures,
            last_wake_at=state.last_wake_at,
            created_at=companion.created_at,
        )

    def _health(self, companion: Companion, known: _Known, *, spent: bool) -> Health:
        state = known.states.get(companion.id, _State())
        asleep = state.sleep_until is not None and state.sleep_until > known.now
        order = (
            (companion.is_destroyed, Health.DESTROYED),
            (any(_stops(each, companion.id) for each in known.switches), Health.STOPPED),
            (companion.paused_at is not None, Health.PAUSED),
            (
                self._worker.runtime(companion.id).run_status is AgentRunStatus.RUNNING,
                Health.RUNNING,
            ),
            (spent, Health.OUT_OF_BUDGET),
            (asleep or companion.lifecycle == "dormant", Health.SLEEPING),
            (state.failures >= _FAILING, Health.FAILING),
        )
        return next((health for applies, health in order if applies), Health.IDLE)


def max_age(definition: CompanionDefinition, scope: ReportScope) -> timedelta | None:
    """How old a report of a companion may get; None where its kind says nothing about it."""
    same = scope is definition.report.scope
    return timedelta(hours=definition.report.max_age_hours) if same else None


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


def _stops(switch: StopSwitch, agent_id: str) -> bool:
    mine = switch.scope is StopScope.COMPANION and switch.target == agent_id
    return mine or switch.scope is StopScope.GLOBAL
