"""`silas companions`: what changes something, and what the owner reads before agreeing to it."""

import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from silas.cli.commands import CliContext, JsonCommand, confirm, on_terminal, pass_cli
from silas.cli.companions import (
    NAME,
    CompanionSession,
    companion_line,
    persona_lines,
    switch_line,
    with_companions,
)
from silas.cli.journal_session import with_journal
from silas.companions.tools.registry import ToolClass
from silas.kernel import format_timestamp, visible
from silas.kernel.when import parse_moment

_CATEGORIES = click.option(
    "-c", "--category", "categories", multiple=True, metavar="NAME", help="What it may see."
)

_LIMITS = {
    "tokens": ("tokens", 1),
    "usd": ("cost_micro_usd", 1_000_000),
    "minutes": ("runtime_ms", 60_000),
    "calls": ("tool_calls", 1),
}
"""The options of a budget: what they limit, and in which unit that is counted."""
_READ_FIRST = (
    "Nobody can be asked here. Read it first (`silas companions consent NAME`), then name the "
    "version that you have read: --yes VERSION."
)


class Money(click.FloatRange):
    """An amount; what is no number at all (`nan`) is none."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The amount."""
        amount = float(super().convert(value, param, ctx))
        if math.isnan(amount):
            self.fail(f"{value!r} is no amount.", param, ctx)
        return amount


@click.command(cls=JsonCommand)
@click.argument("kind", required=False)
@_CATEGORIES
@click.option("--name", "display_name", help="What you call it.")
@click.option("--model", "model_id", help="One of your models; without it, fixed rules decide.")
@click.option(
    "--file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A kind of your own, in one YAML file.",
)
@pass_cli
def new(cli: CliContext, /, kind: str | None, file: Path | None, **said: Any) -> None:
    """Make a companion of a kind (`silas companions kinds`), or of the kind in a file.

    It sees the categories that you name, and no others. One that is not there yet is made.
    """
    if kind is None and file is None:
        raise click.UsageError("Name a kind (see `silas companions kinds`), or give --file.")
    category_ids = _category_ids(cli, said["categories"], make=True)
    found = with_companions(
        cli,
        lambda session: session.ask(
            "new" if file is None else "new_from_file",
            kind=kind or "",
            category_ids=category_ids,
            display_name=said["display_name"],
            model_id=said["model_id"],
            **({} if file is None else {"file": file.resolve()}),
        ),
    )
    text = companion_line(found)
    if found["needs_consent"]:
        text += f"\nBefore its model is asked: silas companions consent {visible(found['id'])}"
    cli.show(found, text)


@click.command(cls=JsonCommand)
@NAME
@_CATEGORIES
@click.option("--name", "display_name", help="What you call it.")
@click.option("--model", "model_id", help="One of your models.")
@click.option("--no-model", "offline", is_flag=True, help="Let fixed rules decide from now on.")
@click.option(
    "--confirm-from",
    type=click.Choice(["low", "medium", "high"]),
    help="From which risk on you are asked.",
)
@click.option("--tokens", type=click.IntRange(min=0), help="What it may use in a day.")
@click.option("--usd", type=Money(0, 1_000_000), help="The same, in money.")
@click.option("--minutes", type=click.IntRange(min=0), help="The same, in time.")
@click.option("--calls", type=click.IntRange(min=0), help="The same, in calls of tools.")
@click.option(
    "--unlimited",
    type=click.Choice(list(_LIMITS)),
    multiple=True,
    help="Without this limit.",
)
@pass_cli
def configure(cli: CliContext, /, name: str, categories: tuple[str, ...], **said: Any) -> None:
    """Change its name, what it may see, its model, when it asks you, or its budget."""
    budget: dict[str, int | None] = {
        measure: round(said.pop(option) * unit)
        for option, (measure, unit) in _LIMITS.items()
        if said[option] is not None
    } | {_LIMITS[option][0]: None for option in said.pop("unlimited")}
    changes = {key: value for key, value in said.items() if value and key not in _LIMITS}
    if categories:
        changes["category_ids"] = _category_ids(cli, categories, make=False)
    if not changes and not budget:
        raise click.UsageError("Say what is to be different. See --help.")

    async def work(session: CompanionSession) -> Any:
        found = await session.find(name)
        if budget:
            changes["budget"] = budget
        return await session.ask("configure", agent_id=found["id"], **changes)

    changed = with_companions(cli, work)
    cli.show(changed, companion_line(changed))


@click.command(cls=JsonCommand)
@NAME
@click.option("--say", "said", metavar="TEXT", help="Say something to it.")
@pass_cli
def wake(cli: CliContext, name: str, said: str | None) -> None:
    """Wake it now. What comes of it: silas companions report, runs."""
    _wake(cli, name, said)


@click.command(cls=JsonCommand)
@NAME
@click.argument("said", metavar="TEXT")
@pass_cli
def say(cli: CliContext, name: str, said: str) -> None:
    """Say something to it; it wakes. What it answers: silas companions chat NAME."""
    _wake(cli, name, said)


def _wake(cli: CliContext, name: str, said: str | None) -> None:
    async def work(session: CompanionSession) -> Any:
        return await session.ask("wake", agent_id=(await session.find(name))["id"], said=said)

    found = with_companions(cli, work)
    cli.show(
        found,
        f"It wakes: run {found['run_key'][:12]}. If Silas is not running, once it is.\n"
        f"What it says: silas companions chat {visible(name)}",
    )


@click.command(cls=JsonCommand)
@click.argument("question")
@click.argument("said", metavar="[ANSWER]", required=False)
@click.option("--leave", is_flag=True, help="Leave it unanswered; it rests for a week.")
@pass_cli
def answer(cli: CliContext, question: str, said: str | None, *, leave: bool) -> None:
    """Answer a question. QUESTION is the end of its id: `silas companions questions`."""
    if leave is (said is not None):
        raise click.UsageError("Give an answer, or --leave.")

    async def work(session: CompanionSession) -> Any:
        asked = [each["id"] for each in await session.ask("questions")]
        found = [each for each in asked if each == question or each.endswith(question)]
        if len(found) != 1:
            raise click.UsageError("Name one question. See `silas companions questions`.")
        if leave:
            return await session.ask("leave", question_id=found[0])
        return await session.ask("answer", question_id=found[0], said=said)

    woken = with_companions(cli, work)
    taken = "Left unanswered." if leave else "Taken: what waited for it goes on."
    cli.show({"wake": woken}, "Sent: the companion wakes up." if woken else taken)


@click.command(cls=JsonCommand)
@NAME
@pass_cli
def pause(cli: CliContext, name: str) -> None:
    """Let it rest until you resume it."""
    _one(cli, name, "pause")


@click.command(cls=JsonCommand)
@NAME
@pass_cli
def resume(cli: CliContext, name: str) -> None:
    """Let it go on. What you approved meanwhile is done now."""
    _one(cli, name, "resume")


@click.command(cls=JsonCommand)
@NAME
@pass_cli
def cancel(cli: CliContext, name: str) -> None:
    """Call off what it does just now."""

    async def work(session: CompanionSession) -> Any:
        return await session.ask("cancel", agent_id=(await session.find(name))["id"])

    count = with_companions(cli, work)
    cli.show({"cancelled": count}, f"{count} run(s) called off.")


@click.command(cls=JsonCommand)
@click.argument("name", required=False)
@click.option(
    "--tools",
    type=click.Choice([each.value for each in ToolClass]),
    help="Only these tools.",
)
@click.option("--reason", help="For yourself, later.")
@pass_cli
def stop(cli: CliContext, name: str | None, tools: str | None, reason: str | None) -> None:
    """Stop all companions at once, or one, or a class of tools, until `silas companions go`."""
    _switched(cli, "stop", name, tools, reason=reason)


@click.command(cls=JsonCommand)
@click.argument("name", required=False)
@click.option("--tools", type=click.Choice([each.value for each in ToolClass]))
@pass_cli
def go(cli: CliContext, name: str | None, tools: str | None) -> None:
    """Release what was stopped: everything, or what you name."""
    if name is None and tools is None:
        _show_switches(cli, lambda session: session.ask("resume_all"))
        return
    _switched(cli, "release", name, tools)


@click.command(cls=JsonCommand)
@NAME
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_cli
def destroy(cli: CliContext, name: str, yes: bool) -> None:
    """End a companion for good. What it has said stays readable."""

    async def work(session: CompanionSession) -> Any:
        found = await session.find(name)
        confirm(f"End {visible(found['display_name'])} for good?", yes=yes)
        return await session.ask("destroy", agent_id=found["id"])

    found = with_companions(cli, work)
    cli.show(found, companion_line(found))


def _one(cli: CliContext, name: str, call: str, **arguments: Any) -> None:
    async def work(session: CompanionSession) -> Any:
        return await session.ask(call, agent_id=(await session.find(name))["id"], **arguments)

    found = with_companions(cli, work)
    cli.show(found, companion_line(found))


def _switched(cli: CliContext, call: str, name: str | None, tools: str | None, **more: Any) -> None:
    async def work(session: CompanionSession) -> Any:
        if tools is not None:
            return await session.ask(call, scope="tool_class", target=tools, **more)
        if name is not None:
            target = (await session.find(name))["id"]
            return await session.ask(call, scope="companion", target=target, **more)
        return await session.ask(call, scope="global", **more)

    _show_switches(cli, work)


def _show_switches(cli: CliContext, work: Callable[[CompanionSession], Awaitable[Any]]) -> None:
    switches = with_companions(cli, work)
    text = "\n".join(map(switch_line, switches))
    cli.show({"switches": switches}, text or "Nothing is stopped.")


def _category_ids(cli: CliContext, names: tuple[str, ...], *, make: bool) -> list[str]:
    async def work(session: Any) -> list[str]:
        return [str(await session.category(each, make=make)) for each in names]

    return with_journal(cli, work)


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
    shown = with_companions(
        cli, lambda session: _disclosed(session, name, revoke=revoke, described=described)
    )
    if shown is None:
        cli.show({"disclosure": None}, "It has no model: nothing leaves this machine.")
        return
    if version is None and agree and not shown["confirmed"]:
        version = _read_and_asked(cli, shown)
        shown = with_companions(cli, lambda session: _agreed(session, name, str(version)))
        cli.show(shown, "You have agreed.")
        return
    if version is not None:
        shown = with_companions(cli, lambda session: _agreed(session, name, version))
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

    async def work(session: CompanionSession) -> Any:
        agent_id = (await session.find(name, destroyed=True))["id"]
        versions = await session.ask("persona", agent_id=agent_id)
        if changes := _proposed(versions, said):
            await session.ask("propose_persona", agent_id=agent_id, changes=changes)
        for call in ("approve", "decline"):
            if said[call] is not None:
                version_id = _version(versions, said[call])
                await session.ask(f"{call}_persona", agent_id=agent_id, version_id=version_id)
        return await session.ask("persona", agent_id=agent_id)

    versions = with_companions(cli, work)
    lines = list(persona_lines(versions))
    drafts = [each["version"]["version"] for each in versions if each["waits"]]
    if drafts:
        lines.append(f"Put a proposal into use: --approve {drafts[0]}. Say no: --decline.")
    cli.show({"versions": versions}, "\n".join(lines))


async def _disclosed(
    session: CompanionSession, name: str, *, revoke: bool, described: dict[str, str]
) -> Any:
    agent_id = (await session.find(name))["id"]
    if described:
        await session.ask("describe_provider", agent_id=agent_id, **described)
    if revoke:
        await session.ask("revoke_consent", agent_id=agent_id)
    return await session.ask("disclosure", agent_id=agent_id)


async def _agreed(session: CompanionSession, name: str, version: str) -> Any:
    agent_id = (await session.find(name))["id"]
    return await session.ask("consent", agent_id=agent_id, policy_version=version)


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
    return f"Until you agree it is silent: silas companions consent {visible(name)} --agree"


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


@click.command(cls=JsonCommand)
@NAME
@click.option("--adopt", is_flag=True, help="Give it, and it alone, the newest version.")
@click.option("--back", is_flag=True, help="Give it the version that it had before.")
@pass_cli
def versions(cli: CliContext, name: str, adopt: bool, back: bool) -> None:
    """Show how the versions of its kind do, take the newest, or go back."""
    if adopt and back:
        raise click.UsageError("Take the newest or go back: one at a time.")
    call = "adopt_version" if adopt else "previous_version" if back else "rollout"

    async def work(session: CompanionSession) -> Any:
        return await session.ask(call, agent_id=(await session.find(name))["id"])

    found = with_companions(cli, work)
    lines = [f"{found['kind']}, version {found['version']}"]
    if found["newer"]:
        adds = f" It adds {', '.join(found['adds'])}." if found["adds"] else ""
        lines.append(f"Version {found['newest_version']} is there: --adopt takes it.{adds}")
    if found["worse"]:
        lines.append("It does worse than the version before: --back takes that again.")
    lines += [
        f"{'*' if each['in_use'] else ' '} version {each['version']}: {each['completed']} of "
        f"{each['runs']} runs went through, {each['refused']} of {each['actions']} calls and "
        f"{each['reports_refused']} reports refused, {each['tokens']} tokens"
        for each in found["versions"]
    ]
    cli.show(found, "\n".join(lines))


@click.command(cls=JsonCommand)
@click.argument("name", required=False)
@pass_cli
def health(cli: CliContext, name: str | None) -> None:
    """Show what companions are held to, how it is, and what was odd lately."""

    async def work(session: CompanionSession) -> Any:
        about = {"agent_id": (await session.find(name))["id"]} if name else {}
        return await session.ask("objectives", **about), await session.ask("diagnostics", **about)

    objectives, odd = with_companions(cli, work)
    words = {True: "met", False: "MISSED", None: "not measured"}
    lines = [
        f"{each['name']}: {each['is_now']} ({each['wanted']}), {words[each['met']]}"
        for each in objectives
    ]
    lines += [
        f"{each['created_at']}  {each['kind']}  {visible(each['subject_id'])}" for each in odd
    ]
    cli.show({"objectives": objectives, "diagnostics": odd}, "\n".join(lines))


@click.command(cls=JsonCommand)
@click.option("-c", "--category", metavar="NAME", help="About this category.")
@click.option("--kind", metavar="KIND", help="By companions of this kind.")
@click.option("--only", "models", multiple=True, metavar="MODEL", help="Only this; or PROVIDER:*.")
@click.option("--any", "anything", is_flag=True, help="Every model that you agree to, again.")
@pass_cli
def models(
    cli: CliContext,
    category: str | None,
    kind: str | None,
    models: tuple[str, ...],
    anything: bool,
) -> None:
    """Show or say which models may be asked about a category, or by a kind."""
    if (category is None) == (kind is None) and (models or anything):
        raise click.UsageError("Give --category or --kind, one of them.")
    if bool(models) == anything and (category or kind):
        raise click.UsageError("Say which models (--only), or --any.")
    target = (
        with_journal(cli, lambda journal: journal.category(category, make=False))
        if category
        else kind
    )

    async def work(session: CompanionSession) -> Any:
        if target is None:
            return await session.ask("model_rules"), await session.ask("models")
        scope = "category" if category else "kind"
        rules = await session.ask("set_model_rule", scope=scope, target=target, models=models)
        return rules, await session.ask("models")

    rules, known = with_companions(cli, work)
    lines = [f"{each['model_id']}  {each['address']}" for each in known]
    lines += [
        f"{each['scope']} {visible(each['target'])}: only {', '.join(each['models'])}"
        for each in rules
    ]
    cli.show({"models": known, "rules": rules}, "\n".join(lines) or "No model is configured.")


_NOT_FOUND = "Nothing of it was found."


@click.command(cls=JsonCommand)
@click.argument("name", required=False)
@click.option("-c", "--category", metavar="NAME", help="All that was said about this category.")
@click.option("--since", metavar="TIME", help="What was said from then on: 2026-03-01, yesterday.")
@click.option("--until", metavar="TIME", help="What was said before that.")
@click.option("--word", "words", metavar="TEXT", help="Everything that holds this word.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_cli
def forget(cli: CliContext, /, name: str | None, category: str | None, **said: Any) -> None:
    """Forget a companion, a category, a span of time or a word, for good.

    What is named together has to fit together. A NAME alone forgets that companion whole. What
    would go is shown first; afterwards there is a receipt, which says what stays, too.
    """
    if not any((name, category, said["since"], said["until"], said["words"])):
        raise click.UsageError("Name a companion, or give --category, --since, --until or --word.")
    category_id = (
        with_journal(cli, lambda journal: journal.category(category, make=False))
        if category
        else None
    )

    async def work(session: CompanionSession) -> Any:
        found = await session.find(name, destroyed=True) if name else None
        times = {
            each: format_timestamp(
                parse_moment(
                    said[each], now=session.core.clock.now(), zone=session.zone, prefer="past"
                )
            )
            for each in ("since", "until")
            if said[each]
        }
        wish = {
            "agent_id": found["id"] if found else None,
            "category_id": category_id,
            "words": said["words"],
            **times,
        }
        looked = await session.ask("forget", wish=wish)
        if not looked["removed"] and not looked["redacted"]:
            return None
        if not said["yes"]:
            cli.say("\n".join(_counted(looked)))
        confirm("Forget this for good? Nobody can bring it back.", yes=said["yes"])
        return await session.ask("forget", wish=wish, really=True)

    receipt = with_companions(cli, work)
    cli.show({"receipt": receipt}, "\n".join(_lines(receipt)) if receipt else _NOT_FOUND)


@click.command(cls=JsonCommand)
@pass_cli
def forgotten(cli: CliContext) -> None:
    """Show the receipts of what companions were made to forget."""
    found = with_companions(cli, lambda session: session.ask("forgotten"))
    lines = ["\n".join(_lines(each)) for each in found]
    cli.show({"receipts": found}, "\n\n".join(lines) or "Nothing was forgotten yet.")


def _lines(receipt: Mapping[str, Any]) -> Iterator[str]:
    yield f"Receipt {receipt['id']}, {receipt['created_at']}"
    yield from _counted(receipt)
    yield "What stays:"
    yield from (f"  {visible(each)}" for each in receipt["stays"])


def _counted(receipt: Mapping[str, Any]) -> Iterator[str]:
    done = "Gone" if receipt["done"] else "This would go"
    yield f"{done}: {', '.join(receipt['in_words']) or 'nothing'}"
