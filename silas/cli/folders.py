"""`silas folders`: what Silas may read without a plan; open a place, and close it again.

All of it is asked of the running Silas, so that a place that is closed is closed at once.
"""

from pathlib import Path
from typing import Any

import click

from silas.app.client import call_server
from silas.cli.commands import CliContext, JsonGroup, pass_cli, paths_of
from silas.kernel import visible


@click.group(cls=JsonGroup)
def folders() -> None:
    """Show what Silas may read without a plan, open more of it, and close it again."""


def _ask(cli: CliContext, command: str, **arguments: Any) -> Any:
    return call_server(paths_of(cli), f"/api/folders/{command}", arguments)


@folders.command(name="list")
@pass_cli
def list_places(cli: CliContext, /) -> None:
    """Show what is open, and who sees what Silas reads there."""
    found = _ask(cli, "list")
    lines = [_line(each) for each in found["places"]]
    text = "\n".join([*lines, found["who_sees"]]) if lines else "Nothing is open to Silas."
    cli.show(found, text)


def _line(place: dict[str, Any]) -> str:
    path = visible(place["shown"])
    if place["opened_at"] is None:
        return f"{path}  open by your settings"
    since = f"{place['kind']}, opened {place['opened_at'][:10]}"
    again = "" if place["in_force"] else "  asked again: another model would see it now"
    return f"{path}  {since}{again}"


@folders.command(name="open")
@click.argument("path")
@pass_cli
def open_place(cli: CliContext, /, path: str) -> None:
    """Ask for a folder or a file to be opened. Your signed yes to the card opens it."""
    asked = _ask(cli, "open", path=_whole(path))
    how = f"Nothing is open yet: `silas review answer {asked['card_id']} approve` opens it."
    cli.show(asked, f"{visible(asked['asks'])}\n{how}")


@folders.command(name="close")
@click.argument("path")
@pass_cli
def close_place(cli: CliContext, /, path: str) -> None:
    """Close a folder or a file. Silas reads nothing of it any more, until you open it again."""
    closed = _ask(cli, "close", place=_whole(path))
    cli.show(closed, "\n".join(f"{visible(each['shown'])} is closed." for each in closed))


def _whole(path: str) -> str:
    """What the person means, whose working directory the server does not know."""
    return path if path.startswith("question_") else str(Path.cwd() / Path(path).expanduser())
