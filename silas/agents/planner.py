"""The planner: writes plans, and advises workers that are stuck."""

import re
from collections.abc import Sequence
from typing import Any

from pydantic_core import to_json

from silas.agents.asking import (
    ask_with_tools,
    ask_without_tools,
    clean_response,
    turn_limits,
)
from silas.agents.fallbacks import advice_fallback, planner_fallback
from silas.agents.models.factory import RoleModel
from silas.agents.outputs import OutputForm
from silas.agents.prompting import instructions, prompt_file, turn_prompt
from silas.agents.structured import structured_agent
from silas.agents.toolsets import ToolMode
from silas.kernel import IdFactory
from silas.kernel.models import Data
from silas.stream.models import AgentResponse, AgentTurn, Answered, PlanAction, PlanActionType
from silas.stream.ports import Finding
from silas.stream.reading_room import PLANNER_TOOLS
from silas.work.errors import PlanInvalid
from silas.work.plan import parse_plan
from silas.work.ports import ToolCaller

_ASKS_FOR_MORE = "request_research"

_ANSWER_TOKENS = 8_000
_ADVICE_TOKENS = 1_000
_MOST_PROBLEMS = 8
_FINAL = "There is no more research: write the plan with what you have, or say what is missing."
_FENCE = re.compile(r"\A\s*```[a-z]*\n(?P<plan>.*?)\n```\s*\Z", re.DOTALL)
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(?P<yaml>.*?)\n---[ \t]*$", re.DOTALL | re.MULTILINE)
_ID_LINE = re.compile(r"^id:.*\n?", re.MULTILINE)


# What needs approval is not the planner's to say, so it is not asked.
_ORDER = ("plan_action", "message", "memory_queries", "memory_ops")


class Advice(Data):
    """What the planner tells a worker."""

    text: str


class PlannerAgent:
    """`silas.stream.ports.PlannerAgent`. A plan that leaves it can be read by the plan parser."""

    def __init__(self, player: RoleModel, *, ids: IdFactory) -> None:
        self._ids = ids
        self._plans = structured_agent(
            player,
            OutputForm(
                AgentResponse,
                player.output_mode,
                schema=_schema(),
                mend=_without_empty_plan,
                check=self._checked,
            ),
            instructions=instructions("planner", answer=_example()),
            fallback=planner_fallback,
        )
        self._advice = structured_agent(
            player,
            OutputForm(Advice, player.output_mode),
            instructions=instructions("advice"),
            fallback=lambda sentence: Advice(text=advice_fallback(sentence)),
        )

    async def plan(
        self, turn: AgentTurn, tools: ToolCaller, *, findings: Sequence[Finding] = (), final: bool
    ) -> Answered[AgentResponse]:
        """A plan, or an answer; with `final`, no more research is offered."""
        return await ask_with_tools(
            self._plans,
            turn_prompt(turn, findings=findings, closing=[_FINAL] if final else []),
            turn=turn,
            limits=turn_limits(turn, answer_tokens=_ANSWER_TOKENS),
            tools=tools,
            allowed=PLANNER_TOOLS - ({_ASKS_FOR_MORE} if final else set()),
            mode=ToolMode.CONVERSATION,
            clean=clean_response,
        )

    async def advise(self, turn: AgentTurn) -> Answered[str]:
        """Guidance for a worker that is stuck."""
        answered = await ask_without_tools(
            self._advice,
            turn_prompt(turn),
            turn=turn,
            limits=turn_limits(turn, answer_tokens=_ADVICE_TOKENS),
        )
        return Answered[str](**{**dict(answered), "output": answered.output.text})

    def _checked(self, response: AgentResponse) -> AgentResponse:
        """The answer with a plan that the parser accepts, under an id of its own."""
        action = response.plan_action
        if action is None:
            return response
        if action.plan_markdown is None:
            if action.action in (PlanActionType.PROPOSE, PlanActionType.REVISE):
                raise ValueError(f"plan_action: {action.action} needs plan_markdown")
            return response
        named = PlanAction(
            **{**dict(action), "plan_markdown": self._named(_unfenced(action.plan_markdown))}
        )
        _require_plan(named.plan_markdown or "")
        return response.model_copy(update={"plan_action": named})

    def _named(self, markdown: str) -> str:
        """The plan with a fresh id, since a model repeats the ids that it has seen."""
        found = _FRONT_MATTER.match(markdown)
        if found is None:
            return markdown
        yaml = _ID_LINE.sub("", found["yaml"])
        return f"---\nid: {self._ids.new('task')}\n{yaml}\n---{markdown[found.end() :]}"


def _schema() -> dict[str, Any]:
    """The schema of `AgentResponse` with the plan first.

    Small models leave out what they may, and then announce a plan that is not there. So there
    always is a plan, and an empty one stands for none.
    """
    schema = AgentResponse.model_json_schema()
    fields, action = schema["properties"], schema["$defs"]["PlanAction"]
    fields["plan_action"] = {"$ref": "#/$defs/PlanAction"}
    action["properties"]["plan_markdown"] = {"type": "string"}
    action["required"] = ["action", "plan_markdown"]
    return {
        **schema,
        "description": "A plan, and what the owner is told about it.",
        "properties": {name: fields[name] for name in _ORDER},
        "required": ["plan_action", "message"],
    }


def _example() -> str:
    """A whole answer as the model has to write it: it follows that rather than a description."""
    plan = prompt_file("plan_example") + "\n"
    return to_json(
        {
            "plan_action": {"action": "propose", "plan_markdown": plan},
            "message": "I will write the hours to notes/hours.txt.",
        }
    ).decode()


def _without_empty_plan(response: dict[str, Any]) -> dict[str, Any]:
    action = response.get("plan_action")
    empty = isinstance(action, dict) and action.get("plan_markdown") == ""
    return {**response, "plan_action": None} if empty else response


def _unfenced(markdown: str) -> str:
    """The plan without the fence of a code block around it, or blank lines before it."""
    fenced = _FENCE.match(markdown)
    return (fenced["plan"] if fenced else markdown).lstrip() + ("\n" if fenced else "")


def _require_plan(markdown: str) -> None:
    try:
        parse_plan(markdown)
    except PlanInvalid as error:
        lines = [str(problem) for problem in error.problems[:_MOST_PROBLEMS]]
        raise ValueError("plan_markdown is not a plan:\n" + "\n".join(lines)) from error
