"""What a real model makes of the prompts. `make live`; figures are printed, not compared."""

import time

from silas.agents.executor import ExecutorAgent
from silas.agents.models.choices import Role
from silas.agents.models.factory import Models
from silas.agents.planner import PlannerAgent
from silas.agents.proxy import ProxyAgent
from silas.kernel import IdFactory, SystemClock, TaintLevel
from silas.stream.models import AgentTurn
from silas.work.plan import parse_plan
from tests.agents.script import FakeTools
from tests.work.shop import Shop, check, task

ENOUGH = 16
"""Of twenty messages, this many must be routed sensibly."""

WORDS_ARE_ENOUGH = (
    "Hello!",
    "What is the capital of France?",
    "Explain what a hash function is in two sentences.",
    "Thanks, that helped.",
    "What can you do?",
    "Remember that my sister's birthday is on 3 May.",
    "What is 17 times 23?",
    "Which is better for a beginner, Python or Rust?",
    "How do you say 'good night' in Spanish?",
    "Tell me a joke.",
)
NEED_A_PLAN = (
    "Create a file notes.txt with the text 'buy milk'.",
    "Run the tests in my project and fix what fails.",
    "Every morning at 8, check whether example.com is up.",
    "Rename all the photos in my Pictures folder by date.",
    "Write a script that backs up my documents to a zip file.",
    "Send an email to Anna that I will be late.",
    "Delete all log files older than 30 days.",
    "Install the package requests and update requirements.txt.",
    "Book a table for two on Friday evening.",
    "Research the three best electric cars under 30000 euros and write me a report.",
)


def turn(request: str) -> AgentTurn:
    return AgentTurn(
        scope_id="owner",
        trace_id="live",
        request=request,
        taint=TaintLevel.OWNER,
        max_tokens=20_000,
        max_cost_usd=1.0,
    )


async def test_the_proxy_routes_twenty_messages(models: Models) -> None:
    agent = ProxyAgent(
        models.for_role(Role.PROXY),
        profiles=("conversation", "coding", "research"),
        default_profile="conversation",
    )
    wanted = {**dict.fromkeys(WORDS_ARE_ENOUGH, "direct"), **dict.fromkeys(NEED_A_PLAN, "planner")}
    right = 0
    for request, route in wanted.items():
        begun = time.monotonic()
        answered = await agent.route(turn(request), FakeTools())
        sensible = answered.fallback is None and answered.output.route == route
        right += sensible
        print(
            f"{'ok' if sensible else 'NO':3} {time.monotonic() - begun:5.1f} s "
            f"{answered.usage.tokens:5} tokens  {request} -> {answered.output.route}: "
            f"{answered.fallback or answered.output.reason}"
        )
    print(f"{right} of {len(wanted)} routed sensibly")
    assert right >= ENOUGH


async def test_the_planner_writes_a_plan_that_parses(models: Models) -> None:
    agent = PlannerAgent(models.for_role(Role.PLANNER), ids=IdFactory(SystemClock()))
    request = "Create a file notes.txt with the text 'buy milk'."
    answered = await agent.plan(turn(request), FakeTools(), final=True)
    print(answered.model_dump_json(indent=1))
    assert answered.fallback is None
    assert answered.output.plan_action is not None
    plan = parse_plan(answered.output.plan_action.plan_markdown or "")
    assert plan.root.verify


async def test_the_executor_does_a_task(models: Models, shop: Shop) -> None:
    briefing = "Write the text `buy milk` to the file `notes.txt`, then answer."
    wanted = [check("cat notes.txt", contains="buy milk")]
    agent = ExecutorAgent(models.for_role(Role.EXECUTOR))
    done = await shop.run(task(briefing, verify=wanted), agent)
    print(done.model_dump_json(indent=1))
    assert done.status.value == "done"
