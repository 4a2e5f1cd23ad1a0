"""The search for personal data in a text, in one pass over its shape for each kind of place."""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice

from silas.gates.guards.pii_contact import EMAIL, PHONE, emails, international_numbers
from silas.gates.guards.pii_numbers import IBAN, NumberRule
from silas.gates.guards.places import Place, without_overlaps
from silas.gates.guards.rules import Rule
from silas.gates.guards.shapes import one_of, shape_of

MOST_CANDIDATES = 1500
"""How many candidates are examined in one text."""

_IBAN = re.compile(rb"AA99(?<![9A_]....)(?: ?[9A]{4}){2,7}+(?: ?[9A]{1,3})?+")
_SHORTEST_IBAN = 15
_BEFORE = 48
_AT_ONCE = 200
_LETTER, _FOREIGN = b"A", b"?"
_CHANGES_LENGTH = "\u0130"  # the only letter whose small form has two characters
# Said before a number, these make it somebody's, whatever the country.
_SOMEBODYS = (
    "identi", "citizen", "tax", "ausweis", "cedula", "id card", "id number", "national id",
    "personal id", "personal number", "personal code", "my number", "my id", "your number",
    "your id", "his number", "her number", "their number", "customer's number", "customer's id",
)  # fmt: skip


class TooMuch(Exception):
    """There are more candidates than are examined."""


class PiiSearch:
    """A search for some kinds of personal data: made once, used on any text.

    With `named`, they were asked for by name: then bare digits count without a word beside them.
    """

    def __init__(self, rules: Iterable[Rule], *, named: bool) -> None:
        self._rules = tuple(rules)
        numbers = [rule for rule in self._rules if isinstance(rule, NumberRule)]
        self._certain = _by_shape(
            (shape, rule)
            for rule in numbers
            for shape in (*rule.shapes, *(rule.bare if named and rule is not PHONE else ()))
        )
        self._bare = _by_shape((shape, rule) for rule in numbers for shape in rule.bare)
        self._find_certain = _expressions(self._certain)
        self._find_bare = one_of(self._bare, beside_a_word=True) if self._bare else None
        self._run_in_bare = _shortest_run(self._bare)
        words = {word for rule in numbers if rule.bare for word in rule.words}
        self._words = tuple(sorted(words.union(_SOMEBODYS)))

    def places(self, text: str) -> list[Place]:
        """Where personal data stands, in order and without overlaps."""
        return without_overlaps(self._found(text))

    def _found(self, text: str) -> Iterator[Place]:
        shape = shape_of(text)
        for number, place in enumerate(self._candidates(text, shape)):
            if number >= MOST_CANDIDATES:
                raise TooMuch
            if place:
                yield place

    def _candidates(self, text: str, shape: bytes) -> Iterator[Place | None]:
        """Every candidate that is examined, as a place if it turned out to be one."""
        if IBAN in self._rules:
            yield from _ibans(text, shape)
        yield from self._numbers(text, shape)
        if self._find_bare:
            yield from self._numbers_beside_words(text, shape)
            yield self._number_alone(text, shape)
        if EMAIL in self._rules:
            yield from (Place(start, end, EMAIL) for start, end in emails(text, shape))
        if PHONE in self._rules:
            yield from (Place(*span, PHONE) for span in international_numbers(shape))

    def _numbers(self, text: str, shape: bytes) -> Iterator[Place | None]:
        for literals, expression in self._find_certain:
            if any(literal in shape for literal in literals):
                for place in expression.finditer(shape):
                    yield _first_valid(self._certain[place[0]], text, place.span())

    def _numbers_beside_words(self, text: str, shape: bytes) -> Iterator[Place | None]:
        if not self._find_bare or self._run_in_bare not in shape:
            return
        if _LETTER not in shape and _FOREIGN not in shape:
            return
        found = self._find_bare.finditer(shape)
        while some := list(islice(found, _AT_ONCE)):
            # Words are looked for before many numbers at once, which is quicker than one by one.
            first = max(0, some[0].start() - _BEFORE)
            small = text[first : some[-1].start()].replace(_CHANGES_LENGTH, "i").lower()
            words = [word for word in self._words if word in small]
            for place in some if words else ():
                end = place.start() - first
                said = _said(words, small[max(0, end - _BEFORE) : end])
                if said:
                    rules = self._bare[place[0]]
                    yield _first_valid(_meant(rules, said), text, place.span())

    def _number_alone(self, text: str, shape: bytes) -> Place | None:
        """The text as a number, if it is nothing else."""
        start = len(text) - len(text.lstrip())
        alone = shape.strip()
        rules = [rule for rule in self._bare.get(alone, ()) if rule.is_telling]
        return _first_valid(rules, text, (start, start + len(alone)))


def _expressions(shapes: Iterable[bytes]) -> list[tuple[tuple[bytes, ...], re.Pattern[bytes]]]:
    """The shapes that begin with a letter apart: every word could be one, and hardly any is.

    With each expression come literals of which the text must hold one.
    """
    with_letter = tuple(shape for shape in shapes if shape.startswith(b"A"))
    others = tuple(shape for shape in shapes if not shape.startswith(b"A"))
    pairs = [(with_letter, with_letter), ((_shortest_run(others),), others)]
    return [(literals, one_of(group)) for literals, group in pairs if group]


def _shortest_run(shapes: Iterable[bytes]) -> bytes:
    """The run of digits that every shape holds: without it in a text, none of them is there."""
    return min((max(re.findall(b"9*", shape)) for shape in shapes), default=b"")


def _by_shape(pairs: Iterable[tuple[str, NumberRule]]) -> dict[bytes, list[NumberRule]]:
    table: dict[bytes, list[NumberRule]] = {}
    for shape, rule in pairs:
        table.setdefault(shape.encode("ascii"), []).append(rule)
    return table


def _said(words: Iterable[str], before: str) -> set[str]:
    return {word for word in words if word in before and _whole(word).search(before)}


def _meant(rules: list[NumberRule], said: set[str]) -> list[NumberRule]:
    """The rules that the words speak of; all of them if the number is somebody's."""
    if not said.isdisjoint(_SOMEBODYS):
        return rules
    return [rule for rule in rules if not said.isdisjoint(rule.words)]


@lru_cache(maxsize=1024)
def _whole(word: str) -> re.Pattern[str]:
    """A word begins where one begins; a short one also ends there (`sin` is not in `since`)."""
    # An underscore separates words, as in `tax_id`.
    right = r"(?![^\W_])" if len(word) < 5 else ""
    return re.compile(rf"(?<![^\W_]){re.escape(word)}{right}")


def _first_valid(rules: Iterable[NumberRule], text: str, span: tuple[int, int]) -> Place | None:
    written = text[slice(*span)]
    return next((Place(*span, rule) for rule in rules if rule.valid(written)), None)


def _ibans(text: str, shape: bytes) -> Iterator[Place | None]:
    for place in _IBAN.finditer(shape):
        start, end = place.span()
        # The pattern may have taken the words behind for the last groups of the number.
        while end - start >= _SHORTEST_IBAN and not IBAN.valid(text[start:end]):
            end = shape.rfind(b" ", start, end)
        yield Place(start, end, IBAN) if end - start >= _SHORTEST_IBAN else None
