"""Newer versions of a kind, one companion at a time; how each version does; and the way back.

1. A companion keeps the definition that it was made from. A newer file changes nothing by itself:
   the owner lets one companion of the kind have it (the canary), and the others stay as they are.
2. What the owner has set himself (from which risk on it asks) goes along. Its categories, model,
   budget, persona and timers are not touched: they are not the definition's any more.
3. A version that can do more than the one before (a tool, a capability, a field that a model is
   shown) says so before it is taken: `adds`.
4. How a version does is counted from the traces of its runs (`VersionFigures`), never guessed.
5. The way back is one step, to the very definition that was there before; it can be taken again.

The objectives (`OBJECTIVES`) are what a companion is held to in the last days, from the same
traces. Where there were no runs, nothing is said to be met.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType

from silas.companions.errors import CompanionInvalid
from silas.companions.ids import digest
from silas.companions.kinds.library import CompanionDefinition, Definitions, KindLibrary
from silas.companions.messages import EarlierDefinition, KeptDefinition, RunTrace
from silas.companions.models import WakeStatus
from silas.companions.store import CompanionStore
from silas.kernel.models import Data, UtcDatetime
from silas.storage import Transaction

WINDOW = timedelta(days=30)
_FEW_RUNS = 3
"""With fewer than these, a version is not called worse."""
_NOT_ITS_FAULT = frozenset({WakeStatus.CANCELLED})


class VersionFigures(Data):
    """How a version of a kind has done with one companion."""

    version: int
    definition_hash: str
    in_use: bool
    runs: int
    completed: int
    failed: int
    actions: int
    refused: int
    """Calls that the policy has refused: it wanted what it may not do."""
    reports_refused: int
    """Reports whose claims had no source."""
    tokens: int
    cost_micro_usd: int
    seconds: float
    """In the middle of its runs."""

    @property
    def score(self) -> float:
        """The share of runs that went through with a report and without a refused call."""
        if not self.runs:
            return 0.0
        return max(0.0, (self.completed - self.reports_refused) / self.runs) * (
            1 - (self.refused / self.actions if self.actions else 0)
        )


class Rollout(Data):
    """The versions of a companion's definition, and what is to be had."""

    agent_id: str
    kind: str
    version: int
    newest_version: int | None
    """Of its kind; None where the file is gone or wrong."""
    newer: bool
    adds: tuple[str, ...] = ()
    """What the newest can do that this one cannot."""
    can_go_back: bool
    worse: bool
    """Whether the version in use does worse than the one before: then going back is advised."""
    versions: tuple[VersionFigures, ...]


class Objective(Data):
    """One thing that companions are held to, and how it is."""

    name: str
    wanted: str
    is_now: str
    met: bool | None
    """None: nothing was measured yet."""


class Rollouts:
    """The versions of the companions of this device."""

    def __init__(self, store: CompanionStore, library: KindLibrary) -> None:
        self._store = store
        self._library = library
        self._definitions = Definitions(store)

    async def of(self, agent_id: str) -> Rollout:
        """How the versions of one companion do, and whether there is a newer one."""
        kept = await self._store.require(KeptDefinition, agent_id)
        now = CompanionDefinition.model_validate(kept.definition)
        newest = self._newest(now)
        earlier = await self._earlier(agent_id)
        figures = figures_of(await self._traces(agent_id), in_use=_key(now))
        previous = CompanionDefinition.model_validate(earlier[0].definition) if earlier else None
        return Rollout(
            agent_id=agent_id,
            kind=now.kind,
            version=now.version,
            newest_version=newest.version if newest else None,
            newer=newest is not None and _key(newest) != _key(now),
            adds=added(now, newest) if newest else (),
            can_go_back=bool(earlier),
            worse=previous is not None and is_worse(figures, _key(now), _key(previous)),
            versions=figures,
        )

    async def adopt(self, agent_id: str) -> Rollout:
        """Give this one companion the newest version of its kind; raises `CompanionInvalid`."""
        now = await self._definitions.of(agent_id)
        newest = self._newest(now)
        if newest is None or _key(newest) == _key(now):
            raise CompanionInvalid("It has the newest version of its kind already.")
        wanted = newest.model_copy(update={"confirm_from": now.confirm_from})
        await self._store.transaction(lambda tx: self._replace_in(tx, agent_id, wanted))
        return await self.of(agent_id)

    async def back(self, agent_id: str) -> Rollout:
        """Give it the definition that it had before; raises `CompanionInvalid`."""
        earlier = await self._earlier(agent_id)
        if not earlier:
            raise CompanionInvalid("It had no other version before.")
        before = CompanionDefinition.model_validate(earlier[0].definition)
        await self._store.transaction(lambda tx: self._replace_in(tx, agent_id, before))
        return await self.of(agent_id)

    async def objectives(self, agent_id: str | None = None) -> tuple[Objective, ...]:
        """What companions are held to, over the last days; of one, or of all."""
        return objectives_of(await self._traces(agent_id))

    def _newest(self, now: CompanionDefinition) -> CompanionDefinition | None:
        try:
            return self._library.get(now.kind)
        except CompanionInvalid:
            return None

    async def _earlier(self, agent_id: str) -> Sequence[EarlierDefinition]:
        return await self._store.find(
            EarlierDefinition, {"agent_id": agent_id}, newest_first=True, limit=1
        )

    async def _traces(self, agent_id: str | None) -> list[RunTrace]:
        since = self._store.clock.now() - WINDOW
        where = {} if agent_id is None else {"agent_id": agent_id}
        found = await self._store.find(RunTrace, where, newest_first=True, limit=_MOST_TRACES)
        return [each for each in found if each.started_at >= since]

    def _replace_in(self, tx: Transaction, agent_id: str, wanted: CompanionDefinition) -> None:
        kept = self._store.require_in(tx, KeptDefinition, agent_id)
        self._store.put_in(
            tx,
            EarlierDefinition(
                id=self._store.ids.new("definition"),
                agent_id=agent_id,
                definition=kept.definition,
                definition_hash=kept.definition_hash,
                replaced_at=self._store.clock.now(),
            ),
        )
        self._definitions.keep_in(tx, agent_id, wanted)


_MOST_TRACES = 2_000


def _key(definition: CompanionDefinition) -> str:
    """What makes it another version: everything but what the owner has set."""
    plain = definition.model_dump(mode="json", exclude={"confirm_from"})
    for name in ("tools", "capabilities", "provider_fields"):
        plain[name] = sorted(plain[name] or ())
    return digest("definition_version", plain)[:16]


def added(now: CompanionDefinition, newest: CompanionDefinition) -> tuple[str, ...]:
    """Rule 3."""
    fields = (newest.provider_fields or frozenset()) - (now.provider_fields or frozenset())
    return tuple(
        sorted({*(newest.tools - now.tools), *(newest.capabilities - now.capabilities), *fields})
    )


def figures_of(traces: Iterable[RunTrace], *, in_use: str) -> tuple[VersionFigures, ...]:
    """Rule 4: the newest version first."""
    by_key: dict[str, list[RunTrace]] = defaultdict(list)
    versions: dict[str, int] = {}
    for trace in traces:
        if trace.inputs.get("definition") and trace.status not in _NOT_ITS_FAULT:
            definition = CompanionDefinition.model_validate(trace.inputs["definition"])
            versions[_key(definition)] = definition.version
            by_key[_key(definition)].append(trace)
    ordered = sorted(by_key, key=lambda key: max(each.started_at for each in by_key[key]))
    return tuple(
        _figures(key, versions[key], by_key[key], in_use=key == in_use) for key in reversed(ordered)
    )


def _figures(key: str, version: int, runs: Sequence[RunTrace], *, in_use: bool) -> VersionFigures:
    calls = [call for each in runs for call in each.tool_calls]
    return VersionFigures(
        version=version,
        definition_hash=key,
        in_use=in_use,
        runs=len(runs),
        completed=sum(each.status is WakeStatus.COMPLETED for each in runs),
        failed=sum(each.status is WakeStatus.FAILED_TERMINAL for each in runs),
        actions=len(calls),
        refused=sum(call.error_code not in _NO_REFUSAL for call in calls),
        reports_refused=sum(
            any(each.check == "report_sources" for each in run.policy_decisions) for run in runs
        ),
        tokens=sum(each.usage.tokens for each in runs),
        cost_micro_usd=sum(each.usage.cost_micro_usd for each in runs),
        seconds=_middle([each.latency_ms / 1000 for each in runs]),
    )


_NO_REFUSAL = frozenset({None, "confirmation_required", "answer_required"})


def is_worse(figures: Sequence[VersionFigures], now: str, before: str) -> bool:
    """Whether the version in use does worse than the one before, with enough runs to say so."""
    known: Mapping[str, VersionFigures] = {each.definition_hash: each for each in figures}
    one, other = known.get(now), known.get(before)
    if one is None or other is None or min(one.runs, other.runs) < _FEW_RUNS:
        return False
    return one.score < other.score


OBJECTIVES: Mapping[str, float] = MappingProxyType(
    {"success": 0.95, "effects": 1.0, "seconds": 30.0, "usd_per_run": 0.10}
)


def objectives_of(traces: Sequence[RunTrace]) -> tuple[Objective, ...]:
    """Success, correctness of what was done, speed and cost, as the traces tell them."""
    runs = [each for each in traces if each.status not in _NOT_ITS_FAULT]
    done = sum(each.status is WakeStatus.COMPLETED for each in runs)
    calls = [call for each in runs for call in each.tool_calls if call.changed_entity_ids]
    once = len({call.operation_id for call in calls})
    slow = sorted(each.latency_ms / 1000 for each in runs)
    p95 = slow[min(len(slow) - 1, int(len(slow) * 0.95))] if slow else 0.0
    usd = sum(each.usage.cost_micro_usd for each in runs) / 1_000_000 / max(1, len(runs))
    share = done / len(runs) if runs else 0.0
    kept = once / len(calls) if calls else 1.0
    rows = (
        (
            "Runs that go through",
            f"at least {OBJECTIVES['success']:.0%}",
            f"{share:.0%}",
            share >= OBJECTIVES["success"],
        ),
        (
            "Writes that are made once",
            f"{OBJECTIVES['effects']:.0%}",
            f"{kept:.0%}",
            kept >= OBJECTIVES["effects"],
        ),
        (
            "Time of 95 of 100 runs",
            f"at most {OBJECTIVES['seconds']:.0f} s",
            f"{p95:.1f} s",
            p95 <= OBJECTIVES["seconds"],
        ),
        (
            "Cost of a run",
            f"at most ${OBJECTIVES['usd_per_run']:.2f}",
            f"${usd:.3f}",
            usd <= OBJECTIVES["usd_per_run"],
        ),
    )
    return tuple(
        Objective(
            name=name, wanted=wanted, is_now=now if runs else "no runs", met=met if runs else None
        )
        for name, wanted, now, met in rows
    )


def _middle(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else 0.0


class DiagnosticView(Data):
    """Something odd that was met and handled."""

    kind: str
    agent_id: str | None
    subject_id: str
    detail: dict[str, object]
    created_at: UtcDatetime
