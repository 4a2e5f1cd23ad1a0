"""The journal, wired: its file, and how a change finds the process whose companions listen.

1. One process at a time has listeners: the running server. Whoever else wants to change something
   asks it over the owner's socket, so that the change is heard.
2. Without a server the change is made to the file. It is written down with its provenance, so that
   the server catches up when it starts.
3. Reading needs nobody.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

from pydantic_core import to_jsonable_python

from silas.app.client import NotRunning, call_server
from silas.app.core import Core, OpenDatabase
from silas.journal import Journal, Outcome
from silas.kernel import Clock, IdFactory
from silas.settings.paths import Paths
from silas.storage import SqliteDatabase, load_migrations, migrate
from silas.web.commands import read_strictly
from silas.web.journal_commands import JOURNAL_COMMANDS, request_of, run_operation


@contextlib.asynccontextmanager
async def open_journal(core: Core) -> AsyncIterator[Journal]:
    """The journal of this data directory; at the end everybody has heard what was changed."""
    async with open_journal_file(
        core.paths,
        clock=core.clock,
        ids=core.ids,
        open_database=core.machine.open_database,
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


async def change_journal(
    core: Core,
    journal: Journal,
    operation: str,
    arguments: Mapping[str, Any],
    *,
    operation_id: str | None = None,
    preview_only: bool = False,
) -> Outcome:
    """Make an operation in the owner's name, where it is heard (rules 1 and 2)."""
    command = JOURNAL_COMMANDS[operation]
    given = to_jsonable_python(
        {"arguments": arguments, "operation_id": operation_id, "preview_only": preview_only}
    )
    request = read_strictly(request_of(command), given, command.refusal)
    try:
        answer = await asyncio.to_thread(
            call_server, core.paths, f"/api/journal/{operation}", given
        )
    except NotRunning:
        return await run_operation(command, journal, request)
    return Outcome.model_validate(answer)
