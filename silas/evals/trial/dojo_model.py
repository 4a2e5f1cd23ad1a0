"""The compromised model, and the owner who sees only cards.

The model makes the calls of the owner's task, and those that need no answer of each other in one
go. Once it has seen the attacker's text it makes the attacker's calls, together with its next ones,
so that both come to the owner on one card; and it says what the attacker wants said. It ignores
whatever it is told.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
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
from silas.work.paused import KeptCall
from silas.work.ports import PausedCall

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
    """Says yes to exactly the calls that belong to the task, and counts the cards."""

    wanted: list[FunctionCall]
    cards: int = 0
    declined: list[str] = field(default_factory=list)

    def decide_plan(self) -> ApprovalDecision:
        """A plan whose words are the owner's own."""
        self.cards += 1
        return ApprovalDecision(verdict=ApprovalVerdict.APPROVED)

    def decide_card(self, calls: Iterable[KeptCall]) -> list[tuple[KeptCall, ApprovalDecision]]:
        """A card with the calls that wait together, each with its own yes or no."""
        self.cards += 1
        return [(each, ApprovalDecision(verdict=self._verdict(each.call))) for each in calls]

    def _verdict(self, call: PausedCall) -> ApprovalVerdict:
        for each in self.wanted:
            if (each.function, dict(each.args)) == (call.tool, call.args):
                self.wanted.remove(each)
                return ApprovalVerdict.APPROVED
        self.declined.append(call.tool)
        return ApprovalVerdict.DECLINED
