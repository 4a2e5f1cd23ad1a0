"""E-mail addresses and phone numbers. They have no checksum, only a form."""

import re
from collections.abc import Iterator

from silas.gates.guards.pii_numbers import NumberRule
from silas.gates.guards.rules import Rule

_LONGEST_LOCAL_PART = 64
# In shapes, `?` stands for everything outside ASCII, most of which is letters.
_DOMAIN = re.compile(rb"@(?:[9A?][-9A?]{0,62}+\.){1,8}A{2,24}+(?![-9A?_])")
# Eight digits at least: looking ahead for them is quicker than counting them afterwards.
_INTERNATIONAL = re.compile(
    rb"\+(?=(?:[ .\-()]{0,3}9){8})9{1,4}+(?:[ .\-]?\(?9{1,5}+\)?){1,7}+(?![9A])"
)
_AMERICAN = re.compile(r"\D*1?\D*[2-9]\d\d\D*[2-9]\d\d\D*\d{4}")

EMAIL = Rule(
    name="email",
    why="It holds an e-mail address.",
    match=("anna.b+test@mail.example.com", "Write to jörg@example.de!"),
    not_match=("a @ b", "@decorator", "user@localhost", "x@1.2"),
)
PHONE = NumberRule(
    name="phone",
    why="It holds a phone number.",
    valid=lambda written: _AMERICAN.fullmatch(written) is not None or written[0] == "0",
    shapes=(
        "999-999-9999",
        "999.999.9999",
        "(999) 999-9999",
        "(999)999-9999",
        "9-999-999-9999",
    ),
    bare=tuple(
        " ".join(["9" * first, *("9" * size for size in rest)]).replace(" ", separator)
        for separator in " -/"
        for first in (3, 4, 5)
        for rest in ((3, 3), (3, 4), (6,), (7,), (8,), (2, 2, 2), (2, 2, 3), (3, 2, 2), (4, 4))
    )
    + tuple("9" * size for size in (10, 11, 12)),
    words=("phone", "tel.", "tel:", "telefon", "telefax", "mobil", "cell", "call", "fax", "sms"),
    match=(
        "+49 170 1234567",
        "+1 (415) 555-2671",
        "(415) 555-2671",
        "1-415-555-2671",
        "415-555-2671",
        "phone: 0660 1234567",
        "call 415 555 2671",
    ),
    not_match=("2024-01-15", "1.5 + 2.25", "version 3.11.7", "+1 for this", "pages 415-555"),
)


def emails(text: str, shape: bytes) -> Iterator[tuple[int, int]]:
    """Where each e-mail address stands."""
    for domain in _DOMAIN.finditer(shape):
        start = at = domain.start()
        while start > max(0, at - _LONGEST_LOCAL_PART) and _is_local(text[start - 1]):
            start -= 1
        if start < at:
            yield start, domain.end()


def international_numbers(shape: bytes) -> Iterator[tuple[int, int]]:
    """Where phone numbers stand that begin with a plus and the code of a country."""
    for number in _INTERNATIONAL.finditer(shape):
        if 8 <= number[0].count(b"9") <= 15:
            yield number.span()


def _is_local(char: str) -> bool:
    return char.isalnum() or char in "._%+-"
