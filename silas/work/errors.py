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
    exit_code = 81

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
    exit_code = 82


class IllegalTransition(WorkError):
    """A work item cannot change its status in this way. Run `silas work show ID` to see it."""

    code = "E_WORK_TRANSITION"
    exit_code = 83


class WorkItemConflict(WorkError):
    """Somebody else has changed this work item in the meantime. Look at it again and repeat."""

    code = "E_WORK_CONFLICT"
    exit_code = 84


class ArtifactRefused(WorkError):
    """The artifact cannot be kept or given out safely. Check its name, its size and the disk."""

    code = "E_WORK_ARTIFACT"
    exit_code = 85


class FileRefused(WorkError):
    """This file cannot be used safely. Name a plain file inside the workspace."""

    code = "E_WORK_FILE"
    exit_code = 86


class BindingBroken(WorkError):
    """Something is not what was approved. Look at the plan again and approve it anew."""

    code = "E_WORK_CHANGED"
    exit_code = 87


class PublicationConflict(WorkError):
    """The same files were changed by somebody else. Resolve the conflict and run it again."""

    code = "E_WORK_MERGE"
    exit_code = 88


class WorkNotDone(WorkError):
    """The work was not done. Run `silas work show ID` to see what happened."""

    code = "E_WORK_NOT_DONE"
    exit_code = 89
