"""`silas skills`: which there are, what each may do; ask for another one, and take it away.

Everything but `check` and `new` goes through the API of the running Silas; without one, on the
files. Nothing is installed here: `silas skills install` puts a card before the owner, whose yes
installs.
"""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from silas.cli.commands import CliContext, JsonGroup, ask_api, pass_cli, settings_of
from silas.kernel import visible
from silas.skills.format import SkillManifest, write_skill
from silas.skills.inspection import SkillInspection, inspect_skill

if TYPE_CHECKING:
    from silas.app.core import Core

_STATES = {"installed": "", "disabled": "disabled"}
_WEIGHTS = {"danger": "DANGER", "warn": "warning", "info": "note"}
_BODY = """# {title}

## When to use

Say when this skill helps, and when it does not.

## What to do

1. Write down the steps for the worker.

## Constraints

- Say what must not be done.
"""


@click.group(cls=JsonGroup)
def skills() -> None:
    """Skills: folders of instructions and scripts. `docs/skills.md` describes them."""


@skills.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@pass_cli
def check(cli: CliContext, directory: Path) -> None:
    """Say what is in the skill in DIR that you should know before you trust it.

    DIR can be any directory. Nothing in it is run. What is found is listed by its weight: `danger`
    is hardly ever found in an honest skill, `warn` deserves a look, `info` is good to know.
    """
    found = inspect_skill(directory)
    cli.show(found.model_dump(mode="json"), _in_words(found))


def _in_words(found: SkillInspection) -> str:
    if not found.findings:
        return "Nothing was found. That is no proof: a skill can do what its sandbox lets it do."
    verdict = "Do not install it" if found.flagged else "Nothing dangerous was found"
    lines = [f"{verdict}. {len(found.findings)} finding(s), the weightiest first:"]
    for each in found.findings:
        place = f"{visible(each.file, keep_newlines=False)}:{each.line}"
        message = visible(each.message, keep_newlines=False)
        lines.append(f"  {each.weight.value:<6}  {place}: {message} ({each.rule})")
    return "\n".join(lines)


def _ask(cli: CliContext, command: str, **given: Any) -> Any:
    """What a command of the API answers, here or in the Silas that is running."""
    # Loaded here: `silas skills check` needs none of it.
    from silas.app.review import open_questions  # noqa: PLC0415
    from silas.app.skills import make_skills  # noqa: PLC0415
    from silas.web.skills import SKILL_COMMANDS  # noqa: PLC0415

    def service(core: "Core") -> Any:
        return nullcontext(make_skills(core, open_questions(core, core.queue)))

    found, path = SKILL_COMMANDS[command], f"/api/skills/{command}"
    return ask_api(cli, path, found, given, service, timeout=300.0)


@skills.command("list")
@click.argument("words", nargs=-1)
@pass_cli
def list_skills(cli: CliContext, words: tuple[str, ...]) -> None:
    """Show all skills, or those whose name or description has these WORDS."""
    found = _ask(cli, "list", query=" ".join(words))
    lines = [_line(each) for each in found["skills"]] or ["No skill is installed."]
    lines += [f"{visible(each['name'])}  {_standing(each)}" for each in found["waiting"]]
    cli.show(found, "\n".join(lines))


def _standing(waiting: dict[str, Any]) -> str:
    """What one that is not installed waits for."""
    # Loaded here: `silas skills check` needs none of it.
    from silas.review.questions import YES  # noqa: PLC0415

    answer, until = waiting["answer"], waiting["follow_until"]
    if answer is None:
        return f"waits for you: `silas review show {waiting['card_id']}`"
    if answer != YES:
        return f"is not installed: its card was closed ({visible(answer)})"
    if until is None:
        return "is approved, but too long ago to be installed: ask for it again"
    return (
        "is approved: Silas tries it out and, if nothing speaks against it, installs it now, or "
        f"when it runs next (`silas start`) before {until[:10]} {until[11:16]} UTC"
    )


def _line(skill: dict[str, Any]) -> str:
    state = _STATES[skill["state"]] if skill["intact"] else "CHANGED, and not used"
    parts = [
        visible(skill["name"]),
        state,
        "comes with Silas" if skill["bundled"] else "",
        f"reaches {', '.join(skill['hosts'])}" if skill["hosts"] else "",
        f"used {skill['last_used_at'][:10]}" if skill["last_used_at"] else "never used",
    ]
    text = visible(skill["description"], keep_newlines=False)
    return f"{'  '.join(filter(None, parts))}\n    {text}"


@skills.command()
@click.argument("name")
@click.option("--file", "path", metavar="PATH", help="One of its files, to the last byte.")
@pass_cli
def show(cli: CliContext, name: str, path: str | None) -> None:
    """Show a skill whole: what it says, what it may do, what was found in it, who uses it."""
    found = _ask(cli, "show", name=name)
    if path is None:
        cli.show(found, _details(found))
        return
    file = _ask(cli, "file", digest=found["skill"]["digest"], path=path)
    text = file["text"]
    size = f"{file['size']} bytes, SHA-256 {file['sha256']}"
    shown = f"It cannot be shown as text: {size}." if text is None else visible(text)
    cli.show(file, shown)


@skills.command()
@click.argument("card_id")
@click.argument("path")
@pass_cli
def read(cli: CliContext, card_id: str, path: str) -> None:
    """Show one file of a skill that waits for you, by the id of its card."""
    waiting = _ask(cli, "list")["waiting"]
    found = next((each for each in waiting if each["card_id"] == card_id), None)
    if found is None:
        raise click.UsageError("No skill waits under this id. `silas skills list` shows what does.")
    file = _ask(cli, "file", digest=found["digest"], path=path)
    text = file["text"]
    size = f"{file['size']} bytes, SHA-256 {file['sha256']}"
    cli.show(file, f"It cannot be shown as text: {size}." if text is None else visible(text))


def _details(found: dict[str, Any]) -> str:
    skill = found["skill"]
    lines = [_line(skill), f"    from {visible(found['source'])}", f"    version {skill['digest']}"]
    if origin := found["origin"]:
        place = f"{visible(origin['path'])} of " if origin["path"] else ""
        lines.append(f"    fetched as {place}the commit {origin['commit']}")
    for tool in found["tools"]:
        where = "inside the sandbox alone" if tool["contained"] else "also outside the sandbox"
        what = f"{tool['action']}, {tool['reversibility']}, {where}"
        lines.append(f"tool {visible(tool['name'])}: {what}")
    lines += [_finding(each) for each in found["findings"]]
    for each in found["trial"]:
        said = "worked" if each["exit_code"] == 0 else f"ended with {each['exit_code']}"
        lines.append(f"tried out: {visible(each['tool'])} {said}")
    lines += [
        f"used by {each['kind']} {visible(each['work_item_id'])} ({each['status']})"
        for each in found["used_by"]
    ]
    lines += [f"file {visible(each['path'])}  {each['size']} bytes" for each in found["files"]]
    return "\n".join([*lines, "", visible(found["text"])])


def _finding(finding: dict[str, Any]) -> str:
    where = f"{visible(finding['file'])}:{finding['line']}"
    return f"{_WEIGHTS[finding['weight']]}  {where}  {visible(finding['message'])}"


def _asked(cli: CliContext, asked: dict[str, Any]) -> None:
    if "url" in asked:
        cli.show(asked, _asked_to_fetch(asked))
        return
    found = f"{asked['findings']} findings" if asked["findings"] else "Nothing was found in it"
    flagged = ", some of them dangerous" if asked["flagged"] else ""
    how = (
        f"Nothing is installed yet. Read it:  silas review show {asked['card_id']}\n"
        f"Then decide:  silas review answer {asked['card_id']} approve"
    )
    cli.show(asked, f"{visible(asked['asks'])} {found}{flagged}.\n{how}")


def _asked_to_fetch(asked: dict[str, Any]) -> str:
    card = asked["card_id"]
    return (
        f"{visible(asked['asks'])} Nothing is fetched yet. Look at it:  silas review show {card}\n"
        f"Then decide:  silas review answer {card} approve\n"
        "What was fetched then waits for you as a skill: `silas skills list` shows it."
    )


def _is_remote(source: str) -> bool:
    # Loaded here: `silas skills check` needs none of it.
    from silas.skills.fetching import is_remote  # noqa: PLC0415

    return is_remote(source)


def _whole(source: str) -> str:
    """What the person means, whose working directory the server does not know."""
    if _is_remote(source):
        return source
    path = Path(source).expanduser()
    return str(Path.cwd() / path) if path.exists() or "/" in source else source


@skills.command()
@click.argument("source")
@pass_cli
def install(cli: CliContext, source: str) -> None:
    """Ask for a skill: SOURCE is its folder or archive, or its name in your directory of skills."""
    _asked(cli, _ask(cli, "install", source=_whole(source)))


@skills.command("import")
@click.argument("source")
@click.option(
    "--format",
    "hint",
    type=click.Choice(["silas", "standard", "claude", "codex", "openclaw", "hermes"]),
    help="Whose format it is, if that is not clear.",
)
@click.option("--commit", metavar="ID", help="Fetch exactly this commit of the repository.")
@click.option("--path", default="", metavar="FOLDER", help="The skill's folder in the repository.")
@click.option("--address", help="Where a host is that is not on the public network.")
@pass_cli
def import_(
    cli: CliContext,
    *,
    source: str,
    hint: str | None,
    commit: str | None,
    path: str,
    address: str | None,
) -> None:
    """Ask for a skill of somebody else's: a folder, an archive, or https://HOST/REPOSITORY.

    From a repository it is fetched after your yes to a card of its own; that needs no account. Then
    it is adapted. The card of the skill says what was changed, and what it asked for and does not
    get.
    """
    if _is_remote(source):
        given = {"commit": commit, "path": path, "address": address, "hint": hint}
        _asked(cli, _ask(cli, "fetch", url=source, **given))
        return
    if commit or path or address:
        raise click.UsageError("--commit, --path and --address are for https://HOST/REPOSITORY.")
    _asked(cli, _ask(cli, "install", source=_whole(source), hint=hint))


@skills.command()
@click.argument("name")
@pass_cli
def update(cli: CliContext, name: str) -> None:
    """Look where a skill came from, and ask for what is there now."""
    _asked(cli, _ask(cli, "update", name=name))


@skills.command()
@click.argument("name")
@pass_cli
def remove(cli: CliContext, name: str) -> None:
    """Take a skill away, with its files. Plans that name it are not run any more."""
    cli.show(_ask(cli, "remove", name=name), f"{visible(name)} is removed.")


@skills.command()
@click.argument("name")
@pass_cli
def disable(cli: CliContext, name: str) -> None:
    """Keep a skill, and let nothing use it."""
    cli.show(_ask(cli, "disable", name=name), f"{visible(name)} is disabled.")


@skills.command()
@click.argument("name")
@pass_cli
def enable(cli: CliContext, name: str) -> None:
    """Let a disabled skill be used again."""
    cli.show(_ask(cli, "enable", name=name), f"{visible(name)} is enabled.")


@skills.command()
@click.argument("name")
@pass_cli
def rollback(cli: CliContext, name: str) -> None:
    """Go back to the version before. Goals that use the skill ask you again."""
    back = _ask(cli, "rollback", name=name)
    cli.show(back, f"{visible(name)} is back at version {back['digest']}.")


@skills.command()
@click.argument("name")
@click.option("--description", help="When to use it, in a sentence or two.")
@click.option("--from", "work", metavar="ID", help="Draft it from this work, done and checked.")
@pass_cli
def new(cli: CliContext, name: str, description: str | None, work: str | None) -> None:
    """Write the beginnings of a skill into your directory of skills.

    With --from, it is drafted from work that was done and checked, with what was really run and the
    work's own checks, and put before you at once. `silas work list` shows the ids.
    """
    if work is not None:
        _asked(cli, _ask(cli, "keep", work_item=work, name=name))
        return
    if description is None:
        raise click.UsageError("Say when to use it: --description; or name work: --from.")
    directory = settings_of(cli).settings.skills_dir
    directory.mkdir(parents=True, exist_ok=True)
    body = _BODY.format(title=name.replace("-", " ").capitalize())
    manifest = SkillManifest.model_validate({"name": name, "description": description})
    made = write_skill(directory / name, manifest, body=body)
    then = f"Write down what it does, then:  silas skills install {name}"
    where = str(directory / name)
    cli.show({"name": made.name, "path": where, "digest": made.digest}, f"{where}\n{then}")
