"""What is answered when a model gives no usable answer: always the same, and plainly said.

1. `proxy`: a direct answer that says so, register `status`, mode `confirm_only_when_required`, and
   the default profile.
2. `planner`: an answer that says so, without a plan.
3. `executor`: nothing. The attempt fails with `executor_structured_output_invalid`.
4. `research`: not found, and why.
5. `scorer` and `gate`: an `LlmError`. Who asked has a way without a model.
"""

from silas.stream.models import AgentResponse, InteractionRegister, RouteDecision
from silas.stream.ports import Research
from silas.work.models import InteractionMode


def proxy_fallback(sentence: str, *, profile: str) -> RouteDecision:
    """A direct answer with an error that the user can do something about."""
    return RouteDecision(
        route="direct",
        reason="the model gave no usable answer",
        response=AgentResponse(message=f"I have no answer for you. {sentence}"),
        interaction_register=InteractionRegister.STATUS,
        interaction_mode=InteractionMode.CONFIRM_ONLY_WHEN_REQUIRED,
        context_profile=profile,
    )


def planner_fallback(sentence: str) -> AgentResponse:
    """An answer that reports the failure, without a plan."""
    return AgentResponse(message=f"I could not write a plan for this. {sentence}")


def advice_fallback(sentence: str) -> str:
    """No advice."""
    return f"The planner has no advice. {sentence}"


def research_fallback(sentence: str) -> Research:
    """Nothing was found."""
    return Research(text=f"Not found. {sentence}", ok=False, sources=[])
