"""The whole conversation with the real agents, played by scripted models; and a whole project."""

from pathlib import Path
from typing import Any

from silas.agents.executor import ExecutorAgent
from silas.agents.models.choices import Role
from silas.agents.planner import PlannerAgent, ResearchAgent
from silas.agents.proxy import ProxyAgent
from silas.app.agents import Agents
from silas.kernel import IdFactory, SystemClock, TaintLevel
from silas.testing.stream import FakeProxy
from silas.work import WorkItemStatus
from tests.agents.script import Says, Script, calls
from tests.agents.test_proxy import DIRECT, PLANNER
from tests.stream.house import open_house, plan
from tests.stream.test_flows import always_plan, planning

CHECKED = "verify:\n  - name: there\n    run: cat out.txt\n    expect: {contains: hello}"


def player(role: Role, *says: Says) -> Any:
    return Script(says).player(role=role)


async def test_four_models_from_the_question_to_the_checked_result(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.py").write_text("print('hello')\n")
    proposal = {
        "message": "I write what the program says.",
        "needs_approval": False,
        "plan_action": {
            "action": "propose",
            "plan_markdown": plan("Write hello to out.txt.", id="write", more=CHECKED),
        },
    }
    profiles = ("conversation", "coding")
    agents = Agents(
        proxy=ProxyAgent(
            player(Role.PROXY, PLANNER, DIRECT), profiles=profiles, default_profile="conversation"
        ),
        planner=PlannerAgent(
            player(
                Role.PLANNER,
                calls("request_research", question="What does a.py say?"),
                {"message": "I am looking it up."},
                proposal,
            ),
            ids=IdFactory(SystemClock()),
        ),
        research=ResearchAgent(
            player(
                Role.EXECUTOR,
                calls("read_file", path="a.py"),
                {"text": "It says hello.", "ok": True, "sources": ["a.py"]},
            )
        ),
        executor=ExecutorAgent(
            player(
                Role.EXECUTOR,
                calls("shell_exec", argv=["/bin/sh", "-c", "echo hello > out.txt"]),
                {"summary": "Written."},
            )
        ),
    )
    environ = {"SILAS_PLANNER__RESEARCH_DIR": str(tmp_path / "code")}
    async with open_house(tmp_path, agents, environ=environ) as house:
        asked = await house.say("Write down what a.py says")
        answered = await house.answer_to(asked)
        assert answered.content == "I write what the program says."
        assert answered.taint is TaintLevel.OWNER, "the research has read the owner's own file"
        card = await house.card()
        assert card.items[0].approval_token is None
        await house.reviews.decide(card)
        (done,) = await house.until(lambda: house.containing("Done, and checked."))
        assert done.trace_id == asked.trace_id
        thanks = await house.say("Thanks")
        assert (await house.answer_to(thanks)).content == DIRECT["response"]["message"]  # type: ignore[index]
        await house.idle()
        item = await house.stream.turns.items.get(card.items[0].id)
        assert item is not None
        assert item.status is WorkItemStatus.DONE
        assert await house.dead() == []


async def test_a_project_is_approved_whole_and_executed(tmp_path: Path) -> None:
    tasks = "\n".join(
        f"  - id: {name}\n    title: {name}\n    type: task\n    depends_on: [{after}]\n"
        "    accepts_unchecked: true\n"
        f"    body: |\n      ```run\n      /bin/echo {name}\n      ```"
        for name, after in (("one", ""), ("two", "one"))
    )
    project = plan("Two steps.", id="steps", title="Steps", more=f"tasks:\n{tasks}")
    project = project.replace("type: task\ntitle: Steps", "type: project\ntitle: Steps")
    agents = Agents(proxy=FakeProxy(always_plan), planner=planning(project))
    async with open_house(tmp_path, agents) as house:
        await house.say("Do both")
        card = await house.card()
        assert [item.id for item in card.items] == ["steps", "one", "two"]
        await house.reviews.decide(card)
        await house.until(lambda: house.containing("Steps: "))
        await house.idle()
        for name in ("steps", "one", "two"):
            item = await house.stream.turns.items.get(name)
            assert item is not None
            assert item.approval_token is not None
            assert item.status is WorkItemStatus.UNCHECKED, [each.content for each in house.said]
