"""The proxy: answers what words can answer, and says when a plan is needed."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from silas.agents.models.factory import RoleModel
from silas.agents.outputs import OutputForm
from silas.agents.prompting import instructions, turn_prompt
from silas.agents.route_fields import decision_of_fields, growing_message, route_schema
from silas.agents.structured import fixed_text, structured_agent
from silas.agents.toolsets import ToolMode
from silas.agents.turn_calls import ask_with_tools, clean_response, proxy_fallback, turn_limits
from silas.gates.guards.jailbreak import ForeignTexts
from silas.stream.models import AgentTurn, Answered, InteractionRegister, RouteDecision
from silas.stream.ports import TextListener
from silas.stream.reading_tools import PROXY_TOOLS
from silas.work.models import InteractionMode
from silas.work.ports import ToolCaller

_ANSWER_TOKENS = 2_000
# Everything that can be refused comes before the text, so that a text that is shown stays.
# The reason comes first: small models decide better after they have said what they see.
_ORDER = (
    "reason",
    "route",
    "interaction_register",
    "interaction_mode",
    "context_profile",
    "continuation_of",
    "response",
)
_NOT_THE_PROXYS = ("plan_action", "needs_approval")


class ProxyAgent:
    """`silas.stream.ports.RoutingAgent`. The profiles are those that exist; one is the default.

    `allowed` names the tools that exist for it, beside those of the goal that a visitor came for;
    whatever else it is given, it cannot see.
    """

    def __init__(
        self,
        player: RoleModel,
        *,
        profiles: Sequence[str],
        default_profile: str,
        allowed: frozenset[str] = PROXY_TOOLS,
    ) -> None:
        known = tuple(profiles)
        self._allowed = allowed
        listed = ", ".join(f"`{name}`" for name in known)
        whole = instructions("proxy", profiles=listed, profile=default_profile)
        self._agent = structured_agent(
            player,
            OutputForm(
                RouteDecision,
                player.output_mode,
                schema=route_schema() if player.guided else _schema(known),
                context={"profiles": known},
                mend=partial(_mended, profile=default_profile),
            ),
            instructions=instructions("guided_proxy") if player.guided else whole,
            fallback=partial(proxy_fallback, profile=default_profile),
            find_text=growing_message if player.guided else partial(_direct_text, known),
        )

    @property
    def beside_context(self) -> str:
        """What it is given in every turn besides tools and context."""
        return fixed_text(self._agent)

    async def route(
        self, turn: AgentTurn, tools: ToolCaller, *, on_text: TextListener | None = None
    ) -> Answered[RouteDecision]:
        """The decision for one turn; a model that fails gives the deterministic fallback.

        `on_text` hears a preview: the answer that is returned replaces it.
        """
        return await ask_with_tools(
            self._agent,
            turn_prompt(turn),
            turn=turn,
            limits=turn_limits(turn, answer_tokens=_ANSWER_TOKENS),
            tools=tools,
            allowed=self._allowed.union(turn.goal_tools),
            mode=ToolMode.CONVERSATION,
            clean=_clean,
            on_text=on_text,
        )


def _clean(decision: RouteDecision, foreign: ForeignTexts) -> RouteDecision:
    if decision.response is None:
        return decision
    cleaned = clean_response(decision.response, foreign)
    if cleaned is decision.response:
        return decision
    return decision.model_copy(update={"response": cleaned})


def _schema(profiles: tuple[str, ...]) -> dict[str, Any]:
    """The schema of `RouteDecision` in the order above, with the profiles that there are.

    Small models that may leave the response out do so in direct answers too. So there always is
    one, and that of a request for a plan is dropped.
    """
    schema = RouteDecision.model_json_schema()
    fields = schema["properties"]
    fields["context_profile"] = {"type": "string", "enum": list(profiles)}
    fields["response"] = {"$ref": "#/$defs/AgentResponse"}
    response = schema["$defs"]["AgentResponse"]["properties"]
    for name in _NOT_THE_PROXYS:
        del response[name]
    return {
        **schema,
        "description": "Who answers this turn, and how.",
        "properties": {name: fields[name] for name in _ORDER},
        "required": [*schema["required"], "response"],
    }


def _mended(said: dict[str, Any], *, profile: str) -> dict[str, Any]:
    """The decision as it can only have been meant: who asks for a plan says nothing else."""
    decision = decision_of_fields(said, profile=profile)
    return {**decision, "response": None} if decision.get("route") == "planner" else decision


def _direct_text(profiles: tuple[str, ...], growing: dict[str, Any]) -> str | None:
    """The text of a direct answer, once nothing before it can be refused any more."""
    response = growing.get("response")
    settled = (
        growing.get("route") == "direct"
        and growing.get("context_profile") in profiles
        and growing.get("interaction_register") in set(InteractionRegister)
        and growing.get("interaction_mode") in set(InteractionMode)
        and isinstance(growing.get("reason"), str)
    )
    if not settled or not isinstance(response, dict):
        return None
    message = response.get("message")
    return message if isinstance(message, str) else None
