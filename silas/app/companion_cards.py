"""Companions' actions before the owner: a sealed card, a signed answer, a token for its bytes.

1. The card shows the action whole: its body is what is hashed and signed.
2. The card's id follows from the action and its hash, so asking again is asking once.
3. A yes is an answer that the owner has signed over the whole card. Only then is a token issued,
   for exactly the bytes in the card.
4. Using the token up and checking it is the approval engine's, as for every plan. A yes leads to
   one token, and only for a while; what was done under it is not done again.
"""

from datetime import datetime, timedelta

from silas.app.ground import Ground
from silas.approval import ApprovalDecision, ApprovalScope, ApprovalToken, ApprovalVerdict
from silas.companions.ids import digest
from silas.companions.ports import ApprovableAction
from silas.companions.words import spoken_change, spoken_tool
from silas.kernel import ApprovalError, TaintLevel, canonical_bytes
from silas.stream.errors import CardUnknown
from silas.stream.review.models import QUESTION, Action, Content, Kind, Question
from silas.stream.review.store import QuestionStore

_ONE_CALL = frozenset({ApprovalScope.SINGLE_STEP})
_LIFETIME = timedelta(days=7)
_YES = "approve"
_ACTIONS = [Action(value=_YES, label="Do it"), Action(value="decline", label="No")]
_OPEN = "open"
_MOST_TOLD = 8


class CardApprovals:
    """`silas.companions.ports.ActionApprovals`."""

    def __init__(self, ground: Ground, questions: QuestionStore) -> None:
        self._ground = ground
        self._questions = questions

    async def ask(self, action: ApprovableAction, *, taint: TaintLevel) -> None:
        """Put the action before the owner, once (rule 2)."""
        try:
            await self._questions.get(card_id(action))
        except CardUnknown:
            await self._questions.ask(self._card(action, taint))

    async def token_for(self, action: ApprovableAction) -> ApprovalToken | None:
        """A token, if the owner has signed a yes to exactly this (rule 3)."""
        answered = await self._answered(card_id(action))
        if answered is None:
            return None
        question, value, decided_at = answered
        shown = canonical_bytes(question.content.body["action"])
        if value != _YES or shown != action.plan_bytes():
            return None
        yes = ApprovalDecision(verdict=ApprovalVerdict.APPROVED)
        try:
            return await self._ground.approvals.token_for(
                action, yes, ApprovalScope.SINGLE_STEP, decided_at=decided_at
            )
        except ApprovalError as error:
            name = question.question_id
            await self._ground.audit.log("decision_refused", card_id=name, reason=error.message)
            return None

    async def declined(self, action: ApprovableAction) -> bool:
        """Whether the owner said no, or the time to answer is over."""
        try:
            question = await self._questions.get(card_id(action))
        except CardUnknown:
            return False
        if question.state == _OPEN:
            return self._ground.clock.now() >= question.expires_at
        answered = await self._answered(question.question_id)
        if answered is None or answered[1] != _YES:
            return True
        return not await self._is_current(action, answered[2])

    async def _is_current(self, action: ApprovableAction, decided_at: datetime | None) -> bool:
        """Whether a yes can still lead to something, or has led to a token already."""
        approvals = self._ground.approvals
        if decided_at is not None and approvals.is_current(decided_at):
            return True
        return await approvals.tokens.any_for(action.id)

    async def consume(self, token: ApprovalToken, action: ApprovableAction) -> tuple[bool, str]:
        """Use the token up for exactly this action."""
        return await self._ground.approvals.verify(token, action, accept=_ONE_CALL)

    async def check(self, token: ApprovalToken, action: ApprovableAction) -> tuple[bool, str]:
        """At the door of the tool."""
        return await self._ground.approvals.enter(token, action, accept=_ONE_CALL)

    async def carried_out(self, token: ApprovalToken, action: ApprovableAction) -> None:
        """After the deed."""
        await self._ground.approvals.carried_out(token, action)

    async def withdraw(self, agent_id: str) -> None:
        """Take the open cards of a companion away."""
        for question in await self._questions.open():
            if question.about.startswith(f"companion:{agent_id}:"):
                await self._questions.close(question.question_id, "outdated")

    async def _answered(self, name: str) -> tuple[Question, str, datetime | None] | None:
        try:
            found = await self._questions.answered(name)
        except CardUnknown:
            return None
        if found is None:
            return None
        question, answer = found
        said = str(answer.get("verdict") or answer.get("selected_value"))
        return question, said, await self._questions.answered_at(question, answer)

    def _card(self, action: ApprovableAction, taint: TaintLevel) -> Question:
        now, name = self._ground.clock.now(), card_id(action)
        return Question(
            question_id=name,
            scope_id=self._ground.settings.owner_id,
            trace_id=f"trace_{name}",
            about=f"companion:{action.agent_id}:{action.operation_id}",
            content=Content(
                kind=Kind.COMPANION,
                intent=_intent(action),
                rationale=action.reason or "It follows from what the companion is for.",
                risk=action.risk,
                taint=taint,
                actions=_ACTIONS,
                body={"question": _told(action), "action": dict(action.shown())},
            ),
            created_at=now,
            expires_at=now + _LIFETIME,
        )


def card_id(action: ApprovableAction) -> str:
    """The id of the card of an action, as it is shown now."""
    return f"{QUESTION}_{digest('companion_card', action.plan_bytes().decode())[:40]}"


def _told(action: ApprovableAction) -> str:
    """What would happen, in one line; the action below says it whole."""
    changes = action.preview.get("changes", ())
    told = list(map(spoken_change, changes))
    more = f" and {len(told) - _MOST_TOLD} more" if len(told) > _MOST_TOLD else ""
    return "; ".join(told[:_MOST_TOLD]) + more


def _intent(action: ApprovableAction) -> str:
    return f"{action.display_name} wants to {spoken_tool(action.tool_name)}"
