"""`silas companions chat`: talk to a companion in the terminal.

The running Silas answers; this only says, waits and shows. Everything that was said is in the
conversation, and the page shows the same.
"""

import asyncio
import contextlib
import sys
from collections.abc import Mapping
from typing import Any

import click

from silas.app.client import NotRunning, call_server, follow_events
from silas.cli.commands import CliContext, JsonCommand, on_terminal, pass_cli
from silas.cli.companions import NAME, CompanionSession, when, with_companions
from silas.kernel import visible

_SECONDS_BETWEEN_LOOKS = 0.3
_LONGEST_WAIT_SECONDS = 600.0
_SHOWN = 6
_WELCOME = "Talk to {name}. `/end` ends the conversation, Ctrl-D leaves it; `/help` says more."
_HELP = (
    "Say what you like. A question with choices is answered by its number, or in words. "
    "`/more` shows what was said before, `/end` ends the conversation. What needs your yes waits "
    "in Review: silas review."
)
_STILL = "It still works on that. Its answer will be here: silas companions chat {name}"
_OVER = frozenset({"queued", "running"})


@click.command(cls=JsonCommand)
@NAME
@click.argument("said", metavar="[TEXT]", nargs=-1)
@pass_cli
def chat(cli: CliContext, name: str, said: tuple[str, ...]) -> None:
    """Talk to a companion. With TEXT, one message and its answer; without a terminal, the same."""
    text = " ".join(said) or ("" if on_terminal() else sys.stdin.read().strip())

    async def work(session: CompanionSession) -> Any:
        agent = await session.find(name)
        talk = _Talk(session, agent)
        await talk.require_running()
        if text:
            return await talk.turn(text)
        if not on_terminal():
            raise click.UsageError("Say something: silas companions chat NAME TEXT.")
        await talk.converse()
        return None

    turn = with_companions(cli, work)
    if turn is not None:
        cli.show(turn, "\n".join(turn_lines(turn)))


class _Talk:
    """One conversation in this terminal."""

    def __init__(self, session: CompanionSession, agent: Mapping[str, Any]) -> None:
        self._session = session
        self._id, self._name = str(agent["id"]), str(agent["display_name"])
        self._questions: list[dict[str, Any]] = []
        self._grown = ""

    async def require_running(self) -> None:
        """Raise `NotRunning` unless somebody is there who answers."""
        arguments = {"agent_id": self._id, "limit": 1}
        await asyncio.to_thread(
            call_server, self._session.core.paths, "/api/companions/conversation", arguments
        )

    async def converse(self) -> None:
        """Say, wait, show, until the owner leaves."""
        click.echo(_WELCOME.format(name=visible(self._name)))
        await self._show_before(_SHOWN)
        while True:
            try:
                text = (await asyncio.to_thread(input, "> ")).strip()
            except (EOFError, KeyboardInterrupt):
                click.echo("")
                return
            if text == "/end":
                await self._session.ask("end_conversation", agent_id=self._id)
                click.echo("The conversation has ended; what was said is remembered.")
                return
            if text:
                await self._take(text)

    async def _take(self, text: str) -> None:
        if text == "/help":
            click.echo(_HELP)
        elif text == "/more":
            await self._show_before(_SHOWN * 5)
        else:
            turn = await self.turn(self._chosen(text), grows=True)
            lines = list(turn_lines(turn))
            if self._grown and lines and lines[0] == visible(self._grown):
                lines = lines[1:]
            click.echo("\n".join(lines) or "(It said nothing.)")

    def _chosen(self, text: str) -> str:
        """The choice of this number, if the last question has choices."""
        options = self._questions[-1]["options"] if self._questions else []
        number = int(text) if text.isdecimal() else 0
        return str(options[number - 1]) if 0 < number <= len(options) else text

    async def turn(self, text: str, *, grows: bool = False) -> dict[str, Any]:
        """Say something; the turn when it is over."""
        woken = await self._session.ask("say", agent_id=self._id, said=text)
        self._grown = ""
        hearing = asyncio.create_task(self._hear(woken["run_key"])) if grows else None
        try:
            async with asyncio.timeout(_LONGEST_WAIT_SECONDS):
                found = await self._ended(woken["run_key"])
        except TimeoutError:
            found = {"text": _STILL.format(name=self._name), "did": [], "questions": []}
        finally:
            if hearing is not None:
                hearing.cancel()
                await asyncio.gather(hearing, return_exceptions=True)
            if self._grown:
                click.echo("")
        self._questions = [each for each in found["questions"] if each["open"]]
        return found

    async def _ended(self, run_key: str) -> dict[str, Any]:
        while True:
            shown = await self._session.ask("conversation", agent_id=self._id, limit=_SHOWN)
            found = [each for each in shown["turns"] if each["run_key"] == run_key]
            if found and found[0]["status"] not in _OVER:
                return dict(found[0])
            await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)

    async def _hear(self, run_key: str) -> None:
        """Show the answer while it grows; nothing relies on it."""

        def grow(event: Mapping[str, Any]) -> None:
            if event.get("companion") != self._id or event.get("run_key") != run_key:
                return
            text = str(event["text"])
            if text.startswith(self._grown):
                click.echo(visible(text[len(self._grown) :]), nl=False)
                self._grown = text

        with contextlib.suppress(NotRunning):
            await follow_events(self._session.core.paths, grow)

    async def _show_before(self, count: int) -> None:
        shown = await self._session.ask("conversation", agent_id=self._id, limit=count)
        zone = self._session.zone
        for turn in shown["turns"]:
            click.echo(f"{when(turn['at'], zone)}")
            if turn["said"]:
                click.echo(f"You: {visible(turn['said'])}")
            for line in turn_lines(turn):
                click.echo(f"{visible(self._name)}: {line}")
        self._questions = [
            question
            for turn in shown["turns"]
            for question in turn["questions"]
            if question["open"]
        ]


def turn_lines(turn: Mapping[str, Any]) -> list[str]:
    """What a companion said and did in a turn."""
    lines = [visible(turn["text"])] if turn["text"] else []
    if turn.get("forgotten"):
        lines.append("(What it said here is forgotten.)")
    for each in turn["did"]:
        changes = f": {visible('; '.join(each['changes']))}" if each["changes"] else ""
        if each["writes"]:
            lines.append(f"  {visible(each['what'])} ({visible(each['outcome'])}){changes}")
    for each in turn["questions"]:
        answer = f"  (you said {visible(each['answer'])})" if each["answer"] else ""
        lines.append(f"? {visible(each['prompt_text'])}{answer}")
        if each["open"]:
            lines += [
                f"    {number}  {visible(option)}"
                for number, option in enumerate(each["options"], start=1)
            ]
    if turn.get("problem"):
        lines.append(f"! {visible(turn['problem'])} [{turn['error_code']}]")
    return lines
