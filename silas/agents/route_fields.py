"""The front door in one word: how a guided model says what a request is.

A small model (`silas.agents.models.modes.is_guided`) that first has to find words for what it sees
follows its own words, also wrong ones. So it only chooses one of a few kinds, and says what that
kind needs. What else a decision has follows from the kind:

1. What words answer is a direct answer.
2. What is to be remembered is stored as a fact, in the owner's words. What is for the journal is
   one entry. The runtime decides about both, as about every wish of an agent's.
3. What is to be planned has three kinds, and the planner is told which (`RequestKind`): it then
   need not find out itself.
"""

from typing import Any, Literal

from pydantic import Field, TypeAdapter

from silas.journal.conversation import JournalOp
from silas.kernel.models import Data
from silas.memory.models import MemoryType
from silas.stream.models import InteractionRegister, RequestKind
from silas.work.models import InteractionMode

_REASONS = {
    "answer": "words answer it",
    "remember": "something to remember",
    "journal": "something for the journal",
    "work": "something to be done",
    "repeat": "something that repeats",
    "look": "something to be looked up",
}
_PLANNED = {
    "work": RequestKind.TASK,
    "repeat": RequestKind.GOAL,
    "look": RequestKind.QUESTION,
}
_REMEMBERED = "I will remember that."
_TEXT = {"type": "string", "minLength": 1}


class RouteFields(Data):
    """What a guided model says of a request."""

    kind: Literal["answer", "remember", "journal", "work", "repeat", "look"]
    message: str = ""
    content: str = ""
    entry: dict[str, Any] = Field(default_factory=dict)


def route_schema() -> dict[str, Any]:
    """What the server holds the model to: one object, whose first field decides about the rest."""
    forms: dict[str, dict[str, Any]] = {
        "answer": {"message": _TEXT},
        "remember": {"content": _TEXT},
        "journal": {"entry": _entry_schema()},
        **{kind: {} for kind in _PLANNED},
    }
    return {
        "type": "object",
        "description": "What the request is, and what that needs.",
        "anyOf": [
            {
                "type": "object",
                "properties": {"kind": {"const": kind}, **fields},
                "required": ["kind", *fields],
                "additionalProperties": False,
            }
            for kind, fields in forms.items()
        ],
    }


def _entry_schema() -> dict[str, Any]:
    """`JournalOp` without what may be null: a small model would write every null."""
    schema = TypeAdapter(JournalOp).json_schema()
    types = schema["$defs"]["JournalOpType"]["enum"]
    texts = {name: _TEXT for name in schema["properties"] if name != "op"}
    return {
        "type": "object",
        "properties": {"op": {"enum": types}, **texts},
        "required": ["op"],
        "additionalProperties": False,
    }


def decision_of_fields(said: dict[str, Any], *, profile: str) -> dict[str, Any]:
    """What the fields mean as a `RouteDecision`; anything else is returned as it is."""
    if "kind" not in said:
        return said
    fields = RouteFields.model_validate(said)
    kind = _PLANNED.get(fields.kind)
    plans = kind is not None
    status = fields.kind in ("remember", "journal")
    register = InteractionRegister.STATUS if status else InteractionRegister.EXPLORATION
    mode = InteractionMode.ACT_AND_REPORT if status else InteractionMode.DEFAULT_AND_OFFER
    return {
        "route": "planner" if plans else "direct",
        "reason": _REASONS[fields.kind],
        "response": None if plans else _response(fields),
        "interaction_register": InteractionRegister.EXECUTION if plans else register,
        "interaction_mode": InteractionMode.ACT_AND_REPORT if plans else mode,
        "context_profile": profile,
        "request_kind": kind,
    }


def _response(fields: RouteFields) -> dict[str, Any]:
    match fields.kind:
        case "remember":
            kept = {"op": "store", "content": fields.content, "memory_type": MemoryType.FACT}
            return {"message": _REMEMBERED, "memory_ops": [kept]}
        case "journal":
            return {"message": "", "journal_ops": [fields.entry]}
        case _:
            return {"message": fields.message}


def growing_message(growing: dict[str, Any]) -> str | None:
    """The text of an answer that is still being written: before it stands only its kind."""
    message = growing.get("message")
    return message if growing.get("kind") == "answer" and isinstance(message, str) else None
