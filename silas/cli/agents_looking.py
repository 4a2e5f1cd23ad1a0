"""`silas agents`: what only looks."""

import json
from collections.abc import Iterable
from typing import Any

import click

from silas.cli.agents_desk import Desk, with_desk
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
        return await desk.ask("list", with_destroyed=everything), await desk.ask("switches")

    found, switches = with_desk(cli, work)
    lines = [*map(_switch_line, switches), *map(companion_line, found)]
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
        return await desk.ask("show", agent_id=(await desk.find(name, destroyed=True))["id"])

    found = with_desk(cli, work)
    cli.show(found, "\n".join(_detail_lines(found)))


@click.command(cls=JsonCommand)
@NAME
@click.option("--scope", type=click.Choice(["current", "daily", "weekly", "monthly"]))
@click.option("--why", metavar="CLAIM", help="The sources of one claim: its number, as shown.")
@pass_cli
def report(cli: CliContext, name: str, scope: str | None, why: str | None) -> None:
    """Read what it has to say. Each claim has a number; `--why` shows what it rests on."""

    async def work(desk: Desk) -> tuple[Any, Any]:
        agent_id = (await desk.find(name, destroyed=True))["id"]
        told = await desk.ask("report", agent_id=agent_id, **({"scope": scope} if scope else {}))
        if told is None or why is None:
            return told, None
        return told, await desk.ask("why", report_id=told["report"]["id"], claim_id=why)

    told, sources = with_desk(cli, work)
    if told is None:
        cli.show({"report": None}, "It has not written a report yet. Wake it: silas agents wake")
    elif sources is not None:
        text = "\n".join(map(_source_line, sources)) or f"There is no claim {why}."
        cli.show({"sources": sources}, text)
    else:
        cli.show(told, "\n".join(_report_lines(told)))


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
    lines = [
        f"{each['tool_name']}  {visible(each['reason'])}\n    {_json(each['arguments'])}"
        for each in found
    ]
    cli.show({"waiting": found}, "\n".join(lines) or "Nothing waits for you.")


@click.command(cls=JsonCommand)
@NAME
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True)
@pass_cli
def runs(cli: CliContext, name: str, limit: int) -> None:
    """Show when it woke, why, and what came of it."""

    async def work(desk: Desk) -> Any:
        agent_id = (await desk.find(name, destroyed=True))["id"]
        return await desk.ask("runs", agent_id=agent_id, limit=limit)

    found = with_desk(cli, work)
    cli.show({"runs": found}, "\n".join(map(_run_line, found)) or "It has not woken yet.")


@click.command(cls=JsonCommand)
@click.argument("run_key", metavar="RUN")
@pass_cli
def trace(cli: CliContext, run_key: str) -> None:
    """Explain one run: why it woke, what it asked, what was allowed, what it cost.

    RUN is the key that `silas agents runs` shows, or its beginning.
    """

    async def work(desk: Desk) -> Any:
        return await desk.ask("trace", run_key=await full_run_key(desk, run_key))

    found = with_desk(cli, work)
    cli.show(found, "\n".join(_trace_lines(found)))


@click.command(cls=JsonCommand)
@click.argument("run_key", metavar="RUN")
@pass_cli
def replay(cli: CliContext, run_key: str) -> None:
    """Go through a run again from its trace. Nothing is done; what differs is told."""

    async def work(desk: Desk) -> Any:
        return await desk.ask("replay", run_key=await full_run_key(desk, run_key))

    found = with_desk(cli, work)
    lines = ["It comes out the same." if found["matches"] else "It comes out differently."]
    lines += [
        f"  {each['what']}\n    then  {_json(each['recorded'])}"
        f"\n    now   {_json(each['replayed'])}"
        for each in found["differences"]
    ]
    cli.show(found, "\n".join(lines))


async def full_run_key(desk: Desk, text: str) -> str:
    """The run whose key begins like this, of any companion; else the text itself."""
    for each in await desk.ask("list", with_destroyed=True):
        for run in await desk.ask("runs", agent_id=each["id"], limit=1000):
            if run["run_key"].startswith(text):
                return str(run["run_key"])
    return text


def companion_line(each: dict[str, Any]) -> str:
    """One companion in one line."""
    extra = [
        each["health"].replace("_", " "),
        ", ".join(category["name"] for category in each["categories"]),
        each["model_id"] or "no model: fixed rules",
        *(["needs your consent"] if each["needs_consent"] else []),
        *([f"{each['open_questions']} to answer"] if each["open_questions"] else []),
        *([f"{each['waiting_actions']} to decide"] if each["waiting_actions"] else []),
        *(["report is stale"] if each["report_fresh"] is False else []),
    ]
    return f"{visible(each['display_name'])}  {visible(' · '.join(extra))}"


def _detail_lines(found: dict[str, Any]) -> Iterable[str]:
    companion = found["companion"]
    yield companion_line(companion)
    yield visible(found["summary"])
    yield f"  Id        {companion['id']}"
    yield f"  Wakes on  {visible(', '.join(found['wakes_on']))}"
    yield f"  May use   {', '.join(found['tools'])}"
    yield f"  Asks you  from {found['confirm_from']} risk on"
    used, limits = companion["budget"]["used"], companion["budget"]["limits"]
    told = [f"{name} {used.get(name, 0)} of {most}" for name, most in limits.items() if most]
    yield f"  Today     {', '.join(told) or 'no limits'}"
    for each in found["questions"]:
        yield f"  Question  {visible(each['prompt_text'])}"
    for each in found["waiting"]:
        yield f"  Waits     {each['tool_name']}: {visible(each['reason'])}"
    for each in found["runs"][:5]:
        yield f"  Run       {_run_line(each)}"


def _report_lines(told: dict[str, Any]) -> Iterable[str]:
    content = told["report"]["content"]
    yield visible(content["headline"])
    yield told["freshness"]["sentence"]
    for section in content["sections"]:
        if section["claims"]:
            yield f"\n{visible(section['title'])}"
        for claim in section["claims"]:
            guess = " (inferred)" if claim.get("inference_flag") == "inferred" else ""
            yield f"  {claim['id']:<14} {visible(claim['text'])}{guess}"


def _source_line(each: dict[str, Any]) -> str:
    gone = "" if each["exists"] else "  (it is not there any more)"
    how = "inferred from" if each["inferred"] else "from"
    return f"{how} {visible(each['label'])}  [{each['source_locator']}]{gone}"


def _run_line(each: dict[str, Any]) -> str:
    said = f"  {each['error_code']}: {visible(each['error_message'] or '')}"
    problem = said if each["error_code"] else ""
    return (
        f"{each['run_key'][:12]}  {each['queued_at']}  {each['reason']}  {each['status']}{problem}"
    )


def _trace_lines(found: dict[str, Any]) -> Iterable[str]:
    yield f"{found['run_key'][:12]}  woke by {found['reason']}, {found['status']}"
    model = found["model_id"] or "none: fixed rules"
    yield f"  Model     {model}, prompt {found['prompt_version']}"
    yield f"  Persona   {found['persona_version_id']}"
    took = f"{found['latency_ms']} ms, {found['retries']} retries"
    yield f"  Took      {took}, {_json(found['usage'])}"
    for each in found["policy_decisions"]:
        yield f"  Policy    {visible(_json(each))}"
    for each in found["tool_calls"]:
        yield f"  Call      {visible(_json(each))}"
    if found["error_code"]:
        yield f"  Problem   {found['error_code']}: {visible(found['error_message'] or '')}"


def _switch_line(each: dict[str, Any]) -> str:
    target = f" {each['target']}" if each["target"] else ""
    why = f": {visible(each['reason'])}" if each["reason"] else ""
    return f"STOPPED  {each['scope']}{target}{why}. Release it: silas agents go"


def _options(options: list[str]) -> str:
    return f"  [{visible(' / '.join(options))}]" if options else ""


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
