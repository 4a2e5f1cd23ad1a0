"""`silas journal`: tasks, checklists, time, days, ratings and notes, quick to type."""

import click

from silas.cli.commands import LazyCommand, LazyGroup

_COMMANDS = {
    "today": LazyCommand("silas.cli.journal_days:today", "Show what today is about."),
    "task": LazyCommand("silas.cli.journal_tasks:task", "Write tasks down, and finish them."),
    "check": LazyCommand("silas.cli.journal_checks:check", "Checklists of tasks."),
    "time": LazyCommand("silas.cli.journal_times:time", "The timer, and where time went."),
    "day": LazyCommand("silas.cli.journal_days:day", "Plan a day."),
    "rate": LazyCommand("silas.cli.journal_records:rate", "Say how something was."),
    "ratings": LazyCommand("silas.cli.journal_records:ratings", "Show ratings."),
    "note": LazyCommand("silas.cli.journal_records:note", "Write something down."),
    "notes": LazyCommand("silas.cli.journal_records:notes", "Show notes."),
    "category": LazyCommand("silas.cli.journal_records:category", "Parts of your life."),
    "link": LazyCommand("silas.cli.journal_records:link", "Say that two records belong together."),
    "search": LazyCommand("silas.cli.journal_records:search", "Find records by their words."),
    "history": LazyCommand("silas.cli.journal_records:history", "Show how a record came about."),
    "delete": LazyCommand("silas.cli.journal_records:delete", "Delete a record."),
    "restore": LazyCommand("silas.cli.journal_records:restore", "Bring a deleted record back."),
    "export": LazyCommand("silas.cli.journal_files:export", "Write the journal to a file."),
    "import": LazyCommand("silas.cli.journal_files:import_", "Take a file in."),
}


@click.group(cls=LazyGroup, lazy_commands=_COMMANDS)
def journal() -> None:
    """Keep tasks, checklists, time, day plans, ratings and notes.

    Records are named by the end of their id or the beginning of their name. If several fit, nothing
    is changed and they are listed.
    """
