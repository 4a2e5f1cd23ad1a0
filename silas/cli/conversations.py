"""`silas conversations` and `silas search`: what was said and done, listed, named, found, deleted.

A running Silas is asked, so that open pages hear of a change at once; without one, the same
commands run on the files.
"""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import click

from silas.app.context import open_search
from silas.app.core import Core
from silas.cli.commands import (
    CliContext,
    JsonCommand,
    JsonGroup,
    ask_api,
    confirm,
    pass_cli,
    screen_width,
)
from silas.kernel import quoted, visible
from silas.stream.search import KINDS, MAX_QUERY_CHARS
from silas.web.conversations import CONVERSATION_COMMANDS, ConversationApi

_SENDERS = {"owner": "You", "silas": "Silas", "tool": "A tool"}
_DELETION = """\
Deleting “{title}” removes what was said in it: from the list, from the search, from every
context, and what Silas noted of it while you talked. It keeps what came of it: work and files,
approvals, what you asked Silas to remember, your journal, and the audit log, which gets one
digest of what was said."""


def ask_conversations(cli: CliContext, name: str, /, **given: Any) -> Any:
    """The answer of a command, as JSON; raises `SilasError`, the same either way."""

    def service(core: Core) -> Any:
        return nullcontext(ConversationApi(open_search(core)))

    return ask_api(cli, f"/api/conversations/{name}", CONVERSATION_COMMANDS[name], given, service)


@click.group(cls=JsonGroup)
def conversations() -> None:
    """List, read, rename and delete your conversations.

    NAME is the id of a conversation, its title, or the beginning of its title. `silas chat --new`
    begins one.
    """


@conversations.command(name="list")
@click.option("--all", "every", is_flag=True, help="Also those that were put away.")
@pass_cli
def list_conversations(cli: CliContext, /, *, every: bool) -> None:
    """Show the conversations, the last used first."""
    found = ask_conversations(cli, "list")
    shown = [each for each in found if every or not each["archived"]]
    hidden = len(found) - len(shown)
    lines = [_line(each) for each in shown]
    if hidden:
        lines.append(f"{hidden} put away: `silas conversations list --all` shows them.")
    cli.show({"conversations": shown}, "\n".join(lines) or "There is no conversation yet.")


def _line(each: Mapping[str, Any]) -> str:
    away = "  (put away)" if each["archived"] else ""
    head = f"{each['used_at'][:10]}  {visible(each['title'])}{away}"
    return f"{head}\n            {each['conversation']}"


@conversations.command()
@click.argument("name")
@click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True)
@pass_cli
def show(cli: CliContext, /, name: str, *, limit: int) -> None:
    """Show the last messages of a conversation."""
    found = ask_conversations(cli, "show", name=name, limit=limit)
    messages = [each for each in found["messages"] if each["surface"] != "activity"]
    lines = [
        f"{each['timestamp'][:16].replace('T', ' ')}  {_SENDERS[each['sender']]}:\n"
        f"{quoted(each['text'], width=screen_width())}"
        for each in messages
    ]
    title = visible(found["conversation"]["title"])
    cli.show(found, "\n\n".join([title, *lines]))


@conversations.command()
@click.argument("name")
@click.argument("title")
@pass_cli
def rename(cli: CliContext, /, name: str, title: str) -> None:
    """Give a conversation the TITLE."""
    line = ask_conversations(cli, "rename", name=name, title=title)
    cli.show(line, f"It is called “{visible(line['title'])}” now.")


@conversations.command()
@click.argument("name")
@click.option("--undo", is_flag=True, help="Bring it back into the list.")
@pass_cli
def archive(cli: CliContext, /, name: str, *, undo: bool) -> None:
    """Put a conversation away. It can still be found, and the next message brings it back."""
    line = ask_conversations(cli, "archive", name=name, archived=not undo)
    done = "is in the list again" if undo else "was put away"
    cli.show(line, f"“{visible(line['title'])}” {done}.")


@conversations.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_cli
def delete(cli: CliContext, /, name: str, *, yes: bool) -> None:
    """Remove what was said in a conversation for good."""
    found = ask_conversations(cli, "show", name=name, limit=1)["conversation"]
    cli.say(_DELETION.format(title=visible(found["title"])))
    confirm("Delete it?", yes=yes)
    gone = ask_conversations(cli, "delete", name=found["conversation"])
    cli.show(gone, f"Deleted: {gone['messages']} entries. Digest: {gone['digest']}")


@click.command(cls=JsonCommand)
@click.argument("words", nargs=-1, required=True)
@click.option(
    "--kind",
    "kinds",
    type=click.Choice(KINDS),
    multiple=True,
    help="Only these; can be said several times.",
)
@click.option("--limit", type=click.IntRange(1, 200), default=10, show_default=True)
@pass_cli
def search(
    cli: CliContext, /, words: tuple[str, ...], *, kinds: tuple[str, ...], limit: int
) -> None:
    """Find WORDS in all conversations and all work.

    All words must be there; the last one may be the beginning of a word, and "words in quotes"
    stand side by side. --limit counts for each kind.
    """
    text = " ".join(words)
    if len(text) > MAX_QUERY_CHARS:
        raise click.BadParameter(f"A query has at most {MAX_QUERY_CHARS} characters.")
    found = ask_conversations(cli, "search", words=text, kinds=list(kinds) or None, limit=limit)
    lines = [_hit(each) for each in found["hits"]]
    cli.show(found, "\n\n".join([*lines, *([found["note"]] if found["note"] else [])]))


def _hit(hit: Mapping[str, Any]) -> str:
    """What was found, and how to open it."""
    at, title, text = hit["at"][:10], visible(hit["title"]), visible(hit["snippet"])
    if hit["kind"] == "work":
        head = f"{at}  Work: {title} ({hit['status']})"
        way = f"silas work show {hit['work_item_id']}"
    else:
        said = f"{_SENDERS[hit['sender']]} in " if hit["sender"] else ""
        head, way = f"{at}  {said}“{title}”", f"silas conversations show {hit['conversation']}"
    shown = [text] if text and text != title else []
    return "\n            ".join([head, *shown, way])
