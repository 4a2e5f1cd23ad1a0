"""The owner's desk: everything that a person can do with companions, for every surface alike.

The command line, the page and the control socket call these methods and nothing below them. Each
returns frozen views, or raises a `SilasError` with a sentence. What concerns trust (consent, stop
switches, destruction) is written to the audit log before it is reported.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from silas.companions.desk_agreements import Agreements
from silas.companions.desk_schedules import Schedules
from silas.companions.desk_views import DeskViews, kind_view
from silas.companions.errors import CompanionInvalid, CompanionUnknown
from silas.companions.hands import Hands
from silas.companions.kinds.definition import CompanionDefinition
from silas.companions.kinds.library import KindLibrary
from silas.companions.lifecycle import (
    Lifecycle,
    NewCompanion,
    SubscriptionDraft,
    checked,
)
from silas.companions.models import (
    AgentConfig,
    AgentSubscription,
    BudgetLimits,
    Companion,
    ReportScope,
    RunTrace,
    StopScope,
)
from silas.companions.replay import ReplayResult
from silas.companions.store import CompanionStore
from silas.companions.timer_book import TimerDraft
from silas.companions.views import (
    CompanionDetail,
    CompanionList,
    CompanionName,
    CompanionView,
    KindView,
    ModelView,
    QuestionView,
    ReportView,
    RunView,
    SourceView,
    SwitchView,
    WaitingView,
    WakeView,
)
from silas.companions.wake.worker import WakeWorker
from silas.gates.risk import RiskLevel
from silas.journal.store import Journal
from silas.storage import Transaction
from silas.work.ports import AuditTrail


class CompanionDesk(Agreements, Schedules):
    """What the owner can do."""

    def __init__(
        self,
        store: CompanionStore,
        journal: Journal,
        hands: Hands,
        *,
        lifecycle: Lifecycle,
        worker: WakeWorker,
        library: KindLibrary,
        audit: AuditTrail,
    ) -> None:
        self._store = store
        self._journal = journal
        self._hands = hands
        self._lifecycle = lifecycle
        self._worker = worker
        self._library = library
        self._audit = audit
        self._views = DeskViews(store, journal, hands, worker=worker)

    # Looking.

    async def list(
        self, *, with_destroyed: bool = False, skip: int = 0, limit: int | None = None
    ) -> tuple[CompanionView, ...]:
        """Every companion, the oldest first; or some, after as many as are to be skipped."""
        return await self._views.all(with_destroyed=with_destroyed, skip=skip, limit=limit)

    async def listed(self, *, words: str = "", limit: int = 100) -> CompanionList:
        """The first of those whose names have these words in them, and how many there are."""
        return await self._views.some(words=words, limit=limit)

    async def meant(self, text: str, *, with_destroyed: bool = False) -> tuple[CompanionName, ...]:
        """Whom a name, its beginning or the end of an id may mean; a few if it is not clear."""
        return await self._views.meant(text, with_destroyed=with_destroyed)

    async def show(self, agent_id: str) -> CompanionDetail:
        """Everything about one; raises `CompanionUnknown`."""
        return await self._views.detail(agent_id)

    def kinds(self) -> tuple[KindView, ...]:
        """The kinds that can be made; one whose file is wrong says what is wrong."""
        return tuple(kind_view(self._library, each) for each in self._library.names())

    def models(self) -> tuple[ModelView, ...]:
        """The models that a companion can be given: those that the settings name for some role."""
        return tuple(
            ModelView(model_id=each.model_id, address=each.address or "")
            for each in self._hands.door.destinations()
        )

    async def runs(self, agent_id: str, *, limit: int = 50) -> tuple[RunView, ...]:
        """The newest wakes of a companion, newest first."""
        return await self._views.runs(agent_id, limit=limit)

    async def report(self, agent_id: str, *, scope: ReportScope | None = None) -> ReportView | None:
        """The newest report, with how fresh it is; None if there is none yet."""
        return await self._views.report(agent_id, scope=scope)

    async def why(self, report_id: str, claim_id: str) -> tuple[SourceView, ...]:
        """The sources of one claim."""
        return await self._views.sources(report_id, claim_id)

    async def trace(self, run_key: str) -> RunTrace:
        """All that explains a run, named by its key or the beginning of it."""
        key = await self._views.run_key(run_key)
        found = await self._store.get(RunTrace, key)
        if found is None:
            raise CompanionUnknown(f"There is no trace of the run {key[:12]} (yet).")
        return found

    async def replay(self, run_key: str) -> ReplayResult:
        """The run once more from its trace: nothing happens, and what differs is told."""
        return await self._hands.replayer.replay(await self._views.run_key(run_key))

    # Making and configuring.

    async def new(
        self,
        kind: str,
        *,
        category_ids: Sequence[str],
        display_name: str | None = None,
        model_id: str | None = None,
        file: Path | None = None,
    ) -> CompanionView:
        """Make a companion of a kind, or of one that a file describes; raises `CompanionInvalid`.

        Without a model it works by fixed rules, and nothing leaves the machine.
        """
        definition = self._library.read(file) if file is not None else self._library.get(kind)
        wanted = NewCompanion(
            kind=definition.kind,
            display_name=display_name or definition.display_name,
            allowed_category_ids=tuple(category_ids),
            mode=definition.mode,
            config=AgentConfig(
                model_id=model_id,
                provider_id=model_id.partition(":")[0] if model_id else None,
                prompt_id=definition.kind,
                budget=definition.budget,
            ),
            subscriptions=_subscriptions(definition, category_ids),
            timers=tuple(TimerDraft(each.kind, each.expression) for each in definition.timers),
        )
        await self._require_possible(wanted, model_id)

        def also(tx: Transaction, companion: Companion) -> None:
            self._hands.projections.keep_in(tx)
            self._hands.definitions.keep_in(tx, companion.id, definition)
            self._hands.personas.begin_in(tx, companion.id, definition.persona)

        made = await self._lifecycle.create(wanted, also=also)
        await self._audit.log("companion_made", agent_id=made.id, kind=made.kind)
        return await self._views.one(made.id)

    async def configure(
        self,
        agent_id: str,
        *,
        display_name: str | None = None,
        category_ids: Sequence[str] | None = None,
        model_id: str | None = None,
        offline: bool = False,
        budget: BudgetLimits | None = None,
        confirm_from: RiskLevel | None = None,
    ) -> CompanionView:
        """Change what is given, of a budget too. `offline` takes the model away.

        A new model needs a new consent.
        """
        companion = await self._store.require(Companion, agent_id)
        config: dict[str, Any] = {}
        if offline or model_id is not None:
            chosen = None if offline else model_id
            config |= {
                "model_id": chosen,
                "provider_id": chosen.partition(":")[0] if chosen else None,
            }
        changes: dict[str, Any] = {}
        if display_name is not None:
            changes["display_name"] = display_name
        if category_ids is not None:
            changes["allowed_category_ids"] = tuple(sorted(set(category_ids)))

        def changed(known: Companion) -> Companion:
            given = {**known.model_dump(), **changes}
            limits = budget.model_dump(exclude_unset=True) if budget is not None else {}
            merged = {**config, "budget": known.config.budget.model_copy(update=limits)}
            return checked(Companion, {**given, "config": known.config.model_copy(update=merged)})

        wanted = changed(companion)
        await self._require_possible(wanted, model_id)
        also = await self._asking_from(agent_id, confirm_from) if confirm_from else None
        await self._lifecycle.configure(agent_id, changed, also=also)
        if category_ids is not None:
            await self._move_subscriptions(agent_id, tuple(category_ids))
        await self._audit.log("companion_configured", agent_id=agent_id)
        return await self._views.one(agent_id)

    # Waking, resting, ending.

    async def wake(
        self, agent_id: str, *, said: str | None = None, request_id: str | None = None
    ) -> WakeView:
        """Wake a companion now, or say something to it; raises `Stopped` while a switch is on."""
        await self._hands.switches.require(agent_id)
        if said is not None:
            job = await self._lifecycle.say(agent_id, said, turn_id=request_id)
        else:
            job = await self._lifecycle.wake(agent_id, request_id=request_id)
        return WakeView(run_key=job.run_key, agent_id=agent_id)

    async def pause(self, agent_id: str) -> CompanionView:
        """Let it rest until it is resumed; what runs stops at its next step."""
        await self._lifecycle.pause(agent_id)
        await self._audit.log("companion_paused", agent_id=agent_id)
        return await self._views.one(agent_id)

    async def resume(self, agent_id: str) -> CompanionView:
        """Let it go on; what the owner has approved meanwhile is done now."""
        await self._lifecycle.resume(agent_id)
        await self._audit.log("companion_resumed", agent_id=agent_id)
        await self._hands.approving.settle()
        return await self._views.one(agent_id)

    async def cancel(self, agent_id: str) -> int:
        """Call off what a companion does just now; returns how many runs that were.

        From then on they write nothing to the journal, not even what was just allowed.
        """
        count = await self._worker.cancel(agent_id)
        await self._journal.fence.move()
        await self._audit.log("companion_run_cancelled", agent_id=agent_id, runs=count)
        return count

    async def destroy(self, agent_id: str) -> CompanionView:
        """End a companion for good. What it has said stays readable."""
        await self._lifecycle.destroy(agent_id)
        await self._hands.waiting.cancel_all(agent_id, error="agent_destroyed")
        await self._audit.log("companion_destroyed", agent_id=agent_id)
        return await self._views.one(agent_id)

    # Stop switches.

    async def stop(
        self,
        scope: StopScope = StopScope.GLOBAL,
        target: str | None = None,
        *,
        reason: str | None = None,
    ) -> tuple[SwitchView, ...]:
        """Stop everything, one companion, or a class of tools; returns the switches that are on."""
        try:
            await self._hands.switches.engage(scope, target, reason=reason)
        finally:
            # Also if the disk is full: what runs is asked to stop, whatever can be written down.
            if scope is not StopScope.TOOL_CLASS:
                self._worker.call_off(target)
        await self._audit.log("companions_stopped", scope=scope.value, target=target, reason=reason)
        return await self.switches()

    async def release(
        self, scope: StopScope = StopScope.GLOBAL, target: str | None = None
    ) -> tuple[SwitchView, ...]:
        """Release one switch; what was approved meanwhile is done now."""
        await self._hands.switches.release(scope, target)
        await self._audit.log("companions_released", scope=scope.value, target=target)
        await self._hands.approving.settle()
        return await self.switches()

    async def resume_all(self) -> tuple[SwitchView, ...]:
        """Release every switch."""
        for switch in await self._hands.switches.engaged():
            await self._hands.switches.release(switch.scope, switch.target)
        await self._audit.log("companions_released", scope="all", target=None)
        await self._hands.approving.settle()
        return await self.switches()

    async def switches(self) -> tuple[SwitchView, ...]:
        """The switches that are on."""
        engaged = await self._hands.switches.engaged()
        names = await self._views.names_of({each.target for each in engaged if each.target})
        return tuple(
            SwitchView(
                scope=each.scope,
                target=each.target,
                target_name=names.get(each.target or ""),
                reason=each.reason,
                changed_at=each.changed_at,
            )
            for each in engaged
        )

    # Questions and actions.

    async def questions(self, agent_id: str | None = None) -> tuple[QuestionView, ...]:
        """What companions have asked and nobody has answered."""
        return await self._views.questions(agent_id)

    async def answer(self, question_id: str, said: str) -> WakeView | None:
        """Answer a question: what waited for it goes on, or else the companion hears it."""
        response = await self._hands.prompts.answer(question_id, said)
        released = await self._hands.approving.answered(question_id)
        if released and response.response["answer"] in ("yes", "no"):
            return None
        job = await self._lifecycle.say(response.agent_id, said, turn_id=response.id)
        return WakeView(run_key=job.run_key, agent_id=response.agent_id)

    async def waiting(self, agent_id: str | None = None) -> tuple[WaitingView, ...]:
        """The actions that wait for the owner: for a card, or for an answer."""
        return await self._views.waiting(agent_id)

    # What the rest of the house calls.

    async def decided(self, operation_id: str) -> None:
        """The owner has decided about the card of this action."""
        await self._hands.approving.follow(operation_id)

    async def recover(self) -> int:
        """At the start: bring to its end what a crash has left; returns how much that was."""
        await self._hands.projections.keep()
        dead = await self._hands.budgets.settle_dead()
        return dead + await self._hands.approving.recover()

    async def expire(self) -> int:
        """End what nobody has answered in time, and writes that a failed run has left."""
        late = await self._hands.prompts.expire_due()
        left = await self._hands.approving.reconcile()
        return len(late) + left + await self._hands.approving.settle()

    async def _require_possible(
        self, wanted: NewCompanion | Companion, model_id: str | None
    ) -> None:
        if not wanted.allowed_category_ids:
            raise CompanionInvalid("Name at least one category: a companion sees no others.")
        known = [each.id for each in await self._journal.categories()]
        missing = sorted(set(wanted.allowed_category_ids) - set(known))
        if missing:
            raise CompanionInvalid(f"There is no category {', '.join(missing)}.")
        if model_id is not None and not self._hands.door.knows(model_id):
            known_models = ", ".join(each.model_id for each in self.models()) or "there are none"
            raise CompanionInvalid(
                f"{model_id} is not among the configured models: {known_models}."
            )

    async def _asking_from(self, agent_id: str, level: RiskLevel) -> Callable[[Transaction], None]:
        known = await self._hands.definitions.of(agent_id)
        changed = checked(CompanionDefinition, {**known.model_dump(), "confirm_from": level})
        return lambda tx: self._hands.definitions.keep_in(tx, agent_id, changed)

    async def _move_subscriptions(self, agent_id: str, category_ids: tuple[str, ...]) -> None:
        definition = await self._hands.definitions.of(agent_id)
        for each in await self._store.find(AgentSubscription, {"agent_id": agent_id}):
            await self._lifecycle.unsubscribe(each.id)
        for draft in _subscriptions(definition, category_ids):
            await self._lifecycle.subscribe(agent_id, draft)


def _subscriptions(
    definition: CompanionDefinition, category_ids: Sequence[str]
) -> tuple[SubscriptionDraft, ...]:
    """What wakes a companion, within its own categories."""
    limited = {"category_ids": tuple(category_ids)}
    return tuple(
        SubscriptionDraft(each.tokens, each.predicate.model_copy(update=limited))
        for each in definition.subscriptions
    )
