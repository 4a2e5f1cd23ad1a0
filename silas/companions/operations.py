"""Operations: what a companion does, fixed before it is done, and never half of it.

1. An action's stable id follows from what it is: the tool, the arguments, the scope, the targets.
   Its place in the answer of a model plays no part.
2. Its operation id follows from the run and the stable id. A retry has the same, so it does nothing
   twice; the same action named twice in one answer is one action.
3. The plan of a run is written once. Whoever runs it again reads it instead of asking again.
4. What is to be written has one row, from here until it is in both databases. What waits for the
   owner is written down before anybody is asked, so that a crash in between asks again and not
   never; asking twice is asking once, because the card's id follows from the action.
5. Before the journal is touched, the call is written down (`planned`). The journal does it under
   the operation's id: once, however often it is asked. What came of it is written down
   (`journal_committed`), then the entries of the log together with the end (`agent_committed`), in
   one transaction.
6. What is over stays over. Only what failed without anybody having been asked may be begun again.
   A card that waits for the same action, or that was met with a no within a week, is not put
   before the owner once more: the companion is told so.

Companions' actions before the owner: a sealed card, a signed answer, a token for its bytes.

7. The card shows the action whole: its body is what is hashed and signed.
8. The card's id follows from the action and its hash, so asking again is asking once.
9. A yes is an answer that the owner has proven over the whole card. The token for exactly the bytes
   in the card is issued with it.
10. Using the token up and checking it is the approval engine's, as for every plan. A yes leads to
   one token, and only for a while; what was done under it is not done again.

Where there are no approvals, nothing that needs a yes is ever done.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic_core import to_jsonable_python

from silas.approval import ApprovalEngine, ApprovalScope, ApprovalToken
from silas.audit.models import AuditTrail
from silas.companions.erasure import ErasedElsewhere
from silas.companions.errors import (
    AlreadyAsked,
    AnswerRequired,
    ApprovalRefused,
    ConfirmationRequired,
    InvalidArguments,
)
from silas.companions.ids import action_stable_id, digest, operation_id, run_message_id
from silas.companions.messages import (
    WAITS,
    ActionPlan,
    AgentMessageMetadata,
    AgentOperation,
    LinkDraft,
    MessageDraft,
    PlannedAction,
    WakeJob,
)
from silas.companions.models import (
    AgentActionType,
    AgentLinkRelation,
    AgentMessageKind,
    OperationPhase,
    OperationStatus,
    WakeReason,
)
from silas.companions.ports import ApprovableAction, CompanionProposal, ProposedAction
from silas.companions.store import CompanionStore
from silas.companions.tools.registry import AgentToolCall, AgentToolResult
from silas.companions.words import spoken_change, spoken_tool
from silas.kernel import (
    ApprovalError,
    CanonicalError,
    Clock,
    TaintLevel,
    canonical_bytes,
)
from silas.kernel.models import Data
from silas.review.decisions import Decisions, QuestionKind
from silas.review.errors import CardUnknown
from silas.review.questions import (
    QUESTION,
    YES,
    AnsweredQuestion,
    Question,
    QuestionChoice,
    QuestionContent,
    QuestionStore,
)
from silas.review.unasked import UnaskedCards
from silas.storage import Durability, Transaction

_ONE_CALL = frozenset({ApprovalScope.SINGLE_STEP})
_LIFETIME = timedelta(days=7)
_ACTIONS = [QuestionChoice(value=YES, label="Do it"), QuestionChoice(value="decline", label="No")]
_OPEN = "open"
_MAX_CHANGES = 8
_QUIET = timedelta(days=7)
_LOOKED_BACK_AT = 100
_ASKED_FOR = frozenset({WakeReason.USER_INITIATED, WakeReason.MANUAL})
"""What the owner has begun: its cards are not counted as unasked."""


@dataclass
class ActionApprovals:
    """The cards of companions' actions, and the tokens that follow from the answers."""

    questions: QuestionStore
    unasked: UnaskedCards
    decisions: Decisions
    engine: ApprovalEngine
    audit: AuditTrail
    clock: Clock
    owner_id: str

    async def ask(self, action: ApprovableAction, call: AgentToolCall) -> None:
        """Put the action before the owner, once (rule 8): what he asked for himself, at once."""
        try:
            await self.questions.get(card_id(action))
        except CardUnknown:
            card = self._card(action, call.taint)
            if call.wake_reason in _ASKED_FOR:
                await self.questions.ask(card)
            else:
                await self.unasked.ask(card)

    async def token_for(self, action: ApprovableAction) -> ApprovalToken | None:
        """A token, if the owner has signed a yes to exactly this (rule 9)."""
        answered = await self._answered(card_id(action))
        if answered is None or answered.value != YES:
            return None
        name, body = answered.question.question_id, answered.question.content.body
        if canonical_bytes(body["action"]) != action.plan_bytes():
            return None
        try:
            return await self.decisions.token_of(answered.decision, action.id)
        except ApprovalError as error:
            await self.audit.log("decision_refused", card_id=name, reason=error.message)
            return None

    async def declined(self, action: ApprovableAction) -> bool:
        """Whether the owner said no, or the time to answer is over."""
        try:
            question = await self.questions.get(card_id(action))
        except CardUnknown:
            return False
        if question.state == _OPEN:
            return self.clock.now() >= question.expires_at
        answered = await self._answered(question.question_id)
        if answered is None or answered.value != YES:
            return True
        return not await self._is_current(action, answered.decision.decided_at)

    async def _is_current(self, action: ApprovableAction, decided_at: datetime | None) -> bool:
        """Whether a yes can still lead to something, or has led to a token already."""
        if decided_at is not None and self.engine.is_current(decided_at):
            return True
        return await self.engine.tokens.any_for(action.id)

    async def consume(self, token: ApprovalToken, action: ApprovableAction) -> tuple[bool, str]:
        """Use the token up for exactly this action; (False, why) if it cannot be used."""
        return await self.engine.verify(token, action, accept=_ONE_CALL)

    async def check(self, token: ApprovalToken, action: ApprovableAction) -> tuple[bool, str]:
        """Whether the token was used up for exactly this action; asked right before the write."""
        return await self.engine.enter(token, action, accept=_ONE_CALL)

    async def carried_out(self, token: ApprovalToken, action: ApprovableAction) -> None:
        """The action was done: the token is good for nothing any more."""
        await self.engine.carried_out(token, action)

    async def withdraw(self, agent_id: str) -> None:
        """Take the open cards of a companion away: it was stopped or destroyed."""
        for question in await self.questions.open():
            if question.about.startswith(f"companion:{agent_id}:"):
                await self.questions.close(question.question_id, "outdated")

    async def forget(self, about: ErasedElsewhere) -> Mapping[str, int]:
        """Erase what the cards and tokens of these companions show; what was signed stays."""
        if not about.really:
            return {}
        cards = [
            await self.questions.forget(f"companion:{each}:", about.fits)
            for each in sorted(about.agent_ids)
        ]
        tokens = await self.engine.tokens.forget_shown(
            about.fits_action, reason="What it approved was forgotten."
        )
        return {"cards": sum(cards), "approved bytes": tokens}

    async def _answered(self, name: str) -> AnsweredQuestion | None:
        try:
            return await self.questions.answered(name)
        except CardUnknown:
            return None

    def _card(self, action: ApprovableAction, taint: TaintLevel) -> Question:
        now, name = self.clock.now(), card_id(action)
        return Question(
            question_id=name,
            scope_id=self.owner_id,
            trace_id=f"trace_{name}",
            about=f"companion:{action.agent_id}:{action.operation_id}",
            content=QuestionContent(
                kind=QuestionKind.COMPANION,
                intent=_intent(action),
                rationale=action.reason or "It follows from what the companion is for.",
                risk=action.risk,
                taint=taint,
                actions=_ACTIONS,
                body={"question": _summary(action), "action": dict(action.shown())},
            ),
            created_at=now,
            expires_at=now + _LIFETIME,
        )


def card_id(action: ApprovableAction) -> str:
    """The id of the card of an action, as it is shown now."""
    return f"{QUESTION}_{digest('companion_card', action.plan_bytes().decode())[:40]}"


def _summary(action: ApprovableAction) -> str:
    """What would happen, in one line; the action below says it whole."""
    changes = action.preview.get("changes", ())
    sentences = list(map(spoken_change, changes))
    more = f" and {len(sentences) - _MAX_CHANGES} more" if len(sentences) > _MAX_CHANGES else ""
    return "; ".join(sentences[:_MAX_CHANGES]) + more


def _intent(action: ApprovableAction) -> str:
    return f"{action.display_name} wants to {spoken_tool(action.tool_name)}"


_TARGETS = ("_id", "_ids")


MAX_WAITING = 20
"""How many cards of one companion may be open at once, and how many actions wait for answers."""


class MessageProvenance(Data):
    """Which prompt and which model an entry of the log comes from."""

    prompt_id: str | None = None
    prompt_version: str | None = None
    model_id: str | None = None


def plan_key(run_key: str, number: int) -> str:
    """The key of the plan of one round of a run."""
    return run_key if number == 0 else f"{run_key}.{number}"


def make_plan(
    job: WakeJob,
    proposal: CompanionProposal,
    *,
    number: int,
    scope: Sequence[str],
    at: datetime,
) -> ActionPlan:
    """The plan of a proposal; each action once, in its order (rules 1 and 2)."""
    planned: dict[str, PlannedAction] = {}
    for action in proposal.actions:
        each = planned_action(job.run_key, action, scope=scope)
        planned.setdefault(each.operation_id, each)
    return ActionPlan(
        run_key=plan_key(job.run_key, number),
        agent_id=job.agent_id,
        actions=tuple(planned.values()),
        proposal=proposal.model_dump(mode="json"),
        created_at=at,
    )


def planned_action(run_key: str, action: ProposedAction, *, scope: Sequence[str]) -> PlannedAction:
    """The action with its ids; raises `InvalidArguments` if they have no canonical form."""
    arguments = _arguments(action)
    try:
        hashed = digest("arguments", arguments)
    except CanonicalError as error:
        raise InvalidArguments(f"These arguments cannot be written down: {error}.") from error
    targets = target_refs(arguments)
    name = action.tool_name or action.action_type.value
    stable = action_stable_id(name, hashed, scope=scope, target_refs=targets)
    return PlannedAction(
        action_stable_id=stable,
        operation_id=operation_id(run_key, stable),
        action_type=action.action_type,
        tool_name=action.tool_name,
        arguments=arguments,
        arguments_hash=hashed,
        scope_snapshot=tuple(sorted(scope)),
        target_refs=targets,
    )


def is_genuine(call: AgentToolCall) -> bool:
    """Whether the operation id of a call is that of this very action in this very run."""
    scope = sorted(call.scope.allowed_category_ids)
    action = ProposedAction(
        action_type=AgentActionType.TOOL_CALL, tool_name=call.tool_name, arguments=call.arguments
    )
    return planned_action(call.run_key, action, scope=scope).operation_id == call.operation_id


def target_refs(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """The ids that the arguments name, wherever they stand."""
    found: list[str] = []
    for key, value in sorted(arguments.items()):
        if key.endswith(_TARGETS) or key == "id":
            found += [str(each) for each in (value if isinstance(value, list) else [value]) if each]
        elif isinstance(value, list):
            for each in value:
                found += target_refs(each) if isinstance(each, dict) else ()
    return tuple(sorted(set(found)))


def action_draft(
    planned: PlannedAction, *, job: WakeJob, reason: str, provenance: MessageProvenance
) -> MessageDraft:
    """The action as an entry of the log."""
    return MessageDraft(
        agent_id=job.agent_id,
        thread_id=job.thread_id,
        kind=AgentMessageKind.ACTION,
        message_id=action_message_id(job.run_key, planned.operation_id),
        trigger_source_id=job.reason_id,
        content={"arguments": planned.arguments, "reason": reason},
        metadata=AgentMessageMetadata(
            action_type=planned.action_type.value,
            tool_name=planned.tool_name,
            operation_id=planned.operation_id,
            arguments_hash=planned.arguments_hash,
            scope_snapshot=planned.scope_snapshot,
            **provenance.model_dump(),
        ),
    )


def result_draft(
    result: AgentToolResult,
    *,
    agent_id: str,
    thread_id: str,
    run_key: str,
    step: str = "first",
    provenance: MessageProvenance | None = None,
    decided: Mapping[str, Any] | None = None,
) -> MessageDraft:
    """What came of an action, as an entry of the log; `step` tells a later one from the first.

    `decided` is what the owner has decided about it, with what it was about.
    """
    return MessageDraft(
        agent_id=agent_id,
        thread_id=thread_id,
        kind=AgentMessageKind.TOOL_RESULT,
        message_id=run_message_id(run_key, f"result:{result.operation_id}:{step}"),
        content={"payload": result.payload, **(decided or {})},
        metadata=AgentMessageMetadata(
            action_type=AgentActionType.TOOL_CALL.value,
            tool_name=result.tool_name,
            action_ref_id=action_message_id(run_key, result.operation_id),
            operation_id=result.operation_id,
            changed_entity_ids=result.changed_entity_ids,
            changed_tokens=result.changed_tokens,
            status=result.status,
            error_code=result.error_code,
            error_message=result.error_message,
            **(provenance or MessageProvenance()).model_dump(),
        ),
        links=tuple(
            LinkDraft(relation=AgentLinkRelation.TOOL_EFFECT, to_id=each)
            for each in result.changed_entity_ids
        ),
    )


def action_message_id(run_key: str, operation: str) -> str:
    """The id of the entry that holds an action."""
    return run_message_id(run_key, f"action:{operation}")


def _arguments(action: ProposedAction) -> dict[str, Any]:
    """The arguments in JSON's types; for what is no tool, what it asks or wants."""
    if action.action_type is AgentActionType.TOOL_CALL:
        given: Any = action.arguments
    elif action.question is not None:
        given = action.question.model_dump()
    else:
        given = {"sleep_until": action.sleep_until}
    plain: dict[str, Any] = to_jsonable_python(given)
    return plain


class Operations:
    """The operations of this device's companions, and how far each has come.

    Without approvals nobody can be asked, so what needs a yes is refused.
    """

    def __init__(self, store: CompanionStore, approvals: ActionApprovals | None) -> None:
        self._store = store
        self.approvals = approvals

    async def get(self, operation_id: str) -> AgentOperation | None:
        """The operation, also if it is over."""
        return await self._store.get(AgentOperation, operation_id)

    async def pending(
        self, *phases: OperationPhase, agent_id: str | None = None
    ) -> list[AgentOperation]:
        """The operations in these phases that are not over, oldest first; of one, or of all."""
        where: dict[str, Any] = {"status": OperationStatus.PENDING}
        if agent_id is not None:
            where["agent_id"] = agent_id
        found = await self._store.find(AgentOperation, where)
        return [each for each in found if each.phase in phases]

    # Waiting for the owner (rule 4).

    async def hold(self, call: AgentToolCall, action: ApprovableAction) -> None:
        """Let the action wait for a card; raises `ConfirmationRequired` if nobody can be asked."""
        if self.approvals is None:
            raise ConfirmationRequired(
                "This needs your approval, and nobody can be asked here. Nothing was done."
            )
        await self._require_new(call)
        count = await self._others(call, OperationPhase.WAITING)
        if count >= MAX_WAITING:
            raise ConfirmationRequired(
                f"{count} of its actions wait for you already. Decide about those first."
            )
        kept = await self._wait(
            call,
            phase=OperationPhase.WAITING,
            reason=action.reason,
            approvable=action.model_dump(mode="json"),
        )
        if kept.phase is OperationPhase.WAITING and not kept.is_over:
            await self.approvals.ask(action, call)

    async def block(
        self, call: AgentToolCall, *, prompt_item_ids: tuple[str, ...], reason: str
    ) -> None:
        """Let the action wait for answers; raises `AnswerRequired` if too many do already."""
        count = await self._others(call, OperationPhase.BLOCKED)
        if count >= MAX_WAITING:
            raise AnswerRequired(f"{count} of its actions wait for your answers already.")
        await self._wait(
            call, phase=OperationPhase.BLOCKED, reason=reason, prompt_item_ids=prompt_item_ids
        )

    async def approved(self, operation_id: str) -> None:
        """The owner's token was used up for it."""
        await self._change(operation_id, phase=OperationPhase.APPROVED, last_error=None)

    async def keep_token(self, operation_id: str, token: ApprovalToken) -> None:
        """Write down the token that was issued, before it is used."""
        await self._change(
            operation_id, durability=Durability.TRUST, token=token.model_dump(mode="json")
        )

    async def end(
        self, operation_id: str, status: OperationStatus, *, error: str | None = None
    ) -> None:
        """End it without a result; nothing happens if it is over already (rule 6)."""
        await self._store.transaction(lambda tx: self.end_in(tx, operation_id, status, error=error))

    def end_in(
        self,
        tx: Transaction,
        operation_id: str,
        status: OperationStatus,
        *,
        error: str | None = None,
    ) -> None:
        """The same in the transaction that writes the log."""
        known = self._store.get_in(tx, AgentOperation, operation_id)
        if known is None or known.is_over:
            return
        changes: dict[str, Any] = {"status": status, "last_error": error}
        if status is OperationStatus.DONE:
            changes["phase"] = OperationPhase.AGENT_COMMITTED
        self._put_in(tx, known, **changes)

    async def cancel_all(self, agent_id: str, *, error: str) -> int:
        """End everything of this companion's that waits, and take its cards away."""
        waiting = await self.pending(*WAITS, agent_id=agent_id)
        for each in waiting:
            await self.end(each.operation_id, OperationStatus.CANCELLED, error=error)
        if self.approvals is not None and waiting:
            await self.approvals.withdraw(agent_id)
        return len(waiting)

    # Writing to both databases (rule 5).

    async def begin(self, call: AgentToolCall) -> None:
        """Write the call down before the journal is touched; raises `ApprovalRefused` (rule 6)."""

        def write(tx: Transaction) -> None:
            known = self._store.get_in(tx, AgentOperation, call.operation_id)
            if known is None or known.status is OperationStatus.FAILED:
                self._store.put_in(tx, self._fresh(call, attempt_count=1))
                return
            if known.is_over and known.status is not OperationStatus.DONE:
                raise ApprovalRefused(f"This was {known.status} before. Nothing was done.")
            self._put_in(tx, known, attempt_count=known.attempt_count + 1)

        await self._store.transaction(write)

    async def failed(self, operation_id: str, error: str) -> None:
        """The journal refused it, or nobody wants it any more: nothing was written.

        What has waited for the owner is not over by that: it ends, or goes on, with its result.
        """

        def write(tx: Transaction) -> None:
            known = self._store.get_in(tx, AgentOperation, operation_id)
            if known is None:
                return  # it was forgotten meanwhile
            over = {} if known.has_waited else {"status": OperationStatus.FAILED}
            self._put_in(tx, known, last_error=error, **over)

        await self._store.transaction(write)

    async def journal_committed(self, operation_id: str, result: AgentToolResult) -> None:
        """The journal has it."""

        def write(tx: Transaction) -> None:
            known = self._store.get_in(tx, AgentOperation, operation_id)
            if known is not None and not known.is_over:
                phase, made = OperationPhase.JOURNAL_COMMITTED, result.model_dump(mode="json")
                self._put_in(tx, known, phase=phase, result=made)

        await self._store.transaction(write)

    def finish_in(self, tx: Transaction, operation_id: str) -> None:
        """Its entries in the log are in this transaction, too.

        What has waited is finished by whoever has followed the owner's answer.
        """
        known = self._store.get_in(tx, AgentOperation, operation_id)
        if known is not None and not known.has_waited:
            self.end_in(tx, operation_id, OperationStatus.DONE)

    async def _require_new(self, call: AgentToolCall) -> None:
        """Raise `AlreadyAsked` for an action that was on a card before (rule 6)."""
        mine = {"agent_id": call.agent_id}
        newest = await self._store.find(
            AgentOperation, mine, newest_first=True, limit=_LOOKED_BACK_AT
        )
        now = self._store.clock.now()
        for each in newest:
            same = (each.call.get("tool_name"), each.call.get("arguments")) == (
                call.tool_name,
                call.arguments,
            )
            if not same or each.operation_id == call.operation_id or each.approvable is None:
                continue
            declined = each.status is OperationStatus.DECLINED and now - each.updated_at < _QUIET
            if declined or not each.is_over:
                raise AlreadyAsked

    async def _others(self, call: AgentToolCall, phase: OperationPhase) -> int:
        """How many other actions of this companion wait: not more than a person can look at."""
        waiting = await self.pending(phase, agent_id=call.agent_id)
        known = {each.operation_id for each in waiting}
        return 0 if call.operation_id in known else len(known)

    async def _wait(
        self, call: AgentToolCall, *, phase: OperationPhase, **more: Any
    ) -> AgentOperation:
        def write(tx: Transaction) -> AgentOperation:
            known = self._store.get_in(tx, AgentOperation, call.operation_id)
            goes_on = known is not None and known.phase is OperationPhase.BLOCKED
            to_a_card = goes_on and phase is OperationPhase.WAITING
            if known is not None and known.has_waited and (known.is_over or not to_a_card):
                return known
            self._store.require_alive_in(tx, call.agent_id)
            if known is not None and to_a_card:
                return self._put_in(tx, known, phase=phase, **more)
            return self._store.put_in(tx, self._fresh(call, phase=phase, **more))

        return await self._store.transaction(write)

    def _fresh(self, call: AgentToolCall, **more: Any) -> AgentOperation:
        now = self._store.clock.now()
        return AgentOperation(
            operation_id=call.operation_id,
            agent_id=call.agent_id,
            run_key=call.run_key,
            thread_id=call.thread_id,
            call=call.model_dump(mode="json"),
            created_at=now,
            updated_at=now,
            **more,
        )

    async def _change(
        self, operation_id: str, *, durability: Durability = Durability.ORDINARY, **changes: Any
    ) -> None:
        def write(tx: Transaction) -> None:
            known = self._store.require_in(tx, AgentOperation, operation_id)
            self._put_in(tx, known, **changes)

        await self._store.transaction(write, durability=durability)

    def _put_in(self, tx: Transaction, known: AgentOperation, **changes: Any) -> AgentOperation:
        changes["updated_at"] = self._store.clock.now()
        return self._store.put_in(tx, known.model_copy(update=changes))
