"""Who says what: every frame that the page may send, every frame that it gets, and their schema."""

from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter

from silas.web.wire import connections, conversation, happenings, opening, plans, questions

AnyAnswer = (
    questions.GateResponse
    | questions.BatchReviewResponse
    | questions.DraftReviewResponse
    | questions.DecisionResponse
    | questions.SuggestionResponse
    | questions.AutonomyThresholdResponse
    | connections.ConnectionSetupResponse
    | connections.PermissionEscalationResponse
    | connections.ConnectionFailureResponse
)
FromPage = Annotated[
    opening.Auth
    | conversation.Say
    | plans.ApprovalResponse
    | questions.CheckpointResponse
    | AnyAnswer
    | connections.SecureInputCompleted
    | happenings.ActivityRequest
    | opening.Ping,
    Field(discriminator="type"),
]
ToPage = Annotated[
    opening.Hello
    | opening.Ready
    | conversation.Message
    | conversation.History
    | conversation.Streaming
    | conversation.Progress
    | plans.ApprovalRequest
    | plans.CardClosed
    | plans.Work
    | happenings.Activity
    | plans.Attention
    | happenings.JournalChanged
    | conversation.Accepted
    | opening.Failed
    | opening.Pong
    | questions.GateApproval
    | questions.Checkpoint
    | questions.BatchReview
    | questions.DraftReview
    | questions.Decision
    | questions.Suggestion
    | questions.AutonomyThresholdReview
    | connections.SecureInputRequest
    | connections.ConnectionSetupStep
    | connections.PermissionEscalation
    | connections.ConnectionFailure,
    Field(discriminator="type"),
]
_LATER = ConfigDict(defer_build=True)
FROM_PAGE: TypeAdapter[FromPage] = TypeAdapter(FromPage, config=_LATER)
TO_PAGE: TypeAdapter[ToPage] = TypeAdapter(ToPage, config=_LATER)


def wire_schema() -> dict[str, Any]:
    """The JSON Schema of everything that travels."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Silas: what travels between the page and Silas",
        "from_page": FROM_PAGE.json_schema(ref_template="#/from_page/$defs/{model}"),
        "to_page": TO_PAGE.json_schema(ref_template="#/to_page/$defs/{model}"),
    }
