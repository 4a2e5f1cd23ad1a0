"""`silas agents consent` and `persona`: what the owner reads before he agrees to it."""

from collections.abc import Iterable, Mapping
from typing import Any

import click

from silas.cli.agents_desk import Desk, with_desk
from silas.cli.agents_looking import NAME
from silas.cli.agents_telling import persona_lines
from silas.cli.commands import JsonCommand
from silas.cli.context import CliContext, pass_cli
from silas.cli.terminal import on_terminal
from silas.kernel import visible

_READ_FIRST = (
    "Nobody can be asked here. Read it first (`silas agents consent NAME`), then name the version "
    "that you have read: --yes VERSION."
)


@click.command(cls=JsonCommand)
@NAME
@click.option("--agree", is_flag=True, help="Agree. It is shown first, then you are asked.")
@click.option(
    "--yes", "version", metavar="VERSION", help="Agree to the version that you have read."
)
@click.option("--revoke", is_flag=True, help="Take the consent back.")
@click.option("--training", metavar="TEXT", help="Write down what its policy says about training.")
@click.option("--retention", metavar="TEXT", help="The same, about how long data is kept.")
@click.option("--jurisdiction", metavar="TEXT", help="The same, about whose law holds.")
@pass_cli
def consent(
    cli: CliContext, /, name: str, agree: bool, version: str | None, revoke: bool, **said: Any
) -> None:
    """Read what its model means for your privacy, and agree or not.

    What you write down about the policy of its provider is shown from then on, and asks again
    whoever has agreed before.
    """
    described = {key: text for key, text in said.items() if text is not None}
    if sum(map(bool, (agree or version, revoke, described))) > 1:
        raise click.UsageError("Write down, agree or take it back: one at a time.")
    shown = with_desk(cli, lambda desk: _disclosed(desk, name, revoke=revoke, described=described))
    if shown is None:
        cli.show({"disclosure": None}, "It has no model: nothing leaves this machine.")
        return
    if version is None and agree and not shown["confirmed"]:
        version = _read_and_asked(cli, shown)
        shown = with_desk(cli, lambda desk: _agreed(desk, name, str(version)))
        cli.show(shown, "You have agreed.")
        return
    if version is not None:
        shown = with_desk(cli, lambda desk: _agreed(desk, name, version))
    cli.show(shown, "\n".join([*_disclosure_lines(shown), _standing(shown, name)]))


@click.command(cls=JsonCommand)
@NAME
@click.option("--voice", metavar="TEXT", help="Propose how it speaks.")
@click.option("--style", metavar="TEXT", help="Propose how it helps you.")
@click.option("--approve", metavar="VERSION", type=int, help="Put a proposal into use.")
@click.option("--decline", metavar="VERSION", type=int, help="Say no to a proposal.")
@pass_cli
def persona(cli: CliContext, /, name: str, **said: Any) -> None:
    """Show how it speaks, version by version, each with what it changes."""
    if sum(each is not None for each in (said["approve"], said["decline"])) > 1:
        raise click.UsageError("Approve or decline: one at a time.")

    async def work(desk: Desk) -> Any:
        agent_id = (await desk.find(name, destroyed=True))["id"]
        versions = await desk.ask("persona", agent_id=agent_id)
        if changes := _proposed(versions, said):
            await desk.ask("propose_persona", agent_id=agent_id, changes=changes)
        for call in ("approve", "decline"):
            if said[call] is not None:
                version_id = _version(versions, said[call])
                await desk.ask(f"{call}_persona", agent_id=agent_id, version_id=version_id)
        return await desk.ask("persona", agent_id=agent_id)

    versions = with_desk(cli, work)
    lines = list(persona_lines(versions))
    drafts = [each["version"]["version"] for each in versions if each["waits"]]
    if drafts:
        lines.append(f"Put a proposal into use: --approve {drafts[0]}. Say no: --decline.")
    cli.show({"versions": versions}, "\n".join(lines))


async def _disclosed(desk: Desk, name: str, *, revoke: bool, described: dict[str, str]) -> Any:
    agent_id = (await desk.find(name))["id"]
    if described:
        await desk.ask("describe_provider", agent_id=agent_id, **described)
    if revoke:
        await desk.ask("revoke_consent", agent_id=agent_id)
    return await desk.ask("disclosure", agent_id=agent_id)


async def _agreed(desk: Desk, name: str, version: str) -> Any:
    agent_id = (await desk.find(name))["id"]
    return await desk.ask("consent", agent_id=agent_id, policy_version=version)


def _read_and_asked(cli: CliContext, shown: Mapping[str, Any]) -> str:
    """The version that was shown just now, and agreed to."""
    if cli.as_json or not on_terminal():
        raise click.UsageError(_READ_FIRST)
    cli.say("\n".join(_disclosure_lines(shown)))
    click.confirm("Do you agree?", abort=True, err=True)
    return str(shown["policy_version"])


def _disclosure_lines(shown: Mapping[str, Any]) -> Iterable[str]:
    yield f"{visible(shown['model_id'])} at {visible(shown['host'] or shown['provider'])}"
    yield visible(shown["disclosure"])
    yield f"  Training      {visible(shown['training'])}"
    yield f"  Retention     {visible(shown['retention'])}"
    yield f"  Jurisdiction  {visible(shown['jurisdiction'])}"
    yield "  It is sent, and nothing else:"
    yield from (f"    {visible(each)}" for each in shown["sent"])
    yield f"  Version       {shown['policy_version']}"


def _standing(shown: Mapping[str, Any], name: str) -> str:
    if shown["confirmed"]:
        return "You have agreed."
    return f"Until you agree it is silent: silas agents consent {visible(name)} --agree"


def _proposed(versions: list[dict[str, Any]], said: Mapping[str, Any]) -> dict[str, Any]:
    used: dict[str, Any] = next((each["version"] for each in versions if each["in_use"]), {})
    changes: dict[str, Any] = {}
    if said["voice"] is not None:
        changes["voice_directives"] = {**used.get("voice_directives", {}), "voice": said["voice"]}
    if said["style"] is not None:
        changes["coaching_style"] = said["style"]
    return changes


def _version(versions: list[dict[str, Any]], number: int) -> str:
    found = [each["version"] for each in versions if each["version"]["version"] == number]
    if not found:
        raise click.UsageError(f"There is no version {number}.")
    return str(found[0]["id"])
