"""What only judges: the model behind `llm` gates, the scorer of a context, the reader of items.

The gate is asked one question for one short answer, nothing else. The scorer says which groups of
context the conversation can do without. The reader guesses what the owner wants done with an item.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from pydantic import Field
from pydantic_ai.direct import model_request
from pydantic_ai.framing import wrap
from pydantic_ai.messages import ModelRequest
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings

from silas.agents.metering import CallLimits, Meter
from silas.agents.models.choices import OutputMode
from silas.agents.models.factory import RoleModel
from silas.agents.outputs import MAX_ANSWER_CHARS, OutputForm
from silas.agents.prompting import REQUEST, disarm, frame_external, prompt_file
from silas.agents.structured import run_structured_agent, structured_agent
from silas.context.models import ContextGroup
from silas.kernel import LlmError, TaintLevel, join_taint
from silas.kernel.models import Data
from silas.proactive.triage import SeenItem

_GATE_ANSWER_TOKENS = 256
# The whole answer, or nothing: a block that is quoted inside an answer is not the answer.
_FENCED = re.compile(r"\s*```(?:json)?\s*(?P<inside>\{[^`]*\})\s*```\s*")


class LlmGate:
    """`silas.gates.models.GateModel`: asked directly, since it has no tools and no repair."""

    def __init__(
        self, player: RoleModel, *, temperature: float = 0.0, max_tokens: int = _GATE_ANSWER_TOKENS
    ) -> None:
        self._player = player
        self._settings = ModelSettings(
            **{**player.settings, "temperature": temperature, "max_tokens": max_tokens}
        )

    async def ask(self, prompt: str, *, schema: Mapping[str, Any]) -> str:
        """The model's answer as text; raises `LlmError` if there is none."""
        request = ModelRequest.user_text_prompt(prompt, instructions=prompt_file("gate"))
        response = await model_request(
            self._player.model,
            [request],
            model_settings=self._settings,
            model_request_parameters=self._parameters(schema),
        )
        text = response.text or ""
        if not text.strip() or len(text) > MAX_ANSWER_CHARS:
            raise LlmError
        fenced = _FENCED.fullmatch(text)
        return fenced["inside"] if fenced else text

    def _parameters(self, schema: Mapping[str, Any]) -> ModelRequestParameters:
        if self._player.output_mode is not OutputMode.NATIVE:
            return ModelRequestParameters()  # the prompt says what the answer looks like
        return ModelRequestParameters(
            output_mode="native",
            output_object=OutputObjectDefinition(json_schema=dict(schema), name="answer"),
        )


_SCORER_SECONDS = 2.0
_SCORER_TOKENS = 60_000
_SCORER_ANSWER_TOKENS = 500
_MAX_GROUP_CHARACTERS = 400


class ScorerGroup(Data):
    """Blocks that stay or go together, and why."""

    reason: str
    block_ids: list[str]


class ScorerOutput(Data):
    """The scorer's opinion."""

    keep_groups: list[ScorerGroup] = Field(default_factory=list)
    evict_groups: list[ScorerGroup]


class ContextScorer:
    """`silas.context.models.Scorer`."""

    def __init__(
        self, player: RoleModel, *, seconds: float = _SCORER_SECONDS, max_cost_usd: float = 0.05
    ) -> None:
        self._limits = CallLimits(
            tokens=_SCORER_TOKENS,
            cost_usd=max_cost_usd,
            seconds=seconds,
            answer_tokens=_SCORER_ANSWER_TOKENS,
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
        + frame_external(group.text[:_MAX_GROUP_CHARACTERS], group.taint.value)
        for group in groups
    ]
    asked = wrap(REQUEST, disarm(goal) if goal else "not known; judge by the last turns")
    return "\n".join(["The current goal:", asked, "The groups, as id and content:", *blocks])


_READER_LIMITS = CallLimits(
    tokens=30_000, cost_usd=0.05, seconds=60.0, answer_tokens=2_000, requests=2
)


class GuessedItem(Data):
    """What the owner most likely wants done with one item."""

    number: int
    action: str


class ReaderOutput(Data):
    """What the reader is sure of."""

    items: list[GuessedItem]


class ItemReader:
    """`silas.proactive.triage.Reader`: one answer for all, no tools, and no words of its own."""

    def __init__(self, player: RoleModel, limits: CallLimits = _READER_LIMITS) -> None:
        self._limits = limits
        self._agent = structured_agent(
            player,
            OutputForm(ReaderOutput, player.output_mode),
            instructions=prompt_file("sorter"),
            fallback=_no_opinion,
        )

    async def read(self, actions: Mapping[str, str], items: Sequence[SeenItem]) -> dict[str, str]:
        """The action for each item of which the model is sure, by its id; raises `LlmError`."""
        named = [f"- {disarm(name)}: {disarm(label)}" for name, label in actions.items()]
        lines = [
            f"{number}. {frame_external(_item_line(item), 'item')}"
            for number, item in enumerate(items, 1)
        ]
        answered = await run_structured_agent(
            self._agent,
            "\n".join(["The actions, by name:", *named, "The items:", *lines]),
            meter=Meter(self._agent.player, self._limits),
            taint=lambda: TaintLevel.EXTERNAL,
        )
        found: dict[str, str] = {}
        for each in answered.output.items:
            if each.action in actions and 1 <= each.number <= len(items):
                found.setdefault(items[each.number - 1].item_id, each.action)
        return found


def _item_line(item: SeenItem) -> str:
    vouched = "" if item.verified else " (the sender is not verified)"
    when = f"{item.occurred_at:%Y-%m-%d}" if item.occurred_at else "no date"
    return f"from {item.actor}{vouched}; {when}; subject: {item.title}"
