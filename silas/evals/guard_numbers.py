"""Whether the guards find every valid number and no invalid one, and every format of secrets.

Numbers are made from the examples of each rule: some of their digits and letters are exchanged at
random (always the same way), and python-stdnum says whether the result is valid.
"""

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from silas.gates.guards.models import Decision
from silas.gates.guards.pii import RULES as PII_RULES
from silas.gates.guards.pii_numbers import NumberRule
from silas.gates.guards.registry import GuardRegistry
from silas.gates.guards.secrets import RULES as SECRET_RULES

_DIGITS, _LETTERS = "0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_MOST_TRIES = 200_000
_SENTENCES = ("{}", "It is {}.", "on 2024-01-02 {} came", "({})")
NO_CHECKSUM = frozenset({"phone", "us_ssn"})
"""Numbers of which there is a form only."""


class Count(NamedTuple):
    """What was found of one kind of number."""

    name: str
    valid: int
    valid_found: int
    invalid: int
    invalid_found: int


def counted(guards: GuardRegistry, *, many: int) -> Iterator[Count]:
    """Each kind of number that has a checksum, with that many valid and invalid ones."""
    for rule in PII_RULES:
        if isinstance(rule, NumberRule) and rule.name not in NO_CHECKSUM:
            valid, invalid = made(rule, guards, many=many)
            caught, alarms = (_found(guards, rule, numbers) for numbers in (valid, invalid))
            yield Count(rule.name, len(valid), caught, len(invalid), alarms)


def made(rule: NumberRule, guards: GuardRegistry, *, many: int) -> tuple[list[str], list[str]]:
    """Valid numbers and invalid ones of the same forms."""
    random = Random(rule.name)
    examples = sorted({number for text in rule.match for number in _numbers(guards, rule, text)})
    valid, invalid = dict.fromkeys(examples), dict[str, None]()
    for _ in range(_MOST_TRIES):
        if len(valid) >= many and len(invalid) >= many:
            break
        number = _varied(random.choice(examples), random)
        kind = valid if rule.valid(number) else invalid
        if len(kind) < many:
            kind[number] = None
    return list(valid), list(invalid)


def _varied(number: str, random: Random) -> str:
    places = [place for place, char in enumerate(number) if char.isalnum()]
    chars = list(number)
    for place in random.sample(places, k=random.randint(1, 4)):
        chars[place] = random.choice(_DIGITS if chars[place].isdigit() else _LETTERS)
    return "".join(chars)


def _numbers(guards: GuardRegistry, rule: NumberRule, text: str) -> list[str]:
    verdict = guards.check("pii", text, guards.options("pii", {"entities": [rule.name]}))
    return [text[each.start : each.end] for each in verdict.findings]


def _found(guards: GuardRegistry, rule: NumberRule, numbers: list[str]) -> int:
    return sum(_is_found(guards, rule, number) for number in numbers)


def _is_found(guards: GuardRegistry, rule: NumberRule, number: str) -> bool:
    """Whether it is found in every sentence; an invalid one, in any."""
    places = [number in _numbers(guards, rule, each.format(number)) for each in _SENTENCES]
    return all(places) if rule.valid(number) else any(places)


def secrets_found(guards: GuardRegistry) -> tuple[int, int]:
    """How many examples of all formats of secrets there are, and how many are found."""
    examples = [text for rule in SECRET_RULES for text in rule.match]
    found = [guards.check("secrets", f"see: {text}").decision for text in examples]
    return len(examples), sum(each is not Decision.PASS for each in found)


def in_words(counts: list[Count], secrets: tuple[int, int]) -> list[str]:
    """The counts for people; kinds that are not perfect are listed."""
    total = [sum(column) for column in zip(*(each[1:] for each in counts), strict=True)]
    found = f"found {total[1]} of {total[0]} valid ones and {total[3]} of {total[2]} invalid ones"
    lines = [f"numbers with a checksum, {len(counts)} kinds: {found}"]
    wrong = [each for each in counts if each.valid_found < each.valid or each.invalid_found]
    lines += [f"  {each}" for each in wrong]
    lines.append(f"formats of secrets: found {secrets[1]} of {secrets[0]} examples")
    return lines
