"""`silas persona`: how Silas speaks to you, and what you would change about it."""

from typing import Any

import click

from silas.app.client import call_server
from silas.cli.commands import CliContext, JsonGroup, pass_cli, settings_of
from silas.personality import PersonalityAxis
from silas.personality.feedback import FEEDBACK

_KINDS = [name.removeprefix("feedback_") for name in FEEDBACK]


@click.group(cls=JsonGroup)
def persona() -> None:
    """Show and change how Silas speaks to you. It never changes what is allowed."""


@persona.command()
@pass_cli
def show(cli: CliContext) -> None:
    """Show the manner in force, the presets, and what agents are told about it."""
    now = _call(cli, "state")
    cli.show(
        now,
        f"Preset {now['preset']} (there are: {', '.join(now['presets'])}); "
        f"the last message was {now['context']}.\n"
        f"For example: {now['sample']}\n\n{now['directives']}",
    )


@persona.command()
@click.argument("name")
@pass_cli
def preset(cli: CliContext, name: str) -> None:
    """Take over a named manner, with its voice: NAME is one of personality.presets."""
    now = _call(cli, "preset", {"preset": name})
    cli.show(now, f"From now on: {now['preset']}.")


@persona.command()
@click.argument("kind", type=click.Choice(_KINDS))
@pass_cli
def feedback(cli: CliContext, kind: str) -> None:
    """Say what was wrong with how something was said; saying it in the chat does the same."""
    heard = _call(cli, "feedback", {"type": kind})
    wanted = FEEDBACK[f"feedback_{kind}"].wanted
    cli.show(heard, f"Heard: {wanted}. It holds for what a model writes.")


@persona.command()
@click.argument("axis", type=click.Choice([axis.value for axis in PersonalityAxis]))
@click.argument("step", type=click.FloatRange(-1, 1))
@click.option("--keep", is_flag=True, help="For good; else until Silas is started again.")
@pass_cli
def tune(cli: CliContext, axis: str, step: float, keep: bool) -> None:
    """Move one AXIS by STEP, from -1 to 1: `silas persona tune warmth 0.2`."""
    tuned = _call(cli, "tune", {"delta": {axis: step}, "persist_to_baseline": keep})
    lasts = "for good" if keep else "until Silas is started again"
    cli.show(tuned, f"Tuned {axis}, {lasts}. One step moves an axis by at most 0.2.")


@persona.command()
@pass_cli
def undo(cli: CliContext) -> None:
    """Take back the last thing that you changed, in the chat, the page or here."""
    done = _call(cli, "undo")
    cli.show(done, f"Taken back: {done['undone']}.")


def _call(cli: CliContext, name: str, body: dict[str, Any] | None = None) -> Any:
    return call_server(settings_of(cli).paths, f"/persona/{name}", body)
