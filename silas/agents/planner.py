"""The planner writes plans and advises workers that are stuck; research reads for it.

Research is the executor in a mode in which it can change nothing.
"""

import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from silas.agents.models.factory import RoleModel
from silas.agents.outputs import OutputForm
from silas.agents.plan_fields import fields_schema, response_of_fields
from silas.agents.prompting import disarm, instructions, prompt_file, turn_prompt
from silas.agents.structured import StructuredAgent, fixed_text, structured_agent
from silas.agents.toolsets import ToolMode
from silas.agents.turn_calls import (
    advice_fallback,
    ask_with_tools,
    ask_without_tools,
    clean_response,
    planner_fallback,
    research_fallback,
    turn_limits,
)
from silas.gates.envelopes import ArgumentConstraint
from silas.gates.guards.jailbreak import ForeignTexts
from silas.gates.models import GateType
from silas.kernel import IdFactory
from silas.kernel.models import Data
from silas.sandbox.environment import SYSTEM_PATH
from silas.stream.models import AgentResponse, AgentTurn, Answered, PlanAction, PlanActionType
from silas.stream.ports import Finding, Research
from silas.stream.reading_tools import PLANNER_TOOLS
from silas.tools import RESEARCH_TOOLS, ToolDeclaration
from silas.work.errors import PlanInvalid
from silas.work.plan import parse_plan
from silas.work.ports import ToolCaller

_ASKS_FOR_MORE = "request_research"

_EXAMPLE_PLACE = "/home/owner/files"
_ANSWER_TOKENS = 8_000
_ADVICE_TOKENS = 1_000
_MOST_PROBLEMS = 8
_REVISE = (
    "The owner has read `<plan>` and wants what the request says to be different. Write the whole "
    "plan again with the action `revise`; keep everything else as it is."
)
_REVISE_FIELDS = (
    "The owner has read `<plan>` and wants what the request says to be different. Write the whole "
    "plan again; keep everything else as it is."
)
_PROBLEM = "The plan that you wrote for this cannot be used. Write it again without this problem:"
_FINAL = "There is no more research: write the plan with what you have, or say what is missing."
_ASK_IF_UNCLEAR = ", or if a missing answer would change the outcome: then ask for it in `message`."
_ASSUME_IF_UNCLEAR = (
    ". Where it could mean different things, plan the likeliest one, and say in `message` what you "
    "assumed."
)
_FENCE = re.compile(r"\A\s*```[a-z]*\n(?P<plan>.*?)\n```\s*\Z", re.DOTALL)
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(?P<yaml>.*?)\n---[ \t]*$", re.DOTALL | re.MULTILINE)
_ID_LINE = re.compile(r"^id:.*\n?", re.MULTILINE)


# What needs approval is not the planner's to say, so it is not asked.
_ORDER = ("plan_action", "message", "memory_queries", "memory_ops")


class Advice(Data):
    """What the planner tells a worker."""

    text: str


class PlannerAgent:
    """`silas.stream.ports.PlanningAgent`. A plan that leaves it can be read by the plan parser.

    `workspace` is where requests that name no place of their own work; `tools` are the worker's.
    With `asks_if_unclear`, a request that could mean materially different things is a question to
    the owner, not a plan.
    """

    def __init__(
        self,
        player: RoleModel,
        *,
        ids: IdFactory,
        workspace: Path | None = None,
        asks_if_unclear: bool = True,
        tools: Iterable[ToolDeclaration] = (),
    ) -> None:
        self._ids = ids
        self._workspace = workspace
        self._guided = player.guided
        describe = guided_instructions if player.guided else planner_instructions
        self._plans: StructuredAgent[AgentResponse] = structured_agent(
            player,
            self._form(player, None if player.guided else _schema()),
            instructions=describe(workspace, tools, asks_if_unclear=asks_if_unclear),
            fallback=planner_fallback,
        )
        self._advice = structured_agent(
            player,
            OutputForm(Advice, player.output_mode),
            instructions=instructions("advice"),
            fallback=lambda sentence: Advice(text=advice_fallback(sentence)),
        )

    @property
    def beside_context(self) -> str:
        """What it is given with every request besides tools and context."""
        return fixed_text(self._plans)

    async def plan(
        self, turn: AgentTurn, tools: ToolCaller, *, findings: Sequence[Finding] = (), final: bool
    ) -> Answered[AgentResponse]:
        """A plan, or an answer; with `final`, no more research is offered."""
        agent = self._plans
        if self._guided:
            schema = fields_schema(turn.request_kind, found=any(each.ok for each in findings))
            agent = replace(agent, form=self._form(agent.player, schema))
        return await ask_with_tools(
            agent,
            turn_prompt(turn, findings=findings, closing=self._closing(turn, final=final)),
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

    def _form(self, player: RoleModel, schema: dict[str, Any] | None) -> OutputForm[AgentResponse]:
        return OutputForm(
            AgentResponse,
            player.output_mode,
            schema=schema or fields_schema(None, found=False),
            mend=self._mended,
            check=self._checked,
        )

    def _closing(self, turn: AgentTurn, *, final: bool) -> list[str]:
        """What the planner reads last. Of research, a guided one has none to ask for."""
        lines = [_FINAL] if final and not self._guided else []
        if turn.earlier_plan:
            lines.append(_REVISE_FIELDS if self._guided else _REVISE)
        if turn.problem:
            lines.append(f"{_PROBLEM}\n{disarm(turn.problem)}")
        return lines

    def _mended(self, said: dict[str, Any]) -> dict[str, Any]:
        """The answer as it can only have been meant, in the form that all planners share."""
        return _without_empty_plan(response_of_fields(said, self._workspace))

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


def planner_instructions(
    workspace: Path | None, tools: Iterable[ToolDeclaration], *, asks_if_unclear: bool = True
) -> str:
    """What a planner can ask for, from the declarations themselves; the same in every turn."""
    offered = [tool for tool in tools if tool.offered]
    outside = [tool.name for tool in offered if not tool.contained]
    inside = [tool.name for tool in offered if tool.contained]
    worker = f"{_listed(inside)} in the sandbox" if inside else "those of the sandbox"
    if outside:
        worker += f"; {_listed(outside)} outside of it"
    return instructions(
        "planner",
        answer=_example(workspace),
        place=_place(workspace),
        unclear=_ASK_IF_UNCLEAR if asks_if_unclear else _ASSUME_IF_UNCLEAR,
        predicates=", ".join(f"`{name}: {value}`" for name, value in PREDICATE_EXAMPLES.items()),
        programs=_programs(),
        gates=_listed(GateType),
        approvals=_approvals(outside),
        tools=worker,
    )


def guided_instructions(
    _workspace: Path | None, tools: Iterable[ToolDeclaration], *, asks_if_unclear: bool = True
) -> str:
    """The same for a guided planner: the folder, and most of the plan, are the runtime's."""
    return instructions(
        "guided_planner",
        unclear=_ASK_IF_UNCLEAR if asks_if_unclear else _ASSUME_IF_UNCLEAR,
        tools=_listed(tool.name for tool in tools if tool.offered) or "those of the sandbox",
    )


PREDICATE_EXAMPLES = {
    "exit_code": "0",
    "equals": '"text"',
    "contains": '"text"',
    "regex": '"pattern"',
    "output_lt": "10",
    "output_gt": "0",
    "file_exists": '"path"',
    "not_empty": "true",
}
"""Every predicate of a check, as a plan would write it."""
_CHECK_PROGRAMS = ("pytest", "git", "make", "node", "npm", "go", "cargo", "java", "jq")


def _programs() -> str:
    """What a check can run here: its sandbox sees the programs of the system alone."""
    found = [name for name in _CHECK_PROGRAMS if shutil.which(name, path=SYSTEM_PATH)]
    without = "" if "pytest" in found else ", not pytest"
    return (
        f"those of the system, such as {_listed(['sh', 'grep', 'python3', *found])}{without}. "
        "Python finds the folder's own modules only with `PYTHONPATH=.` before the command: "
        "`PYTHONPATH=. python3 -m unittest tests.test_login`"
    )


def _approvals(outside: Sequence[str]) -> str:
    if not outside:
        return "leave it out: the worker has no tools outside of the sandbox."
    constraints = ", ".join(f"`{name}`" for name in ArgumentConstraint.model_fields if name != "of")
    return (
        f"only for calls of {_listed(outside)} that the owner should not be asked about one by "
        f"one: `{{tool: {outside[0]}, constraints: {{ARGUMENT: {{equals: VALUE}}}}}}`. "
        f"Constraints: {constraints.replace('`source`', '`from`')}."
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _place(workspace: Path | None) -> str:
    if workspace is None:
        return "as `<folders>` has it; ask for it if the request names none"
    return f"as `<folders>` has it, else `{workspace}`"


def _example(workspace: Path | None) -> str:
    """A whole answer as the model has to write it: it follows that rather than a description."""
    plan = prompt_file("plan_example") + "\n"
    if workspace is not None:
        plan = plan.replace(_EXAMPLE_PLACE, to_json(str(workspace)).decode())
    return to_json(
        {
            "plan_action": {"action": "propose", "plan_markdown": plan},
            "message": "I will save the number in contacts/dentist.txt.",
        }
    ).decode()


def _without_empty_plan(response: dict[str, Any]) -> dict[str, Any]:
    action = response.get("plan_action")
    if not isinstance(action, dict) or action.get("plan_markdown") != "":
        return response
    if action.get("action") in (PlanActionType.EXECUTE_NEXT, PlanActionType.ABORT):
        return {**response, "plan_action": {**action, "plan_markdown": None}}
    return {**response, "plan_action": None}


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


_RESEARCH_ANSWER_TOKENS = 2_000


class ResearchAgent:
    """`silas.stream.ports.ReadingAgent`, played by the executor's model."""

    def __init__(self, player: RoleModel) -> None:
        self._agent = structured_agent(
            player,
            OutputForm(Research, player.output_mode),
            instructions=instructions("research"),
            fallback=research_fallback,
        )

    async def research(
        self, turn: AgentTurn, tools: ToolCaller, *, return_format: str
    ) -> Answered[Research]:
        """The answer to one question."""
        return await ask_with_tools(
            self._agent,
            turn_prompt(turn, closing=[f"The form of the answer: {disarm(return_format)}"]),
            turn=turn,
            limits=turn_limits(turn, answer_tokens=_RESEARCH_ANSWER_TOKENS),
            tools=tools,
            allowed=RESEARCH_TOOLS,
            mode=ToolMode.RESEARCH,
            clean=_clean_research,
        )


def _clean_research(found: Research, foreign: ForeignTexts) -> Research:
    return found.model_copy(update={"text": foreign.without_echoes(found.text)})
