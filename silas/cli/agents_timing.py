"""`silas agents timers`: when a companion wakes by the clock."""

from collections.abc import Iterable, Mapping
from typing import Any
from zoneinfo import ZoneInfo

import click

from silas.cli.agents_desk import Desk, with_desk
from silas.cli.agents_looking import NAME
from silas.cli.agents_telling import when
from silas.cli.commands import JsonCommand
from silas.cli.context import CliContext, pass_cli
from silas.companions.schedules import read_days
from silas.kernel import visible

_NONE = "No time wakes it. Add one: silas agents timers NAME --at 07:00 --days mon-fri"


@click.command(cls=JsonCommand)
@NAME
@click.argument("number", required=False, type=click.IntRange(min=1))
@click.option("--at", metavar="HH:MM", help="A time of day.")
@click.option("--days", metavar="DAYS", help="On which days: mon,wed or mon-fri. Else every day.")
@click.option("--cron", metavar="EXPRESSION", help="What takes more words: `0 9 1 * *`.")
@click.option("--on/--off", "active", default=None, help="Switch it on or off.")
@click.option("--remove", is_flag=True, help="Take it away.")
@pass_cli
def timers(cli: CliContext, /, name: str, number: int | None, **said: Any) -> None:
    """Show when a companion wakes by the clock, or change that.

    With --at or --cron, a timer is added; with the NUMBER that is shown here, that one is changed.
    """
    wish = _wish(said)
    if number is not None and not wish:
        raise click.UsageError("Say what is to be different about it. See --help.")
    if number is None and wish and not {"at", "cron"} & set(wish):
        raise click.UsageError("Name the NUMBER of the timer, or add one with --at or --cron.")

    async def work(desk: Desk) -> Any:
        agent_id = (await desk.find(name, destroyed=not wish))["id"]
        found = await desk.ask("timers", agent_id=agent_id)
        if wish:
            named = {} if number is None else {"id": _id_of(found, number)}
            found = await desk.ask("set_timers", agent_id=agent_id, timers=[{**named, **wish}])
        return found

    found = with_desk(cli, work)
    cli.show({"timers": found}, "\n".join(_lines(found)) or _NONE)


def _wish(said: Mapping[str, Any]) -> dict[str, Any]:
    if said["remove"] and any(said[name] is not None for name in ("at", "days", "cron", "active")):
        raise click.UsageError("Change it or take it away: one at a time.")
    wish = {name: value for name, value in said.items() if value is not None and value is not False}
    if said["active"] is False:
        wish["active"] = False
    if said["days"] is not None:
        wish["days"] = read_days(said["days"])
    return wish


def _id_of(found: list[dict[str, Any]], number: int) -> str:
    if number > len(found):
        raise click.UsageError(f"There is no timer {number}. Nothing was changed.")
    return str(found[number - 1]["id"])


def _lines(found: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for number, each in enumerate(found, start=1):
        moment, zone = each["next_run_at"], each["time_zone"]
        rings = f"next {when(moment, ZoneInfo(zone))}" if moment else "off"
        yield f"{number:>2}  {visible(each['words'])}  ({rings}, {visible(zone)})"
