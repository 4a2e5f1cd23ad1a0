"""`silas eval`: how good Silas is at what it does, on data that you bring."""

import asyncio
from pathlib import Path

import click

from silas.app.memory import open_index
from silas.cli.commands import JsonGroup
from silas.cli.context import CliContext, pass_cli
from silas.evals.locomo import evaluate, in_words, read_conversations


@click.group("eval", cls=JsonGroup)
def evals() -> None:
    """Measure how good Silas is."""


@evals.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--only", multiple=True, metavar="NAME", help="Only this conversation; repeatable.")
@pass_cli
def locomo(cli: CliContext, file: Path, only: tuple[str, ...]) -> None:
    """Measure how well memories are found again, on a FILE in the format of LoCoMo."""
    try:
        conversations = read_conversations(file, only=only)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise click.BadParameter(f"{file} is not in the format of LoCoMo ({error}).") from error
    if not conversations:
        raise click.BadParameter(f"{file} holds no such conversation.")
    report = asyncio.run(evaluate(conversations, open_index=open_index, tell=cli.say))
    cli.show(report, in_words(report))
