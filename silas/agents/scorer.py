"""The scorer: says which groups of context the conversation can do without."""

from collections.abc import Sequence
from typing import NoReturn

from pydantic import Field
from pydantic_ai.framing import wrap

from silas.agents.framing import REQUEST, disarm, frame_external
from silas.agents.metering import CallLimits, Meter
from silas.agents.models.factory import RoleModel
from silas.agents.outputs import OutputForm
from silas.agents.prompting import prompt_file
from silas.agents.structured import run_structured_agent, structured_agent
from silas.context.ports import ContextGroup
from silas.kernel import LlmError, join_taint
from silas.kernel.models import Data

_SECONDS = 2.0
_TOKENS = 60_000
_ANSWER_TOKENS = 500
_MOST_OF_GROUP = 400


class ScorerGroup(Data):
    """Blocks that stay or go together, and why."""

    reason: str
    block_ids: list[str]


class ScorerOutput(Data):
    """The scorer's opinion."""

    keep_groups: list[ScorerGroup] = Field(default_factory=list)
    evict_groups: list[ScorerGroup]


class ContextScorer:
    """`silas.context.ports.Scorer`."""

    def __init__(
        self, player: RoleModel, *, seconds: float = _SECONDS, max_cost_usd: float = 0.05
    ) -> None:
        self._limits = CallLimits(
            tokens=_TOKENS,
            cost_usd=max_cost_usd,
            seconds=seconds,
            answer_tokens=_ANSWER_TOKENS,
            requests=2,
        )
        self._agent = structured_agent(
            player,
            OutputForm(ScorerOutput, player.output_mode),
            instructions=prompt_file("scorer"),
            fallback=_no_opinion,
        )

    async def score(self, groups: Sequence[ContextGroup], goal: str | None) -> list[str]:
        """The ids of the groups to drop, the least valuable first; raises `LlmError`."""
        answered = await run_structured_agent(
            self._agent,
            _prompt(groups, goal),
            meter=Meter(self._agent.player, self._limits),
            taint=lambda: join_taint(*(group.taint for group in groups)),
        )
        kept = {name for group in answered.output.keep_groups for name in group.block_ids}
        known = {group.group_id for group in groups} - kept
        named = [name for group in answered.output.evict_groups for name in group.block_ids]
        return [name for name in dict.fromkeys(named) if name in known]


def _no_opinion(sentence: str) -> NoReturn:
    raise LlmError(sentence)


def _prompt(groups: Sequence[ContextGroup], goal: str | None) -> str:
    blocks = [
        f"{disarm(group.group_id)} ({disarm(group.kind)}, turn {group.turn_number}, "
        f"{group.token_count} tokens): "
        + frame_external(group.text[:_MOST_OF_GROUP], group.taint.value)
        for group in groups
    ]
    asked = wrap(REQUEST, disarm(goal) if goal else "not known; judge by the last turns")
    return "\n".join(["The current goal:", asked, "The groups, as id and content:", *blocks])
