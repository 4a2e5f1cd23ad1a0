"""What every command has at hand: the global options, and one way to print."""

import json
import os
import traceback
from dataclasses import dataclass
from typing import Any

import click

from silas.kernel.errors import SilasError


@dataclass
class CliContext:
    """The global options of this call."""

    data_dir: str | None
    config_file: str | None
    as_json: bool = False

    def show(self, data: Any, text: str | None = None) -> None:
        """Print the result: as JSON if asked for, else as text for people."""
        if self.as_json or text is None:
            click.echo(json.dumps(data, indent=2, ensure_ascii=False, default=str))
        else:
            click.echo(text)

    def say(self, text: str) -> None:
        """Tell people how it goes; scripts that asked for JSON do not hear it."""
        if not self.as_json:
            click.echo(text)


pass_cli = click.make_pass_decorator(CliContext)


def report_error(error: SilasError, *, as_json: bool) -> int:
    """One sentence that says what to do, and the exit code that belongs to it."""
    if as_json:
        click.echo(
            json.dumps({"error": error.explain()}, indent=2, ensure_ascii=False, default=str)
        )
    else:
        click.echo(f"silas: {error.message} [{error.code}]", err=True)
    return error.exit_code


def report_crash(error: Exception, *, as_json: bool) -> int:
    """A defect: no traceback unless it is asked for, and a sentence that says how to get one."""
    if os.environ.get("SILAS_DEBUG"):
        traceback.print_exception(error)
    wrapped = SilasError(
        f"Silas ran into a defect of its own ({type(error).__name__}: {error}). "
        "Run the command again with SILAS_DEBUG=1 and report what it prints."
    )
    return report_error(wrapped, as_json=as_json)
