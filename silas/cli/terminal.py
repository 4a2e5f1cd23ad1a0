"""Questions to the person at the terminal; where there is none, nothing is asked."""

import sys
from collections.abc import Callable

import click


def on_terminal() -> bool:
    """Whether a person can answer."""
    return sys.stdin.isatty()


def ask_hidden(question: str) -> str:
    """Ask for something that is not shown while it is typed."""
    return str(click.prompt(question, hide_input=True, err=True))


def ask_hidden_twice(question: str) -> str:
    """Ask for something new that is not shown, and again, so that a slip is noticed."""
    return str(click.prompt(question, hide_input=True, confirmation_prompt=True, err=True))


def passphrase_prompt() -> Callable[[str], str] | None:
    """How to ask for the passphrase of an existing vault, if anybody can be asked."""
    return ask_hidden if on_terminal() else None


def new_passphrase_prompt() -> Callable[[str], str] | None:
    """How to ask for a new passphrase, if anybody can be asked."""
    return ask_hidden_twice if on_terminal() else None


def confirm(question: str, *, yes: bool) -> None:
    """Go on only if the person agrees; a script says so with `--yes`."""
    if yes:
        return
    if not on_terminal():
        raise click.UsageError("Nobody can be asked here. Say --yes to go on without a question.")
    click.confirm(question, abort=True, err=True)
