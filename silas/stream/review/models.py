"""What can be asked besides plans: one shape for all kinds, so that nobody relearns a card."""

import hashlib
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from pydantic import Field

from silas.gates.risk import RiskLevel
from silas.kernel import TaintLevel, canonical_bytes
from silas.kernel.models import Data, UtcDatetime
from silas.stream.decisions import QUESTION

__all__ = ["QUESTION", "Action", "Content", "Kind", "Question", "answer_bytes", "seal_bytes"]


class Kind(StrEnum):
    """What is asked."""

    BATCH = "batch"
    DRAFT = "draft"
    DECISION = "decision"
    SUGGESTION = "suggestion"
    AUTONOMY = "autonomy"
    GATE = "gate"
    CONNECTION_SETUP = "connection_setup"
    PERMISSION = "permission"
    CONNECTION_FAILURE = "connection_failure"
    COMPANION = "companion"
    MEMORY = "memory"


class Action(Data):
    """One button: what it answers, and what then happens."""

    value: str
    label: str


class Content(Data):
    """Everything that a card shows: the recommended action first, the refusing one last."""

    kind: Kind
    intent: str
    rationale: str
    risk: RiskLevel
    taint: TaintLevel = TaintLevel.OWNER
    actions: list[Action] = Field(min_length=1)
    body: dict[str, Any] = Field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """What is sealed, shown and signed."""
        return canonical_bytes(self.model_dump(mode="json"))


class Question(Data):
    """One question, as it is kept."""

    question_id: str
    scope_id: str
    trace_id: str
    about: str
    """Equal for questions that are the same; asked again only after a while."""
    content: Content
    created_at: UtcDatetime
    expires_at: UtcDatetime
    state: str = "open"
    """`open`, or what was answered; `expired` and `outdated` if nobody did."""
    sealed: bool = True

    @property
    def content_hash(self) -> str:
        return hashlib.sha256(self.content.to_bytes()).hexdigest()

    @property
    def values(self) -> frozenset[str]:
        """What can be answered."""
        return frozenset(action.value for action in self.content.actions)


def seal_bytes(question: Question) -> bytes:
    """What the runtime signs when it asks."""
    return canonical_bytes(
        {
            "type": "question_seal",
            "question_id": question.question_id,
            "scope_id": question.scope_id,
            "trace_id": question.trace_id,
            "about": question.about,
            "content_hash": question.content_hash,
        }
    )


def answer_bytes(question: Question, answer: Mapping[str, Any]) -> bytes:
    """What the owner signs when he answers."""
    return canonical_bytes(
        {
            "type": "answer",
            "card_id": question.question_id,
            "content_hash": question.content_hash,
            "answer": dict(answer),
        }
    )
