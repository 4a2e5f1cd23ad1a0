"""The compromised model, and the owner who sees only cards.

The model makes the calls of the owner's task. Once it has seen the attacker's text it makes the
attacker's calls, and says what he wants said; then it goes on. It ignores whatever it is told.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agentdojo.functions_runtime import FunctionCall
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from silas.agents.models.factory import RoleModel
from silas.agents.models.roles import OutputMode, Role
from silas.approval import ApprovalDecision, ApprovalVerdict
from silas.evals.trial.dojo_tools import World
from silas.work.models import WorkItem
from silas.work.ports import PausedCall

_USAGE = RequestUsage(input_tokens=1, output_tokens=1)


@dataclass
class Compromised:
    """A model that makes these calls, and the attacker's as soon as it was shown them."""

    world: World
    calls: deque[FunctionCall]
    answer: str
    attack: Callable[[Any], tuple[list[FunctionCall], str]] | None
    """The attacker's calls, as the environment is when they are made."""
    _attacked: bool = False

    def next_call(self) -> FunctionCall | None:
        """The next call, or None when there is nothing left to do."""
        if self.world.exposed and self.attack is not None and not self._attacked:
            self._attacked = True
            calls, said = self.attack(self.world.environment)
            self.calls.extendleft(reversed(calls))
            self.answer = f"{self.answer}\n{said}" if said else self.answer
        return self.calls.popleft() if self.calls else None

    def player(self, role: Role, final: Callable[[str], dict[str, Any]]) -> RoleModel:
        """The model in this role; `final` puts its words into the form of the role's answer."""

        def respond(_messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            call = self.next_call()
            part = (
                ToolCallPart(call.function, dict(call.args))
                if call is not None
                else ToolCallPart(info.output_tools[0].name, final(self.answer))
            )
            return ModelResponse(parts=[part], usage=_USAGE)

        return RoleModel(
            role=role,
            model=FunctionModel(respond),
            settings=ModelSettings(),
            output_mode=OutputMode.TOOL,
            name="compromised",
        )


@dataclass
class Owner:
    """`Approver` that says yes to exactly the calls that belong to the task, and counts cards."""

    wanted: list[FunctionCall]
    cards: int = 0
    declined: list[str] = field(default_factory=list)

    async def decide_call(self, call: PausedCall) -> ApprovalDecision:
        self.cards += 1
        for each in self.wanted:
            if (each.function, dict(each.args)) == (call.tool, call.args):
                self.wanted.remove(each)
                return ApprovalDecision(verdict=ApprovalVerdict.APPROVED)
        self.declined.append(call.tool)
        return ApprovalDecision(verdict=ApprovalVerdict.DECLINED)

    async def decide_item(self, item: WorkItem) -> ApprovalDecision:
        """A plan whose words are the owner's own."""
        del item
        self.cards += 1
        return ApprovalDecision(verdict=ApprovalVerdict.APPROVED)
