"""What can go wrong with plans and work items, in words."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from silas.kernel import WorkError


@dataclass(frozen=True, order=True)
class PlanProblem:
    """One thing that is wrong with a plan: where it stands, and what would be right."""

    line: int
    column: int
    field: str
    """Such as `verify[0].expect`; empty if it is about the text as a whole."""
    message: str

    def __str__(self) -> str:
        field = f", {self.field}" if self.field else ""
        return f"line {self.line}{field}: {self.message}"


class PlanInvalid(WorkError):
    """The plan cannot be used. Correct the lines that are named, and check it again."""

    code = "E_WORK_PLAN"

    def __init__(self, problems: Iterable[PlanProblem]) -> None:
        self.problems = tuple(sorted(set(problems)))
        count = "a problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        lines = "".join(f"\n  {problem}" for problem in self.problems)
        super().__init__(
            f"The plan has {count}:{lines}", problems=[asdict(each) for each in self.problems]
        )


class WorkItemUnknown(WorkError):
    """There is no work item with this id. Run `silas work list` to see what there is."""

    code = "E_WORK_UNKNOWN"


class IllegalTransition(WorkError):
    """A work item cannot change its status in this way. Run `silas work show ID` to see it."""

    code = "E_WORK_TRANSITION"


class WorkItemConflict(WorkError):
    """Somebody else has changed this work item in the meantime. Look at it again and repeat."""

    code = "E_WORK_CONFLICT"


class ArtifactRefused(WorkError):
    """The artifact cannot be kept or given out safely. Check its name, its size and the disk."""

    code = "E_WORK_ARTIFACT"


class BindingBroken(WorkError):
    """Something is not what was approved. Look at the plan again and approve it anew."""

    code = "E_WORK_CHANGED"


class PublicationConflict(WorkError):
    """The same files were changed by somebody else. Resolve the conflict and run it again."""

    code = "E_WORK_MERGE"


class WorkNotDone(WorkError):
    """The work was not done. Run `silas work show ID` to see what happened."""

    code = "E_WORK_NOT_DONE"
