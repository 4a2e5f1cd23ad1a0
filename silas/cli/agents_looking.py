"""`silas agents`: what only looks."""

import json
from typing import Any
from zoneinfo import ZoneInfo

import click

from silas.cli.agents_desk import Desk, with_desk
from silas.cli.agents_telling import (
    companion_line,
    detail_lines,
    report_lines,
    run_line,
    source_line,
    switch_line,
    trace_lines,
    waiting_line,
)
from silas.cli.commands import JsonCommand
from silas.cli.context import CliContext, pass_cli
from silas.kernel import visible

NAME = click.argument("name")
_NOBODY = "There are no companions yet. Make one: silas agents new planner --category NAME"


@click.command("list", cls=JsonCommand)
@click.option("-a", "--all", "everything", is_flag=True, help="Also those that were destroyed.")
@pass_cli
def list_all(cli: CliContext, everything: bool) -> None:
    """Show your companions, and how they are."""

    async def work(desk: Desk) -> tuple[Any, Any]:
        return await desk.everybody(destroyed=everything), await desk.ask("switches")

    found, switches = with_desk(cli, work)
    lines = [*map(switch_line, switches), *map(companion_line, found)]
    cli.show({"companions": found, "switches": switches}, "\n".join(lines) or _NOBODY)


@click.command(cls=JsonCommand)
@pass_cli
def kinds(cli: CliContext) -> None:
    """Show which companions can be made: those of the house, and the files of your own."""
    found = with_desk(cli, lambda desk: desk.ask("kinds"))
    lines = [
        f"{each['kind']:<14} {visible(each['problem'] or each['summary'])}"
        f"{'' if each['built_in'] else '  (yours)'}"
        for each in found
    ]
    cli.show({"kinds": found}, "\n".join(lines))


@click.command(cls=JsonCommand)
@NAME
@pass_cli
def show(cli: CliContext, name: str) -> None:
    """Show all about one: what it may do, what wakes it, what it waits for."""

    async def work(desk: Desk) -> Any:
        agent_id = (await desk.find(name, destroyed=True))["id"]
        return await desk.ask("show", agent_id=agent_id), desk.zone

    found, zone = with_desk(cli, work)
    cli.show(found, "\n".join(detail_lines(found, zone)))


@click.command(cls=JsonCommand)
@NAME
@click.option("--scope", type=click.Choice(["current", "daily", "weekly", "monthly"]))
@click.option("--why", metavar="CLAIM", help="The sources of one claim: its number, as shown.")
@pass_cli
def report(cli: CliContext, name: str, scope: str | None, why: str | None) -> None:
    """Read what it has to say. Each claim has a number; `--why` shows what it rests on."""

    async def work(desk: Desk) -> tuple[Any, Any, ZoneInfo]:
        agent_id = (await desk.find(name, destroyed=True))["id"]
        told = await desk.ask("report", agent_id=agent_id, **({"scope": scope} if scope else {}))
        if told is None or why is None:
            return told, None, desk.zone
        sources = await desk.ask("why", report_id=told["report"]["id"], claim_id=why)
        return told, sources, desk.zone

    told, sources, zone = with_desk(cli, work)
    if told is None:
        cli.show(
            {"report": None},
            f"It has not written a report yet. Wake it: silas agents wake {visible(name)}",
        )
    elif sources is not None:
        cli.show({"sources": sources}, "\n".join(source_line(each, zone) for each in sources))
    else:
        cli.show(told, "\n".join(report_lines(told)))


@click.command(cls=JsonCommand)
@pass_cli
def questions(cli: CliContext) -> None:
    """Show what companions have asked you."""
    found = with_desk(cli, lambda desk: desk.ask("questions"))
    lines = [
        f"{each['id'][-8:]}  {visible(each['agent_name'])}: {visible(each['prompt_text'])}"
        f"{_options(each['options'])}"
        for each in found
    ]
    cli.show({"questions": found}, "\n".join(lines) or "Nobody has asked you anything.")


@click.command(cls=JsonCommand)
@pass_cli
def waiting(cli: CliContext) -> None:
    """Show what waits for your decision. Decide with `silas review`, or in the page."""
    found = with_desk(cli, lambda desk: desk.ask("waiting"))
    lines = ["\n    ".join([waiting_line(each), *map(visible, each["changes"])]) for each in found]
    if any(each["status"] == "waiting" for each in found):
        lines.append("Decide: silas review list, or in the page.")
    cli.show({"waiting": found}, "\n".join(lines) or "Nothing waits for you.")


@click.command(cls=JsonCommand)
@NAME
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True)
@pass_cli
def runs(cli: CliContext, name: str, limit: int) -> None:
    """Show when it woke, why, and what came of it."""

    async def work(desk: Desk) -> Any:
        agent_id = (await desk.find(name, destroyed=True))["id"]
        return await desk.ask("runs", agent_id=agent_id, limit=limit), desk.zone

    found, zone = with_desk(cli, work)
    lines = [run_line(each, zone) for each in found]
    cli.show({"runs": found}, "\n".join(lines) or "It has not woken yet.")


@click.command(cls=JsonCommand)
@click.argument("run_key", metavar="RUN")
@pass_cli
def trace(cli: CliContext, run_key: str) -> None:
    """Explain one run: why it woke, what it asked, what was allowed, what it cost.

    RUN is the key that `silas agents runs` shows, or its beginning.
    """

    async def work(desk: Desk) -> Any:
        return await desk.ask("trace", run_key=run_key), desk.zone

    found, zone = with_desk(cli, work)
    cli.show(found, "\n".join(trace_lines(found, zone)))


@click.command(cls=JsonCommand)
@click.argument("run_key", metavar="RUN")
@pass_cli
def replay(cli: CliContext, run_key: str) -> None:
    """Go through a run again from its trace. Nothing is done; what differs is told."""

    found = with_desk(cli, lambda desk: desk.ask("replay", run_key=run_key))
    lines = ["It comes out the same." if found["matches"] else "It comes out differently."]
    lines += [
        f"  {visible(each['what'])}\n    then  {visible(_json(each['recorded']))}"
        f"\n    now   {visible(_json(each['replayed']))}"
        for each in found["differences"]
    ]
    cli.show(found, "\n".join(lines))


def _options(options: list[str]) -> str:
    return f"  [{visible(' / '.join(options))}]" if options else ""


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
