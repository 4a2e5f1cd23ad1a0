"""The executor in research mode: it reads, and can change nothing."""

from silas.agents.asking import ask_with_tools, turn_limits
from silas.agents.fallbacks import research_fallback
from silas.agents.framing import disarm
from silas.agents.models.factory import RoleModel
from silas.agents.outputs import OutputForm
from silas.agents.prompting import instructions, turn_prompt
from silas.agents.structured import structured_agent
from silas.agents.toolsets import ToolMode
from silas.gates.guards.echoes import ForeignTexts
from silas.stream.models import AgentTurn, Answered
from silas.stream.ports import Research
from silas.work.executors import RESEARCH_TOOLS
from silas.work.ports import ToolCaller

_ANSWER_TOKENS = 2_000


class ResearchAgent:
    """`silas.stream.ports.ResearchAgent`, played by the executor's model."""

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
            limits=turn_limits(turn, answer_tokens=_ANSWER_TOKENS),
            tools=tools,
            allowed=RESEARCH_TOOLS,
            mode=ToolMode.RESEARCH,
            clean=_clean,
        )


def _clean(found: Research, foreign: ForeignTexts) -> Research:
    return found.model_copy(update={"text": foreign.without_echoes(found.text)})
