"""`silas memory`: look at what Silas remembers, carry it along, forget it."""

import click

from silas.cli.commands import LazyCommand, LazyGroup

_COMMANDS = {
    "search": LazyCommand("silas.cli.memory_reading:search", "Find memories that fit a question."),
    "show": LazyCommand("silas.cli.memory_reading:show", "Show one memory whole."),
    "list": LazyCommand("silas.cli.memory_reading:list_newest", "Show the newest memories."),
    "stats": LazyCommand("silas.cli.memory_reading:stats", "Say how much is remembered."),
    "reindex": LazyCommand("silas.cli.memory_reading:reindex", "Make the vectors anew."),
    "export": LazyCommand("silas.cli.memory_moving:export", "Write memories to a bundle."),
    "import": LazyCommand("silas.cli.memory_moving:import_", "Take a bundle in."),
    "forget": LazyCommand("silas.cli.memory_moving:forget", "Remove memories for good."),
}


@click.group(cls=LazyGroup, lazy_commands=_COMMANDS)
def memory() -> None:
    """Search what Silas remembers, carry it along, forget it."""
