"""`silas audit tail`: what happened last, and what happens now."""

import asyncio
import json
from dataclasses import asdict
from datetime import datetime

import click

from silas.app.audit_reader import open_audit_log
from silas.app.paths import Paths
from silas.audit import AuditEntry
from silas.audit.reading import UNREADABLE, matches
from silas.cli.commands import JsonCommand
from silas.cli.context import CliContext, pass_cli
from silas.cli.located import paths_of
from silas.cli.moments import moment
from silas.kernel import canonical_bytes, visible

_SECONDS_BETWEEN_LOOKS = 0.5
_WIDEST_DATA = 160
_ALL = 2**31


@click.command(cls=JsonCommand)
@click.option("-n", "--lines", "count", type=click.IntRange(0), default=20, show_default=True)
@click.option("--event", "pattern", default="*", help="Only events like this, e.g. 'approval_*'.")
@click.option(
    "--since", type=moment, metavar="TIME", help="Only since then, e.g. 2026-03-01 (UTC) or 7d."
)
@click.option("--follow", "-f", is_flag=True, help="Go on as new entries come; end with Ctrl-C.")
@pass_cli
def tail(cli: CliContext, count: int, pattern: str, since: datetime | None, follow: bool) -> None:
    """Show what happened last. With --json: one JSON object on each line."""
    asyncio.run(_tail(paths_of(cli), cli, count, pattern=pattern, since=since, follow=follow))


async def _tail(
    paths: Paths,
    cli: CliContext,
    count: int,
    *,
    pattern: str,
    since: datetime | None,
    follow: bool,
) -> None:
    async with open_audit_log(paths) as log:
        newest = await log.tail(1)
        last = newest[-1].seq if newest else 0
        for entry in await log.tail(count, event=pattern, since=since):
            if entry.seq <= last:
                _show(entry, as_json=cli.as_json)
        while follow:
            for entry in await log.tail(_ALL, after=last):
                last = entry.seq
                if matches(entry, event=pattern, since=since):
                    _show(entry, as_json=cli.as_json)
            await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)


def _show(entry: AuditEntry, *, as_json: bool) -> None:
    click.echo(_as_json(entry) if as_json else _line(entry))


def _as_json(entry: AuditEntry) -> str:
    return json.dumps(asdict(entry), ensure_ascii=True)


def _line(entry: AuditEntry) -> str:
    if entry.event == UNREADABLE:
        return f"{'?':20}  entry {entry.seq} cannot be read: run `silas audit verify --full`"
    at = f"{entry.at[:10]} {entry.at[11:19]}Z"
    data = "  ".join(f"{name}={_value(value)}" for name, value in entry.data.items())
    shown = visible(data, keep_newlines=False)
    if len(shown) > _WIDEST_DATA:
        shown = f"{shown[:_WIDEST_DATA]}…"
    return f"{at}  {visible(entry.event, keep_newlines=False)}  {shown}".rstrip()


def _value(value: object) -> str:
    return value if isinstance(value, str) else canonical_bytes(value).decode()
