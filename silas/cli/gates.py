"""`silas gates`: which gates are in force, whether they hold, and what they say to a text."""

import asyncio
import json
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import click

from silas.app.core import sandbox_of
from silas.app.gates import gate_providers, gate_runner, sandboxed_commands
from silas.cli.commands import CliContext, JsonGroup, pass_cli, settings_of
from silas.gates import Gate, GateResult, GateTrigger
from silas.gates.errors import GateInputInvalid
from silas.gates.models import strictest
from silas.gates.runner import GateRunner, gate_problems
from silas.kernel import CanonicalError, GateError, SystemClock, strict_loads, visible
from silas.settings.load import LoadedSettings
from silas.testing.fakes import RecordingAudit

_TEXT_OF = {GateTrigger.EVERY_USER_MESSAGE: "message", GateTrigger.EVERY_AGENT_RESPONSE: "response"}
_ON = click.option(
    "--on",
    "trigger",
    type=click.Choice([trigger.value for trigger in _TEXT_OF]),
    default=GateTrigger.EVERY_USER_MESSAGE.value,
    show_default=True,
    help="Which gates look at the text.",
)


@click.group(cls=JsonGroup)
def gates() -> None:
    """Show and try the gates that every text and every tool call has to pass."""


@gates.command("list")
@pass_cli
def show_list(cli: CliContext) -> None:
    """Show the gates in force, in the order in which they look."""
    found = settings_of(cli).settings.gates.system
    data = [{**gate.model_dump(mode="json"), "lane": gate.lane.value} for gate in found]
    lines = [
        f"{gate.name}: {gate.on.value}, {gate.provider.value} {gate.check or gate.type.value}, "
        f"{gate.lane.value}, if it blocks: {gate.on_block}"
        for gate in found
    ]
    cli.show({"gates": data}, "\n".join(map(visible, lines)) or "There are no gates.")


@gates.command()
@pass_cli
def check(cli: CliContext) -> None:
    """Say whether every gate can be used and its examples hold."""
    loaded = settings_of(cli)
    runner = _runner(loaded)
    found = loaded.settings.gates.system
    problems = asyncio.run(gate_problems(found, runner.providers))
    data = [{"gate": each.gate, "problem": each.sentence} for each in problems]
    lines = [f"{each.gate}: {each.sentence}" for each in problems]
    text = "\n".join(map(visible, lines)) or f"All {len(found)} gates can be used."
    cli.show({"valid": not problems, "gates": len(found), "problems": data}, text)
    if problems:
        raise click.exceptions.Exit(GateError.exit_code)


@gates.command()
@click.option("--text", help="The text to look at.")
@click.option("--file", type=click.File("rb"), help="A file with the text; - is standard input.")
@click.option("--tool", help="The name of a tool, as if it were called.")
@click.option("--args", default="{}", help="The arguments of the call, as JSON.  [default: {}]")
@_ON
@pass_cli
def test(
    cli: CliContext,
    *,
    text: str | None,
    file: BinaryIO | None,
    tool: str | None,
    args: str,
    trigger: str,
) -> None:
    """Say what the gates would decide. Nothing is done, and nothing is logged."""
    if [text, file, tool].count(None) != 2:
        raise click.UsageError("Give one of --text, --file and --tool.")
    when = GateTrigger.ON_TOOL_CALL if tool is not None else GateTrigger(trigger)
    if tool is not None:
        context: dict[str, Any] = {"tool_name": tool, "tool_args": _arguments(args)}
    else:
        context = {_TEXT_OF[when]: text if file is None else _decoded(file.read())}
    loaded = settings_of(cli)
    results, merged = asyncio.run(_decide(_runner(loaded), _system(loaded), when, context))
    changed = {key: merged[key] for key in merged if merged[key] != context.get(key)}
    decision = strictest(results).value
    lines = [f"{decision}", *(f"  {_line(each)}" for each in results)]
    lines += [f"  {key} would become: {visible(str(value))}" for key, value in changed.items()]
    cli.show(
        {"decision": decision, "gates": _result_data(results), "changed": changed}, "\n".join(lines)
    )


@gates.command()
@click.argument("file", type=click.File("rb"))
@_ON
@pass_cli
def scan(cli: CliContext, file: BinaryIO, trigger: str) -> None:
    """Decide about every line of FILE (JSON with a field `text`), one decision per line.

    A line that cannot be read is blocked, as it would be anywhere else.
    """
    loaded = settings_of(cli)
    asyncio.run(_scan(cli, _runner(loaded), _system(loaded), GateTrigger(trigger), lines=file))


async def _scan(
    cli: CliContext,
    runner: GateRunner,
    system: list[Gate],
    when: GateTrigger,
    *,
    lines: Iterable[bytes],
) -> None:
    for number, text in _texts(lines):
        if text is None:
            answer: dict[str, Any] = {"decision": "block", "gates": [], "error": "unreadable"}
        else:
            results, _ = await _decide(runner, system, when, {_TEXT_OF[when]: text})
            caught = [each for each in results if each.action.value != "continue"]
            answer = {"decision": strictest(results).value, "gates": _result_data(caught)}
        if cli.as_json:
            click.echo(json.dumps({"line": number, **answer}, ensure_ascii=False))
        else:
            why = "; ".join(f"{each['gate']}: {each['reason']}" for each in answer["gates"])
            click.echo(f"{number}: {answer['decision']} {visible(why)}".rstrip())


def _texts(lines: Iterable[bytes]) -> Iterator[tuple[int, str | None]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        text = record.get("text") if isinstance(record, dict) else None
        yield number, text if isinstance(text, str) else None


async def _decide(
    runner: GateRunner, system: list[Gate], when: GateTrigger, context: dict[str, Any]
) -> tuple[list[GateResult], dict[str, Any]]:
    policy, _, merged = await runner.check_gates(system, when, context)
    return policy, merged


def _runner(loaded: LoadedSettings) -> GateRunner:
    settings, paths = loaded.settings, loaded.paths
    sandbox = sandbox_of(settings, paths, clock=SystemClock())
    commands = sandboxed_commands(settings, paths, sandbox)
    providers = gate_providers(settings, paths, commands=commands)
    # A trial: nothing happened, so nothing is written down.
    return gate_runner(settings, providers, audit=RecordingAudit())


def _system(loaded: LoadedSettings) -> list[Gate]:
    return list(loaded.settings.gates.system)


def _arguments(text: str) -> dict[str, Any]:
    try:
        arguments = strict_loads(text)
    except CanonicalError as error:
        raise GateInputInvalid("--args is not JSON.") from error
    if not isinstance(arguments, dict):
        raise GateInputInvalid("--args is not a JSON object.")
    return arguments


def _decoded(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise GateInputInvalid("The text is not valid UTF-8.") from error


def _result_data(results: list[GateResult]) -> list[dict[str, Any]]:
    return [
        {"gate": each.gate_name, "action": each.action.value, "reason": each.reason}
        for each in results
    ]


def _line(result: GateResult) -> str:
    return visible(f"{result.gate_name}: {result.action.value} {result.reason}".rstrip())
