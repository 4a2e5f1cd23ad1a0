"""`silas memory export`, `import` and `forget`."""

import hashlib
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from silas.app.ground import Ground
from silas.app.memory import open_memory
from silas.app.traces import ConversationTraces
from silas.approval import Approvable, ApprovalDecision, ApprovalToken, ApprovalVerdict
from silas.cli.commands import JsonCommand
from silas.cli.context import CliContext, pass_cli
from silas.cli.memory_reading import SCOPE, line_of
from silas.cli.moments import moment
from silas.cli.opening import with_ground
from silas.cli.terminal import confirm, on_terminal
from silas.kernel import strict_loads, visible_json
from silas.memory.bundles import BundleEnd
from silas.memory.confirmations import CONFIRMATION, MemoryClaim
from silas.memory.errors import BundleRefused
from silas.memory.forgetting import Forgetting, Forgotten, Selection
from silas.memory.models import MemoryItem, TrustLevel
from silas.memory.portability import MODES, MemoryPortability
from silas.memory.store import MemoryStore
from silas.storage.errors import translated
from silas.storage.files import PRIVATE_FILE

_YES = ApprovalDecision(verdict=ApprovalVerdict.APPROVED)
_APPROVE = click.option(
    "--approve",
    metavar="HASH",
    help="The full hash of what is confirmed, as this command shows it.",
)
_LISTED = 20


@click.command(cls=JsonCommand)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--since", type=moment, metavar="TIME", help="Only what was changed since then.")
@click.option("--no-raw", is_flag=True, help="Without the raw lane.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@SCOPE
@pass_cli
def export(
    cli: CliContext, file: Path, *, since: datetime | None, no_raw: bool, force: bool, scope: str
) -> None:
    """Write memories to FILE, a bundle that proves itself."""
    if file.exists() and not force:
        raise click.BadParameter(f"{file} exists already. Choose another name, or use --force.")
    with translated(str(file)):
        file.touch(mode=PRIVATE_FILE)

    async def work(ground: Ground) -> BundleEnd:
        async with open_memory(ground, vectors=False) as room:
            moving = MemoryPortability(room.memories, scope, keys=ground.keys)
            with translated(str(file)), file.open("wb") as bundle:
                return await moving.export_to(bundle.write, since=since, include_raw=not no_raw)

    end = with_ground(cli, work)
    cli.show(
        {"file": str(file), **asdict(end)},
        f"Wrote {end.count} memories to {file} (sha256 {end.sha256}).",
    )


@click.command("import", cls=JsonCommand)
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--mode", type=click.Choice(MODES), default="merge", show_default=True)
@click.option("--confirm", "wants", is_flag=True, help="Confirm that all of it is your own.")
@_APPROVE
@SCOPE
@pass_cli
def import_(
    cli: CliContext, file: Path, *, mode: str, wants: bool, approve: str | None, scope: str
) -> None:
    """Take the bundle in FILE in, all or nothing.

    Without a confirmation nothing in it is trusted more than before, and a bundle that your key did
    not sign counts as text from outside.
    """

    async def work(ground: Ground) -> dict[str, int]:
        async with open_memory(ground, vectors=False) as room:
            moving = MemoryPortability(room.memories, scope, keys=ground.keys)
            with translated(str(file)), file.open("rb") as bundle:

                def lines() -> Any:
                    bundle.seek(0)
                    return bundle

                token = None
                if wants or approve:
                    token = await _confirmed(cli, ground, moving.claim(lines, mode), approve)
                    if token is None:
                        raise BundleRefused("It was not confirmed. Nothing was imported.")
                return await moving.import_from(lines, mode, token=token)

    done = with_ground(cli, work)
    cli.show(done, ", ".join(f"{name} {many}" for name, many in done.items()))


@click.command(cls=JsonCommand)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--query", metavar="WORDS", help="Those that hold all these words.")
@click.option("--source", metavar="KIND", help="Those from this source, e.g. tool_output_raw.")
@click.option("--since", type=moment, metavar="TIME", help="Those from then on.")
@click.option("--until", type=moment, metavar="TIME", help="Those before then.")
@click.option("--yes", is_flag=True, help="Do not ask. What is trusted stays all the same.")
@_APPROVE
@SCOPE
@pass_cli
def forget(
    cli: CliContext,
    ids: tuple[str, ...],
    *,
    query: str | None,
    source: str | None,
    since: datetime | None,
    until: datetime | None,
    yes: bool,
    approve: str | None,
    scope: str,
) -> None:
    """Remove memories for good: their text, words, vectors, counts, and the links to them.

    What was kept from a message goes from the conversation as well: chronicle, archive, deliveries.
    If several options are given, all must hold. Trusted memories go only if you confirm them.
    """

    async def work(ground: Ground) -> Forgotten | None:
        async with open_memory(ground) as room:
            names = await _whole_ids(room.memories.of(scope), ids)
            selection = Selection(names, query, source, since, until)
            traces = ConversationTraces(ground)
            forgetting = Forgetting(room.memories, scope, index=room.index, traces=traces)
            found = await forgetting.preview(selection)
            if not found:
                return None
            _announce(cli, found)
            confirm(f"Forget {len(found)} memories for good?", yes=yes or approve is not None)
            trusted = tuple(i for i in found if i.trust_level is not TrustLevel.WORKING)
            token = None
            if trusted:
                claim = MemoryClaim("forget", scope, trusted)
                token = await _confirmed(cli, ground, claim, approve)
            return await forgetting.forget(selection, token=token)

    done = with_ground(cli, work)
    if done is None:
        cli.show(asdict(Forgotten(0, 0, 0, 0, ())), "Nothing fits; nothing was forgotten.")
        return
    told = (
        f"Forgot {done.memories} memories, {done.vectors} vectors, {done.links} links to them, "
        f"and {done.said} records of what was said."
    )
    if done.kept:
        told += f" Kept {len(done.kept)} that are trusted: {', '.join(done.kept)}."
    cli.show(asdict(done), told)


async def _whole_ids(store: MemoryStore, ids: tuple[str, ...]) -> tuple[str, ...]:
    """Ids whose beginnings were given; what is not known is left as it is, and fits nothing."""
    found = [await store.find(name) for name in ids]
    return tuple(
        item.memory_id if item is not None else name for name, item in zip(ids, found, strict=True)
    )


def _announce(cli: CliContext, found: list[MemoryItem]) -> None:
    for item in found[:_LISTED]:
        cli.say(line_of(item))
    if len(found) > _LISTED:
        cli.say(f"… and {len(found) - _LISTED} more")


async def _confirmed(
    cli: CliContext, ground: Ground, claim: Approvable, approve: str | None
) -> ApprovalToken | None:
    """The owner's token for exactly this, or None; nobody there to ask means no."""
    shown = claim.plan_bytes()
    digest = hashlib.sha256(shown).hexdigest()
    cli.say(f"{visible_json(strict_loads(shown))}\nhash {digest}")
    if approve is not None:
        if approve != digest:
            raise click.UsageError(f"--approve must be the hash of what is shown: {digest}")
    elif not _agrees(cli):
        return None
    return await ground.approvals.issue_token(claim, _YES, CONFIRMATION)


def _agrees(cli: CliContext) -> bool:
    if not on_terminal() or cli.as_json:
        return False
    return bool(click.confirm("Confirm exactly this?", default=False, err=True))
