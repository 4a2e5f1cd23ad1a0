"""`silas models` and `silas usage`: who plays which role, who answers, and what was used."""

import asyncio
import os
from collections.abc import Mapping
from typing import Any

import click

from silas.agents.models.choices import Role, RoleChoice
from silas.agents.models.detection import FoundServer, detect_servers
from silas.agents.models.words import what_it_cannot
from silas.app.agents import agent_factory, lacks_key, model_choices, model_name, without_reading
from silas.app.client import NotRunning, call_server
from silas.app.core import Core
from silas.cli.commands import (
    CliContext,
    JsonCommand,
    JsonGroup,
    pass_cli,
    paths_of,
    settings_of,
    with_core,
)
from silas.kernel import visible
from silas.stream.usage import (
    MAX_DAYS,
    USUAL_DAYS,
    UsageDay,
    UsageLine,
    UsageReport,
    note_on,
)

_NOBODY = "offline brain"


@click.group(cls=JsonGroup)
def models() -> None:
    """Show and try the models that play the roles."""


@models.command("list")
@pass_cli
def list_models(cli: CliContext) -> None:
    """Show who plays which role. Nothing is sent anywhere."""
    choices = model_choices(settings_of(cli).settings, without_reading)
    data = [_as_data(choice) for choice in choices.values()]
    lines = [_as_line(choice) for choice in choices.values()]
    if all(choice.model is None for choice in choices.values()):
        lines.append("`silas models detect` looks for models on this machine.")
    cli.show({"roles": data}, "\n".join(lines))


@models.command("test")
@click.option(
    "--role",
    "roles",
    multiple=True,
    type=click.Choice([role.value for role in Role]),
    help="Only this role; can be given more than once.",
)
@click.option("--quick", is_flag=True, help="Try only the structured mode that is in use.")
@pass_cli
def test_models(cli: CliContext, roles: tuple[str, ...], quick: bool) -> None:
    """Ask every model a real question, and find out how it can answer.

    Each model gets four short requests: one in plain text, and one in each structured mode. What
    works is remembered. The exit code is that of the first failure.
    """
    wanted = [Role(role) for role in roles] or list(Role)
    cli.say("Asking the models; a small one on this machine may take a minute …")

    async def test(core: Core) -> Any:
        return await agent_factory(core, environ=os.environ).try_roles(wanted, quick=quick)

    tried = with_core(cli, test)
    words = "\n".join(line for each in tried for line in _role_in_words(each))
    cli.show({"roles": [each.model_dump(mode="json") for each in tried]}, words)
    reports = [each.report for each in tried if each.report is not None]
    code = next((report.exit_code for report in reports if report.exit_code), 0)
    if code:
        raise click.exceptions.Exit(code)


@models.command("detect")
@pass_cli
def detect(cli: CliContext) -> None:
    """Look for model servers on this machine. Nothing is switched on."""
    found = asyncio.run(detect_servers())
    data = [{**each.model_dump(mode="json"), "settings": dict(each.settings)} for each in found]
    words = [line for each in found for line in how_to_use(each)]
    cli.show({"servers": data}, "\n".join(words) or "No model server answers on this machine.")


def how_to_use(server: FoundServer) -> list[str]:
    """What was found, and what to write into the configuration to use it."""
    shown = ", ".join(visible(name) for name in server.models[:5])
    more = f" and {len(server.models) - 5} more" if len(server.models) > 5 else ""
    return [
        f"{server.kind} answers at {server.base_url} with {shown}{more}.",
        "To use it, set in the configuration file:",
        *[f"  {key}: {visible(value)}" for key, value in server.settings.items()],
        "and try it with `silas models test`.",
    ]


def _as_data(choice: RoleChoice) -> dict[str, Any]:
    model, fallback = choice.model, choice.fallback
    return {
        "role": choice.role.value,
        "model": model.name if model else None,
        "base_url": model.base_url if model else None,
        "fallback": fallback.name if fallback else None,
        "key_missing": bool(model and lacks_key(model, os.environ)),
        "output_mode": model.output_mode.value if model and model.output_mode else "auto",
    }


def _as_line(choice: RoleChoice) -> str:
    data = _as_data(choice)
    words = [f"{choice.role.value:9} {data['model'] or _NOBODY}"]
    words += [f"at {data['base_url']}"] if data["base_url"] else []
    words += [f"else {data['fallback']}"] if data["fallback"] else []
    words += ["(no key)"] if data["key_missing"] else []
    return " ".join(words)


def _role_in_words(tried: Any) -> list[str]:
    if tried.report is None:
        return [f"{tried.role.value:9} {_NOBODY}; there is nothing to test."]
    report = tried.report
    head = f"{'  or' if tried.is_fallback else tried.role.value:9} {visible(report.model)}"
    if report.error is not None:
        return [f"{head}: failed. {visible(report.error['message'])} [{report.error['code']}]"]
    cost = f"${report.cost_usd:.6f}" if report.cost_known else "cost unknown"
    numbers = f"{report.latency_ms} ms, {report.input_tokens}+{report.output_tokens} tokens, {cost}"
    unfit = what_it_cannot(report) if tried.role is Role.EXECUTOR else ()
    modes = ", ".join(f"{mode} {'no' if why else 'yes'}" for mode, why in report.modes.items())
    best = f"; {report.best_mode} is used" if report.best_mode else "; none can be used"
    return [
        f"{head}: {numbers}",
        f"{'':9} structured answers: {modes}{best}.",
        *(f"{'':9} {each}" for each in unfit),
    ]


@click.command(cls=JsonCommand)
@click.option(
    "--days",
    type=click.IntRange(1, MAX_DAYS),
    default=USUAL_DAYS,
    show_default=True,
    metavar="DAYS",
    help="How many days, today included.",
)
@pass_cli
def usage(cli: CliContext, days: int) -> None:
    """Show what models have used, by day, role and model, and what is left of budgets.

    A price that nobody knows is called unknown. Budgets are those of the running Silas.
    """
    try:
        found = call_server(paths_of(cli), "/api/usage/show", {"days": days})
    except NotRunning:
        found = _usage_on_disk(cli, days)
    cli.show(found, "\n".join(_usage_in_words(found, days)))


def _usage_on_disk(cli: CliContext, days: int) -> dict[str, Any]:
    """What is written down; whoever is not running uses nothing of a budget."""

    async def load(core: Core) -> dict[str, Any]:
        report = await core.usage.report(days=days)
        named = any(model_name(core.settings, role) for role in Role)
        return {
            "note": note_on(report, has_model=named),
            "has_model": named,
            "report": report.model_dump(mode="json"),
            "budgets": [],
            "left_out": 0,
        }

    return with_core(cli, load)


def _usage_in_words(found: Mapping[str, Any], days: int) -> list[str]:
    report = UsageReport.model_validate(found["report"])
    lines = [_day_in_words(each) for each in report.days if each.lines]
    if lines:
        lines = [f"The last {days} days:" if days > 1 else "Today:", *lines, "By what it was for:"]
        lines += [_use_in_words(each) for each in report.lines]
    lines += [found["note"]] if found["note"] else []
    for group in found["budgets"]:
        used = "; ".join(each["words"] for each in group["meters"])
        lines.append(f"{visible(group['name'])}: {used}. {group['anew']}")
    more = found["left_out"]
    return [*lines, f"{more} more budgets are in use."] if more else lines


def _day_in_words(day: UsageDay) -> str:
    return f"  {day.date}  {day.tokens:>11,} tokens  {day.cost}"


def _use_in_words(line: UsageLine) -> str:
    answers = "1 answer" if line.answers == 1 else f"{line.answers:,} answers"
    return (
        f"  {line.does}, {visible(line.model)}: {answers}, {line.input_tokens:,} tokens read, "
        f"{line.output_tokens:,} written, {line.cost}"
    )
