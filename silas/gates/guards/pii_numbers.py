"""Numbers that name a person or an account: how they are written, and whether they are valid.

The checksums are those of python-stdnum. A number that is written as its country writes it
(`536-90-4399`) counts as it stands. Bare digits count only if the text says what they are: one in
three numbers of nine digits passes the checksum of some country.
"""

from collections.abc import Callable
from dataclasses import dataclass

from stdnum import iban, luhn

from silas.gates.guards.rules import Rule


@dataclass(frozen=True, kw_only=True)
class NumberRule(Rule):
    """A kind of number: `9` stands for a digit in the shapes, `A` for a letter."""

    valid: Callable[[str], bool]
    shapes: tuple[str, ...] = ()
    """As people write it; these count wherever they stand."""
    bare: tuple[str, ...] = ()
    """Written like many other numbers; these need a word beside them."""
    words: tuple[str, ...] = ()
    """Words beside it that say what it is, in small letters."""
    is_telling: bool = False
    """Hardly any other number passes its check, so it also counts if it is all there is."""


def _is_card(written: str) -> bool:
    """A number that some card network gives out: first digits, length, and Luhn's checksum."""
    number = written.translate(_NO_SEPARATORS)
    first, size = number[0], len(number)
    if not (
        (size == 13 and first == "4")
        or (size in (14, 15) and first == "3")
        or (size == 16 and (first in "3456" or "22" <= number[:2] <= "27"))
        or (size in (17, 18, 19) and first in "3456")
    ):
        return False
    return len(set(number)) > 1 and luhn.is_valid(number)


def _is_iban(written: str) -> bool:
    number = written.translate(_NO_SEPARATORS).upper()
    # The checksum alone first, because most candidates fail it. Letters count from 10 on.
    digits = (number[4:] + number[:4]).translate(_LETTER_VALUES)
    if not digits.isdecimal() or int(digits) % 97 != 1:
        return False
    # Some countries have a second checksum inside; banks do not always keep it.
    return iban.is_valid(number, check_country=False)


_NO_SEPARATORS = str.maketrans("", "", " .-\u00a0\u202f")
_LETTER_VALUES = str.maketrans({chr(55 + value): str(value) for value in range(10, 36)})
_CARD_GROUPS = (
    "9999 9999 9999 9999",
    "9999 999999 99999",
    "9999 999999 9999",
    "9999 9999 9999 9999 999",
)

CARD = NumberRule(
    name="card",
    why="It holds the number of a payment card.",
    valid=_is_card,
    shapes=(
        *("9" * size for size in range(13, 20)),
        *(shape.replace(" ", separator) for shape in _CARD_GROUPS for separator in " -."),
    ),
    match=("4111111111111111", "Card 5500-0000-0000-0004, please", "amex 3782 822463 10005"),
    not_match=("4111111111111112", "order 1234567890123456", "0000 0000 0000 0000"),
)
IBAN = NumberRule(
    name="iban",
    why="It holds the number of a bank account.",
    valid=_is_iban,
    match=("DE89370400440532013000", "pay GB82 WEST 1234 5698 7654 32 now"),
    not_match=("DE89370400440532013001", "FR00 1234", "GB82 WEST 1234 5698 7654 33"),
)
