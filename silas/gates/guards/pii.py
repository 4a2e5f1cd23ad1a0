"""The guard `pii`: personal data (cards, bank accounts, national numbers, e-mail, phone).

In the mode `fix` each piece is replaced by a word that says what stood there; in the mode `block`
the text is stopped. Entities are chosen by name; all of them are looked for unless told otherwise.
A text with more pieces than can be examined in good time is stopped in either mode.
"""

from functools import lru_cache
from typing import Annotated

from pydantic import AfterValidator, Field

from silas.gates.guards.models import GuardFinding, GuardOptions, GuardVerdict, Mode, verdict
from silas.gates.guards.national_numbers import NATIONAL_NUMBERS
from silas.gates.guards.pii_contact import EMAIL, PHONE
from silas.gates.guards.pii_numbers import CARD, IBAN
from silas.gates.guards.pii_search import PiiSearch, TooMuch
from silas.gates.guards.places import findings_of, replaced
from silas.gates.guards.rules import Proof, Rule, proven
from silas.gates.guards.subject import Subject

NAME = "pii"
RULES: tuple[Rule, ...] = (CARD, IBAN, *NATIONAL_NUMBERS, EMAIL, PHONE)
ENTITIES = tuple(rule.name for rule in RULES)


def _known(names: tuple[str, ...]) -> tuple[str, ...]:
    unknown = [name for name in names if name not in ENTITIES]
    if unknown:
        raise ValueError(f"names an unknown entity; there are: {', '.join(ENTITIES)}")
    return names


class PiiOptions(GuardOptions):
    """Which entities to look for; without a list, all of them."""

    mode: Mode = Mode.FIX
    entities: Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(_known)] | None = None


TOO_MUCH = Rule(
    name="too-much-personal-data",
    why="There are more numbers and addresses in it than can be examined one by one.",
    match=("a@b.co " * 1501, "536-90-4399 " * 1501),
    not_match=("a@b.co 536-90-4399", "2024-01-15 " * 2001),
)
OTHER_RULES = (TOO_MUCH,)
_EVERYTHING = PiiSearch(RULES, named=False)


def check(subject: Subject, options: PiiOptions) -> GuardVerdict:
    """Replace personal data, or stop the text that holds some."""
    PROOF.hold()
    search = _EVERYTHING if options.entities is None else _search_for(options.entities)
    try:
        places = search.places(subject.text)
    except TooMuch:
        finding = GuardFinding(rule=TOO_MUCH.name, start=0, end=len(subject.text), why=TOO_MUCH.why)
        return verdict(NAME, [finding], mode=Mode.BLOCK)
    fixed = replaced(subject.text, places, lambda place: f"[{place.rule.name} removed]")
    return verdict(NAME, findings_of(places), mode=options.mode, fixed_text=fixed)


@lru_cache(maxsize=64)
def _search_for(entities: tuple[str, ...]) -> PiiSearch:
    return PiiSearch([rule for rule in RULES if rule.name in entities], named=True)


def _finds(rule: Rule, text: str) -> bool:
    # One entity at a time, but as if it had not been asked for by name: the stricter case.
    return bool(PiiSearch([rule], named=False).places(text))


def _is_too_much(text: str) -> bool:
    return TOO_MUCH.name in {each.rule for each in check(Subject(text), PiiOptions()).findings}


def _prove() -> None:
    proven(RULES, _finds)
    proven(OTHER_RULES, lambda _, text: _is_too_much(text))


PROOF = Proof(_prove)
