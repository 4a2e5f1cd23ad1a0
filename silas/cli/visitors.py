"""`silas visitors`: let others talk to Silas, see what they say, answer them, and end it.

All of it is asked of the running Silas, so that a link that is revoked ends at once.
"""

import re
from typing import Any

import click

from silas.app.client import call_server
from silas.cli.commands import CliContext, JsonGroup, pass_cli, paths_of
from silas.kernel import visible

_DAYS = re.compile(r"(?P<days>[1-9][0-9]{0,3})d")


class Days(click.ParamType[int]):
    """A time in days, such as `30d`."""

    name = "days"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number of days."""
        found = _DAYS.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!a} is no number of days, such as 30d.", param, ctx)
        return int(found["days"])


@click.group(cls=JsonGroup)
def visitors() -> None:
    """Let others talk to Silas with a link, and see what they say."""


def _ask(cli: CliContext, command: str, **arguments: Any) -> Any:
    given = {name: value for name, value in arguments.items() if value is not None}
    return call_server(paths_of(cli), f"/api/visitors/{command}", given)


@visitors.command()
@click.option("--goal", help="The goal that they come for, if several take visitors.")
@click.option("--name", default="Visitors", show_default=True, help="What the link is for.")
@click.option("--customer", help="The one person whom you give it to, by the customer's id.")
@click.option("--expires", "days", type=Days(), help="When it ends, such as 30d.")
@click.option("--messages-per-minute", type=click.IntRange(1, 600), help="Of one visitor.")
@click.option("--messages-per-day", type=click.IntRange(1), help="Of all visitors of the link.")
@click.option("--tokens-per-day", type=click.IntRange(1), help="Of all visitors of the link.")
@click.option("--connections", type=click.IntRange(1, 1000), help="That are there at once.")
@pass_cli
def invite(cli: CliContext, /, **said: Any) -> None:
    """Make a link. It is shown once: only a hash of it is kept."""
    made = _ask(cli, "invite", **said)
    cli.show(made, f"{made['link']}\nTo end it: silas visitors revoke {made['link_id']}")


@visitors.command(name="list")
@pass_cli
def list_links(cli: CliContext, /) -> None:
    """Show the links, and what came over them today."""
    links = _ask(cli, "list")
    lines = [
        f"{each['link_id']}  {visible(each['name'])}  goal {visible(each['goal_id'])}  "
        f"{_state(each)}  today: {each['used_today']['messages']} messages, "
        f"{each['used_today']['tokens']} tokens"
        for each in links
    ]
    cli.show(links, "\n".join(lines) or "There are no links.")


def _state(link: dict[str, Any]) -> str:
    if link["revoked_at"]:
        return "revoked"
    if not link["good"]:
        return "expired"
    return f"until {link['expires_at'][:10]}" if link["expires_at"] else "open"


@visitors.command()
@click.argument("link_id")
@pass_cli
def revoke(cli: CliContext, /, link_id: str) -> None:
    """End a link, and every conversation that came with it, at once."""
    told = f"{visible(link_id)} opens nothing any more. What waited of it is withdrawn."
    cli.show(_ask(cli, "revoke", link_id=link_id), told)


@visitors.command()
@pass_cli
def conversations(cli: CliContext, /) -> None:
    """Show who was here lately."""
    found = _ask(cli, "conversations")
    lines = [
        f"{each['connection_id']}  {visible(each['link'])}  {each['seen_at'][:16]}"
        f"{'  waits for a person' if each['waits'] else ''}"
        for each in found
    ]
    cli.show(found, "\n".join(lines) or "Nobody was here.")


@visitors.command()
@click.argument("connection_id")
@pass_cli
def show(cli: CliContext, /, connection_id: str) -> None:
    """Show one conversation."""
    lines = _ask(cli, "show", connection_id=connection_id)
    # A line of a visitor's cannot look like one of somebody else's.
    said = [visible(each["text"]).replace("\n", "\n    ") for each in lines]
    text = "\n".join(f"{each['who']}: {words}" for each, words in zip(lines, said, strict=True))
    cli.show(lines, text or "Nothing was said.")


@visitors.command()
@click.argument("name", required=False)
@pass_cli
def queue(cli: CliContext, /, name: str | None) -> None:
    """Show what waits for a person: hand-overs, and the named queues."""
    cases = _ask(cli, "queue", name=name)
    lines = [
        f"{each['case_id']}  {visible(each['queue'] or 'hand-over')}  "
        f"{each['opened_at'][:16]}  {visible(each['gate'])}: {visible(each['reason'])}\n"
        f"    silas visitors show {each['connection_id']}"
        for each in cases
    ]
    cli.show(cases, "\n".join(lines) or "Nobody waits for a person.")


@visitors.command()
@click.argument("to", metavar="CASE|CONVERSATION")
@click.argument("text")
@pass_cli
def reply(cli: CliContext, /, to: str, text: str) -> None:
    """Answer a visitor in person; what waited of that conversation is closed."""
    cli.show(_ask(cli, "reply", to=to, text=text), "Sent.")


@visitors.command()
@click.argument("case_id", metavar="CASE")
@pass_cli
def close(cli: CliContext, /, case_id: str) -> None:
    """Close what waits for a person, without an answer."""
    cli.show(_ask(cli, "close", case_id=case_id), "Closed.")
