"""The offline brain as planner: the wish as a plan, or what is missing for one."""

from silas.agents.brain.grammar import understand
from silas.agents.brain.hearing import Heard
from silas.agents.brain.intents import Planned, Watch
from silas.agents.brain.plans import CannotPlan, Places, write_plan
from silas.agents.brain.proxy import what_i_can
from silas.agents.brain.steps import Answer, Move

_ADVICE = (
    "No model is configured, so there is nobody to think about it. Do the steps of the briefing "
    "once more, exactly as they are written."
)
_ID = "task-of-the-brain"


def plan(heard: Heard, places: Places) -> Move:
    """The plan for a request, or the advice for a worker."""
    if "plan_action" not in heard.wanted:
        return Answer({"text": _ADVICE})
    wish = understand(heard.request)
    if not isinstance(wish, Planned):
        return Answer({"message": f"I cannot make a plan from that. {what_i_can()}"})
    try:
        markdown = write_plan(wish, plan_id=_ID, places=places)
    except CannotPlan as error:
        return Answer({"message": str(error)})
    return Answer(
        {
            "message": _told(wish),
            "plan_action": {"action": "propose", "plan_markdown": markdown},
            "needs_approval": True,
        }
    )


def _told(wish: Planned) -> str:
    if isinstance(wish, Watch):
        return f"I would look {wish.often} and report when it does not work. Shall I?"
    return "Here is exactly what I would do. Nothing happens before your yes."
