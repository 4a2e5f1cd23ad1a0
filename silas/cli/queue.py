"""`silas queue`: what is on the bus, what was given up, and what to do about it."""

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any, TypeVar

import click

from silas.app.core import Core
from silas.cli.commands import CliContext, JsonGroup, pass_cli, with_core
from silas.kernel import CanonicalError, strict_loads, visible, visible_json
from silas.queue.inspection import Inspected, QueueInspector, QueueStats
from silas.queue.models import QueueName

T = TypeVar("T")

_ID = click.argument("message_id", metavar="ID")
_LIMIT = click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True)
_STATES = ["ready", "waiting", "leased", "delayed"]


@click.group(cls=JsonGroup)
def queue() -> None:
    """Show what is on the bus, and requeue or drop what was given up."""


@queue.command("list")
@click.option("--queue", "name", type=click.Choice([each.value for each in QueueName]))
@click.option("--state", type=click.Choice(_STATES), help="Only these.")
@_LIMIT
@pass_cli
def list_queue(cli: CliContext, name: str | None, state: str | None, limit: int) -> None:
    """Show messages that wait or are being worked on."""
    chosen = QueueName(name) if name else None
    found = _inspect(
        cli, lambda inspector: inspector.queued(queue=chosen, state=state, limit=limit)
    )
    lines = [_line(each) for each in found]
    cli.show({"messages": [_row(each) for each in found]}, "\n".join(lines) or "Nothing waits.")


@queue.command()
@_LIMIT
@pass_cli
def dead(cli: CliContext, limit: int) -> None:
    """Show messages that were given up, and why."""
    found = _inspect(cli, lambda inspector: inspector.dead(limit=limit))
    lines = [
        f"{_line(each)}\n  {visible(each.reason or '', keep_newlines=False)}" for each in found
    ]
    data = {"dead_letters": [_row(each) for each in found]}
    cli.show(data, "\n".join(lines) or "There are no dead letters.")


@queue.command()
@_ID
@pass_cli
def show(cli: CliContext, message_id: str) -> None:
    """Show one message whole."""
    found = _inspect(cli, lambda inspector: inspector.show(message_id))
    body = _body(found)
    lines = [_line(found)]
    if found.reason:
        lines.append(f"  {visible(found.reason, keep_newlines=False)}")
    lines.append(visible(body) if isinstance(body, str) else visible_json(body))
    cli.show({**_row(found), "body": body}, "\n".join(lines))


@queue.command()
@click.argument("message_id", metavar="ID", required=False)
@click.option("--all", "everything", is_flag=True, help="All dead letters.")
@pass_cli
def requeue(cli: CliContext, message_id: str | None, everything: bool) -> None:
    """Try a dead letter again."""
    if everything == (message_id is not None):
        raise click.UsageError("Give the ID of a dead letter, or --all.")

    async def work(inspector: QueueInspector) -> list[str]:
        names = [message_id] if message_id else [each.message_id for each in await inspector.dead()]
        for name in names:
            await inspector.requeue(name)
        return names

    names = _inspect(cli, work)
    text = "\n".join(f"{visible(name)} is queued again." for name in names)
    cli.show({"requeued": names}, text or "There are no dead letters.")


@queue.command()
@_ID
@pass_cli
def drop(cli: CliContext, message_id: str) -> None:
    """Remove a dead letter, or a message that nobody works on, for good."""
    _inspect(cli, lambda inspector: inspector.drop(message_id))
    cli.show({"dropped": message_id}, f"{visible(message_id)} is gone.")


@queue.command()
@pass_cli
def stats(cli: CliContext) -> None:
    """Show how full the queues are, and how long messages wait and take."""
    found = _inspect(cli, lambda inspector: inspector.stats())
    lines = [_stats_line(each) for each in found]
    cli.show({"queues": [each.as_data() for each in found]}, "\n".join(lines))


def _inspect(cli: CliContext, work: Callable[[QueueInspector], Awaitable[T]]) -> T:
    async def inside(core: Core) -> T:
        record = core.audit.append
        return await work(QueueInspector(core.database, clock=core.clock, record=record))

    return with_core(cli, inside)


def _row(found: Inspected) -> dict[str, Any]:
    row = asdict(found)
    del row["body"]
    message = found.message()
    if message is None:
        return row | {"readable": False}
    return row | {
        "readable": True,
        "kind": message.message_kind.value,
        "sender": message.sender.value,
        "scope_id": message.scope_id,
        "trace_id": message.trace_id,
        "urgency": message.urgency.value,
        "error_code": message.error_code.value if message.error_code else None,
        "retryable": message.retryable,
        "origin_agent": message.origin_agent.value if message.origin_agent else None,
        "attempt_number": message.attempt_number,
    }


def _line(found: Inspected) -> str:
    message = found.message()
    what = f"{message.sender}: {message.message_kind}" if message else "cannot be read"
    if message is not None and message.error_code is not None:
        again = "can be tried again" if message.retryable else "is not tried again"
        by = f"{message.origin_agent}, attempt {message.attempt_number}"
        what += f", {message.error_code} ({by}; {again})"
    when = f" until {found.due_at}" if found.state in ("leased", "delayed") else ""
    who = f" by {visible(found.consumer)}" if found.consumer else ""
    where = visible(f"{found.message_id}  {found.queue}", keep_newlines=False)
    return f"{where}  {found.state}{who}{when}, attempts {found.attempts}  {what}"


def _body(found: Inspected) -> Any:
    """The message as data, or as it is if it is none."""
    try:
        return strict_loads(found.body)
    except CanonicalError:
        return str(found.body)


def _stats_line(each: QueueStats) -> str:
    depth = ", ".join(f"{count} {state}" for state, count in sorted(each.depth.items()))
    done = each.processed
    if done is None:
        return f"{visible(each.queue)}: {depth or 'empty'}"
    return (
        f"{visible(each.queue)}: {depth or 'empty'}; {done.count} done, "
        f"waited {_ms(done.mean_wait)} (at most {_ms(done.longest_wait)}), "
        f"took {_ms(done.mean_lease)} (at most {_ms(done.longest_lease)}), "
        f"{done.redeliveries} given out again, {done.expiries} leases ran out"
    )


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 10 else f"{seconds:.0f} s"
