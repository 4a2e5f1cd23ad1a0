"""`silas agents`: what changes something."""

import math
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import click

from silas.cli.agents_desk import Desk, with_desk
from silas.cli.agents_looking import NAME
from silas.cli.agents_telling import companion_line, switch_line
from silas.cli.commands import JsonCommand
from silas.cli.context import CliContext, pass_cli
from silas.cli.journal_bench import with_journal
from silas.cli.terminal import confirm
from silas.companions.tools.models import ToolClass
from silas.kernel import visible

_CATEGORIES = click.option(
    "-c", "--category", "categories", multiple=True, metavar="NAME", help="What it may see."
)

_LIMITS = {
    "tokens": ("tokens", 1),
    "usd": ("cost_micro_usd", 1_000_000),
    "minutes": ("runtime_ms", 60_000),
    "calls": ("tool_calls", 1),
}
"""The options of a budget: what they limit, and in which unit that is counted."""


class Money(click.FloatRange):
    """An amount; what is no number at all (`nan`) is none."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The amount."""
        amount = float(super().convert(value, param, ctx))
        if math.isnan(amount):
            self.fail(f"{value!r} is no amount.", param, ctx)
        return amount


@click.command(cls=JsonCommand)
@click.argument("kind", required=False)
@_CATEGORIES
@click.option("--name", "display_name", help="What you call it.")
@click.option("--model", "model_id", help="One of your models; without it, fixed rules decide.")
@click.option(
    "--file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A kind of your own, in one YAML file.",
)
@pass_cli
def new(cli: CliContext, /, kind: str | None, file: Path | None, **said: Any) -> None:
    """Make a companion of a kind (`silas agents kinds`), or of the kind in a file.

    It sees the categories that you name, and no others. One that is not there yet is made.
    """
    if kind is None and file is None:
        raise click.UsageError("Name a kind (see `silas agents kinds`), or give --file.")
    category_ids = _category_ids(cli, said["categories"], make=True)
    found = with_desk(
        cli,
        lambda desk: desk.ask(
            "new",
            kind=kind or "",
            category_ids=category_ids,
            display_name=said["display_name"],
            model_id=said["model_id"],
            file=None if file is None else str(file.resolve()),
        ),
    )
    text = companion_line(found)
    if found["needs_consent"]:
        text += f"\nBefore its model is asked: silas agents consent {visible(found['id'])}"
    cli.show(found, text)


@click.command(cls=JsonCommand)
@NAME
@_CATEGORIES
@click.option("--name", "display_name", help="What you call it.")
@click.option("--model", "model_id", help="One of your models.")
@click.option("--no-model", "offline", is_flag=True, help="Let fixed rules decide from now on.")
@click.option(
    "--confirm-from",
    type=click.Choice(["low", "medium", "high"]),
    help="From which risk on you are asked.",
)
@click.option("--tokens", type=click.IntRange(min=0), help="What it may use in a day.")
@click.option("--usd", type=Money(0, 1_000_000), help="The same, in money.")
@click.option("--minutes", type=click.IntRange(min=0), help="The same, in time.")
@click.option("--calls", type=click.IntRange(min=0), help="The same, in calls of tools.")
@click.option(
    "--unlimited", type=click.Choice(list(_LIMITS)), multiple=True, help="Without this limit."
)
@pass_cli
def configure(cli: CliContext, /, name: str, categories: tuple[str, ...], **said: Any) -> None:
    """Change its name, what it may see, its model, when it asks you, or its budget."""
    budget: dict[str, int | None] = {
        measure: round(said.pop(option) * unit)
        for option, (measure, unit) in _LIMITS.items()
        if said[option] is not None
    } | {_LIMITS[option][0]: None for option in said.pop("unlimited")}
    changes = {key: value for key, value in said.items() if value and key not in _LIMITS}
    if categories:
        changes["category_ids"] = _category_ids(cli, categories, make=False)
    if not changes and not budget:
        raise click.UsageError("Say what is to be different. See --help.")

    async def work(desk: Desk) -> Any:
        found = await desk.find(name)
        if budget:
            changes["budget"] = budget
        return await desk.ask("configure", agent_id=found["id"], **changes)

    changed = with_desk(cli, work)
    cli.show(changed, companion_line(changed))


@click.command(cls=JsonCommand)
@NAME
@click.option("--say", "said", metavar="TEXT", help="Say something to it.")
@pass_cli
def wake(cli: CliContext, name: str, said: str | None) -> None:
    """Wake it now. What comes of it: silas agents report, runs."""

    async def work(desk: Desk) -> Any:
        return await desk.ask("wake", agent_id=(await desk.find(name))["id"], said=said)

    found = with_desk(cli, work)
    cli.show(
        found,
        f"It wakes: run {found['run_key'][:12]}. If Silas is not running, once it is.\n"
        f"What came of it: silas agents show {visible(name)}",
    )


@click.command(cls=JsonCommand)
@click.argument("question")
@click.argument("said", metavar="ANSWER")
@pass_cli
def answer(cli: CliContext, question: str, said: str) -> None:
    """Answer a question. QUESTION is the end of its id, as `silas agents questions` shows it."""

    async def work(desk: Desk) -> Any:
        asked = [each["id"] for each in await desk.ask("questions")]
        found = [each for each in asked if each == question or each.endswith(question)]
        if len(found) != 1:
            raise click.UsageError("Name one question. See `silas agents questions`.")
        return await desk.ask("answer", question_id=found[0], said=said)

    cli.show({"wake": with_desk(cli, work)}, "It has heard your answer.")


@click.command(cls=JsonCommand)
@NAME
@pass_cli
def pause(cli: CliContext, name: str) -> None:
    """Let it rest until you resume it."""
    _one(cli, name, "pause")


@click.command(cls=JsonCommand)
@NAME
@pass_cli
def resume(cli: CliContext, name: str) -> None:
    """Let it go on. What you approved meanwhile is done now."""
    _one(cli, name, "resume")


@click.command(cls=JsonCommand)
@NAME
@pass_cli
def cancel(cli: CliContext, name: str) -> None:
    """Call off what it does just now."""

    async def work(desk: Desk) -> Any:
        return await desk.ask("cancel", agent_id=(await desk.find(name))["id"])

    count = with_desk(cli, work)
    cli.show({"cancelled": count}, f"{count} run(s) called off.")


@click.command(cls=JsonCommand)
@click.argument("name", required=False)
@click.option(
    "--tools", type=click.Choice([each.value for each in ToolClass]), help="Only these tools."
)
@click.option("--reason", help="For yourself, later.")
@pass_cli
def stop(cli: CliContext, name: str | None, tools: str | None, reason: str | None) -> None:
    """Stop all companions at once, or one, or a class of tools, until `silas agents go`."""
    _switched(cli, "stop", name, tools, reason=reason)


@click.command(cls=JsonCommand)
@click.argument("name", required=False)
@click.option("--tools", type=click.Choice([each.value for each in ToolClass]))
@pass_cli
def go(cli: CliContext, name: str | None, tools: str | None) -> None:
    """Release what was stopped: everything, or what you name."""
    if name is None and tools is None:
        _show_switches(cli, lambda desk: desk.ask("resume_all"))
        return
    _switched(cli, "release", name, tools)


@click.command(cls=JsonCommand)
@NAME
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_cli
def destroy(cli: CliContext, name: str, yes: bool) -> None:
    """End a companion for good. What it has said stays readable."""

    async def work(desk: Desk) -> Any:
        found = await desk.find(name)
        confirm(f"End {visible(found['display_name'])} for good?", yes=yes)
        return await desk.ask("destroy", agent_id=found["id"])

    found = with_desk(cli, work)
    cli.show(found, companion_line(found))


def _one(cli: CliContext, name: str, call: str, **arguments: Any) -> None:
    async def work(desk: Desk) -> Any:
        return await desk.ask(call, agent_id=(await desk.find(name))["id"], **arguments)

    found = with_desk(cli, work)
    cli.show(found, companion_line(found))


def _switched(cli: CliContext, call: str, name: str | None, tools: str | None, **more: Any) -> None:
    async def work(desk: Desk) -> Any:
        if tools is not None:
            return await desk.ask(call, scope="tool_class", target=tools, **more)
        if name is not None:
            target = (await desk.find(name))["id"]
            return await desk.ask(call, scope="companion", target=target, **more)
        return await desk.ask(call, scope="global", **more)

    _show_switches(cli, work)


def _show_switches(cli: CliContext, work: Callable[[Desk], Awaitable[Any]]) -> None:
    switches = with_desk(cli, work)
    told = "\n".join(map(switch_line, switches))
    cli.show({"switches": switches}, told or "Nothing is stopped.")


def _category_ids(cli: CliContext, names: tuple[str, ...], *, make: bool) -> list[str]:
    async def work(bench: Any) -> list[str]:
        return [str(await bench.category(each, make=make)) for each in names]

    return with_journal(cli, work)
