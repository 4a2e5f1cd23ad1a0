"""`silas models`: who plays which role, whether they answer, and what runs on this machine."""

import asyncio
import importlib
import os
from typing import Any

import click

from silas.agents.models.choices import RoleChoice
from silas.agents.models.detection import FoundServer, detect_servers
from silas.agents.models.roles import Role
from silas.app.ground import Ground
from silas.app.model_choices import lacks_key, model_choices, without_reading
from silas.cli.commands import JsonGroup
from silas.cli.context import CliContext, pass_cli
from silas.cli.opening import settings_of, with_ground
from silas.kernel import visible

_TRIAL = "silas.app.model_trial"
"""Loaded by name when it is used: it brings the whole agents' library."""
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
    trial = importlib.import_module(_TRIAL)
    cli.say("Asking the models; a small one on this machine may take a minute …")

    async def test(ground: Ground) -> Any:
        return await trial.try_roles(ground, wanted, environ=os.environ, quick=quick)

    tried = with_ground(cli, test)
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
    modes = ", ".join(f"{mode} {'no' if why else 'yes'}" for mode, why in report.modes.items())
    best = f"; {report.best_mode} is used" if report.best_mode else "; none can be used"
    return [f"{head}: {numbers}", f"{'':9} structured answers: {modes}{best}."]
