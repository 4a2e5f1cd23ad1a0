"""`silas work`: what is being done, what was done, how to stop it, and what waits for the owner.

Calls wait for a decision while work is under way. Files that work changed beyond its plan wait like
calls: each is taken or left by a decision of its own, and the id of the work item stands for all of
its files at once. A yes is typed at the terminal or names the full hash of what was shown; it is
signed with the owner's own key.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from silas.app.agents import open_worker
from silas.app.core import Core
from silas.app.runtime import open_cards
from silas.app.work import open_executor, resumptions_of
from silas.approval import ApprovalDecision, ApprovalVerdict
from silas.cli.approvals import write_proof
from silas.cli.approver import (
    as_quoted_json,
    ask_owner,
    decide,
    executor_of,
    in_quotes,
    question_about,
    shown_file,
    tell_result,
)
from silas.cli.commands import CliContext, JsonGroup, on_terminal, pass_cli, with_core
from silas.cli.work_report import (
    CardsAbout,
    attempt_line,
    diffs,
    item_line,
    outputs,
    report_data,
    report_lines,
    write_new,
)
from silas.kernel import ApprovalError, format_timestamp, visible, visible_json
from silas.review.attestations import run_envelope
from silas.review.cards import UNDO, CardStore
from silas.storage import Transaction
from silas.storage.files import PRIVATE_DIRECTORY
from silas.stream.offers import is_unused_offer
from silas.tools.tree import FileRefused, Tree
from silas.work import LedgerEntry, WorkItem, WorkItemResult, WorkItemStatus
from silas.work.authorisation import (
    TAKE_OVER,
    authorise,
    calls_question,
    decide_waiting,
    payload_of,
    plan_question,
)
from silas.work.errors import ArtifactRefused, WorkItemUnknown, WorkNotDone
from silas.work.execution_context import ExecutionContext
from silas.work.executor import WorkItemExecutor
from silas.work.models import ENDED_WELL
from silas.work.paused import KeptCall, KeptRun, PausedRuns, Write
from silas.work.report import FileView, WorkReport, file_view, report_of, run_predicate
from silas.work.store import require_item
from silas.work.undo_calls import undo_calls, undo_plan
from silas.work.wording import status_of

_YES = ApprovalDecision(verdict=ApprovalVerdict.APPROVED)
_NO = ApprovalDecision(verdict=ApprovalVerdict.DECLINED)
_AN_ID = re.compile(r"[a-z]+_[0-9a-z]{26}")
_MOST_LISTED = 5


def _work_id(context: click.Context, _parameter: click.Parameter, said: str) -> str:
    """The id of the work that is meant: an id, or words of a title that only one has."""
    cli = context.find_object(CliContext)
    if cli is None or _AN_ID.fullmatch(said):
        return said
    return with_core(cli, lambda core: _id_of(core, said))


async def _id_of(core: Core, said: str) -> str:
    items = open_executor(core).context.items
    if await items.get(said) is not None:
        return said
    known = [item for status in WorkItemStatus for item in await items.list_by_status(status)]
    titles = [(item, item.title.casefold()) for item in known if not is_unused_offer(item)]
    wanted = said.casefold().strip()
    exactly = [item for item, title in titles if title == wanted]
    meant = exactly or [item for item, title in titles if wanted and wanted in title]
    if len(meant) > 1:
        newest = sorted(meant, key=lambda item: (str(item.created_at), item.id))[-_MOST_LISTED:]
        lines = [f"  {item.id}  {visible(item.title, keep_newlines=False)}" for item in newest]
        raise click.UsageError("\n".join([f"{len(meant)} have “{said}” in their title:", *lines]))
    if not meant:
        told = f"There is no work item {said}. `silas work list` shows what there is."
        raise WorkItemUnknown(told, work_item=said)
    return meant[0].id


_ID = click.argument("work_item_id", metavar="WORK", callback=_work_id)
_SECONDS_TO_STOP = 30.0
_NO_CALL = "No call waits for you. `silas review list` shows plans and questions that do."
_MAX_OUTPUT_CHARS = 400
_MAX_FILES_COMPARED = 50


@click.group(cls=JsonGroup)
def work() -> None:
    """Show work items, and stop or resume them.

    WORK is the id of a work item, or words of its title.
    """


@work.command("list")
@click.option(
    "--status",
    type=click.Choice([each.value for each in WorkItemStatus]),
    help="Only these.",
)
@pass_cli
def list_work(cli: CliContext, status: str | None) -> None:
    """Show all work items."""
    wanted = [WorkItemStatus(status)] if status else list(WorkItemStatus)

    async def load(core: Core) -> tuple[list[WorkItem], dict[str, str]]:
        items = open_executor(core).context.items
        found = [item for each in wanted for item in await items.list_by_status(each)]
        listed = [item for item in found if not is_unused_offer(item)]
        ended = [item.id for item in listed if item.status is WorkItemStatus.FAILED]
        endings = await open_cards(core).endings(ended)
        return sorted(listed, key=lambda item: (str(item.created_at), item.id)), endings

    items, endings = with_core(cli, load)
    data = [
        {
            "id": item.id,
            "type": item.type.value,
            "status": item.status.value,
            "ending": status_of(item, endings.get(item.id)),
            "attempts": item.attempts,
            "title": item.title,
        }
        for item in items
    ]
    lines = [item_line(item, endings) for item in items]
    cli.show({"items": data}, "\n".join(lines) or "There is no work yet.")


@work.command("show")
@_ID
@click.option("--diff", is_flag=True, help="What changed in the files, line by line.")
@click.option("--file", "path", metavar="PATH", help="What the work made of one of its files.")
@click.option("--output", is_flag=True, help="Everything that the last attempt printed.")
@click.option(
    "--to",
    "target",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write it to this new file instead: for what is long.",
)
@pass_cli
def show_work(
    cli: CliContext,
    work_item_id: str,
    *,
    diff: bool,
    path: str | None,
    output: bool,
    target: Path | None,
) -> None:
    """Show one work item: what was asked, done, printed, checked and changed, and what is next."""
    if sum((diff, path is not None, output)) > 1:
        raise click.UsageError("Say one of --diff, --file and --output.")
    if target is not None and not (diff or path is not None or output):
        raise click.UsageError("--to takes one of --diff, --file and --output.")

    async def load(core: Core) -> tuple[WorkReport, list[FileView], CardsAbout]:
        context = open_executor(core).context
        report = await report_of(context, work_item_id)
        wanted = [path] if path is not None else []
        if diff:
            wanted = [each.path for each in report.files][:_MAX_FILES_COMPARED]
        views = [await file_view(context, work_item_id, name) for name in wanted]
        return report, views, await _cards_about(open_cards(core), report.item.id)

    report, views, about = with_core(cli, load)
    text = diffs(report, views) if diff else outputs(report) if output else None
    if path is not None:
        text = views[0].text if views[0].text is not None else views[0].note or "It was removed."
    if target is not None and text is not None:
        write_new(target, text)
        cli.show({"written": str(target)}, f"Written to {visible(str(target))}.")
        return
    shown = "\n".join(report_lines(report, about)) if text is None else in_quotes(text)
    cli.show(report_data(report, views), shown)


async def _cards_about(cards: CardStore, work_item_id: str) -> CardsAbout:
    waiting = await cards.open_cards()
    undo = [card for card in waiting if card.requested_by == UNDO and card.replaces == work_item_id]
    asked = [card for card in waiting if work_item_id in card.plan_hashes]
    endings = await cards.endings([work_item_id])
    return CardsAbout(endings, next(iter(undo), None), next(iter(asked), None))


@work.command("log")
@_ID
@pass_cli
def log_work(cli: CliContext, work_item_id: str) -> None:
    """Show every call that the attempts at a work item made, and what it gave."""

    async def load(core: Core) -> tuple[WorkReport, list[list[LedgerEntry]]]:
        context = open_executor(core).context
        report = await report_of(context, work_item_id)
        numbers = [each.attempt for each in report.attempts]
        return report, [await context.ledger.entries(work_item_id, each) for each in numbers]

    report, made = with_core(cli, load)
    tried = list(zip(report.attempts, made, strict=True))
    data = [
        attempt.model_dump(mode="json")
        | {"work_item_id": work_item_id, "calls": [e.model_dump(mode="json") for e in entries]}
        for attempt, entries in tried
    ]
    lines: list[str] = []
    for attempt, entries in tried:
        lines.append(attempt_line(report, attempt))
        lines += [line for entry in entries for line in _entry_lines(entry)]
    cli.show({"attempts": data}, "\n".join(lines) or "Nothing was tried yet.")


@work.command("recover")
@_ID
@click.option(
    "--to",
    "target",
    required=True,
    metavar="DIRECTORY",
    type=click.Path(path_type=Path, file_okay=False),
    help="A directory that does not exist yet.",
)
@pass_cli
def recover_files(cli: CliContext, work_item_id: str, target: Path) -> None:
    """Write what files held before a work item changed or removed them to a new directory."""

    async def write(core: Core) -> tuple[list[str], list[str]]:
        context = open_executor(core).context
        await require_item(context.items, work_item_id)
        found = [
            each for each in await context.images.of(work_item_id) if each.taken and each.before
        ]
        if not found:
            return [], []
        written, gone = [], []
        with _new_directory(target) as tree:
            for image in found:
                content = await context.images.content(image.before or "")
                if content is None:
                    gone.append(image.path)
                    continue
                tree.write(image.path, content, executable=image.was_executable)
                written.append(image.path)
        return written, gone

    written, gone = with_core(cli, write)
    lines = [f"{visible(name, keep_newlines=False)}" for name in written]
    lines += [f"{visible(name, keep_newlines=False)}: not kept any more" for name in gone]
    lines = lines or ["It changed and removed nothing, or nothing of that is kept any more."]
    cli.show({"written": written, "not_kept": gone}, "\n".join(lines))


@contextmanager
def _new_directory(path: Path) -> Iterator[Tree]:
    try:
        path.mkdir(mode=PRIVATE_DIRECTORY)
    except OSError as error:
        raise FileRefused(f"{path} cannot be made: {error.strerror}.") from error
    with Tree.open(path.resolve()) as tree:
        yield tree


@work.command("export")
@_ID
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@pass_cli
def export_run(cli: CliContext, work_item_id: str, file: Path, force: bool) -> None:
    """Write a proof of what was done to FILE.

    It says what ran, which checks were made and what they gave, and names by their digests what was
    printed and the files that came of it: a DSSE envelope with an in-toto statement (`run/v1`).
    Anyone who has your public key can check it: `silas verify FILE --public-key KEY`.
    """

    async def inside(core: Core) -> bytes:
        report = await report_of(open_executor(core).context, work_item_id)
        run = run_predicate(report, now=core.clock.now())
        return run_envelope(run, signing=core.keys)

    write_proof(cli, file, inside, force=force)


@work.command()
@_ID
@pass_cli
def cancel(cli: CliContext, work_item_id: str) -> None:
    """End a work item, and everything below it, for good."""
    _stop(cli, work_item_id, "cancel")


@work.command()
@_ID
@pass_cli
def pause(cli: CliContext, work_item_id: str) -> None:
    """Stop a work item, and everything below it, until it is resumed."""
    _stop(cli, work_item_id, "pause")


@work.command()
@_ID
@click.option("--approve", "hashes", multiple=True, metavar="HASH", help="As in `silas plan run`.")
@pass_cli
def resume(cli: CliContext, work_item_id: str, hashes: tuple[str, ...]) -> None:
    """Go on with a work item that was stopped, with a fresh attempt.

    If its approval is not valid any more, it is shown and asked for again.
    """

    async def inside(core: Core) -> tuple[WorkItemResult, list[WorkItem]] | None:
        async with open_worker(core, environ=os.environ, home=Path.home()) as agent:
            executor = executor_of(core, cli, agent=agent)
            await executor.recover()
            return await _resumed(executor, work_item_id, cli, hashes)

    ended = with_core(cli, inside)
    if ended is None:
        cli.show({"approved": False}, "Not approved. Nothing was executed.")
        raise click.exceptions.Exit(WorkNotDone.exit_code)
    tell_result(cli, *ended)


async def _resumed(
    executor: WorkItemExecutor, work_item_id: str, cli: CliContext, hashes: tuple[str, ...]
) -> tuple[WorkItemResult, list[WorkItem]] | None:
    items = executor.context.items
    item = await require_item(items, work_item_id)
    below = await items.list_by_parent(item.id)
    family = [item, *(each for each in below if each.id in item.tasks)]
    family = [each for each in family if each.status not in ENDED_WELL]
    if not await _approved_again(executor, family, cli, hashes):
        return None
    await executor.context.control.resume(work_item_id)
    result = await executor.execute(await require_item(items, work_item_id))
    ids = [item.id, *(each.id for each in below)]
    return result, [await require_item(items, each) for each in ids]


async def _approved_again(
    executor: WorkItemExecutor, items: list[WorkItem], cli: CliContext, hashes: tuple[str, ...]
) -> bool:
    """Whether everything is approved; what is not any more is shown and asked for."""
    expired = [item for item in items if not await _is_approved(executor, item)]
    if not expired:
        return True
    decision = decide(cli, expired, hashes, effect_of=executor.context.registry.effect_of)
    if decision.verdict is not ApprovalVerdict.APPROVED:
        return False
    question = await plan_question(executor.context, expired)
    word = executor.context.decisions.owners_word(question, decision)
    await authorise(executor.context, expired, question, word)
    return True


async def _is_approved(executor: WorkItemExecutor, item: WorkItem) -> bool:
    token, approvals = item.approval_token, executor.context.approvals
    if token is None:
        return False
    goal = item.type.value == "goal"
    valid, _ = await (approvals.check_goal(token, item) if goal else approvals.enter(token, item))
    return valid


def _stop(cli: CliContext, work_item_id: str, what: str) -> None:
    async def inside(core: Core) -> tuple[list[WorkItem], bool]:
        executor = open_executor(core)
        control = executor.context.control
        stop = control.cancel if what == "cancel" else control.pause
        stopped = await stop(work_item_id)
        await executor.recover()  # afterwards: what a crash left is not taken over on a stop
        return stopped, await control.wait_until_idle(work_item_id, seconds=_SECONDS_TO_STOP)

    stopped, idle = with_core(cli, inside)
    data = {"stopped": [{"id": each.id, "status": each.status.value} for each in stopped]}
    lines = [f"{each.id} is {status_of(each)}." for each in stopped]
    lines = lines or [f"{visible(work_item_id)} was stopped or done already."]
    lines.append("Nothing of it is running." if idle else "It has not stopped yet. Look again.")
    cli.show({**data, "idle": idle}, "\n".join(lines))
    if not idle:
        raise click.exceptions.Exit(WorkNotDone.exit_code)


def _entry_lines(entry: LedgerEntry) -> list[str]:
    arguments: Any = visible_json(entry.args).replace("\n", " ")
    result = entry.result
    if result is None:
        return [f"    {entry.seq}. {entry.tool} {arguments}", "       nobody knows how it ended"]
    text = visible(result.error or result.return_value, keep_newlines=False)[:_MAX_OUTPUT_CHARS]
    mark = "worked" if result.success else "did not work"
    return [f"    {entry.seq}. {entry.tool} {arguments}", f"       {mark}: {text}"]


@work.command("undo")
@_ID
@click.option("--call", "calls", type=int, multiple=True, metavar="N", help="Only this call.")
@click.option("--attempt", type=int, metavar="A", help="Of which attempt, if there were several.")
@click.option(
    "--plan",
    "target",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a plan that takes back what one command does not, to this new file.",
)
@pass_cli
def undo_work(
    cli: CliContext,
    work_item_id: str,
    *,
    calls: tuple[int, ...],
    attempt: int | None,
    target: Path | None,
) -> None:
    """Take back what work did in your accounts: mails, events, issues."""
    if calls and target is not None:
        raise click.UsageError("Say one of --call and --plan.")
    if target is not None:
        text = with_core(cli, lambda core: undo_plan(open_executor(core).context, work_item_id))
        if text is None:
            raise ArtifactRefused("There is nothing that a plan could take back.")
        write_new(target, text)
        told = (
            f"Written to {visible(str(target))}. To run it: silas plan run {visible(str(target))}"
        )
        cli.show({"written": str(target)}, told)
        return
    done = with_core(
        cli,
        lambda core: undo_calls(
            open_executor(core).context, work_item_id, calls or None, attempt=attempt
        ),
    )
    lines = [f"call {each.seq}, {each.tool}: {each.told}" for each in done]
    if any(each.needs_plan for each in done):
        lines.append(f"For a plan that does it: silas work undo {work_item_id} --plan FILE")
    cli.show(
        {"calls": [each.model_dump(mode="json") for each in done]},
        "\n".join(lines) or "This work did nothing in your accounts that could be taken back.",
    )


@work.command()
@pass_cli
def waiting(cli: CliContext) -> None:
    """Show the calls that wait for your decision, exactly as they would be made."""

    found = with_core(cli, waiting_calls)
    lines = [f"{shown_call(run, call)}\n" for run, call in found]
    data = [call_data(run, call) for run, call in found]
    cli.show({"waiting": data}, "\n".join(lines) or _NO_CALL)


async def waiting_calls(core: Core) -> list[tuple[KeptRun, KeptCall]]:
    """The calls that the owner can decide about now, oldest first."""
    runs, now = await _runs(open_executor(core).context).waiting(), core.clock.now()
    return [(run, call) for run in runs for call in run.undecided(now)]


def call_data(run: KeptRun, call: KeptCall) -> dict[str, Any]:
    """A call that waits, for programs."""
    return {
        "call": call.id,
        "hash": payload_of(call.id, call.call).plan_hash,
        "expires_at": format_timestamp(run.expires_at),
        **call.call.model_dump(mode="json"),
    }


def shown_call(run: KeptRun, call: KeptCall) -> str:
    """A call that waits, whole."""
    return f"{_shown(call)}\nuntil {format_timestamp(run.expires_at)}"


@work.command("decide")
@click.argument("named", metavar="CALL...", nargs=-1, required=True)
@click.option(
    "--approve",
    "hashes",
    multiple=True,
    metavar="HASH",
    help="Approve the call with this hash, or take this file. Once for each.",
)
@click.option("--decline", is_flag=True, help="Decline them all: leave these files as they are.")
@pass_cli
def decide_call(
    cli: CliContext, named: tuple[str, ...], hashes: tuple[str, ...], *, decline: bool
) -> None:
    """Decide about calls that wait, or files beyond a plan; the work then goes on.

    CALL is an id that `silas work waiting` shows, or the id of a work item: all that waits there.
    With --approve, what is named and has none of the hashes is declined.
    """
    if hashes and decline:
        raise click.UsageError("Either --approve or --decline.")
    decide_calls(cli, named, hashes, decline=decline)


def decide_calls(
    cli: CliContext, named: tuple[str, ...], hashes: tuple[str, ...], *, decline: bool
) -> None:
    """Decide about the calls with these names, and say what follows."""

    async def inside(core: Core) -> list[tuple[KeptCall, ApprovalDecision, bool]]:
        context = open_executor(core).context
        paused = _runs(context)
        calls = await _named(paused, named, core.clock.now())
        decisions = [_NO for _ in calls] if decline else _decisions(cli, calls, hashes)
        made = list(zip(calls, decisions, strict=True))
        first = {call.call.work_item_id: call.id for call in reversed(calls)}
        resumptions = resumptions_of(core)
        resumed = {name: await resumptions(name, call_id) for name, call_id in first.items()}

        def also(tx: Transaction) -> None:
            for request in filter(None, resumed.values()):
                request.write(tx)

        await _decide(context, made, also)
        return [
            (call, decision, resumed[call.call.work_item_id] is not None) for call, decision in made
        ]

    decided = with_core(cli, inside)
    data = [
        {"call": call.id, "work_item_id": call.call.work_item_id, "verdict": made.verdict.value}
        for call, made, _ in decided
    ]
    lines = [f"{visible(call.id)} is {made.verdict.value}." for call, made, _ in decided]
    for work_item_id, goes_on in {call.call.work_item_id: on for call, _, on in decided}.items():
        resume = f"Go on with: silas work resume {work_item_id}"
        lines[-1] += f" {'The running Silas goes on with it.' if goes_on else resume}"
    cli.show({"decided": data} if len(data) > 1 else data[0], "\n".join(lines))


async def _decide(
    context: ExecutionContext, made: Sequence[tuple[KeptCall, ApprovalDecision]], also: Write
) -> None:
    """Store what was decided, with the owner's own key; what is not taken is left by it."""
    taken = [call for call, decision in made if decision is _YES]
    left = [call for call, decision in made if decision is not _YES]
    meant, decision = (taken, _YES) if taken else (left, _NO)
    question = calls_question(
        [(each.id, each.call) for each in meant],
        card_id=meant[0].id,
        effect_of=context.registry.effect_of,
    )
    await decide_waiting(
        context,
        meant,
        context.decisions.owners_word(question, decision),
        card_id=meant[0].id,
        left=left if taken else (),
        also=also,
    )


async def _named(runs: PausedRuns, names: Sequence[str], now: datetime) -> list[KeptCall]:
    """The calls with these ids, and those of the work items with these ids."""
    waiting = [call for run in await runs.waiting() for call in run.undecided(now)]
    found: dict[str, KeptCall] = {}
    for name in names:
        of_work = [each for each in waiting if each.call.work_item_id == name]
        for each in of_work or [await runs.find_call(name)]:
            found[each.id] = each
    return list(found.values())


def _decisions(
    cli: CliContext, calls: Sequence[KeptCall], hashes: Sequence[str]
) -> list[ApprovalDecision]:
    """They are typed at the terminal, or are the full hashes of calls. There is no third way."""
    if hashes:
        known = [payload_of(each.id, each.call).plan_hash for each in calls]
        if not set(hashes) <= set(known):
            raise click.UsageError("This is not the hash of that call: see `silas work waiting`.")
        return [_YES if each in hashes else _NO for each in known]
    if not on_terminal() or cli.as_json:
        raise click.UsageError("Nobody can be asked here. Say --approve HASH or --decline.")
    if len(calls) > 1 and all(each.call.tool == TAKE_OVER for each in calls):
        return _files(cli, calls)
    return [ask_owner(f"{_shown(each)}\n{question_about(each.call)}") for each in calls]


def _files(cli: CliContext, calls: Sequence[KeptCall]) -> list[ApprovalDecision]:
    """Which of several files are taken: all, none, or those that are chosen one by one."""
    cli.say("\n".join(_shown(each) for each in calls))
    meant = click.prompt(
        f"{len(calls)} files beyond the plan. Take them",
        type=click.Choice(["all", "none", "each"]),
        default="none",
        err=True,
    )
    if meant == "each":
        return [
            ask_owner(f"{shown_file(each.call)}\n{question_about(each.call)}") for each in calls
        ]
    return [_YES if meant == "all" else _NO for _ in calls]


def _shown(kept: KeptCall) -> str:
    payload = payload_of(kept.id, kept.call)
    reasons = "\n".join(in_quotes(reason) for reason in kept.call.reasons)
    whole = shown_file(kept.call) or as_quoted_json(payload.plan_bytes())
    tool = visible(kept.call.tool, keep_newlines=False)
    return f"{kept.id}  {tool}\n{reasons}\n{whole}\nhash {payload.plan_hash}"


def _runs(context: ExecutionContext) -> PausedRuns:
    if context.paused is None:
        raise ApprovalError("Nothing can wait for a decision here.")
    return context.paused
