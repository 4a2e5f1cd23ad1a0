"""One question to the owner, one decision, one rule for the proof that it needs.

This package knows canonical bytes, hashes, ids, risk and taint, never what they mean: no work item,
no memory, no companion. Whoever asks says what is shown and what a yes approves.
"""

from silas.review.cards import Card, CardDecision, CardStore
from silas.review.decisions import (
    PROOF_FOR,
    Approval,
    Decisions,
    DecisionSubject,
    OwnersProof,
    OwnersWord,
    ProvenDecision,
    QuestionKind,
    Requirement,
    ShownQuestion,
    Tokens,
)
from silas.review.errors import (
    CardNotOpen,
    CardUnknown,
    DecisionNotSigned,
    StrongerProofNeeded,
)
from silas.review.questions import (
    AnsweredQuestion,
    Question,
    QuestionChoice,
    QuestionContent,
    QuestionStore,
)

__all__ = [
    "PROOF_FOR",
    "AnsweredQuestion",
    "Approval",
    "Card",
    "CardDecision",
    "CardNotOpen",
    "CardStore",
    "CardUnknown",
    "DecisionNotSigned",
    "DecisionSubject",
    "Decisions",
    "OwnersProof",
    "OwnersWord",
    "ProvenDecision",
    "Question",
    "QuestionChoice",
    "QuestionContent",
    "QuestionKind",
    "QuestionStore",
    "Requirement",
    "ShownQuestion",
    "StrongerProofNeeded",
    "Tokens",
]
