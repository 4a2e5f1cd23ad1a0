"""How commands are declared: loaded only when used, each with `--json`."""

import gc
import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import click


class LazyCommand(NamedTuple):
    """A command that is imported when it runs; `--help` needs only its summary."""

    target: str
    summary: str

    def load(self) -> click.Command:
        module, _, name = self.target.partition(":")
        gc.disable()  # what is imported stays: looking for garbage among it is time lost
        try:
            command: click.Command = getattr(importlib.import_module(module), name)
        finally:
            gc.enable()
        return command


class JsonCommand(click.Command):
    """A command that also answers in JSON."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.append(
            click.Option(
                ["--json", "as_json"],
                is_flag=True,
                expose_value=False,
                callback=_remember_json,
                help="Answer in JSON.",
            )
        )


def _remember_json(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and context.obj is not None:
        context.obj.as_json = True


class JsonGroup(click.Group):
    """A group whose commands all have `--json`."""

    command_class = JsonCommand


class LazyGroup(JsonGroup):
    """A group that imports a command's module only when that command is used."""

    def __init__(self, *args: Any, lazy_commands: Mapping[str, LazyCommand], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = lazy_commands

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        lazy = self._lazy.get(cmd_name)
        return lazy.load() if lazy else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.summary) for name, lazy in self._lazy.items()])
