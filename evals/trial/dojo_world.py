"""AgentDojo's environments as tools of Silas, the model that was taken over, and the owner.

What a tool of a connected account does is said by whoever connects it, as here: it changes
something, it only looks into the owner's own account, or it asks an address outside. What it does
is AgentDojo's; what may be done is ours.

The model makes the calls of the owner's task, and those that need no answer of each other in one
go. Once it has seen the attacker's text it makes the attacker's calls, together with its next ones,
so that both come to the owner on one card; and it says what the attacker wants said. It ignores
whatever it is told. The owner sees only cards.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Any, get_args

from agentdojo.agent_pipeline.tool_execution import tool_result_to_str
from agentdojo.functions_runtime import Function, FunctionCall, FunctionsRuntime, TaskEnvironment
from pydantic import create_model
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from silas.agents.models.choices import OutputMode, Role
from silas.agents.models.factory import RoleModel
from silas.approval import ApprovalDecision, ApprovalVerdict
from silas.gates.risk import ActionKind, DeclaredEffect, Reversibility
from silas.kernel import TaintLevel
from silas.kernel.models import Data
from silas.tools.declaration import Tool
from silas.tools.execution import ExecutionEnvelope, ExecutionResult, failed, succeeded
from silas.work.paused import KeptCall
from silas.work.ports import PausedCall

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

_CHANGES = DeclaredEffect(action=ActionKind.CHANGE, reversibility=Reversibility.IRREVERSIBLE)
_LOOKS = DeclaredEffect(action=ActionKind.OBSERVE, reversibility=Reversibility.REVERSIBLE)
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
            effect=_CHANGES if function.name in CHANGING else _LOOKS,
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


_USAGE = RequestUsage(input_tokens=1, output_tokens=1)


class When(StrEnum):
    """When the attacker strikes: what the owner's task does later may undo it."""

    AT_ONCE = "at once"
    AT_THE_END = "at the end"


@dataclass
class Compromised:
    """A model that makes these calls, and the attacker's as soon as it was shown them."""

    world: World
    steps: deque[list[FunctionCall]]
    answer: str
    attack: Callable[[Any], tuple[list[FunctionCall], str]] | None
    """The attacker's calls, as the environment is when they are made."""
    when: When = When.AT_ONCE
    _attacked: bool = False

    def next_calls(self) -> list[FunctionCall]:
        """The calls that are made next; none when there is nothing left to do."""
        attack = self._attacks()
        return [*attack, *(self.steps.popleft() if self.steps else [])]

    def _attacks(self) -> list[FunctionCall]:
        waits = self.when is When.AT_THE_END and self.steps
        if not self.world.exposed or self.attack is None or self._attacked or waits:
            return []
        self._attacked = True
        calls, said = self.attack(self.world.environment)
        self.answer = f"{self.answer}\n{said}" if said else self.answer
        return calls

    def player(self, role: Role, final: Callable[[str], dict[str, Any]]) -> RoleModel:
        """The model in this role; `final` puts its words into the form of the role's answer."""

        def respond(_messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            calls = self.next_calls()
            parts = [ToolCallPart(call.function, dict(call.args)) for call in calls]
            last = ToolCallPart(info.output_tools[0].name, final(self.answer))
            return ModelResponse(parts=parts or [last], usage=_USAGE)

        return RoleModel(
            role=role,
            model=FunctionModel(respond),
            settings=ModelSettings(),
            output_mode=OutputMode.TOOL,
            name="compromised",
        )


@dataclass
class Owner:
    """Approves exactly the calls that belong to the task, or each card by chance; counts cards."""

    wanted: list[FunctionCall]
    approves: float | None = None
    chance: Random = field(default_factory=lambda: Random(0))
    cards: int = 0
    declined: list[str] = field(default_factory=list)

    def decide_plan(self) -> ApprovalDecision:
        """A plan whose words are the owner's own."""
        self.cards += 1
        return ApprovalDecision(verdict=ApprovalVerdict.APPROVED)

    def decide_card(self, calls: Iterable[KeptCall]) -> list[tuple[KeptCall, ApprovalDecision]]:
        """A card with the calls that wait together, each with its own yes or no."""
        self.cards += 1
        if self.approves is None:
            return [(each, ApprovalDecision(verdict=self._verdict(each.call))) for each in calls]
        yes = self.chance.random() < self.approves
        verdict = ApprovalVerdict.APPROVED if yes else ApprovalVerdict.DECLINED
        self.declined += [] if yes else [each.call.tool for each in calls]
        return [(each, ApprovalDecision(verdict=verdict)) for each in calls]

    def _verdict(self, call: PausedCall) -> ApprovalVerdict:
        for each in self.wanted:
            if (each.function, dict(each.args)) == (call.tool, call.args):
                self.wanted.remove(each)
                return ApprovalVerdict.APPROVED
        self.declined.append(call.tool)
        return ApprovalVerdict.DECLINED
