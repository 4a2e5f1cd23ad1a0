"""`silas sandbox run`: one command, contained, for anyone who wants to try to get out."""

import asyncio
import base64
import codecs
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click

from silas.cli.commands import CliContext, JsonGroup, pass_cli, settings_of
from silas.kernel import visible
from silas.sandbox import Limit, SandboxRequest, SandboxResult
from silas.sandbox.choice import BackendChoice, all_backends
from silas.sandbox.models import MEBIBYTE, TEMPORARY, checked_request

_TIMED_OUT = 124


@click.group(cls=JsonGroup)
def sandbox() -> None:
    """Run commands contained."""


@sandbox.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--backend", metavar="NAME", help="bubblewrap, subprocess or docker.  [sandbox.backend]"
)
@click.option("--image", metavar="IMAGE", help="The image for docker.  [sandbox.base_image]")
@click.option("--read", multiple=True, metavar="PATH", help="Show this path, read-only.")
@click.option("--write", multiple=True, metavar="PATH", help="Show this path, writable.")
@click.option(
    "--host", multiple=True, metavar="NAME", help="Let it reach this host, through a proxy."
)
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="Set an environment variable.")
@click.option("--cwd", metavar="PATH", help="Start here.  [default: the first path, else /tmp]")
@click.option("--timeout", type=float, default=300.0, metavar="SECONDS", help="Stop it after this.")
@click.option("--memory", type=int, default=512, metavar="MB", help="The memory it may use.")
@click.option("--stdin", is_flag=True, help="Give it what comes on standard input.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@pass_cli
def run(
    cli: CliContext,
    /,
    backend: str | None,
    image: str | None,
    command: tuple[str, ...],
    *,
    stdin: bool,
    **wishes: Any,
) -> None:
    """Run COMMAND contained, and end with its exit code.

    It sees the system's programs, an empty /tmp and the paths that you list, and nothing else. The
    exit code is 124 if it was stopped by the clock.
    """
    request = _request(command, _Wishes(**wishes), stdin=sys.stdin.buffer.read() if stdin else b"")
    settings = settings_of(cli).settings.sandbox
    backends = all_backends(image=image or settings.base_image)
    chosen = BackendChoice(backends, backend or settings.backend)
    result = asyncio.run(_run(request, chosen, quiet=cli.as_json))
    if cli.as_json:
        cli.show(_as_data(result))
    for note in _notes(result):
        click.echo(f"silas: {note}", err=True)
    raise click.exceptions.Exit(_TIMED_OUT if result.timed_out else result.exit_code)


@dataclass(frozen=True)
class _Wishes:
    read: tuple[str, ...]
    write: tuple[str, ...]
    host: tuple[str, ...]
    env: tuple[str, ...]
    cwd: str | None
    timeout: float
    memory: int


def _request(command: tuple[str, ...], wishes: _Wishes, *, stdin: bytes) -> SandboxRequest:
    read = tuple(_real(path) for path in wishes.read)
    write = tuple(_real(path) for path in wishes.write)
    places = [path for path in (*write, *read) if Path(path).is_dir()]
    return checked_request(
        argv=command,
        env=dict(_variable(pair) for pair in wishes.env),
        cwd=_real(wishes.cwd) if wishes.cwd else (*places, TEMPORARY)[0],
        read=read,
        write=write,
        network=wishes.host,
        limits={
            "wall_seconds": wishes.timeout,
            "memory_bytes": wishes.memory * MEBIBYTE,
            "cpu_seconds": max(1, round(wishes.timeout)),
        },
        stdin=stdin,
    )


def _variable(pair: str) -> tuple[str, str]:
    name, separator, value = pair.partition("=")
    if not separator:
        raise click.BadParameter(f"{pair!r} is not NAME=VALUE", param_hint="--env")
    return name, value


def _real(path: str) -> str:
    # The sandbox's own /tmp is meant, wherever the host's may lead.
    return path if path == TEMPORARY else str(Path(path).resolve())


async def _run(request: SandboxRequest, chosen: BackendChoice, *, quiet: bool) -> SandboxResult:
    if quiet:
        return await chosen.run(request)
    printer = _Printer()
    running = asyncio.ensure_future(chosen.run(request, on_output=printer.hear))
    printer.running = running
    try:
        result = await running
    except asyncio.CancelledError:
        if printer.broken:
            raise BrokenPipeError from None
        raise
    finally:
        running.cancel()
    printer.end()
    return result


class _Printer:
    """Passes output on: byte for byte to a pipe, but to a terminal nothing that it would obey.

    When nobody reads any more, as in `… | head -1`, the command is ended.
    """

    def __init__(self) -> None:
        self.broken = False
        self.running: asyncio.Future[SandboxResult] | None = None
        make = codecs.getincrementaldecoder("utf-8")
        self._streams = {"stdout": sys.stdout, "stderr": sys.stderr}
        self._decoders = {name: make(errors="backslashreplace") for name in self._streams}

    def hear(self, name: Literal["stdout", "stderr"], data: bytes) -> None:
        try:
            self._print(name, data)
        except BrokenPipeError:
            self.broken = True
            if self.running is not None:
                self.running.cancel()

    def _print(self, name: Literal["stdout", "stderr"], data: bytes) -> None:
        stream = self._streams[name]
        if stream.isatty():
            stream.write(visible(self._decoders[name].decode(data)))
        else:
            stream.buffer.write(data)
        stream.flush()

    def end(self) -> None:
        for name, stream in self._streams.items():
            if stream.isatty():
                stream.write(visible(self._decoders[name].decode(b"", final=True)))
                stream.flush()


def _notes(result: SandboxResult) -> list[str]:
    notes = []
    if result.limit is not None:
        words = "the clock" if result.limit is Limit.WALL_CLOCK else f"its limit: {result.limit}"
        notes.append(f"the command was stopped by {words}.")
    notes += [
        f"{use.host}: reached {use.connections} times, refused {use.refused} times, "
        f"{use.sent} bytes out, {use.received} bytes in."
        for use in result.network
    ]
    return notes


def _as_data(result: SandboxResult) -> dict[str, object]:
    """Text for people and scripts, and the exact bytes beside it."""
    data = result.model_dump(mode="json", exclude={"stdout", "stderr"})
    for name, output in (("stdout", result.stdout), ("stderr", result.stderr)):
        data[name] = output.decode(errors="replace")
        data[f"{name}_base64"] = base64.b64encode(output).decode()
    return {**data, "timed_out": result.timed_out}
