"""The whole runtime with the offline brain: what a newcomer does, nothing faked but the person."""

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic_ai.messages import ModelRequest

from silas.agents.brain.grammar import is_exact
from silas.agents.proxy import ProxyAgent
from silas.app.agents import Agents
from silas.app.core import make_core
from silas.app.runtime import Runtime, open_runtime
from silas.approval import ApprovalDecision, ApprovalVerdict, message_bytes
from silas.channels.terminal import TerminalChannel
from silas.context.scope import HeuristicTokenCounter
from silas.kernel import TaintLevel
from silas.memory.models import MemoryQuery, MemoryQueryStrategy
from silas.proactive.suggestions import card_of, propose
from silas.queue.models import QueueMessage, UserMessage
from silas.review.cards import Card
from silas.secrets import OnDemandVault
from silas.settings.load import load_settings
from silas.stream.ports import ExactAgents
from silas.testing import MemoryVault
from silas.testing.stream import FakeProxy
from silas.work import WorkItem, WorkItemStatus, WorkItemType
from tests.agents.script import Script
from tests.agents.test_proxy import DIRECT
from tests.stream.house import plan
from tests.stream.test_flows import always_plan, planning

SHOP = {
    "sum.py": "def add(a, b):\n    return a - b\n",
    "test_sum.py": "from sum import add\nassert add(1, 2) == 3\n",
}
PATCH = """Fix the failing test in {shop} with this patch:
```diff
--- a/sum.py
+++ b/sum.py
@@ -1,2 +1,2 @@
 def add(a, b):
-    return a - b
+    return a + b
```
and test it with `python3 test_sum.py`"""


@dataclass
class Newcomer:
    """Somebody at a terminal who answers every card in the same way."""

    runtime: Runtime
    home: Path
    channel: TerminalChannel
    shown: list[str]

    async def say(self, text: str, *, yes: bool = True) -> str:
        """Say something; returns everything that came back."""
        del self.shown[:]

        async def answer(_question: str) -> bool:
            return yes

        async def decide(_card: Card) -> ApprovalDecision:
            verdict = ApprovalVerdict.APPROVED if yes else ApprovalVerdict.DECLINED
            return ApprovalDecision(verdict=verdict)

        async with asyncio.timeout(120):
            await self.channel.ask_once(text, answer, decide)
        return "\n".join(self.shown)

    @property
    def files(self) -> Path:
        return self.home / "silas-files"

    async def items(self, kind: WorkItemType) -> list[WorkItem]:
        store = self.runtime.stream.work.context.items
        found = [item for status in WorkItemStatus for item in await store.list_by_status(status)]
        return [item for item in found if item.type is kind]


def sender(runtime: Runtime) -> Callable[[str], object]:
    core = runtime.core

    async def send(text: str) -> QueueMessage:
        now, nonce = core.clock.now(), core.ids.new("nonce")
        _, signature = core.keys.sign(message_bytes(text=text, timestamp=now, nonce=nonce))
        said = UserMessage(
            channel="test",
            connection_id="owner",
            sender_id="owner",
            timestamp=now,
            signature=base64.b64encode(signature).decode(),
            nonce=nonce,
        )
        return await runtime.stream.intake.accept(text, said)

    return send


@contextlib.asynccontextmanager
async def moved_in(
    root: Path, agents: Agents | None = None, **more: str
) -> AsyncIterator[Newcomer]:
    home = root / "home"
    home.mkdir(exist_ok=True)
    environ = {"HOME": str(home), **more}
    settings = load_settings(
        data_dir=str(root / "data"), config_file=None, environ=environ, cwd=root
    )
    (root / "data").mkdir(exist_ok=True)
    vault = MemoryVault()
    async with make_core(settings, OnDemandVault(lambda: vault)) as core:
        core.keys.generate_keypair()
        async with open_runtime(core, environ={}, home=home, agents=agents) as runtime:
            shown: list[str] = []

            async def show(card: Card) -> str:
                return card.title

            channel = TerminalChannel(
                connection_id="owner",
                deliveries=runtime.deliveries,
                cards=runtime.cards,
                send=sender(runtime),  # type: ignore[arg-type]
                show_card=show,
                show_exact=show,
                say=shown.append,
            )
            yield Newcomer(runtime, home, channel, shown)


@pytest.fixture
async def newcomer(tmp_path: Path) -> AsyncIterator[Newcomer]:
    async with moved_in(tmp_path) as newcomer:
        yield newcomer


async def test_run_a_command_and_verify_it(newcomer: Newcomer) -> None:
    told = await newcomer.say("run echo hello and check that it prints hello")
    assert "Nothing about it can be checked afterwards." in told
    assert "Done, not checked: the plan has no checks." in told
    [item] = await newcomer.items(WorkItemType.TASK)
    assert item.status is WorkItemStatus.UNCHECKED
    assert item.approval_token is not None


async def test_a_check_that_fails_is_not_done(newcomer: Newcomer) -> None:
    told = await newcomer.say("run echo hello and check that it prints goodbye")
    assert "Done, and checked" not in told
    [item] = await newcomer.items(WorkItemType.TASK)
    assert item.status is not WorkItemStatus.DONE


async def test_create_and_edit_a_file(newcomer: Newcomer) -> None:
    await newcomer.say("Create a file notes/today.txt with buy milk")
    await newcomer.say('In notes/today.txt, replace "milk" with "oat milk"')
    await newcomer.say("Add buy bread to notes/today.txt")
    assert (newcomer.files / "notes" / "today.txt").read_text() == "buy oat milk\nbuy bread\n"


async def test_a_no_changes_nothing(newcomer: Newcomer) -> None:
    told = await newcomer.say("Create a file a.txt with x", yes=False)
    assert "not approved" in told
    assert not (newcomer.files / "a.txt").exists()


async def test_fix_a_failing_test_by_a_patch(newcomer: Newcomer) -> None:
    shop = newcomer.home / "shop"
    shop.mkdir()
    for name, text in SHOP.items():
        (shop / name).write_text(text)
    told = await newcomer.say(PATCH.format(shop="~/shop"))
    assert "Done, and checked" in told
    assert "a + b" in (shop / "sum.py").read_text()


async def test_watch_a_command_on_a_schedule(newcomer: Newcomer) -> None:
    told = await newcomer.say("Run `test -f important.txt` every day at 7:30")
    assert "approved, every day at 7:30." in told
    [goal] = await newcomer.items(WorkItemType.GOAL)
    result = await newcomer.runtime.stream.work.execute(goal)
    assert result.status is WorkItemStatus.FAILED
    assert "failing: it works" in await newcomer.say("What are you watching?")
    (newcomer.files / "important.txt").touch()
    [goal] = await newcomer.items(WorkItemType.GOAL)
    assert (await newcomer.runtime.stream.work.execute(goal)).status is WorkItemStatus.HEALTHY
    assert "every day at 7:30, works" in await newcomer.say("What are you watching?")
    assert "I stop “Watch test -f important.txt”." in await newcomer.say("Stop watching")


async def test_remember_recall_forget(newcomer: Newcomer) -> None:
    await newcomer.say("Remember that the spare key is at the neighbour's")
    assert "neighbour" in await newcomer.say("Where is the spare key?")
    assert "neighbour" in await newcomer.say("What do you remember?")
    assert "I no longer remember" in await newcomer.say("Forget about the spare key")
    assert "not remember" in await newcomer.say("Where is the spare key?")


async def test_what_was_told_is_found_by_whom_it_is_about(newcomer: Newcomer) -> None:
    await newcomer.say("Remember that Anna Berg lives in Lisbon")
    await newcomer.say("Remember that the spare key is at the neighbour's")
    memory = newcomer.runtime.stream.turns.memory
    assert memory is not None
    query = MemoryQuery(query="What about Anna?", strategy=MemoryQueryStrategy.ENTITY)
    [found] = await memory.retrieve(query, "owner")
    assert found.content == "Anna Berg lives in Lisbon"
    assert found.entity_refs == ["Anna Berg", "Anna", "Berg", "Lisbon"]


async def test_instructions_tools_and_context_together_keep_to_the_budget(tmp_path: Path) -> None:
    """Counted on what the model is really told, in a conversation that has become too long."""
    script = Script([DIRECT])
    proxy = ProxyAgent(
        script.player(), profiles=("conversation", "coding"), default_profile="conversation"
    )
    agents = Agents(proxy=proxy, beside_context=(proxy.beside_context, ""))
    total, count = 16_000, HeuristicTokenCounter().count
    small = {"SILAS_CONTEXT__TOTAL_TOKENS": f"{total}", "SILAS_CONTEXT__SYSTEM_MAX": "2000"}
    async with moved_in(tmp_path, agents, **small) as newcomer:
        for number in range(12):
            await newcomer.say(f"Number {number}: " + "and so on, as before, " * 300)
        context = newcomer.runtime.stream.turns.context
        assert context is not None
        zones = context.manager.budgets("owner")
        most = zones.chronicle + zones.memory + zones.workspace + zones.headroom
        most += context.manager.token_usage("owner")["system"]
    for messages, told in zip(script.asked, script.told, strict=True):
        request = messages[0]
        assert isinstance(request, ModelRequest)
        tools = [[tool.description, tool.parameters_json_schema] for tool in told.function_tools]
        shown = "".join(str(part.content) for part in request.parts)
        conversation = shown[: shown.rindex("<request>")]  # the message itself is not the context
        beside = count(str(request.instructions)) + count(json.dumps(tools))
        assert beside + count(conversation) <= total
        assert beside + most <= total, "also where every zone is full"
    assert count(conversation) > total / 4, "the conversation has become long"


async def test_a_suggestion_never_takes_the_exact_way(tmp_path: Path) -> None:
    """Whoever worded it was not the owner: what reads like exact words is planned by the model."""
    exact, model = planning(plan("```run\ntrue\n```")), planning(plan("```run\ntrue\n```"))
    agents = Agents(
        proxy=FakeProxy(always_plan),
        planner=model,
        exact=ExactAgents(understands=is_exact, proxy=FakeProxy(always_plan), planner=exact),
    )
    words = "run `make test`"
    assert is_exact(words)
    async with moved_in(tmp_path, agents) as newcomer:
        reviews, turns = newcomer.runtime.reviews, newcomer.runtime.stream.turns
        question = card_of(
            propose(
                turns.ids,
                turns.clock.now(),
                scope_id="owner",
                source="post_execution",
                request=words,
                intent=words,
                rationale="It came up.",
                key=words,
                taint=TaintLevel.OWNER,
            )
        )
        await reviews.questions.ask(question)
        await reviews.questions.answer_with_vault(question.question_id, {"selected_value": "do_it"})
        deliveries = newcomer.runtime.deliveries
        async for each in deliveries.follow("owner", 0):
            if each.reply.card_id is not None:
                break
        assert {turn.request for turn, _, _ in model.turns} == {words}
        assert exact.turns == []
        asked = len(model.turns)
        # The same words, said by the owner, are the exact planner's.
        await newcomer.say(words)
        assert {turn.request for turn, _, _ in exact.turns} == {words}
        assert len(model.turns) == asked


async def test_what_did_you_do(newcomer: Newcomer) -> None:
    await newcomer.say("run `true`")
    told = await newcomer.say("What did you do?")
    assert "“Run true”: done, not checked" in told


async def test_everything_else_is_said_not_to_be_understood(newcomer: Newcomer) -> None:
    assert "I need a model for that" in await newcomer.say("Write me a symphony")


async def test_the_log_holds_afterwards(newcomer: Newcomer) -> None:
    await newcomer.say("run `true`")
    assert (await newcomer.runtime.core.audit.verify_chain())[0]


@pytest.mark.parametrize("enabled", [True, False])
async def test_the_scheduler_can_be_switched_off(tmp_path: Path, enabled: bool) -> None:
    off = {"SILAS_SCHEDULER__ENABLED": "false", "SILAS_SUGGESTIONS__ENABLED": "false"}
    async with moved_in(tmp_path, **({} if enabled else off)) as newcomer:
        jobs = [job.name for job in newcomer.runtime.stream.jobs()]
    assert ("start due goals" in jobs) is enabled
    assert "end overdue research" in jobs


async def test_each_object_is_built_once(tmp_path: Path) -> None:
    async with moved_in(tmp_path) as newcomer:
        runtime, core = newcomer.runtime, newcomer.runtime.core
        work, turns = runtime.stream.work.context, runtime.stream.turns
        assert runtime.stream.queue is core.queue
        assert turns.store is core.conversations
        assert turns.items is work.items is core.work.items
        assert turns.gates is work.gates
        assert turns.personality is runtime.personality
        assert work.registry is core.tools
