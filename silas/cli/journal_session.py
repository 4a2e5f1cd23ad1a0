"""What commands of the journal have at hand: the journal, the owner's clock, names to ids."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from silas.app.core import Core
from silas.app.journal import change_journal, open_journal
from silas.cli.commands import CliContext, with_core
from silas.journal import Journal, Outcome
from silas.journal.conversation import read_recurrence
from silas.journal.lines import candidates, the_one
from silas.journal.models import KINDS, Category, Record, Task
from silas.kernel import format_timestamp
from silas.kernel.when import DayMeans, Prefer, parse_moment

SO_ALREADY = "It was like that already; nothing was changed."
T = TypeVar("T")
R = TypeVar("R", bound=Record)


@dataclass(frozen=True)
class JournalSession:
    """The journal of this call."""

    core: Core
    journal: Journal
    zone: ZoneInfo
    now: datetime

    async def do(
        self, operation: str, /, *, preview_only: bool = False, **arguments: Any
    ) -> Outcome:
        """Make an operation, where listeners hear of it."""
        return await change_journal(
            self.core, self.journal, operation, arguments, preview_only=preview_only
        )

    async def find(self, kind: type[R], text: str, *, deleted: bool = False) -> R:
        """The one record of this kind that is meant; raises if there is none or several."""
        name = str(kind.model_fields["kind"].default)
        found = await self.journal.read(
            lambda reader: the_one(
                reader, text, kinds={name}, deleted=deleted, likelier=_is_open_task
            )
        )
        return await self.journal.get(kind, found.id, deleted=deleted)

    async def find_any(self, text: str, *, deleted: bool = False) -> Record:
        """The one record of whatever kind that is meant."""
        kinds = set(KINDS) - {"link"}
        return await self.journal.read(
            lambda reader: the_one(reader, text, kinds=kinds, deleted=deleted)
        )

    async def category(self, text: str | None, *, make: bool = False) -> str | None:
        """The id of the category that is meant; one that is not there yet is made if wanted."""
        if text is None:
            return None
        known = await self.journal.read(lambda reader: candidates(reader, text, kinds={"category"}))
        if not known and make:
            made = await self.do("create_category", name=text)
            return str(made.payload["category_id"])
        return (await self.find(Category, text)).id

    def moment(self, text: str, *, prefer: Prefer = "future", day_means: DayMeans = "start") -> str:
        """A time as people write it, as an argument of an operation."""
        return format_timestamp(
            parse_moment(text, now=self.now, zone=self.zone, prefer=prefer, day_means=day_means)
        )

    def recurrence(self, text: str) -> dict[str, str]:
        """When something comes again, as an argument of an operation."""
        return read_recurrence(text, self.zone, day_means="end").model_dump()


def _is_open_task(record: Record) -> bool:
    """Of tasks of one name, the open one is meant, and not those of earlier weeks."""
    return isinstance(record, Task) and not record.closed


def with_journal(cli: CliContext, work: Callable[[JournalSession], Awaitable[T]]) -> T:
    """Open the journal, do the work, close it."""

    async def inside(core: Core) -> T:
        async with open_journal(core) as journal:
            zone = ZoneInfo(core.settings.scheduler.timezone)
            return await work(JournalSession(core, journal, zone, core.clock.now()))

    return with_core(cli, inside)


def shown(outcome: Outcome) -> dict[str, Any]:
    """An outcome for `--json`."""
    return outcome.model_dump(mode="json")
