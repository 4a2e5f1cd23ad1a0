"""`silas chat` and `silas ask`: talk to Silas in the terminal."""

import asyncio
import base64
import contextlib
import os
import secrets
import shlex
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import click

from silas.app.client import Passing, call_server, follow_live
from silas.app.context import open_search
from silas.app.conversation import open_intake
from silas.app.core import Core
from silas.app.instance import InstanceLock, InstanceLocked, holder_of
from silas.app.review import open_questions
from silas.app.runtime import open_cards, open_runtime
from silas.app.work import off_limits_of
from silas.approval import ApprovalDecision, message_bytes
from silas.channels.terminal import TerminalChannel
from silas.cli.approver import exact_plan
from silas.cli.commands import CliContext, JsonCommand, core_of, on_terminal, pass_cli, screen_width
from silas.cli.line_editor import Keyboard, Screen, recent_lines
from silas.cli.review import card_text, compared, shown_question
from silas.kernel import SilasError, SystemClock
from silas.kernel.ids import FIRST_CONVERSATION, conversation_scope
from silas.kernel.program import as_typed
from silas.queue.models import QueueMessage, UserMessage
from silas.review.cards import Card, CardStore
from silas.review.questions import QUESTION
from silas.stream.admission import Intake
from silas.stream.answering import AnswersInProgress
from silas.stream.attachments import (
    MAX_FILE_BYTES,
    AttachedFile,
    AttachmentRefused,
    require_few,
)
from silas.stream.conversations import ConversationList
from silas.stream.delivery import Deliveries, Delivery, UserMessageStore

_CHANNEL = "cli"
_SECONDS_BETWEEN_LOOKS = 1.0
_ALONE = "The Silas that was running has ended. Going on in this process."
_WELCOME = (
    "Talk to Silas. Nothing is done without your yes. `/help` helps; Ctrl-C stops an answer; "
    "`exit` or Ctrl-D ends."
)
_MAX_HISTORY_LINES = 200
_LONGEST_FOLDER = 4096


Stop = Callable[[str], Awaitable[object]]


@dataclass(frozen=True)
class _Line:
    """The line to Silas, in this process or to the one that runs."""

    core: Core
    intake: Intake
    cards: CardStore
    deliveries: Deliveries
    conversations: ConversationList
    stop: Stop
    """Ends an answer that is being made, in whichever process makes it."""
    folder: str | None = None
    """What the owner has picked with `--in`."""
    conversation: str = FIRST_CONVERSATION
    """The id of the one that is gone on with, or begun."""
    files: list[AttachedFile] = field(default_factory=list)
    """What goes with the next message."""

    @property
    def scope_id(self) -> str:
        """The scope of the conversation."""
        return conversation_scope(self.core.settings.owner_id, self.conversation)

    async def attach(self, path: str) -> str:
        """Keep this file for the next message; says so, or raises."""
        require_few(len(self.files) + 1)
        content = await asyncio.to_thread(_read, path)
        kept = await self.core.attachments.keep(path, content)
        self.files.append(kept)
        return f"Attached: {kept.name} ({kept.facts}). It goes with your next message."

    async def send(self, text: str) -> QueueMessage:
        """Sign the text and what is attached with the owner's key, and hand it in."""
        core, nonce = self.core, secrets.token_hex(16)
        now, attached = core.clock.now(), [each.signed for each in self.files]
        named = None if self.conversation == FIRST_CONVERSATION else self.conversation
        payload = message_bytes(
            text=text, timestamp=now, nonce=nonce, conversation=named, attachments=attached
        )
        _, signature = core.keys.sign(payload)
        await core.attachments.find(attached)
        owner = core.settings.owner_id
        said = UserMessage(
            channel=_CHANNEL,
            connection_id=owner,
            sender_id=owner,
            timestamp=now,
            signature=base64.b64encode(signature).decode(),
            nonce=nonce,
            conversation=named,
            folder=self.folder,
            said_in=_here(),
            attachments=attached,
        )
        message = await self.intake.accept(text, said, record=self.conversations.record)
        self.files.clear()
        return message

    async def show(self, card: Card) -> str:
        """The card that the page shows, as text: everything that is signed, in words."""
        parts = await compared(self.core, card)
        return card_text(card, *parts, effect_of=self.core.tools.effect_of)

    async def show_exact(self, card: Card) -> str:
        """Every byte that would be signed."""
        items, _, _ = await compared(self.core, card)
        return "\n\n".join(map(exact_plan, items))


_IN = click.option(
    "--in",
    "folder",
    metavar="FOLDER",
    type=click.Path(exists=True, file_okay=False, resolve_path=True),
    help="The folder or repository to read and to work in. Without it: the repository that you are "
    "in, a folder that you name, or your workspace.",
)
_NEW = click.option("--new", is_flag=True, help="Begin a new conversation.")
_CONVERSATION = click.option(
    "--conversation",
    "name",
    metavar="NAME",
    help="The conversation to go on with: its id, or the beginning of its title. Without it: the "
    "one that was used last, here or in the page.",
)


@click.command(cls=JsonCommand)
@_IN
@_NEW
@_CONVERSATION
@pass_cli
def chat(cli: CliContext, *, folder: str | None, new: bool, name: str | None) -> None:
    """Talk to Silas in this terminal.

    If Silas runs already (`silas start`), this joins it; otherwise it runs for as long as you talk.
    """
    if not on_terminal():
        raise click.UsageError("There is nobody at this terminal. Use `silas ask TEXT` instead.")
    asyncio.run(_chat(cli, _Wanted(folder, new=new, name=name)))


def _leave(_signal: int, _frame: object) -> None:
    """While Silas opens, Ctrl-C leaves at once.

    asyncio's own handler would cancel the task, and a step that waits for its own end goes on.
    """
    raise KeyboardInterrupt


async def _chat(cli: CliContext, wanted: "_Wanted") -> None:
    # Not before there is a loop: one that is interrupted while it is made complains when it goes.
    signal.signal(signal.SIGINT, _leave)
    cli.say(_WELCOME)
    live = Passing()
    async with _line(cli, live, wanted=wanted) as line:
        await _say_which(cli, line)
        if os.environ.get("TERM", "dumb") == "dumb":
            plain = live.to = _channel(line, cli)
            with _stopping(line, plain):
                await plain.talk(Keyboard().line)
            return
        said = UserMessageStore(line.core.database, line.core.clock)
        newest = await said.newest(line.core.settings.owner_id, _MAX_HISTORY_LINES)
        screen = Screen(recent_lines([each.text for each in newest]))
        channel = _channel(line, cli)
        channel.growing = screen
        channel.say = lambda text: screen.say(as_typed(text))
        channel.note = partial(screen.say, dim=True)
        live.to = channel
        with screen.open(), _stopping(line, channel):
            await channel.talk(screen.line)


@contextlib.contextmanager
def _stopping(line: _Line, channel: TerminalChannel) -> Iterator[None]:
    """Ctrl-C stops the answer that is being made; a second one, or one without it, leaves."""
    loop, talking = asyncio.get_running_loop(), asyncio.current_task()
    asked: set[str] = set()
    stopping: set[asyncio.Task[object]] = set()
    left = False

    def interrupt() -> None:
        nonlocal left
        made = [trace_id for trace_id in channel.being_made if trace_id not in asked]
        for trace_id in made:
            asked.add(trace_id)
            stopping.add(asyncio.ensure_future(_try_to_stop(line, channel, trace_id)))
        if not made and talking is not None:
            left = True
            talking.cancel()

    loop.add_signal_handler(signal.SIGINT, interrupt)
    try:
        yield
    except asyncio.CancelledError:
        if left:
            raise KeyboardInterrupt from None
        raise
    finally:
        loop.remove_signal_handler(signal.SIGINT)


async def _try_to_stop(line: _Line, channel: TerminalChannel, trace_id: str) -> object:
    try:
        return await line.stop(trace_id)
    except SilasError as error:
        channel.say(error.message)
        return None


@click.command(cls=JsonCommand)
@click.argument("text")
@_IN
@_NEW
@_CONVERSATION
@click.option(
    "--attach",
    "files",
    metavar="FILE",
    multiple=True,
    type=click.Path(dir_okay=False),
    help="A file that goes with TEXT. What is in it counts as somebody else's text. May be given "
    "several times.",
)
@click.option("--wait", is_flag=True, help="Also wait for a decision that is made elsewhere.")
@pass_cli
def ask(
    cli: CliContext,
    text: str,
    *,
    wait: bool,
    folder: str | None,
    new: bool,
    name: str | None,
    files: tuple[str, ...],
) -> None:
    """Say TEXT to Silas, show its answer, and wait for the work that you approve.

    Where nobody can be asked, a plan is shown and left open: `silas review` decides it later.
    """

    if not _is_text(text):
        raise click.UsageError("TEXT is not UTF-8, so it cannot be signed.")
    if not text.strip() and not files:
        raise click.UsageError("TEXT is empty. Say what you want, in quotes.")
    wanted = _Wanted(folder, new=new, name=name)

    async def inside() -> dict[str, object]:
        async with _line(cli, wanted=wanted) as line:
            channel = _channel(line, cli)
            for path in files:
                await line.attach(path)
            asking = _not_now if cli.as_json else _confirm
            deciding = _nobody_decides if cli.as_json else partial(_decide_card, channel)
            heard = await channel.ask_once(text, asking, deciding, wait=wait)
            return await _summary(line, heard)

    answer = asyncio.run(inside())
    if cli.as_json:
        cli.show(answer, "")


async def _summary(line: _Line, heard: list[Delivery]) -> dict[str, object]:
    """The reply, and the ids of what it started."""
    asked = [each.reply.card_id for each in heard if each.reply.card_id]
    plans = [each for each in asked if not each.startswith(QUESTION)]
    items = list((await line.cards.get(plans[0])).plan_hashes) if plans else []
    return {
        "reply": heard[0].message.content if heard else "",
        "review_id": asked[0] if asked else None,
        "work_item_id": items[0] if items else None,
        "trace_id": heard[0].message.trace_id if heard else None,
        "conversation": line.conversation,
        "answers": [each.message.content for each in heard],
        "printed": [
            printed.model_dump(mode="json") for each in heard for printed in each.reply.printed
        ],
    }


class _Wanted:
    """Where the owner wants to say something; raises `click.UsageError`."""

    def __init__(self, folder: str | None, *, new: bool, name: str | None) -> None:
        if new and name is not None:
            raise click.UsageError("Say either --new or --conversation NAME.")
        self.folder, self._new, self._name = folder, new, name

    async def conversation(self, core: Core, known: ConversationList) -> str:
        """The id of the conversation; raises `ConversationUnknown`."""
        if self._new:
            return core.ids.new("conv")
        if self._name is not None:
            return (await known.find(self._name)).conversation
        return await known.latest()


async def _say_which(cli: CliContext, line: _Line) -> None:
    """Tell which conversation this goes on with, where there are several."""
    known = await line.conversations.list()
    here = [each for each in known if each.conversation == line.conversation]
    if here and len(known) > 1:
        cli.say(f"Going on with “{here[0].title}”. `silas chat --new` begins another conversation.")


@contextlib.asynccontextmanager
async def _line(
    cli: CliContext, live: Passing | None = None, *, wanted: _Wanted
) -> AsyncIterator[_Line]:
    """Join the Silas that runs, or run one for as long as this takes."""
    folder = wanted.folder
    async with core_of(cli) as core, contextlib.AsyncExitStack() as stack:
        # Every word is signed. Asked for later, the passphrase would come between two sentences.
        core.vault.list()
        _say_that_somebody_is_here(cli, core, stack)
        if folder is not None:
            off_limits_of(core.paths).require_allowed(Path(folder))
        command = shlex.join(["silas", *sys.argv[1:]])
        lock = InstanceLock(core.paths.lock, clock=SystemClock(), command=command)
        try:
            stack.enter_context(lock)
        except InstanceLocked:
            async with _beside(core, lock, live) as line:
                here = await wanted.conversation(core, line.conversations)
                yield replace(line, folder=folder, conversation=here)
            return
        runtime = await stack.enter_async_context(
            open_runtime(core, environ=os.environ, home=Path.home(), live=live)
        )
        answers, known = runtime.stream.turns.answers, runtime.search.conversations

        async def stop(trace_id: str) -> bool:
            return await answers.stop(trace_id)

        yield _Line(
            core,
            runtime.stream.intake,
            runtime.cards,
            runtime.deliveries,
            known,
            stop,
            folder,
            await wanted.conversation(core, known),
        )


def _say_that_somebody_is_here(
    cli: CliContext, core: Core, stack: contextlib.AsyncExitStack
) -> None:
    """Let whichever Silas runs know that gates can ask here; one of several terminals is enough."""
    if not on_terminal() or cli.as_json:
        return
    with contextlib.suppress(InstanceLocked):
        lock = InstanceLock(core.paths.terminal_lock, clock=SystemClock(), command="terminal")
        stack.enter_context(lock)


@contextlib.asynccontextmanager
async def _beside(core: Core, lock: InstanceLock, live: Passing | None) -> AsyncIterator[_Line]:
    """The line to the Silas that runs; if that one ends, this process goes on in its place."""
    intake = open_intake(core)
    cards, deliveries = open_cards(core), Deliveries(core.database, core.clock)

    taken: list[AnswersInProgress] = []

    async def stop(trace_id: str) -> object:
        if taken:
            return await taken[-1].stop(trace_id)
        return await asyncio.to_thread(
            call_server, core.paths, "/api/answers/stop", {"trace_id": trace_id}
        )

    watching = [asyncio.create_task(_take_over(core, lock, live, taken))]
    if live is not None:
        watching.append(asyncio.create_task(follow_live(core.paths, live)))
    try:
        yield _Line(core, intake, cards, deliveries, open_search(core).conversations, stop)
    finally:
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)


async def _take_over(
    core: Core, lock: InstanceLock, live: Passing | None, taken: list[AnswersInProgress]
) -> None:
    """Wait until nobody else is there who could answer, and then be the one who does."""
    while True:
        await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)
        if await asyncio.to_thread(holder_of, core.paths.lock) is not None:
            continue
        try:
            with lock:
                click.echo(_ALONE, err=True)
                async with open_runtime(
                    core, environ=os.environ, home=Path.home(), live=live
                ) as runtime:
                    taken.append(runtime.stream.turns.answers)
                    await asyncio.Event().wait()
        except InstanceLocked:
            continue
        except SilasError as error:
            click.echo(error.message, err=True)
            return


def _channel(line: _Line, cli: CliContext) -> TerminalChannel:
    return TerminalChannel(
        connection_id=line.core.settings.owner_id,
        scope_id=line.scope_id,
        deliveries=line.deliveries,
        cards=line.cards,
        send=line.send,
        attach=line.attach,
        show_card=line.show,
        show_exact=line.show_exact,
        questions=open_questions(line.core, line.core.queue) if on_terminal() else None,
        show_question=shown_question,
        say=cli.say,
        columns=screen_width(),
    )


async def _confirm(question: str) -> bool | None:
    """A typed yes or no; where nobody can be asked, the card stays open."""
    if not on_terminal():
        click.echo(question, err=True)
        told = "Nobody can be asked here. `silas review list` shows it."
        click.echo(as_typed(told), err=True)
        return None
    return await Keyboard().confirm(question)


async def _not_now(_question: str) -> bool | None:
    return None


def _read(name: str) -> bytes:
    """The bytes of a file to attach, at most one more than may be attached."""
    path = Path(name).expanduser()
    try:
        if not path.is_file():
            raise AttachmentRefused(f"{path}: There is no such file. Name one to attach.")
        with path.open("rb") as file:
            return file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise AttachmentRefused(f"{path}: This file cannot be read ({error.strerror}).") from error


async def _decide_card(channel: TerminalChannel, card: Card) -> ApprovalDecision | None:
    """What is typed about a card; where nobody can be asked, it stays open."""
    if on_terminal():
        return await channel.decide_typed(card, Keyboard().line)
    click.echo(await channel.show_card(card), err=True)
    told = (
        f"Nobody can be asked here, so this waits for you as {card.card_id}. Decide it later: "
        f"`silas review approve {card.card_id}`, or decline it."
    )
    click.echo(as_typed(told), err=True)
    return None


async def _nobody_decides(_card: Card) -> ApprovalDecision | None:
    return None


def _here() -> str | None:
    """Where this was started; None if that cannot be told, or not be written down."""
    try:
        here = os.getcwd()  # noqa: PTH109 - Path.cwd() is the same, and is no text
    except OSError:
        return None
    return here if _is_text(here) and len(here) <= _LONGEST_FOLDER else None


def _is_text(text: str) -> bool:
    """Whether it can be written down; the bytes of an argument that are not UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
