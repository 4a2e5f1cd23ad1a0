"""The guard `pii`: personal data (cards, bank accounts, national numbers, e-mail, phone).

In the mode `fix` each piece is replaced by a word that says what stood there; in the mode `block`
the text is stopped. Entities are chosen by name; all of them are looked for unless told otherwise.
A text with more pieces than can be examined in good time is stopped in either mode.

The search goes over the shape of a text: `9` for every digit, `A` for every letter, each where the
original stands. All shapes of numbers become one expression that never has a choice between two
ways on, so its time is proportional to the text. The rules (`NumberRule`) say which shapes there
are, and which of the numbers that have one are valid.

The checksums of numbers are those of python-stdnum; `national_numbers.toml` says how each country
writes its personal numbers. A number that is written as its country writes it (`536-90-4399`)
counts as it stands. Bare digits count only if the text says what they are: one in three numbers of
nine digits passes the checksum of some country. E-mail addresses and phone numbers have no
checksum, only a form.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from itertools import islice
from typing import Annotated, Any

from pydantic import AfterValidator, Field
from stdnum import iban, luhn

from silas.gates.guards.normalise import Subject
from silas.gates.guards.rules import (
    GuardFinding,
    GuardOptions,
    GuardRule,
    GuardVerdict,
    Mode,
    Proof,
    RulePlace,
    findings_of,
    last_cut,
    proven,
    replaced,
    verdict,
    without_overlaps,
)


@dataclass(frozen=True, kw_only=True)
class NumberRule(GuardRule):
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


_LONGEST_LOCAL_PART = 64
# In shapes, `?` stands for everything outside ASCII, most of which is letters.
_DOMAIN = re.compile(rb"@(?:[9A?][-9A?]{0,62}+\.){1,8}A{2,24}+(?![-9A?_])")
# Eight digits at least: looking ahead for them is quicker than counting them afterwards.
_INTERNATIONAL = re.compile(
    rb"\+(?=(?:[ .\-()]{0,3}9){8})9{1,4}+(?:[ .\-]?\(?9{1,5}+\)?){1,7}+(?![9A])"
)
_AMERICAN = re.compile(r"\D*1?\D*[2-9]\d\d\D*[2-9]\d\d\D*\d{4}")

EMAIL = GuardRule(
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


@cache
def _checks() -> Mapping[str, Callable[[str], bool]]:
    """The checks of python-stdnum by the names of our rules."""
    # They take a while to load: only a text that holds a candidate needs them.
    from stdnum.ar.cuit import is_valid as ar_cuit  # noqa: PLC0415
    from stdnum.at.vnr import is_valid as at_vnr  # noqa: PLC0415
    from stdnum.au.tfn import is_valid as au_tfn  # noqa: PLC0415
    from stdnum.be.nn import is_valid as be_nn  # noqa: PLC0415
    from stdnum.bg.egn import is_valid as bg_egn  # noqa: PLC0415
    from stdnum.br.cpf import is_valid as br_cpf  # noqa: PLC0415
    from stdnum.ca.sin import is_valid as ca_sin  # noqa: PLC0415
    from stdnum.ch.ssn import is_valid as ch_ssn  # noqa: PLC0415
    from stdnum.cl.rut import is_valid as cl_rut  # noqa: PLC0415
    from stdnum.cn.ric import is_valid as cn_ric  # noqa: PLC0415
    from stdnum.cz.rc import is_valid as cz_rc  # noqa: PLC0415
    from stdnum.de.idnr import is_valid as de_idnr  # noqa: PLC0415
    from stdnum.dk.cpr import is_valid as dk_cpr  # noqa: PLC0415
    from stdnum.ee.ik import is_valid as ee_ik  # noqa: PLC0415
    from stdnum.es.dni import is_valid as es_dni  # noqa: PLC0415
    from stdnum.es.nie import is_valid as es_nie  # noqa: PLC0415
    from stdnum.fi.hetu import is_valid as fi_hetu  # noqa: PLC0415
    from stdnum.fr.nir import is_valid as fr_nir  # noqa: PLC0415
    from stdnum.gb.nhs import is_valid as gb_nhs  # noqa: PLC0415
    from stdnum.gr.amka import is_valid as gr_amka  # noqa: PLC0415
    from stdnum.hr.oib import is_valid as hr_oib  # noqa: PLC0415
    from stdnum.ie.pps import is_valid as ie_pps  # noqa: PLC0415
    from stdnum.il.idnr import is_valid as il_idnr  # noqa: PLC0415
    from stdnum.in_.aadhaar import is_valid as in_aadhaar  # noqa: PLC0415
    from stdnum.is_.kennitala import is_valid as is_kennitala  # noqa: PLC0415
    from stdnum.it.codicefiscale import is_valid as it_codicefiscale  # noqa: PLC0415
    from stdnum.jp.in_ import is_valid as jp_my_number  # noqa: PLC0415
    from stdnum.kr.rrn import is_valid as kr_rrn  # noqa: PLC0415
    from stdnum.lt.asmens import is_valid as lt_asmens  # noqa: PLC0415
    from stdnum.mx.curp import is_valid as mx_curp  # noqa: PLC0415
    from stdnum.nl.bsn import is_valid as nl_bsn  # noqa: PLC0415
    from stdnum.no.fodselsnummer import is_valid as no_fodselsnummer  # noqa: PLC0415
    from stdnum.pl.pesel import is_valid as pl_pesel  # noqa: PLC0415
    from stdnum.pt.nif import is_valid as pt_nif  # noqa: PLC0415
    from stdnum.ro.cnp import is_valid as ro_cnp  # noqa: PLC0415
    from stdnum.se.personnummer import is_valid as se_personnummer  # noqa: PLC0415
    from stdnum.si.emso import is_valid as si_emso  # noqa: PLC0415
    from stdnum.th.pin import is_valid as th_pin  # noqa: PLC0415
    from stdnum.tr.tckimlik import is_valid as tr_tckimlik  # noqa: PLC0415
    from stdnum.us.ssn import is_valid as us_ssn  # noqa: PLC0415
    from stdnum.za.idnr import is_valid as za_idnr  # noqa: PLC0415

    return {
        "ar_cuit": ar_cuit, "at_vnr": at_vnr, "au_tfn": au_tfn, "be_nn": be_nn,
        "bg_egn": bg_egn, "br_cpf": br_cpf, "ca_sin": ca_sin, "ch_ssn": ch_ssn,
        "cl_rut": cl_rut, "cn_ric": cn_ric, "cz_rc": cz_rc, "de_idnr": de_idnr,
        "dk_cpr": dk_cpr, "ee_ik": ee_ik, "es_dni": es_dni, "es_nie": es_nie,
        "fi_hetu": fi_hetu, "fr_nir": fr_nir, "gb_nhs": gb_nhs, "gr_amka": gr_amka,
        "hr_oib": hr_oib, "ie_pps": ie_pps, "il_idnr": il_idnr, "in_aadhaar": in_aadhaar,
        "is_kennitala": is_kennitala, "it_codicefiscale": it_codicefiscale,
        "jp_my_number": jp_my_number, "kr_rrn": kr_rrn, "lt_asmens": lt_asmens,
        "mx_curp": mx_curp, "nl_bsn": nl_bsn, "no_fodselsnummer": no_fodselsnummer,
        "pl_pesel": pl_pesel, "pt_nif": pt_nif, "ro_cnp": ro_cnp,
        "se_personnummer": se_personnummer, "si_emso": si_emso, "th_pin": th_pin,
        "tr_tckimlik": tr_tckimlik, "us_ssn": us_ssn, "za_idnr": za_idnr,
    }  # fmt: skip


def _validator(name: str) -> Callable[[str], bool]:
    """The check of any text: some of the library's stumble over numbers of unknown places."""

    def check(number: str) -> bool:
        is_valid = _checks()[name]
        try:
            return is_valid(number)
        except (ArithmeticError, LookupError, TypeError, ValueError):
            return False

    return _is_nir(check) if name == "fr_nir" else check


def _is_nir(valid: Callable[[str], bool]) -> Callable[[str], bool]:
    # The first digit is the sex; others are given out for a while only, and rarely.
    return lambda number: number[:1] in ("1", "2") and valid(number)


def _national_numbers() -> tuple[NumberRule, ...]:
    raw = resources.files(__package__).joinpath("national_numbers.toml").read_text("utf-8")
    return tuple(
        NumberRule(
            name=name,
            why=f"It holds a personal number ({row['country']}).",
            valid=_validator(name),
            shapes=tuple(row.get("shapes", ())),
            bare=tuple(row.get("bare", ())),
            words=tuple(row.get("words", ())),
            is_telling=row.get("is_telling", False),
            match=tuple(row["match"]),
            not_match=tuple(row["not_match"]),
        )
        for name, row in tomllib.loads(raw).items()
    )


NATIONAL_NUMBERS = _national_numbers()


_DIGIT_CODE, _LETTER_CODE = ord("9"), ord("A")


def _kind(code: int) -> int:
    char = chr(code)
    if char.isdigit():
        return _DIGIT_CODE
    return _LETTER_CODE if char.isalpha() else code


_TABLE = bytes(map(_kind, range(128))) + bytes(range(128, 256))

# Numbers do not start or end inside a word, behind the first group of a bank account, or next to
# more of the same number.
_NOT_IN_A_WORD = "(?<![9A_].)"
_NOT_IN_A_NUMBER = r"(?<!A99 .)(?<![9A][-./+].)"
_BESIDE_A_WORD = "(?:" + "|".join(rf"(?<=[A?][^9A?]{{{gap}}}.)" for gap in range(1, 5)) + ")"
_NOT_BEHIND = r"(?![9A_])(?![-./+]9)"


def shape_of(text: str) -> bytes:
    """The shape, with one byte for each character of the text."""
    # No-break spaces separate the groups of a number as well as other spaces do.
    plain = text.replace("\u00a0", " ").replace("\u202f", " ")
    return plain.encode("ascii", "replace").translate(_TABLE)


def one_of(shapes: Iterable[bytes], *, beside_a_word: bool = False) -> re.Pattern[bytes]:
    """An expression for all these shapes, which prefers the longest at each place.

    Beside a word means that a word ends at most four characters before, as in `"id": "12"`.
    """
    written = [shape.decode("ascii") for shape in shapes]
    tree: dict[str, Any] = {}
    for shape in written:
        branch = tree
        for char in shape:
            branch = branch.setdefault(char, {})
        branch[""] = {}
    # The first character comes before the look behind: the engine skips to it quickly. Then most
    # numbers are left behind because they are shorter than any of the shapes.
    any_char = "".join(map(re.escape, sorted(set().union(*written))))
    is_long = f"(?=[{any_char}]{{{min(map(len, written)) - 1}}})"
    before = _NOT_IN_A_WORD + is_long + _NOT_IN_A_NUMBER
    before += _BESIDE_A_WORD if beside_a_word else ""
    ways = [re.escape(char) + before + _written(tree[char]) for char in _in_order(tree)]
    return re.compile("|".join(ways).encode("ascii"))


def _written(tree: dict[str, Any]) -> str:
    ways = [re.escape(char) + _written(tree[char]) for char in _in_order(tree)]
    if "" in tree:
        ways.append(_NOT_BEHIND)
    return ways[0] if len(ways) == 1 else f"(?:{'|'.join(ways)})"


def _in_order(tree: dict[str, Any]) -> list[str]:
    """The characters that go on, digits first, because they are the most frequent."""
    return sorted(filter(None, tree), key=lambda char: (char != "9", char))


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

    def __init__(self, rules: Iterable[GuardRule], *, named: bool) -> None:
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

    def places(self, text: str) -> list[RulePlace]:
        """Where personal data stands, in order and without overlaps."""
        return without_overlaps(self._found(text))

    def _found(self, text: str) -> Iterator[RulePlace]:
        shape = shape_of(text)
        for number, place in enumerate(self._candidates(text, shape)):
            if number >= MOST_CANDIDATES:
                raise TooMuch
            if place:
                yield place

    def _candidates(self, text: str, shape: bytes) -> Iterator[RulePlace | None]:
        """Every candidate that is examined, as a place if it turned out to be one."""
        if IBAN in self._rules:
            yield from _ibans(text, shape)
        yield from self._numbers(text, shape)
        if self._find_bare:
            yield from self._numbers_beside_words(text, shape)
            yield self._number_alone(text, shape)
        if EMAIL in self._rules:
            yield from (RulePlace(start, end, EMAIL) for start, end in emails(text, shape))
        if PHONE in self._rules:
            yield from (RulePlace(*span, PHONE) for span in international_numbers(shape))

    def _numbers(self, text: str, shape: bytes) -> Iterator[RulePlace | None]:
        for literals, expression in self._find_certain:
            if any(literal in shape for literal in literals):
                for place in expression.finditer(shape):
                    yield _first_valid(self._certain[place[0]], text, place.span())

    def _numbers_beside_words(self, text: str, shape: bytes) -> Iterator[RulePlace | None]:
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

    def _number_alone(self, text: str, shape: bytes) -> RulePlace | None:
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


def _first_valid(rules: Iterable[NumberRule], text: str, span: tuple[int, int]) -> RulePlace | None:
    written = text[slice(*span)]
    return next((RulePlace(*span, rule) for rule in rules if rule.valid(written)), None)


def _ibans(text: str, shape: bytes) -> Iterator[RulePlace | None]:
    for place in _IBAN.finditer(shape):
        start, end = place.span()
        # The pattern may have taken the words behind for the last groups of the number.
        while end - start >= _SHORTEST_IBAN and not IBAN.valid(text[start:end]):
            end = shape.rfind(b" ", start, end)
        yield RulePlace(start, end, IBAN) if end - start >= _SHORTEST_IBAN else None


NAME = "pii"
RULES: tuple[GuardRule, ...] = (CARD, IBAN, *NATIONAL_NUMBERS, EMAIL, PHONE)
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


TOO_MUCH = GuardRule(
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


_LONGEST_SHAPE = max(
    len(shape) for rule in RULES if isinstance(rule, NumberRule) for shape in (*rule.bare, "")
)


def settled(text: str) -> int:
    """Up to where what is found cannot change any more: no number goes on over a line's end."""

    def allows(place: int) -> bool:
        """A text that is a number and nothing else means more than one in which it stands."""
        return len(text[:place].strip()) > _LONGEST_SHAPE

    return last_cut(text, len(text), allows)


@lru_cache(maxsize=64)
def _search_for(entities: tuple[str, ...]) -> PiiSearch:
    return PiiSearch([rule for rule in RULES if rule.name in entities], named=True)


def _finds(rule: GuardRule, text: str) -> bool:
    # One entity at a time, but as if it had not been asked for by name: the stricter case.
    return bool(PiiSearch([rule], named=False).places(text))


def _is_too_much(text: str) -> bool:
    return TOO_MUCH.name in {each.rule for each in check(Subject(text), PiiOptions()).findings}


def _prove() -> None:
    proven(RULES, _finds)
    proven(OTHER_RULES, lambda _, text: _is_too_much(text))


PROOF = Proof(_prove)
