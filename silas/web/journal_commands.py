"""What the owner can do with the journal: one command for each of its operations."""

from functools import cache
from typing import Annotated, Any

from pydantic import Field, create_model

from silas.journal import OWNER, Journal, Outcome, operations
from silas.journal.dispatch import NAMES
from silas.journal.errors import RecordInvalid
from silas.web.commands import ApiCommand, Body, PageAccess, by_name

_ACTOR = "owner"

JOURNAL_COMMANDS = by_name(
    ApiCommand(getattr(operations, name), PageAccess.SIGNED, refusal=RecordInvalid)
    for name in sorted(NAMES)
)
"""By name: every operation that the package `silas.journal.operations` has."""


class JournalRequest(Body):
    """An operation that is asked for. The same `operation_id` again does it once."""

    operation_id: Annotated[str, Field(min_length=8, max_length=100)] | None = None
    preview_only: bool = False


@cache
def request_of(command: ApiCommand) -> type[JournalRequest]:
    """What a request for this operation carries: its arguments, and the rest."""
    name = command.arguments.__name__.removesuffix("Arguments")
    return create_model(
        f"{name}Request", __base__=JournalRequest, arguments=(command.arguments, ...)
    )


async def run_operation(command: ApiCommand, journal: Journal, request: Any) -> Outcome:
    """Make the operation in the owner's name."""
    outcome: Outcome = await command.run(
        journal,
        request.arguments,
        scope=OWNER,
        actor=_ACTOR,
        operation_id=request.operation_id,
        preview_only=request.preview_only,
    )
    return outcome
