"""The whole house with the offline brain: what a newcomer does, nothing faked but the person."""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from silas.app.ground import OnDemandVault, make_ground
from silas.app.house import House, open_house
from silas.app.settings import load_settings
from silas.approval import message_bytes
from silas.channels.terminal import TerminalChannel
from silas.queue.models import QueueMessage, UserMessage
from silas.stream.cards import Card
from silas.testing import MemoryVault
from silas.work import WorkItem, WorkItemStatus, WorkItemType

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

    house: House
    home: Path
    channel: TerminalChannel
    shown: list[str]

    async def say(self, text: str, *, yes: bool = True) -> str:
        """Say something; returns everything that came back."""
        del self.shown[:]

        async def answer(_question: str) -> bool:
            return yes

        async with asyncio.timeout(120):
            await self.channel.ask_once(text, answer)
        return "\n".join(self.shown)

    @property
    def files(self) -> Path:
        return self.home / "silas"

    async def items(self, kind: WorkItemType) -> list[WorkItem]:
        store = self.house.stream.work.bench.items
        found = [item for status in WorkItemStatus for item in await store.list_by_status(status)]
        return [item for item in found if item.type is kind]


def sender(house: House) -> Callable[[str], object]:
    ground = house.ground

    async def send(text: str) -> QueueMessage:
        now, nonce = ground.clock.now(), ground.ids.new("nonce")
        _, signature = ground.keys.sign(message_bytes(text=text, timestamp=now, nonce=nonce))
        said = UserMessage(
            channel="test",
            connection_id="owner",
            sender_id="owner",
            timestamp=now,
            signature=base64.b64encode(signature).decode(),
            nonce=nonce,
        )
        return await house.stream.intake.accept(text, said)

    return send


@contextlib.asynccontextmanager
async def moved_in(root: Path) -> AsyncIterator[Newcomer]:
    home = root / "home"
    home.mkdir(exist_ok=True)
    environ = {"HOME": str(home)}
    settings = load_settings(
        data_dir=str(root / "data"), config_file=None, environ=environ, cwd=root
    )
    (root / "data").mkdir(exist_ok=True)
    vault = MemoryVault()
    async with make_ground(settings, OnDemandVault(lambda: vault)) as ground:
        ground.keys.generate_keypair()
        async with open_house(ground, environ={}, home=home) as house:
            shown: list[str] = []

            async def show(card: Card) -> str:
                return card.title

            channel = TerminalChannel(
                connection_id="owner",
                deliveries=house.deliveries,
                cards=house.cards,
                send=sender(house),  # type: ignore[arg-type]
                show_card=show,
                say=shown.append,
            )
            yield Newcomer(house, home, channel, shown)


@pytest.fixture
async def newcomer(tmp_path: Path) -> AsyncIterator[Newcomer]:
    async with moved_in(tmp_path) as newcomer:
        yield newcomer


async def test_run_a_command_and_verify_it(newcomer: Newcomer) -> None:
    told = await newcomer.say("run echo hello and check that it prints hello")
    assert "Done, and checked" in told
    [item] = await newcomer.items(WorkItemType.TASK)
    assert item.status is WorkItemStatus.DONE
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
    assert "approved, at 30 7 * * *" in told
    [goal] = await newcomer.items(WorkItemType.GOAL)
    result = await newcomer.house.stream.work.execute(goal)
    assert result.status is WorkItemStatus.FAILED
    (newcomer.files / "important.txt").touch()
    [goal] = await newcomer.items(WorkItemType.GOAL)
    assert (await newcomer.house.stream.work.execute(goal)).status is WorkItemStatus.HEALTHY


async def test_remember_recall_forget(newcomer: Newcomer) -> None:
    await newcomer.say("Remember that the spare key is at the neighbour's")
    assert "neighbour" in await newcomer.say("Where is the spare key?")
    assert "neighbour" in await newcomer.say("What do you remember?")
    assert "I forget" in await newcomer.say("Forget about the spare key")
    assert "not remember" in await newcomer.say("Where is the spare key?")


async def test_what_did_you_do(newcomer: Newcomer) -> None:
    await newcomer.say("run `true`")
    told = await newcomer.say("What did you do?")
    assert "was done, and its checks passed" in told


async def test_everything_else_is_said_not_to_be_understood(newcomer: Newcomer) -> None:
    assert "did not understand" in await newcomer.say("Write me a symphony")


async def test_the_log_holds_afterwards(newcomer: Newcomer) -> None:
    await newcomer.say("run `true`")
    assert (await newcomer.house.ground.audit.verify_chain())[0]
