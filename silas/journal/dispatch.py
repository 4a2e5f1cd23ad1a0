"""Operations by their names, with arguments as JSON has them: for the socket and the page."""

from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Any, Unpack

from pydantic import ConfigDict, ValidationError, validate_call

from silas.journal import operations
from silas.journal.errors import RecordInvalid
from silas.journal.operations import By
from silas.journal.store import Journal, Outcome
from silas.kernel.models import problem_text

Operation = Callable[..., Awaitable[Outcome]]

NAMES = frozenset(name for name in operations.__all__ if name.islower())
"""Every operation there is."""


async def call(
    journal: Journal, name: str, arguments: Mapping[str, Any], **by: Unpack[By]
) -> Outcome:
    """Make the operation of this name; raises `RecordInvalid` if it or an argument is not right."""
    if name not in NAMES:
        raise RecordInvalid(f"There is no operation {name!r}.")
    if arguments.keys() & By.__annotations__.keys() or "journal" in arguments:
        raise RecordInvalid("An argument has the name of something that is not one.")
    try:
        return await _checked(name)(journal, **arguments, **by)
    except ValidationError as error:
        problems = problem_text(error)
        raise RecordInvalid(f"{RecordInvalid.sentence()} ({problems})") from error


@cache
def _checked(name: str) -> Operation:
    """The operation, with its arguments read and checked before it is made."""
    config = ConfigDict(arbitrary_types_allowed=True)
    operation: Operation = validate_call(config=config)(getattr(operations, name))
    return operation
