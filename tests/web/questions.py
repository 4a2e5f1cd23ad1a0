"""Questions of every kind, asked the way the runtime asks them."""

from datetime import timedelta
from typing import Any

from silas.gates import GateAction, GateLane, GateResult
from silas.gates.risk import RiskLevel
from silas.kernel import TaintLevel
from silas.proactive.suggestions import card_of, from_habit
from silas.review.decisions import QuestionKind
from silas.review.questions import QUESTION, Question, QuestionChoice, QuestionContent
from tests.web.place import Place


async def put(place: Place, question: Question) -> str:
    await place.house.reviews.questions.ask(question)
    await place.web.hub.tell_cards(place.front)
    return question.question_id


def question(place: Place, content: QuestionContent, *, about: str = "test") -> Question:
    room = place.house.stream.turns
    name, now = room.ids.new(QUESTION), room.clock.now()
    return Question(
        question_id=name,
        scope_id="owner",
        trace_id=f"trace_{name}",
        about=about,
        content=content,
        created_at=now,
        expires_at=now + timedelta(hours=1),
    )


def habit(place: Place) -> Question:
    room = place.house.stream.turns
    return card_of(from_habit(room.ids, room.clock.now(), "make test", 3, scope_id="owner"))


def content(
    kind: QuestionKind, intent: str, actions: dict[str, str], **body: Any
) -> QuestionContent:
    return QuestionContent(
        kind=kind,
        intent=intent,
        rationale="Something needs your word before it goes on.",
        risk=RiskLevel.HIGH if kind is QuestionKind.PERMISSION else RiskLevel.LOW,
        taint=TaintLevel.OWNER,
        actions=[QuestionChoice(value=value, label=label) for value, label in actions.items()],
        body=body,
    )


def connection_failure() -> QuestionContent:
    return content(
        QuestionKind.CONNECTION_FAILURE,
        "Reconnect Notes",
        {"reconnect": "Reconnect", "skip": "Skip for now"},
        failure_type="token_revoked",
        service="Notes",
        message="Your access was revoked (changed password, admin action, or expired).",
        recovery_options=[
            {"action": "reconnect", "label": "Reconnect", "description": "Sign in again."},
            {"action": "skip", "label": "Skip", "description": "Do without it."},
        ],
    )


def connection_setup() -> QuestionContent:
    return content(
        QuestionKind.CONNECTION_SETUP,
        "Connect Calendar",
        {"done": "I have done it", "trouble": "It does not work", "cancel": "Cancel"},
        step_type="device_code",
        fields={
            "verification_url": "https://example.org/device",
            "user_code": "WDJB-MJHT",
            "expires_in": 900,
            "poll_interval": 5,
        },
    )


def permission() -> QuestionContent:
    return content(
        QuestionKind.PERMISSION,
        "Let Mail archive messages",
        {"approve": "Allow it", "just_this_once": "Just this once", "deny": "Do not allow it"},
        connection_name="Mail",
        current_permissions=["read"],
        requested_permissions=["read", "archive"],
        reason="You asked for the newsletters to be put away.",
    )


def asks_gate() -> GateResult:
    return GateResult(
        gate_name="money",
        lane=GateLane.POLICY,
        action=GateAction.REQUIRE_APPROVAL,
        reason="It speaks of an amount above your limit.",
    )
