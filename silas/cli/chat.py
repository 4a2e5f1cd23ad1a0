"""`silas chat` and `silas ask`: talk to Silas in the terminal."""

import asyncio
import base64
import contextlib
import os
import secrets
import shlex
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click

from silas.app.ground import Ground
from silas.app.house import open_cards, open_house
from silas.app.instance import InstanceLock, InstanceLocked, holder_of
from silas.app.live import Passing, follow_live
from silas.app.stream import open_intake, open_queue
from silas.approval import message_bytes
from silas.channels.terminal import TerminalChannel
from silas.cli.commands import JsonCommand
from silas.cli.context import CliContext, pass_cli
from silas.cli.keyboard import Keyboard
from silas.cli.line_editor import recent_lines
from silas.cli.opening import ground_of
from silas.cli.review import provenance
from silas.cli.screen import Screen
from silas.cli.terminal import on_terminal
from silas.cli.working import shown_plan
from silas.kernel import SilasError, SystemClock, visible
from silas.queue.models import QueueMessage, UserMessage
from silas.stream.cards import Card, CardStore, require_shown
from silas.stream.delivery import Deliveries, Delivery
from silas.stream.intake import Intake
from silas.stream.said import SaidStore
from silas.work import WorkItem
from silas.work.store import WorkItemStore

_CHANNEL = "cli"
_LOOK_SECONDS = 1.0
_ALONE = "The Silas that was running has ended. Going on in this process."
_WELCOME = "Talk to Silas. Nothing is done without your yes. `/help` helps; `exit` or Ctrl-D ends."
_HISTORY = 200


@dataclass(frozen=True)
class _Line:
    """The line to Silas, in this process or to the one that runs."""

    ground: Ground
    intake: Intake
    cards: CardStore
    deliveries: Deliveries

    async def send(self, text: str) -> QueueMessage:
        """Sign the text with the owner's key and hand it in."""
        ground, nonce = self.ground, secrets.token_hex(16)
        now = ground.clock.now()
        _, signature = ground.keys.sign(message_bytes(text=text, timestamp=now, nonce=nonce))
        owner = ground.settings.owner_id
        said = UserMessage(
            channel=_CHANNEL,
            connection_id=owner,
            sender_id=owner,
            timestamp=now,
            signature=base64.b64encode(signature).decode(),
            nonce=nonce,
        )
        message = await self.intake.accept(text, said)
        await SaidStore(ground.database, ground.clock).keep(message, connection_id=owner)
        return message

    async def show(self, card: Card) -> str:
        """Everything that the card asks about, exactly as it is signed."""
        items = WorkItemStore(self.ground.database, self.ground.clock)
        found = require_shown(card, [await items.get(name) for name in card.plan_hashes])
        shown = [shown_plan(item) for item in found]
        plans = [_in_words(item) for item in found]
        last = f"{provenance(card)}\nRisk: {card.risk.value}. Card: {card.card_id}"
        return "\n\n".join([*shown, *plans, last])


@click.command(cls=JsonCommand)
@pass_cli
def chat(cli: CliContext) -> None:
    """Talk to Silas in this terminal.

    If Silas runs already (`silas start`), this joins it; otherwise it runs for as long as you talk.
    """
    if not on_terminal():
        raise click.UsageError("There is nobody at this terminal. Use `silas ask TEXT` instead.")
    cli.say(_WELCOME)
    asyncio.run(_chat(cli))


async def _chat(cli: CliContext) -> None:
    live = Passing()
    async with _line(cli, live) as line:
        if os.environ.get("TERM", "dumb") == "dumb":
            await _channel(line, cli).talk(Keyboard().line)
            return
        said = SaidStore(line.ground.database, line.ground.clock)
        newest = await said.newest(line.ground.settings.owner_id, _HISTORY)
        screen = Screen(recent_lines([each.text for each in newest]))
        channel = _channel(line, cli)
        channel.say, channel.growing = screen.say, screen
        channel.note = partial(screen.say, dim=True)
        live.to = channel
        with screen.open():
            await channel.talk(screen.line)


@click.command(cls=JsonCommand)
@click.argument("text")
@click.option("--wait", is_flag=True, help="Also wait for a decision that is made elsewhere.")
@pass_cli
def ask(cli: CliContext, text: str, *, wait: bool) -> None:
    """Say TEXT to Silas, show its answer, and wait for the work that you approve.

    Where nobody can be asked, a plan is shown and left open: `silas review` decides it later.
    """

    if not _is_text(text):
        raise click.UsageError("TEXT is not UTF-8, so it cannot be signed.")

    async def inside() -> dict[str, object]:
        async with _line(cli) as line:
            asking = _not_now if cli.as_json else _confirm
            heard = await _channel(line, cli).ask_once(text, asking, wait=wait)
            return await _summary(line, heard)

    told = asyncio.run(inside())
    if cli.as_json:
        cli.show(told, "")


async def _summary(line: _Line, heard: list[Delivery]) -> dict[str, object]:
    """The reply, and the ids of what it started."""
    cards = [each.reply.card_id for each in heard if each.reply.card_id]
    items = list((await line.cards.get(cards[0])).plan_hashes) if cards else []
    return {
        "reply": heard[0].message.content if heard else "",
        "review_id": cards[0] if cards else None,
        "work_item_id": items[0] if items else None,
        "trace_id": heard[0].message.trace_id if heard else None,
        "answers": [each.message.content for each in heard],
    }


@contextlib.asynccontextmanager
async def _line(cli: CliContext, live: Passing | None = None) -> AsyncIterator[_Line]:
    """Join the Silas that runs, or run one for as long as this takes."""
    async with ground_of(cli) as ground, contextlib.AsyncExitStack() as stack:
        command = shlex.join(["silas", *sys.argv[1:]])
        lock = InstanceLock(ground.paths.lock, clock=SystemClock(), command=command)
        try:
            stack.enter_context(lock)
        except InstanceLocked:
            async with _beside(ground, lock, live) as line:
                yield line
            return
        house = await stack.enter_async_context(
            open_house(ground, environ=os.environ, home=Path.home(), live=live)
        )
        yield _Line(ground, house.stream.intake, house.cards, house.deliveries)


@contextlib.asynccontextmanager
async def _beside(ground: Ground, lock: InstanceLock, live: Passing | None) -> AsyncIterator[_Line]:
    """The line to the Silas that runs; if that one ends, this process goes on in its place."""
    queue = open_queue(ground)
    intake = open_intake(ground, queue)
    cards, deliveries = open_cards(ground, queue), Deliveries(ground.database, ground.clock)
    watching = [asyncio.create_task(_take_over(ground, lock, live))]
    if live is not None:
        watching.append(asyncio.create_task(follow_live(ground.paths, live)))
    try:
        yield _Line(ground, intake, cards, deliveries)
    finally:
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)


async def _take_over(ground: Ground, lock: InstanceLock, live: Passing | None) -> None:
    """Wait until nobody else is there who could answer, and then be the one who does."""
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        if await asyncio.to_thread(holder_of, ground.paths.lock) is not None:
            continue
        try:
            with lock:
                click.echo(_ALONE, err=True)
                async with open_house(ground, environ=os.environ, home=Path.home(), live=live):
                    await asyncio.Event().wait()
        except InstanceLocked:
            continue
        except SilasError as error:
            click.echo(error.message, err=True)
            return


def _channel(line: _Line, cli: CliContext) -> TerminalChannel:
    return TerminalChannel(
        connection_id=line.ground.settings.owner_id,
        deliveries=line.deliveries,
        cards=line.cards,
        send=line.send,
        show_card=line.show,
        say=cli.say if cli.as_json else click.echo,
    )


def _in_words(item: WorkItem) -> str:
    """The same once more, for people; what is signed stands above it, whole."""
    workspace = item.workspace
    lines = [visible(item.title), "", visible(item.body), ""]
    lines += [f"Checked by: {visible(check.name)}: {visible(check.run)}" for check in item.verify]
    if workspace is not None and workspace.path:
        lines.append(f"Works in: {visible(workspace.path)}")
    lines.append("Network: " + ("yes" if workspace is not None and workspace.network else "no"))
    if item.schedule:
        lines.append(f"When: {visible(item.schedule)}")
    return "\n".join(lines)


async def _confirm(question: str) -> bool | None:
    """A typed yes or no; where nobody can be asked, the card stays open."""
    if not on_terminal():
        click.echo(question, err=True)
        click.echo("Nobody can be asked here. `silas review` decides it later.", err=True)
        return None
    return await Keyboard().confirm(question)


async def _not_now(_question: str) -> bool | None:
    return None


def _is_text(text: str) -> bool:
    """Whether it can be written down; the bytes of an argument that are not UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
