"""What commands are made of: how they are declared, what they have at hand, how they answer.

1. A command is loaded only when it is used, and each has `--json`.
2. `CliContext` carries the global options and is the one way to print; an error becomes one
   sentence and its exit code.
3. `paths_of`, `settings_of` and `with_core` get at what a command works on. They import the
   settings and the core when they are called: that takes longer than all that `silas --help`,
   `silas status` and `silas audit tail` do.

Where nobody is at the terminal, nothing is asked and no progress is drawn.
"""

import asyncio
import difflib
import gc
import importlib
import json
import os
import shlex
import shutil
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

import click

from silas.kernel.errors import SilasError, TimeNotUnderstood
from silas.kernel.process import PASSPHRASE_VARIABLE
from silas.kernel.program import as_typed, is_on_path, own_program
from silas.kernel.when import parse_moment
from silas.storage.ports import Progress

_NO_SCREEN = 1_000_000
_PROGRESS_COLUMNS = 60


def on_terminal() -> bool:
    """Whether a person can answer."""
    return sys.stdin.isatty()


def screen_width() -> int:
    """How many columns a line may have; where no terminal wraps lines, as many as it likes."""
    return shutil.get_terminal_size().columns if on_terminal() else _NO_SCREEN


def ask_hidden(question: str) -> str:
    """Ask for something that is not shown while it is typed."""
    return str(click.prompt(question, hide_input=True, err=True))


def ask_hidden_twice(question: str) -> str:
    """Ask for something new that is not shown, and again, so that a slip is noticed."""
    return str(click.prompt(question, hide_input=True, confirmation_prompt=True, err=True))


def passphrase_prompt() -> Callable[[str], str] | None:
    """How to ask for the passphrase of an existing vault, if anybody can be asked."""
    return ask_hidden if on_terminal() else None


def ask_new_passphrase(question: str) -> str:
    """Ask for a new passphrase, twice, until it is long enough: the rule stands in the question."""
    from silas.secrets.key_material import MIN_PASSPHRASE_LENGTH, new_passphrase  # noqa: PLC0415

    def long_enough(typed: str) -> str:
        try:
            new_passphrase(typed)
        except SilasError as error:
            raise click.BadParameter(error.message) from error
        return typed

    asked = f"{question} (at least {MIN_PASSPHRASE_LENGTH} characters)"
    return str(
        click.prompt(
            asked, hide_input=True, confirmation_prompt=True, err=True, value_proc=long_enough
        )
    )


def new_passphrase_prompt() -> Callable[[str], str] | None:
    """How to ask for a new passphrase, if anybody can be asked."""
    return ask_new_passphrase if on_terminal() else None


def confirm(question: str, *, yes: bool) -> None:
    """Go on only if the person agrees; a script says so with `--yes`."""
    if yes:
        return
    if not on_terminal():
        raise click.UsageError("Nobody can be asked here. Say --yes to go on without a question.")
    click.confirm(question, abort=True, err=True)


def how_to_type_silas() -> list[str]:
    """What to tell people who would not get this Silas by typing its name; else nothing."""
    own = own_program()
    if is_on_path() or not own.exists():
        return []
    link = shlex.join(["ln", "-s", str(own), str(Path.home() / ".local" / "bin" / "silas")])
    return [f"Type {own} wherever the documents say `silas`, or put it on your PATH: {link}"]


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
            click.echo(f"\r{line.ljust(_PROGRESS_COLUMNS)}", nl=False, err=True)

    try:
        yield show
    finally:
        click.echo(f"\r{' ' * _PROGRESS_COLUMNS}\r", nl=False, err=True)


def moment(text: str) -> datetime:
    """A point in time: `2026-03-01`, `2026-03-01T08:30` (UTC unless it says so), or `7d` ago."""
    try:
        return parse_moment(text, now=datetime.now(UTC), zone=ZoneInfo("UTC"), prefer="past")
    except (TimeNotUnderstood, OverflowError) as error:
        raise click.BadParameter(
            f"{text!r} is not a time. Write 2026-03-01, 2026-03-01T08:30, or 7d for a week ago."
        ) from error


if TYPE_CHECKING:
    from silas.app.core import Core
    from silas.settings.load import LoadedSettings
    from silas.settings.paths import Paths
    from silas.web.commands import ApiCommand

T = TypeVar("T")


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


class _TypedHelp(click.Command):
    """A command whose help names other commands as they can be typed."""

    def get_help(self, ctx: click.Context) -> str:
        return as_typed(super().get_help(ctx))


class JsonCommand(_TypedHelp):
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


class JsonGroup(_TypedHelp, click.Group):
    """A group whose commands all have `--json`, and which knows what was probably meant."""

    command_class = JsonCommand

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            typed = args[0] if args else ""
            near = difflib.get_close_matches(typed, self.list_commands(ctx), n=1)
            if not near or typed.startswith("-"):
                raise
            meant = " ".join([*ctx.command_path.split(), near[0]])
            raise click.UsageError(
                f"There is no command '{typed}'. Did you mean `{meant}`?", ctx=ctx
            ) from error


class LazyGroup(JsonGroup):
    """A group that imports a command's module only when that command is used."""

    def __init__(
        self,
        *args: Any,
        lazy_commands: Mapping[str, LazyCommand],
        former_names: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        """`former_names`: what commands were called before; they still work, and say so."""
        super().__init__(*args, **kwargs)
        self._lazy = lazy_commands
        self._former = former_names or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._lazy)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        now = self._former.get(args[0]) if args else None
        if now is None:
            return super().resolve_command(ctx, args)
        path = ctx.command_path
        click.echo(f"`{path} {args[0]}` is called `{path} {now}` now.", err=True)
        return super().resolve_command(ctx, [now, *args[1:]])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        lazy = self._lazy.get(cmd_name)
        return lazy.load() if lazy else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.summary) for name, lazy in self._lazy.items()])


@dataclass
class CliContext:
    """The global options of this call."""

    data_dir: str | None
    config_file: str | None
    as_json: bool = False
    passphrase: str | None = field(default=None, repr=False)
    """What opens the vault, if it was given; it is not in the environment any more."""

    @property
    def vault_environ(self) -> Mapping[str, str]:
        """The environment with the passphrase: for the vault alone, and for no program."""
        given = {} if self.passphrase is None else {PASSPHRASE_VARIABLE: self.passphrase}
        return {**os.environ, **given}

    def show(self, data: Any, text: str | None = None) -> None:
        """Print the result: as JSON if asked for, else as text for people."""
        if self.as_json or text is None:
            click.echo(json.dumps(data, indent=2, ensure_ascii=False, default=str))
        else:
            click.echo(as_typed(text))

    def say(self, text: str) -> None:
        """Tell people how it goes; scripts that asked for JSON do not hear it."""
        if not self.as_json:
            click.echo(as_typed(text))


pass_cli = click.make_pass_decorator(CliContext)


def report_error(error: SilasError, *, as_json: bool) -> int:
    """One sentence that says what to do, and the exit code that belongs to it."""
    if as_json:
        click.echo(
            json.dumps({"error": error.explain()}, indent=2, ensure_ascii=False, default=str)
        )
    else:
        click.echo(as_typed(f"silas: {error.message} [{error.code}]"), err=True)
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


def paths_of(cli: CliContext) -> "Paths":
    """The data directory that was named; the configuration is read only if none was."""
    from silas.settings.paths import Paths  # noqa: PLC0415

    if not cli.data_dir:
        return settings_of(cli).paths
    data_dir = Path.cwd() / Path(cli.data_dir).expanduser()
    return Paths(data_dir=data_dir, config_file=data_dir / "silas.yaml")


def settings_of(cli: CliContext, *, to_be_made: bool = False) -> "LoadedSettings":
    """The settings that this call is to use; `to_be_made`: a file that is missing will be made."""
    from silas.settings.load import load_settings  # noqa: PLC0415

    return load_settings(
        data_dir=cli.data_dir,
        config_file=cli.config_file,
        environ=os.environ,
        cwd=Path.cwd(),
        to_be_made=to_be_made,
    )


def core_of(cli: CliContext) -> AbstractAsyncContextManager["Core"]:
    """The core of the data directory that this call is to use."""
    from silas.app.core import open_core  # noqa: PLC0415

    return open_core(settings_of(cli), environ=cli.vault_environ, prompt=passphrase_prompt())


def ask_api(
    cli: CliContext,
    path: str,
    command: "ApiCommand",
    given: Mapping[str, Any],
    service: Callable[["Core"], AbstractAsyncContextManager[object]],
    *,
    timeout: float = 60.0,
    needs_server: bool = False,
    on_files: bool = False,
) -> Any:
    """The answer of a command of the API, as JSON: of the running Silas, or on the files if none
    runs; raises `SilasError`, the same either way.

    `service` opens what the command is done with. `needs_server`: it is not done on the files.
    `on_files`: it is done on them whether Silas runs or not. What is None was not given.
    """
    from pydantic_core import to_jsonable_python  # noqa: PLC0415

    from silas.app.client import NotRunning, call_server  # noqa: PLC0415

    values = to_jsonable_python({key: each for key, each in given.items() if each is not None})
    arguments = command.read(values)
    if not on_files:
        try:
            return call_server(paths_of(cli), path, values, timeout=timeout)
        except NotRunning:
            if needs_server:
                raise

    async def work(core: "Core") -> Any:
        async with service(core) as opened:
            return to_jsonable_python(await command.run(opened, arguments))

    return with_core(cli, work)


def with_core(cli: CliContext, work: Callable[["Core"], Awaitable[T]]) -> T:
    """Open the data directory, do the work, close it."""

    async def inside() -> T:
        async with core_of(cli) as core:
            return await work(core)

    return asyncio.run(inside())
