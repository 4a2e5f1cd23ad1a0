"""The work item executor: any work item in, what came of it out."""

from silas.work.execution import execute_task
from silas.work.execution_context import ExecutionContext
from silas.work.goal import execute_goal
from silas.work.models import WorkItem, WorkItemResult, WorkItemType
from silas.work.project import execute_project
from silas.work.recovery import recover, release_all

_BY_TYPE = {
    WorkItemType.TASK: execute_task,
    WorkItemType.PROJECT: execute_project,
    WorkItemType.GOAL: execute_goal,
}


class WorkItemExecutor:
    """Executes tasks, projects and cycles of goals."""

    def __init__(self, context: ExecutionContext) -> None:
        self.context = context

    async def execute(self, item: WorkItem) -> WorkItemResult:
        """Execute any work item; what is not approved is blocked."""
        return await _BY_TYPE[item.type](self.context, item)

    async def recover(self) -> list[WorkItem]:
        """Put in order what a crash left behind; call it once at the start."""
        return await recover(self.context)

    async def release(self) -> list[WorkItem]:
        """Close what this process left open when a disk failed; call it again and again."""
        return await release_all(self.context)
