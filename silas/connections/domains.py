"""What may cross from one domain to another: policies that the owner signed, and work kept apart.

1. Each account belongs to one domain, `personal` or such as `business:acme`.
2. What work has read of a domain stays with it: in its run, in work that follows from it, in files
   that it wrote, and in conversations that it answered in. Such work uses an account of another
   domain only by a policy from the first to the second.
3. A policy has a direction. It is signed on a card, listed, and taken back with one command, which
   needs no card; from then on nothing crosses by it.
4. A row that somebody else wrote or changed is no policy.
5. Work that has read more than can be told may have read of every domain.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from silas.approval.keys import Seal, Seals
from silas.connections.cards import CROSSING, DECLINE, ConnectionCards
from silas.connections.models import ConnectionRefused, DomainName
from silas.connections.registry import ConnectionStore
from silas.gates.risk import RiskLevel
from silas.kernel import SilasError, TaintLevel, format_timestamp
from silas.kernel.models import Data, UtcDatetime
from silas.kernel.taint import MAX_SOURCES
from silas.review.decisions import QuestionKind
from silas.review.questions import YES, Question, QuestionChoice, QuestionContent
from silas.storage import Durability, Transaction
from silas.tools.execution import ACCOUNT_OF

_SEALED = "domain_crossing"
_CROSSING = "crossing"
_SELECT = (
    "SELECT crossing_id, source, target, signed_at, seal_key_id, seal FROM domain_crossings "
    "ORDER BY source, target"
)
_INSERT = """
INSERT INTO domain_crossings (crossing_id, source, target, signed_at, seal_key_id, seal)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (source, target) DO UPDATE SET
    crossing_id = excluded.crossing_id, signed_at = excluded.signed_at,
    seal_key_id = excluded.seal_key_id, seal = excluded.seal
"""
# Sources are words for the owner; the runtime alone writes those of accounts, and of files that
# were made from what was read there.
_OF_ACCOUNT = re.compile(
    rf"(?:\A|\(made from |, ){ACCOUNT_OF}([a-z][a-z0-9-]*(?::[a-z0-9][a-z0-9-]*)?): ", re.ASCII
)


class DomainCrossing(Data):
    """A policy: what work has read of `source` may be used with accounts of `target`."""

    crossing_id: str
    source: DomainName
    target: DomainName
    signed_at: UtcDatetime
    intact: bool = False
    """Whether the row is as the owner's key has sealed it; if not, nothing crosses by it."""


def account_source(name: str, domain: str) -> str:
    """An account as the source of what was read in it."""
    return f"{ACCOUNT_OF}{domain}: {name}"


def domains_in(sources: Iterable[str], every: Iterable[str]) -> set[str]:
    """The domains of the accounts among these sources (rule 5: `every` one, if some were cut)."""
    told = list(sources)
    found = {name for each in told for name in _OF_ACCOUNT.findall(each)}
    return found | set(every) if len(told) >= MAX_SOURCES else found


@dataclass(frozen=True)
class DomainPolicies:
    """The policies of one data directory, and which domains work has read of."""

    store: ConnectionStore

    async def listed(self) -> list[DomainCrossing]:
        """All of them, by their domains."""
        rows = await self.store.database.fetch_all(_SELECT)
        return await asyncio.to_thread(lambda: [self._crossing(tuple(row)) for row in rows])

    async def refused(
        self, target: str, *, work: Sequence[str], sources: Sequence[str] = ()
    ) -> list[str]:
        """The domains that this work has read of and that may not cross to `target` (rule 2)."""
        every = {each.domain for each in await self.store.listed()}
        seen = domains_in(sources, every) | await self._read_by(work)
        if not seen - {target}:
            return []
        open_ = {
            each.source for each in await self.listed() if each.intact and each.target == target
        }
        return sorted(seen - {target} - open_)

    async def note(self, work: str, domain: str) -> None:
        """This work has read of this domain."""
        await self.store.database.execute(
            "INSERT INTO work_read_domains (work_item_id, domain) VALUES (?, ?) "
            "ON CONFLICT (work_item_id, domain) DO NOTHING",
            (work, domain),
        )

    async def _read_by(self, work: Sequence[str]) -> set[str]:
        marks = ", ".join("?" * len(work))
        rows = await self.store.database.fetch_all(
            f"SELECT domain FROM work_read_domains WHERE work_item_id IN ({marks})",  # noqa: S608
            tuple(work),
        )
        return {str(row[0]) for row in rows}

    async def keep(self, crossing: DomainCrossing) -> None:
        """Put a policy into force, sealed and logged; the owner has signed its card."""
        sealed = _sealed_fields(crossing)
        seal = await asyncio.to_thread(Seals(self.store.keys).sign, _SEALED, sealed)
        row = (*sealed.values(), seal.key_id, seal.signature)

        def write(tx: Transaction) -> None:
            tx.execute(_INSERT, row)
            self.store.audit.append(tx, "domain_crossing_allowed", dict(sealed))

        await self.store.database.transaction(write, durability=Durability.TRUST)

    async def after_what_ended(self, source: str, target: str) -> datetime:
        """Now, and in any case later than the policies between these two that were taken back."""
        until = await asyncio.to_thread(self.store.keys.ended.until, f"{source}>{target}")
        now = self.store.clock.now()
        return now if until is None else max(now, until + timedelta(microseconds=1))

    async def take_back(self, source: str, target: str) -> None:
        """Rule 3; raises `ConnectionRefused` if there is none."""
        known = [
            each for each in await self.listed() if (each.source, each.target) == (source, target)
        ]
        if not known:
            raise ConnectionRefused(f"Nothing may cross from {source} to {target} as it is.")
        entry = {"source": source, "target": target}

        def write(tx: Transaction) -> None:
            tx.execute(
                "DELETE FROM domain_crossings WHERE source = ? AND target = ?", (source, target)
            )
            self.store.audit.append(tx, "domain_crossing_taken_back", entry)

        await self.store.database.transaction(write, durability=Durability.TRUST)
        # A row with a genuine seal that somebody puts back lets nothing cross.
        latest = max(each.signed_at for each in known)
        ended = max(latest, self.store.clock.now())
        await asyncio.to_thread(self.store.keys.ended.end, [f"{source}>{target}"], ended)

    def _crossing(self, row: tuple[Any, ...]) -> DomainCrossing:
        name, source, target, signed_at, key_id, signature = row
        found = DomainCrossing(crossing_id=name, source=source, target=target, signed_at=signed_at)
        holds = Seals(self.store.keys).holds(
            Seal(key_id, signature), _SEALED, _sealed_fields(found), at=found.signed_at
        )
        intact = holds and not self._has_ended(found)
        return found.model_copy(update={"intact": intact})

    def _has_ended(self, crossing: DomainCrossing) -> bool:
        name = f"{crossing.source}>{crossing.target}"
        try:
            return self.store.keys.ended.covers(name, crossing.signed_at)
        except SilasError:  # a vault that does not open vouches for nothing
            return True


def _sealed_fields(crossing: DomainCrossing) -> dict[str, str]:
    return {
        "crossing_id": crossing.crossing_id,
        "source": crossing.source,
        "target": crossing.target,
        "signed_at": format_timestamp(crossing.signed_at),
    }


@dataclass(frozen=True)
class DomainCards:
    """Asks the owner what may cross, and follows the answer (rule 3)."""

    policies: DomainPolicies
    cards: ConnectionCards
    changed: list[Callable[[], None]] = field(default_factory=list)
    """Called when there is another policy."""

    async def ask(self, source: str, target: str) -> Question | None:
        """Put a policy before the owner; None: it is in force. Raises `ConnectionRefused`."""
        if source == target:
            raise ConnectionRefused("That is one domain: nothing has to cross.")
        accounts = await self.policies.store.listed()
        for domain in (source, target):
            if not any(each.domain == domain for each in accounts):
                known = ", ".join(sorted({each.domain for each in accounts})) or "none"
                raise ConnectionRefused(f"No account belongs to {domain}. There are: {known}.")
        known_ones = await self.policies.listed()
        if any(
            (each.source, each.target, each.intact) == (source, target, True) for each in known_ones
        ):
            return None
        named = {
            domain: [each.name for each in accounts if each.domain == domain]
            for domain in (source, target)
        }
        identity = self.cards.ids.new(_CROSSING)
        return await self.cards.ask(
            f"{CROSSING}:{source}>{target}",
            QuestionContent(
                kind=QuestionKind.DOMAIN,
                intent=f"Let what Silas reads in {source} be used in {target}?",
                rationale="You asked for it. Without it, no work uses both.",
                risk=RiskLevel.HIGH,
                taint=TaintLevel.OWNER,
                actions=[
                    QuestionChoice(value=YES, label="Let it cross"),
                    QuestionChoice(value=DECLINE, label="Keep them apart"),
                ],
                body={
                    "summary": [
                        f"Read in {source}: {', '.join(named[source])}.",
                        f"May then be used in {target}: {', '.join(named[target])}.",
                        f"This lets nothing cross the other way, from {target} to {source}.",
                        "What each account may do stays as it is.",
                        "It holds until you take it back.",
                    ],
                    "crossing": {"approval_id": identity, "source": source, "target": target},
                },
            ),
        )

    async def answered(self, subject: str) -> None:
        """Follow the owner's answer to a card, once."""
        found = await self.cards.answered(subject.rpartition(":")[2])
        if found is None or found.value != YES or not await self.cards.use(found):
            return
        shown = found.question.content.body["crossing"]
        await self.policies.keep(
            DomainCrossing(
                crossing_id=shown["approval_id"],
                source=shown["source"],
                target=shown["target"],
                signed_at=await self.policies.after_what_ended(shown["source"], shown["target"]),
            )
        )
        for hear in self.changed:
            hear()
