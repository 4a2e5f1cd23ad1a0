"""`silas audit`: read the log, verify it, take it along, archive what is old.

`tail` stands here, because it answers at once: it reads the database and nothing else. What
examines the log or writes files of it is in `audit_files`, and is loaded when it is used.
"""

import asyncio
import json
from dataclasses import asdict
from datetime import datetime

import click

from silas.app.status import open_audit_log
from silas.audit import AuditEntry
from silas.audit.store import UNREADABLE, matches
from silas.cli.commands import (
    CliContext,
    JsonCommand,
    LazyCommand,
    LazyGroup,
    moment,
    pass_cli,
    paths_of,
)
from silas.kernel import canonical_bytes, visible
from silas.settings.paths import Paths

_SECONDS_BETWEEN_LOOKS = 0.5
_MAX_DATA_CHARS = 160
_ALL_ENTRIES = 2**31
_COMMANDS = {
    "tail": LazyCommand("silas.cli.audit:tail", "Show what happened last."),
    "verify": LazyCommand("silas.cli.audit_files:verify", "Say whether the log was changed."),
    "export": LazyCommand("silas.cli.audit_files:export", "Write the log to a verifiable file."),
    "archive": LazyCommand("silas.cli.audit_files:archive", "Move what is old to such a file."),
}


@click.group(cls=LazyGroup, lazy_commands=_COMMANDS)
def audit() -> None:
    """Read and verify the audit log."""


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
            for entry in await log.tail(_ALL_ENTRIES, after=last):
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
        return f"{'?':20}  entry {entry.seq} cannot be read: run `silas audit verify`"
    at = f"{entry.at[:10]} {entry.at[11:19]}Z"
    data = "  ".join(f"{name}={_value(value)}" for name, value in entry.data.items())
    shown = visible(data, keep_newlines=False)
    if len(shown) > _MAX_DATA_CHARS:
        shown = f"{shown[:_MAX_DATA_CHARS]}…"
    return f"{at}  {visible(entry.event, keep_newlines=False)}  {shown}".rstrip()


def _value(value: object) -> str:
    return value if isinstance(value, str) else canonical_bytes(value).decode()
