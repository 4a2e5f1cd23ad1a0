"""How well the owner and Silas decide together, in figures.

They come from the audit log alone; but what was corrected comes from the outcomes that autonomy
rests on, so that both say the same.
"""

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta
from enum import StrEnum

from silas.audit.models import AuditEntry, AuditTrail
from silas.kernel import Clock
from silas.kernel.models import Data
from silas.proactive.outcomes import OutcomeStore, Tally, of_actions
from silas.review.cards import UNDO
from silas.review.decision_log import Decided, decisions
from silas.stream.cadence import FATIGUE

_DAYS_A_WEEK = 7
_MAX_ENTRIES = 1_000_000
_ENOUGH = 10
"""Of fewer cases, a share says nothing: of two decisions none is declined by chance."""
_CORRECTED = frozenset({"declined", "edit_requested"})
_BATCH, _ITEMS, _ITEMS_DONE, _TAKEN_BACK = (
    "batch_decided",
    "items_decided",
    "items_done",
    "call_undone",
)
_OF_ITEMS = {"approve": "approved", "edit_selection": "edit_requested", "decline": "declined"}
_UNDOING = f"{UNDO}_"
"""What takes work back is a plan of its own, with an id that says so."""


class Signal(StrEnum):
    """What a figure says."""

    GOOD = "good"
    LOW = "low"
    HIGH = "high"
    UNKNOWN = "unknown"
    """Too little has happened."""


class Metric(Data):
    """One figure, and what it should be."""

    name: str
    value: float | None
    unit: str
    samples: int
    target: str
    signal: Signal
    means: str = ""
    """What it says, if it is not good."""


class Target(Data):
    """From where to where a figure is good, and what it means outside."""

    words: str
    lowest: float = 0.0
    highest: float
    too_low: str = ""
    too_high: str = ""
    below: bool = False
    """Whether the highest itself is too high already."""

    def judge(self, value: float | None) -> tuple[Signal, str]:
        """What a figure says."""
        if value is None:
            return Signal.UNKNOWN, ""
        if value < self.lowest:
            return Signal.LOW, self.too_low
        if value > self.highest or (self.below and value == self.highest):
            return Signal.HIGH, self.too_high
        return Signal.GOOD, ""


_LOW_RISK = Target(words="2-5 s", lowest=1, highest=30, too_low="fatigue", too_high="confusion")
_MEDIUM_RISK = _LOW_RISK.model_copy(update={"words": "5-15 s"})
_TAPS = Target(words="at most 3", highest=3, too_high="the page is in the way")
_DECLINED = Target(
    words="5-15 %", lowest=2, highest=30, too_low="rubber-stamping", too_high="bad proposals"
)
_DONE = frozenset({"work_done", "work_unchecked"})
_UNDONE = Target(words="below 10 %", highest=10, too_high="proposals need calibration", below=True)
_CORRECTIONS = Target(
    words="below 10 %", highest=10, too_high="less autonomy is better", below=True
)
_TRIGGERS = Target(
    words="below 1 a week", highest=1, too_high="too many approvals are asked for", below=True
)
_FREE = Target(words="below 20 %", highest=20, too_high="more could be offered to tap", below=True)


def ux_metrics(
    entries: Sequence[AuditEntry], *, days: float, decided: Tally | None = None
) -> list[Metric]:
    """The figures of these entries, which are those of the last `days`, and of what was decided."""
    made = list(decisions(entries))
    seen = Counter(entry.event for entry in entries)
    calls = [str(e.data.get("verdict")) for e in entries if e.event == "paused_call_decided"]
    items = [_OF_ITEMS.get(str(e.data.get("verdict")), "") for e in entries if e.event == _ITEMS]
    verdicts = [*(each.verdict for each in made if each.is_plan), *calls, *filter(None, items)]
    corrected = sum(verdict in _CORRECTED for verdict in verdicts)
    said = seen["turn_routed"]
    done, undone = _done_and_undone(entries)
    corrections = (
        (corrected + undone, len(verdicts))
        if decided is None
        else (decided.corrections, decided.samples)
    )
    return [
        _seconds("decision_seconds_low", _of_risk(made, "low"), _LOW_RISK),
        _seconds("decision_seconds_medium", _of_risk(made, "medium"), _MEDIUM_RISK),
        _middle("taps_per_batch", _taps(entries), _TAPS, unit="taps"),
        _share("decline_rate", verdicts.count("declined"), len(verdicts), _DECLINED),
        _share("undo_rate", undone, done, _UNDONE),
        _share("correction_rate", *corrections, _CORRECTIONS),
        _per_week("fatigue_triggers", seen[FATIGUE], days, _TRIGGERS),
        _share("free_text_rate", said, said + len(verdicts), _FREE),
    ]


async def metrics_of(
    log: AuditTrail, clock: Clock, outcomes: OutcomeStore, *, owner_id: str, days: int
) -> list[Metric]:
    """The figures of the last days."""
    since = clock.now() - timedelta(days=days)
    entries = await log.tail(_MAX_ENTRIES, since=since)
    decided = of_actions(await outcomes.cases(owner_id, since=since))
    return ux_metrics(entries, days=days, decided=decided)


def _of_risk(made: Iterable[Decided], risk: str) -> list[float]:
    return [each.seconds for each in made if each.risk == risk]


def _done_and_undone(entries: Iterable[AuditEntry]) -> tuple[int, int]:
    """How much was done, and how much of it was taken back: work as a whole, a batch by item."""
    done, batches, taken_back = list[str](), dict[str, int](), list[str]()
    for entry in entries:
        name = str(entry.data.get("work_item_id"))
        if entry.event in _DONE:
            done.append(name)
        elif entry.event == _ITEMS_DONE:
            batches[str(entry.data.get("batch"))] = int(entry.data.get("done") or 0)
        elif entry.event == _TAKEN_BACK:
            taken_back.append(name)
    undoing = sum(name.startswith(_UNDOING) for name in done)
    by_item = sum(name in batches for name in taken_back)
    by_work = len({name for name in taken_back if name not in batches})
    return len(done) - undoing + sum(batches.values()), undoing + by_item + by_work


def _taps(entries: Iterable[AuditEntry]) -> list[float]:
    """The taps for each batch that was approved, with those that chose from it before."""
    found, before = list[float](), dict[str, float]()
    for entry in entries:
        taps = entry.data.get("taps")
        if entry.event not in (_BATCH, _ITEMS) or not isinstance(taps, int | float):
            continue
        so_far = taps + before.get(str(entry.data.get("chosen_from")), 0.0)
        if entry.event == _BATCH or entry.data.get("verdict") == "approve":
            found.append(float(so_far))
        else:
            before[str(entry.data.get("batch"))] = so_far
    return found


def _seconds(name: str, values: Sequence[float], target: Target) -> Metric:
    return _middle(name, values, target, unit="s")


def _middle(name: str, values: Sequence[float], target: Target, *, unit: str) -> Metric:
    value = statistics.median(values) if values else None
    return _metric(name, value, target, unit=unit, samples=len(values))


def _share(name: str, part: int, whole: int, target: Target) -> Metric:
    value = min(100.0, 100 * part / whole) if whole else None
    return _metric(name, value, target, unit="%", samples=whole)


def _per_week(name: str, count: int, days: float, target: Target) -> Metric:
    value = count * _DAYS_A_WEEK / max(days, _DAYS_A_WEEK)
    return _metric(name, value, target, unit="a week", samples=count)


def _metric(name: str, value: float | None, target: Target, *, unit: str, samples: int) -> Metric:
    judged = unit != "%" or samples >= _ENOUGH
    signal, means = target.judge(value if judged else None)
    return Metric(
        name=name,
        value=None if value is None else round(value, 2),
        unit=unit,
        samples=samples,
        target=target.words,
        signal=signal,
        means=means,
    )


_NAMES = {
    "decision_seconds_low": "Time to decide, low risk",
    "decision_seconds_medium": "Time to decide, medium risk",
    "taps_per_batch": "Taps for several things at once",
    "decline_rate": "What you declined",
    "undo_rate": "What you undid, of all that was done",
    "correction_rate": "What you changed, declined or undid, of all that you decided",
    "fatigue_triggers": "Times that you decided too fast",
    "free_text_rate": "Typed, where a tap would do",
}


def in_words(metric: Metric) -> str:
    """One figure as a person reads it."""
    name = _NAMES[metric.name]
    if metric.value is None:
        return f"{name}: nothing to measure yet (good is {metric.target})"
    line = f"{name}: {metric.value:g} {metric.unit} of {metric.samples} (good is {metric.target})"
    if metric.signal is Signal.UNKNOWN:
        return f"{line}: too few to say"
    return line if metric.signal is Signal.GOOD else f"{line}: {metric.means or metric.signal}"
