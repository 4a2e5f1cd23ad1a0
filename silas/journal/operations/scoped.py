"""How an operation is made: once for each operation id, and never outside of its scope."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Required, TypeVar

from pydantic import ConfigDict, with_config
from pydantic_core import to_jsonable_python
from typing_extensions import TypedDict  # pydantic reads this one only, before Python 3.12

from silas.journal.belonging import as_seen, may_see
from silas.journal.edit import Edit
from silas.journal.errors import OutOfScope
from silas.journal.fence import Guard
from silas.journal.models import AccessScope, Category, DayPlan, Record
from silas.journal.notifications import entity
from silas.journal.results import Outcome
from silas.journal.store import Journal, fingerprint_of
from silas.storage import Reader

R = TypeVar("R", bound=Record)
Payload = dict[str, Any]


@with_config(ConfigDict(extra="forbid"))
class By(TypedDict, total=False):
    """Who asks for an operation, and how far that one reaches."""

    scope: Required[AccessScope]
    actor: Required[str]
    operation_id: str | None
    """The same one a second time returns the first outcome and changes nothing."""
    preview_only: bool
    """Say what would be changed, and change nothing."""
    guard: Guard | None
    """Has the last word in the transaction of the change; see `silas.journal.fence`."""


@dataclass(frozen=True)
class ScopedEdit:
    """An edit that reaches no further than its scope."""

    edit: Edit
    scope: AccessScope

    def get(self, kind: type[R], record_id: str, *, deleted: bool = False) -> R:
        """The record; raises `RecordUnknown`, or `OutOfScope`."""
        found = self.edit.get(kind, record_id, deleted=deleted)
        if not may_see(self.edit.tx, found, self.scope):
            raise OutOfScope(record_id=record_id)
        return found

    def require_category(self, category_id: str | None) -> None:
        """The category is there, and something may be put into it; None is the owner's alone."""
        if not self.scope.allows(category_id):
            raise OutOfScope(category_id=category_id)
        if category_id is not None:
            self.edit.get(Category, category_id)

    def require_owner(self) -> None:
        """What concerns all categories is the owner's to decide."""
        if self.scope.allowed_category_ids is not None:
            raise OutOfScope


async def perform(
    journal: Journal,
    name: str,
    arguments: Mapping[str, Any],
    edit: Callable[[ScopedEdit], Payload],
    by: By,
) -> Outcome:
    """Make the operation, or say what came of it when it was made before."""
    plain: dict[str, Any] = to_jsonable_python(dict(arguments))
    outcome = await journal.perform(
        lambda made: edit(ScopedEdit(made, by["scope"])),
        actor=by["actor"],
        operation_id=by.get("operation_id"),
        fingerprint=fingerprint_of(name, plain),
        preview_only=by.get("preview_only", False),
        guard=by.get("guard"),
    )
    return await as_told(journal, outcome, by["scope"])


async def as_told(journal: Journal, outcome: Outcome, scope: AccessScope) -> Outcome:
    """The outcome as the scope may know it.

    The plan of a day that was changed may also name what others have pinned to it.
    """
    if scope.allowed_category_ids is None:
        return outcome

    def look(reader: Reader) -> tuple[Record, ...]:
        return tuple(
            as_seen(reader, each, scope) or each if isinstance(each, DayPlan) else each
            for each in outcome.records
        )

    seen = await journal.read(look)
    hidden = {entity(each).token_key for each in _pins(outcome.records) - _pins(seen)}
    told = tuple(each for each in outcome.changed_tokens if each not in hidden)
    return outcome.model_copy(update={"records": seen, "changed_tokens": told})


def _pins(records: Iterable[Record]) -> set[str]:
    plans = (each for each in records if isinstance(each, DayPlan))
    return {pin for plan in plans for pin in plan.pinned_task_ids}
