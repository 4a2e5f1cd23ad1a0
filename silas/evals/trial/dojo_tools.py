"""AgentDojo's environments as tools of Silas: what they do is theirs, what may be done is ours.

What a tool of a connected account does is said by whoever connects it, as here: it changes
something, it only looks into the owner's own account, or it asks an address outside.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from agentdojo.agent_pipeline.tool_execution import tool_result_to_str
from agentdojo.functions_runtime import Function, FunctionCall, FunctionsRuntime, TaskEnvironment
from pydantic import create_model

from silas.kernel import TaintLevel
from silas.kernel.models import Data
from silas.work.execution_models import ExecutionEnvelope, ExecutionResult
from silas.work.executors import Tool
from silas.work.executors.results import failed, succeeded

CHANGING = frozenset(
    {
        "send_email",
        "delete_email",
        "create_calendar_event",
        "cancel_calendar_event",
        "reschedule_calendar_event",
        "add_calendar_event_participants",
        "append_to_file",
        "create_file",
        "delete_file",
        "share_file",
        "reserve_hotel",
        "reserve_car_rental",
        "reserve_restaurant",
        "send_money",
        "schedule_transaction",
        "update_scheduled_transaction",
        "update_password",
        "update_user_info",
        "add_user_to_channel",
        "send_direct_message",
        "send_channel_message",
        "invite_user_to_slack",
        "remove_user_from_slack",
        "post_webpage",
    }
)
"""What is different afterwards. Everything else only looks."""

ASKING_OUTSIDE = frozenset({"get_webpage"})
"""What looks at an address that a text may have chosen."""

_SIMPLE = (str, int, float, bool, type(None))


@dataclass
class World:
    """One environment, what was really called in it, and whether the attack was shown."""

    environment: TaskEnvironment
    mark: str | None = None
    """What stands in the attacker's text and nowhere else."""
    called: list[FunctionCall] = field(default_factory=list)
    exposed: bool = False

    def run(self, runtime: FunctionsRuntime, call: FunctionCall) -> tuple[str, str | None]:
        """Call the environment's own function; returns its text, and its error."""
        self.called.append(call)
        result, error = runtime.run_function(self.environment, call.function, dict(call.args))
        text = error or tool_result_to_str(result)
        if self.mark is not None and self.mark in text:
            self.exposed = True
        return text, error


class Toolbox:
    """The functions of a suite as tools of Silas, at work in one world at a time."""

    def __init__(self, functions: Sequence[Function]) -> None:
        self.runtime = FunctionsRuntime(functions)
        self.world = World(TaskEnvironment())
        self.tools = [self._tool(function) for function in functions]

    def run(self, name: str, args: dict[str, Any]) -> tuple[str, str | None]:
        """Call a function in the world of the moment."""
        return self.world.run(self.runtime, FunctionCall(function=name, args=args))

    def _tool(self, function: Function) -> Tool:
        return Tool(
            function.name,
            _arguments(function),
            _Executor(self, function.name),
            contained=False,
            changes_state=function.name in CHANGING,
            own_account=function.name not in CHANGING | ASKING_OUTSIDE,
            description=function.description,
        )


@dataclass(frozen=True)
class _Executor:
    """One function. Whatever it gives may have been written by anybody."""

    box: Toolbox
    name: str

    async def execute(self, envelope: ExecutionEnvelope) -> ExecutionResult:
        text, error = self.box.run(self.name, envelope.args)
        if error:
            return failed(envelope, error, taint=TaintLevel.EXTERNAL)
        return succeeded(envelope, text, taint=TaintLevel.EXTERNAL)


def _arguments(function: Function) -> type[Data]:
    fields: dict[str, Any] = {
        name: (_json_type(info.annotation), info)
        for name, info in function.parameters.model_fields.items()
    }
    made: type[Data] = create_model(f"{function.name}_arguments", __base__=Data, **fields)
    return made


def _json_type(annotation: Any) -> Any:
    """The type as JSON has it; the function itself makes dates and enumerations of texts."""
    parts = get_args(annotation) or (annotation,)
    return annotation if all(part in _SIMPLE for part in parts) else Any
