"""Everything that a person can do with companions, for every surface alike.

The command line, the page and the control socket call these methods and nothing below them. Each
returns frozen views, or raises a `SilasError` with a sentence. What concerns trust (consent, stop
switches, destruction) is written to the audit log before it is reported.
"""

import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from silas.audit.models import AuditTrail
from silas.companions.budgets import Budgets
from silas.companions.conversation import ConversationReader
from silas.companions.erasure import Erasure, ErasureWish
from silas.companions.errors import CompanionInvalid, CompanionUnknown
from silas.companions.gateway import ModelDoor, StopSwitches
from silas.companions.ids import digest
from silas.companions.kinds.library import CompanionDefinition, KindLibrary
from silas.companions.kinds.offline import answers_how_long
from silas.companions.lifecycle import Lifecycle, NewCompanion, SubscriptionDraft, checked
from silas.companions.messages import (
    AgentPersonaVersion,
    AgentPromptItem,
    Diagnostic,
    RunTrace,
    WakeRun,
)
from silas.companions.models import (
    AgentConfig,
    AgentInteractionType,
    AgentSubscription,
    AgentTimer,
    BudgetLimits,
    Companion,
    ErasureReceipt,
    InteractiveSession,
    ModelRule,
    ModelRuleScope,
    StopScope,
)
from silas.companions.operations import Operations
from silas.companions.resumption import OperationResumption, choice_meant
from silas.companions.rollout import DiagnosticView, Objective, Rollout, Rollouts
from silas.companions.store import CompanionStore
from silas.companions.timers import TimerDraft, TimerWish, spoken_timer, weekly, zone_of
from silas.companions.tools.registry import AgentToolRegistry
from silas.companions.view_reader import CompanionViewReader, kind_view
from silas.companions.views import (
    CompanionDetail,
    CompanionModelView,
    CompanionView,
    ConversationView,
    DisclosureView,
    KindView,
    PersonaView,
    SwitchView,
    TimerView,
    WakeView,
)
from silas.companions.wake.worker import WakeWorker
from silas.companions.workflow import Replayer, ReplayResult
from silas.gates.risk import RiskLevel
from silas.journal.store import Journal
from silas.storage import Transaction

_LONGEST_POLICY = 500
_LONGEST_SAYING = 32_000
SessionEnded = Callable[[InteractiveSession], Awaitable[None]]
"""What follows when a conversation has ended."""


class CompanionService(CompanionViewReader):
    """What the owner can do with companions, and see of them."""

    def __init__(
        self,
        store: CompanionStore,
        journal: Journal,
        *,
        lifecycle: Lifecycle,
        worker: WakeWorker,
        resumption: OperationResumption,
        door: ModelDoor,
        switches: StopSwitches,
        budgets: Budgets,
        operations: Operations,
        library: KindLibrary,
        registry: AgentToolRegistry,
        audit: AuditTrail,
        erasure: Erasure,
        session_ended: SessionEnded,
    ) -> None:
        super().__init__(
            store,
            journal,
            worker=worker,
            door=door,
            switches=switches,
            budgets=budgets,
            operations=operations,
            registry=registry,
        )
        self.conversations = ConversationReader(store, registry)
        self._ended = session_ended
        self._lifecycle = lifecycle
        self._resumption = resumption
        self._library = library
        self._audit = audit
        self._erasure = erasure
        self._rollouts = Rollouts(store, library)

    # Looking.

    def kinds(self) -> tuple[KindView, ...]:
        """The kinds that can be made; one whose file is wrong says what is wrong."""
        return tuple(kind_view(self._library, each) for each in self._library.names())

    def models(self) -> tuple[CompanionModelView, ...]:
        """The models that a companion can be given: those that the settings name for some role."""
        return tuple(
            CompanionModelView(model_id=each.model_id, address=each.address or "")
            for each in self._door.destinations()
        )

    async def trace(self, run_key: str) -> RunTrace:
        """All that explains a run, named by its key or the beginning of it."""
        key = await self._run_key(run_key)
        found = await self._store.get(RunTrace, key)
        if found is None:
            raise CompanionUnknown(f"There is no trace of the run {key[:12]} (yet).")
        return found

    async def replay(self, run_key: str) -> ReplayResult:
        """The run once more from its trace: nothing happens, and what differs is told."""
        return await Replayer(self._store).replay(await self._run_key(run_key))

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
            display_name=display_name or await self._free_name(definition.display_name),
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
            self._projections.keep_in(tx)
            self._definitions.keep_in(tx, companion.id, definition)
            self._personas.begin_in(tx, companion.id, definition.persona)

        made = await self._lifecycle.create(wanted, also=also)
        await self._audit.log("companion_made", agent_id=made.id, kind=made.kind)
        return await self._one(made.id)

    async def _free_name(self, name: str) -> str:
        """The name of its kind, with a number where another one has it: names are for telling."""
        taken = {each.display_name for each in await self.list()}
        numbered = (f"{name} {number}" for number in itertools.count(2))
        return next(each for each in itertools.chain([name], numbered) if each not in taken)

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
        return await self._one(agent_id)

    # Privacy and persona: the owner reads, then agrees or not.

    async def consent(self, agent_id: str, *, policy_version: str) -> DisclosureView:
        """The owner has read this version and agrees, for the companion's categories."""
        companion = await self._store.require(Companion, agent_id)
        destination = self._door.destination(companion)
        if destination.local:
            raise CompanionInvalid("The offline brain sends nothing: there is nothing to agree to.")
        definition = await self._definitions.of(agent_id)
        fields = await self._projections.allowed(definition.provider_fields)
        terms = await self._grants.terms(destination, fields)
        await self._grants.give(companion, terms, policy_version=policy_version)
        await self._audit.log(
            "companion_consent",
            agent_id=agent_id,
            model=destination.model_id,
            policy_version=policy_version,
        )
        return await self._shown_disclosure(agent_id)

    async def describe_provider(
        self,
        agent_id: str,
        *,
        training: str | None = None,
        retention: str | None = None,
        jurisdiction: str | None = None,
    ) -> DisclosureView:
        """Write down what the provider's policy says; whoever had agreed is asked again."""
        companion = await self._store.require(Companion, agent_id)
        destination = self._door.destination(companion)
        given = {"training": training, "retention": retention, "jurisdiction": jurisdiction}
        said = {name: text.strip() for name, text in given.items() if text and text.strip()}
        if destination.local or not said or max(map(len, said.values())) > _LONGEST_POLICY:
            raise CompanionInvalid(
                f"Say in at most {_LONGEST_POLICY} letters what the policy of its provider says."
            )
        await self._grants.describe(destination, said)
        await self._audit.log("companion_provider_described", model=destination.model_id)
        return await self._shown_disclosure(agent_id)

    async def _shown_disclosure(self, agent_id: str) -> DisclosureView:
        shown = await self.disclosure(agent_id)
        if shown is None:
            raise CompanionInvalid("The companion has no model any more.")
        return shown

    async def revoke_consent(self, agent_id: str) -> None:
        """Take the consent back; the next question to the model is refused."""
        companion = await self._store.require(Companion, agent_id)
        await self._grants.revoke(companion)
        await self._audit.log("companion_consent_revoked", agent_id=agent_id)

    async def model_rules(self) -> tuple[ModelRule, ...]:
        """Which models alone may be asked about a category, or by a kind."""
        return tuple(sorted(await self._grants.rules(), key=lambda each: each.id))

    async def set_model_rule(
        self, scope: ModelRuleScope, target: str, *, models: tuple[str, ...] = ()
    ) -> tuple[ModelRule, ...]:
        """Let only these models be asked there; without any, every one that you agree to."""
        known = {each.model_id for each in self.models()}
        providers = {f"{each.partition(':')[0]}:*" for each in known}
        if unknown := sorted(set(models) - known - providers):
            raise CompanionInvalid(f"{unknown[0]} is not among the configured models.")
        await self._grants.set_rule(scope, target, models)
        await self._audit.log("companion_models_limited", scope=scope.value, models=list(models))
        return await self.model_rules()

    async def propose_persona(self, agent_id: str, changes: dict[str, Any]) -> PersonaView:
        """A draft with these fields changed; it is not in use until it is approved."""
        await self._store.require(Companion, agent_id)
        draft = await self._personas.propose(agent_id, changes, author="user")
        return await self._persona_view(draft)

    async def approve_persona(self, agent_id: str, version_id: str) -> PersonaView:
        """Put a draft into use."""
        version: AgentPersonaVersion = await self._personas.approve(agent_id, version_id)
        await self._audit.log(
            "companion_persona_approved", agent_id=agent_id, version=version.version
        )
        return await self._persona_view(version)

    async def decline_persona(self, agent_id: str, version_id: str) -> PersonaView:
        """Say no to a draft; it stays in the history."""
        version = await self._personas.decline(agent_id, version_id)
        await self._audit.log(
            "companion_persona_declined", agent_id=agent_id, version=version.version
        )
        return await self._persona_view(version)

    # Timers.

    async def timers(self, agent_id: str) -> tuple[TimerView, ...]:
        """The timers of a companion, the oldest first; raises `CompanionUnknown`."""
        await self._store.require(Companion, agent_id)
        book = self._lifecycle.timers
        return tuple(_timer_view(each, book.zone) for each in await book.of(agent_id))

    async def set_timers(self, agent_id: str, timers: Sequence[TimerWish]) -> tuple[TimerView, ...]:
        """Add, change, switch and remove timers, all or none; raises `CompanionInvalid`.

        A timer that is not named stays as it is. What is changed rings from now on.
        """
        await self._store.require(Companion, agent_id)
        await self._lifecycle.timers.change(agent_id, timers)
        await self._audit.log("companion_configured", agent_id=agent_id, what="timers")
        return await self.timers(agent_id)

    # Talking.

    async def say(
        self,
        agent_id: str,
        said: str,
        *,
        request_id: str | None = None,
        reply_to: Mapping[str, str] | None = None,
    ) -> WakeView:
        """Say something to a companion: it answers in the conversation with it.

        An open question that these words answer is answered by them; where the run that asked goes
        on with it, nothing else is said. `reply_to` names another place where the answer is waited
        for. Raises `CompanionInvalid` for no words at all, and `Stopped` while a switch is on.
        """
        text = said.strip()
        if not 0 < len(text) <= _LONGEST_SAYING:
            raise CompanionInvalid(f"Say something, in at most {_LONGEST_SAYING:,} characters.")
        item = await self._answered_by(agent_id, text)
        if item is not None:
            woken = await self._answer(item.id, text, reply_to=reply_to)
            return woken or WakeView(run_key=item.run_key, agent_id=agent_id, replies=False)
        await self._switches.require(agent_id)
        job = await self._lifecycle.say(agent_id, text, turn_id=request_id, reply_to=reply_to)
        return WakeView(run_key=job.run_key, agent_id=agent_id)

    async def _answered_by(self, agent_id: str, text: str) -> AgentPromptItem | None:
        """The question that these words answer, if there is one only that it can be.

        A yes or no, one of the choices, and a time where one was asked for are understood in words;
        other free text answers a question only where it is given as its answer.
        """
        items = await self._prompts.open_items(agent_id)
        found = [item for item in items if choice_meant(item, text) is not None]
        found = found or [
            item
            for item in items
            if item.interaction_type is AgentInteractionType.FREE_TEXT
            and answers_how_long(item.prompt_text, text)
        ]
        return found[0] if len(found) == 1 else None

    async def conversation(
        self, agent_id: str, *, before: datetime | None = None, limit: int = 30
    ) -> ConversationView:
        """What was said between the owner and this companion, and what it did; oldest first."""
        await self._store.require(Companion, agent_id)
        return await self.conversations.read(agent_id, before=before, limit=limit)

    async def end_conversation(self, agent_id: str) -> ConversationView:
        """End the conversation that is open; what was said stays, and becomes memory."""
        session = await self._lifecycle.end_session(agent_id)
        if session is not None:
            await self._ended(session)
        return await self.conversation(agent_id)

    async def let_go(self, agent_id: str, words: str) -> CompanionDetail:
        """Have it keep a goal or a wish of yours no longer; raises `CompanionInvalid`."""
        if not await self._lifecycle.let_go(agent_id, words):
            raise CompanionInvalid("It keeps nothing like that.")
        await self._audit.log("companion_configured", agent_id=agent_id, what="wishes")
        return await self.show(agent_id)

    # Waking, resting, ending.

    async def wake(
        self, agent_id: str, *, said: str | None = None, request_id: str | None = None
    ) -> WakeView:
        """Wake a companion now, or say something to it; raises `Stopped` while a switch is on."""
        await self._switches.require(agent_id)
        if said is not None:
            return await self.say(agent_id, said, request_id=request_id)
        job = await self._lifecycle.wake(agent_id, request_id=request_id)
        return WakeView(run_key=job.run_key, agent_id=agent_id)

    async def again(self, run_key: str, *, by_rules: bool = False) -> WakeView:
        """Carry a run out once more for the same cause; `by_rules` asks no model this time.

        Raises `CompanionInvalid` for one that has not ended, and `Stopped` while a switch is on.
        """
        run = await self._store.require(WakeRun, await self._run_key(run_key))
        if not run.status.is_terminal:
            raise CompanionInvalid("This run has not ended yet.")
        await self._switches.require(run.agent_id)
        job = await self._lifecycle.again(run, by_rules=by_rules)
        await self._audit.log(
            "companion_run_again", agent_id=run.agent_id, run_key=run.run_key, by_rules=by_rules
        )
        return WakeView(run_key=job.run_key, agent_id=job.agent_id)

    async def pause(self, agent_id: str) -> CompanionView:
        """Let it rest until it is resumed; what runs stops at its next step."""
        await self._lifecycle.pause(agent_id)
        await self._audit.log("companion_paused", agent_id=agent_id)
        return await self._one(agent_id)

    async def resume(self, agent_id: str) -> CompanionView:
        """Let it go on, or wake it up; what the owner has approved meanwhile is done now."""
        await self._lifecycle.resume(agent_id)
        await self._audit.log("companion_resumed", agent_id=agent_id)
        await self._resumption.settle()
        return await self._one(agent_id)

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
        await self._operations.cancel_all(agent_id, error="agent_destroyed")
        await self._audit.log("companion_destroyed", agent_id=agent_id)
        return await self._one(agent_id)

    # Versions of their kinds, what they are held to, and what was odd.

    async def rollout(self, agent_id: str) -> Rollout:
        """How the versions of a companion's kind do with it, and whether there is a newer one."""
        return await self._rollouts.of(agent_id)

    async def adopt_version(self, agent_id: str) -> Rollout:
        """Give this one companion the newest version of its kind."""
        done = await self._rollouts.adopt(agent_id)
        await self._audit.log("companion_version", agent_id=agent_id, version=done.version)
        return done

    async def previous_version(self, agent_id: str) -> Rollout:
        """Give it the version that it had before."""
        done = await self._rollouts.back(agent_id)
        await self._audit.log("companion_version", agent_id=agent_id, version=done.version)
        return done

    async def objectives(self, agent_id: str | None = None) -> tuple[Objective, ...]:
        """What companions are held to, and how it is."""
        return await self._rollouts.objectives(agent_id)

    async def diagnostics(self, agent_id: str | None = None) -> tuple[DiagnosticView, ...]:
        """What was odd and was handled, the newest first."""
        where = {} if agent_id is None else {"agent_id": agent_id}
        found = await self._store.find(Diagnostic, where, newest_first=True, limit=100)
        return tuple(
            DiagnosticView(**each.model_dump(include=set(DiagnosticView.model_fields)))
            for each in found
        )

    # Forgetting.

    async def forget(self, wish: ErasureWish, *, really: bool = False) -> ErasureReceipt:
        """Let companions forget what is wished; without `really`, only say what would go.

        Raises `CompanionUnknown`, or `CompanionInvalid` if nobody could mean this.
        """
        if wish.agent_id is not None:
            await self._store.require(Companion, wish.agent_id)
        if not really:
            return await self._erasure.preview(wish)
        if wish.whole and wish.agent_id is not None:
            known = await self._store.require(Companion, wish.agent_id)
            if not known.is_destroyed:
                await self.destroy(wish.agent_id)
        receipt = await self._erasure.erase(wish)
        await self._audit.log(
            "companions_forgot",
            erasure_id=receipt.id,
            agent_id=receipt.agent_id,
            category_id=receipt.category_id,
            words_digest=receipt.words_digest,
            removed=sum(receipt.removed.values()),
            redacted=sum(receipt.redacted.values()),
        )
        return receipt

    async def forgotten(self, agent_id: str | None = None) -> tuple[ErasureReceipt, ...]:
        """The receipts of what was forgotten, the newest first; of one companion, or all."""
        found = await self._erasure.receipts()
        return tuple(
            each
            for each in found
            if agent_id is None or agent_id in (*each.companions, each.agent_id)
        )

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
            await self._switches.engage(scope, target, reason=reason)
        finally:
            # Also if the disk is full: what runs is asked to stop, whatever can be written down.
            if scope is not StopScope.TOOL_CLASS:
                self._worker.call_off(target)
        # The chain cannot be changed, and a reason may be forgotten: it stands with the switch.
        said = digest("reason", reason)[:16] if reason is not None else None
        await self._audit.log(
            "companions_stopped", scope=scope.value, target=target, reason_digest=said
        )
        return await self.switches()

    async def release(
        self, scope: StopScope = StopScope.GLOBAL, target: str | None = None
    ) -> tuple[SwitchView, ...]:
        """Release one switch; what was approved meanwhile is done now."""
        await self._switches.release(scope, target)
        await self._audit.log("companions_released", scope=scope.value, target=target)
        await self._resumption.settle()
        return await self.switches()

    async def resume_all(self) -> tuple[SwitchView, ...]:
        """Release every switch."""
        for switch in await self._switches.engaged():
            await self._switches.release(switch.scope, switch.target)
        await self._audit.log("companions_released", scope="all", target=None)
        await self._resumption.settle()
        return await self.switches()

    async def switches(self) -> tuple[SwitchView, ...]:
        """The switches that are on."""
        engaged = await self._switches.engaged()
        names = await self._names_of({each.target for each in engaged if each.target})
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

    async def answer(self, question_id: str, said: str) -> WakeView | None:
        """Answer a question: what waited for it goes on, or else the companion hears it."""
        return await self._answer(question_id, said)

    async def _answer(
        self, question_id: str, said: str, *, reply_to: Mapping[str, str] | None = None
    ) -> WakeView | None:
        response = await self._prompts.answer(question_id, said)
        released = await self._resumption.answered(question_id)
        sleeps = await self._prompts.sleep_agreed(response)
        if sleeps is not None:
            await self._lifecycle.sleep(response.agent_id, sleeps)
            await self._audit.log("companion_sleeps", agent_id=response.agent_id)
            return None
        if released and response.response["answer"] in ("yes", "no"):
            return None
        meant = str(response.response["answer"])
        job = await self._lifecycle.say(
            response.agent_id, meant, turn_id=response.id, reply_to=reply_to
        )
        return WakeView(run_key=job.run_key, agent_id=response.agent_id)

    async def leave(self, question_id: str) -> None:
        """Leave a question unanswered: what waited for it ends, and it rests for a week."""
        await self._prompts.leave(question_id)
        await self._resumption.reconcile()
        await self._resumption.settle()

    # What the runtime calls.

    async def decided(self, operation_id: str) -> None:
        """The owner has decided about the card of this action."""
        await self._resumption.follow(operation_id)

    async def recover(self) -> int:
        """At the start: bring to its end what a crash has left; returns how much that was."""
        await self._projections.keep()
        dead = await self._budgets.settle_dead()
        return dead + await self._resumption.recover()

    async def expire(self) -> int:
        """End what nobody has answered in time, and writes that a failed run has left."""
        late = await self._prompts.expire_due()
        left = await self._resumption.reconcile()
        return len(late) + left + await self._resumption.settle()

    async def _require_possible(
        self, wanted: NewCompanion | Companion, model_id: str | None
    ) -> None:
        if not wanted.allowed_category_ids:
            raise CompanionInvalid("Name at least one category: a companion sees no others.")
        known = [each.id for each in await self._journal.categories()]
        missing = sorted(set(wanted.allowed_category_ids) - set(known))
        if missing:
            raise CompanionInvalid(f"There is no category {', '.join(missing)}.")
        if model_id is not None and not self._door.knows(model_id):
            known_models = ", ".join(each.model_id for each in self.models()) or "there are none"
            raise CompanionInvalid(
                f"{model_id} is not among the configured models: {known_models}."
            )

    async def _asking_from(self, agent_id: str, level: RiskLevel) -> Callable[[Transaction], None]:
        known = await self._definitions.of(agent_id)
        changed = checked(CompanionDefinition, {**known.model_dump(), "confirm_from": level})
        return lambda tx: self._definitions.keep_in(tx, agent_id, changed)

    async def _move_subscriptions(self, agent_id: str, category_ids: tuple[str, ...]) -> None:
        definition = await self._definitions.of(agent_id)
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


def _timer_view(timer: AgentTimer, owners_zone: str) -> TimerView:
    when = weekly(timer)
    return TimerView(
        id=timer.id,
        words=spoken_timer(timer),
        kind=timer.kind,
        at=when.at if when else None,
        days=when.days if when else (),
        active=timer.active,
        next_run_at=timer.next_run_at if timer.active else None,
        time_zone=zone_of(timer, owners_zone).key,
    )
