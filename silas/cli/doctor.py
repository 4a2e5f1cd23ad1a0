"""`silas doctor`: what state this machine is in, and the command that mends what is not right."""

import asyncio
import shutil

import click

from silas.app.doctor import DoctorFinding, Status, examine, failed, worst
from silas.cli.commands import CliContext, JsonCommand, pass_cli, passphrase_prompt, settings_of
from silas.kernel import ConfigError, visible

_MARKS = {Status.OK: "ok     ", Status.WARNING: "warning", Status.PROBLEM: "problem"}
_INDENT = " " * 25
_COLOURS = {Status.OK: "green", Status.WARNING: "yellow", Status.PROBLEM: "red"}


@click.command(cls=JsonCommand)
@pass_cli
def doctor(cli: CliContext) -> None:
    """Say what state this machine is in.

    Each line is ok, a warning or a problem, with the command that mends it. The exit code is 1 if
    there is a problem.
    """
    findings = asyncio.run(_examine(cli))
    verdict = worst(findings)
    cli.show(
        {"status": verdict.value, "findings": [finding.model_dump() for finding in findings]},
        _closing_sentence(findings),
    )
    if verdict is Status.PROBLEM:
        raise click.exceptions.Exit(1)


async def _examine(cli: CliContext) -> list[DoctorFinding]:
    try:
        loaded = settings_of(cli)
    except ConfigError as error:
        # Without settings nothing else can be looked at.
        finding = failed("configuration", error)
        cli.say(_line(finding))
        return [finding]
    findings = []
    async for finding in examine(loaded, environ=cli.vault_environ, prompt=passphrase_prompt()):
        findings.append(finding)
        cli.say(_line(finding))
    return findings


def _line(finding: DoctorFinding) -> str:
    mark = click.style(_MARKS[finding.status], fg=_COLOURS[finding.status])
    width = max(60, shutil.get_terminal_size().columns)
    sentence = click.wrap_text(visible(finding.sentence), width, _INDENT, _INDENT).lstrip()
    fix = f"\n{_INDENT}to mend it: {finding.fix}" if finding.fix else ""
    return f"{mark}  {finding.topic.ljust(14)}  {sentence}{fix}"


def _closing_sentence(findings: list[DoctorFinding]) -> str:
    counts = {status: sum(f.status is status for f in findings) for status in Status}
    if counts[Status.PROBLEM]:
        return f"{counts[Status.PROBLEM]} to mend before Silas can work."
    if counts[Status.WARNING]:
        return f"Silas works. {counts[Status.WARNING]} could be better."
    return "Everything is as it should be."
