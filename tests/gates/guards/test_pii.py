"""The guard `pii`: every valid number is found, no invalid one is, each is replaced."""

from collections.abc import Iterator
from random import Random

import pytest
from stdnum import iban, luhn

from silas.gates.guards import GuardDecision, built_in_guards
from silas.gates.guards.pii import ENTITIES, NATIONAL_NUMBERS, NumberRule, one_of, shape_of

GUARDS = built_in_guards()
SENTENCES = ("{}", "My card is {}.", "Zahl {} bitte", "12 {} 3", "on 2024-01-02 {} came", "({})")


def found(text: str, **options: object) -> list[tuple[str, str]]:
    verdict = GUARDS.check("pii", text, GUARDS.options("pii", options))
    return [(each.rule, text[each.start : each.end]) for each in verdict.findings]


def cards() -> Iterator[tuple[str, str]]:
    """Numbers of every network, each with one whose last digit is wrong."""
    random = Random(4)
    for prefix, size in (
        *(("4", 13), ("4", 16), ("4", 19), ("51", 16), ("2221", 16), ("2720", 16), ("34", 15)),
        *(("37", 15), ("36", 14), ("6011", 16), ("65", 16), ("3530", 16), ("62", 16), ("62", 19)),
    ):
        for _ in range(5):
            digits = prefix + "".join(random.choices("0123456789", k=size - len(prefix) - 1))
            right = luhn.calc_check_digit(digits)
            wrong = str((int(right) + random.randint(1, 9)) % 10)
            yield digits + right, digits + wrong


def groupings(number: str) -> Iterator[str]:
    yield number
    if len(number) == 16:
        for separator in (" ", "-", ".", "\u00a0"):
            yield separator.join(number[place : place + 4] for place in range(0, 16, 4))
    if len(number) == 15:
        yield f"{number[:4]} {number[4:10]} {number[10:]}"


def test_every_valid_card_and_no_other() -> None:
    for valid, invalid in cards():
        for sentence in SENTENCES:
            for written in groupings(valid):
                assert ("card", written) in found(sentence.format(written)), written
            for written in groupings(invalid):
                assert not found(sentence.format(written)), written


IBANS = (
    "DE89370400440532013000",
    "GB82WEST12345698765432",
    "FR1420041010050500013M02606",
    "NL91ABNA0417164300",
    "BE68539007547034",
    "ES9121000418450200051332",
    "IT60X0542811101000000123456",
    "AT611904300234573201",
    "NO9386011117947",
    "MT84MALT011000012345MTLCAST001S",
)


@pytest.mark.parametrize("number", IBANS)
def test_every_valid_account_and_no_other(number: str) -> None:
    for written in (number, number.lower(), iban.format(number)):
        wrong = written[:-1] + ("1" if written[-1] != "1" else "2")
        for sentence in (*SENTENCES, "send it to {} this week"):
            assert ("iban", written) in found(sentence.format(written))
            assert not found(sentence.format(wrong))


@pytest.mark.parametrize("rule", NATIONAL_NUMBERS, ids=lambda rule: rule.name)
def test_every_national_number_among_all_others(rule: NumberRule) -> None:
    for text in rule.match:
        assert found(text), text
        assert found(text, entities=[rule.name])[0][0] == rule.name
    for text in rule.not_match:
        assert rule.name not in dict(found(text)), text


def test_bare_digits_count_if_asked_for_by_name() -> None:
    assert found("order 111222333") == []
    assert found("order 111222333", entities=["nl_bsn"]) == [("nl_bsn", "111222333")]
    assert found("order 111252333", entities=["nl_bsn"]) == []


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("My national ID is 44051401359", True),
        ('{"tax_id": "44051401359"}', True),
        ("the identification number 44051401359", True),
        ("using 44051401359 units", False),
        ("since 123456782", False),
        ("ticket 44051401359", False),
        ("44051401359", True),
        ("123456782", False),
    ],
)
def test_what_makes_bare_digits_somebodys(text: str, meant: bool) -> None:
    assert bool(found(text)) is meant


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("mail anna.b+x@mail.example.com!", [("email", "anna.b+x@mail.example.com")]),
        ("jörg@example.de", [("email", "jörg@example.de")]),
        ("@dataclass and a @ b", []),
        ("+43 1 234 56 78", [("phone", "+43 1 234 56 78")]),
        ("call 0660 1234567", [("phone", "0660 1234567")]),
        ("(415) 555-2671", [("phone", "(415) 555-2671")]),
        ("1990-2024 and 10.0.0.1, v3.11.7", []),
        ("2024-01-15T10:00:00", []),
    ],
)
def test_contacts(text: str, pieces: list[tuple[str, str]]) -> None:
    assert found(text) == pieces


def test_each_piece_is_replaced_by_what_it_was() -> None:
    text = "Card 4111 1111 1111 1111, SSN 536-90-4399, a@b.co."
    verdict = GUARDS.check("pii", text)
    assert verdict.decision is GuardDecision.FIX
    assert verdict.fixed_text == "Card [card removed], SSN [us_ssn removed], [email removed]."


def test_entities_are_chosen_by_name() -> None:
    text = "4111111111111111 a@b.co"
    assert found(text, entities=["email"]) == [("email", "a@b.co")]
    assert {"card", "iban", "email", "phone", "us_ssn", "de_idnr"} <= set(ENTITIES)


def test_too_much_to_examine_is_stopped_whatever_the_mode() -> None:
    verdict = GUARDS.check("pii", "a@b.co " * 3000)
    assert verdict.decision is GuardDecision.BLOCK
    assert [each.rule for each in verdict.findings] == ["too-much-personal-data"]


def test_findings_never_repeat_the_data() -> None:
    verdict = GUARDS.check("pii", "4111111111111111")
    assert "4111" not in verdict.reason


def test_a_table_of_numbers_is_no_personal_data() -> None:
    assert found(" ".join(str(number) for number in range(10**8, 10**8 + 5000))) == []


def test_shapes_keep_every_place() -> None:
    text = "a1\u00a0Ü-😀9"
    assert shape_of(text) == b"A9 ?-?9"
    assert len(shape_of(text)) == len(text)
    both = one_of([b"99", b"99-9"])
    assert [match[0] for match in both.finditer(b"99-9 99 999 A99 99A")] == [b"99-9", b"99"]
