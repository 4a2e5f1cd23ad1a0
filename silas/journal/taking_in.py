"""Another journal's records, taken in: counted first, then all of them in one change or none."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from silas.journal.edit import Edit
from silas.journal.models import Record
from silas.journal.rows import kind_of, load
from silas.journal.store import Journal
from silas.kernel.models import Data


class CountedKind(Data):
    """How many records of one kind would be, or were, new or changed."""

    kind: str
    new: int
    changed: int


class TakenIn(Data):
    """What came of a file, or would come of it."""

    preview: bool
    records: int
    """In the file."""
    new: int
    changed: int
    kinds: tuple[CountedKind, ...]
    """Without those of which nothing is new or changed."""


async def take_in(
    journal: Journal, records: Sequence[Record], *, actor: str, preview_only: bool
) -> TakenIn:
    """Merge these records into the journal; a second time changes nothing.

    With `preview_only` it is only counted. If one record cannot be taken, none is.
    """

    def edit(made: Edit) -> dict[str, Any]:
        known = {each.id for each in records if load(made.tx, each.id) is not None}
        for record in records:
            made.merge(record)
        counted = Counter((kind_of(each), each.id in known) for each in made.changed)
        return {"kinds": [[kind, old, count] for (kind, old), count in counted.items()]}

    outcome = await journal.perform(edit, actor=actor, preview_only=preview_only)
    counted = {(kind, old): count for kind, old, count in outcome.payload["kinds"]}
    kinds = tuple(
        CountedKind(
            kind=kind, new=counted.get((kind, False), 0), changed=counted.get((kind, True), 0)
        )
        for kind in sorted({kind for kind, _ in counted})
    )
    return TakenIn(
        preview=preview_only,
        records=len({each.id for each in records}),
        new=sum(each.new for each in kinds),
        changed=sum(each.changed for each in kinds),
        kinds=kinds,
    )
