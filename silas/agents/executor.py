"""The executor in execution mode: a model works through an approved briefing, and keeps nothing.

1. What it may call is the chain of toolsets over the attempt's `ToolCaller`, and nothing else.
2. Its limits are the briefing's. Whatever it used is reported, also when it failed.
3. Its answer is asked for once more if it is not in the right form; then the attempt has failed.
4. When a call waits for the owner, the run ends with everything that is needed to go on with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
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
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter
from pydantic_ai.tools import (
    DeferredToolRequests,
    DeferredToolResults,
    RunContext,
    ToolApproved,
    ToolDenied,
)
from pydantic_ai.usage import RunUsage, UsageLimits

from silas.agents.framing import REQUEST, SKILL, SKILLS, disarm, frame_result
from silas.agents.metering import estimated_tokens
from silas.agents.models.factory import RoleModel
from silas.agents.models.roles import OutputMode
from silas.agents.models.spoken_calls import SpokenCallsModel
from silas.agents.prompting import instructions
from silas.agents.toolsets import CallsRevoked, ToolMode, tool_chain
from silas.agents.toolsets.gated import WAITS
from silas.agents.toolsets.shown import cut
from silas.kernel import LlmError
from silas.kernel.field_problems import dotted, problems_in
from silas.work.execution_models import ExecutorAgentOutput
from silas.work.ports import (
    AgentLimits,
    AgentRun,
    Briefing,
    CallVerdict,
    PausedRun,
    ReviewingCaller,
    ToolCaller,
    WaitingCall,
)

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
    """`PausingAgent` that is played by a model.

    `allowed` names the tools that exist for it; None means all that the runtime offers for the
    work, which its owner has approved.
    """

    def __init__(self, player: RoleModel, *, allowed: frozenset[str] | None = None) -> None:
        self._player = player
        self._allowed = allowed
        spoken = player.output_mode is OutputMode.NATIVE
        self._agent: Agent[None, Any] = Agent(
            SpokenCallsModel(player.model) if spoken else player.model,
            output_type=[_form(player), DeferredToolRequests],
            instructions=instructions("executor"),
            name=player.role.value,
            model_settings=player.settings,
            retries={"tools": 3, "output": 1},
        )

    async def run(self, briefing: Briefing, tools: ToolCaller) -> AgentRun | PausedRun:
        return await self._run(briefing, tools, _Start(prompt=_prompt(briefing)))

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
        reviewer = tools if isinstance(tools, ReviewingCaller) else None

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
        told = "; ".join(f"{dotted(path)}: {message}" for path, message in problems_in(error))
        raise ModelRetry(f"This is not in the right form: {told}"[:_LONGEST_TEXT]) from error


def _prompt(briefing: Briefing) -> str:
    """The briefing and the skills, whole: the owner has approved both."""
    skills = "\n".join(
        wrap(SKILL, f"\n{disarm(text)}\n", name=name) for name, text in briefing.skills.items()
    )
    parts = [f"<{SKILLS}>\n{skills}\n</{SKILLS}>"] if skills else []
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
