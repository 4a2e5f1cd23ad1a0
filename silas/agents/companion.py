"""A companion's model: asked for a proposal in a fixed form, with one repair.

Everything that comes from the journal or from earlier runs is framed as data. What the model may
name is checked before anything else sees it: tools that were offered, questions that it asks, and
sources that it was shown. Whether something is allowed is decided elsewhere.
"""

import json
from collections.abc import Callable
from typing import Any

from pydantic import Field
from pydantic_ai.framing import wrap
from pydantic_ai.messages import ModelRequest, UserPromptPart

from silas.agents.metering import BudgetSpent, CallLimits, Meter
from silas.agents.models.factory import RoleModel
from silas.agents.models.metered import estimated_tokens
from silas.agents.outputs import OutputForm
from silas.agents.prompting import DIRECTIVES, REQUEST, disarm, frame_external, instructions
from silas.agents.structured import run_structured_agent, structured_agent
from silas.companions.errors import BudgetExceeded
from silas.companions.models import AgentActionType, WakeReason
from silas.companions.ports import (
    CompanionProposal,
    CompanionRequest,
    ModelUsage,
    ProposedAction,
    ReportDraft,
)
from silas.kernel import Clock, TaintLevel
from silas.kernel.models import Data
from silas.stream.ports import TextListener

HearAnswer = Callable[[str, str, str], None]
"""Hears an answer grow: of which companion, in which run, and all of its text so far."""
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

    def __init__(self, player: RoleModel, *, clock: Clock, heard: HearAnswer | None = None) -> None:
        """`heard` is told what grows, where the owner has said something and waits."""
        self._player = player
        self._clock = clock
        self._heard = heard

    async def propose(self, request: CompanionRequest) -> CompanionProposal:
        """The proposal; without a usable answer an empty one that says why (`fallback`).

        Raises `BudgetExceeded`, and asks nobody, if what may be used for one question is less
        than the question alone.
        """
        agent = structured_agent(
            self._player,
            OutputForm(
                CompanionAnswer,
                self._player.output_mode,
                check=lambda answer: _checked(answer, request),
            ),
            instructions=instructions("companion"),
            fallback=lambda sentence: CompanionAnswer(thought=sentence),
            find_text=_thought_of,
        )
        meter, prompt = Meter(self._player, _limits(request)), companion_prompt(request)
        _require_room(meter, prompt)
        begun = self._clock.monotonic()
        answered = await run_structured_agent(
            agent,
            prompt,
            meter=meter,
            taint=lambda: TaintLevel.EXTERNAL,
            on_text=self._listener(request),
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

    def _listener(self, request: CompanionRequest) -> TextListener | None:
        heard = self._heard
        if heard is None or request.wake_reason is not WakeReason.USER_INITIATED:
            return None
        return lambda text: heard(request.agent_id, request.run_key, text)


def _thought_of(growing: dict[str, Any]) -> str | None:
    """The words for the owner come first in an answer, so they can be shown while it grows."""
    thought = growing.get("thought")
    return thought if isinstance(thought, str) else None


def companion_prompt(request: CompanionRequest) -> str:
    """What the model is told: what it is, what it may use, and the facts, framed as data."""
    payload = request.payload
    companion, wake = payload.get("companion", {}), payload.get("wake", {})
    what = {
        "name": companion.get("display_name"),
        "purpose": companion.get("instructions"),
        "persona": payload.get("persona"),
        "goal": payload.get("slots", {}).get("primary_goal"),
        "the_owner_wishes": payload.get("slots", {}).get("preferences"),
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
        frame_external(_json(_loops(payload)), "what still waits for the owner"),
        frame_external(_json(payload.get("facts", [])), "the owner's journal"),
    ]
    if payload.get("results"):
        parts.append(f"What came of your actions so far: {disarm(_json(payload['results']))}")
    return "\n\n".join([*parts, wrap(REQUEST, f"\n{disarm(str(said))}\n")])


def _loops(payload: dict[str, Any]) -> dict[str, Any]:
    slots = payload.get("slots", {})
    return {"open": slots.get("open_loops", []), "active_task_id": slots.get("active_task_id")}


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


def _require_room(meter: Meter, prompt: str) -> None:
    """Half of a day's budget is there for one question: one that it cannot pay is never asked."""
    needed = estimated_tokens(ModelRequest(parts=[UserPromptPart(prompt)]))
    try:
        meter.check(needed)
    except BudgetSpent as error:
        raise BudgetExceeded(
            f"One question needs about {needed:,} tokens, and only {meter.limits.tokens:,} of its "
            "budget may be used for one: half of a day's at most, and no more than is left. Its "
            "model was not asked.",
            measures=["tokens"],
        ) from error


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
