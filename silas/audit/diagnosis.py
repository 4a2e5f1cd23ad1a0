"""What happened where the chain does not hold: named as precisely as the rows allow.

A window of rows around the break is looked at as a whole:

1. A row is genuine if its body, linked to some hash in the window, gives its own hash. So rows that
   were moved are still recognised.
2. If the chain can be recomputed across some rows until it meets a stored hash again, their bodies
   are genuine and only their hashes were changed.
3. A row that is not genuine, but whose hash is the one that the next row (or the log's own note of
   its end) builds on, has a changed body. Its number follows from the next row's.
4. A row that nothing builds on, while the next row builds on what came before it, was inserted.
5. The numbers that the remaining rows carry tell which entries are missing or out of order.
"""

from dataclasses import dataclass
from itertools import pairwise

from silas.audit.models import (
    ChainPosition,
    Findings,
    ProblemKind,
    StoredEntry,
    entries_from_to,
    link,
    number_in,
)

WIDEST_WINDOW = 64
_CALM_ROWS = 2


@dataclass(frozen=True, slots=True)
class Resumption:
    """Where the chain can be followed again."""

    position: ChainPosition
    offset: int
    """How far the entries' own numbers are ahead of the places they lie in."""
    hashes: dict[int, str]
    """The hash of each entry in the window that is still known, by the entry's own number."""


def is_calm(rows: list[StoredEntry]) -> bool:
    """Whether the last rows of a window follow each other as they should."""
    return len(rows) > _CALM_ROWS and all(
        after.seq == before.seq + 1
        and _number(after) == (_number(before) or -1) + 1
        and _link(before.hash, after.body) == after.hash
        for before, after in zip(rows[-1 - _CALM_ROWS : -1], rows[-_CALM_ROWS:], strict=True)
    )


def diagnose(
    rows: list[StoredEntry], before: ChainPosition, *, end: ChainPosition | None, findings: Findings
) -> Resumption:
    """Name what is wrong with these rows, which follow an intact chain up to `before`.

    `end` is the log's own note of its end, if these rows are the last ones.
    """
    return _Window(rows, before, end=end, findings=findings).diagnose()


class _Window:
    def __init__(
        self,
        rows: list[StoredEntry],
        before: ChainPosition,
        *,
        end: ChainPosition | None,
        findings: Findings,
    ) -> None:
        self._rows = rows
        self._before = before
        self._end = end
        self._findings = findings
        # Index 0 is the hash before the window, index i + 1 that of row i.
        self._hashes = [before.hash, *(row.hash for row in rows)]
        self._origin = [self._find_origin(i) for i in range(len(rows))]
        self._inserted: set[int] = set()
        self._repaired: set[int] = set()
        self._lost: set[int] = set()

    def diagnose(self) -> Resumption:
        problems_before = self._findings.count
        for i in range(len(self._rows)):
            if self._origin[i] is None and i not in self._repaired:
                self._repair_from(i)
        for i in range(len(self._rows)):
            self._judge(i)
        numbers = self._numbers()
        self._judge_order(numbers)
        placed = [(n, i) for i, n in enumerate(numbers) if n is not None]
        last, index = max(placed, default=(self._before.seq, -1))
        if self._findings.count == problems_before:
            place = self._first_jump()
            self._findings.add(
                ProblemKind.REORDERED,
                place,
                f"From place {place} on, entries lie under other numbers than their own.",
            )
        return Resumption(
            ChainPosition(last, self._hashes[index + 1]),
            last - self._rows[-1].seq,
            {number: self._hashes[i + 1] for number, i in placed},
        )

    def _first_jump(self) -> int:
        places = [row.seq for row in self._rows]
        jumps = (after for before, after in pairwise(places) if after != before + 1)
        return next(jumps, places[0])

    def _find_origin(self, i: int) -> int | None:
        """The hash that row i builds on, as an index; None if there is none in the window."""
        body, wanted = self._rows[i].body, self._rows[i].hash
        nearest_first = [i, *(k for k in range(len(self._hashes)) if k not in (i, i + 1))]
        return next((k for k in nearest_first if _link(self._hashes[k], body) == wanted), None)

    def _repair_from(self, i: int) -> None:
        """Rule 2: follow the chain by computing it, until a stored hash is met."""
        digest = self._hashes[i]
        computed: list[str] = []
        for row in self._rows[i:]:
            following = _link(digest, row.body)
            if following is None:
                return
            digest = following
            if computed and digest == row.hash:
                self._accept_repair(i, computed)
                return
            computed.append(digest)
        if self._end is not None and digest == self._end.hash:
            self._accept_repair(i, computed)

    def _accept_repair(self, i: int, computed: list[str]) -> None:
        for j, digest in enumerate(computed, start=i):
            self._hashes[j + 1] = digest
            self._repaired.add(j)
            self._origin[j] = j
        for j, origin in enumerate(self._origin):
            if origin is None:
                self._origin[j] = self._find_origin(j)

    def _is_followed(self, i: int) -> bool:
        return self._is_the_end(i) or any(
            self._origin[j] == i + 1 for j in range(len(self._rows)) if j != i
        )

    def _is_the_end(self, i: int) -> bool:
        return self._end is not None and self._hashes[i + 1] == self._end.hash

    def _is_passed_over(self, i: int) -> bool:
        """Whether a row that others build on takes the place of row i in the chain."""
        taken = self._origin[i] if self._origin[i] is not None else i
        return any(
            self._origin[j] == taken and (self._is_followed(j) or j == len(self._rows) - 1)
            for j in range(i + 1, len(self._rows))
        )

    def _judge(self, i: int) -> None:
        """Rules 2 to 4 for one row."""
        row, place = self._rows[i], self._rows[i].seq
        add = self._findings.add
        if i in self._repaired:
            add(
                ProblemKind.CHANGED,
                _number(row) or place,
                f"The hash stored with entry {_number(row) or place} was changed; "
                "its content is as it was.",
            )
        elif not self._is_followed(i) and self._is_passed_over(i):
            self._inserted.add(i)
            add(ProblemKind.INSERTED, place, f"The entry at place {place} was inserted.")
        elif self._origin[i] is None:
            self._judge_broken(i)

    def _judge_broken(self, i: int) -> None:
        row, place = self._rows[i], self._rows[i].seq
        add = self._findings.add
        if self._is_followed(i):
            if i - 1 in self._lost:
                add(
                    ProblemKind.UNPROVEN,
                    place,
                    f"Entry {place} cannot be checked, because the hash before it is lost.",
                )
            elif not self._follows_a_gap(i):
                number = self._true_number(i)
                add(ProblemKind.CHANGED, number, f"The content of entry {number} was changed.")
            return
        self._lost.add(i)
        claimed = _number(row)
        if self._end is not None and place > self._end.seq:
            self._inserted.add(i)
            add(
                ProblemKind.INSERTED,
                place,
                f"The entry at place {place} was added behind the end of the log.",
            )
        elif claimed is not None and claimed != place:
            add(
                ProblemKind.REORDERED,
                place,
                f"The place of entry {place} holds one that calls itself {claimed}.",
            )
        elif not self._follows_a_gap(i):
            add(ProblemKind.CHANGED, place, f"Entry {place} was changed, its hash included.")

    def _true_number(self, i: int) -> int:
        """Rule 3: the number of row i as the row that builds on it implies it."""
        if self._end is not None and self._is_the_end(i):
            return self._end.seq
        followers = (j for j in range(len(self._rows)) if self._origin[j] == i + 1)
        number = next((n for j in followers if (n := _number(self._rows[j])) is not None), None)
        return number - 1 if number is not None else self._rows[i].seq

    def _follows_a_gap(self, i: int) -> bool:
        """Whether an entry before row i is missing, so that row i cannot be linked to anything."""
        number = self._true_number(i) if self._is_followed(i) else _number(self._rows[i])
        if number is None:
            return False
        genuine = [row for k, row in enumerate(self._rows[:i]) if k not in self._inserted]
        before = _number(genuine[-1]) if genuine else self._before.seq
        return before is not None and number > before + 1

    def _numbers(self) -> list[int | None]:
        """Each row's own number, as far as it can be trusted; None for what was inserted."""
        numbers: list[int | None] = []
        last = self._before.seq
        for i, row in enumerate(self._rows):
            if i in self._inserted:
                numbers.append(None)
                continue
            if self._origin[i] is not None or i in self._repaired:
                last = _number(row) or last + 1
            elif self._is_followed(i):
                last = self._true_number(i)
            else:
                last += 1
            numbers.append(last)
        return numbers

    def _judge_order(self, numbers: list[int | None]) -> None:
        """Rule 5."""
        expected = self._before.seq + 1
        missing: set[int] = set()
        gaps: list[tuple[int, int]] = []
        for i, number in enumerate(numbers):
            if number is None:
                continue
            if number >= expected:
                if number > expected:
                    gaps.append((expected, number - 1))
                expected = number + 1
                continue
            place = self._rows[i].seq
            if any(first <= number <= last for first, last in gaps) and number not in missing:
                missing.add(number)
                self._findings.add(
                    ProblemKind.REORDERED,
                    number,
                    f"Entry {number} is out of order: it lies at place {place}.",
                )
            else:
                self._findings.add(
                    ProblemKind.INSERTED,
                    place,
                    f"The entry at place {place} was inserted: entry {number} is there already.",
                )
        for first, last in gaps:
            self._report_gap(first, last, found_elsewhere=missing)

    def _report_gap(self, first: int, last: int, *, found_elsewhere: set[int]) -> None:
        """Each run of numbers in the gap that did not turn up elsewhere."""
        for number in sorted(n for n in found_elsewhere if first <= n <= last):
            if first < number:
                self._report_removed(first, number - 1)
            first = number + 1
        if first <= last:
            self._report_removed(first, last)

    def _report_removed(self, first: int, last: int) -> None:
        verb = "is" if first == last else "are"
        self._findings.add(
            ProblemKind.REMOVED, first, f"{entries_from_to(first, last)} {verb} missing."
        )


def _number(row: StoredEntry) -> int | None:
    return number_in(row.body.encode())


def _link(previous: str, body: str) -> str | None:
    try:
        return link(previous, body)
    except ValueError:
        return None  # that was no hash
