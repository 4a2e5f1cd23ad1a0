"""From the owner's decision to work that may run: asked, decided, attached (5.1.2, steps 5 to 8).

1. A call is shown with its exact arguments: the bytes whose hash its token is bound to.
2. How risky something is follows from what its tools declare, here and nowhere else. A tool that
   nobody has declared counts as irreversible. Which proof that needs is the review's to say.
3. Calls that wait together are decided together, or those that are chosen; each has its own token,
   used up in the transaction that stores the decision.
4. Files that work changed beyond its plan are such calls, each with its difference. Whoever takes
   some of the files on a card leaves the others on it.
5. The token of a plan is used up for its item and attached to it in the transaction that stores the
   decision (`plan_approval`). A goal's token is attached there; its tasks use it up one by one.
6. What the owner takes back (`revoke_approvals`) opens nothing any more, and the work that has it
   is cancelled, also in the middle, with everything below it. What would undo it with one tap does
   not, any more.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from silas.approval import ApprovalScope, ApprovalToken, ApprovalVerdict
from silas.approval.engine import ApprovalEngine
from silas.approval.errors import TokenUnknown
from silas.gates.risk import (
    ActionKind,
    EffectOf,
    Reversibility,
    RiskLevel,
    risk_of,
    risk_of_tool,
    riskiest,
)
from silas.kernel import (
    ApprovalError,
    TaintLevel,
    canonical_bytes,
    join_taint,
)
from silas.review import Approval, OwnersWord, QuestionKind, ShownQuestion, Tokens
from silas.review.decision_log import answered_entry
from silas.storage import Transaction
from silas.work.admission import NO_APPROVAL
from silas.work.control import Cancelled, WorkControl
from silas.work.effects import ChangeKind, executed_by
from silas.work.errors import WorkItemConflict, WorkItemUnknown
from silas.work.execution_context import Authority
from silas.work.ledger import revoke_undos
from silas.work.letters import is_written_out
from silas.work.models import ENDED_WELL, STOPPED_BY_OWNER, WorkItem, WorkItemType
from silas.work.paused import DecidedCall, KeptCall, Write, decided_entry
from silas.work.ports import Later, PausedCall
from silas.work.store import WorkItemStore, load_item, require_item

TAKE_OVER = "take_over"
"""What a waiting call is named that asks whether a file may be taken over. It is no tool."""
AFTER_STEP = "after_step"
"""What a waiting call is named that asks whether a step's result may stand. It is no tool."""
_QUIET = frozenset({ActionKind.OBSERVE, ActionKind.TIDY, ActionKind.CHANGE})
"""What speaks to nobody, and destroys nothing."""
_ONE_CALL = frozenset({ApprovalScope.SINGLE_STEP})


@dataclass(frozen=True)
class CallPayload:
    """One paused call as something to approve: its exact arguments, for this attempt alone."""

    id: str
    content: Mapping[str, Any]
    parent: str | None = None

    def plan_bytes(self) -> bytes:
        return canonical_bytes({"id": self.id, **self.content})

    def spawn_policy_bytes(self) -> bytes:
        return b""

    @property
    def plan_hash(self) -> str:
        """What a token for this call is bound to."""
        return hashlib.sha256(self.plan_bytes()).hexdigest()


def payload_of(call_id: str, call: PausedCall) -> CallPayload:
    """The call as it is shown and signed."""
    return CallPayload(call_id, call.model_dump(mode="json"))


def call_risk(call: PausedCall, effect_of: EffectOf) -> RiskLevel:
    """How risky one call is: what its tool declares, and what is signed (rule 2)."""
    if call.tool == TAKE_OVER:
        return _file_risk(call)
    tool = str(call.args.get("tool")) if call.tool == AFTER_STEP else call.tool
    return risk_of_tool(ApprovalScope.SINGLE_STEP, effect_of(tool), taint=call.taint)


def _file_risk(call: PausedCall) -> RiskLevel:
    """A file that is gone, or that others execute, does more than its content."""
    args = call.args
    removed = args.get("after") is None or args.get("kind") == ChangeKind.REMOVED
    runs = args.get("executable") or args.get("executed_by") or executed_by(str(args.get("path")))
    return RiskLevel.HIGH if removed or runs else RiskLevel.MEDIUM


def plan_risk(item: WorkItem, taint: TaintLevel, effect_of: EffectOf) -> RiskLevel:
    """How risky it is to approve this item, from what the runtime knows about it.

    Inside the sandbox everything can be thrown away. What an envelope or the network lets out
    cannot: it is as risky as the tool declares, and the worst if nobody has declared the tool.
    A plan that is nothing but calls as they are written shows all that it does: what it was derived
    from raises it only if it speaks to somebody or destroys something (`silas.work.letters`).
    """
    scope = scope_of(item)
    if is_written_out(item):
        return riskiest(
            RiskLevel.MEDIUM,
            *(_written_risk(each.tool, scope, effect_of) for each in item.approvals),
        )
    lets_out = item.approvals or item.reaches_network
    work = risk_of(
        scope,
        ActionKind.CHANGE,
        reversibility=Reversibility.HARD if lets_out else Reversibility.REVERSIBLE,
        taint=taint,
        inside_envelope=False,
    )
    outside = [risk_of_tool(scope, effect_of(each.tool), taint=taint) for each in item.approvals]
    return riskiest(work, *outside)


def final_lines(tools: Iterable[str], effect_of: EffectOf) -> list[str]:
    """What the owner is told, before the yes, about tools whose doing nothing takes back."""
    effects = {name: effect_of(name) for name in tools}
    final = [
        name
        for name, effect in effects.items()
        if effect is None or effect.reversibility is Reversibility.IRREVERSIBLE
    ]
    return [f"What {name} does cannot be undone." for name in final]


def plan_finals(items: Iterable[WorkItem], effect_of: EffectOf) -> list[str]:
    """The same about what plans let happen without asking again."""
    return final_lines((each.tool for item in items for each in item.approvals), effect_of)


def _written_risk(tool: str, scope: ApprovalScope, effect_of: EffectOf) -> RiskLevel:
    """Of a call that is shown whole; to whom it speaks may be new, until somebody knows better."""
    effect = effect_of(tool)
    level = risk_of_tool(scope, effect, taint=TaintLevel.OWNER, inside_envelope=True)
    quiet = effect is not None and effect.action in _QUIET
    return level if quiet else riskiest(level, RiskLevel.HIGH)


def scope_of(item: WorkItem) -> ApprovalScope:
    """What an approval of this item is for: a goal gets a standing one.

    Its uses are consumed one by one, by the tasks that it spawns.
    """
    goal = item.type is WorkItemType.GOAL
    return ApprovalScope.STANDING if goal else ApprovalScope.FULL_PLAN


def plan_scope(items: Sequence[WorkItem]) -> ApprovalScope:
    """What an approval of these items together is for."""
    scopes = {scope_of(item) for item in items}
    return ApprovalScope.STANDING if ApprovalScope.STANDING in scopes else ApprovalScope.FULL_PLAN


async def plans_of(items: WorkItemStore, names: Sequence[str]) -> list[Approval]:
    """What a yes to these plans approves, as they are stored now."""
    found = [item for name in names if (item := await items.get(name))]
    return [plan_approval(items, item) for item in found]


def plan_approval(items: WorkItemStore, item: WorkItem) -> Approval:
    """What a yes to this plan approves, and how its token reaches the item (rule 5)."""
    if item.status in STOPPED_BY_OWNER:
        return Approval(item, scope_of(item))
    return Approval(
        item,
        scope_of(item),
        use_at_once=item.type is not WorkItemType.GOAL,
        attach=lambda tx, token: items.attach_in(tx, item, token),
    )


def calls_question(
    calls: Sequence[tuple[str, PausedCall]], *, card_id: str, effect_of: EffectOf
) -> ShownQuestion:
    """These calls before the owner, each by its id (rule 1)."""
    return ShownQuestion(
        kind=QuestionKind.CALL,
        question_id=card_id,
        hashes={name: payload_of(name, call).plan_hash for name, call in calls},
        risk=riskiest(*(call_risk(call, effect_of) for _, call in calls)),
        taint=join_taint(*(call.taint for _, call in calls)),
        scope=ApprovalScope.SINGLE_STEP,
        intact=True,  # what is not as it was paused does not wait
    )


async def plan_question(authority: Authority, items: Sequence[WorkItem]) -> ShownQuestion:
    """These items before the owner, without a card of their own."""
    taints = [await authority.taint_of(item) for item in items]
    effect_of = authority.registry.effect_of
    risks = [plan_risk(item, taint, effect_of) for item, taint in zip(items, taints, strict=True)]
    return ShownQuestion(
        kind=QuestionKind.PLAN,
        question_id=authority.ids.new("decision"),
        hashes={item.id: item.plan_hash for item in items},
        risk=riskiest(*risks),
        taint=join_taint(*taints),
        scope=plan_scope(items),
        intact=True,
    )


async def authorise_call(authority: Authority, call: PausedCall) -> bool:
    """Let the owner decide about one call; False if the decision comes later.

    Raises `ApprovalError` if the answer is a no, and also if it comes later and this worker cannot
    wait for it.
    """
    if authority.approver is None:
        raise ApprovalError(
            f"This needs the owner's decision, and nobody can be asked: {call.reasons[0]}"
        )
    decided = await decide_call_now(authority, call)
    if decided is None:
        if authority.paused is None or authority.agent is None or not authority.agent.pauses:
            raise ApprovalError(
                "This needs the owner's decision, which cannot be waited for here: "
                f"{call.reasons[0]}"
            )
        return False
    if decided is not ApprovalVerdict.APPROVED:
        raise ApprovalError(f"The owner's verdict was {decided.value}: {call.reasons[0]}")
    return True


async def decide_call_now(authority: Authority, call: PausedCall) -> ApprovalVerdict | None:
    """What the owner decides about one call, at once, proven and stored; None if it is later."""
    if authority.approver is None:
        return ApprovalVerdict.DECLINED
    name = authority.ids.new("call")
    question = calls_question([(name, call)], card_id=name, effect_of=authority.registry.effect_of)
    word = await authority.approver.decide_call(call, question)
    if isinstance(word, Later):
        return None
    if word.decision.verdict is not ApprovalVerdict.APPROVED:
        return word.decision.verdict
    payload = payload_of(name, call)
    await authority.decisions.decide(
        question.asked(word.decision),
        word.proof,
        record=lambda _tx, _tokens: None,
        entries=[],
        approve=[Approval(payload, ApprovalScope.SINGLE_STEP, use_at_once=True)],
    )
    return ApprovalVerdict.APPROVED


async def decide_waiting(
    authority: Authority,
    shown: Sequence[KeptCall],
    word: OwnersWord,
    *,
    card_id: str,
    left: Sequence[KeptCall] = (),
    also: Write,
) -> None:
    """Store the owner's decision about calls that wait: all of them, or none (rules 3 and 4).

    It is about the calls as they were shown; executing their item then goes on. Those that are
    `left` are declined by it. `also` is written in the transaction that stores the decision. Raises
    `WorkItemConflict` if one of them does not wait any more.
    """
    paused, verdict = authority.paused, word.decision.verdict
    if paused is None:
        raise ApprovalError("Nothing can wait for a decision here.")
    calls = [await paused.find_call(each.id) for each in shown]
    for waiting, seen in zip(calls, shown, strict=True):
        if waiting.call != seen.call:
            raise WorkItemConflict(
                f"The call {seen.id} is not the one that was shown. See `silas work waiting`."
            )

    def record(tx: Transaction, tokens: Tokens) -> None:
        for waiting in calls:
            paused.decide_in(tx, waiting, verdict, tokens.get(waiting.id))
        for waiting in left:
            paused.decide_in(tx, waiting, ApprovalVerdict.DECLINED, None)
        also(tx)

    question = calls_question(
        [(each.id, each.call) for each in calls],
        card_id=card_id,
        effect_of=authority.registry.effect_of,
    )
    run = await paused.of(calls[0].call.work_item_id) if calls else None
    timed = run and answered_entry(
        card_id, verdict=verdict.value, risk=question.risk.value, asked_at=run.paused_at
    )
    approve = [
        Approval(payload_of(waiting.id, waiting.call), ApprovalScope.SINGLE_STEP, use_at_once=True)
        for waiting in calls
        if verdict is ApprovalVerdict.APPROVED
    ]
    await authority.decisions.decide(
        question.asked(word.decision, ids=[each.id for each in calls]),
        word.proof,
        record=record,
        entries=[
            *(decided_entry(waiting, verdict) for waiting in calls),
            *(decided_entry(waiting, ApprovalVerdict.DECLINED) for waiting in left),
            *([timed] if timed else []),
        ],
        approve=approve,
    )


async def require_decided(authority: Authority, decided: DecidedCall) -> None:
    """Raise `ApprovalError` unless the token was given for exactly this call."""
    payload = payload_of(decided.id, decided.call)
    valid, reason = await authority.approvals.check(decided.token, payload, accept=_ONE_CALL)
    if not valid:
        raise ApprovalError(f"The decision about this call is not valid: {reason}.")


async def authorise(
    authority: Authority, items: Sequence[WorkItem], question: ShownQuestion, word: OwnersWord
) -> list[WorkItem]:
    """The stored items with verified tokens; raises `ApprovalError` if there cannot be any.

    `question` is what the owner was shown, from `plan_question`.
    """
    verdict = word.decision.verdict
    if verdict is not ApprovalVerdict.APPROVED:
        for item in items:
            await authority.audit.log("plan_declined", work_item_id=item.id, verdict=verdict.value)
        raise ApprovalError(f"{items[0].id} was not approved.")
    if {item.id: item.plan_hash for item in items} != question.hashes:
        raise ApprovalError("This is not what was shown. Nothing was approved.")
    tokens = await authority.decisions.decide(
        question.asked(word.decision),
        word.proof,
        record=lambda _tx, _tokens: None,
        entries=[],
        approve=[plan_approval(authority.items, item) for item in items],
    )
    return [await _attached(authority, item.id, tokens[item.id]) for item in items]


async def _attached(authority: Authority, work_item_id: str, token: ApprovalToken) -> WorkItem:
    item = await require_item(authority.items, work_item_id)
    if item.approval_token is not None and item.approval_token.token_id == token.token_id:
        return item
    return await attach(authority, item, token)


@dataclass(frozen=True)
class Revoked:
    """What taking approvals back has done."""

    tokens: list[ApprovalToken]
    stopped: list[WorkItem]
    """Work that was under way, or waited, and has been cancelled with its approval."""


async def revoke_approvals(
    approvals: ApprovalEngine, items: WorkItemStore, control: WorkControl, name: str
) -> Revoked:
    """Take back one approval, or all that a work item has (rule 6); raises `TokenUnknown`."""
    named = await items.get(name)
    if named is not None and named.spawned_by is not None:
        raise TokenUnknown(
            f"{name} works under the approval of the goal {named.spawned_by}. Take that one back, "
            f"or end this task alone with `silas work cancel {name}`."
        )
    tokens, stopped = [], []
    for token_id in await approvals.tokens.in_force_for(name) or [name]:
        ended: list[Cancelled] = []

        def stop(tx: Transaction, token: ApprovalToken, ended: list[Cancelled] = ended) -> None:
            ended[:] = _stop_work_of(tx, control, token)
            revoke_undos(tx, token.token_id, approvals=approvals)

        tokens.append(await approvals.revoke(token_id, also=stop))
        stopped += await control.after_cancel(ended)
    return Revoked(tokens, stopped)


def _stop_work_of(tx: Transaction, control: WorkControl, token: ApprovalToken) -> list[Cancelled]:
    """Cancel the work that goes on under this approval, if there is any."""
    try:
        item = load_item(tx, token.work_item_id)
    except WorkItemUnknown:  # an approval of a call, or of something else that is no work item
        return []
    attached = item.approval_token
    if attached is None or attached.token_id != token.token_id or item.status in ENDED_WELL:
        return []
    return control.cancel_in(tx, item.id)


async def attach(authority: Authority, item: WorkItem, token: ApprovalToken) -> WorkItem:
    """Use the token up for an item that the decision found stopped, or an older version decided.

    Raises `ApprovalError`.
    """
    approvals = authority.approvals
    if item.type is WorkItemType.GOAL:
        valid, reason = await approvals.check_goal(token, item)
    else:
        valid, reason = await approvals.verify(token, item)
        if not valid:  # it may have been used up for this very item, just before a crash
            valid, _ = await approvals.check(token, item)
    if not valid:
        await authority.audit.log(NO_APPROVAL, work_item_id=item.id, reason=reason)
        raise ApprovalError(f"{item.id} cannot be executed: {reason}.")
    return await authority.items.save(item.model_copy(update={"approval_token": token}))
