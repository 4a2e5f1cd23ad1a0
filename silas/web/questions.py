"""Questions as the page gets them, and its answers.

A question carries the very bytes that are signed. The words on its buttons, its risk and their
order are the runtime's; the page reads everything else from those bytes.
"""

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any

from silas.approval import ApprovalDecision, ApprovalVerdict
from silas.gates.risk import interaction_for
from silas.stream.cards import CardStore
from silas.stream.errors import CardNotOpen, CardUnknown, DecisionNotSigned
from silas.stream.review.models import Kind, Question
from silas.stream.review.store import QuestionStore
from silas.web import wire

_KINDS: Mapping[type[wire.Answer], Collection[Kind]] = MappingProxyType(
    {
        wire.GateResponse: {Kind.GATE},
        wire.BatchReviewResponse: {Kind.BATCH},
        wire.DraftReviewResponse: {Kind.DRAFT},
        wire.DecisionResponse: {Kind.DECISION, Kind.COMPANION, Kind.MEMORY},
        wire.SuggestionResponse: {Kind.SUGGESTION},
        wire.AutonomyThresholdResponse: {Kind.AUTONOMY},
        wire.ConnectionSetupResponse: {Kind.CONNECTION_SETUP},
        wire.PermissionEscalationResponse: {Kind.PERMISSION},
        wire.ConnectionFailureResponse: {Kind.CONNECTION_FAILURE},
    }
)
_VERDICTS = {"approve": ApprovalVerdict.APPROVED, "decline": ApprovalVerdict.DECLINED}
_NOT_SAID = {"type", "request_id", "signature"}


def shown_question(question: Question) -> wire.Asked:
    """The question whole."""
    content, interaction = question.content, interaction_for(question.content.risk)
    common = {
        "request_id": question.question_id,
        "title": content.intent,
        "risk_level": content.risk,
        "rationale": content.rationale,
        "steps": interaction.steps,
        "details_expanded": interaction.details_expanded,
        "actions": [
            wire.ActionShown(value=each.value, label=each.label) for each in content.actions
        ],
        "shown": wire.PlanShown(
            id=question.question_id,
            plan=content.to_bytes().decode(),
            plan_hash=question.content_hash,
        ),
        "taint": content.taint.value,
        "trace_id": question.trace_id,
        "state": question.state,
        "created_at": question.created_at,
        "expires_at": question.expires_at,
    }
    return _FRAMES[content.kind](common, content.body)


Frame = Callable[[dict[str, Any], Mapping[str, Any]], wire.Asked]


def _decision(common: dict[str, Any], body: Mapping[str, Any]) -> wire.Asked:
    options = [
        {"label": each.label, "value": each.value, "approval_tier": "tap"}
        for each in common["actions"]
    ]
    free = bool(body.get("allow_freetext"))
    question = str(body.get("question", ""))
    return wire.Decision(**common, question=question, options=options, allow_freetext=free)


def _proposal(common: dict[str, Any], body: Mapping[str, Any]) -> wire.Asked:
    return wire.AutonomyThresholdReview(**common, proposal=dict(body))


_FRAMES: Mapping[Kind, Frame] = MappingProxyType(
    {
        Kind.BATCH: lambda common, body: wire.BatchReview(**common, batch=dict(body)),
        Kind.DRAFT: lambda common, body: wire.DraftReview(**common, **body),
        Kind.DECISION: _decision,
        Kind.COMPANION: _decision,
        Kind.MEMORY: _decision,
        Kind.SUGGESTION: lambda common, body: wire.Suggestion(**common, suggestion=dict(body)),
        Kind.AUTONOMY: _proposal,
        Kind.GATE: lambda common, body: wire.GateApproval(**common, **body),
        Kind.CONNECTION_SETUP: lambda common, body: wire.ConnectionSetupStep(**common, **body),
        Kind.PERMISSION: lambda common, body: wire.PermissionEscalation(**common, **body),
        Kind.CONNECTION_FAILURE: lambda common, body: wire.ConnectionFailure(**common, **body),
    }
)


async def take_answer(
    questions: QuestionStore, cards: CardStore, frame: wire.AnyAnswer, *, key_id: str
) -> str:
    """Keep what a page answered, if its device has signed exactly that; returns the new state.

    Raises `CardUnknown`, `DecisionNotSigned` or `CardNotOpen`.
    """
    question = await questions.get(frame.request_id)
    if question.content.kind not in _KINDS[type(frame)]:
        raise CardUnknown("This is not an answer to what was asked.")
    if not question.sealed:
        raise DecisionNotSigned
    answer = frame.model_dump(mode="json", exclude=_NOT_SAID, exclude_none=True)
    if isinstance(frame, wire.BatchReviewResponse) and frame.verdict in _VERDICTS:
        return await _decide_batch(questions, cards, question, frame, key_id=key_id)
    _require_offered(question, answer)
    kept = await questions.answer_signed(
        question.question_id, answer, key_id=key_id, signature=frame.signature
    )
    return kept.state


def _require_offered(question: Question, answer: Mapping[str, Any]) -> None:
    said = answer.get("verdict") or answer.get("selected_value") or answer.get("action")
    said = said or answer.get("selected_action")
    free = bool(question.content.body.get("allow_freetext")) and answer.get("freetext")
    if said not in question.values and not (said is None and free):
        raise CardUnknown("That was not one of the answers.")


async def _decide_batch(
    questions: QuestionStore,
    cards: CardStore,
    question: Question,
    frame: wire.BatchReviewResponse,
    *,
    key_id: str,
) -> str:
    """One signature decides all cards of the batch, and each keeps it."""
    if question.state != "open":
        raise CardNotOpen(f"{question.question_id} was answered already.")
    decision = ApprovalDecision(verdict=_VERDICTS[frame.verdict])
    await cards.decide_batch(
        question.content.body, decision, key_id=key_id, signature=frame.signature
    )
    await questions.close(question.question_id, decision.verdict.value)
    return decision.verdict.value
