"""Problems, collected while a log is examined."""

from silas.audit.models import AuditProblem, ProblemKind

_MOST_KEPT = 200


class Findings:
    """Keeps the first problems and counts them all, so that memory stays flat."""

    def __init__(self) -> None:
        self.count = 0
        self._kept: list[AuditProblem] = []

    def add(self, kind: ProblemKind, seq: int, sentence: str) -> None:
        """Something is wrong at this entry."""
        self.count += 1
        if len(self._kept) < _MOST_KEPT:
            self._kept.append(AuditProblem(kind=kind, seq=seq, sentence=sentence))

    def in_order(self) -> tuple[AuditProblem, ...]:
        """What was kept, in the order of the entries."""
        return tuple(sorted(self._kept, key=lambda problem: problem.seq))


def entries_from_to(first: int, last: int) -> str:
    """The words "Entry 5" or "Entries 5 to 7"."""
    return f"Entry {first}" if first == last else f"Entries {first} to {last}"
