"""`silas companions`: what shows something, the timers, and companions in lines to read.

A command is done by the running server, or on the files where none runs: then nothing runs, and
what is woken waits on the bus until Silas starts.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import click
from pydantic_core import to_jsonable_python

from silas.app.client import NotRunning, call_server
from silas.app.companions import make_companions, open_companion_store
from silas.app.core import Core
from silas.app.journal import open_journal
from silas.app.review import open_questions
from silas.cli.commands import CliContext, JsonCommand, pass_cli, with_core
from silas.companions.errors import CompanionInvalid, CompanionUnknown
from silas.companions.service import CompanionService
from silas.companions.words import CHECKS, spoken_tool
from silas.kernel import visible
from silas.kernel.when import parse_days
from silas.web.companion_commands import COMPANION_COMMANDS

T = TypeVar("T")

NAME = click.argument("name")
_NO_COMPANIONS = (
    "There are no companions yet. Make one: silas companions new planner --category NAME"
)
_NO_TIMERS = "No time wakes it. Add one: silas companions timers NAME --at 07:00 --days mon-fri"
_REASONS = {
    "subscription": "something changed",
    "timer": "its timer",
    "user_initiated": "you spoke to it",
    "recovery_catchup": "catching up",
    "manual": "you woke it",
}
_STATUSES = {
    "queued": "waits",
    "running": "works",
    "completed": "done",
    "failed_terminal": "failed",
    "cancelled": "called off",
}
_PERSONA = {
    "voice_directives": "voice",
    "tone_bounds": "tone",
    "coaching_style": "style",
    "anti_sycophancy_policy": "honesty",
}
_HEALTH = {
    "idle": "ready",
    "sleeping": "asleep",
    "out_of_budget": "budget used up",
    "needs_consent": "needs your consent",
    "held_back": "held back",
}
_COMMANDS = {
    "consent": "silas companions consent {name}",
    "configure": "silas companions configure {name}",
    "release": "silas companions go",
    "resume": "silas companions resume {name}",
    "wake": "silas companions wake {name}",
}
"""What helps, as a command."""
_SUBJECTS = {"model": "asking for a proposal", "offline": "the fixed rules"}
_RESULTS = {
    "confirmation_required": "it waits for your decision",
    "success": "done",
    "partial": "looked at",
    "declined": "you said no",
}
_OFFLINE = "offline:brain"
_WAITS = {"blocked": "for your answer", "waiting": "for your decision", "approved": "to be done"}
_UNITS = {"tokens": " tokens", "cost_micro_usd": "", "runtime_ms": " min", "tool_calls": " calls"}
_RUNS_SHOWN = 5
_BAR = 20


async def ask_companions(core: Core, name: str, given: Mapping[str, Any]) -> Any:
    """The answer of a command, as JSON; raises `SilasError`, the same either way."""
    command, body = COMPANION_COMMANDS[name], to_jsonable_python(given)
    arguments = command.read(body)
    try:
        return await asyncio.to_thread(call_server, core.paths, f"/api/companions/{name}", body)
    except NotRunning:
        async with open_companion_service(core) as service:
            return to_jsonable_python(await command.run(service, arguments))


@contextlib.asynccontextmanager
async def open_companion_service(core: Core) -> AsyncIterator[CompanionService]:
    """The service without a server: nothing runs, and what is woken waits on the bus."""
    async with (
        open_journal(core) as journal,
        open_companion_store(
            core.paths, clock=core.clock, ids=core.ids, host_id=journal.host_id
        ) as store,
    ):
        # Without them, cards would outlive a companion that is ended, or forgotten.
        questions = open_questions(core, core.queue)
        companions = make_companions(core, journal, store, queue=core.queue, questions=questions)
        yield companions.service


@dataclass(frozen=True)
class CompanionSession:
    """Calls about companions: to the running server, or on the files."""

    core: Core

    @property
    def zone(self) -> ZoneInfo:
        """Of the owner's clock."""
        return ZoneInfo(self.core.settings.scheduler.timezone)

    async def ask(self, call: str, /, **arguments: Any) -> Any:
        """The answer of one of its methods, as JSON."""
        return await ask_companions(self.core, call, arguments)

    async def everybody(self, *, destroyed: bool) -> list[dict[str, Any]]:
        """Every companion."""
        found: list[dict[str, Any]] = await self.ask("list", with_destroyed=destroyed)
        return found

    async def find(self, text: str, *, destroyed: bool = False) -> dict[str, Any]:
        """The one companion that is meant; raises if there is none or several."""
        found: list[dict[str, Any]] = await self.ask("meant", text=text, with_destroyed=destroyed)
        if len(found) > 1:
            names = ", ".join(f"{each['display_name']} ({each['id']})" for each in found)
            raise CompanionInvalid(f"Several are called like that: {names}. Nothing was done.")
        if not found:
            raise CompanionUnknown(
                f"There is no companion {text!r}. Run `silas companions list` to see "
                "those that there are."
            )
        return found[0]


def with_companions(cli: CliContext, work: Callable[[CompanionSession], Awaitable[T]]) -> T:
    """Open what is needed, do the work, close it."""

    async def inside(core: Core) -> T:
        return await work(CompanionSession(core))

    return with_core(cli, inside)


@click.command("list", cls=JsonCommand)
@click.option("-a", "--all", "everything", is_flag=True, help="Also those that were destroyed.")
@pass_cli
def list_all(cli: CliContext, everything: bool) -> None:
    """Show your companions, and how they are."""

    async def work(session: CompanionSession) -> tuple[Any, Any, ZoneInfo]:
        found = await session.everybody(destroyed=everything)
        return found, await session.ask("switches"), session.zone

    found, switches, zone = with_companions(cli, work)
    lines = [
        *map(switch_line, switches),
        *(line for each in found for line in (companion_line(each), *trouble_lines(each, zone))),
    ]
    cli.show({"companions": found, "switches": switches}, "\n".join(lines) or _NO_COMPANIONS)


@click.command(cls=JsonCommand)
@pass_cli
def kinds(cli: CliContext) -> None:
    """Show which companions can be made: those that come with Silas, and the files of your own."""
    found = with_companions(cli, lambda session: session.ask("kinds"))
    lines = [
        f"{each['kind']:<14} {visible(each['problem'] or each['summary'])}"
        f"{'' if each['built_in'] else '  (yours)'}"
        for each in found
    ]
    cli.show({"kinds": found}, "\n".join(lines))


@click.command(cls=JsonCommand)
@NAME
@pass_cli
def show(cli: CliContext, name: str) -> None:
    """Show all about one: what it may do, what wakes it, what it waits for."""

    async def work(session: CompanionSession) -> Any:
        agent_id = (await session.find(name, destroyed=True))["id"]
        return await session.ask("show", agent_id=agent_id), session.zone

    found, zone = with_companions(cli, work)
    cli.show(found, "\n".join(detail_lines(found, zone)))


@click.command(cls=JsonCommand)
@NAME
@click.option("--scope", type=click.Choice(["current", "daily", "weekly", "monthly"]))
@click.option("--why", metavar="CLAIM", help="The sources of one claim: its number, as shown.")
@pass_cli
def report(cli: CliContext, name: str, scope: str | None, why: str | None) -> None:
    """Read what it has to say. Each claim has a number; `--why` shows what it rests on."""

    async def work(session: CompanionSession) -> tuple[Any, Any, ZoneInfo]:
        agent_id = (await session.find(name, destroyed=True))["id"]
        found = await session.ask(
            "report", agent_id=agent_id, **({"scope": scope} if scope else {})
        )
        if found is None or why is None:
            return found, None, session.zone
        sources = await session.ask("why", report_id=found["report"]["id"], claim_id=why)
        return found, sources, session.zone

    found, sources, zone = with_companions(cli, work)
    if found is None:
        cli.show(
            {"report": None},
            f"It has not written a report yet. Wake it: silas companions wake {visible(name)}",
        )
    elif sources is not None:
        cli.show({"sources": sources}, "\n".join(source_line(each, zone) for each in sources))
    else:
        cli.show(found, "\n".join(report_lines(found)))


@click.command(cls=JsonCommand)
@pass_cli
def questions(cli: CliContext) -> None:
    """Show what companions have asked you."""
    found = with_companions(cli, lambda session: session.ask("questions"))
    lines = [
        f"{each['id'][-8:]}  {visible(each['agent_name'])}: {visible(each['prompt_text'])}"
        f"{_options(each['options'])}"
        for each in found
    ]
    cli.show({"questions": found}, "\n".join(lines) or "Nobody has asked you anything.")


@click.command(cls=JsonCommand)
@pass_cli
def waiting(cli: CliContext) -> None:
    """Show what waits for your decision. Decide with `silas review`, or in the page."""
    found = with_companions(cli, lambda session: session.ask("waiting"))
    lines = ["\n    ".join([waiting_line(each), *map(visible, each["changes"])]) for each in found]
    if any(each["status"] == "waiting" for each in found):
        lines.append("Decide: silas review list, or in the page.")
    cli.show({"waiting": found}, "\n".join(lines) or "Nothing is waiting for you.")


@click.command(cls=JsonCommand)
@NAME
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True)
@pass_cli
def runs(cli: CliContext, name: str, limit: int) -> None:
    """Show when it woke, why, and what came of it."""

    async def work(session: CompanionSession) -> Any:
        agent_id = (await session.find(name, destroyed=True))["id"]
        return await session.ask("runs", agent_id=agent_id, limit=limit), session.zone

    found, zone = with_companions(cli, work)
    lines = [run_line(each, zone) for each in found]
    cli.show({"runs": found}, "\n".join(lines) or "It has not woken yet.")


@click.command(cls=JsonCommand)
@click.argument("run_key", metavar="RUN")
@pass_cli
def trace(cli: CliContext, run_key: str) -> None:
    """Explain one run: why it woke, what it asked, what was allowed, what it cost.

    RUN is the key that `silas companions runs` shows, or its beginning.
    """

    async def work(session: CompanionSession) -> Any:
        return await session.ask("trace", run_key=run_key), session.zone

    found, zone = with_companions(cli, work)
    cli.show(found, "\n".join(trace_lines(found, zone)))


@click.command(cls=JsonCommand)
@click.argument("run_key", metavar="RUN")
@pass_cli
def replay(cli: CliContext, run_key: str) -> None:
    """Go through a run again from its trace. Nothing is done; what differs is told."""

    found = with_companions(cli, lambda session: session.ask("replay", run_key=run_key))
    lines = ["It comes out the same." if found["matches"] else "It comes out differently."]
    lines += [
        f"  {visible(each['what'])}\n    then  {visible(_json(each['recorded']))}"
        f"\n    now   {visible(_json(each['replayed']))}"
        for each in found["differences"]
    ]
    cli.show(found, "\n".join(lines))


@click.command(cls=JsonCommand)
@click.argument("run_key", metavar="RUN")
@click.option("--by-rules", is_flag=True, help="Ask no model this time.")
@pass_cli
def again(cli: CliContext, run_key: str, *, by_rules: bool) -> None:
    """Carry a run out once more for the same cause. What needs your yes is asked about as ever."""

    def work(session: CompanionSession) -> Any:
        return session.ask("again", run_key=run_key, by_rules=by_rules)

    woken = with_companions(cli, work)
    cli.show(woken, f"It runs once more: silas companions trace {woken['run_key'][:12]}")


def _options(options: list[str]) -> str:
    return f"  [{visible(' / '.join(options))}]" if options else ""


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@click.command(cls=JsonCommand)
@NAME
@click.argument("number", required=False, type=click.IntRange(min=1))
@click.option("--at", metavar="HH:MM", help="A time of day.")
@click.option("--days", metavar="DAYS", help="On which days: mon,wed or mon-fri. Else every day.")
@click.option("--cron", metavar="EXPRESSION", help="What takes more words: `0 9 1 * *`.")
@click.option("--on/--off", "active", default=None, help="Switch it on or off.")
@click.option("--remove", is_flag=True, help="Take it away.")
@pass_cli
def timers(cli: CliContext, /, name: str, number: int | None, **said: Any) -> None:
    """Show when a companion wakes by the clock, or change that.

    With --at or --cron, a timer is added; with the NUMBER that is shown here, that one is changed.
    """
    wish = _wish(said)
    if number is not None and not wish:
        raise click.UsageError("Say what is to be different about it. See --help.")
    if number is None and wish and not {"at", "cron"} & set(wish):
        raise click.UsageError("Name the NUMBER of the timer, or add one with --at or --cron.")

    async def work(session: CompanionSession) -> Any:
        agent_id = (await session.find(name, destroyed=not wish))["id"]
        found = await session.ask("timers", agent_id=agent_id)
        if wish:
            named = {} if number is None else {"id": _id_of(found, number)}
            found = await session.ask("set_timers", agent_id=agent_id, timers=[{**named, **wish}])
        return found

    found = with_companions(cli, work)
    cli.show({"timers": found}, "\n".join(_lines(found)) or _NO_TIMERS)


def _wish(said: Mapping[str, Any]) -> dict[str, Any]:
    if said["remove"] and any(said[name] is not None for name in ("at", "days", "cron", "active")):
        raise click.UsageError("Change it or take it away: one at a time.")
    wish = {name: value for name, value in said.items() if value is not None and value is not False}
    if said["active"] is False:
        wish["active"] = False
    if said["days"] is not None:
        wish["days"] = parse_days(said["days"])
    return wish


def _id_of(found: list[dict[str, Any]], number: int) -> str:
    if number > len(found):
        raise click.UsageError(f"There is no timer {number}. Nothing was changed.")
    return str(found[number - 1]["id"])


def _lines(found: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for number, each in enumerate(found, start=1):
        moment, zone = each["next_run_at"], each["time_zone"]
        rings = f"next {when(moment, ZoneInfo(zone))}" if moment else "off"
        yield f"{number:>2}  {visible(each['words'])}  ({rings}, {visible(zone)})"


def companion_line(each: Mapping[str, Any]) -> str:
    """One companion in one line."""
    extra = [
        _HEALTH.get(each["health"], each["health"]),
        ", ".join(category["name"] for category in each["categories"]),
        each["model_id"] or "no model: fixed rules",
        *([f"{each['open_questions']} to answer"] if each["open_questions"] else []),
        *([f"{each['waiting_actions']} to decide"] if each["waiting_actions"] else []),
        *(["report is stale"] if each["report_fresh"] is False else []),
    ]
    return f"{visible(each['display_name'])}  {visible(' · '.join(extra))}"


def trouble_lines(each: Mapping[str, Any], zone: ZoneInfo) -> Iterable[str]:
    """What keeps a companion from its work, and the one step that helps."""
    trouble = each["trouble"]
    if trouble is None:
        return
    yield f"  Problem   {visible(trouble['text'])}"
    if trouble["until"]:
        word = "Until" if trouble["code"] == "asleep" else "It tries again by itself from"
        yield f"            {word} {when(trouble['until'], zone)}."
    name = visible(each["display_name"])
    command = _COMMANDS[trouble["way"]].format(name=name if " " not in name else f'"{name}"')
    yield f"  Helps     {visible(trouble['step'])} {command}"


def detail_lines(found: Mapping[str, Any], zone: ZoneInfo) -> Iterable[str]:
    """Everything about one."""
    companion = found["companion"]
    yield companion_line(companion)
    yield visible(found["summary"])
    yield from trouble_lines(companion, zone)
    yield f"  Id        {companion['id']}"
    yield f"  Wakes     {visible(', '.join(found['wakes_on']) or 'only when you wake it')}"
    yield f"  May       {visible(', '.join(found['may']))}"
    yield f"  Asks you  from {found['confirm_from']} risk on"
    yield f"  Today     {budget_line(companion['budget'])}"
    if found["goal"]:
        yield f"  Goal      {visible(found['goal'])}"
    for each in found["keeps"]:
        yield f"  Keeps     {visible(each)}"
    for each in found["questions"]:
        yield f"  Question  {visible(each['prompt_text'])}"
    for each in found["waiting"]:
        yield f"  Waits     {waiting_line(each)}"
    for each in found["runs"][:_RUNS_SHOWN]:
        yield f"  Run       {run_line(each, zone)}"


def budget_line(budget: Mapping[str, Any]) -> str:
    """What is used of today's budget, in the units that it is set in."""
    limits = [
        f"{_amount(name, budget['used'].get(name, 0))} of {_amount(name, most)}{unit}"
        for name, unit in _UNITS.items()
        if (most := budget["limits"].get(name)) is not None
    ]
    return ", ".join(limits) or "no limits"


def _amount(measure: str, amount: int) -> str:
    if measure == "cost_micro_usd":
        return f"${amount / 1_000_000:.2f}"
    return f"{amount / 60_000:.0f}" if measure == "runtime_ms" else str(amount)


def _used(usage: Mapping[str, int]) -> str:
    amounts = {
        "tokens": f"{usage.get('tokens', 0)} tokens",
        "cost_micro_usd": f"${usage.get('cost_micro_usd', 0) / 1_000_000:.4f}",
        "runtime_ms": f"{usage.get('runtime_ms', 0) / 1000:.1f} s",
        "tool_calls": f"{usage.get('tool_calls', 0)} calls",
    }
    return ", ".join(amounts[name] for name in amounts if usage.get(name)) or "nothing"


def waiting_line(each: Mapping[str, Any]) -> str:
    """An action that waits."""
    waits = _WAITS.get(each["status"], each["status"])
    return f"{visible(each['what'])} ({waits}): {visible(each['reason'])}"


def report_lines(found: Mapping[str, Any]) -> Iterable[str]:
    """A report; every claim begins with the number that `--why` takes."""
    content = found["report"]["content"]
    yield visible(content["headline"])
    yield found["freshness"]["sentence"]
    yield from chart_lines(found["charts"])
    for section in content["sections"]:
        if section["claims"]:
            yield f"\n{visible(section['title'])}"
        for claim in section["claims"]:
            guess = " (inferred)" if claim.get("inference_flag") == "inferred" else ""
            yield f"  {claim['id']:<14} {visible(claim['text'])}{guess}"


def chart_lines(charts: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """The numbers of a report as bars of text."""
    for chart in charts:
        yield f"\n{chart['title']}"
        most = max((each["value"] for each in chart["points"]), default=0) or 1
        for each in chart["points"]:
            bar = "#" * round(_BAR * each["value"] / most)
            yield f"  {visible(each['label'])[:16]:<16} {bar:<{_BAR}} {visible(each['words'])}"


def source_line(each: Mapping[str, Any], zone: ZoneInfo) -> str:
    """One source of a claim."""
    gone = "" if each["exists"] else "  (it is not there any more)"
    how = "inferred from" if each["inferred"] else "from"
    read = f"read {when(each['captured_at'], zone)}"
    return f"{how} {visible(each['label'])}  [{visible(each['source_locator'])}], {read}{gone}"


def run_line(each: Mapping[str, Any], zone: ZoneInfo) -> str:
    """One run in one line."""
    said = visible(each["error_message"] or each["error_code"] or "")
    problem = f": {said} [{each['error_code']}]" if each["error_code"] else ""
    cause, came = _REASONS.get(each["reason"], each["reason"]), run_status(each["status"])
    return f"{each['run_key'][:12]}  {when(each['queued_at'], zone)}  {cause}, {came}{problem}"


def run_status(status: str) -> str:
    """What came of a run."""
    return _STATUSES.get(status, status.replace("_", ": ", 1).replace("_", " "))


def trace_lines(found: Mapping[str, Any], zone: ZoneInfo) -> Iterable[str]:
    """A run, explained."""
    cause = _REASONS.get(found["reason"], found["reason"])
    yield f"{found['run_key'][:12]}  {when(found['started_at'], zone)}  {cause}, " + run_status(
        found["status"]
    )
    model = found["model_id"] if found["model_id"] != _OFFLINE else None
    yield f"  Model     {visible(model or 'none: fixed rules')}"
    yield f"  Prompt    {found['prompt_id']}, version {found['prompt_version']}"
    yield f"  Persona   {(found['persona_version_id'] or 'none')[:12]}"
    yield f"  Took      {found['latency_ms']} ms, {found['retries']} retries"
    yield f"  Used      {_used(found['usage'])}"
    for checks, subjects in _alike(_by_subject(found["policy_decisions"])).items():
        yield f"  Checked   {', '.join(subjects)}: {checks}"
    for each in found["tool_calls"]:
        name = spoken_tool(str(each.get("tool_name", "")))
        code = str(each.get("error_code") or each.get("status") or "")
        came = _RESULTS.get(code, code)
        yield f"  Call      {visible(name)}: {visible(str(came))}"
    if found["error_code"]:
        yield f"  Problem   {visible(found['error_message'] or '')} [{found['error_code']}]"


def _by_subject(decisions: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """What was checked, once for each subject; a no says why."""
    found: dict[str, dict[str, None]] = {}
    for each in decisions:
        answer = CHECKS.get(each["check"], each["check"])
        if not each["allowed"]:
            why = visible(str(each.get("detail") or each.get("error_code") or ""))
            answer = f"NOT {answer} ({why})"
        found.setdefault(str(each["subject"]), {})[answer] = None
    return {subject: list(answer) for subject, answer in found.items()}


def _alike(by_subject: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """The subjects that had the same answers, told together."""
    found: dict[str, list[str]] = {}
    for subject, checks in by_subject.items():
        name = _SUBJECTS.get(subject) or spoken_tool(subject)
        found.setdefault(", ".join(checks), []).append(visible(name))
    return found


def persona_lines(versions: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """Every version of a persona, each with what it changes."""
    for each in versions:
        version = each["version"]
        state = "in use" if each["in_use"] else persona_state(version)
        author = {"user": "you", "agent": "the companion"}.get(
            version["authored_by"], "the kind that it was made from"
        )
        yield f"Version {version['version']} ({state}), by {author}"
        for change in each["changes"]:
            yield f"  {_PERSONA.get(change['field'], change['field'])}"
            if change["before"] is not None:
                yield f"    - {visible(plain(change['before']))}"
            yield f"    + {visible(plain(change['after']))}"


def persona_state(version: Mapping[str, Any]) -> str:
    """How a version stands that is not in use."""
    if version["status"] == "archived" and version.get("approved_at") is None:
        return "declined"
    return str({"archived": "was in use", "draft": "proposed"}.get(version["status"], "unknown"))


def plain(value: Any) -> str:
    """A value of a persona without its brackets."""
    if isinstance(value, Mapping):
        return "; ".join(f"{name.replace('_', ' ')}: {plain(each)}" for name, each in value.items())
    return " ".join(map(plain, value)) if isinstance(value, list | tuple) else str(value)


def switch_line(each: Mapping[str, Any]) -> str:
    """A stop switch that is on."""
    why = f" ({visible(each['reason'])})" if each["reason"] else ""
    what = {
        "global": "all companions",
        "companion": visible(each["target_name"] or str(each["target"])),
        "tool_class": f"calls of the class {each['target']}",
    }[each["scope"]]
    return f"Stopped: {what}{why}. Release: silas companions go"


def when(moment: str, zone: ZoneInfo) -> str:
    """A moment on the owner's clock."""
    return f"{datetime.fromisoformat(moment).astimezone(zone):%Y-%m-%d %H:%M}"
