"""`silas audit`: read the log, verify it, take it along, archive what is old."""

import click

from silas.cli.commands import LazyCommand, LazyGroup

_COMMANDS = {
    "tail": LazyCommand("silas.cli.audit_tail:tail", "Show what happened last."),
    "verify": LazyCommand("silas.cli.audit_verify:verify", "Say whether the log was changed."),
    "export": LazyCommand("silas.cli.audit_files:export", "Write the log to a verifiable file."),
    "archive": LazyCommand("silas.cli.audit_files:archive", "Move what is old to such a file."),
}


@click.group(cls=LazyGroup, lazy_commands=_COMMANDS)
def audit() -> None:
    """Read and verify the audit log."""
