"""`silas work waiting` and `silas work decide`: calls that wait for the owner, and the decision."""

import click

from silas.app.ground import Ground
from silas.app.resuming import go_on
from silas.app.workshop import open_workshop
from silas.approval import ApprovalDecision, ApprovalVerdict
from silas.cli.commands import JsonCommand
from silas.cli.context import CliContext, pass_cli
from silas.cli.opening import with_ground
from silas.cli.terminal import on_terminal
from silas.cli.working import ask_owner
from silas.kernel import ApprovalError, format_timestamp, strict_loads, visible, visible_json
from silas.work.authorisation import decide_waiting, payload_of
from silas.work.paused import KeptCall, KeptRun, PausedRuns
from silas.work.workbench import Workbench

_YES = ApprovalDecision(verdict=ApprovalVerdict.APPROVED)
_NO = ApprovalDecision(verdict=ApprovalVerdict.DECLINED)


@click.command(cls=JsonCommand)
@pass_cli
def waiting(cli: CliContext) -> None:
    """Show the calls that wait for your decision, exactly as they would be made."""

    async def load(ground: Ground) -> list[tuple[KeptRun, KeptCall]]:
        runs = await _runs(open_workshop(ground).bench).waiting()
        now = ground.clock.now()
        return [(run, call) for run in runs for call in run.undecided(now)]

    found = with_ground(cli, load)
    data = [
        {
            "call": call.id,
            "hash": payload_of(call.id, call.call).plan_hash,
            "expires_at": format_timestamp(run.expires_at),
            **call.call.model_dump(mode="json"),
        }
        for run, call in found
    ]
    lines = [f"{_shown(call)}\nuntil {format_timestamp(run.expires_at)}\n" for run, call in found]
    cli.show({"waiting": data}, "\n".join(lines) or "Nothing waits for you.")


@click.command("decide", cls=JsonCommand)
@click.argument("call_id", metavar="CALL")
@click.option("--approve", "approve", metavar="HASH", help="Approve the call with this hash.")
@click.option("--decline", is_flag=True, help="Decline it.")
@pass_cli
def decide_call(cli: CliContext, call_id: str, approve: str | None, *, decline: bool) -> None:
    """Decide about a call that waits; the work then goes on."""
    if approve and decline:
        raise click.UsageError("Either --approve or --decline.")

    async def inside(ground: Ground) -> tuple[str, str, bool]:
        bench = open_workshop(ground).bench
        call = await _runs(bench).find_call(call_id)
        decision = _NO if decline else _decision(cli, call, approve)
        await decide_waiting(bench, call, decision)
        name = call.call.work_item_id
        return name, decision.verdict.value, await go_on(ground, name, call.id)

    work_item_id, verdict, goes_on = with_ground(cli, inside)
    then = (
        "The running Silas goes on with it."
        if goes_on
        else (f"Go on with: silas work resume {work_item_id}")
    )
    cli.show(
        {"call": call_id, "work_item_id": work_item_id, "verdict": verdict},
        f"{visible(call_id)} is {verdict}. {then}",
    )


def _decision(cli: CliContext, call: KeptCall, approve: str | None) -> ApprovalDecision:
    """It is typed at the terminal, or it is the full hash of the call. There is no third way."""
    if approve is not None:
        if approve != payload_of(call.id, call.call).plan_hash:
            raise click.UsageError("This is not the hash of that call: see `silas work waiting`.")
        return _YES
    if not on_terminal() or cli.as_json:
        raise click.UsageError("Nobody can be asked here. Say --approve HASH or --decline.")
    return ask_owner(f"{_shown(call)}\nLet this one call happen?")


def _shown(kept: KeptCall) -> str:
    payload = payload_of(kept.id, kept.call)
    reasons = "\n".join(f"  {visible(reason)}" for reason in kept.call.reasons)
    whole = visible_json(strict_loads(payload.plan_bytes()))
    return f"{kept.id}  {visible(kept.call.tool)}\n{reasons}\n{whole}\nhash {payload.plan_hash}"


def _runs(bench: Workbench) -> PausedRuns:
    if bench.paused is None:
        raise ApprovalError("Nothing can wait for a decision here.")
    return bench.paused
