"""The journal, wired: its file, and how a change finds the process whose companions listen.

1. One process at a time has listeners: the running server. Whoever else wants to change something
   asks it over the control socket, so that the change is heard.
2. Without a server the change is made to the file. It is written down with its provenance, so that
   the server catches up when it starts.
3. Reading needs nobody.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from silas.app.ground import Ground
from silas.app.instance import NotRunning, ServerRefused, call_server
from silas.app.machine import OpenDatabase
from silas.app.paths import Paths
from silas.journal import OWNER, Journal, Outcome, desk
from silas.kernel import Clock, IdFactory, JournalError, ServerError
from silas.storage import SqliteDatabase, load_migrations, migrate

ACTOR = "owner"
METHOD = "journal"
"""The method of the control socket."""


@contextlib.asynccontextmanager
async def open_journal(ground: Ground) -> AsyncIterator[Journal]:
    """The journal of this data directory; at the end everybody has heard what was changed."""
    async with open_journal_file(
        ground.paths,
        clock=ground.clock,
        ids=ground.ids,
        open_database=ground.machine.open_database,
    ) as journal:
        yield journal


@contextlib.asynccontextmanager
async def open_journal_file(
    paths: Paths,
    *,
    clock: Clock,
    ids: IdFactory,
    open_database: OpenDatabase = SqliteDatabase.open,
) -> AsyncIterator[Journal]:
    """The same, for whoever needs nothing else; the file is made if it is not there yet."""
    database = open_database(paths.journal)
    try:
        await migrate(database, load_migrations("journal"), clock=clock)
        journal = await Journal.open(database, clock=clock, ids=ids)
        try:
            yield journal
            await journal.settled()
        finally:
            await journal.close()
    finally:
        await database.close()


async def renew_host(paths: Paths, *, clock: Clock) -> None:
    """Give a journal that was brought back a new name in vector clocks.

    The old one goes on where it was, or did: two devices of one name would count alike, and their
    writes could not be told apart.
    """
    if not paths.journal.exists():
        return
    database = SqliteDatabase.open(paths.journal)
    try:
        await migrate(database, load_migrations("journal"), clock=clock)
        name = IdFactory(clock).new("host")
        await database.execute("UPDATE journal_host SET host_id = ?, counter = 0", (name,))
    finally:
        await database.close()


class JournalLine:
    """How other commands of the owner's change the journal of a running server."""

    def __init__(self) -> None:
        self._journal: Journal | None = None

    @contextlib.contextmanager
    def connected(self, journal: Journal) -> Iterator[None]:
        """Answer with this journal, for as long as it is open."""
        self._journal = journal
        try:
            yield
        finally:
            self._journal = None

    async def answer(self, params: dict[str, Any]) -> dict[str, Any]:
        """Control: make an operation in the owner's name."""
        if self._journal is None:
            raise ServerError("Silas is just starting or stopping. Try again in a moment.")
        operation, arguments = params.get("operation"), params.get("arguments")
        if not isinstance(operation, str) or not isinstance(arguments, dict):
            raise ServerError("Name the operation and its arguments.")
        outcome = await desk.call(
            self._journal,
            operation,
            arguments,
            scope=OWNER,
            actor=ACTOR,
            operation_id=params.get("operation_id"),
            preview_only=params.get("preview_only") is True,
        )
        return outcome.model_dump(mode="json")


async def change_journal(
    ground: Ground,
    journal: Journal,
    operation: str,
    arguments: Mapping[str, Any],
    *,
    operation_id: str | None = None,
    preview_only: bool = False,
) -> Outcome:
    """Make an operation in the owner's name, where it is heard (rules 1 and 2)."""
    params = {
        "operation": operation,
        "arguments": dict(arguments),
        "operation_id": operation_id,
        "preview_only": preview_only,
    }
    try:
        answer = await asyncio.to_thread(call_server, ground.paths, METHOD, params)
    except NotRunning:
        return await desk.call(
            journal,
            operation,
            arguments,
            scope=OWNER,
            actor=ACTOR,
            operation_id=operation_id,
            preview_only=preview_only,
        )
    except ServerRefused as refused:
        raise _as_it_was(refused) from refused
    return Outcome.model_validate(answer)


def _as_it_was(refused: ServerRefused) -> Exception:
    """The journal's own error, so that its code and exit code are the same either way."""
    answer = refused.details.get("answer", {})
    every: list[type[JournalError]] = [JournalError, *JournalError.__subclasses__()]
    kinds = {kind.code: kind for kind in every}
    kind = kinds.get(answer.get("code"))
    if kind is None:
        return refused
    return kind(
        answer.get("message"),
        correlation_id=answer.get("correlation_id"),
        **answer.get("details", {}),
    )
