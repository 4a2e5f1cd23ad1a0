"""What one call may use, and what it has used. Nothing is asked of a model beyond the limits."""

from dataclasses import dataclass, field

from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.usage import RunUsage

from silas.agents.models.factory import RoleModel
from silas.agents.models.metered import CHARS_PER_TOKEN, estimated_tokens
from silas.agents.models.modes import use_reported_cost
from silas.kernel import LlmError
from silas.stream.models import Usage


class BudgetSpent(LlmError):
    """This would use more than its budget allows. Ask for less at once, or raise the budget."""

    code = "E_LLM_BUDGET"


@dataclass(frozen=True)
class CallLimits:
    """The limits of one call; a repair keeps to the same ones."""

    tokens: int
    cost_usd: float
    seconds: float
    answer_tokens: int
    """How long one answer may be."""
    requests: int = 24
    """How often the model may be asked, tools included."""


@dataclass
class Meter:
    """Counts the tokens and the money of one call."""

    player: RoleModel
    limits: CallLimits
    used: RunUsage = field(default_factory=RunUsage)
    _unmeasured: int = 0

    @property
    def usage(self) -> Usage:
        """What was used so far."""
        return Usage(tokens=self._tokens, cost_usd=self.player.price(self.used))

    @property
    def _tokens(self) -> int:
        return self.used.total_tokens + self._unmeasured

    def add(self, response: ModelResponse, messages: list[ModelMessage]) -> None:
        """Count a response. Cut off, or silent about its usage, it is measured by its text."""
        self.used.incr(use_reported_cost(response).usage)
        self.used.requests += 1
        if not response.usage.has_values() or response.state != "complete":
            guessed = estimated_tokens(*messages, response)
            self._unmeasured += max(0, guessed - response.usage.total_tokens)

    def add_cut_off(self, characters: int) -> None:
        """Count an answer that was cut off inside of a run."""
        self.used.requests += 1
        self._unmeasured += int(characters / CHARS_PER_TOKEN)

    def check(self, upcoming: int = 0) -> None:
        """Raise `BudgetSpent` if there is no room for another request of this many tokens."""
        usage = self.usage
        if (
            usage.tokens + upcoming > self.limits.tokens
            or usage.cost_usd > self.limits.cost_usd
            or self.used.requests >= self.limits.requests
        ):
            raise BudgetSpent
