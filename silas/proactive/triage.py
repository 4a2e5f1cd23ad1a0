"""What fits which item, and how surely: rules first, then what the owner decided before.

Pure: items, rules and evidence in, proposals out. In this order, and the first that fits decides:

1. A rule that the owner has signed on a teaching card, then the rules of the goal's policy.
2. The habit: what the owner decided about earlier items of the same sender, if the owner's
   provider vouches for the sender.
3. A model's guess, where the goal's policy wants one: it sees sender, subject and date, has no
   tools, and what it says is one of the actions. No word of it is shown.
4. Nothing: the item is `novel`, and the owner is asked what to do with it.

How sure that is (`confidence`) is the share that was right, as the owner's own decisions say: what
was chosen by hand is right, what was taken out, declined or undone is wrong, and a tick that nobody
touched says nothing. Before there are decisions, a guess stands in for some of them (`_PRIORS`).

What is ticked beforehand: an item that a rule of the owner's has selected by a sender whom it names
and the owner's provider vouches for, if that is sure enough, and nothing about it is odd. What was
selected by a stranger's text, by habit or by a reader is not; a sender whom no rule names has said
everything about the item, also that it is of a mailing list and how old it is. Odd is whoever
claims to be a sender that a rule names and is not vouched for, and what differs from the others
that the same rule has selected.
"""

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import parseaddr, parsedate_to_datetime
from enum import StrEnum
from typing import Any, NamedTuple

from silas.kernel import parse_timestamp, visible
from silas.kernel.models import Data, UtcDatetime
from silas.work.batch_policy import LEAVE, BatchPolicy, BatchRule, ItemCondition, ItemSource

MOST_ITEMS = 1_000
_LONGEST_ID, _LONGEST_TEXT = 600, 160
_FEWEST_ALIKE = 3
_IN_CONVERSATION = re.compile(r"(?i)^\s*(re|aw|sv|antw|fwd?|wg)\s*:")
UNVOUCHED = "It says that it is from {sender}, and nobody vouches for that."
UNLIKE = "It is unlike the others of this rule: {how}."


class SourceNotUnderstood(Exception):
    """The source has answered something that holds no items; the text says what."""


class Band(StrEnum):
    """How sure it is what fits an item."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    NOVEL = "novel"


class Bands(Data):
    """Where the bands begin."""

    high_min: float = 0.85
    medium_min: float = 0.50

    def of(self, confidence: float) -> Band:
        """The band of something that is known to some degree."""
        if confidence >= self.high_min:
            return Band.HIGH
        return Band.MEDIUM if confidence >= self.medium_min else Band.LOW


class SeenItem(Data):
    """One item, as far as it is looked at. All texts are a stranger's."""

    item_id: str
    title: str
    actor: str
    address: str
    """The sender's address in lower case; it means nothing unless it is verified."""
    occurred_at: UtcDatetime | None = None
    verified: bool = False
    """Whether the owner's provider vouches for the sender."""
    mailing_list: bool = False
    unread: bool | None = None
    state: str = ""
    identity: str = ""
    """By what it is known again when it was moved and brought back."""

    @property
    def domain(self) -> str:
        """The sender's domain."""
        return self.address.rpartition("@")[2]


class TaughtRule(NamedTuple):
    """A rule that the owner has signed on a teaching card."""

    rule_id: str
    when: ItemCondition
    then: str


class Basis(StrEnum):
    """What a choice rests on."""

    TAUGHT = "taught"
    RULE = "rule"
    HABIT = "habit"
    READER = "reader"
    NOTHING = "nothing"


@dataclass(frozen=True)
class ItemChoice:
    """What fits one item."""

    item: SeenItem
    action: str | None
    basis: Basis
    key: str
    """What the choice rests on, by name: evidence is kept by it."""
    reason: str
    confidence: float
    band: Band
    trusted: bool = False
    """Whether a rule of the owner's has selected the item by what can be trusted alone."""
    anomaly: str = ""

    @property
    def ticked(self) -> bool:
        """Whether the item is ticked beforehand."""
        return self.trusted and self.band is Band.HIGH and not self.anomaly


class ItemEvidence(NamedTuple):
    """How often a choice was right, and how often wrong, by what the owner did."""

    right: int = 0
    wrong: int = 0

    def plus(self, *, right: int = 0, wrong: int = 0) -> "ItemEvidence":
        """With more of it."""
        return ItemEvidence(self.right + right, self.wrong + wrong)


class _Prior(NamedTuple):
    """What is believed before there are decisions, and how many decisions that is worth."""

    share: float
    weight: float


_PRIORS = {
    "trusted": _Prior(0.92, 12.0),
    "text": _Prior(0.75, 4.0),
    Basis.HABIT: _Prior(0.5, 2.0),
    Basis.READER: _Prior(0.6, 5.0),
}


def calibrated(found: ItemEvidence, kind: str) -> float:
    """The share that is right, as far as it is known."""
    prior = _PRIORS[kind]
    total = found.right + found.wrong + prior.weight
    return round((found.right + prior.share * prior.weight) / total, 4)


@dataclass
class Knowledge:
    """What the owner's decisions say about a goal's items."""

    by_key: dict[str, ItemEvidence] = field(default_factory=dict)
    """Of rules and readers."""
    habits: dict[str, Counter[str]] = field(default_factory=dict)
    """Of verified senders: what was chosen by hand, how often."""
    wrong_habits: dict[str, Counter[str]] = field(default_factory=dict)
    """Of verified senders: what was taken out, declined or undone."""

    def right(self, key: str, address: str, action: str, *, verified: bool) -> None:
        """The owner has chosen this by hand."""
        self.by_key[key] = self.by_key.get(key, ItemEvidence()).plus(right=1)
        if verified and address:
            self.habits.setdefault(address, Counter())[action] += 1

    def wrong(self, key: str, address: str, action: str, *, verified: bool) -> None:
        """The owner has taken this out, declined or undone it."""
        self.by_key[key] = self.by_key.get(key, ItemEvidence()).plus(wrong=1)
        if verified and address:
            self.wrong_habits.setdefault(address, Counter())[action] += 1

    def habit_of(self, address: str) -> tuple[str, ItemEvidence] | None:
        """What the owner mostly does with items of this sender."""
        chosen = self.habits.get(address)
        if not chosen:
            return None
        action, often = max(chosen.items(), key=lambda each: (each[1], each[0]))
        against = self.wrong_habits.get(address, Counter())[action]
        return action, ItemEvidence(often, sum(chosen.values()) - often + against)


Reader = Callable[[Mapping[str, str], Sequence[SeenItem]], Awaitable[Mapping[str, str]]]
"""Says which of the actions (by name, with what each is called) fits which item, by the item's id;
what it is not sure of, it leaves out. It has no tools. Raises `LlmError`."""
_GUESSED = "a guess of your model, by sender and subject"


def candidates_of(source: ItemSource, answer: Mapping[str, Any]) -> list[SeenItem]:
    """The items in what the source has answered; raises `SourceNotUnderstood`.

    An item without an id of its own is left out: nobody could say which one is meant.
    """
    listed = answer.get(source.items)
    if not isinstance(listed, list):
        raise SourceNotUnderstood(f"{source.tool} gives no list `{source.items}`.")
    found = [each for each in (_candidate(source, raw) for raw in listed) if each]
    return list({each.item_id: each for each in found}.values())[:MOST_ITEMS]


def _candidate(source: ItemSource, raw: object) -> SeenItem | None:
    if not isinstance(raw, Mapping):
        return None
    name = raw.get(source.id)
    if not isinstance(name, str | int) or not 0 < len(str(name)) <= _LONGEST_ID:
        return None
    actor = str(raw.get(source.actor) or "")
    return SeenItem(
        item_id=str(name),
        title=_line(raw.get(source.title)),
        actor=_line(actor),
        address=parseaddr(actor)[1].strip().casefold(),
        occurred_at=_moment(raw.get(source.occurred_at)),
        verified=raw.get(source.verified) is True,
        mailing_list=raw.get("mailing_list") is True,
        unread=raw.get("unread") if isinstance(raw.get("unread"), bool) else None,
        state=str(raw.get(source.state) or "")[:_LONGEST_ID] if source.state else "",
        identity=str(raw.get(source.identity) or name)[:_LONGEST_ID],
    )


def _line(value: object) -> str:
    text = visible(" ".join(str(value or "").split()), keep_newlines=False)
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"


def _moment(value: object) -> datetime | None:
    text = str(value or "")
    for read in (parsedate_to_datetime, parse_timestamp):
        try:
            found = read(text)
        except (ValueError, TypeError, OverflowError, IndexError):
            continue
        return found if found.tzinfo else found.replace(tzinfo=UTC)
    return None


class _Fit(NamedTuple):
    """How a condition stands to an item."""

    fits: bool
    trusted: bool = False
    unvouched: bool = False
    """Everything fits but for the sender, whom nobody vouches for."""


def fit(condition: ItemCondition, item: SeenItem, now: datetime) -> _Fit:
    """Whether a condition fits an item, and whether by what can be trusted alone."""
    named = condition.sender is None or any(_is_of(item, each) for each in condition.sender)
    rest = (
        (condition.mailing_list in (None, item.mailing_list))
        and (condition.unread in (None, item.unread))
        and _is_old(condition.older_than_days, item, now)
        and _names(condition.subject, item.title)
    )
    if not (named and rest):
        return _Fit(fits=False)
    if condition.sender is not None and not item.verified:
        return _Fit(fits=False, unvouched=True)
    by_stranger = condition.subject is not None or condition.sender is None
    return _Fit(fits=True, trusted=item.verified and not by_stranger)


def _is_of(item: SeenItem, sender: str) -> bool:
    wanted = sender.casefold()
    return item.address == wanted or (wanted.startswith("@") and f"@{item.domain}" == wanted)


def _is_old(days: int | None, item: SeenItem, now: datetime) -> bool:
    if days is None:
        return True
    return item.occurred_at is not None and now - item.occurred_at > timedelta(days=days)


def _names(words: Sequence[str] | None, title: str) -> bool:
    return words is None or any(each.casefold() in title.casefold() for each in words)


@dataclass(frozen=True)
class Sorter:
    """Says what fits the items of one goal."""

    policy: BatchPolicy
    bands: Bands
    taught: Sequence[TaughtRule] = ()
    known: Knowledge = field(default_factory=Knowledge)
    guessed: Mapping[str, str] = field(default_factory=dict)
    """What a reader has said, by the item's id."""

    def choices(self, items: Iterable[SeenItem], now: datetime) -> list[ItemChoice]:
        """What fits each item, in their order."""
        return _with_oddities([self._choice(each, now) for each in items])

    def _choice(self, item: SeenItem, now: datetime) -> ItemChoice:
        unvouched: ItemChoice | None = None
        for rule in self._rules():
            found = fit(rule.when, item, now)
            if found.fits:
                return self._by_rule(item, rule, trusted=found.trusted)
            if found.unvouched and unvouched is None and rule.then != LEAVE:
                unvouched = self._unvouched(item, rule)
        return unvouched or self._by_habit(item) or self._by_reader(item) or _novel(item)

    def _rules(self) -> Iterable["_Rule"]:
        for taught in self.taught:
            if taught.then == LEAVE or taught.then in self.policy.actions:
                yield _Rule(Basis.TAUGHT, taught.rule_id, taught.when, taught.then)
        for rule in self.policy.rules:
            yield _Rule.of(rule)

    def _by_rule(self, item: SeenItem, rule: "_Rule", *, trusted: bool) -> ItemChoice:
        kind = "trusted" if trusted else "text"
        sure = calibrated(self.known.by_key.get(rule.key, ItemEvidence()), kind)
        return ItemChoice(
            item, rule.then, rule.basis, rule.key, rule.reason, sure, self.bands.of(sure), trusted
        )

    def _unvouched(self, item: SeenItem, rule: "_Rule") -> ItemChoice:
        """Somebody may have written the sender's name on it: the owner looks at it."""
        odd = UNVOUCHED.format(sender=item.address or "this sender")
        key = f"unvouched:{rule.key}"
        return ItemChoice(item, rule.then, rule.basis, key, odd, 0.0, Band.LOW, anomaly=odd)

    def _by_habit(self, item: SeenItem) -> ItemChoice | None:
        found = self.known.habit_of(item.address) if item.verified else None
        if found is None or (found[0] != LEAVE and found[0] not in self.policy.actions):
            return None
        action, evidence = found
        sure = calibrated(evidence, Basis.HABIT)
        total = evidence.right + evidence.wrong
        why = f"you chose this {evidence.right} of {total} times for {item.address}"
        key = f"habit:{item.address}"
        return ItemChoice(item, action, Basis.HABIT, key, why, sure, self.bands.of(sure))

    def _by_reader(self, item: SeenItem) -> ItemChoice | None:
        action = self.guessed.get(item.item_id)
        if action not in self.policy.actions:
            return None
        key = f"reader:{action}"
        sure = calibrated(self.known.by_key.get(key, ItemEvidence()), Basis.READER)
        return ItemChoice(item, action, Basis.READER, key, _GUESSED, sure, self.bands.of(sure))


class _Rule(NamedTuple):
    """A rule, whoever has written it."""

    basis: Basis
    name: str
    when: ItemCondition
    then: str

    @classmethod
    def of(cls, rule: BatchRule) -> "_Rule":
        return cls(Basis.RULE, rule.name, rule.when, rule.then)

    @property
    def key(self) -> str:
        return f"{self.basis.value}:{self.name}"

    @property
    def reason(self) -> str:
        return "your rule" if self.basis is Basis.TAUGHT else f"your rule “{self.name}”"


def _novel(item: SeenItem) -> ItemChoice:
    return ItemChoice(item, None, Basis.NOTHING, "novel", "no rule fits it", 0.0, Band.NOVEL)


def _with_oddities(choices: Sequence[ItemChoice]) -> list[ItemChoice]:
    """The same; what differs from the others that one rule has selected says so."""
    alike: dict[str, list[ItemChoice]] = {}
    for each in choices:
        if each.trusted:
            alike.setdefault(each.key, []).append(each)
    usual = {key: _usual(found) for key, found in alike.items() if len(found) >= _FEWEST_ALIKE}
    return [_marked(each, usual.get(each.key)) if each.trusted else each for each in choices]


class _Usual(NamedTuple):
    """What most items of a rule are like."""

    mailing_list: bool | None
    in_conversation: bool | None


def _usual(choices: Sequence[ItemChoice]) -> _Usual:
    return _Usual(
        _most([each.item.mailing_list for each in choices]),
        _most([_is_in_conversation(each.item) for each in choices]),
    )


def _most(values: Sequence[bool]) -> bool | None:
    """What two thirds of them are; None if they are mixed."""
    often = sum(values)
    if 3 * often >= 2 * len(values):
        return True
    return False if 3 * often <= len(values) else None


def _marked(choice: ItemChoice, usual: _Usual | None) -> ItemChoice:
    if usual is None:
        return choice
    if usual.mailing_list is not None and choice.item.mailing_list != usual.mailing_list:
        how = "they are of a mailing list" if usual.mailing_list else "it is of a mailing list"
        return replace(choice, anomaly=UNLIKE.format(how=how))
    if usual.in_conversation is False and _is_in_conversation(choice.item):
        return replace(choice, anomaly=UNLIKE.format(how="it answers something"))
    return choice


def _is_in_conversation(item: SeenItem) -> bool:
    return _IN_CONVERSATION.match(item.title) is not None


def chunks(choices: Sequence[ItemChoice], size: int) -> list[list[ItemChoice]]:
    """Choices of one action in portions, those that are ticked first, the oldest first."""
    earliest = datetime.min.replace(tzinfo=UTC)
    ordered = sorted(choices, key=lambda each: (not each.ticked, each.item.occurred_at or earliest))
    return [ordered[start : start + size] for start in range(0, len(ordered), size)]
