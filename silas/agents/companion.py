"""A companion's model: asked for a proposal in a fixed form, with one repair.

Everything that comes from the journal or from earlier runs is framed as data. What the model may
name is checked before anything else sees it: tools that were offered, questions that it asks, and
sources that it was shown. Whether something is allowed is decided elsewhere.
"""

import json
from typing import Any

from pydantic import Field
from pydantic_ai.framing import wrap

from silas.agents.metering import CallLimits, Meter
from silas.agents.models.factory import RoleModel
from silas.agents.outputs import OutputForm
from silas.agents.prompting import DIRECTIVES, REQUEST, disarm, frame_external, instructions
from silas.agents.structured import run_structured_agent, structured_agent
from silas.companions.models import AgentActionType
from silas.companions.ports import (
    CompanionProposal,
    CompanionRequest,
    ModelUsage,
    ProposedAction,
    ReportDraft,
)
from silas.kernel import Clock, TaintLevel
from silas.kernel.models import Data

_ANSWER_TOKENS = 4_000
_LONGEST_SECONDS = 300.0
_QUESTIONS = (AgentActionType.ASK_USER, AgentActionType.PROPOSE_PLAN)


class CompanionAnswer(Data):
    """What a model answers."""

    thought: str = Field(default="", max_length=4_000)
    actions: tuple[ProposedAction, ...] = Field(default=(), max_length=20)
    report: ReportDraft | None = None


class CompanionAgent:
    """`silas.companions.ports.CompanionModel` over one model of the owner's choice."""

    def __init__(self, player: RoleModel, *, clock: Clock) -> None:
        self._player = player
        self._clock = clock

    async def propose(self, request: CompanionRequest) -> CompanionProposal:
        """The proposal; without a usable answer an empty one that says why."""
        agent = structured_agent(
            self._player,
            OutputForm(
                CompanionAnswer,
                self._player.output_mode,
                check=lambda answer: _checked(answer, request),
            ),
            instructions=instructions("companion"),
            fallback=lambda sentence: CompanionAnswer(thought=sentence),
        )
        meter = Meter(self._player, _limits(request))
        begun = self._clock.monotonic()
        answered = await run_structured_agent(
            agent, companion_prompt(request), meter=meter, taint=lambda: TaintLevel.EXTERNAL
        )
        output = answered.output
        return CompanionProposal(
            actions=output.actions,
            report=output.report,
            thought=output.thought,
            usage=ModelUsage(
                tokens=answered.usage.tokens,
                cost_usd=answered.usage.cost_usd,
                seconds=max(0.0, self._clock.monotonic() - begun),
                retries=max(0, meter.used.requests - 1),
            ),
            model_id=self._player.name,
            fallback=answered.fallback,
        )


def companion_prompt(request: CompanionRequest) -> str:
    """What the model is told: what it is, what it may use, and the facts, framed as data."""
    payload = request.payload
    companion, wake = payload.get("companion", {}), payload.get("wake", {})
    what = {
        "name": companion.get("display_name"),
        "purpose": companion.get("instructions"),
        "persona": payload.get("persona"),
        "goal": payload.get("slots", {}).get("primary_goal"),
        "report_template": payload.get("report"),
    }
    tools = [each.model_dump() for each in request.tools]
    said = wake.get("said") or f"You were woken by: {wake.get('reason')}."
    parts = [
        wrap(DIRECTIVES, f"\n{disarm(_json(what))}\n"),
        f"Tools:\n{disarm(_json(tools))}",
        f"Now: {disarm(str(payload.get('now')))} ({disarm(str(payload.get('time_zone')))})",
        frame_external(_json(payload.get("memory", {})), "earlier runs"),
        frame_external(_json(wake.get("answers", [])), "answers to earlier questions"),
        frame_external(_json(payload.get("facts", [])), "the owner's journal"),
    ]
    if payload.get("results"):
        parts.append(f"What came of your actions so far: {disarm(_json(payload['results']))}")
    return "\n\n".join([*parts, wrap(REQUEST, f"\n{disarm(str(said))}\n")])


def _checked(answer: CompanionAnswer, request: CompanionRequest) -> CompanionAnswer:
    offered = {each.name for each in request.tools}
    known = {each.get("source_id") for each in request.payload.get("facts", ())}
    for number, action in enumerate(answer.actions):
        if action.tool_name is not None and action.tool_name not in offered:
            raise ValueError(f"actions[{number}]: there is no tool {action.tool_name[:60]!a}")
        for before in action.after:
            if not _asks(answer.actions, before):
                raise ValueError(f"actions[{number}].after: {before} is not a question")
    for section in answer.report.sections if answer.report else ():
        for claim in section.claims:
            if not claim.sources or not known.issuperset(claim.sources):
                raise ValueError(
                    f"report.{section.section_id}: every claim needs `sources` that stand in the "
                    "facts as `source_id`"
                )
    return answer


def _asks(actions: tuple[ProposedAction, ...], number: int) -> bool:
    return 0 <= number < len(actions) and actions[number].action_type in _QUESTIONS


def _limits(request: CompanionRequest) -> CallLimits:
    allowance = request.allowance
    return CallLimits(
        tokens=allowance.tokens,
        cost_usd=allowance.cost_usd,
        seconds=min(_LONGEST_SECONDS, allowance.seconds),
        answer_tokens=min(_ANSWER_TOKENS, allowance.tokens),
        requests=2,
    )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)
