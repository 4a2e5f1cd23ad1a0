"""`silas autonomy` and `silas grants`: how much Silas asks, why, and the way back."""

import click

from silas.cli.commands import CliContext, JsonGroup, pass_cli, with_core
from silas.kernel import format_timestamp, visible, visible_json
from silas.proactive.autonomy import AutonomyShown, ChangeShown
from silas.proactive.grants import GrantShown


@click.group(cls=JsonGroup)
def autonomy() -> None:
    """Show how much Silas asks you, what you have allowed beyond the settings, and take it back."""


@autonomy.command("list")
@pass_cli
def list_autonomy(cli: CliContext) -> None:
    """Show what is in force, and how often you correct what is proposed."""
    from silas.app.review import open_autonomy_service  # noqa: PLC0415 - it brings all turns along

    shown = with_core(cli, lambda core: open_autonomy_service(core).state())
    cli.show(shown.model_dump(mode="json"), "\n".join(_lines(shown)))


@autonomy.command("show")
@click.argument("proposal_id", metavar="CHANGE")
@pass_cli
def show_autonomy(cli: CliContext, proposal_id: str) -> None:
    """Show one change that you have approved, and what it was proposed on."""
    from silas.app.review import open_autonomy_service  # noqa: PLC0415 - as above

    found = with_core(cli, lambda core: open_autonomy_service(core).show(proposal_id))
    lines = [_change_line(found), f"  {_evidence(found)}"]
    cli.show(found.model_dump(mode="json"), "\n".join(lines))


@autonomy.command("tighten")
@pass_cli
def tighten(cli: CliContext) -> None:
    """Take back everything that was widened, at once. The settings hold again.

    It needs no approval, and nothing brings back what it ended: more is proposed only after new
    decisions of yours.
    """
    from silas.app.review import open_autonomy_service  # noqa: PLC0415 - as above

    done = with_core(cli, lambda core: open_autonomy_service(core).tighten())
    cli.show(done.model_dump(mode="json"), done.told)


@click.group(cls=JsonGroup)
def grants() -> None:
    """Show what you have allowed for a while, what was done under it, and take it back.

    A standing grant is proposed after you have approved the same call again and again. It holds by
    your signed yes alone, up to its end.
    """


@grants.command("list")
@pass_cli
def list_grants(cli: CliContext) -> None:
    """Show all standing grants, the newest first."""
    from silas.app.review import open_autonomy_service  # noqa: PLC0415 - as above

    found = with_core(cli, lambda core: open_autonomy_service(core).grants())
    lines = [_grant_line(each) for each in found] or ["You have given no standing grant."]
    data = [each.model_dump(mode="json", exclude={"uses"}) for each in found]
    cli.show({"grants": data}, "\n".join(lines))


@grants.command("show")
@click.argument("grant_id", metavar="GRANT")
@pass_cli
def show_grant(cli: CliContext, grant_id: str) -> None:
    """Show one grant: all that it allows, and every use."""
    from silas.app.review import open_autonomy_service  # noqa: PLC0415 - as above

    found = with_core(cli, lambda core: open_autonomy_service(core).grant(grant_id))
    lines = [_grant_line(found), *(f"  {visible(each)}" for each in found.words)]
    lines += [
        f"  {format_timestamp(each.at)}  {each.work_item_id}  {visible_json(each.args)}"
        for each in found.uses
    ]
    cli.show(found.model_dump(mode="json"), "\n".join(lines))


@grants.command("revoke")
@click.argument("grant_id", metavar="GRANT")
@pass_cli
def revoke_grant(cli: CliContext, grant_id: str) -> None:
    """Take a grant back, at once. What was done under it stays done."""
    from silas.app.review import open_autonomy_service  # noqa: PLC0415 - as above

    done = with_core(cli, lambda core: open_autonomy_service(core).revoke(grant_id))
    cli.show(done.model_dump(mode="json"), done.told)


def _grant_line(each: GrantShown) -> str:
    how = f"until {format_timestamp(each.until)}" if each.in_force else "ended"
    account = f" of {visible(each.account)}" if each.account else ""
    return (
        f"{each.grant_id}  {visible(each.tool)}{account}  {how}  "
        f"used {each.used} of {each.most}, {each.used_today} of {each.most_a_day} today"
    )


def _lines(shown: AutonomyShown) -> list[str]:
    lines = [] if shown.enabled else ["Nothing is proposed: autonomy.enabled is false."]
    for each in shown.thresholds:
        until = f" (until {format_timestamp(each.until)})" if each.until else ""
        usual = f", {each.as_set} by the settings" if each.changed else ""
        lines.append(f"{each.words}: {each.value}{usual}{until}")
    lines += [_change_line(each) for each in shown.changes]
    total = shown.total
    lines.append(
        f"You corrected {total.corrections} of {total.samples} decisions ({shown.window}). "
        f"A proposal needs {shown.needed}."
    )
    lines += [
        f"  {visible(each.family)}: {each.corrections} of {each.samples}" for each in shown.families
    ]
    lines += [_grant_line(each) for each in shown.grants]
    if shown.changes or shown.grants:
        lines.append("Take everything back: silas autonomy tighten")
    return lines


def _change_line(each: ChangeShown) -> str:
    return (
        f"{each.proposal_id}  {each.key}: {visible(each.before)} -> {visible(each.value)}  "
        f"until {format_timestamp(each.until)}"
    )


def _evidence(each: ChangeShown) -> str:
    corrected = round(each.correction_rate * each.sample_size)
    return f"Proposed on {each.sample_size} decisions, of which you had corrected {corrected}."
