"""A worker without a model: it executes the blocks of its briefing (`offline_script.py`), in order.

It stops at the first step that does not work, and says which one it was. What it says decides
nothing: the checks do. What stands in the briefing besides the plan (advice, what checks printed)
was approved by nobody, and is not executed.
"""

from silas.kernel import WorkError
from silas.work.execution_models import ExecutorAgentOutput
from silas.work.offline_script import FileStep, ScriptInvalid, call_of, read_script
from silas.work.ports import AgentRun, Briefing, ToolCaller


class ScriptWorker:
    """`ExecutorAgent` for plans that say exactly what is to be done."""

    async def run(self, briefing: Briefing, tools: ToolCaller) -> AgentRun:
        try:
            steps = read_script(_approved(briefing))
        except ScriptInvalid as error:
            raise WorkError(f"The briefing cannot be executed: {error}.") from error
        if not steps:
            raise WorkError(
                "The briefing has no block that can be executed, and there is no model here."
            )
        made: list[str] = []
        for number, step in enumerate(steps, 1):
            answer = await tools.call(*call_of(step))
            if not answer.success:
                told = f"Step {number} of {len(steps)} did not work: {answer.error}"
                return AgentRun(output=ExecutorAgentOutput(summary=told, artifact_refs=made))
            if isinstance(step, FileStep):
                made.append(step.path)
        told = "1 step was executed." if len(steps) == 1 else f"{len(steps)} steps were executed."
        return AgentRun(output=ExecutorAgentOutput(summary=told, artifact_refs=made))


def _approved(briefing: Briefing) -> str:
    return briefing.instructions if briefing.approved is None else briefing.approved
