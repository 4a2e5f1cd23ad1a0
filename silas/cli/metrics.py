"""`silas metrics`: how deciding goes, from the audit log."""

from datetime import timedelta

import click

from silas.app.ground import Ground
from silas.cli.commands import JsonCommand
from silas.cli.context import CliContext, pass_cli
from silas.cli.opening import with_ground
from silas.stream.metrics import Metric, Signal, ux_metrics

_MOST_ENTRIES = 1_000_000


@click.command(cls=JsonCommand)
@click.option("--days", type=click.IntRange(1, 3650), default=30, show_default=True, metavar="DAYS")
@pass_cli
def metrics(cli: CliContext, days: int) -> None:
    """Show how deciding goes: how fast, how often no, how often undone.

    All of it is computed here, from the audit log of the last DAYS. Nothing is sent anywhere.
    """

    async def load(ground: Ground) -> list[Metric]:
        since = ground.clock.now() - timedelta(days=days)
        return ux_metrics(await ground.audit.tail(_MOST_ENTRIES, since=since), days=days)

    found = with_ground(cli, load)
    data = [metric.model_dump(mode="json") for metric in found]
    cli.show({"days": days, "metrics": data}, "\n".join(map(_line, found)))


def _line(metric: Metric) -> str:
    name = metric.name.replace("_", " ")
    if metric.value is None:
        return f"{name}: nothing to measure yet (good is {metric.target})"
    told = f"{name}: {metric.value:g} {metric.unit} of {metric.samples} (good is {metric.target})"
    if metric.signal is Signal.UNKNOWN:
        return f"{told}: too few to say"
    return told if metric.signal is Signal.GOOD else f"{told}: {metric.means or metric.signal}"
