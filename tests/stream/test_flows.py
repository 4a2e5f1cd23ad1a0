"""The flows of the overview: a question, a task with research, a goal, and what goes wrong."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from silas.app.agents import Agents
from silas.approval import ApprovalVerdict
from silas.kernel import SystemClock, TaintLevel
from silas.queue import QueueMessage
from silas.queue.models import AgentReply, QueueName, Urgency
from silas.stream import cards
from silas.stream.adopting import doubts_about
from silas.stream.models import AgentResponse, AgentTurn, RouteDecision
from silas.stream.ports import Finding, Research
from silas.testing import FakeClock
from silas.testing.stream import (
    FakeContext,
    FakeMemory,
    FakePersonality,
    FakePlannerAgent,
    FakeProxy,
    FakeResearcher,
    direct,
    proposing,
    to_planner,
)
from silas.work import WorkItemStatus
from silas.work.authorisation import revoke_approvals
from silas.work.letters import Letter
from silas.work.plan import parse_plan
from silas.work.ports import ToolCaller
from tests.stream.house import FAILING, open_house, plan, writing


async def always_plan(turn: AgentTurn, tools: ToolCaller) -> RouteDecision:
    return to_planner()


def planning(*markdown: str) -> FakePlannerAgent:
    """A planner that proposes these plans, one after the other."""
    left = list(markdown)

    async def propose(
        turn: AgentTurn, tools: ToolCaller, findings: Sequence[Finding], final: bool
    ) -> AgentResponse:
        return proposing(left.pop(0) if len(left) > 1 else left[0])

    return FakePlannerAgent(propose)


def payload(message: QueueMessage) -> AgentReply:
    assert isinstance(message.payload, AgentReply)
    return message.payload


@pytest.mark.parametrize("signed", [True, False])
async def test_the_planner_is_told_how_to_proceed_with_this_request(
    tmp_path: Path, *, signed: bool
) -> None:
    planner = planning(writing("out.txt"))
    agents = Agents(proxy=FakeProxy(always_plan), planner=planner)
    async with open_house(tmp_path, agents, personality=FakePersonality()) as house:
        await house.say("Do it", signed=signed)
        await house.until(lambda: planner.turns)
        told = planner.turns[0][0].directives
    assert ("have it done within what is approved" in told) is signed
    assert ("needs a yes: say what happens after it" in told) is not signed


async def test_a_simple_question(tmp_path: Path) -> None:
    memory, context, personality = FakeMemory(SystemClock()), FakeContext(), FakePersonality()
    memory.add("project X is green")

    async def answer(turn: AgentTurn, tools: ToolCaller) -> RouteDecision:
        found = await tools.call("memory_search", {"query": "project X"})
        return direct(f"It says: {found.return_value}")

    proxy = FakeProxy(answer)
    services = {"memory": memory, "context": context, "personality": personality}
    async with open_house(tmp_path, Agents(proxy=proxy), **services) as house:
        asked = await house.say("What's the status of project X?")
        answered = await house.answer_to(asked)
        await house.idle()
        assert "project X is green" in answered.content
        assert answered.trace_id == asked.trace_id
        assert answered.taint is TaintLevel.OWNER
        assert payload(answered).surface == "stream"
        assert len(house.answers(asked)) == 1
        texts = [entry.text for entry in context.entries["owner"].values()]
        assert texts[0] == "[owner] owner: What's the status of project X?"
        assert texts[1].startswith("Silas: It says")
        begin = [entry.words_from for entry in context.entries["owner"].values()]
        assert [text[at:] for text, at in zip(texts, begin, strict=True)] == [
            "What's the status of project X?",
            answered.content,
        ], "both entries are the raw records of what was said"
        assert context.directives["owner"] == "Be brief."
        assert proxy.turns[0].directives == ""  # said once, in the context
        assert "project X is green" in proxy.turns[0].context
        assert personality.events == [("owner", "turn")]
        assert await house.stream.turns.store.turns("owner") == 1
        assert await house.dead() == []


@pytest.mark.parametrize("cloned", [True, False])
async def test_a_complex_task_with_parallel_research(tmp_path: Path, *, cloned: bool) -> None:
    questions = ["where is auth?", "who uses it?", "is it tested?"]

    async def think(
        turn: AgentTurn, tools: ToolCaller, findings: Sequence[Finding], final: bool
    ) -> AgentResponse:
        if not findings:
            for each in [*questions, questions[0].upper(), "one too many?"]:
                await tools.call("request_research", {"question": each})
            return AgentResponse(message="I am looking things up.")
        told = "; ".join(f"{each.question} {each.answer}" for each in findings)
        return proposing(writing("auth.txt"), text=told)

    async def look(turn: AgentTurn, tools: ToolCaller) -> Research:
        seen = await tools.call("read_file", {"path": "auth.py"})
        assert (await tools.call("write_file", {"path": "x", "content": "y"})).success is False
        assert (await tools.call("shell_exec", {"argv": ["id"]})).success is False
        return Research(text=seen.return_value.strip(), ok=seen.success, sources=["auth.py"])

    code = tmp_path / "code"
    code.mkdir()
    (code / "auth.py").write_text("def login(): ...\n")
    if cloned:
        (code / ".git").mkdir()
        (code / ".git" / "config").write_text('[remote "origin"]\nurl = https://x.test/stranger\n')
    expected = TaintLevel.EXTERNAL if cloned else TaintLevel.OWNER
    planner, researcher = FakePlannerAgent(think), FakeResearcher(look)
    agents = Agents(proxy=FakeProxy(always_plan), planner=planner, research=researcher)
    environ = {"SILAS_PLANNER__RESEARCH_DIR": str(code)}
    async with open_house(tmp_path, agents, environ=environ) as house:
        asked = await house.say("Refactor the auth module")
        answered = await house.answer_to(asked)
        for question in questions:
            assert f"{question} def login(): ..." in answered.content
        assert len(researcher.turns) == 3, "asked once each, and no more than three at a time"
        assert answered.taint is expected, "files that were read taint the plan"
        assert payload(answered).surface == "review"
        assert [final for _, _, final in planner.turns] == [False, False]

        card = await house.card()
        assert payload(answered).card_id == card.card_id
        assert card.taint is expected
        source = "the file auth.py (in a copy of https://x.test/stranger)"
        assert list(card.sources) == ([source] if cloned else [])
        assert (await house.stream.turns.items.get("hello")).approval_token is None  # type: ignore[union-attr]
        await house.reviews.decide(card)
        (done,) = await house.until(lambda: house.containing("Done, and checked."))
        await house.idle()
        assert done.trace_id == asked.trace_id
        assert payload(done).surface == "stream"
        (running,) = house.containing("I started")
        assert payload(running).surface == "activity"
        assert len(house.answers(asked)) == 1
        assert {each.trace_id for each in house.said} == {asked.trace_id}
        item = await house.stream.turns.items.get("hello")
        assert item is not None
        assert item.status is WorkItemStatus.DONE
        assert await house.dead() == []


async def test_a_declined_plan_is_not_executed(tmp_path: Path) -> None:
    agents = Agents(proxy=FakeProxy(always_plan), planner=planning(writing("a.txt")))
    async with open_house(tmp_path, agents) as house:
        await house.say("Do it")
        await house.reviews.decide(await house.card(), ApprovalVerdict.DECLINED)
        await house.until(lambda: house.containing("not approved"))
        await house.idle()
        item = await house.stream.turns.items.get("hello")
        assert item is not None
        assert item.approval_token is None
        assert item.status is WorkItemStatus.FAILED
        assert item.attempts == 0


async def test_failure_retry_consult_replan_escalate(tmp_path: Path) -> None:
    """Every level is exhausted before the next, and the user is asked for nothing in between."""

    def hopeless(name: str) -> str:
        more = f"{FAILING}\nbudget: {{max_attempts: 4, max_planner_calls: 2}}"
        return plan(f"```run\n/bin/echo {name}\n```", id=name, title=name, more=more)

    planner = planning(hopeless("first"), hopeless("second"), hopeless("third"))
    agents = Agents(proxy=FakeProxy(always_plan), planner=planner)
    async with open_house(tmp_path, agents) as house:
        asked = await house.say("Do the impossible")
        for name in ("first", "second", "third"):
            card = await house.card()
            assert card.items[0].id == name
            assert not [each for each in house.said if "cannot go on" in each.content]
            await house.reviews.decide(card)
        (told,) = await house.until(lambda: house.containing("I cannot go on by myself"))
        await house.idle()
        assert told.urgency is Urgency.NEEDS_ATTENTION
        assert payload(told).surface == "stream"
        assert told.trace_id == asked.trace_id
        for name in ("first", "second", "third"):
            item = await house.stream.turns.items.get(name)
            assert item is not None
            assert (item.status, item.attempts) == (WorkItemStatus.STUCK, 4)
            assert item.budget_used.planner_calls == 2
            assert item.budget_used.tokens == 0, "the planner's budget is not the item's"
        assert len(planner.consulted) == 6
        assert "never" in planner.consulted[0].request
        origins = [
            await house.stream.turns.store.work_origin(n) for n in ("first", "second", "third")
        ]
        assert [(o.depth, o.replaces) for o in origins if o] == [
            (0, None),
            (1, "first"),
            (2, "second"),
        ]
        replans = [turn.request for turn, _, _ in planner.turns if "did not work" in turn.request]
        assert len(replans) == 2
        failed = house.containing("a check did not pass")
        assert failed
        assert {payload(each).surface for each in failed} == {"activity"}
        assert await house.dead() == []


async def test_a_planner_without_another_idea_escalates_at_once(tmp_path: Path) -> None:
    told_why = FAILING.replace("test -f", "ls")
    more = f"{told_why}\nbudget: {{max_attempts: 1}}"
    same = plan("```run\n/bin/true\n```", more=more)
    agents = Agents(proxy=FakeProxy(always_plan), planner=planning(same))
    async with open_house(tmp_path, agents) as house:
        await house.say("Do it")
        await house.reviews.decide(await house.card())
        (told,) = await house.until(lambda: house.containing("I found no other way"))
        await house.idle()
        assert told.urgency is Urgency.NEEDS_ATTENTION
        # By its title, with what its check printed.
        assert not told.content.startswith(str(payload(told).work_item_id))
        assert [each.title for each in payload(told).printed] == ["never"]
        assert await house.reviews.waiting() == []


@pytest.mark.parametrize(
    ("run", "doubted"),
    [
        ("python3 -m unittest tests.test_a", True),
        ("python3 test_total.py", True),
        ("python3 tests/total_test.py -v", True),
        ("PYTHONPATH=. python3 test_total.py", False),
        ("python3 hello.py", False),
        ("cat test_total.py", False),
    ],
)
def test_a_check_that_would_not_find_the_folders_modules_is_doubted(
    run: str, doubted: bool
) -> None:
    more = f"verify: [{{name: ok, run: {run}, expect: {{exit_code: 0}}}}]"
    assert ("PYTHONPATH" in "".join(doubts_about(parse_plan(plan("Do it.", more=more))))) is doubted


async def test_an_autonomous_goal(tmp_path: Path) -> None:
    """The scheduler fires it, the standing approval covers it, and nobody is asked."""
    site = tmp_path / "site"
    site.mkdir()
    goal = plan(
        "Keep the page there.",
        id="keep-page",
        title="Keep the page",
        more=(
            f"schedule: '* * * * *'\nworkspace: {{path: {site}, changes: {{add: [page.html]}}}}\n"
            "on_failure: spawn_task\n"
            "failure_context: |\n  ```run\n  /bin/sh -c 'echo hello > page.html'\n  ```\n"
            "verify:\n  - name: page\n    run: cat page.html\n    expect: {contains: hello}"
        ),
    ).replace("type: task", "type: goal")
    agents = Agents(proxy=FakeProxy(always_plan), planner=planning(goal))
    async with open_house(tmp_path, agents) as house:
        await house.say("Keep my page there")
        await house.reviews.decide(await house.card())
        await house.until(lambda: house.containing("approved, every minute"))
        await house.idle()
        clockwork = house.stream.clockwork
        assert await clockwork.start_due_goals() == 0
        now = house.core.clock.now()
        earlier = now.replace(second=0, microsecond=0)
        await house.database.transaction(
            lambda tx: clockwork.services.store.looked(tx, "keep-page", earlier.replace(year=2025))
        )
        assert await clockwork.start_due_goals() == 1, "missed several times, it runs once"
        assert await clockwork.start_due_goals() == 0
        (done,) = await house.until(lambda: house.containing("Repaired by"))
        await house.idle()
        assert payload(done).surface == "activity"
        assert done.trace_id.startswith("goal.keep-page.")
        assert done.taint is TaintLevel.OWNER, "the checks could read nothing of a stranger's"
        assert (site / "page.html").read_text() == "hello\n"
        assert await house.reviews.waiting() == []
        assert await house.dead() == []


@pytest.fixture
def letter(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no mailbox here: the plan that is approved counts as a letter."""
    sent = Letter("mail_send", {"to": ["ann@example.org"]}, "Tuesday is fine.")
    monkeypatch.setattr(cards, "letter_of", lambda _item: sent)


@pytest.mark.usefixtures("letter")
@pytest.mark.parametrize("kept", [True, False])
async def test_an_approved_letter_leaves_when_the_window_is_over_unless_it_is_kept(
    tmp_path: Path, *, kept: bool
) -> None:
    clock = FakeClock()
    environ = {"SILAS_UNDO__DELAY_SENDING": "true", "SILAS_UNDO__WINDOW_MINUTES": "5"}
    agents = Agents(proxy=FakeProxy(always_plan), planner=planning(writing("a.txt")))
    async with open_house(tmp_path, agents, clock=clock, environ=environ) as house:
        await house.say("Write to Ann")
        await house.reviews.decide(await house.card())
        [told] = await house.until(lambda: house.containing("It leaves in 5 minutes"))
        assert payload(told).leaves_at == clock.now() + timedelta(minutes=5)
        row = "SELECT state FROM queue_messages WHERE queue = 'executor_queue'"
        await house.row(f"{row} AND state = 'delayed'")
        clock.advance(minutes=4, seconds=59)
        house.stream.queue.bus.notify([QueueName.EXECUTOR])
        assert (await house.row(row)) == ("delayed",)
        items, bench = house.stream.turns.items, house.stream.work.context
        item = await items.get("hello")
        assert item is not None
        assert (item.attempts, item.approval_token is not None) == (0, True)
        if kept:
            taken = await revoke_approvals(bench.approvals, items, bench.control, "hello")
            assert [each.id for each in taken.stopped] == ["hello"]
        clock.advance(seconds=2)
        house.stream.queue.bus.notify([QueueName.EXECUTOR])
        await house.idle()
        item = await items.get("hello")
        assert item is not None
        assert item.attempts == (0 if kept else 1), "begun under the same approval"


@pytest.mark.usefixtures("letter")
async def test_where_nobody_wants_letters_to_wait_they_leave_at_once(tmp_path: Path) -> None:
    agents = Agents(proxy=FakeProxy(always_plan), planner=planning(writing("a.txt")))
    async with open_house(tmp_path, agents) as house:
        await house.say("Write to Ann")
        await house.reviews.decide(await house.card())
        [told] = await house.until(lambda: house.containing("I am starting."))
        assert payload(told).leaves_at is None
        await house.idle()


@pytest.mark.parametrize("stop", ["cancel", "pause"])
async def test_a_yes_to_what_was_stopped_meanwhile_says_so_and_begins_nothing(
    tmp_path: Path, stop: str
) -> None:
    agents = Agents(proxy=FakeProxy(always_plan), planner=planning(writing("a.txt")))
    async with open_house(tmp_path, agents) as house:
        await house.say("make a file")
        card = await house.card()
        await getattr(house.stream.work.context.control, stop)("hello")
        await house.reviews.decide(card)
        await house.until(lambda: house.containing("it was stopped before"))
        await house.idle()
        assert not house.containing("I am starting.")
        item = await house.stream.turns.items.get("hello")
        assert item is not None
        assert (item.attempts, item.approval_token) == (0, None)
