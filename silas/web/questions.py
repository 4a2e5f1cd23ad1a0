"""Questions as the page gets them, and its answers.

A question carries the very bytes that are signed. The words on its buttons, its risk and their
order are the runtime's; the page reads everything else from those bytes.
"""

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any

from silas.approval import ApprovalDecision, ApprovalStrength, ApprovalVerdict
from silas.review.cards import CardStore
from silas.review.decisions import OwnersProof, QuestionKind, Requirement
from silas.review.errors import CardNotOpen, CardUnknown, DecisionNotSigned
from silas.review.questions import Question, QuestionStore, value_of
from silas.web import wire

_KINDS: Mapping[type[wire.Answer], Collection[QuestionKind]] = MappingProxyType(
    {
        wire.GateResponse: {QuestionKind.GATE},
        wire.BatchReviewResponse: {QuestionKind.BATCH, QuestionKind.ITEMS},
        wire.DraftReviewResponse: {QuestionKind.DRAFT},
        wire.DecisionResponse: {
            QuestionKind.DECISION,
            QuestionKind.COMPANION,
            QuestionKind.MEMORY,
            QuestionKind.RECORD,
            QuestionKind.VISITOR,
            QuestionKind.PLACE,
            QuestionKind.SKILL,
            QuestionKind.SKILL_SOURCE,
            QuestionKind.TOOL_SERVER,
            QuestionKind.CONNECTION,
            QuestionKind.PROPOSAL,
            QuestionKind.DOMAIN,
            QuestionKind.TEACHING,
            QuestionKind.RULE,
            QuestionKind.GRANT,
        },
        wire.SuggestionResponse: {QuestionKind.SUGGESTION},
        wire.AutonomyThresholdResponse: {QuestionKind.AUTONOMY},
        wire.ConnectionSetupResponse: {QuestionKind.CONNECTION_SETUP},
        wire.PermissionEscalationResponse: {QuestionKind.PERMISSION},
        wire.ConnectionFailureResponse: {QuestionKind.CONNECTION_FAILURE},
    }
)
_VERDICTS = {"approve": ApprovalVerdict.APPROVED, "decline": ApprovalVerdict.DECLINED}
_NOT_SAID = {"type", "request_id", "signature", "strength", "passkey"}


def shown_question(question: Question, needs: Requirement) -> wire.Asked:
    """The question whole."""
    content = question.content
    common = {
        "request_id": question.question_id,
        "title": content.intent,
        "risk_level": content.risk,
        "rationale": content.rationale,
        "steps": needs.steps,
        "details_expanded": needs.details_expanded,
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


def _permission(common: dict[str, Any], body: Mapping[str, Any]) -> wire.Asked:
    named = ("connection_name", "current_permissions", "requested_permissions", "reason")
    return wire.PermissionEscalation(**common, **{name: body[name] for name in named})


_FRAMES: Mapping[QuestionKind, Frame] = MappingProxyType(
    {
        QuestionKind.BATCH: lambda common, body: wire.BatchReview(**common, batch=dict(body)),
        QuestionKind.ITEMS: lambda common, body: wire.BatchReview(**common, batch=dict(body)),
        QuestionKind.TEACHING: _decision,
        QuestionKind.RULE: _decision,
        QuestionKind.DRAFT: lambda common, body: wire.DraftReview(**common, **body),
        QuestionKind.DECISION: _decision,
        QuestionKind.COMPANION: _decision,
        QuestionKind.MEMORY: _decision,
        QuestionKind.RECORD: _decision,
        QuestionKind.VISITOR: _decision,
        QuestionKind.PLACE: _decision,
        QuestionKind.SKILL: _decision,
        QuestionKind.SKILL_SOURCE: _decision,
        QuestionKind.TOOL_SERVER: _decision,
        QuestionKind.CONNECTION: _decision,
        QuestionKind.PROPOSAL: _decision,
        QuestionKind.DOMAIN: _decision,
        QuestionKind.GRANT: _decision,
        QuestionKind.SUGGESTION: lambda common, body: wire.Suggestion(
            **common, suggestion=dict(body)
        ),
        QuestionKind.AUTONOMY: _proposal,
        QuestionKind.GATE: lambda common, body: wire.GateApproval(**common, **body),
        QuestionKind.CONNECTION_SETUP: lambda common, body: wire.ConnectionSetupStep(
            **common, **body
        ),
        QuestionKind.PERMISSION: _permission,
        QuestionKind.CONNECTION_FAILURE: lambda common, body: wire.ConnectionFailure(
            **common, **body
        ),
    }
)


async def take_answer(
    questions: QuestionStore, cards: CardStore, frame: wire.AnyAnswer, proof: OwnersProof
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
    of_plans = question.content.kind is QuestionKind.BATCH
    if of_plans and isinstance(frame, wire.BatchReviewResponse) and frame.verdict in _VERDICTS:
        return await _decide_batch(questions, cards, question, frame, proof)
    _require_offered(question, answer)
    gesture = ApprovalStrength(frame.strength)
    kept = await questions.answer(question.question_id, answer, proof, gesture=gesture)
    return kept.state


def _require_offered(question: Question, answer: Mapping[str, Any]) -> None:
    said = value_of(answer)
    free = bool(question.content.body.get("allow_freetext")) and answer.get("freetext")
    if said not in question.values and not (said is None and free):
        raise CardUnknown("That was not one of the answers.")


async def _decide_batch(
    questions: QuestionStore,
    cards: CardStore,
    question: Question,
    frame: wire.BatchReviewResponse,
    proof: OwnersProof,
) -> str:
    """One signature decides all cards of the batch, and each keeps it."""
    if question.state != "open":
        raise CardNotOpen("This card waits for no answer any more.")
    decision = ApprovalDecision(
        verdict=_VERDICTS[frame.verdict], approval_strength=ApprovalStrength(frame.strength)
    )
    await cards.decide_batch(question.content.body, decision, proof)
    await questions.close(question.question_id, decision.verdict.value)
    return decision.verdict.value
