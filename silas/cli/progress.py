"""How far long work has got, on a terminal; elsewhere nothing."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from silas.storage.ports import Progress

_WIDTH = 60


@contextmanager
def shown_progress() -> Iterator[Progress]:
    """A function to call with what is being done, how much of it, and out of how much."""
    if not sys.stderr.isatty():
        yield lambda _what, _done, _total: None
        return
    shown = ""

    def show(what: str, done: int, total: int) -> None:
        nonlocal shown
        line = f"{what} {100 * done // max(total, 1):3} %"
        if line != shown:
            shown = line
            click.echo(f"\r{line.ljust(_WIDTH)}", nl=False, err=True)

    try:
        yield show
    finally:
        click.echo(f"\r{' ' * _WIDTH}\r", nl=False, err=True)
