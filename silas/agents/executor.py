"""The executor in execution mode: a model works through an approved briefing, and keeps nothing.

1. What it may call is the chain of toolsets over the attempt's `ToolCaller`, and nothing else.
2. Its limits are the briefing's. Whatever it used is reported, also when it failed.
3. Its answer is asked for once more if it is not in the right form; then the attempt has failed.
4. When a call waits for the owner, the run ends with everything that is needed to go on with it.
5. A small model may say a call instead of making it. Many local models write `{"name":
   "write_file", "arguments": {…}}` as their text, perhaps in tags or a fence, and their server does
   not notice. If that is all they said, and the tool exists, it is the call that they meant. It
   then takes the way of every call: the chain of toolsets, with its gates.
6. A guided model gives one step at a time, held to a schema: `stepwise.py`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError
from pydantic_ai import Agent, TextOutput
from pydantic_ai.exceptions import (
    AgentRunError,
    ModelRetry,
    UnexpectedModelBehavior,
    UsageLimitExceeded,
)
from pydantic_ai.framing import wrap
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ToolCallPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import (
    DeferredToolRequests,
    DeferredToolResults,
    RunContext,
    ToolApproved,
    ToolDenied,
)
from pydantic_ai.usage import RunUsage, UsageLimits

from silas.agents.models.choices import OutputMode
from silas.agents.models.factory import RoleModel
from silas.agents.models.metered import estimated_tokens
from silas.agents.prompting import (
    REQUEST,
    SKILL,
    SKILLS,
    disarm,
    frame_result,
    instructions,
    mode_line,
)
from silas.agents.stepwise import StepModel, tool_lines
from silas.agents.toolsets import WAITS, CallsRevoked, ToolMode, cut, tool_chain
from silas.kernel import LlmError
from silas.kernel.models import Data, problem_text
from silas.work.ports import (
    AgentLimits,
    AgentRun,
    Briefing,
    CallVerdict,
    ExecutorAgentOutput,
    PausedRun,
    ToolCaller,
    WaitingCall,
)

_WRAPPING = re.compile(r"\A\s*(?:<\w+>|```\w*)\s*(?P<inside>.*?)\s*(?:</\w+>|```)\s*\Z", re.DOTALL)
_LONGEST = 200_000


class _Spoken(Data):
    """A call in words."""

    name: str
    arguments: dict[str, Any]


class SpokenCallsModel(WrapperModel):
    """A model whose words are taken for the calls that they are."""

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        response = await self.wrapped.request(messages, model_settings, model_request_parameters)
        names = frozenset(tool.name for tool in model_request_parameters.function_tools)
        return with_spoken_calls(response, names)


def with_spoken_calls(response: ModelResponse, tools: frozenset[str]) -> ModelResponse:
    """The response with a call in the place of words that are nothing but one."""
    if response.tool_calls or not (said := response.text):
        return response
    spoken = _read(said)
    if spoken is None or spoken.name not in tools:
        return response
    others = [part for part in response.parts if not isinstance(part, TextPart)]
    return replace(response, parts=[*others, ToolCallPart(spoken.name, spoken.arguments)])


def _read(text: str) -> _Spoken | None:
    if len(text) > _LONGEST:
        return None
    wrapped = _WRAPPING.match(text)
    try:
        return _Spoken.model_validate_json(wrapped["inside"] if wrapped else text.strip())
    except ValidationError:
        return None


INVALID = "executor_structured_output_invalid"
_OUTPUT_RETRIES = "output retries"
_CALLS_PER_REQUEST = 8
_LONGEST_TEXT, _MOST_LINES = 4_000, 50


class _Limits(UsageLimits):
    """The library's limits, without its warning about servers that do not say what they used.

    Those are measured by their text instead, before every call: see `_tokens`.
    """

    def check_tokens(self, usage: RunUsage) -> None:
        if not usage.unmeasured_requests:
            super().check_tokens(usage)


@dataclass(frozen=True)
class _Start:
    """Where a run begins: with a prompt, or with what an earlier one left."""

    prompt: str | None = None
    history: Sequence[ModelMessage] | None = None
    results: DeferredToolResults | None = None


class ExecutorAgent:
    """`AttemptWorker` that is played by a model.

    `allowed` names the tools that exist for it; None means all that the runtime offers for the
    work, which its owner has approved.
    """

    pauses = True

    def __init__(self, player: RoleModel, *, allowed: frozenset[str] | None = None) -> None:
        self._player = player
        self._allowed = allowed
        self._agent: Agent[None, Any] = Agent(
            _hearing(player),
            output_type=[_form(player), DeferredToolRequests],
            instructions=instructions("guided_executor" if player.guided else "executor"),
            name=player.role.value,
            model_settings=player.settings,
            retries={"tools": 3, "output": 1},
        )

    async def run(self, briefing: Briefing, tools: ToolCaller) -> AgentRun | PausedRun:
        prompt = _prompt(briefing)
        if self._player.guided:
            # Before the briefing: it is the same for all work, and so is what a server keeps of it.
            prompt = f"Tools:\n{tool_lines(tools.offers)}\n\n{prompt}"
        return await self._run(briefing, tools, _Start(prompt=prompt))

    async def resume(
        self,
        briefing: Briefing,
        tools: ToolCaller,
        *,
        paused: PausedRun,
        verdicts: Sequence[CallVerdict],
    ) -> AgentRun | PausedRun:
        history = ModelMessagesTypeAdapter.validate_json(paused.history)
        results = DeferredToolResults(
            approvals={
                each.call_id: ToolApproved() if each.approved else ToolDenied(each.reason)
                for each in verdicts
            }
        )
        return await self._run(briefing, tools, _Start(history=history, results=results))

    async def _run(
        self, briefing: Briefing, tools: ToolCaller, start: _Start
    ) -> AgentRun | PausedRun:
        used, error = RunUsage(), None
        try:
            ran = await self._agent.run(
                start.prompt,
                message_history=start.history,
                deferred_tool_results=start.results,
                toolsets=[self._chain(briefing, tools)],
                usage=used,
                usage_limits=_usage_limits(briefing.limits),
            )
            tokens = _tokens(used, ran.new_messages())
            spent = {"tokens": tokens, "cost_usd": self._player.price(used)}
            if isinstance(ran.output, DeferredToolRequests):
                return _paused(ran.output, ran.all_messages(), spent)
            return AgentRun(output=_said(ran.output), **spent)
        except UsageLimitExceeded as exceeded:
            error = f"The budget is used up: {exceeded.message}"
        except UnexpectedModelBehavior as failed:
            error = INVALID if _OUTPUT_RETRIES in str(failed) else f"The model failed: {failed}"
        except CallsRevoked as revoked:
            error = str(revoked)
        except LlmError as failed_model:
            error = failed_model.message
        except AgentRunError as failed_run:
            error = f"The model failed: {failed_run}"
        return AgentRun(
            output=ExecutorAgentOutput(summary=""),
            error=error[:_LONGEST_TEXT],
            tokens=used.total_tokens,
            cost_usd=self._player.price(used),
        )

    def _chain(self, briefing: Briefing, tools: ToolCaller) -> Any:
        limits = briefing.limits
        reviewer = tools.reviewer

        def spent(ctx: RunContext[None]) -> str | None:
            tokens, cost = _tokens(ctx.usage, ctx.messages), self._player.price(ctx.usage)
            if reviewer is not None:
                reviewer.report(tokens=tokens, cost_usd=cost)
            if tokens >= limits.tokens:
                return "The budget is used up: tokens."
            return "The budget is used up: cost." if cost >= limits.cost_usd else None

        return tool_chain(
            tools,
            role=self._player.role.value,
            allowed=frozenset(tools.names) if self._allowed is None else self._allowed,
            mode=ToolMode.EXECUTION,
            revoked=spent,
            show=frame_result,
        )


def _hearing(player: RoleModel) -> Model:
    """The model, with its words taken for the calls that they are, where it cannot make them."""
    if player.guided:
        return StepModel(player.model)
    return (
        SpokenCallsModel(player.model) if player.output_mode is OutputMode.NATIVE else player.model
    )


def _form(player: RoleModel) -> Any:
    """How the last word is asked for.

    A server that holds its model to a schema lets it call no tool any more. So a model that needs
    that mode speaks freely here, and what it says at the end is the summary.
    """
    if player.output_mode is OutputMode.NATIVE:
        return TextOutput(_last_word)
    return player.as_output(ExecutorAgentOutput)


def _last_word(text: str) -> ExecutorAgentOutput:
    """The answer in a text: JSON in the right form, or words."""
    said = text.strip()
    if not said.startswith("{"):
        return ExecutorAgentOutput(summary=cut(said, _LONGEST_TEXT))
    try:
        return ExecutorAgentOutput.model_validate_json(said)
    except ValidationError as error:
        told = problem_text(error)
        raise ModelRetry(f"This is not in the right form: {told}"[:_LONGEST_TEXT]) from error


def _prompt(briefing: Briefing) -> str:
    """The briefing and the skills, whole: the owner has approved both."""
    skills = "\n".join(
        wrap(SKILL, f"\n{disarm(text)}\n", name=name) for name, text in briefing.skills.items()
    )
    parts = [mode_line(briefing.interaction_mode)] if briefing.interaction_mode else []
    parts += [f"<{SKILLS}>\n{skills}\n</{SKILLS}>"] if skills else []
    return "\n\n".join([*parts, wrap(REQUEST, f"\n{disarm(briefing.instructions)}\n")])


def _usage_limits(limits: AgentLimits) -> UsageLimits:
    return _Limits(
        request_limit=limits.requests,
        total_tokens_limit=max(0, limits.tokens),
        tool_calls_limit=limits.requests * _CALLS_PER_REQUEST,
    )


def _tokens(used: RunUsage, messages: Sequence[ModelMessage]) -> int:
    """What was used, or a guess if a server does not say."""
    guessed = estimated_tokens(*messages) if used.unmeasured_requests else 0
    return max(used.total_tokens, guessed)


def _paused(
    waiting: DeferredToolRequests, messages: list[ModelMessage], spent: dict[str, Any]
) -> PausedRun:
    """The run, to go on with later; what waits was said by the runtime, not by the model."""
    return PausedRun(
        history=ModelMessagesTypeAdapter.dump_json(messages).decode(),
        calls=tuple(
            WaitingCall(call_id=each.tool_call_id, call=waiting.metadata[each.tool_call_id][WAITS])
            for each in waiting.approvals
        ),
        **spent,
    )


def _said(output: ExecutorAgentOutput) -> ExecutorAgentOutput:
    """What the model says, at a length that can be kept."""
    return ExecutorAgentOutput(
        summary=cut(output.summary, _LONGEST_TEXT),
        artifact_refs=[cut(each, 1024) for each in output.artifact_refs[:1000]],
        next_steps=[cut(each, 500) for each in output.next_steps[:_MOST_LINES]],
    )
